"""Values at which the frames of windows begin and end: a row's key plus or minus an offset.

Such a value is only compared with keys. So it may exceed the type's range, just beyond the largest or the least value:
`RANGE BETWEEN INTERVAL '1' DAY PRECEDING AND ...` also has a result for 0001-01-01.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ...errors import NumericOutOfRange
from ...model.types import DataType, Kind
from ...model.vectors.vector import Flat, Vector
from .numbers import arithmetic
from .numbers.bounded_integers import floats, joined_validity, limits_of, objects, unchecked
from .times.intervals import parts as interval_parts
from .times.temporal import DAY, FIRST_DAY, LAST_DAY, add_months, days_of, rest_of


def limit(type_: DataType, key: Vector, offset: Vector, sign: int) -> Vector:
    """Compute `key` plus (`sign` 1) or minus (-1) an offset of the same type, an INTERVAL for dates and timestamps."""
    if type_.kind in (Kind.DATE, Kind.TIMESTAMP):
        return _moment(type_, key, offset, sign)
    validity = joined_validity(key, offset)
    if type_.is_float:
        with np.errstate(all="ignore"):
            values = np.broadcast_to(floats(key) + sign * floats(offset), (len(key),))
        return Flat(type_, np.asarray(values, type_.dtype), validity)
    try:
        return arithmetic.operate("add" if sign > 0 else "sub", type_, key, offset)
    except NumericOutOfRange:
        most = 1 + limits_of(type_)[1]
        steps, values = objects(offset), objects(key)
        # An offset that the type does not hold is `saturated`: the result lies beyond every key.
        values = np.where(np.abs(steps) >= most, sign * steps, values + sign * steps)
        return unchecked(type_, np.clip(values, -most, most), validity)


def _moment(type_: DataType, key: Vector, span: Vector, sign: int) -> Vector:
    months, more_days, micros = interval_parts(span)
    days = add_months(days_of(key), sign * months)
    total = rest_of(key) + sign * (micros % DAY)
    days = days + sign * (more_days + micros // DAY) + total // DAY
    days = np.clip(days, FIRST_DAY - 1, LAST_DAY + 1)
    values = days.astype(np.int32) if type_.kind is Kind.DATE else days * DAY + total % DAY
    return Flat(type_, values, joined_validity(key, span))


KERNELS: dict[str, Callable[..., Vector]] = {
    "limit_before": lambda type_, key, offset: limit(type_, key, offset, -1),
    "limit_after": lambda type_, key, offset: limit(type_, key, offset, 1),
}
