"""Binds GROUP BY and moves what stands above it onto the grouped columns.

Above the aggregation only two kinds of columns exist: those that stand for grouping expressions and those that stand
for aggregate calls. `Grouping.lift` replaces every occurrence of a grouping expression, also inside subqueries that
refer to this query, and refuses any other column of this FROM.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from sqlglot import exp

from ..errors import GroupingError, NotSupportedError, SqlSyntaxError, UnknownColumn
from ..storage.types import STRING, Kind
from .coercion import convert
from .context import Context, Frame, name_of, only, unsupported
from .expressions import SUBQUERIES, Column, Expr
from .functions import AGGREGATES
from .parser import generate
from .traverse import columns_read, map_query


@dataclass(slots=True)
class Grouping:
    """The grouping expressions of one SELECT, each with its column, and how to lift expressions above them."""

    context: Context
    groups: tuple[tuple[Column, Expr], ...]
    own_columns: frozenset[int]
    """Numbers of the columns of this SELECT's FROM."""

    def lift(self, expr: Expr, node: Any) -> Expr:
        """The expression in terms of grouped columns; `GroupingError` points into `node` at one that is not."""
        for column, group in self.groups:
            if expr == group:
                return column
        if isinstance(expr, Column) and expr.id in self.own_columns:
            raise self._error(expr, node)
        if isinstance(expr, SUBQUERIES) and expr.query is not None and columns_read(expr.query) & self.own_columns:
            inner = map_query(expr.query, lambda root: self.lift(root, node))
            expr = replace(expr, query=inner)
        return expr.map_children(lambda child: self.lift(child, node))

    def _error(self, column: Column, node: Any) -> GroupingError:
        error = GroupingError(
            f"column {column.name} must be in GROUP BY or inside an aggregate function, as the query groups rows"
        )
        found = self._occurrence(column, node)
        return error if found is None else self.context.located(error, found)  # type: ignore[return-value]

    def _occurrence(self, column: Column, node: Any) -> Any:
        """The first syntax node in `node` that was bound to the column outside of aggregate calls."""
        for mention in self.context.mentions.get(column.id, ()):
            if _is_within(mention, node) and not _is_aggregated(mention, node):
                return mention
        return None


def _is_within(place: Any, node: Any) -> bool:
    while place is not None:
        if place is node:
            return True
        place = place.parent
    return False


def _is_aggregated(place: Any, node: Any) -> bool:
    while place is not None and place is not node.parent:
        if isinstance(place, exp.Anonymous) and str(place.this).lower() in AGGREGATES:
            return True
        place = place.parent
    return False


def bind_groups(clause: Any, items: Sequence[Any], frame: Frame) -> list[Expr]:
    """The expressions of GROUP BY: ordinals and aliases of the select list (`items`, syntax nodes) included.

    A plain name means a column of FROM first and an alias second, as in PostgreSQL.
    """
    only(clause, "expressions")
    if not clause.expressions:
        raise unsupported(clause)
    found: list[Expr] = []
    for node in clause.expressions:
        with frame.context.at(node):
            expr = _group(node, items, frame)
        if expr.type.kind is Kind.NULL:
            expr = convert(expr, STRING)
        if expr not in found:
            found.append(expr)
    return found


def _group(node: Any, items: Sequence[Any], frame: Frame) -> Expr:
    if isinstance(node, exp.Literal) and not node.is_string:
        return frame.bind(ordinal(node, items, "GROUP BY"))
    if isinstance(node, exp.Column) and not node.args.get("table"):
        try:
            return frame.bind(node)
        except UnknownColumn:
            named = [item.this for item in items if isinstance(item, exp.Alias) and item.alias and _named(item, node)]
            if len(named) != 1:
                raise
            return frame.bind(named[0])
    if isinstance(node, exp.Tuple):
        raise NotSupportedError(f"GROUP BY {generate(node)} is not supported; list the columns without parentheses")
    return frame.bind(node)


def _named(item: Any, node: Any) -> bool:
    return name_of(item.args["alias"]) == name_of(node.this)


def ordinal(node: Any, items: Sequence[Any], clause: str) -> Any:
    """The select item that a number in GROUP BY or ORDER BY stands for."""
    text = str(node.this)
    if not text.isdigit() or not 1 <= int(text) <= len(items):
        raise SqlSyntaxError(f"{clause} position {text} is not in the select list of {len(items)}")
    item = items[int(text) - 1]
    if isinstance(item, exp.Star) or (isinstance(item, exp.Column) and isinstance(item.this, exp.Star)):
        raise SqlSyntaxError(f"{clause} position {text} is {generate(item)}; name the column")
    return item.this if isinstance(item, exp.Alias) else item


def group_columns(groups: Sequence[Expr], context: Context) -> tuple[tuple[Column, Expr], ...]:
    """Each grouping expression with a fresh column; a grouped column keeps its name."""
    return tuple(
        (context.column(expr.name if isinstance(expr, Column) else "group", expr.type, expr.nullable), expr)
        for expr in groups
    )
