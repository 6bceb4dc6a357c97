"""Dates and timestamps: parts, truncation, and shifting by intervals.

Calendar arithmetic runs on numpy's datetime64 (proleptic Gregorian, as in PostgreSQL). Shifting by months clips to the
month's end: January 31 plus a month is February 28 or 29.

A function of days or months is computed once for each value in the range of a batch if that is short (`per_value`): the
timestamps of a batch lie on far fewer days than it has rows.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial, wraps
from typing import Any

import numpy as np

from ....errors import NumericOutOfRange
from ....model.types import DataType, Kind
from ....model.vectors.vector import Array, Flat, Vector
from ..numbers.bounded_integers import integers, joined_validity
from .intervals import parts as interval_parts

DAY = 86_400_000_000
"""Microseconds."""
_UNITS = {"hour": 3_600_000_000, "minute": 60_000_000, "second": 1_000_000, "milliseconds": 1000, "microseconds": 1}
FIRST_DAY, LAST_DAY = -719_162, 2_932_896
"""0001-01-01 and 9999-12-31, the years that Python's dates have."""
_MONDAY = 4
"""1970-01-05, days after the epoch."""


_RANGE_SHARE = 4
"""The range of the values must be at most this share of their number, a quarter, for a table of results."""


def per_value(function: Callable[[Array], Array]) -> Callable[[Array], Array]:
    """Return a function of integers that computes each integer in their range once, if the range is short."""

    @wraps(function)
    def computed(values: Array) -> Array:
        if len(values) < _RANGE_SHARE:
            return function(values)
        low, high = int(values.min()), int(values.max())
        if (high - low + 1) * _RANGE_SHARE > len(values):
            return function(values)
        result: Array = function(np.arange(low, high + 1)).take(values - low)
        return result

    return computed


def days_of(vector: Vector) -> Array:
    """Return days since 1970-01-01, int64."""
    values = np.asarray(integers(vector))
    values = np.broadcast_to(values, (len(vector),))
    return values if vector.type.kind is Kind.DATE else values // DAY


def rest_of(moment: Vector) -> Any:
    """Return microseconds since the beginning of the day; 0 for dates."""
    if moment.type.kind is Kind.DATE:
        return 0
    return np.broadcast_to(np.asarray(integers(moment)), (len(moment),)) % DAY


def _dates(days: Array) -> Any:
    return days.astype("datetime64[D]")


def part(name: str, type_: DataType, arg: Vector) -> Vector:
    """Return year, quarter, month, week, day, dow, doy, hour, minute or second."""
    if name in ("hour", "minute", "second"):
        micros = np.broadcast_to(np.asarray(integers(arg)), (len(arg),)) % DAY
        divisor, size = {"hour": (3_600_000_000, 24), "minute": (60_000_000, 60), "second": (1_000_000, 60)}[name]
        return Flat(type_, micros // divisor % size, arg.validity, 0, 59)
    values = per_value(partial(_date_part, name))(days_of(arg))
    return Flat(type_, values.astype(np.int64, copy=False), arg.validity)


def _date_part(name: str, days: Array) -> Array:
    dates = _dates(days)
    if name == "year":
        return np.asarray(dates.astype("datetime64[Y]").astype(np.int64) + 1970)
    if name in ("month", "quarter"):
        month = dates.astype("datetime64[M]").astype(np.int64) % 12
        return np.asarray(month + 1 if name == "month" else month // 3 + 1)
    if name == "day":
        return np.asarray((dates - dates.astype("datetime64[M]")).astype(np.int64) + 1)
    if name == "doy":
        return np.asarray((dates - dates.astype("datetime64[Y]")).astype(np.int64) + 1)
    if name == "dow":
        return np.asarray((days + 4) % 7)
    thursday = _dates(iso_thursdays(days))
    return np.asarray((thursday - thursday.astype("datetime64[Y]")).astype(np.int64) // 7 + 1)


def iso_thursdays(days: Array) -> Array:
    """Return the Thursday of each day's week: ISO 8601 assigns a week to the year of its Thursday."""
    return np.asarray(days - (days - _MONDAY) % 7 + 3)


@per_value
def months_of(days: Array) -> Array:
    """Return months since 1970-01, int64."""
    return np.asarray(_dates(days).astype("datetime64[M]").astype(np.int64))


def truncate(type_: DataType, unit: str, arg: Vector) -> Vector:
    """`date_trunc(unit, arg)`: the start of the unit that holds the timestamp."""
    size = _UNITS.get(unit)
    if size is not None:
        micros = np.broadcast_to(np.asarray(integers(arg)), (len(arg),))
        return Flat(type_, micros - micros % size, arg.validity)
    days = days_of(arg)
    if unit == "week":
        days = days - (days - _MONDAY) % 7
    elif (step := {"month": 1, "quarter": 3, "year": 12}.get(unit)) is not None:
        months = months_of(days)
        days = first_days(months - months % step)
    return from_days(type_, days, 0, arg.validity)


@per_value
def first_days(months: Array) -> Array:
    """Return the first day of months counted since 1970-01."""
    return np.asarray(months.astype("datetime64[M]").astype("datetime64[D]").astype(np.int64))


def from_days(type_: DataType, days: Array, micros: Any, validity: Array | None) -> Vector:
    """Make a DATE or TIMESTAMP (with `micros` of the day) from days since 1970; raises `NumericOutOfRange` outside the
    years."""
    present = days if validity is None else days[validity]
    if len(present) and (present.min() < FIRST_DAY or present.max() > LAST_DAY):
        raise NumericOutOfRange(f"a {type_} outside the years 1 to 9999 is not supported")
    if type_.kind is Kind.DATE:
        return Flat(type_, days.astype(np.int32), validity)
    return Flat(type_, days * DAY + micros, validity)


def shift(type_: DataType, moment: Vector, span: Vector, sign: int) -> Vector:
    """Compute DATE or TIMESTAMP plus (`sign` 1) or minus (-1) an INTERVAL or a number of days."""
    validity = joined_validity(moment, span)
    days, rest = days_of(moment), rest_of(moment)
    if span.type.kind is not Kind.INTERVAL:
        return from_days(type_, days + sign * np.asarray(integers(span)), rest, validity)
    months, more_days, micros = interval_parts(span)
    if np.any(months):
        days = add_months(days, sign * months)
    total = rest + sign * micros
    return from_days(type_, days + sign * more_days + total // DAY, total % DAY, validity)


def add_months(days: Array, months: Any) -> Array:
    """Shift days since the epoch by `months` months; clipped to the month's end."""
    steps = np.asarray(months)
    if steps.ndim and len(steps) and bool((steps == steps[0]).all()):
        return per_value(partial(_add_months, months=int(steps[0])))(days)
    return _add_months(days, months)


def _add_months(days: Array, months: Any) -> Array:
    month = months_of(days)
    within = days - first_days(month)
    target = month + months
    first = first_days(target)
    return np.asarray(first + np.minimum(within, first_days(target + 1) - first - 1))
