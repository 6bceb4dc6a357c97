"""Binds subqueries inside expressions: scalar, EXISTS, IN, ANY and ALL."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from sqlglot import exp

from ....errors import NotSupportedError, TypeMismatch
from ....model.types import BOOLEAN, INTERVAL, Kind
from ...bound import Query, SubqueryRef, Values
from ...coercion import comparand, comparands, convert, is_cut, meeting_type, nulls_of
from ...expressions import Expr
from ...functions import comparable
from ...subqueries import Exists, InSubquery, Quantified, ScalarSubquery
from ..clauses.query_casts import cast_query, select_from
from ..context import Frame, Handler, only
from . import catalog_syntax, expressions
from .comparisons import SYMBOLS, negation
from .expressions import COMPARISONS

LONG_LIST_OF_ROWS = 64
"""Number of rows below which comparisons are used: they give a scan its keys, and cost less than a join."""
_CONSTANTS = (exp.Literal, exp.Placeholder, exp.Parameter, exp.Boolean, exp.Null)
_MIRRORED = {"eq": "eq", "ne": "ne", "lt": "gt", "le": "ge", "gt": "lt", "ge": "le"}


def _query(node: Any, frame: Frame) -> Query:
    known = frame.grouped_queries
    # Two equal texts with parameters have different values.
    key = node if known is None or not node.find(exp.Placeholder, exp.Parameter) else id(node)
    if known is not None and (found := known.get(key)) is not None:
        return found
    query = frame.bind_query(node)
    if known is not None and frame.clause == "GROUP BY":
        known[key] = query
    return query


def _scalar(node: Any, frame: Frame) -> Expr:
    query = _query(node, frame)
    if len(query.columns) != 1:
        raise TypeMismatch(f"a subquery used as a value must have one column, not {len(query.columns)}")
    return ScalarSubquery(query.columns[0].type, True, query)


def _exists(node: exp.Exists, frame: Frame) -> Expr:
    return Exists(BOOLEAN, False, _query(node.this, frame))


def _in(node: exp.In, frame: Frame) -> Expr:
    source = node.args.get("query")
    if source is None and len(node.expressions) == 1 and isinstance(node.expressions[0], exp.Values):
        only(node, "this", "expressions")
        source = node.expressions[0]
        if (items := _rows_of(source, node.this)) is not None:
            return expressions.in_list(node.this, items, frame)
    elif source is None:
        if not _is_long_list_of_rows(node):
            return expressions.HANDLERS[exp.In](node, frame)
        only(node, "this", "expressions")
        return _in_rows(node, frame) or expressions.HANDLERS[exp.In](node, frame)
    else:
        only(node, "this", "query")
    left = list(node.this.expressions) if isinstance(node.this, exp.Tuple) else [node.this]
    args, query = frame.bind_all(left), _query(source, frame)
    if len(args) != len(query.columns):
        raise TypeMismatch(
            f"IN compares {len(args)} and {len(query.columns)} columns: both sides must have the same number"
        )
    args, query = _aligned(args, query, "IN cannot compare", frame)
    nullable = any(arg.nullable for arg in args) or any(column.nullable for column in query.columns)
    return InSubquery(BOOLEAN, nullable, args, query)


def _is_long_list_of_rows(node: exp.In) -> bool:
    """True for `(a, b) IN ((1, 2), ...)` with enough rows of constants that a join is faster than comparing with each
    of them."""
    if not isinstance(node.this, exp.Tuple) or len(node.expressions) < LONG_LIST_OF_ROWS:
        return False
    width = len(node.this.expressions)
    return all(isinstance(arg, exp.Column) for arg in node.this.expressions) and all(
        isinstance(item, exp.Tuple)
        and len(item.expressions) == width
        and all(isinstance(value, _CONSTANTS) for value in item.expressions)
        for item in node.expressions
    )


def _in_rows(node: exp.In, frame: Frame) -> Expr | None:
    """`(a, b) IN ((1, 2), ...)` as `(a, b) IN (VALUES (1, 2), ...)`, each constant converted as in a list.

    None if a constant has more digits than the common type of its column.
    """
    args: list[Expr] = []
    columns: list[tuple[Expr, ...]] = []
    rows = [frame.bind_all(item.expressions) for item in node.expressions]
    for arg, *values in zip(frame.bind_all(node.this.expressions), *rows, strict=True):
        target, settled = meeting_type([arg, *values], "IN cannot compare")
        if any(is_cut(each.type, target) for each in (arg, *values)):
            return None
        found = tuple(comparable(convert(each, target, settled)) for each in (arg, *values))
        args.append(found[0])
        columns.append(found[1:])
    fresh = tuple(
        frame.context.column("value", arg.type, any(value.nullable for value in values))
        for arg, values in zip(args, columns, strict=True)
    )
    nullable = any(part.nullable for part in (*args, *fresh))
    listed = Values(fresh, tuple(zip(*columns, strict=True)))
    return InSubquery(BOOLEAN, nullable, tuple(args), Query(listed, fresh))


def _rows_of(values: exp.Values, left: Any) -> list[Any] | None:
    """The rows of `left IN (VALUES ...)` as the items of a list, if they are as wide as `left`.

    None otherwise, and for VALUES with an order or a limit.
    """
    if any(value for name, value in values.args.items() if name != "expressions"):
        return None
    rows = [list(row.expressions) if isinstance(row, exp.Tuple) else [row] for row in values.expressions]
    width = len(left.expressions) if isinstance(left, exp.Tuple) else 1
    if any(len(row) != width for row in rows):
        return None
    return values.expressions if width > 1 else [row[0] for row in rows]


def _settled(args: tuple[Expr, ...], query: Query, frame: Frame) -> Query:
    """The query with each column that selects NULL typed as its counterpart."""
    pairs = zip(args, query.columns, nulls_of(query), strict=True)
    types = tuple(
        arg.type if is_null and arg.type.kind is not Kind.NULL else column.type for arg, column, is_null in pairs
    )
    return cast_query(query, types, frame.context)


def _aligned(args: tuple[Expr, ...], query: Query, what: str, frame: Frame) -> tuple[tuple[Expr, ...], Query]:
    """Both sides of a comparison with a query's rows, converted to the same types."""
    query = _settled(args, query, frame)
    pairs = [comparands(arg, column, what) for arg, column in zip(args, query.columns)]
    types = tuple(
        type_ if type_.kind is not Kind.NULL else column.type for (type_, _), column in zip(pairs, query.columns)
    )
    query = cast_query(query, types, frame.context, comparand)
    if INTERVAL in types:
        select = select_from(query, frame.context)
        exprs = [comparable(column) for _, column in select.projection]
        columns = tuple(frame.context.column(c.name, e.type, e.nullable) for c, e in zip(query.columns, exprs))
        query = Query(replace(select, projection=tuple(zip(columns, exprs))), columns)
    return tuple(comparable(found[0]) for _, found in pairs), query


def _comparison(node: Any, frame: Frame) -> Expr:
    right, left = node.expression, node.this
    for array, value, mirrored in ((right, left, False), (left, right, True)):
        found = catalog_syntax.quantified_array(array)
        if found is not None:
            comparison = COMPARISONS[type(node)]
            comparison = _MIRRORED[comparison] if mirrored else comparison
            word, syntax = found
            return catalog_syntax.compare_with_array(comparison, frame.bind(value), frame.bind(syntax), word, frame)
    if isinstance(right, exp.Any | exp.All):
        return _quantified(COMPARISONS[type(node)], left, right, frame)
    if isinstance(left, exp.Any | exp.All):
        return _quantified(_MIRRORED[COMPARISONS[type(node)]], right, left, frame)
    for row, query, mirrored in ((left, right, False), (right, left, True)):
        if isinstance(row, exp.Tuple) and isinstance(query, exp.Subquery):
            comparison = COMPARISONS[type(node)]
            return _row_comparison(_MIRRORED[comparison] if mirrored else comparison, row, query, frame)
    return expressions.HANDLERS[type(node)](node, frame)


def _row_comparison(comparison: str, row: exp.Tuple, node: exp.Subquery, frame: Frame) -> Expr:
    """`(a, b) = (SELECT x, y ...)` as `(SELECT a = x AND b = y FROM (SELECT x, y ...))`."""
    if comparison not in ("eq", "ne"):
        raise NotSupportedError("a row of values and a query can only be compared with = and <>")
    args, query = frame.bind_all(row.expressions), _query(node, frame)
    if len(args) != len(query.columns):
        raise TypeMismatch(f"a row of {len(args)} values is compared with a query of {len(query.columns)} columns")
    select = select_from(_settled(args, query, frame), frame.context)
    assert isinstance(select.relation, SubqueryRef)
    equal = expressions.equal_rows(args, select.relation.columns)
    test = equal if comparison == "eq" else negation(equal)
    column = frame.context.column("row", BOOLEAN, True)
    body = replace(select, projection=((column, test),))
    return ScalarSubquery(BOOLEAN, True, Query(body, (column,)))


def _quantified(comparison: str, left: Any, right: Any, frame: Frame) -> Expr:
    word = "ALL" if isinstance(right, exp.All) else "ANY"
    if not isinstance(right.this, exp.Query):
        raise NotSupportedError(f"{word} needs a query in parentheses")
    query = _query(right.this, frame)
    if isinstance(left, exp.Tuple):
        if (comparison, word) not in (("eq", "ANY"), ("ne", "ALL")):
            raise NotSupportedError("a row of values can only be compared with = ANY and <> ALL of a query")
        args = frame.bind_all(left.expressions)
        if len(args) != len(query.columns):
            raise TypeMismatch(f"a row of {len(args)} values is compared with a query of {len(query.columns)} columns")
        args, query = _aligned(args, query, "there is no comparison = between", frame)
        membership = InSubquery(BOOLEAN, True, args, query)
        return membership if word == "ANY" else negation(membership)
    if len(query.columns) != 1:
        raise TypeMismatch(f"the query of {word} must have one column, not {len(query.columns)}")
    args, query = _aligned((frame.bind(left),), query, f"there is no comparison {SYMBOLS[comparison]} between", frame)
    nullable = args[0].nullable or query.columns[0].nullable
    return Quantified(BOOLEAN, nullable, args[0], comparison, word == "ALL", query)


HANDLERS: dict[type, Handler] = {
    exp.Subquery: _scalar,
    exp.Select: _scalar,
    exp.Exists: _exists,
    exp.In: _in,
    **dict.fromkeys(COMPARISONS, _comparison),
}
