"""Comparisons of bound expressions, and their connection by AND, OR and NOT."""

from __future__ import annotations

from ....errors import TypeMismatch
from ....model.types import BOOLEAN, Kind
from ... import functions
from ...coercion import comparands, convert, is_null_query, is_text_literal
from ...expressions import Call, Expr

SYMBOLS = {"eq": "=", "ne": "<>", "lt": "<", "le": "<=", "gt": ">", "ge": ">=", "is_distinct": "IS DISTINCT FROM"}


def boolean(expr: Expr, what: str) -> Expr:
    """The expression as a BOOLEAN; raises `TypeMismatch` if it is none. `what` needs it, for the message."""
    if expr.type.kind is Kind.NULL or is_text_literal(expr) or is_null_query(expr):
        return convert(expr, BOOLEAN)
    if expr.type != BOOLEAN:
        raise TypeMismatch(f"{what} needs a BOOLEAN, not a value of type {expr.type}")
    return expr


def connect(function: str, args: tuple[Expr, ...]) -> Call:
    """`and` or `or`, with nested calls of the same kind flattened."""
    flat: list[Expr] = []
    for arg in args:
        flat.extend(arg.args if isinstance(arg, Call) and arg.function == function else (arg,))
    return Call(BOOLEAN, any(arg.nullable for arg in flat), function, tuple(flat))


def negation(arg: Expr) -> Expr:
    """`NOT arg`."""
    return Call(BOOLEAN, arg.nullable, "not", (boolean(arg, "NOT"),))


def compare(function: str, left: Expr, right: Expr) -> Expr:
    """A comparison of two values, converted to one type."""
    _, (left, right) = comparands(left, right, f"there is no comparison {SYMBOLS[function]} between")
    left, right = functions.comparable(left), functions.comparable(right)
    nullable = function != "is_distinct" and (left.nullable or right.nullable)
    return Call(BOOLEAN, nullable, function, (left, right))
