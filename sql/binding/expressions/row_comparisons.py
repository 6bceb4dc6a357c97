"""Binds comparisons of rows: `(a, b) = (c, d)`, `<`, `IS DISTINCT FROM`, `IS NULL`, `(a, b) IN ((1, 2), ...)`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sqlglot import exp

from ....errors import TypeMismatch
from ....model.types import BOOLEAN
from ...expressions import Call, Expr

Compare = Callable[[str, Expr, Expr], Expr]
_STRICT = {"lt": "lt", "le": "lt", "gt": "gt", "ge": "gt"}


def operands(node: Any) -> list[Any] | None:
    """The parts of a row `(a, b)`; None for a single value."""
    return list(node.expressions) if isinstance(node, exp.Tuple) else None


def equal_rows(compare: Compare, left: tuple[Expr, ...], right: tuple[Expr, ...]) -> Expr:
    """`(a, b) = (c, d)`."""
    check_lengths(left, right)
    return junction("and", tuple(compare("eq", a, b) for a, b in zip(left, right)))


def ordered_rows(compare: Compare, function: str, left: tuple[Expr, ...], right: tuple[Expr, ...]) -> Expr:
    """`(a, b) < (c, d)`, or `<=`, `>`, `>=`: the first parts that differ decide.

    a < c OR (a = c AND b < d)
    """
    check_lengths(left, right)
    result = compare(function, left[-1], right[-1])
    for a, b in reversed(list(zip(left[:-1], right[:-1]))):
        result = junction("or", (compare(_STRICT[function], a, b), junction("and", (compare("eq", a, b), result))))
    return result


def distinct_rows(compare: Compare, left: tuple[Expr, ...], right: tuple[Expr, ...]) -> Expr:
    """`(a, b) IS DISTINCT FROM (c, d)`: at least one pair of parts is distinct."""
    check_lengths(left, right)
    return junction("or", tuple(compare("is_distinct", a, b) for a, b in zip(left, right)))


def check_lengths(left: tuple[Expr, ...], right: tuple[Expr, ...]) -> None:
    """Raises `TypeMismatch` unless two rows have the same number of parts."""
    if len(left) != len(right) or not left:
        raise TypeMismatch(f"a row of {len(left)} values cannot be compared with one of {len(right)}")


def junction(function: str, parts: tuple[Expr, ...]) -> Expr:
    """`and` or `or` of the parts; a single part is returned itself."""
    if len(parts) == 1:
        return parts[0]
    return Call(BOOLEAN, any(part.nullable for part in parts), function, parts)
