"""Translates comparisons, boolean operators, LIKE and ||."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from sqlglot import exp

from ....errors import DataError
from ....sql.expressions import Call, Expr, Literal
from .tree import (
    Tree,
    again,
    both,
    call,
    cast,
    closed,
    either,
    infix,
    is_null,
    negated,
    number,
    string,
    try_cast,
)


def _comparison(kind: type[exp.Binary]) -> Callable[[Call, list[Tree]], Tree]:
    return lambda expr, args: infix(kind, *args)


def _is(value: bool) -> Callable[[Call, list[Tree]], Tree]:
    wanted = exp.true if value else exp.false
    return lambda expr, args: infix(exp.NullSafeEQ, args[0], wanted())


def _saturated(expr: Call, args: list[Tree]) -> Tree:
    """A number converted to the other side's scale for comparison.

    Spark has at most 38 digits, so a larger number becomes the first or last value.
    """
    digits = "9" * ((expr.type.precision or 0) - (expr.type.scale or 0)) + "." + "9" * (expr.type.scale or 0)
    # Both as texts: Spark's unary minus rounds to 34 digits.
    beyond = exp.Case(
        ifs=[
            exp.If(this=infix(exp.GT, args[0], number(0)), true=cast(string(digits), expr.type)),
            exp.If(this=infix(exp.LT, again(args[0]), number(0)), true=cast(string("-" + digits), expr.type)),
        ]
    )
    return call("coalesce", try_cast(again(args[0]), expr.type), beyond)


# ---- LIKE ------------------------------------------------------------------------------------------------------------


def plain_pattern(pattern: str) -> str:
    r"""A LIKE pattern with a backslash only where it is significant, as Spark rejects any other.

    >>> plain_pattern(r"50\%\a_")
    '50\\%a_'
    """
    out: list[str] = []
    chars = iter(pattern)
    for char in chars:
        if char != "\\":
            out.append(char)
            continue
        following = next(chars, None)
        if following is None:
            raise DataError(f"the LIKE pattern {pattern!r} ends in an escape character")
        out.append(f"\\{following}" if following in "%_\\" else following)
    return "".join(out)


def _pattern(expr: Expr, tree: Tree) -> Tree:
    if isinstance(expr, Literal):
        return tree if expr.value is None else string(plain_pattern(expr.value))
    return call("regexp_replace", tree, string(r"\G((?:[^\\]|\\[%_\\])*+)\\([^%_\\])"), string("$1$2"))


def _like(kind: type[exp.Binary]) -> Callable[[Call, list[Tree]], Tree]:
    return lambda expr, args: kind(this=closed(args[0]), expression=closed(_pattern(expr.args[1], args[1])))


WRITERS: Mapping[str, Callable[[Call, list[Tree]], Tree]] = {
    "eq": _comparison(exp.EQ),
    "ne": _comparison(exp.NEQ),
    "lt": _comparison(exp.LT),
    "le": _comparison(exp.LTE),
    "gt": _comparison(exp.GT),
    "ge": _comparison(exp.GTE),
    "saturated": _saturated,
    "is_distinct": lambda expr, args: negated(infix(exp.NullSafeEQ, *args)),
    "and": lambda expr, args: both(*args),
    "or": lambda expr, args: either(*args),
    "not": lambda expr, args: negated(args[0]),
    "is_null": lambda expr, args: is_null(args[0]),
    "is_true": _is(True),
    "is_false": _is(False),
    "like": _like(exp.Like),
    "ilike": _like(exp.ILike),
    "concat": lambda expr, args: call("concat", *args),
}
