"""Binds subqueries that stand in expressions: scalar, EXISTS, IN, ANY and ALL."""

from __future__ import annotations

from typing import Any

from sqlglot import exp

from ..errors import NotSupportedError, TypeMismatch
from ..storage.types import BOOLEAN, Kind
from . import binder_expressions
from .binder_expressions import COMPARISONS, SYMBOLS
from .binder_query import cast_query
from .bound import Query
from .coercion import unify
from .context import Frame, Handler, only
from .expressions import Exists, Expr, InSubquery, Quantified, ScalarSubquery

_MIRRORED = {"eq": "eq", "ne": "ne", "lt": "gt", "le": "ge", "gt": "lt", "ge": "le"}


def _query(node: Any, frame: Frame) -> Query:
    return frame.context.bind_query(node, frame.scope, frame.context)


def _scalar(node: Any, frame: Frame) -> Expr:
    query = _query(node, frame)
    if len(query.columns) != 1:
        raise TypeMismatch(f"a subquery used as a value must have one column, not {len(query.columns)}")
    return ScalarSubquery(query.columns[0].type, True, query)


def _exists(node: exp.Exists, frame: Frame) -> Expr:
    return Exists(BOOLEAN, False, _query(node.this, frame))


def _in(node: exp.In, frame: Frame) -> Expr:
    source = node.args.get("query")
    if source is None:
        return binder_expressions.HANDLERS[exp.In](node, frame)
    only(node, "this", "query")
    left = list(node.this.expressions) if isinstance(node.this, exp.Tuple) else [node.this]
    args, query = frame.bind_all(left), _query(source, frame)
    if len(args) != len(query.columns):
        raise TypeMismatch(f"IN compares {len(args)} and {len(query.columns)} columns: both sides need as many")
    args, query = _aligned(args, query, "IN cannot compare", frame)
    nullable = any(arg.nullable for arg in args) or any(column.nullable for column in query.columns)
    return InSubquery(BOOLEAN, nullable, args, query)


def _aligned(args: tuple[Expr, ...], query: Query, what: str, frame: Frame) -> tuple[tuple[Expr, ...], Query]:
    """Both sides of a comparison with a query's rows brought to the same types."""
    pairs = [unify([arg, column], what) for arg, column in zip(args, query.columns)]
    types = tuple(
        type_ if type_.kind is not Kind.NULL else column.type for (type_, _), column in zip(pairs, query.columns)
    )
    return tuple(found[0] for _, found in pairs), cast_query(query, types, frame.context)


def _comparison(node: Any, frame: Frame) -> Expr:
    right, left = node.expression, node.this
    if isinstance(right, exp.Any | exp.All):
        return _quantified(COMPARISONS[type(node)], left, right, frame)
    if isinstance(left, exp.Any | exp.All):
        return _quantified(_MIRRORED[COMPARISONS[type(node)]], right, left, frame)
    return binder_expressions.HANDLERS[type(node)](node, frame)


def _quantified(comparison: str, left: Any, right: Any, frame: Frame) -> Expr:
    word = "ALL" if isinstance(right, exp.All) else "ANY"
    if not isinstance(right.this, exp.Query):
        raise NotSupportedError(f"{word} needs a query in parentheses")
    query = _query(right.this, frame)
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
