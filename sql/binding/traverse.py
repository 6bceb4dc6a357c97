"""Walks and rewrites bound queries, including the insides of subqueries, where `expressions.walk` and `transform` stop.

Queries that several references share (a CTE used twice) stay one object: a rewrite maps equal inputs to one output.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, TypeAlias, cast

from ..bound import Join, Query, Recursive, Relation, Select, SeriesRef, SetOperation, SubqueryRef, Values
from ..constant_rows import ConstantRows
from ..expressions import Column, Expr, walk
from ..subqueries import SUBQUERIES

Change = Callable[[Expr], Expr]
Mapped: TypeAlias = dict[int, tuple[Query, Query]]
"""The rewritten form of each query, by `id`; the query is kept alive, so that its `id` is not reused."""


def expressions_of(query: Query) -> Iterator[Expr]:
    """The root expressions of a query: those of derived tables and of both sides of set operations included, those of
    subquery expressions excluded."""
    body = query.body
    if isinstance(body, Select):
        if body.relation is not None:
            yield from _relation_expressions(body.relation)
        if body.where is not None:
            yield body.where
        yield from (expr for _, expr in body.groups)
        yield from (call for _, call in body.aggregates)
        if body.having is not None:
            yield body.having
        yield from (call for _, call in body.windows)
        if body.qualify is not None:
            yield body.qualify
        yield from (expr for _, expr in body.projection)
    elif isinstance(body, Values):
        if not isinstance(body.rows, ConstantRows):
            yield from (value for row in body.rows for value in row)
    elif isinstance(body, Recursive):
        yield from expressions_of(body.anchor)
        yield from expressions_of(body.step)
    else:
        yield from expressions_of(body.left)
        yield from expressions_of(body.right)
    yield from (item.expr for item in query.order)
    yield from (bound for bound in (query.limit, query.offset) if bound is not None)


def _relation_expressions(relation: Relation) -> Iterator[Expr]:
    if isinstance(relation, Join):
        yield from _relation_expressions(relation.left)
        yield from _relation_expressions(relation.right)
        if relation.condition is not None:
            yield relation.condition
    elif isinstance(relation, SubqueryRef):
        yield from expressions_of(relation.query)
    elif isinstance(relation, SeriesRef):
        yield from (relation.start, relation.stop, relation.step)


def walk_deep(query: Query) -> Iterator[Expr]:
    """Every expression node of a query, also inside its subquery expressions."""
    for root in expressions_of(query):
        for node in walk(root):
            yield node
            if isinstance(node, SUBQUERIES) and node.query is not None:
                yield from walk_deep(node.query)


def columns_read(query: Query) -> frozenset[int]:
    """The numbers of all columns that a query reads, its own and outer ones."""
    return frozenset(node.id for node in walk_deep(query) if isinstance(node, Column))


def map_query(query: Query, change: Change, mapped: Mapped) -> Query:
    """The query with `change` applied to each of its root expressions (those of `expressions_of`).

    `mapped` records the result for each query: for callers that map several queries with shared parts.
    """
    if id(query) not in mapped:
        mapped[id(query)] = query, _mapped(query, change, mapped)
    return mapped[id(query)][1]


def _mapped(query: Query, change: Change, mapped: Mapped) -> Query:
    body: Any = query.body
    if isinstance(body, Select):
        body = _map_select(body, change, mapped)
    elif isinstance(body, Values):
        if not isinstance(body.rows, ConstantRows):
            body = replace(body, rows=tuple(tuple(change(value) for value in row) for row in body.rows))
    elif isinstance(body, Recursive):
        anchor, step = map_query(body.anchor, change, mapped), map_query(body.step, change, mapped)
        body = replace(body, anchor=anchor, step=step)
    else:
        left, right = map_query(body.left, change, mapped), map_query(body.right, change, mapped)
        body = replace(cast(SetOperation, body), left=left, right=right)
    return replace(
        query,
        body=body,
        order=tuple(replace(item, expr=change(item.expr)) for item in query.order),
        limit=change(query.limit) if query.limit is not None else None,
        offset=change(query.offset) if query.offset is not None else None,
    )


def _map_select(body: Select, change: Change, mapped: Mapped) -> Select:
    return replace(
        body,
        relation=_map_relation(body.relation, change, mapped) if body.relation is not None else None,
        where=change(body.where) if body.where is not None else None,
        groups=tuple((column, change(expr)) for column, expr in body.groups),
        aggregates=tuple((column, cast(Any, change(call))) for column, call in body.aggregates),
        having=change(body.having) if body.having is not None else None,
        windows=tuple((column, cast(Any, change(call))) for column, call in body.windows),
        qualify=change(body.qualify) if body.qualify is not None else None,
        projection=tuple((column, change(expr)) for column, expr in body.projection),
    )


def _map_relation(relation: Relation, change: Change, mapped: Mapped) -> Relation:
    if isinstance(relation, Join):
        condition = change(relation.condition) if relation.condition is not None else None
        left, right = (_map_relation(side, change, mapped) for side in (relation.left, relation.right))
        return replace(relation, left=left, right=right, condition=condition)
    if isinstance(relation, SeriesRef):
        return replace(relation, start=change(relation.start), stop=change(relation.stop), step=change(relation.step))
    if isinstance(relation, SubqueryRef):
        return replace(relation, query=map_query(relation.query, change, mapped))
    return relation
