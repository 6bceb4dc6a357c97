"""Binds INSERT and UPSERT: resolves target columns, converts values to their types, fills in defaults."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlglot import exp

from ....errors import NotNullViolation, StatementError, TypeMismatch, UnknownColumn
from ....model.access.rights import Right
from ....model.schema import ColumnSchema, Table
from ....model.store import Op
from ...bound import InsertStatement, MergeStatement, Query, Select, SubqueryRef, Values
from ...coercion import assign
from ...expressions import Column, Expr, Literal
from ...syntax.written_names import did_you_mean
from ..clauses.query import bind_query, with_scope
from ..clauses.query_casts import select_from
from ..context import Context, Frame, name_of, only
from ..scope import Scope
from ..tables.create_table import find_table
from .assignments import assign_node, default_of, is_default
from .on_conflict import (
    Proposal,
    Target,
    bind_conflict,
    bind_ignore,
    bind_returned_upsert,
    check_conflict,
)
from .returning import WrittenRows, bind_returning, table_fields

# ---- INSERT ----------------------------------------------------------------------------------------------------------


def bind_insert(node: exp.Insert, context: Context) -> InsertStatement | MergeStatement:
    """Binds INSERT. Columns that are not listed get their default; a NOT NULL column without default must be listed."""
    only(node, "with_", "this", "expression", "ignore", "default", "conflict", "returning")
    target = _target(node, context)
    columns, query = _default_row(target, context) if node.args.get("default") else _incoming(node, target, context)
    for column in columns:
        if column.auto_increment:
            with context.at(node.this):
                raise StatementError(f"column {column.name} is numbered by the store; INSERT leaves it out")
    missing = [c for c in target.table.schema.visible_columns if c not in columns]
    with context.at(node.this):
        _refuse_missing(target.table, missing)
    defaults = [c for c in missing if c.default is not None]
    query = _with_defaults(query, defaults, context)
    names = tuple(c.name for c in [*columns, *defaults])
    conflict = node.args.get("conflict")
    action = check_conflict(conflict, target, context)
    with context.at(target.node):
        if action == "DO UPDATE":
            context.require(target.table, Right.UPDATE)
        if action == "DO UPDATE" or (conflict is not None and conflict.args.get("conflict_keys")):
            context.require(target.table, Right.SELECT)
    rows = Proposal(target, names, query)
    if action == "DO UPDATE":
        return bind_conflict(conflict, _returning(node, target, context), rows, context)
    ignores = bool(node.args.get("ignore")) or action == "DO NOTHING"
    returning = _returning(node, target, context)
    if returning is None:
        return InsertStatement(target.table, names, query, Op.INSERT_IGNORE if ignores else Op.INSERT)
    if ignores and not target.table.schema.key[-1].auto_increment:  # rows of auto-incremented keys never conflict
        return bind_ignore(returning, rows, context)
    return _returned(returning, rows, context)


def _returned(node: Any, rows: Proposal, context: Context) -> InsertStatement:
    """Binds INSERT ... RETURNING without ON CONFLICT: all rows of the query are inserted."""
    table, alias, query = rows.target.table, rows.target.alias, rows.query
    given: dict[str, Expr] = dict(zip(rows.names, query.columns))
    fields = table_fields(table, alias, given, table.schema.visible_columns)
    written = WrittenRows(table, query, fields, (alias,))
    query, returning = bind_returning(node, written, len(rows.names), rows.target.scope, context)
    return InsertStatement(table, rows.names, query, Op.INSERT, returning)


def bind_upsert(node: Any, context: Context) -> InsertStatement | MergeStatement:
    """Binds UPSERT. Columns that are not listed keep their value in existing rows and get their default in new rows."""
    only(node, "with_", "this", "expression", "returning")
    target = _target(node, context)
    columns, query = _incoming(node, target, context)
    with context.at(node.this):
        _refuse_missing(target.table, [c for c in target.table.schema.key if c not in columns])
    names = tuple(c.name for c in columns)
    with context.at(target.node):
        context.require(target.table, Right.UPDATE)
    returning = _returning(node, target, context)
    if returning is None:
        return InsertStatement(target.table, names, query, Op.UPSERT)
    missing = [c for c in target.table.schema.visible_columns if c not in columns]
    defaults = [c for c in missing if c.default is not None]
    query = _with_defaults(query, defaults, context)
    rows = Proposal(target, names + tuple(c.name for c in defaults), query)
    return bind_returned_upsert(returning, names, rows, context)


def _returning(node: Any, target: Target, context: Context) -> Any:
    """The RETURNING clause, which reads the table; None without one."""
    found = node.args.get("returning")
    if found is not None:
        with context.at(target.node):
            context.require(target.table, Right.SELECT)
    return found


def _target(node: Any, context: Context) -> Target:
    target = node.this
    place = target.this if isinstance(target, exp.Schema) else target
    table = find_table(place, context, writes=True)
    with context.at(place):
        context.require(table, Right.INSERT)
    alias = place.args.get("alias")
    name = table.local_name if alias is None else name_of(alias.this)
    return Target(table, name, with_scope(node, context), place)


def _default_row(target: Target, context: Context) -> tuple[list[ColumnSchema], Query]:
    """DEFAULT VALUES: every column's default."""
    columns = [c for c in target.table.schema.visible_columns if c.default is not None]
    fresh = tuple(context.column(c.name, c.type, False) for c in columns)
    return columns, Query(Values(fresh, (tuple(default_of(c) for c in columns),)), fresh)


def _incoming(node: Any, target: Target, context: Context) -> tuple[list[ColumnSchema], Query]:
    """The target columns, and the query for their values, converted to the columns' types."""
    listed = node.this.expressions if isinstance(node.this, exp.Schema) else []
    columns = target_columns(target.table, listed, context)
    source = node.expression
    if isinstance(source, exp.Values) and not any(source.args.get(part) for part in ("order", "limit", "offset")):
        columns = _without_trailing(columns, source, listed)
        return columns, _values(source, columns, target.scope, context)
    query = bind_query(source, target.scope, context)
    columns = _without_unmatched(columns, len(query.columns), listed)
    return columns, _assigned(query, columns, source, context)


def target_columns(table: Table, listed: Sequence[Any], context: Context) -> list[ColumnSchema]:
    """The columns that a statement lists, or all visible ones if it lists none."""
    if not listed:
        return list(table.schema.visible_columns)
    return [_listed_column(table, item, [name_of(i) for i in listed[:n]], context) for n, item in enumerate(listed)]


def _listed_column(table: Table, item: Any, before: list[str], context: Context) -> ColumnSchema:
    name = name_of(item)
    with context.at(item):
        if name not in table.schema:
            hint = did_you_mean(name, table.schema.names, "it has")
            raise UnknownColumn(f"table {table.name} has no column {name}{hint}")
        if name in before:
            raise StatementError(f"column {name} is listed twice")
    return table.schema.column(name)


def _without_trailing(columns: list[ColumnSchema], source: exp.Values, listed: Sequence[Any]) -> list[ColumnSchema]:
    """Without a column list, shorter rows fill the first columns (PostgreSQL)."""
    first = source.expressions[0] if source.expressions else None
    width = len(first.expressions) if isinstance(first, exp.Tuple) else 1
    return _without_unmatched(columns, width, listed)


def _without_unmatched(columns: list[ColumnSchema], width: int, listed: Sequence[Any]) -> list[ColumnSchema]:
    return columns if listed else columns[: max(1, width)]


def _refuse_count(given: int, wanted: int) -> None:
    if given != wanted:
        more = "more" if given > wanted else "fewer"
        raise TypeMismatch(f"INSERT has {more} values than columns: {given} for {wanted}")


def _values(node: exp.Values, columns: list[ColumnSchema], scope: Scope, context: Context) -> Query:
    only(node, "expressions")
    frame = Frame(context, scope, "VALUES")
    rows = []
    for row in node.expressions:
        values = list(row.expressions) if isinstance(row, exp.Tuple) else [row]
        with context.at(row):
            _refuse_count(len(values), len(columns))
        rows.append(tuple(_value(value, column, frame) for value, column in zip(values, columns)))
    nullable = [any(row[i].nullable for row in rows) for i in range(len(columns))]
    fresh = tuple(context.column(c.name, c.type, n) for c, n in zip(columns, nullable))
    return Query(Values(fresh, tuple(rows)), fresh)


def _value(node: Any, column: ColumnSchema, frame: Frame) -> Expr:
    if is_default(node):
        return default_of(column)
    with frame.context.at(node):
        return assign_node(node, frame.bind(node), column)


def _assigned(query: Query, columns: list[ColumnSchema], node: Any, context: Context) -> Query:
    """The query with its columns converted to the table's."""
    with context.at(node):
        _refuse_count(len(query.columns), len(columns))
        if _all_literals(query):
            exprs = [expr for _, expr in query.body.projection]  # type: ignore[union-attr]
        else:
            exprs = list(query.columns)
        assigned = [assign(expr, column.type, column.name) for expr, column in zip(exprs, columns)]
    if all(expr is column for expr, column in zip(assigned, query.columns)):
        return query
    body = select_from(query, context)
    assert isinstance(body.relation, SubqueryRef)
    inner = dict(zip(query.columns, body.relation.columns))
    projection = []
    for expr, column in zip(assigned, columns):
        moved = expr.map_children(lambda child: inner.get(child, child))  # type: ignore[call-overload]
        moved = inner.get(moved, moved) if isinstance(moved, Column) else moved
        projection.append((context.column(column.name, moved.type, moved.nullable), moved))
    body = Select(body.relation, None, tuple(projection))
    return Query(body, body.columns)


def _all_literals(query: Query) -> bool:
    """True for `INSERT ... SELECT 1, 'x'`: quoted texts are converted to the columns' types as in VALUES."""
    body = query.body
    if not isinstance(body, Select) or query.hidden:
        return False
    return all(isinstance(expr, Literal) for _, expr in body.projection)


def _refuse_missing(table: Table, missing: Sequence[ColumnSchema]) -> None:
    for column in missing:
        if not column.nullable and column.default is None:
            raise NotNullViolation(
                f"column {column.name} of table {table.name} is NOT NULL and has no default; give it a value"
            )


def _with_defaults(query: Query, defaults: Sequence[ColumnSchema], context: Context) -> Query:
    if not defaults:
        return query
    body: Any = query.body
    literals = [default_of(column) for column in defaults]
    fresh = tuple(context.column(c.name, c.type, False) for c in defaults)
    if isinstance(body, Values):
        columns = body.columns + fresh
        return Query(Values(columns, tuple(row + tuple(literals) for row in body.rows)), columns)
    select = select_from(query, context)
    projection = select.projection + tuple(zip(fresh, literals))
    select = Select(select.relation, None, projection)
    return Query(select, select.columns)
