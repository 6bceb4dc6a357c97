"""Conversion of vectors to integer arrays with proven bounds, and back.

Exact arithmetic runs in three widths. It uses int32 if interval arithmetic on the bounds proves that all results fit,
else int64, else arbitrary Python integers (object arrays). The latter are a hundred times slower but rare: proven or
measured bounds keep 18-digit data out of them. Results that fit are returned as `Flat`, others as `Wide`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ....errors import NumericOutOfRange
from ....model.types import INTEGER_WIDTHS, DataType, Interval, Kind
from ....model.vectors.vector import Array, Const, Flat, Narrow, Vector, Wide, decimal_from_limbs, decimal_limbs
from .limbs import LIMB_BITS, LIMB_MASK, Limbs, as_floats, halves_of_limbs, limbs_of_halves, limbs_of_integer

INT32 = (-(2**31), 2**31 - 1)
INT64 = (-(2**63), 2**63 - 1)

Bounds = tuple[int, int]


def fits(bounds: Bounds, limits: Bounds) -> bool:
    """True if the bounds lie within the limits."""
    return limits[0] <= bounds[0] and bounds[1] <= limits[1]


def scale_of(type_: DataType) -> int:
    """Number of digits after the point; 0 for types other than decimals."""
    return type_.scale or 0


def limits_of(type_: DataType) -> Bounds:
    """Least and greatest physical value of an integer-like type."""
    if type_.is_decimal:
        assert type_.precision is not None
        most = 10**type_.precision - 1
        return -most, most
    if type_.kind is Kind.BOOLEAN:
        return 0, 1
    bits = 8 * INTEGER_WIDTHS.get(type_.kind, 4 if type_.kind is Kind.DATE else 8) - 1
    return -(1 << bits), (1 << bits) - 1


def joined_validity(*vectors: Vector) -> Array | None:
    """Mask that is True where every vector has a value; None if no vector has a NULL."""
    result: Array | None = None
    for vector in vectors:
        validity = vector.validity
        if validity is not None:
            result = validity if result is None else result & validity
    return result


def integers(vector: Vector, dtype: Any = np.int64) -> Any:
    """Return the physical values as an array of `dtype`, or a Python int for a `Const`; the caller proved that they
    fit."""
    if isinstance(vector, Const):
        return 0 if vector.value is None else int(vector.value)
    if isinstance(vector, Narrow):
        values = vector.codes.astype(dtype)
        if vector.base:
            values += np.array(vector.base).astype(dtype)
        return values
    if isinstance(vector, Wide):
        return vector.values().astype(dtype)
    return vector.values().astype(dtype, copy=False)


def objects(vector: Vector) -> Array:
    """Return the physical values as Python ints in an object array."""
    if isinstance(vector, Const):
        result = np.empty(len(vector), object)
        result[:] = 0 if vector.value is None else int(vector.value)
        return result
    return vector.values().astype(object)


def known_bounds(vector: Vector) -> Bounds | None:
    """Bounds of a vector's present values that are proven without reading them; None for wide decimals and the like."""
    return None if isinstance(vector, Wide) else vector.bounds()


def measured_bounds(vector: Vector) -> Bounds:
    """Least and greatest present value, by reading them; (0, 0) if there is none."""
    if isinstance(vector, Const):
        return vector.bounds() or (0, 0)
    values = vector.codes if isinstance(vector, Narrow) else vector.values()
    base = vector.base if isinstance(vector, Narrow) else 0
    if vector.validity is not None:
        values = values[vector.validity]
    if not len(values):
        return 0, 0
    return int(values.min()) + base, int(values.max()) + base


def narrowed(vector: Vector) -> Vector:
    """Return a wide vector as `Flat` int64 if its values allow that; others unchanged."""
    if not isinstance(vector, Wide):
        return vector
    return from_limbs(vector.type, limbs_of(vector), vector.validity)


def limbs_of(vector: Vector) -> Limbs:
    """Return exact numbers as carried limbs, 0 for NULLs: four of a `Wide` or `Const`, else two."""
    if isinstance(vector, Const):
        return tuple(np.full(len(vector), limb) for limb in limbs_of_integer(int(vector.value or 0)))
    if isinstance(vector, Wide):
        high, low = decimal_limbs(vector.array)
        if vector.validity is not None:
            high, low = np.where(vector.validity, high, 0), np.where(vector.validity, low, np.uint64(0))
        return limbs_of_halves(high, low)
    values = integers(vector)
    if vector.validity is not None:
        values = np.where(vector.validity, values, 0)
    return values >> LIMB_BITS, values & LIMB_MASK


def from_objects(type_: DataType, values: Array, validity: Array | None) -> Vector:
    """Make a vector of Python ints: `Flat` if all fit 64 bits, else `Wide`. Checks the type's range."""
    present = values if validity is None else values[validity]
    check_range(type_, (min(present), max(present)) if len(present) else (0, 0))
    return unchecked(type_, values, validity)


def unchecked(type_: DataType, values: Array, validity: Array | None) -> Vector:
    """`from_objects` for values that fit 128 bits, for any precision of the type."""
    if validity is not None:
        values = np.where(validity, values, 0)
    low, high = (min(values), max(values)) if len(values) else (0, 0)
    if fits((low, high), INT64):
        return Flat(type_, values.astype(np.int64), validity, int(low), int(high))
    high_limbs = (values >> 64).astype(np.int64)
    low_limbs = (values & (2**64 - 1)).astype(np.uint64)
    return Wide(type_, decimal_from_limbs(type_, high_limbs, low_limbs, validity))


def from_limbs(type_: DataType, limbs: Limbs, validity: Array | None) -> Vector:
    """Make a vector of integers in carried limbs: `Flat` if all fit 64 bits, else `Wide`. Checks the type's range."""
    high, low, held = halves_of_limbs(limbs)
    if validity is not None:
        high, low = np.where(validity, high, 0), np.where(validity, low, np.uint64(0))
        held |= ~validity
    if not held.all():
        beyond: Any = sum(limb[~held].astype(object) << LIMB_BITS * i for i, limb in enumerate(reversed(limbs)))
        check_range(type_, (min(beyond), max(beyond)))
    bounds = bounds_of_halves(high, low)
    check_range(type_, bounds)
    if fits(bounds, INT64):
        return Flat(type_, low.view(np.int64), validity, *bounds)
    return Wide(type_, decimal_from_limbs(type_, high, low, validity))


def bounds_of_halves(high: Array, low: Array) -> Bounds:
    """Least and greatest of the 128-bit integers; (0, 0) of none."""
    if not len(high):
        return 0, 0
    least, most = high.min(), high.max()
    return (int(least) << 64) + int(low[high == least].min()), (int(most) << 64) + int(low[high == most].max())


def check_range(type_: DataType, bounds: Bounds) -> None:
    """Raise `NumericOutOfRange` unless values within the bounds are values of the type."""
    low, high = limits_of(type_)
    if bounds[0] < low or bounds[1] > high:
        value = bounds[0] if bounds[0] < low else bounds[1]
        digits = f"{value / 10 ** scale_of(type_):.6g}" if type_.is_decimal else str(value)
        raise NumericOutOfRange(f"the result {digits} is out of range for {type_}")


def result(type_: DataType, values: Any, validity: Array | None, bounds: Bounds, length: int) -> Vector:
    """Make a vector of computed integers. If the proven bounds exceed the type's range, the values are checked."""
    if not isinstance(values, np.ndarray):
        check_range(type_, (int(values), int(values)))
        return Const(type_, int(values), length)
    if not fits(bounds, limits_of(type_)):
        bounds = measured_bounds(Flat(type_, values, validity))
        check_range(type_, bounds)
    return Flat(type_, values, validity, bounds[0], bounds[1])


def floats(vector: Vector) -> Any:
    """Return the values of any numeric vector as float64, or a Python float for a `Const`."""
    scale = scale_of(vector.type)
    if isinstance(vector, Const):
        value = 0 if vector.value is None else vector.value
        return float(value / 10**scale if scale else value)
    if isinstance(vector, Wide):
        high, low = decimal_limbs(vector.array)
        return as_floats(high.view(np.uint64), low) / 10.0**scale
    values = vector.values()
    wide = values.astype(np.float64, copy=False)
    return wide / 10.0**scale if scale else wide


def from_values(type_: DataType, values: Sequence[Any]) -> Vector:
    """Make a vector of physical values of any type but texts, None for NULL; one by one, so for small vectors."""
    present = np.array([v is not None for v in values], np.bool_)
    validity = None if present.all() else present
    if type_.is_decimal:
        column = np.empty(len(values), object)
        column[:] = [0 if v is None else v for v in values]
        return from_objects(type_, column, validity)
    zero: Any = Interval() if type_.kind is Kind.INTERVAL else 0
    return Flat(type_, np.array([zero if v is None else v for v in values], type_.dtype), validity)
