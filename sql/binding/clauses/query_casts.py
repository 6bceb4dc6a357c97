"""Converts whole queries to other column types, for set operations, IN and INSERT."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from ....model.types import DataType, Kind
from ...bound import Query, Select, SubqueryRef
from ...coercion import convert
from ...expressions import Expr, Literal
from ..context import Context


def select_from(
    query: Query,
    context: Context,
    types: tuple[DataType, ...] | None = None,
    convert: Callable[[Expr, DataType], Expr] = convert,
) -> Select:
    """`SELECT * FROM (query)`, each column converted to its type of `types` by `convert` if those are given."""
    inner = tuple(context.column(c.name, c.type, c.nullable) for c in query.columns)
    exprs = tuple(convert(c, t) for c, t in zip(inner, types)) if types is not None else inner
    projection = tuple((context.column(c.name, e.type, e.nullable), e) for c, e in zip(inner, exprs))
    return Select(SubqueryRef(query, "", inner), None, projection)


def outputs(query: Query) -> list[Expr]:
    """The expressions of a query's columns, as far as they are literals: the type of `SELECT 'x'` can still change."""
    body = query.body
    if isinstance(body, Select) and not (body.distinct or body.distinct_on) and not query.order:
        found: list[Expr] = [expr if isinstance(expr, Literal) else column for column, expr in body.projection]
        return found[: len(query.columns)]
    return list(query.columns)


def cast_query(
    query: Query,
    types: tuple[DataType, ...],
    context: Context,
    convert: Callable[[Expr, DataType], Expr] = convert,
) -> Query:
    """The query with its columns converted to `types` by `convert`."""
    if all(is_same(column.type, type_) for column, type_ in zip(query.columns, types)):
        return query
    body = query.body
    if isinstance(body, Select) and not (body.distinct or body.distinct_on or query.order or query.hidden):
        exprs = [convert(expr, type_) for (_, expr), type_ in zip(body.projection, types)]
        projection = tuple(
            (context.column(column.name, expr.type, expr.nullable), expr)
            for (column, _), expr in zip(body.projection, exprs)
        )
        body = replace(body, projection=projection)
        return replace(query, body=body, columns=body.columns)
    body = select_from(query, context, types, convert)
    return Query(body, body.columns)


def is_same(left: DataType, right: DataType) -> bool:
    """True if a value of one type needs no cast to the other."""
    return left == right or left.kind is right.kind is Kind.STRING
