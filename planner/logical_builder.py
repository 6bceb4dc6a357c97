"""Logical plan of a bound query, built clause by clause in SQL's order of evaluation.

    FROM → WHERE → GROUP BY → HAVING → windows → QUALIFY → SELECT → DISTINCT → ORDER BY → LIMIT

Subqueries in expressions stay expressions here; `rules/decorrelate_subqueries.py` turns them into joins.
"""

from __future__ import annotations

from collections.abc import Iterable

from ..sql import bound
from ..sql.constant_rows import ConstantRows
from ..sql.expressions import Column, Expr, OrderItem
from ..sql.subqueries import SUBQUERIES
from .algebra import windows
from .algebra.logical import (
    Aggregate,
    FileScan,
    Filter,
    Join,
    Limit,
    Node,
    Project,
    Recursive,
    Scan,
    Series,
    SetOperation,
    Shared,
    Sort,
    TopRows,
    Values,
    WorkingTable,
)
from .algebra.trees import Numbers, each, passing
from .context import Context


class Builder:
    """Builds the queries of one statement; a CTE used more than once becomes one `Shared` subplan."""

    def __init__(self, context: Context):
        self._context = context
        self._shared = context.shared_queries
        self._working: dict[int, int] = {}

    def query(self, query: bound.Query) -> Node:
        """Return the plan of a whole query; its columns are the visible ones, in order."""
        node = self._body(query.body, query.order)
        if query.ties:
            node = TopRows(node, (), query.order, query.limit, query.offset, ties=True)
        elif query.order:
            node = Sort(node, query.order)
        if not query.ties and (query.limit is not None or query.offset is not None):
            node = Limit(node, query.limit, query.offset)
        if [c.id for c in node.columns] != [c.id for c in query.columns]:
            node = Project(node, passing(query.columns))
        return node

    def _body(
        self,
        body: bound.Select | bound.Values | bound.SetOperation | bound.Recursive,
        order: tuple[OrderItem, ...] = (),
    ) -> Node:
        if isinstance(body, bound.Values):
            return Values(body.columns, body.rows)
        if isinstance(body, bound.SetOperation):
            return SetOperation(body.kind, body.all, self.query(body.left), self.query(body.right), body.columns)
        if isinstance(body, bound.Recursive):
            key = self._working[body.key] = self._context.share_key()
            return Recursive(key, body.all, self.query(body.anchor), self.query(body.step), body.columns)
        return self._select(body, order)

    def _select(self, select: bound.Select, order: tuple[OrderItem, ...]) -> Node:
        node = Values((), ((),)) if select.relation is None else self.relation(select.relation)
        if select.where is not None:
            node = Filter(node, select.where)
        if select.grouped or select.groups or select.aggregates:
            node = Aggregate(node, select.groups, select.aggregates, select.sets, select.set_number)
        if select.having is not None:
            node = Filter(node, select.having)
        node = windows.over(node, select.windows)
        if select.qualify is not None:
            node = Filter(node, select.qualify)
        node = Project(node, select.projection)
        if select.distinct_on:
            node = windows.distinct_on(node, select.distinct_on, order)
        return Aggregate(node, passing(node.columns), ()) if select.distinct else node

    def relation(self, relation: bound.Relation) -> Node:
        """Return the plan of one item of FROM."""
        if isinstance(relation, bound.TableRef):
            names = zip(relation.columns, relation.table.schema.names, strict=True)
            numbers = tuple((c.id, name) for c, name in names)
            return Scan(relation.table, relation.alias, relation.columns, numbers, time=relation.time)
        if isinstance(relation, bound.FileRef):
            return FileScan(relation, relation.columns)
        if isinstance(relation, bound.SubqueryRef):
            return self._derived(relation)
        if isinstance(relation, bound.SeriesRef):
            (column,) = relation.columns
            return Series(Values((), ((),)), column, relation.start, relation.stop, relation.step)
        if isinstance(relation, bound.WorkingRef):
            return WorkingTable(self._working[relation.key], relation.columns)
        left, right = self.relation(relation.left), self.relation(relation.right)
        kind = "inner" if relation.kind == "cross" and relation.condition is not None else relation.kind
        return Join(kind, left, right, relation.condition)

    def _derived(self, ref: bound.SubqueryRef) -> Node:
        if ref.shared is not None:
            # The query object is kept with its plan, so that its id is not reused for another query.
            if id(ref.query) not in self._shared:
                self._shared[id(ref.query)] = (ref.query, self._context.share_key(), self.query(ref.query))
            _, key, source = self._shared[id(ref.query)]
            return Shared(key, source, ref.columns)
        source = self.query(ref.query)
        return Project(source, tuple(zip(ref.columns, source.columns, strict=True)))


def numbers_above(query: bound.Query) -> Numbers:
    """Source of column numbers that the statement does not use."""
    found: list[int] = []
    _add_numbers(query, found, set())
    return Numbers(max(found, default=0))


def _add_numbers(query: bound.Query, found: list[int], seen: set[int]) -> None:
    """Add the column numbers of a query. Queries whose `id` is in `seen` are skipped: several places may share one."""
    if id(query) in seen:
        return
    seen.add(id(query))
    found.extend(c.id for c in (*query.columns, *query.hidden))
    body = query.body
    if isinstance(body, bound.SetOperation):
        found.extend(c.id for c in body.columns)
        _add_numbers(body.left, found, seen)
        _add_numbers(body.right, found, seen)
    elif isinstance(body, bound.Recursive):
        found.extend(c.id for c in body.columns)
        _add_numbers(body.anchor, found, seen)
        _add_numbers(body.step, found, seen)
    elif isinstance(body, bound.Values):
        found.extend(c.id for c in body.columns)
        if not isinstance(body.rows, ConstantRows):
            _add_numbers_in((expr for row in body.rows for expr in row), found, seen)
    else:
        made = (*body.projection, *body.groups, *body.aggregates, *body.windows)
        found.extend(c.id for c, _ in made)
        if body.set_number is not None:
            found.append(body.set_number.id)
        _add_numbers_in((expr for _, expr in made), found, seen)
        conditions = (expr for expr in (body.where, body.having, body.qualify) if expr is not None)
        _add_numbers_in(conditions, found, seen)
        if body.relation is not None:
            _add_numbers_of_relation(body.relation, found, seen)


def _add_numbers_of_relation(relation: bound.Relation, found: list[int], seen: set[int]) -> None:
    if isinstance(relation, bound.Join):
        _add_numbers_of_relation(relation.left, found, seen)
        _add_numbers_of_relation(relation.right, found, seen)
        if relation.condition is not None:
            _add_numbers_in([relation.condition], found, seen)
        return
    found.extend(c.id for c in relation.columns)
    if isinstance(relation, bound.SubqueryRef):
        _add_numbers(relation.query, found, seen)
    elif isinstance(relation, bound.SeriesRef):
        _add_numbers_in((relation.start, relation.stop, relation.step), found, seen)


def _add_numbers_in(exprs: Iterable[Expr], found: list[int], seen: set[int]) -> None:
    for expr in exprs:
        for node in each(expr):
            if isinstance(node, Column):
                found.append(node.id)
            elif isinstance(node, SUBQUERIES) and node.query is not None:
                _add_numbers(node.query, found, seen)
