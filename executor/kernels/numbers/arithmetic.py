"""Arithmetic over integers, exact decimals and floats.

The width of `+ - *` is chosen by proven bounds (`numbers`). Division of decimals is long division in int64: quotient
and remainder first, then k digits at a time such that `remainder * 10**k` fits 64 bits. So 16 digits after the point
cost three integer divisions and no wide arithmetic. Decimals round half away from zero, as PostgreSQL does.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ....errors import DataError, DivisionByZero, NumericOutOfRange
from ....model.types import DOUBLE, DataType
from ....model.vectors.vector import Array, Const, Flat, Vector, Wide
from .bounded_integers import (
    INT32,
    INT64,
    Bounds,
    fits,
    floats,
    from_objects,
    integers,
    joined_validity,
    known_bounds,
    measured_bounds,
    objects,
    result,
    scale_of,
)
from .wide_division import divide_wide, fraction_digits

_EXACT_FLOATS = (-(2**52), 2**52)
"""Integers whose truncated quotients float64 division computes."""

_OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
}


def _operated(operator: str, a: Bounds, b: Bounds) -> Bounds:
    """Apply interval arithmetic to two bounds."""
    if operator == "add":
        return a[0] + b[0], a[1] + b[1]
    if operator == "sub":
        return a[0] - b[1], a[1] - b[0]
    corners = [x * y for x in a for y in b]
    return min(corners), max(corners)


def operate(operator: str, type_: DataType, left: Vector, right: Vector) -> Vector:
    """Compute `add`, `sub` or `mul` of two numeric vectors."""
    if type_.is_float:
        return _float_result(type_, _OPERATORS[operator], left, right)
    left, right = _aligned(operator, type_, left, right)
    validity = joined_validity(left, right)
    a, b = known_bounds(left), known_bounds(right)
    bounds = None if a is None or b is None else _operated(operator, a, b)
    if a is None or b is None or bounds is None or not _all_fit(bounds, a, b):
        a, b = _tight(left), _tight(right)
        bounds = _operated(operator, a, b)
        if not _all_fit(bounds, a, b):
            values = _OPERATORS[operator](objects(left), objects(right))
            return from_objects(type_, values, validity)
    small = fits(bounds, INT32) and fits(a, INT32) and fits(b, INT32)
    dtype = np.int32 if small else np.int64
    values = _OPERATORS[operator](integers(left, dtype), integers(right, dtype))
    return result(type_, values, validity, bounds, len(left))


def _all_fit(result: Bounds, a: Bounds, b: Bounds) -> bool:
    """True if int64 suffices for the result and both operands. A product of 0 and a wide number is itself small."""
    return fits(result, INT64) and fits(a, INT64) and fits(b, INT64)


def _tight(vector: Vector) -> Bounds:
    if isinstance(vector, Wide):
        values = vector.values() if vector.validity is None else vector.values()[vector.validity]
        return (int(values.min()), int(values.max())) if len(values) else (0, 0)
    return measured_bounds(vector)


def _aligned(operator: str, type_: DataType, left: Vector, right: Vector) -> tuple[Vector, Vector]:
    """Bring both to the scale that the result needs; the binder does so already, hand-made plans may not."""
    if operator == "mul":
        return left, right
    scale = scale_of(type_)
    return rescale(type_, left, scale), rescale(type_, right, scale)


def rescale(type_: DataType, vector: Vector, scale: int) -> Vector:
    """Return an exact number with `scale` digits after the point, at least as many as it has."""
    missing = scale - scale_of(vector.type)
    if missing <= 0:
        return vector
    return operate("mul", type_, vector, Const(DataType(type_.kind, 38, missing), 10**missing, len(vector)))


def _float_result(type_: DataType, function: Callable[[Any, Any], Any], left: Vector, right: Vector) -> Vector:
    validity = joined_validity(left, right)
    with np.errstate(all="ignore"):
        values = function(floats(left), floats(right))
        return finished_floats(type_, values, validity, (left, right))


def finished_floats(type_: DataType, values: Any, validity: Array | None, inputs: tuple[Vector, ...]) -> Vector:
    """Make a float vector; raises `NumericOutOfRange` if finite inputs gave an infinite result."""
    array = np.asarray(values, type_.dtype)
    if array.ndim == 0:
        array = np.full(len(inputs[0]), array)
    infinite = np.isinf(array)
    if infinite.any():
        for vector in inputs:
            infinite &= np.isfinite(floats(vector))
        if validity is not None:
            infinite &= validity
        refuse_overflow(infinite, type_)
    return Flat(type_, array, validity)


def refuse_overflow(infinite: Array, type_: DataType = DOUBLE) -> None:
    """Raise `NumericOutOfRange` if a result computed from finite numbers is infinite."""
    if infinite.any():
        raise NumericOutOfRange(f"the result is out of range for {type_}")


# ---- division ----------------------------------------------------------------------------------------------------


def divide(type_: DataType, left: Vector, right: Vector) -> Vector:
    """`/`: integers truncate towards zero, decimals are rounded to the result's scale, floats divide."""
    validity = joined_validity(left, right)
    refuse_zero(right, validity)
    if type_.is_float:
        return _float_result(type_, _safe_divide, left, right)
    if type_.is_integer:
        return _quotient(type_, left, right, validity, 0)
    try:
        return _quotient(type_, left, right, validity, scale_of(type_) + scale_of(right.type) - scale_of(left.type))
    except NumericOutOfRange as error:
        advice = "CAST(a / b AS DECIMAL(38, 0)) has room for more digits before the point"
        raise NumericOutOfRange(f"{error}; {advice}" if scale_of(type_) else str(error)) from None


def _quotient(type_: DataType, left: Vector, right: Vector, validity: Array | None, shift: int) -> Vector:
    """`left * 10**shift / right` of exact numbers."""
    if shift == 0 and type_.is_integer:
        small = truncated_quotient(left, right)
        if small is not None:
            return result(type_, small, validity, INT64, len(left))
    a, b = _tight(left), _tight(right)
    if shift < 0 or not fits(a, INT64) or not fits(b, (-(10**17), 10**17)) or -(2**63) in a:
        return from_objects(type_, _divide_objects(left, right, validity, shift, not type_.is_integer), validity)
    numerator = _column(integers(left), len(left))
    denominator = _column(integers(right), len(left))
    quotient = divide_integers(numerator, denominator, validity, shift, rounded=not type_.is_integer)
    if quotient is None:
        wide = divide_wide(type_, numerator, denominator, validity, shift)
        if wide is not None:
            return wide
        return from_objects(type_, _divide_objects(left, right, validity, shift, True), validity)
    return result(type_, quotient, validity, INT64, len(left))


def truncated_quotient(left: Vector, right: Vector) -> Array | None:
    """Divide exact numbers of one scale in float64, truncated towards zero: int64; None if they may not be exact there.

    Below 2**52 the quotient of two integers that is not whole differs from every whole number by more than it is
    rounded. Where `right` is 0 the result is arbitrary. Processors divide several floats at a time, and integers one
    by one.
    """
    if isinstance(left, Wide) or isinstance(right, Wide):
        return None
    if not all(fits(_tight(vector), _EXACT_FLOATS) for vector in (left, right)):
        return None
    divisor = _column(integers(right), len(left))
    if not divisor.all():
        divisor = np.where(divisor == 0, 1, divisor)
    return np.true_divide(_column(integers(left), len(left)), divisor).astype(np.int64)


def _safe_divide(a: Any, b: Any) -> Any:
    return np.divide(a, b)


def _column(values: Any, length: int) -> Array:
    return values if isinstance(values, np.ndarray) else np.full(length, values, np.int64)


def refuse_zero(divisor: Vector, validity: Array | None) -> None:
    """Raise `DivisionByZero` if a divisor of a row without NULL is zero."""
    if isinstance(divisor, Const):
        zero = divisor.value == 0 and len(divisor) > 0 and (validity is None or bool(validity.any()))
    else:
        known = known_bounds(divisor)
        if known is not None and not known[0] <= 0 <= known[1]:
            return
        values = divisor.values()
        zeros = np.asarray(values == 0, np.bool_)
        zero = bool((zeros if validity is None else zeros & validity).any())
    if zero:
        raise DivisionByZero("division by zero; with NULLIF(divisor, 0) the result is NULL instead")


def divide_integers(
    numerator: Array, denominator: Array, validity: Array | None, shift: int, rounded: bool
) -> Array | None:
    """Compute numerator * 10**shift / denominator in int64, by long division; None if the quotient may not fit.

    The absolute value of `denominator` is below 10**17, and not zero if `validity` is True. Rounds half away from zero,
    or truncates.
    """
    ok = denominator != 0
    divisor = np.abs(np.where(ok, denominator, 1))
    rest = np.abs(numerator)
    quotient: Array = rest // divisor
    rest -= quotient * divisor
    most = int(quotient.max(initial=0) if validity is None else np.where(validity, quotient, 0).max(initial=0))
    if (most + 1) * 10**shift > INT64[1]:
        return None
    quotient = quotient * 10**shift + fraction_digits(rest, divisor, shift)
    if rounded:
        quotient += 2 * rest >= divisor
    # Without branches: random signs mispredict every second one.
    sign = (numerator ^ denominator) >> 63
    return np.asarray((quotient ^ sign) - sign)


def _divide_objects(left: Vector, right: Vector, validity: Array | None, shift: int, rounded: bool) -> Array:
    numerator, denominator = objects(left), objects(right)
    if shift >= 0:
        numerator = numerator * 10**shift
    else:
        denominator = denominator * 10**-shift
    denominator = np.where(denominator == 0, 1, denominator)
    size, divisor = np.abs(numerator), np.abs(denominator)
    quotient = (2 * size + divisor) // (2 * divisor) if rounded else size // divisor
    return np.where((numerator < 0) != (denominator < 0), -quotient, quotient)


def modulo(type_: DataType, left: Vector, right: Vector) -> Vector:
    """`%`: the remainder has the sign of the dividend."""
    validity = joined_validity(left, right)
    refuse_zero(right, validity)
    if type_.is_float:
        return _float_result(type_, np.fmod, left, right)
    scale = scale_of(type_)
    left, right = rescale(type_, left, scale), rescale(type_, right, scale)
    if not (fits(_tight(left), INT64) and fits(_tight(right), INT64)):
        a, b = objects(left), objects(right)
        size = np.abs(a) % np.where(b == 0, 1, np.abs(b))
        return from_objects(type_, np.where(a < 0, -size, size), validity)
    a, b = _column(integers(left), len(left)), _column(integers(right), len(left))
    values = np.fmod(a, np.where(b == 0, 1, b))
    return result(type_, values, validity, INT64, len(left))


# ---- one argument --------------------------------------------------------------------------------------------------


def negate(type_: DataType, arg: Vector) -> Vector:
    """Unary minus."""
    if type_.is_float:
        return Flat(type_, -arg.values(), arg.validity)
    return operate("sub", type_, Const(arg.type, 0, len(arg)), arg)


def absolute(type_: DataType, arg: Vector) -> Vector:
    """Absolute value."""
    if type_.is_float:
        return Flat(type_, np.abs(arg.values()), arg.validity)
    low, high = _tight(arg)
    if not fits((-high, -low), INT64):
        return from_objects(type_, np.abs(objects(arg)), arg.validity)
    values = np.abs(_column(integers(arg), len(arg)))
    return result(type_, values, arg.validity, (0, max(-low, high, 0)), len(arg))


def sign(type_: DataType, arg: Vector) -> Vector:
    """-1, 0 or 1."""
    values = arg.values()
    signs = (values > 0).astype(type_.dtype) - (values < 0).astype(type_.dtype)
    return Flat(type_, signs, arg.validity, -1, 1)


def whole(type_: DataType, arg: Vector, mode: str) -> Vector:
    """`floor`, `ceil` or `round` (half away from zero) of a decimal or float to the scale of `type_`."""
    if type_.is_float:
        with np.errstate(all="ignore"):
            function = {"floor": np.floor, "ceil": np.ceil, "round": np.rint}[mode]
            return Flat(type_, function(arg.values()), arg.validity)
    dropped = scale_of(arg.type) - scale_of(type_)
    if dropped <= 0:
        return _retyped(type_, arg)
    return cut(type_, arg, dropped, mode)


def _retyped(type_: DataType, arg: Vector) -> Vector:
    if isinstance(arg, Wide):
        return from_objects(type_, objects(arg), arg.validity)
    return result(type_, integers(arg), arg.validity, known_bounds(arg) or INT64, len(arg))


def cut(type_: DataType, arg: Vector, digits: int, mode: str) -> Vector:
    """Remove the last `digits` digits of an exact number; the result is a physical value of `type_`.

    `mode` is "floor", "ceil", "trunc" or "round" (half away from zero).
    """
    unit = 10**digits
    wide = isinstance(arg, Wide) or unit > INT64[1] // 4 or not fits(_tight(arg), (-(2**62), 2**62))
    values = objects(arg) if wide else _column(integers(arg), len(arg))
    if mode == "floor":
        values = values // unit
    elif mode == "trunc":
        size = np.abs(values) // unit
        values = np.where(values < 0, -size, size)
    elif mode == "ceil":
        values = -(-values // unit)
    else:
        size = (np.abs(values) + unit // 2) // unit
        values = np.where(values < 0, -size, size)
    if wide:
        return from_objects(type_, values, arg.validity)
    return result(type_, values, arg.validity, INT64, len(arg))


def round_to(type_: DataType, arg: Vector, digits: Vector) -> Vector:
    """`round(number, digits)`; negative digits round to tens, hundreds, ..."""
    if type_.is_float:
        return _round_floats(type_, arg, digits)
    assert isinstance(digits, Const)
    places = int(digits.value)
    if places >= scale_of(arg.type):
        return _retyped(type_, arg)
    dropped = scale_of(arg.type) - places
    if dropped > 38:
        return result(type_, np.zeros(len(arg), np.int64), arg.validity, (0, 0), len(arg))
    shortened = cut(DataType(type_.kind, 38, 0) if type_.is_decimal else type_, arg, dropped, "round")
    if places >= 0:
        return _retyped(type_, shortened)
    return operate("mul", type_, shortened, Const(type_, 10**-places, len(arg)))


def _round_floats(type_: DataType, arg: Vector, digits: Vector) -> Vector:
    places = np.clip(np.asarray(integers(digits)), -400, 400)
    with np.errstate(all="ignore"):
        values = floats(arg)
        factor = 10.0 ** np.abs(places)
        scaled = np.where(places >= 0, np.rint(values * factor) / factor, np.rint(values / factor) * factor)
        # A factor beyond the range of floats has no effect on the number, or leaves zero.
        scaled = np.where(np.isfinite(scaled), scaled, np.where((places >= 0) | ~np.isfinite(values), values, 0.0))
    array = np.broadcast_to(np.asarray(scaled, type_.dtype), (len(arg),))
    return Flat(type_, array, joined_validity(arg, digits))


def power(type_: DataType, base: Vector, exponent: Vector) -> Vector:
    """Compute `base ** exponent` over floats; raises `DataError` if the result is not a real number."""
    validity = joined_validity(base, exponent)
    x, y = np.asarray(floats(base)), np.asarray(floats(exponent))
    bad = ((x == 0) & (y < 0)) | ((x < 0) & (y != np.rint(y)))
    if bool(np.any(bad if validity is None else bad & validity)):
        raise DataError("zero to a negative power, or a negative number to a power that is not whole, does not exist")
    return _float_result(type_, lambda a, b: np.power(np.asarray(a, np.float64), b), base, exponent)
