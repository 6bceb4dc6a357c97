"""Further functions of dates and timestamps: parts and units beyond year to second, ages, bins, differences,
construction.

A century begins with its year 1: 2001 is the first year of the 21st, 2000 the last of the 20th (PostgreSQL).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ....errors import DataError, NumericOutOfRange
from ....model.types import DATE, TIMESTAMP, DataType, Kind
from ....model.vectors.vector import Array, Const, Flat, Vector
from ..numbers.bounded_integers import floats, integers, joined_validity
from . import intervals
from .temporal import (
    DAY,
    FIRST_DAY,
    LAST_DAY,
    add_months,
    days_of,
    first_days,
    from_days,
    iso_thursdays,
    months_of,
    part,
)

_YEARS = {"decade": (10, 0), "century": (100, 1), "millennium": (1000, 1)}
_JULIAN_EPOCH = 2_440_588
"""The Julian day number of 1970-01-01."""


def micros_of(moment: Vector) -> Array:
    """Return microseconds since 1970-01-01, int64."""
    values = np.broadcast_to(np.asarray(integers(moment), np.int64), (len(moment),))
    return values * DAY if moment.type.kind is Kind.DATE else values


def further_part(name: str, type_: DataType, arg: Vector) -> Vector:
    """Return the parts that `times.temporal.part` does not have; those with fractions are DECIMALs in microseconds or
    less."""
    if arg.type.kind is Kind.INTERVAL:
        return intervals.epoch(type_, arg) if name == "epoch" else intervals.part(name, type_, arg)
    if name in ("epoch", "seconds", "milliseconds", "microseconds"):
        micros = micros_of(arg)
        if name == "epoch":
            return Flat(type_, micros // 1_000_000 if type_.is_integer else micros, arg.validity)
        return Flat(type_, micros % 60_000_000, arg.validity)
    days = days_of(arg)
    if name == "isodow":
        values = (days + 3) % 7 + 1
    elif name == "isoyear":
        values = months_of(iso_thursdays(days)) // 12 + 1970
    elif name == "julian":
        values = days + _JULIAN_EPOCH
    else:
        years = months_of(days) // 12 + 1970
        size, first = _YEARS[name]
        values = years // size if not first else (years + size - 1) // size
    return Flat(type_, values.astype(np.int64, copy=False), arg.validity)


def date_part(name: str) -> Callable[..., Vector]:
    """Return the kernel of a part, for any argument type."""

    def kernel(type_: DataType, arg: Vector) -> Vector:
        if arg.type.kind is Kind.INTERVAL or name in FURTHER_PARTS:
            return further_part(name, type_, arg)
        return part(name, type_, arg)

    return kernel


FURTHER_PARTS = ("millennium", "century", "decade", "isoyear", "isodow", "julian", "epoch", "seconds", "milliseconds",
                 "microseconds")  # fmt: skip


def truncate_years(type_: DataType, unit: str, arg: Vector) -> Vector:
    """`date_trunc` to a decade, century or millennium."""
    size, first = _YEARS[unit]
    years = months_of(days_of(arg)) // 12 + 1970
    start = (years - first) // size * size + first
    return from_days(type_, first_days((start - 1970) * 12), 0, arg.validity)


def truncate_interval(type_: DataType, unit: str, arg: Vector) -> Vector:
    """`date_trunc` of an INTERVAL."""
    months, days, micros = intervals.parts(arg)
    sizes = {"millennium": 12_000, "century": 1200, "decade": 120, "year": 12, "quarter": 3, "month": 1}
    small = {"hour": 3_600_000_000, "minute": 60_000_000, "second": 1_000_000, "milliseconds": 1000, "microseconds": 1}
    zero = np.zeros(len(arg), np.int64)
    if unit in sizes:
        months = np.sign(months) * (np.abs(months) // sizes[unit] * sizes[unit])
        return intervals.made(months, zero, zero, arg.validity, len(arg))
    if unit not in small:
        return intervals.made(months, days, zero, arg.validity, len(arg))
    return intervals.made(
        months, days, np.sign(micros) * (np.abs(micros) // small[unit] * small[unit]), arg.validity, len(arg)
    )


def last_day(type_: DataType, arg: Vector) -> Vector:
    """The last day of the month."""
    return from_days(type_, first_days(months_of(days_of(arg)) + 1) - 1, 0, arg.validity)


def shift_months(type_: DataType, arg: Vector, months: Vector) -> Vector:
    """Shift by `months` months, clipped to the month's end; the time of day stays."""
    validity = joined_validity(arg, months)
    steps = np.broadcast_to(np.asarray(integers(months), np.int64), (len(arg),))
    if bool((np.abs(steps if validity is None else steps[validity]) > 200_000).any()):
        raise NumericOutOfRange("adding the months leads outside the years 1 to 9999")
    steps = np.clip(steps, -200_000, 200_000)
    rest = micros_of(arg) % DAY
    return from_days(type_, add_months(days_of(arg), steps), rest, validity)


def age(type_: DataType, later: Vector, earlier: Vector) -> Vector:
    """Return the years, months, days and hours between two timestamps, in calendar units."""
    validity = joined_validity(later, earlier)
    a, b = micros_of(later), micros_of(earlier)
    sign = np.where(a < b, -1, 1)
    high, low = np.maximum(a, b), np.minimum(a, b)
    time = high % DAY - low % DAY
    borrowed = (time < 0).astype(np.int64)
    high_days, low_days = high // DAY, low // DAY
    day = high_days - first_days(months_of(high_days)) - (low_days - first_days(months_of(low_days))) - borrowed
    months = months_of(high_days) - months_of(low_days)
    # Missing days are borrowed from the earlier timestamp's month (PostgreSQL's timestamp_age).
    length = first_days(months_of(low_days) + 1) - first_days(months_of(low_days))
    missing = day < 0
    day = np.where(missing, day + length, day)
    months = months - missing
    return intervals.made(sign * months, sign * day, sign * (time + borrowed * DAY), validity, len(later))


def months_between(type_: DataType, later: Vector, earlier: Vector) -> Vector:
    """Months as Oracle counts them: whole ones if the days agree or both are the last, else 31sts of a month."""
    validity = joined_validity(later, earlier)
    a, b = days_of(later), days_of(earlier)
    month_a, month_b = months_of(a), months_of(b)
    day_a, day_b = a - first_days(month_a) + 1, b - first_days(month_b) + 1
    both_last = (first_days(month_a + 1) - 1 == a) & (first_days(month_b + 1) - 1 == b)
    rest = (day_a - day_b) + (micros_of(later) % DAY - micros_of(earlier) % DAY) / DAY
    return Flat(type_, month_a - month_b + np.where(both_last | (day_a == day_b), 0.0, rest / 31), validity)


def difference(type_: DataType, unit: Vector, start: Vector, end: Vector) -> Vector:
    """`datediff(unit, start, end)`: the number of beginnings of the unit between the two."""
    assert isinstance(unit, Const)
    validity = joined_validity(start, end)
    values = _ordinal(unit.value, end) - _ordinal(unit.value, start)
    return Flat(type_, values, validity)


def _ordinal(unit: str, moment: Vector) -> Array:
    sizes = {"hour": 3_600_000_000, "minute": 60_000_000, "second": 1_000_000, "milliseconds": 1000, "microseconds": 1}
    if unit in sizes:
        return micros_of(moment) // sizes[unit]
    days = days_of(moment)
    if unit == "day":
        return days
    if unit == "week":
        return (days + 3) // 7
    months = months_of(days)
    if unit in _YEARS:
        size, first = _YEARS[unit]
        return (months // 12 + 1970 - first) // size
    return months // {"month": 1, "quarter": 3, "year": 12}[unit]


def date_bin(type_: DataType, stride: Vector, moment: Vector, origin: Vector) -> Vector:
    """Return the start of the bin of `stride` that holds the timestamp, bins counted from `origin`."""
    validity = joined_validity(stride, moment, origin)
    months, days, micros = intervals.parts(stride)
    present = np.ones(len(moment), np.bool_) if validity is None else validity
    if bool((present & (months != 0)).any()):
        raise DataError("date_bin takes no months or years: they have no fixed length")
    # Beyond all years, the length of the stride makes no difference.
    most = 2 * (LAST_DAY - FIRST_DAY)
    size = np.clip(days, -most, most) * DAY + np.clip(micros, -most * DAY, most * DAY)
    if bool((present & (size <= 0)).any()):
        raise DataError("date_bin needs a stride above zero")
    start = micros_of(origin)
    values = start + (micros_of(moment) - start) // np.maximum(size, 1) * size
    return from_days(type_, values // DAY, values % DAY, validity)


# ---- making --------------------------------------------------------------------------------------------------------


def _day_numbers(year: Vector, month: Vector, day: Vector, validity: Array | None) -> Array:
    length = len(year)
    y, m, d = (np.broadcast_to(np.asarray(integers(v), np.int64), (length,)) for v in (year, month, day))
    present = np.ones(length, np.bool_) if validity is None else validity
    good = (y >= 1) & (y <= 9999) & (m >= 1) & (m <= 12) & (d >= 1)
    start = first_days(np.where(good, (y - 1970) * 12 + m - 1, 0))
    end = first_days(np.where(good, (y - 1970) * 12 + m, 1))
    good &= d <= end - start
    if bool((present & ~good).any()):
        row = int(np.argmax(present & ~good))
        raise NumericOutOfRange(f"there is no date {y[row]}-{m[row]:02d}-{d[row]:02d}")
    return np.asarray(start + d - 1)


def make_date(type_: DataType, year: Vector, month: Vector, day: Vector) -> Vector:
    """Make the date of a year, month and day."""
    validity = joined_validity(year, month, day)
    return from_days(DATE, _day_numbers(year, month, day, validity), 0, validity)


def make_timestamp(type_: DataType, *args: Vector) -> Vector:
    """Make the timestamp of year, month, day, hour, minute and second (a DOUBLE)."""
    year, month, day, hour, minute, second = args
    validity = joined_validity(*args)
    days = _day_numbers(year, month, day, validity)
    h, m = (np.broadcast_to(np.asarray(integers(v), np.int64), (len(year),)) for v in (hour, minute))
    s = np.broadcast_to(np.asarray(floats(second), np.float64), (len(year),))
    present = np.ones(len(year), np.bool_) if validity is None else validity
    good = (h >= 0) & (h <= 24) & (m >= 0) & (m < 60) & (s >= 0) & (s < 61)
    if bool((present & ~good).any()):
        row = int(np.argmax(present & ~good))
        raise NumericOutOfRange(f"there is no time {h[row]:02d}:{m[row]:02d}:{s[row]:g}")
    micros = h * 3_600_000_000 + m * 60_000_000 + np.rint(np.where(good, s, 0) * 1_000_000).astype(np.int64)
    return from_days(TIMESTAMP, days + micros // DAY, micros % DAY, validity)


def make_interval(type_: DataType, *args: Vector) -> Vector:
    """Make the interval of years, months, weeks, days, hours, minutes and seconds (a DOUBLE)."""
    validity = joined_validity(*args)
    length = len(args[0])
    years, months, weeks, days, hours, minutes = (
        np.broadcast_to(np.asarray(integers(v), np.int64), (length,)) for v in args[:6]
    )
    seconds = np.rint(np.broadcast_to(np.asarray(floats(args[6]), np.float64), (length,)) * 1_000_000)
    micros = hours * 3_600_000_000 + minutes * 60_000_000 + seconds.astype(np.int64)
    return intervals.made(years * 12 + months, weeks * 7 + days, micros, validity, length)


def from_epoch(type_: DataType, seconds: Vector) -> Vector:
    """`to_timestamp(seconds)`: seconds since 1970-01-01 in UTC."""
    values = np.broadcast_to(np.asarray(floats(seconds), np.float64), (len(seconds),))
    good = (values >= FIRST_DAY * 86400.0) & (values < (LAST_DAY + 1) * 86400.0)
    present = good if seconds.validity is None else good | ~seconds.validity
    if not bool(present.all()):
        raise NumericOutOfRange(f"{values[np.argmin(present)]} seconds lead outside the years 1 to 9999")
    if not seconds.type.is_float:
        unit = 10 ** (seconds.type.scale or 0)
        values_ = seconds.values()
        exact: Any = values_ if values_.dtype == object else values_.astype(np.int64)
        micros = exact * (1_000_000 // unit) if unit <= 1_000_000 else exact // (unit // 1_000_000)
        return Flat(type_, np.where(good, micros, 0).astype(np.int64), seconds.validity)
    return Flat(type_, np.rint(np.where(good, values, 0) * 1_000_000).astype(np.int64), seconds.validity)


KERNELS: dict[str, Callable[..., Vector]] = {
    "last_day": last_day,
    "add_months": shift_months,
    "months_between": months_between,
    "age": age,
    "datediff": difference,
    "date_bin": date_bin,
    "make_date": make_date,
    "make_timestamp": make_timestamp,
    "make_interval": make_interval,
    "from_epoch": from_epoch,
    "interval_length": lambda type_, arg: intervals.length(arg),
    "interval_add": lambda type_, left, right: intervals.add(left, right, 1),
    "interval_sub": lambda type_, left, right: intervals.add(left, right, -1),
    "interval_neg": lambda type_, arg: intervals.negate(arg),
    "interval_mul": lambda type_, span, factor: intervals.scale(span, factor, divided=False),
    "interval_div": lambda type_, span, factor: intervals.scale(span, factor, divided=True),
    "interval_between": lambda type_, later, earlier: intervals.between(later, earlier),
    **{
        name: (lambda n: lambda type_, arg: intervals.justify(n, arg))(name)
        for name in ("justify_hours", "justify_days", "justify_interval")
    },
}
