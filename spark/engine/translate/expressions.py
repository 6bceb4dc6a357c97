"""Translates bound expressions to Spark SQL.

Each node has its writer here; calls are looked up by name in the tables of their kind:

    operators.py    = < AND LIKE || ...             numbers.py   + - * / % round sqrt ...
    conditional.py  coalesce greatest ...           text.py      upper substring ...    patterns.py  regexp_like ...
    dates.py        extract date_trunc age ...      casts.py     CAST, TRY_CAST

A writer of a call receives the bound call, for its types, and its arguments as trees. `REFUSED` names the functions
without a writer, with the reason.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from sqlglot import exp

from ....errors import InternalError
from ....model.types import Kind
from ....sql.expressions import Call, Case, Cast, Column, Expr, InValues, Literal, Parameter
from . import casts, conditional, dates, numbers, operators, patterns, text
from .literals import literal
from .tree import Tree, case, closed, column, not_supported

Writer = Callable[[Call, list[Tree]], Tree]

SCALARS: Mapping[str, Writer] = {
    **operators.WRITERS,
    **numbers.WRITERS,
    **text.WRITERS,
    **patterns.WRITERS,
    **dates.WRITERS,
    **conditional.WRITERS,
}
"""The writer of a call, by its canonical name."""

REFUSED: Mapping[str, str] = {**numbers.REFUSED, **text.REFUSED, **dates.REFUSED}
"""Functions that Spark SQL cannot express faithfully, with the obstacle."""


def write(expr: Expr) -> Tree:
    """The expression over columns named c<number>.

    Raises `NotSupportedError` if Spark SQL cannot express it with nyala's semantics.
    """
    if isinstance(expr, Column):
        return column(expr)
    if isinstance(expr, Literal):
        return literal(expr)
    if isinstance(expr, Call):
        return _call(expr)
    if isinstance(expr, Cast):
        return casts.write(expr, write(expr.arg))
    if isinstance(expr, Case):
        branches = [(write(condition), write(value)) for condition, value in expr.branches]
        return case(*branches, default=write(expr.default))
    if isinstance(expr, InValues):
        return _in_values(expr)
    if isinstance(expr, Parameter):
        raise InternalError("a parameter must have its value before a plan is written for Spark")
    raise InternalError(f"{type(expr).__name__} does not stand in a plan's expressions")


def _call(expr: Call) -> Tree:
    writer = SCALARS.get(expr.function)
    if writer is None:
        why = REFUSED.get(expr.function)
        raise not_supported(f"{expr.function}()" + (f" ({why})" if why else ""))
    guarded = numbers.guard(expr, write)
    return guarded if guarded is not None else writer(expr, [write(arg) for arg in expr.args])


def _in_values(expr: InValues) -> Tree:
    if expr.arg.type.kind is Kind.INTERVAL:
        raise not_supported("IN over intervals")
    return exp.In(this=closed(write(expr.arg)), expressions=[write(item) for item in expr.items])
