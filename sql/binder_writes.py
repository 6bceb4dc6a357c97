"""Binds INSERT, UPSERT and COPY: target columns found, values converted to the columns' types, defaults filled in."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePath
from typing import Any

from sqlglot import exp

from ..errors import NotNullViolation, StatementError, TypeMismatch, UnknownColumn, did_you_mean
from ..storage.schema import ColumnSchema, Table
from ..storage.store import Op
from .binder_query import bind_query, select_from
from .binder_tables import find_table
from .bound import CopyFrom, InsertStatement, Query, Select, SubqueryRef, Values
from .coercion import assign
from .context import Context, Frame, name_of, only
from .expressions import Column, Expr, Literal
from .scope import Scope

COPY_OPTIONS = {"header": bool, "delimiter": str, "quote": str, "null": str}
"""Options of COPY besides FORMAT; all are CSV's."""


# ---- INSERT ----------------------------------------------------------------------------------------------------------


def bind_insert(node: exp.Insert, context: Context) -> InsertStatement:
    """Bind INSERT. Columns that are not listed come in with their default where they have one; a NOT NULL column
    without default must be listed."""
    only(node, "this", "expression", "ignore")
    table, columns, query = _incoming(node, context)
    for column in columns:
        if column.auto_increment:
            with context.at(node.this):
                raise StatementError(f"column {column.name} is numbered by the store; INSERT leaves it out")
    missing = [c for c in table.schema.visible_columns if c not in columns]
    with context.at(node.this):
        _refuse_missing(table, missing)
    defaults = [c for c in missing if c.default is not None]
    query = _with_defaults(query, defaults, context)
    op = Op.INSERT_IGNORE if node.args.get("ignore") else Op.INSERT
    return InsertStatement(table, tuple(c.name for c in [*columns, *defaults]), query, op)


def bind_upsert(node: Any, context: Context) -> InsertStatement:
    """Bind UPSERT. Columns that are not listed stay as they are in rows that are there, and take their default in
    others."""
    table, columns, query = _incoming(node, context)
    with context.at(node.this):
        _refuse_missing(table, [c for c in table.schema.key if c not in columns])
    return InsertStatement(table, tuple(c.name for c in columns), query, Op.UPSERT)


def _incoming(node: Any, context: Context) -> tuple[Table, list[ColumnSchema], Query]:
    """The target, its columns that get values, and the query that gives these, converted to the columns' types."""
    target = node.this
    listed = target.expressions if isinstance(target, exp.Schema) else []
    table = find_table(target.this if isinstance(target, exp.Schema) else target, context)
    columns = _target_columns(table, listed, context)
    source = node.expression
    if isinstance(source, exp.Values) and not any(source.args.get(part) for part in ("order", "limit", "offset")):
        columns = _without_trailing(columns, source, listed)
        return table, columns, _values(source, columns, context)
    query = bind_query(source, Scope(), context)
    columns = _without_unmatched(columns, len(query.columns), listed)
    return table, columns, _assigned(query, columns, source, context)


def _target_columns(table: Table, listed: Sequence[Any], context: Context) -> list[ColumnSchema]:
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


def _values(node: exp.Values, columns: list[ColumnSchema], context: Context) -> Query:
    only(node, "expressions")
    frame = Frame(context, Scope(), "VALUES")
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
        return assign(frame.bind(node), column.type, column.name)


def is_default(node: Any) -> bool:
    """Is it the word DEFAULT in place of a value?"""
    return isinstance(node, exp.Var) and node.name.upper() == "DEFAULT"


def default_of(column: ColumnSchema) -> Literal:
    """A column's default, NULL where it has none."""
    return Literal(column.type, column.default is None, column.default)


def _assigned(query: Query, columns: list[ColumnSchema], node: Any, context: Context) -> Query:
    """The query with its columns converted to the table's."""
    with context.at(node):
        _refuse_count(len(query.columns), len(columns))
        if _all_literals(query):
            exprs = [expr for _, expr in query.body.projection]  # type: ignore[union-attr]
        else:
            exprs = list(query.columns)
        found = [assign(expr, column.type, column.name) for expr, column in zip(exprs, columns)]
    if all(expr is column for expr, column in zip(found, query.columns)):
        return query
    body = select_from(query, context)
    assert isinstance(body.relation, SubqueryRef)
    inner = dict(zip(query.columns, body.relation.columns))
    projection = []
    for expr, column in zip(found, columns):
        moved = expr.map_children(lambda child: inner.get(child, child))  # type: ignore[call-overload]
        moved = inner.get(moved, moved) if isinstance(moved, Column) else moved
        projection.append((context.column(column.name, moved.type, moved.nullable), moved))
    body = Select(body.relation, None, tuple(projection))
    return Query(body, body.columns)


def _all_literals(query: Query) -> bool:
    """`INSERT ... SELECT 1, 'x'`: quoted texts adapt to the columns as they do in VALUES."""
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


# ---- COPY ------------------------------------------------------------------------------------------------------------


def bind_copy(node: Any, context: Context) -> CopyFrom:
    """Bind COPY ... FROM. The format is the option FORMAT, else the file name's suffix."""
    table = find_table(node.this, context)
    listed = node.args.get("expressions") or []
    columns = tuple(c.name for c in _target_columns(table, listed, context)) if listed else None
    path = str(node.args["path"].this)
    options = _options(node.args.get("options") or [], context)
    with context.at(node.args["path"]):
        format_ = str(options.pop("format", "") or PurePath(path).suffix.removeprefix(".")).lower()
        if format_ not in ("parquet", "csv"):
            shown = format_ or "unknown"
            raise StatementError(f"the file's format is {shown}; write (FORMAT parquet) or (FORMAT csv)")
        if format_ == "parquet" and options:
            raise StatementError(f"option {min(options)} is for CSV files only")
    return CopyFrom(table, path, format_, tuple(sorted(options.items())), columns)


def _options(items: Sequence[Any], context: Context) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for item in items:
        name = str(item.this.name).lower()
        with context.at(item):
            if name in found:
                raise StatementError(f"option {name} is given twice")
            found[name] = _option(name, item.expression)
    return found


def _option(name: str, value: Any) -> Any:
    if name == "format":
        if value is None:
            raise StatementError("FORMAT needs parquet or csv")
        return str(value.name)
    if name not in COPY_OPTIONS:
        raise StatementError(f"COPY has no option {name}{did_you_mean(name, ['format', *COPY_OPTIONS], 'it has')}")
    if COPY_OPTIONS[name] is bool:
        return _switch(name, value)
    if not isinstance(value, exp.Literal) or not value.is_string:
        raise StatementError(f"option {name} needs a quoted text")
    text = str(value.this)
    if name in ("delimiter", "quote") and len(text) != 1:
        raise StatementError(f"option {name} needs exactly one character")
    return text


def _switch(name: str, value: Any) -> bool:
    if value is None:
        return True
    if isinstance(value, exp.Boolean):
        return bool(value.this)
    words = {"true": True, "on": True, "1": True, "false": False, "off": False, "0": False}
    text = str(value.name).lower()
    if text not in words:
        raise StatementError(f"option {name} is true or false")
    return words[text]
