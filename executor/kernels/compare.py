"""Comparisons, on codes if a vector has them.

- Narrow codes against a constant: the constant is converted to the code domain, nothing is decoded.
- Narrow against Narrow: the codes, shifted by the difference of the bases in the narrowest sufficient integer.
- Different decimal scales: the side of larger scale is divided down (`a * 10**k < b` is `a < ceil(b / 10**k)`), so that
  no product can leave 64 bits.
- Dictionaries: one comparison per entry, then a look-up per row; two are merged, and the places of their entries in the
  sorted union are compared. Texts compare by their UTF-8 bytes.
- Floats: NaN equals itself and is above everything (PostgreSQL).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa

from ...model import arrow_functions as pc
from ...model.arrow_arrays import arrow_array, arrow_scalar, fill_nulls, numpy_array
from ...model.types import BOOLEAN, Kind
from ...model.vectors.merged_dictionaries import merged_for
from ...model.vectors.vector import Array, Const, Dict, Flat, Narrow, Text, Vector, Wide
from .boolean import disjunction
from .numbers.bounded_integers import (
    INT32,
    INT64,
    fits,
    floats,
    integers,
    joined_validity,
    known_bounds,
    objects,
    scale_of,
)

MIRRORED = {"eq": "eq", "ne": "ne", "lt": "gt", "le": "ge", "gt": "lt", "ge": "le"}
_NUMPY: dict[str, Callable[[Any, Any], Any]] = {
    "eq": lambda a, b: a == b,
    "ne": lambda a, b: a != b,
    "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b,
    "gt": lambda a, b: a > b,
    "ge": lambda a, b: a >= b,
}
_ARROW_FUNCTIONS = {
    "eq": "equal",
    "ne": "not_equal",
    "lt": "less",
    "le": "less_equal",
    "gt": "greater",
    "ge": "greater_equal",
}
_MICROSECONDS_PER_DAY = 86_400_000_000


def compare(function: str, left: Vector, right: Vector) -> Vector:
    """Compute eq, ne, lt, le, gt or ge of two vectors of comparable types."""
    if isinstance(left, Const) and not isinstance(right, Const):
        return compare(MIRRORED[function], right, left)
    if isinstance(right, Const) and right.value is None:
        return Const(BOOLEAN, None, len(left))
    if isinstance(left, Const):
        return _constants(function, left, right)
    if left.type.is_text:
        return _texts(function, left, right)
    validity = joined_validity(left, right)
    if left.type.is_float or right.type.is_float:
        return Flat(BOOLEAN, _compare_floats(function, floats(left), floats(right)), validity)
    outcome = _compare_integers(function, left, right)
    if isinstance(outcome, bool):
        if validity is None:
            return Const(BOOLEAN, outcome, len(left))
        outcome = np.full(len(left), outcome)
    return Flat(BOOLEAN, outcome, validity)


def is_distinct(left: Vector, right: Vector) -> Vector:
    """IS DISTINCT FROM: `<>` with NULL as a value like any other; never NULL."""
    differs = compare("ne", left, right)
    a, b = left.validity, right.validity
    if a is None and b is None:
        return differs
    length = len(left)
    present_a = np.ones(length, np.bool_) if a is None else a
    present_b = np.ones(length, np.bool_) if b is None else b
    both = present_a & present_b
    values = np.zeros(length, np.bool_) if isinstance(differs, Const) and differs.value is None else differs.values()
    return Flat(BOOLEAN, np.where(both, values, present_a != present_b))


def _constants(function: str, left: Const, right: Vector) -> Vector:
    if left.value is None:
        return Const(BOOLEAN, None, len(left))
    if left.type.is_text:
        first, second = _bytes(left.value), _bytes(right.value)  # type: ignore[attr-defined]
        return Const(BOOLEAN, bool(_NUMPY[function](first, second)), len(left))
    if left.type.is_integer_like and right.type.is_integer_like:
        numbers = int(left.value) * _scale(left, right), int(right.value) * _scale(right, left)  # type: ignore[attr-defined]
        return Const(BOOLEAN, bool(_NUMPY[function](*numbers)), len(left))
    one = Flat(left.type, np.array([left.value], object if left.type.is_integer_like else np.float64))
    found = compare(function, one, Const(right.type, right.value, 1))  # type: ignore[attr-defined]
    return Const(BOOLEAN, bool(found.values()[0]), len(left))


def _bytes(value: str | bytes) -> bytes:
    return value.encode() if isinstance(value, str) else value


# ---- numbers -------------------------------------------------------------------------------------------------------


def _compare_floats(function: str, a: Any, b: Any) -> Array:
    with np.errstate(invalid="ignore"):
        result: Array = np.asarray(_NUMPY[function](a, b))
    nan_a, nan_b = np.isnan(a), np.isnan(b)
    if np.any(nan_a) or np.any(nan_b):
        result = np.where(nan_a | nan_b, _NUMPY[function](nan_a.astype(np.int8), nan_b.astype(np.int8)), result)
    return result


def _scale(vector: Vector, other: Vector) -> int:
    """Number of units of the pair's finer side in one unit of the vector."""
    if vector.type.kind is Kind.DATE and other.type.kind is Kind.TIMESTAMP:
        return _MICROSECONDS_PER_DAY
    return int(10 ** max(0, scale_of(other.type) - scale_of(vector.type)))


def _compare_integers(function: str, left: Vector, right: Vector) -> Array | bool:
    factor_left, factor_right = _scale(left, right), _scale(right, left)
    if isinstance(right, Const):
        return _against_constant(function, left, int(right.value) * factor_right, factor_left)
    if _is_wide(left) or _is_wide(right):
        result = _NUMPY[function](objects(left) * factor_left, objects(right) * factor_right)
        return np.asarray(result, np.bool_)
    if factor_left == factor_right == 1:
        return _plain(function, left, right)
    if factor_left == 1:
        return _divided(MIRRORED[function], right, left, factor_right)
    return _divided(function, left, right, factor_left)


def _is_wide(vector: Vector) -> bool:
    return isinstance(vector, Wide) or (isinstance(vector, Flat) and vector.values().dtype == object)


def _plain(function: str, left: Vector, right: Vector) -> Array:
    a, b = known_bounds(left), known_bounds(right)
    assert a is not None and b is not None
    if isinstance(left, Narrow) and isinstance(right, Narrow) and left.base == right.base:
        return np.asarray(_NUMPY[function](left.codes, right.codes))
    dtype = np.int32 if fits(a, INT32) and fits(b, INT32) else np.int64
    return np.asarray(_NUMPY[function](integers(left, dtype), integers(right, dtype)))


def _divided(function: str, coarse: Vector, fine: Vector, factor: int) -> Array:
    """Compute `coarse * factor <function> fine` without the product."""
    a = integers(coarse)
    b = integers(fine)
    bounds = known_bounds(coarse)
    assert bounds is not None
    if fits((bounds[0] * factor, bounds[1] * factor), INT64):
        return np.asarray(_NUMPY[function](a * factor, b))
    if factor > INT64[1]:
        return np.asarray(_NUMPY[function](objects(coarse) * factor, objects(fine)), np.bool_)
    floor = b // factor
    exact = b == floor * factor
    if function == "eq":
        return np.asarray((a == floor) & exact)
    if function == "ne":
        return np.asarray((a != floor) | ~exact)
    if function in ("le", "gt"):
        return np.asarray(_NUMPY[function](a, floor))
    return np.asarray(_NUMPY[function](a, floor + ~exact))


def _against_constant(function: str, vector: Vector, constant: int, factor: int) -> Array | bool:
    """Compute `vector * factor <function> constant`."""
    floor, rest = divmod(constant, factor)
    if rest:
        if function in ("eq", "ne"):
            return function == "ne"
        # Between two values: `< 2.5` is `<= 2`, `>= 2.5` is `> 2`.
        function = "le" if function in ("lt", "le") else "gt"
    bounds = known_bounds(vector)
    if _is_wide(vector) or bounds is None:
        return np.asarray(_NUMPY[function](objects(vector), floor), np.bool_)
    decided = _decided(function, bounds, floor)
    if decided is not None:
        return decided
    if isinstance(vector, Narrow):
        code = np.array(floor - vector.base).astype(vector.codes.dtype)
        return np.asarray(_NUMPY[function](vector.codes, code))
    values = vector.values()
    return np.asarray(_NUMPY[function](values, floor if values.dtype == np.bool_ else values.dtype.type(floor)))


def _decided(function: str, bounds: tuple[int, int], constant: int) -> bool | None:
    """Return the result if bounds and constant alone decide it; otherwise the constant lies within the bounds."""
    low, high = bounds
    if low <= constant <= high:
        return None
    if function in ("eq", "ne"):
        return function == "ne"
    return (constant > high) == (function in ("lt", "le"))


# ---- texts ---------------------------------------------------------------------------------------------------------


def _texts(function: str, left: Vector, right: Vector) -> Vector:
    validity = joined_validity(left, right)
    if isinstance(left, Dict) and isinstance(right, Const):
        table = _arrow(function, left.dictionary, arrow_scalar(right.value, left.type.arrow))
        values = table.take(left.codes) if len(table) else np.zeros(len(left), np.bool_)
        return Flat(BOOLEAN, values, validity)
    if isinstance(left, Dict) and isinstance(right, Dict) and left.dictionary is right.dictionary:
        if left.ordered or function in ("eq", "ne"):
            return Flat(BOOLEAN, _NUMPY[function](left.codes, right.codes), validity)
    if isinstance(left, Dict) and isinstance(right, Dict):
        if 0 < len(left.dictionary) + len(right.dictionary) <= len(left):
            _, (first_table, second_table) = merged_for(
                [left.dictionary, right.dictionary], [[left.codes], [right.codes]]
            )
            places = first_table.take(left.codes), second_table.take(right.codes)
            return Flat(BOOLEAN, _NUMPY[function](*places), validity)
    second = pa.scalar(right.value, left.type.arrow) if isinstance(right, Const) else right.to_arrow()
    return Flat(BOOLEAN, _arrow(function, left.to_arrow(), second), validity)


def _arrow(function: str, left: pa.Array, right: Any) -> Array:
    outcome = getattr(pc, _ARROW_FUNCTIONS[function])(left, right)
    if outcome.null_count:
        outcome = fill_nulls(outcome, False)
    return numpy_array(outcome)


# ---- IN ------------------------------------------------------------------------------------------------------------

_FEW = 6
"""Number of constants up to which they are compared one by one; more are looked up in one sorted array."""


def is_in(arg: Vector, items: tuple[Any, ...]) -> Vector:
    """Compute `arg IN (items)`; items are physical values of the argument's type, None for NULL."""
    present = [item for item in dict.fromkeys(items) if item is not None]
    if len(present) <= _FEW or arg.type.is_float or isinstance(arg, Const | Wide):
        member: Vector = Const(BOOLEAN, False, len(arg))
        for item in present:
            member = disjunction(member, compare("eq", arg, Const(arg.type, item, len(arg))))
    elif arg.type.is_text:
        member = _text_in(arg, present)
    else:
        member = Flat(BOOLEAN, _integer_in(arg, present), arg.validity)
    if not present and arg.validity is not None and items:
        member = Flat(BOOLEAN, np.zeros(len(arg), np.bool_), arg.validity)
    if len(present) < len(set(items)):
        member = disjunction(member, Const(BOOLEAN, None, len(arg)))
    return member


def _text_in(arg: Vector, items: list[Any]) -> Vector:
    wanted = arrow_array(items, arg.type.arrow)
    if isinstance(arg, Dict):
        table = numpy_array(pc.is_in(arg.dictionary, value_set=wanted))
        values = table.take(arg.codes) if len(table) else np.zeros(len(arg), np.bool_)
        return Flat(BOOLEAN, values, arg.validity)
    assert isinstance(arg, Text)
    return Flat(BOOLEAN, numpy_array(pc.is_in(arg.array, value_set=wanted)), arg.validity)


def _integer_in(arg: Vector, items: list[Any]) -> Array:
    wanted = np.array(sorted(int(item) for item in items if INT64[0] <= int(item) <= INT64[1]), np.int64)
    values = integers(arg)
    place = np.searchsorted(wanted, values)
    return np.asarray(wanted.take(place, mode="clip") == values) if len(wanted) else np.zeros(len(arg), np.bool_)
