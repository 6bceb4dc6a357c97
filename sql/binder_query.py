"""Binds whole queries: WITH, set operations, VALUES, LIMIT, around the SELECT blocks of `binder_select`."""

from __future__ import annotations

from dataclasses import replace
from types import MappingProxyType
from typing import Any

from sqlglot import exp

from ..errors import NotSupportedError, SqlSyntaxError, StatementError, TypeMismatch, UnknownColumn, did_you_mean
from ..storage.types import BIGINT, STRING, DataType, Kind
from .binder_select import bind_select, output_position
from .bound import Query, Select, SetOperation, SubqueryRef, Values
from .coercion import convert, unify
from .context import Context, Frame, name_of, only, unsupported
from .expressions import Column, Expr, Literal, OrderItem
from .scope import CommonTable, Scope

_SET_OPERATIONS = {exp.Union: "union", exp.Intersect: "intersect", exp.Except: "except"}


def bind_query(node: Any, scope: Scope, context: Context) -> Query:
    """Bind a query of any form; `scope` is what surrounds it."""
    while isinstance(node, exp.Subquery) and _is_wrapper(node):
        node = node.this
    with_ = node.args.get("with_")
    if with_ is not None:
        scope = _with(with_, node, scope, context)
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
    limit, offset = _limits(node, context)
    return Query(block.body, columns[: block.visible], block.order, limit, offset, columns[block.visible :])


def _wrapped(node: exp.Subquery, scope: Scope, context: Context) -> Query:
    """`(query) ORDER BY ... LIMIT ...`: the inner query is a table for the outer order."""
    only(node, "this", "alias", "order", "limit", "offset", "with_")
    inner = bind_query(node.this, scope, context)
    body = select_from(inner, context)
    limit, offset = _limits(node, context)
    return Query(body, body.columns, _output_order(node, body.columns, context), limit, offset)


def select_from(query: Query, context: Context, types: tuple[DataType, ...] | None = None) -> Select:
    """`SELECT * FROM (query)`, each column cast to its type of `types` where those are given."""
    inner = tuple(context.column(c.name, c.type, c.nullable) for c in query.columns)
    exprs = tuple(convert(c, t) for c, t in zip(inner, types)) if types is not None else inner
    projection = tuple((context.column(c.name, e.type, e.nullable), e) for c, e in zip(inner, exprs))
    return Select(SubqueryRef(query, "", inner), None, projection)


# ---- WITH ------------------------------------------------------------------------------------------------------------


def _with(node: exp.With, query: Any, scope: Scope, context: Context) -> Scope:
    """The scope with the CTEs of a WITH; each is bound here, once, and sees those before it."""
    only(node, "expressions", "recursive")
    if node.args.get("recursive"):
        raise NotSupportedError("WITH RECURSIVE is not supported")
    found: dict[str, CommonTable] = {}
    for cte in node.expressions:
        with context.at(cte.args["alias"]):
            if not isinstance(cte, exp.CTE):
                raise unsupported(cte)
            only(cte, "this", "alias", "materialized")
            name = name_of(cte.args["alias"].this)
            if name in found:
                raise StatementError(f"WITH names {name} twice")
        inner = Scope(scope, common_tables=MappingProxyType(dict(found)))
        found[name] = _common_table(cte, name, bind_query(cte.this, inner, context), query, context)
    return Scope(scope, common_tables=MappingProxyType(found))


def _common_table(cte: exp.CTE, name: str, bound: Query, query: Any, context: Context) -> CommonTable:
    alias = cte.args["alias"]
    names = [name_of(column) for column in alias.args.get("columns") or []]
    with context.at(alias):
        if len(names) > len(bound.columns):
            raise TypeMismatch(f"{name} has {len(bound.columns)} columns, {len(names)} names are given")
    named = tuple(names) + tuple(column.name for column in bound.columns[len(names) :])
    # Counted by name in the text: a shadowing CTE of the same name may count too much, which costs nothing but a hint.
    uses = sum(
        1
        for table in query.find_all(exp.Table)
        if isinstance(table.this, exp.Identifier) and name_of(table.this) == name
    )
    return CommonTable(bound, named, uses > 1)


# ---- set operations --------------------------------------------------------------------------------------------------


def _set_operation(node: Any, scope: Scope, context: Context) -> Query:
    only(node, "this", "expression", "distinct", "order", "limit", "offset", "with_")
    kind = _SET_OPERATIONS[type(node)]
    left = bind_query(node.this, scope, context)
    right = bind_query(node.expression, scope, context)
    if len(left.columns) != len(right.columns):
        raise TypeMismatch(f"{kind.upper()} of {len(left.columns)} and {len(right.columns)} columns: both need as many")
    types = []
    for i, (a, b) in enumerate(zip(_outputs(left), _outputs(right)), 1):
        with context.at(node):
            types.append(unify([a, b], f"column {i} of {kind.upper()} is of types")[0])
    wanted = tuple(STRING if t.kind is Kind.NULL else t for t in types)
    left, right = cast_query(left, wanted, context), cast_query(right, wanted, context)
    columns = tuple(
        context.column(a.name, t, _set_nullable(kind, a, b)) for a, b, t in zip(left.columns, right.columns, wanted)
    )
    body = SetOperation(kind, not node.args.get("distinct"), left, right, columns)
    limit, offset = _limits(node, context)
    return Query(body, columns, _output_order(node, columns, context), limit, offset)


def _set_nullable(kind: str, left: Column, right: Column) -> bool:
    if kind == "union":
        return left.nullable or right.nullable
    return left.nullable and right.nullable if kind == "intersect" else left.nullable


def _outputs(query: Query) -> list[Expr]:
    """What the columns of a query are made of, as far as literals are concerned: `SELECT 'x'` still adapts its type."""
    body = query.body
    if isinstance(body, Select) and not body.distinct and not query.order:
        found: list[Expr] = [expr if isinstance(expr, Literal) else column for column, expr in body.projection]
        return found[: len(query.columns)]
    return list(query.columns)


def cast_query(query: Query, types: tuple[DataType, ...], context: Context) -> Query:
    """The query with its columns brought to `types`."""
    if all(_same(column.type, type_) for column, type_ in zip(query.columns, types)):
        return query
    body = query.body
    if isinstance(body, Select) and not body.distinct and not query.order and not query.hidden:
        exprs = [convert(expr, type_) for (_, expr), type_ in zip(body.projection, types)]
        projection = tuple(
            (context.column(column.name, expr.type, expr.nullable), expr)
            for (column, _), expr in zip(body.projection, exprs)
        )
        body = replace(body, projection=projection)
        return replace(query, body=body, columns=body.columns)
    body = select_from(query, context, types)
    return Query(body, body.columns)


def _same(left: DataType, right: DataType) -> bool:
    return left == right or left.kind is right.kind is Kind.STRING


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
    limit, offset = _limits(node, context)
    body = Values(columns, tuple(zip(*unified)))
    return Query(body, columns, _output_order(node, columns, context), limit, offset)


# ---- ORDER BY of output columns, LIMIT -------------------------------------------------------------------------------


def _output_order(node: Any, columns: tuple[Column, ...], context: Context) -> tuple[OrderItem, ...]:
    clause = node.args.get("order")
    if clause is None:
        return ()
    only(clause, "expressions")
    names = [column.name for column in columns]
    found = []
    for key in clause.expressions:
        only(key, "this", "desc", "nulls_first")
        with context.at(key.this):
            position = output_position(key.this, names, ())
            if position is None:
                raise UnknownColumn(_order_hint(key.this, names))
        found.append(OrderItem(columns[position], bool(key.args.get("desc")), bool(key.args.get("nulls_first"))))
    return tuple(found)


def _order_hint(node: Any, names: list[str]) -> str:
    if isinstance(node, exp.Column) and isinstance(node.this, exp.Identifier):
        return f"there is no output column {name_of(node.this)}{did_you_mean(name_of(node.this), names, 'there are')}"
    return f"ORDER BY can only name output columns here: {', '.join(names)}"


def _limits(node: Any, context: Context) -> tuple[Expr | None, Expr | None]:
    limit, offset = node.args.get("limit"), node.args.get("offset")
    for clause in (limit, offset):
        if clause is not None:
            only(clause, "expression")
    return (
        _bound(limit.expression if limit is not None else None, "LIMIT", context),
        _bound(offset.expression if offset is not None else None, "OFFSET", context),
    )


def _bound(node: Any, clause: str, context: Context) -> Expr | None:
    if node is None or (isinstance(node, exp.Var) and node.name.upper() == "ALL"):
        return None
    with context.at(node):
        found = Frame(context, Scope(), clause).bind(node)
        if isinstance(found, Literal) and found.value is None:
            return None
        if not isinstance(found, Literal) or not (found.type.is_integer or found.type == STRING):
            raise TypeMismatch(f"{clause} needs a whole number")
        count = convert(found, BIGINT)
        if isinstance(count, Literal) and count.value < 0:
            raise TypeMismatch(f"{clause} must not be negative")
        return count
