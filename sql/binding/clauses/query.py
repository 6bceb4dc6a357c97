"""Binds whole queries: WITH, set operations, VALUES, LIMIT, around the SELECT blocks of `clauses.select`."""

from __future__ import annotations

from typing import Any

from sqlglot import exp

from ....errors import NotSupportedError, SqlSyntaxError, TypeMismatch, UnknownColumn
from ....model.types import BIGINT, STRING, DataType, Kind
from ...bound import Query, SetOperation, Values
from ...coercion import comparand, convert, unify
from ...deferred_parameters import DeferredParameter
from ...expressions import Column, Expr, Literal, OrderItem, Parameter, walk
from ...subqueries import SUBQUERIES
from ...syntax.written_names import did_you_mean
from ..context import Context, Frame, name_of, only, unsupported
from ..scope import Scope
from .query_casts import cast_query, outputs, select_from
from .select import bind_select, output_position
from .with_clause import bind_with

_SET_OPERATIONS = {exp.Union: "union", exp.Intersect: "intersect", exp.Except: "except"}


def bind_query(node: Any, scope: Scope, context: Context) -> Query:
    """Binds a query of any form; `scope` is that of its surroundings."""
    while isinstance(node, exp.Subquery) and _is_wrapper(node):
        node = node.this
    with_ = node.args.get("with_")
    if with_ is not None:
        scope = bind_with(with_, node, scope, context)
    with context.at(node):
        if isinstance(node, exp.Select):
            return _select(node, scope, context)
        if isinstance(node, exp.Subquery):
            return _wrapped(node, scope, context)
        if type(node) in _SET_OPERATIONS:
            return _set_operation(node, scope, context)
        if isinstance(node, exp.Values):
            return _values(node, scope, context)
        raise unsupported(node)


def _is_wrapper(node: exp.Subquery) -> bool:
    return not any(value for name, value in node.args.items() if name not in ("this", "alias"))


def _select(node: exp.Select, scope: Scope, context: Context) -> Query:
    block = bind_select(node, scope, context)
    columns = block.body.columns
    limits = _limits(node, context)
    return Query(block.body, columns[: block.visible], block.order, *limits[:2], columns[block.visible :], limits[2])


def _wrapped(node: exp.Subquery, scope: Scope, context: Context) -> Query:
    """`(query) ORDER BY ... LIMIT ...`: the inner query is a table for the outer order."""
    only(node, "this", "alias", "order", "limit", "offset", "with_")
    inner = bind_query(node.this, scope, context)
    body = select_from(inner, context)
    limit, offset, ties = _limits(node, context)
    return Query(body, body.columns, _output_order(node, body.columns, context), limit, offset, ties=ties)


# ---- WITH ------------------------------------------------------------------------------------------------------------


def with_scope(node: Any, context: Context) -> Scope:
    """The scope of WITH for a statement that changes rows."""
    with_ = node.args.get("with_")
    return Scope() if with_ is None else bind_with(with_, node, Scope(), context)


# ---- set operations --------------------------------------------------------------------------------------------------


def _set_operation(node: Any, scope: Scope, context: Context) -> Query:
    only(node, "this", "expression", "distinct", "order", "limit", "offset", "with_")
    kind = _SET_OPERATIONS[type(node)]
    left = bind_query(node.this, scope, context)
    right = bind_query(node.expression, scope, context)
    if len(left.columns) != len(right.columns):
        raise TypeMismatch(f"{kind.upper()} of {len(left.columns)} and {len(right.columns)} columns: both need as many")
    types = []
    for i, (a, b) in enumerate(zip(outputs(left), outputs(right)), 1):
        with context.at(node):
            types.append(unify([a, b], f"column {i} of {kind.upper()} is of types")[0])
    wanted = tuple(STRING if t.kind is Kind.NULL else t for t in types)
    # Columns that are only compared need not fit the common type.
    left = cast_query(left, wanted, context, comparand if kind == "intersect" else convert)
    right = cast_query(right, wanted, context, convert if kind == "union" else comparand)
    columns = tuple(
        context.column(a.name, t, _set_nullable(kind, a, b)) for a, b, t in zip(left.columns, right.columns, wanted)
    )
    body = SetOperation(kind, not node.args.get("distinct"), left, right, columns)
    limit, offset, ties = _limits(node, context)
    return Query(body, columns, _output_order(node, columns, context), limit, offset, ties=ties)


def _set_nullable(kind: str, left: Column, right: Column) -> bool:
    if kind == "union":
        return left.nullable or right.nullable
    return left.nullable and right.nullable if kind == "intersect" else left.nullable


# ---- VALUES ----------------------------------------------------------------------------------------------------------


def _values(node: exp.Values, scope: Scope, context: Context) -> Query:
    only(node, "expressions", "alias", "order", "limit", "offset", "with_")
    if node.args.get("alias") is not None and not isinstance(node.parent, exp.From | exp.Join):
        raise SqlSyntaxError("VALUES has a name only in FROM")
    rows = [list(row.expressions) if isinstance(row, exp.Tuple) else [row] for row in node.expressions]
    width = len(rows[0]) if rows else 0
    if not width:
        raise SqlSyntaxError("VALUES needs at least one row of at least one value")
    frame = Frame(context, scope, "VALUES")
    bound = []
    for row, syntax in zip(rows, node.expressions):
        with context.at(syntax):
            if len(row) != width:
                raise SqlSyntaxError(f"VALUES rows must be of equal length: {width} and {len(row)}")
        bound.append(frame.bind_all(row))
    unified = []
    for i, values in enumerate(zip(*bound), 1):
        type_, found = unify(values, f"column {i} of VALUES is of types")
        unified.append(found if type_.kind is not Kind.NULL else tuple(convert(v, STRING) for v in found))
    columns = tuple(
        context.column(f"column{i}", values[0].type, any(v.nullable for v in values))
        for i, values in enumerate(unified, 1)
    )
    limit, offset, ties = _limits(node, context)
    body = Values(columns, tuple(zip(*unified)))
    return Query(body, columns, _output_order(node, columns, context), limit, offset, ties=ties)


# ---- ORDER BY of output columns, LIMIT -------------------------------------------------------------------------------


def _output_order(node: Any, columns: tuple[Column, ...], context: Context) -> tuple[OrderItem, ...]:
    clause = node.args.get("order")
    if clause is None:
        return ()
    only(clause, "expressions")
    names = [column.name for column in columns]
    order = []
    for key in clause.expressions:
        only(key, "this", "desc", "nulls_first")
        with context.at(key.this):
            position = output_position(key.this, names, ())
            if position is None:
                raise UnknownColumn(_order_hint(key.this, names))
        order.append(OrderItem(columns[position], bool(key.args.get("desc")), bool(key.args.get("nulls_first"))))
    return tuple(order)


def _order_hint(node: Any, names: list[str]) -> str:
    if isinstance(node, exp.Column) and isinstance(node.this, exp.Identifier):
        return f"there is no output column {name_of(node.this)}{did_you_mean(name_of(node.this), names, 'there are')}"
    return (
        "ORDER BY of a set operation takes an output column or its position, not an expression over one; "
        f"SELECT * FROM (...) ORDER BY takes both. The columns are {', '.join(names)}"
    )


def _limits(node: Any, context: Context) -> tuple[Expr | None, Expr | None, bool]:
    """LIMIT, OFFSET, and True for FETCH FIRST ... WITH TIES."""
    limit, offset = node.args.get("limit"), node.args.get("offset")
    ties = isinstance(limit, exp.Fetch)
    if ties:
        only(limit, "direction", "count", "limit_options")
        if node.args.get("order") is None:
            with context.at(limit):
                raise SqlSyntaxError("WITH TIES needs an ORDER BY: ties are rows that are equal in it")
    elif limit is not None:
        only(limit, "expression")
    if offset is not None:
        only(offset, "expression")
    rows = None if limit is None else limit.args["count" if ties else "expression"]
    first = _bound(rows, "FETCH FIRST" if ties else "LIMIT", context)
    skipped = _bound(offset.expression if offset is not None else None, "OFFSET", context)
    return first, skipped, ties and first is not None


def _bound(node: Any, clause: str, context: Context) -> Expr | None:
    if node is None or (isinstance(node, exp.Var) and node.name.upper() == "ALL"):
        return None
    with context.at(node):
        found = Frame(context, Scope(), clause).bind(node)
        if isinstance(found, Literal) and found.value is None:
            convert(found, BIGINT)  # a parameter without a value notes its type
            return None
        if isinstance(found, SUBQUERIES) or any(isinstance(part, SUBQUERIES) for part in walk(found)):
            raise NotSupportedError(f"a subquery in {clause} is not supported; give the number or a parameter")
        literal = isinstance(found, Literal | Parameter)
        if not (found.type.is_integer or (literal and found.type.kind in (Kind.STRING, Kind.NULL))):
            raise TypeMismatch(f"{clause} needs a whole number, not {found.type}")
        count = convert(found, BIGINT)
        sample = count.sample if isinstance(count, DeferredParameter) else count
        if isinstance(sample, Literal) and sample.value < 0:
            raise TypeMismatch(f"{clause} must not be negative")
        return count.converted(_not_negative, BIGINT) if isinstance(count, DeferredParameter) else count


def _not_negative(count: Literal, type_: DataType) -> Literal | None:
    """Converts another bind value for a number of rows."""
    return count if count.value >= 0 else None
