"""Arithmetic on one row's values in Python: `n = n + ?` of a statement about one row.

A kernel takes some 60 us for a vector of one row; the same sum of two Python integers takes less than one. `scalar_of`
compiles what it knows to give the same result: `+`, `-`, `*` and unary minus of integers, decimals and DOUBLE, and
casts among integers and decimals that lose no digits. Where a value is outside of its type, `Unsure` is raised, and the
kernels decide, which raise the error.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeAlias

from ...model.types import DataType, Kind
from ...sql.expressions import Call, Cast, Column, Expr, Literal
from ..kernels.numbers.bounded_integers import limits_of, scale_of

Scalar: TypeAlias = Callable[[Sequence[Any]], Any]
"""Computes a physical value from those of the inputs; None is NULL."""

_OPERATORS: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
}


class Unsure(Exception):
    """Raised for values that the kernels must compute with."""


def scalar_of(expr: Expr, places: Mapping[int, int]) -> Scalar | None:
    """Compile an expression; None if the kernels must evaluate it.

    Parameters
    ----------
    expr : Expr
    places : mapping of int to int
        Positions of the inputs, by the number of their column.
    """
    if not _is_number(expr.type):
        return None
    if isinstance(expr, Literal):
        value = expr.value
        return lambda row: value
    if isinstance(expr, Column):
        return operator.itemgetter(places[expr.id])
    if isinstance(expr, Cast):
        return _cast(expr, places)
    if not isinstance(expr, Call):
        return None
    args = [scalar_of(arg, places) for arg in expr.args]
    if None in args or any(_is_exact(arg.type) is not _is_exact(expr.type) for arg in expr.args):
        return None
    scales = [scale_of(arg.type) for arg in expr.args]
    if expr.function == "neg" and scales == [scale_of(expr.type)]:
        return _binary(expr.type, operator.sub, lambda row: 0, args[0]) if _is_exact(expr.type) else None
    if expr.function not in _OPERATORS or len(args) != 2:
        return None
    wanted = [scale_of(expr.type)] * 2
    if (sum(scales) != wanted[0]) if expr.function == "mul" else (scales != wanted):
        return None
    return _binary(expr.type, _OPERATORS[expr.function], args[0], args[1])


def _is_exact(type_: DataType) -> bool:
    return type_.is_integer or type_.is_decimal


def _is_number(type_: DataType) -> bool:
    return _is_exact(type_) or type_.kind is Kind.DOUBLE


def _binary(type_: DataType, operate: Callable[[Any, Any], Any], left: Any, right: Any) -> Scalar:
    is_exact = _is_exact(type_)
    low, high = limits_of(type_) if is_exact else (0, 0)

    def compute(row: Sequence[Any]) -> Any:
        a, b = left(row), right(row)
        if a is None or b is None:
            return None
        value = operate(a, b)
        if low <= value <= high if is_exact else math.isfinite(value):
            return value
        raise Unsure

    return compute


def _cast(expr: Cast, places: Mapping[int, int]) -> Scalar | None:
    arg = scalar_of(expr.arg, places)
    if arg is None or not _is_exact(expr.type) or not _is_exact(expr.arg.type):
        return None
    digits = scale_of(expr.type) - scale_of(expr.arg.type)
    if digits < 0:
        return None
    factor = 10**digits
    low, high = limits_of(expr.type)

    def compute(row: Sequence[Any]) -> Any:
        value = arg(row)
        if value is None:
            return None
        value *= factor
        if low <= value <= high:
            return value
        raise Unsure

    return compute
