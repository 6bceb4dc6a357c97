"""Intervals: sums, multiples, differences of timestamps, and their length for comparisons.

An INTERVAL is three separate numbers (months, days, microseconds), as in PostgreSQL, because months and days differ in
length. If one number is needed, in comparisons and ORDER BY, a month counts 30 days and a day 24 hours.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ....errors import DivisionByZero, NumericOutOfRange
from ....model.types import BIGINT, INTERVAL, INTERVAL_DTYPE, DataType, Kind
from ....model.vectors.vector import Array, Const, Flat, Vector
from ..numbers.bounded_integers import INT32, INT64, floats, integers, joined_validity, scale_of

DAY = 86_400_000_000
"""Microseconds."""
DAYS_PER_MONTH = 30
_PARTS = ("months", "days", "microseconds")


def parts(span: Vector) -> tuple[Array, Array, Array]:
    """Return months, days and microseconds, int64, shape (n_rows,)."""
    values = span.values()
    months, days, micros = (np.asarray(values[name]).astype(np.int64) for name in _PARTS)
    return months, days, micros


def made(months: Any, days: Any, micros: Any, validity: Array | None, length: int) -> Vector:
    """Make intervals of these parts (int64 arrays or numbers); raises `NumericOutOfRange` if months or days exceed 32
    bits."""
    values = np.empty(length, INTERVAL_DTYPE)
    for name, part in zip(_PARTS, (months, days, micros)):
        if name != "microseconds":
            present = np.broadcast_to(part, (length,))
            present = present if validity is None else present[validity]
            if len(present) and not INT32[0] <= int(present.min()) <= int(present.max()) <= INT32[1]:
                raise NumericOutOfRange(f"an INTERVAL has more than {INT32[1]} {name}")
            if validity is not None:
                part = np.where(validity, part, 0)
        values[name] = part
    return Flat(INTERVAL, values, validity)


def add(left: Vector, right: Vector, sign: int) -> Vector:
    """Compute the sum (`sign` 1) or difference (-1), part by part."""
    validity = joined_validity(left, right)
    (a, b, c), (d, e, f) = parts(left), parts(right)
    micros = c + sign * f
    _refuse_overflow(c.astype(np.float64) + sign * f.astype(np.float64), validity)
    return made(a + sign * d, b + sign * e, micros, validity, len(left))


def negate(span: Vector) -> Vector:
    """Unary minus."""
    months, days, micros = parts(span)
    return made(-months, -days, -micros, span.validity, len(span))


def _refuse_overflow(micros: Array, validity: Array | None) -> None:
    large = np.abs(micros) >= 2.0**63
    if bool((large if validity is None else large & validity).any()):
        raise NumericOutOfRange("an INTERVAL has more hours than 64 bits of microseconds hold")


def scale(span: Vector, factor: Vector, divided: bool) -> Vector:
    """Compute `span * factor` or `span / factor`; fractions of months go to days, fractions of days to hours."""
    validity = joined_validity(span, factor)
    number = np.broadcast_to(np.asarray(floats(factor)), (len(span),))
    if divided:
        zero = number == 0
        if bool((zero if validity is None else zero & validity).any()):
            raise DivisionByZero("division of an INTERVAL by zero")
    months, days, micros = parts(span)
    exact = _exact_factor(factor)
    if exact and not divided:
        whole = np.broadcast_to(np.asarray(integers(factor)), (len(span),))
        _refuse_overflow(micros * number, validity)
        return made(months * whole, days * whole, micros * whole, validity, len(span))
    with np.errstate(all="ignore"):
        scaled = [np.divide(part, number) if divided else part * number for part in (months, days, micros)]
        all_months, all_days, all_micros = scaled
        whole_months, whole_days = np.trunc(all_months), np.trunc(all_days)
        more_days = np.round((all_months - whole_months) * DAYS_PER_MONTH, 6)
        seconds = np.round((all_days - whole_days + more_days - np.trunc(more_days)) * 86400, 6)
        carried = np.trunc(seconds / 86400)
        total_days = whole_days + np.trunc(more_days) + carried
        total_micros = np.rint(all_micros + (seconds - carried * 86400) * 1_000_000)
        for part in (whole_months, total_days, total_micros):
            _refuse_not_finite(part, validity)
    _refuse_overflow(total_micros, validity)
    found = [np.nan_to_num(part).astype(np.int64) for part in (whole_months, total_days, total_micros)]
    return made(found[0], found[1], found[2], validity, len(span))


def _exact_factor(factor: Vector) -> bool:
    return factor.type.is_integer or (factor.type.is_decimal and scale_of(factor.type) == 0)


def _refuse_not_finite(values: Array, validity: Array | None) -> None:
    odd = ~np.isfinite(values)
    if bool((odd if validity is None else odd & validity).any()):
        raise NumericOutOfRange("an INTERVAL cannot be multiplied or divided to infinity")


def between(later: Vector, earlier: Vector) -> Vector:
    """TIMESTAMP - TIMESTAMP: whole days and the rest, both of one sign."""
    validity = joined_validity(later, earlier)
    distance = _micros(later) - _micros(earlier)
    days = np.sign(distance) * (np.abs(distance) // DAY)
    return made(0, days, distance - days * DAY, validity, len(later))


def _micros(moment: Vector) -> Array:
    values = np.broadcast_to(np.asarray(integers(moment)), (len(moment),))
    return values * DAY if moment.type.kind is Kind.DATE else values


def length(span: Vector) -> Vector:
    """Length in microseconds, for comparisons; a month counts 30 days."""
    months, days, micros = parts(span)
    all_days = months * DAYS_PER_MONTH + days
    most = int(np.abs(all_days).max(initial=0)) * DAY + int(np.abs(micros).max(initial=0))
    if most > INT64[1]:
        _refuse_overflow(all_days * float(DAY) + micros, span.validity)
    return Flat(BIGINT, all_days * DAY + micros, span.validity)


def sortable(vector: Vector) -> Vector:
    """Return the sort and group key of a vector: the length of INTERVALs, other vectors unchanged."""
    if vector.type.kind is not Kind.INTERVAL or isinstance(vector, Const):
        return vector
    return length(vector)


def epoch(type_: DataType, span: Vector) -> Vector:
    """Length in microseconds as EXTRACT(epoch) counts it: a year has 365.25 days, each further month 30."""
    months, days, micros = parts(span)
    years = np.sign(months) * (np.abs(months) // 12)
    all_hours = years * 8766 + ((months - 12 * years) * DAYS_PER_MONTH + days) * 24
    _refuse_overflow(all_hours * 3.6e9 + micros, span.validity)
    return Flat(type_, all_hours * 3_600_000_000 + micros, span.validity)


def truncated(values: Array, unit: int) -> Array:
    """Number of whole units, rounded towards zero."""
    return np.asarray(np.sign(values) * (np.abs(values) // unit))


def part(name: str, type_: DataType, span: Vector) -> Vector:
    """EXTRACT of an INTERVAL; months count within the year, hours are not limited to a day."""
    months, days, micros = parts(span)
    years = np.sign(months) * (np.abs(months) // 12)
    within = np.sign(micros) * (np.abs(micros) % 60_000_000)
    readers: dict[str, Callable[[], Array]] = {
        "millennium": lambda: truncated(years, 1000),
        "century": lambda: truncated(years, 100),
        "decade": lambda: truncated(years, 10),
        "year": lambda: years,
        "quarter": lambda: truncated(months - 12 * years, 3) + 1,
        "month": lambda: months - 12 * years,
        "day": lambda: days,
        "hour": lambda: truncated(micros, 3_600_000_000),
        "minute": lambda: np.sign(micros) * (np.abs(micros) // 60_000_000 % 60),
        "second": lambda: truncated(within, 1_000_000),
        "seconds": lambda: within,
        "milliseconds": lambda: within,
        "microseconds": lambda: within,
    }
    return Flat(type_, readers[name](), span.validity)


def justify(name: str, span: Vector) -> Vector:
    """justify_hours, justify_days or justify_interval: 24 hours to a day, 30 days to a month, signs made equal."""
    months, days, micros = parts(span)
    if name != "justify_days":
        days, micros = _carried(days, micros, DAY)
    if name != "justify_hours":
        months, days = _carried(months, days, DAYS_PER_MONTH)
        # The rest below a month has the sign of its days, or of its hours if it has no days.
        rest = days if name == "justify_days" else np.where(days != 0, days, micros)
        step = _against(months, rest)
        months, days = months + step, days - step * DAYS_PER_MONTH
    if name != "justify_days":
        step = _against(days, micros)
        days, micros = days + step, micros - step * DAY
    return made(months, days, micros, span.validity, len(span))


def _carried(large: Array, small: Array, size: int) -> tuple[Array, Array]:
    whole = np.sign(small) * (np.abs(small) // size)
    return large + whole, small - whole * size


def _against(large: Array, small: Array) -> Array:
    """Step of `large` towards zero if the two have different signs, else 0."""
    return np.where((large > 0) & (small < 0), -1, np.where((large < 0) & (small > 0), 1, 0))
