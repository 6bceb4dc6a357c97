"""Functions of numbers beyond arithmetic: roots, logarithms, angles, bits, divisors.

Functions of floats are rows of one table: numpy's function, the arguments outside its domain, and the error's words.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ....errors import DataError, NumericOutOfRange
from ....model.types import BOOLEAN, DOUBLE, DataType
from ....model.vectors.vector import Array, Const, Flat, Vector
from ..distinct import per_distinct
from . import arithmetic
from .arithmetic import finished_floats
from .bounded_integers import (
    INT64,
    floats,
    from_objects,
    integers,
    joined_validity,
    measured_bounds,
    objects,
    result,
    scale_of,
)

_Refused = Callable[[Any], Any]
_NEVER: _Refused = lambda x: np.zeros(np.shape(x), np.bool_)  # noqa: E731
_OUTSIDE_ONE: _Refused = lambda x: np.abs(x) > 1  # noqa: E731
_LOG = (lambda x: x <= 0, "the logarithm of zero or a negative number")
_INFINITE = (np.isinf, "an angle function of infinity")

FLOAT_FUNCTIONS: dict[str, tuple[Callable[..., Any], _Refused, str]] = {
    "sqrt": (np.sqrt, lambda x: x < 0, "the square root of a negative number"),
    "cbrt": (np.cbrt, _NEVER, ""),
    "exp": (np.exp, _NEVER, ""),
    "ln": (np.log, *_LOG),
    "log10": (np.log10, *_LOG),
    "log2": (np.log2, *_LOG),
    "sin": (np.sin, *_INFINITE),
    "cos": (np.cos, *_INFINITE),
    "tan": (np.tan, *_INFINITE),
    "cot": (lambda x: 1 / np.tan(x), *_INFINITE),
    "asin": (np.arcsin, _OUTSIDE_ONE, "the arc sine of a number outside -1 to 1"),
    "acos": (np.arccos, _OUTSIDE_ONE, "the arc cosine of a number outside -1 to 1"),
    "atan": (np.arctan, _NEVER, ""),
    "sinh": (np.sinh, _NEVER, ""),
    "cosh": (np.cosh, _NEVER, ""),
    "tanh": (np.tanh, _NEVER, ""),
    "asinh": (np.arcsinh, _NEVER, ""),
    "acosh": (np.arccosh, lambda x: x < 1, "the inverse hyperbolic cosine of a number below 1"),
    "atanh": (np.arctanh, lambda x: np.abs(x) >= 1, "the inverse hyperbolic tangent of a number outside -1 to 1"),
    "degrees": (np.degrees, _NEVER, ""),
    "radians": (np.radians, _NEVER, ""),
}
"""By canonical name: the function, a mask of arguments outside its domain, and the words of the error."""


def float_function(name: str, type_: DataType, arg: Vector) -> Vector:
    """Compute one of `FLOAT_FUNCTIONS`; raises `DataError` outside the function's domain."""
    function, refused, what = FLOAT_FUNCTIONS[name]
    values = np.asarray(floats(arg))
    with np.errstate(all="ignore"):
        bad = refused(values)
        if arg.validity is not None:
            bad = bad & arg.validity
        if bool(np.any(bad)) and len(arg):
            raise DataError(f"{what} does not exist")
        return finished_floats(type_, function(values), arg.validity, (arg,))


def logarithm(type_: DataType, base: Vector, number: Vector) -> Vector:
    """`log(base, number)`."""
    below, above = float_function("ln", DOUBLE, base), float_function("ln", DOUBLE, number)
    return arithmetic.divide(type_, above, below)


def atan2(type_: DataType, y: Vector, x: Vector) -> Vector:
    """Angle of the point (x, y)."""
    values = np.arctan2(np.asarray(floats(y)), np.asarray(floats(x)))
    return finished_floats(type_, values, joined_validity(y, x), (y, x))


def is_kind(name: str) -> Callable[..., Vector]:
    """isnan, isinf or isfinite of a float."""
    test = {"isnan": np.isnan, "isinf": np.isinf, "isfinite": np.isfinite}[name]

    def kernel(_: DataType, arg: Vector) -> Vector:
        values = np.broadcast_to(test(np.asarray(floats(arg))), (len(arg),))
        return Flat(BOOLEAN, values, arg.validity)

    return kernel


# ---- whole numbers -------------------------------------------------------------------------------------------------


def _column(vector: Vector) -> Array:
    return np.broadcast_to(np.asarray(integers(vector), np.int64), (len(vector),))


def bits(function: Callable[[Any, Any], Any]) -> Callable[..., Vector]:
    """`&`, `|` or `#` of two integers of one type."""

    def kernel(type_: DataType, left: Vector, right: Vector) -> Vector:
        values = function(_column(left), _column(right))
        return Flat(type_, values.astype(type_.dtype), joined_validity(left, right))

    return kernel


def invert(type_: DataType, arg: Vector) -> Vector:
    """`~`."""
    return Flat(type_, (~_column(arg)).astype(type_.dtype), arg.validity)


def shift(name: str) -> Callable[..., Vector]:
    """`<<` or `>>` within the width of the type; the distance is taken modulo the width, as processors do."""

    def kernel(type_: DataType, value: Vector, distance: Vector) -> Vector:
        steps = _column(distance) % (8 * type_.dtype.itemsize)
        values = _column(value)
        shifted = values << steps if name == "shift_left" else values >> steps
        return Flat(type_, shifted.astype(type_.dtype), joined_validity(value, distance))

    return kernel


def divisor(name: str) -> Callable[..., Vector]:
    """gcd or lcm of two integers of one type."""

    def kernel(type_: DataType, left: Vector, right: Vector) -> Vector:
        validity = joined_validity(left, right)
        a, b = _column(left), _column(right)
        sizes = [max(-low, high) for low, high in (measured_bounds(left), measured_bounds(right))]
        if max(sizes) <= INT64[1]:
            common = np.gcd(a, b)
            if name == "gcd":
                return result(type_, common, validity, INT64, len(left))
            if sizes[0] * sizes[1] <= INT64[1]:
                multiple = np.abs(a) // np.maximum(common, 1) * np.abs(b)
                return result(type_, multiple, validity, (0, sizes[0] * sizes[1]), len(left))
        exact = np.gcd(objects(left), objects(right))
        if name == "lcm":
            product = np.abs(objects(left) * objects(right))
            exact = np.where(exact == 0, 0, product // np.where(exact == 0, 1, exact))
        return from_objects(type_, np.abs(exact), validity)

    return kernel


def factorial(type_: DataType, arg: Vector) -> Vector:
    """n!; up to 33!, which has 37 digits."""

    def one(n: int) -> int:
        if n < 0:
            raise DataError(f"the factorial of {n} does not exist")
        if n > 33:
            raise NumericOutOfRange(f"{n}! has more than 38 digits")
        return math.factorial(n)

    return per_distinct(one, type_, (arg,))


def truncate(type_: DataType, arg: Vector, digits: Vector | None = None) -> Vector:
    """Truncate towards zero, to `digits` digits after the point; negative digits truncate tens, hundreds, ..."""
    if type_.is_float:
        if digits is None:
            return Flat(type_, np.trunc(arg.values()), arg.validity)
        places = np.clip(np.asarray(integers(digits)), -400, 400)
        with np.errstate(all="ignore"):
            values = np.asarray(floats(arg))
            factor = 10.0 ** np.abs(places)
            cut = np.where(places >= 0, np.trunc(values * factor) / factor, np.trunc(values / factor) * factor)
            cut = np.where(np.isfinite(cut), cut, np.where(places >= 0, values, 0.0))
        return Flat(type_, np.broadcast_to(cut.astype(type_.dtype), (len(arg),)), joined_validity(arg, digits))
    assert digits is None or isinstance(digits, Const)
    places = 0 if digits is None else int(digits.value)
    dropped = scale_of(arg.type) - places
    if dropped <= 0:
        return arithmetic.whole(type_, arg, "floor") if arg.type != type_ else arg
    if places >= 0:
        return arithmetic.cut(type_, arg, dropped, "trunc")
    unit = 10 ** min(dropped, 40)
    values = objects(arg)
    kept = np.abs(values) // unit * 10 ** (scale_of(type_) - places)
    return from_objects(type_, np.where(values < 0, -kept, kept), arg.validity)


def round_per_row(type_: DataType, arg: Vector, digits: Vector) -> Vector:
    """`round(decimal, digits)` with digits that differ from row to row: the type keeps its scale."""
    validity = joined_validity(arg, digits)
    scale = scale_of(arg.type)
    places = np.clip(np.broadcast_to(np.asarray(integers(digits)), (len(arg),)), -40, scale)
    unit = np.array([10 ** int(scale - p) for p in places.tolist()], object)
    values = objects(arg)
    size = (2 * np.abs(values) + unit) // (2 * unit) * unit
    size = np.where(unit == 1, np.abs(values), size)
    return from_objects(type_, np.where(values < 0, -size, size), validity)


def whole_quotient(type_: DataType, left: Vector, right: Vector) -> Vector:
    """`div(a, b)`: the quotient of exact numbers, truncated to a whole number; both have one scale."""
    validity = joined_validity(left, right)
    arithmetic.refuse_zero(right, validity)
    small = arithmetic.truncated_quotient(left, right)
    if small is not None:
        return result(type_, small, validity, INT64, len(left))
    a, b = objects(left), objects(right)
    size = np.abs(a) // np.where(b == 0, 1, np.abs(b))
    return from_objects(type_, np.where((a < 0) != (b < 0), -size, size), validity)


def width_bucket(type_: DataType, value: Vector, low: Vector, high: Vector, count: Vector) -> Vector:
    """Number of the part, of `count` equal parts of low to high, that holds the value: 0 below, count + 1 above."""
    validity = joined_validity(value, low, high, count)
    x, a, b = (np.broadcast_to(np.asarray(floats(v)), (len(value),)) for v in (value, low, high))
    n = _column(count)
    present = np.ones(len(value), np.bool_) if validity is None else validity
    if bool((present & (n <= 0)).any()):
        raise DataError("width_bucket needs a number of buckets above 0")
    if bool((present & (a == b)).any()):
        raise DataError("width_bucket needs bounds that differ")
    up = a < b
    with np.errstate(all="ignore"):
        place = np.floor(np.abs(x - a) * n / np.abs(b - a))
    bucket = np.where(place >= n, n + 1, np.clip(np.nan_to_num(place), 0, n).astype(np.int64) + 1)
    below = np.where(up, x < a, x > a)
    beyond = np.where(up, x >= b, x <= b)
    return Flat(type_, np.where(below, 0, np.where(beyond, n + 1, bucket)).astype(type_.dtype), validity)


def random(rows: int) -> Vector:
    """Draw uniform numbers from 0 to below 1."""
    return Flat(DOUBLE, np.random.default_rng().random(rows))


KERNELS: dict[str, Callable[..., Vector]] = {
    **{name: (lambda n: lambda type_, arg: float_function(n, type_, arg))(name) for name in FLOAT_FUNCTIONS},
    "log": logarithm,
    "atan2": atan2,
    **{name: is_kind(name) for name in ("isnan", "isinf", "isfinite")},
    "bitwise_and": bits(np.bitwise_and),
    "bitwise_or": bits(np.bitwise_or),
    "bitwise_xor": bits(np.bitwise_xor),
    "bitwise_not": invert,
    "shift_left": shift("shift_left"),
    "shift_right": shift("shift_right"),
    "gcd": divisor("gcd"),
    "lcm": divisor("lcm"),
    "factorial": factorial,
    "trunc": truncate,
    "round_per_row": round_per_row,
    "whole_quotient": whole_quotient,
    "width_bucket": width_bucket,
}
