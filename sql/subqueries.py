"""Expressions with a bound query inside: the value, the existence or the rows of a subquery.

They are apart from `expressions` because a query (`bound.Query`) is made of expressions, and these are made of queries.
"""

from __future__ import annotations

from dataclasses import field

from ..model.lazy_dataclass import dataclass
from ..model.types import NULL
from .bound import Query
from .expressions import Expr, Literal


@dataclass(frozen=True, slots=True, eq=False)
class ScalarSubquery(Expr):
    """The single value of a query of one column; NULL if it has no row, an error if it has more than one."""

    query: Query | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Exists(Expr):
    """`EXISTS (query)`: never NULL."""

    query: Query | None = None


@dataclass(frozen=True, slots=True, eq=False)
class InSubquery(Expr):
    """`args IN (query)`: as many columns as args, three-valued; NOT IN is `not` around it."""

    args: tuple[Expr, ...] = ()
    query: Query | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Quantified(Expr):
    """`arg comparison ANY (query)`, or ALL: `comparison` is eq, ne, lt, le, gt or ge."""

    arg: Expr = field(default_factory=lambda: Literal(NULL, True))
    comparison: str = "eq"
    all: bool = False
    query: Query | None = None


SUBQUERIES = (ScalarSubquery, Exists, InSubquery, Quantified)
