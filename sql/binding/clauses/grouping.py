"""Binds GROUP BY and rewrites the clauses above it over the grouped columns.

Above the aggregation there are only two kinds of columns: those of grouping expressions and those of aggregate calls.
`Grouping.lift` replaces every occurrence of a grouping expression, also inside subqueries that refer to this query, and
rejects any other column of this FROM.

The elements of GROUP BY become grouping sets in `clauses.grouping_sets`. A group that is missing from a set may be NULL
even if its expression is not, and so may the expressions computed from it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import field, replace
from typing import Any

from sqlglot import exp

from ....errors import GroupingError, SqlSyntaxError, UnknownColumn
from ....model.lazy_dataclass import dataclass
from ....model.types import INT, STRING, Kind
from ...bound import Join, Relation, TableRef
from ...coercion import convert
from ...expressions import Call, Case, Column, Expr
from ...functions import REGISTRY
from ...subqueries import SUBQUERIES
from ...syntax.parser import generate
from ..context import Context, Frame, name_of, only
from ..scope import Scope
from ..traverse import Mapped, columns_read, map_query
from .grouping_sets import ExprSet, GroupBy, cube, index_sets, multiply, rollup


@dataclass(slots=True)
class Grouping:
    """The grouping expressions of one SELECT with their columns, and the rewriting of expressions over them."""

    context: Context
    groups: tuple[tuple[Column, Expr], ...]
    own_columns: frozenset[int]
    """Numbers of the columns of this SELECT's FROM."""
    determined: frozenset[int] = frozenset()
    """The columns of FROM that the groups determine: `determined_columns`."""
    added: dict[int, tuple[Column, Expr]] = field(default_factory=dict)
    """The determined columns that were lifted, which become groups as well."""
    _mapped: Mapped = field(default_factory=dict)

    def lift(self, expr: Expr, node: Any) -> Expr:
        """The expression over grouped columns; `GroupingError` points into `node` at a column that is not grouped."""
        for column, group in self.groups:
            if expr == group:
                return column
        if isinstance(expr, Column) and expr.id in self.determined:
            if expr.id not in self.added:
                self.added[expr.id] = self.context.column(expr.name, expr.type, expr.nullable), expr
            return self.added[expr.id][0]
        if isinstance(expr, Column) and expr.id in self.own_columns:
            raise self._error(expr, node)
        if isinstance(expr, SUBQUERIES) and expr.query is not None and columns_read(expr.query) & self.own_columns:
            inner = map_query(expr.query, lambda root: self.lift(root, node), self._mapped)
            expr = replace(expr, query=inner)
        return _with_nulls(expr, expr.map_children(lambda child: self.lift(child, node)))

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


def determined_columns(relation: Relation | None, group_by: GroupBy) -> frozenset[int]:
    """The columns of tables whose whole primary key is in every grouping set: each group has one value of them.

    This includes groups of rows that an outer join filled with NULL. Scans of changes are excluded: keys repeat there.
    """
    keys = {
        group.id
        for position, group in enumerate(group_by.groups)
        if isinstance(group, Column) and group_by.is_everywhere(position)
    }
    found: set[int] = set()
    pending = [relation]
    while keys and pending:
        part = pending.pop()
        if isinstance(part, Join):
            pending += [part.left, part.right]
        elif isinstance(part, TableRef) and (part.time is None or part.time.changes is None):
            if keys.issuperset(column.id for column in part.columns[: part.table.schema.key_columns]):
                found.update(column.id for column in part.columns)
    return frozenset(found)


def with_added(group_by: GroupBy, added: int) -> GroupBy:
    """GROUP BY with `added` more groups in every set; their expressions are not in `groups`."""
    if group_by.sets is None:
        return group_by
    more = tuple(range(len(group_by.groups), len(group_by.groups) + added))
    return replace(group_by, sets=tuple((*chosen, *more) for chosen in group_by.sets))


_NEVER_NULL = ("is_null", "is_true", "is_false", "is_distinct", "concat_ws")
_SKIP_NULLS = ("coalesce", "greatest", "least")


def _with_nulls(before: Expr, after: Expr) -> Expr:
    """The lifted expression, nullable if a part of it has become nullable."""
    if after is before or after.nullable:
        return after
    pairs = list(zip(before.children(), after.children()))
    if not any(new.nullable and not old.nullable for old, new in pairs):
        return after
    if isinstance(after, Call) and after.function in _NEVER_NULL:
        return after
    if isinstance(after, Call) and after.function in _SKIP_NULLS:
        return replace(after, nullable=all(arg.nullable for arg in after.args))
    if isinstance(after, Case):
        values = (*(value for _, value in after.branches), after.default)
        return replace(after, nullable=any(value.nullable for value in values))
    return replace(after, nullable=True)


def _is_within(place: Any, node: Any) -> bool:
    while place is not None:
        if place is node:
            return True
        place = place.parent
    return False


def _is_aggregated(place: Any, node: Any) -> bool:
    while place is not None and place is not node.parent:
        if _calls_aggregate(place):
            return True
        place = place.parent
    return False


def _calls_aggregate(node: Any) -> bool:
    """True for a call of an aggregate function, or of grouping(), without OVER."""
    if not isinstance(node, exp.Anonymous):
        return False
    name = name_of(node.this) if isinstance(node.this, exp.Identifier) else str(node.this).lower()
    function = REGISTRY.get(name)
    return name == "grouping" or (function is not None and function.aggregate)


def scope_of_sets(clause: Any, scope: Scope) -> Scope:
    """The scope of a block whose GROUP BY may have several sets: its columns may be NULL above them, so all are
    nullable."""
    if not any(isinstance(element, exp.GroupingSets | exp.Rollup | exp.Cube) for element in clause.expressions):
        return scope
    fields = [
        replace(field, expr=replace(field.expr, nullable=True)) if isinstance(field.expr, Column) else field
        for field in scope.fields
    ]
    return replace(scope, fields=tuple(fields))


# ---- elements --------------------------------------------------------------------------------------------------------


def bind_groups(clause: Any, items: Sequence[Any], frame: Frame) -> GroupBy:
    """The grouping sets of GROUP BY, including ordinals and aliases of the select list (`items`, syntax nodes).

    A plain name refers to a column of FROM first and to an alias second, as in PostgreSQL.
    """
    only(clause, "expressions", "all")
    if clause.args.get("all") is True:
        return GroupBy(tuple(dict.fromkeys(_everything(items, frame))))
    with frame.context.at(clause):
        found = multiply([_sets(node, items, frame) for node in clause.expressions])
    groups, sets = index_sets(found, clause.args.get("all") is False)
    if len(sets) == 1:
        return GroupBy(groups)
    return GroupBy(groups, tuple(sets), frame.context.column("grouping_set", INT, False))


def _everything(items: Sequence[Any], frame: Frame) -> Iterator[Expr]:
    """The groups of GROUP BY ALL: the select items without aggregate and window calls."""
    for item in items:
        node = item.this if isinstance(item, exp.Alias) else item
        if isinstance(node, exp.Star) or (isinstance(node, exp.Column) and isinstance(node.this, exp.Star)):
            qualifier = node.args.get("table")
            yield from (field.expr for field in frame.scope.star(name_of(qualifier) if qualifier else None))
        elif not _is_computed_above(node):
            yield _expression(node, items, frame)


def _is_computed_above(node: Any) -> bool:
    """True if the node contains an aggregate or window call, outside of subqueries."""
    if isinstance(node, exp.Query | exp.Subquery):
        return False
    return (
        isinstance(node, exp.Window) or _calls_aggregate(node) or any(map(_is_computed_above, node.iter_expressions()))
    )


def _sets(node: Any, items: Sequence[Any], frame: Frame) -> list[ExprSet]:
    """The grouping sets of one element."""
    with frame.context.at(node):
        if isinstance(node, exp.GroupingSets):
            return [found for element in node.expressions for found in _sets(element, items, frame)]
        if isinstance(node, exp.Rollup):
            return rollup([_part(part, items, frame) for part in node.expressions])
        if isinstance(node, exp.Cube):
            return cube([_part(part, items, frame) for part in node.expressions])
        return [_part(node, items, frame)]


def _part(node: Any, items: Sequence[Any], frame: Frame) -> ExprSet:
    """The expressions of `a` or `(a, b)`."""
    nodes = node.expressions if isinstance(node, exp.Tuple) else [node]
    return tuple(dict.fromkeys(_expression(each, items, frame) for each in nodes))


def _expression(node: Any, items: Sequence[Any], frame: Frame) -> Expr:
    with frame.context.at(node):
        expr = _group(node, items, frame)
    return convert(expr, STRING) if expr.type.kind is Kind.NULL else expr


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
    if isinstance(node, exp.Paren) and isinstance(node.this, exp.Literal | exp.Column):
        return _group(node.this, items, frame)
    return frame.bind(node)


def _named(item: Any, node: Any) -> bool:
    return name_of(item.args["alias"]) == name_of(node.this)


def ordinal(node: Any, items: Sequence[Any], clause: str) -> Any:
    """The select item for a number in GROUP BY or ORDER BY."""
    text = str(node.this)
    if not text.isdigit() or not 1 <= int(text) <= len(items):
        raise SqlSyntaxError(f"{clause} position {text} is not in the select list of {len(items)}")
    item = items[int(text) - 1]
    if isinstance(item, exp.Star) or (isinstance(item, exp.Column) and isinstance(item.this, exp.Star)):
        raise SqlSyntaxError(f"{clause} position {text} is {generate(item)}; name the column")
    return item.this if isinstance(item, exp.Alias) else item


def group_columns(group_by: GroupBy, context: Context) -> tuple[tuple[Column, Expr], ...]:
    """Each grouping expression with a fresh column; a grouped column keeps its name."""
    found = []
    for position, expr in enumerate(group_by.groups):
        nullable = expr.nullable or not group_by.is_everywhere(position)
        found.append((context.column(expr.name if isinstance(expr, Column) else "group", expr.type, nullable), expr))
    return tuple(found)
