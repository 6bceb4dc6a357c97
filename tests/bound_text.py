"""Bound statements as text, for golden files.

A column is printed as `name#number`, a cast as `expr::TYPE`. A literal is printed as SQL writes it, followed by its
type if that is not obvious. The parts of a query appear in order of evaluation: from, where, group, aggregate, having,
select, order, limit.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields
from typing import Any, assert_never

from nyala.model.alterations import AddColumn, AlterStep
from nyala.model.schema import ColumnSchema, View
from nyala.model.types import DataType, Interval, Kind
from nyala.sql import bound
from nyala.sql.bound_catalog import (
    AnalyzeTables,
    CatalogStatement,
    ChangeSchemaOwner,
    ChangeViewOwner,
    CreateSchema,
    CreateView,
    Describe,
    DescribeView,
    DropSchema,
    DropView,
    RenameSchema,
    RenameView,
    ShowCreateTable,
    ShowFunctions,
    ShowPartitions,
    ShowSchemas,
    ShowTables,
)
from nyala.sql.expressions import (
    Aggregate,
    Call,
    Case,
    Cast,
    Column,
    Expr,
    InValues,
    Literal,
    OrderItem,
    Parameter,
    Window,
)
from nyala.sql.subqueries import Exists, InSubquery, Quantified, ScalarSubquery

_INFIX = {
    "add": "+", "sub": "-", "mul": "*", "div": "/", "mod": "%", "eq": "=", "ne": "<>", "lt": "<", "le": "<=",
    "gt": ">", "ge": ">=", "and": "and", "or": "or", "like": "like", "ilike": "ilike", "concat": "||",
    "is_distinct": "is distinct from",
}  # fmt: skip
_POSTFIX = {"is_null": "is null", "is_true": "is true", "is_false": "is false"}
_PLAIN = (Kind.INT, Kind.STRING, Kind.BOOLEAN, Kind.NULL)


def describe(statement: bound.Statement) -> str:
    """The statement as indented text, one line per part."""
    return "\n".join(_statement(statement))


def _statement(statement: bound.Statement) -> Iterator[str]:
    match statement:
        case bound.SelectStatement(query):
            yield from describe_query(query)
        case bound.CreateTable(definition, if_not_exists):
            yield f"create table {definition.name}{' if not exists' if if_not_exists else ''}"
            yield from _definition(definition)
        case bound.CreateTableAs(definition, columns, query, if_not_exists):
            yield f"create table {definition.name}{' if not exists' if if_not_exists else ''}"
            yield from _definition(definition)
            yield f"  as ({', '.join(columns)})"
            yield from _indented(_indented(describe_query(query)))
        case bound.AlterTable(table, steps, readers):
            yield f"alter table {table.name}"
            yield from (f"  {_step(step)}" for step in steps)
            yield from (f"  {view.name}: {view.text}" for _, view in readers)
        case bound.DropTable(name, if_exists, views):
            yield f"drop table {name}{' if exists' if if_exists else ''}{''.join(f', view {v}' for v in views)}"
        case bound.InsertStatement(table, columns, query, op, returning):
            verb = op.name.lower().replace("_", " ")
            yield f"{verb} into {table.name} ({', '.join(columns)}){_returning(returning)}"
            yield from _indented(describe_query(query))
        case bound.MergeStatement(table, columns, updated, query, repeated, returning):
            rule = f"update ({', '.join(updated)}) repeated {repeated}"
            yield f"merge into {table.name} ({', '.join(columns)}) {rule}{_returning(returning)}"
            yield from _indented(describe_query(query))
        case bound.ChangeStatement(table, op, columns, query, returning):
            yield f"{op.name.lower()} {table.name} ({', '.join(columns)}){_returning(returning)}"
            yield from _indented(describe_query(query))
        case bound.CopyTo(query, path, format_, options):
            extra = "".join(f", {name} {value!r}" for name, value in options)
            yield f"copy to {path!r} ({format_}{extra})"
            yield from _indented(describe_query(query))
        case bound.CompactTable(table):
            yield f"compact table {table.name}"
        case bound.SetSetting(name, value):
            yield f"set {name} = {value!r}"
        case bound.ResetSettings(name):
            yield f"reset {name or 'all'}"
        case bound.ShowSettings(name):
            yield f"show {name or 'all'}"
        case bound.CopyFrom(table, path, format_, options, columns):
            listed = f" ({', '.join(columns)})" if columns is not None else ""
            extra = "".join(f", {name} {value!r}" for name, value in options)
            yield f"copy {table.name}{listed} from {path!r} ({format_}{extra})"
        case bound.CreateView() | bound.DropView() | bound.RenameView() | bound.AnalyzeTables() | bound.ShowStats():
            yield from describe_catalog(statement)
        case bound.ChangeViewOwner() | bound.RenameSchema() | bound.ChangeSchemaOwner():
            yield from describe_catalog(statement)
        case bound.ShowFunctions() | bound.ShowSchemas() | bound.CreateSchema() | bound.DropSchema():
            yield from describe_catalog(statement)
        case bound.ShowTables() | bound.ShowCreateTable() | bound.ShowPartitions():
            yield from describe_catalog(statement)
        case bound.Describe() | bound.DescribeView():
            yield from describe_catalog(statement)
        case bound.PrepareStatement() | bound.ExecutePrepared() | bound.Deallocate() | bound.Discard():
            yield repr(statement)
        case bound.ChangeAccess() | bound.SetRole() | bound.ShowGrants() | bound.ShowRoles():
            yield repr(statement)
        case bound.CommitTransaction() | bound.RollbackTransaction() | bound.BeginTransaction():
            yield repr(statement)
        case bound.SetSavepoint() | bound.ReleaseSavepoint() | bound.RollbackToSavepoint():
            yield repr(statement)
        case bound.SetTransaction() | bound.SetSessionCharacteristics():
            yield repr(statement)
        case bound.DeclareCursor() | bound.FetchCursor() | bound.CloseCursor():
            yield repr(statement)
        case bound.Explain(inner, analyze, verbose, as_json):
            words = (("analyze", analyze), ("verbose", verbose), ("as json", as_json))
            yield " ".join(["explain", *(word for word, given in words if given)])
            yield from _indented(_statement(inner))
        case _:
            assert_never(statement)


def _returning(columns: tuple[Column, ...] | None) -> str:
    return "" if columns is None else f" returning {', '.join(text(column) for column in columns)}"


def _indented(lines: Iterator[str]) -> Iterator[str]:
    return (f"  {line}" for line in lines)


def _definition(definition: Any) -> Iterator[str]:
    for i, column in enumerate(definition.schema.columns):
        yield f"  {_column(column, i < definition.schema.key_columns)}"
    for rule in definition.partitions.hash_rules:
        yield f"  hash ({', '.join(rule.columns)}) into {rule.buckets}"
    rule = definition.partitions.range_rule
    if rule is not None:
        yield f"  range ({', '.join(rule.columns)})"
        for part in rule.partitions:
            own = "".join(f", hash ({', '.join(r.columns)}) into {r.buckets}" for r in part.hash_rules or ())
            yield f"    {part.lower if part.lower is not None else '-'} <= .. < {part.upper or '-'}{own}"
    if definition.replicas not in (None, 1):
        yield f"  replicas {definition.replicas}"
    if definition.comment:
        yield f"  comment {definition.comment!r}"


def _column(column: ColumnSchema, in_key: bool) -> str:
    words = [f"{column.name} {column.type}", "null" if column.nullable else "not null"]
    words += ["key"] if in_key else []
    words += ["auto increment"] if column.auto_increment else []
    words += [f"default {column.type.to_python(column.default)!r}"] if column.default is not None else []
    words += ["immutable"] if column.immutable else []
    words += [f"encoding {column.encoding.value}"] if column.encoding.value != "AUTO" else []
    words += [f"compression {column.compression.value}"] if column.compression.value != "AUTO" else []
    words += [f"block size {column.block_size}"] if column.block_size else []
    words += [f"comment {column.comment!r}"] if column.comment else []
    return " ".join(words)


def _step(step: AlterStep) -> str:
    if isinstance(step, AddColumn):
        return f"AddColumn {_column(step.column, False)}"
    given = ((spec.name, getattr(step, spec.name)) for spec in fields(step))
    shown = [f"{name}={getattr(value, 'name', repr(value))}" for name, value in given if value is not None]
    return f"{type(step).__name__} {', '.join(shown)}"


# ---- queries ---------------------------------------------------------------------------------------------------------


def describe_query(query: bound.Query) -> Iterator[str]:
    """The lines of a query."""
    body = query.body
    match body:
        case bound.Select():
            yield from _select(body, len(query.columns))
        case bound.Values(columns, rows):
            yield f"values {_columns(columns)}"
            yield from (f"  ({', '.join(text(value) for value in row)})" for row in rows)
        case bound.SetOperation(kind, all_, left, right, columns):
            yield f"{kind}{' all' if all_ else ''} {_columns(columns)}"
            yield from _indented(describe_query(left))
            yield from _indented(describe_query(right))
        case bound.Recursive(key, all_, anchor, step, columns):
            yield f"recursive {key} union{' all' if all_ else ''} {_columns(columns)}"
            yield from _indented(describe_query(anchor))
            yield from _indented(describe_query(step))
        case _:
            assert_never(body)
    if query.order:
        yield "order " + ", ".join(_order(item) for item in query.order)
    if query.limit is not None:
        yield f"limit {text(query.limit)}"
    if query.offset is not None:
        yield f"offset {text(query.offset)}"


def _columns(columns: tuple[Column, ...]) -> str:
    return ", ".join(f"{text(c)} {c.type}{'' if c.nullable else ' not null'}" for c in columns)


def _order(item: OrderItem) -> str:
    direction = " desc" if item.descending else ""
    # Only an order of NULLs that differs from PostgreSQL's default is printed.
    nulls = {True: " nulls first", False: " nulls last"}[item.nulls_first]
    return text(item.expr) + direction + (nulls if item.nulls_first is not item.descending else "")


def _select(body: bound.Select, visible: int) -> Iterator[str]:
    if body.relation is not None:
        yield "from"
        yield from _indented(_relation(body.relation))
    if body.where is not None:
        yield f"where {text(body.where)}"
        yield from _subqueries(body.where)
    for word, pairs in (("group", body.groups), ("aggregate", body.aggregates)):
        for column, expr in pairs:
            yield f"{word} {text(column)} {column.type}{'' if column.nullable else ' not null'} = {text(expr)}"
            yield from _subqueries(expr)
    if body.grouped and not body.groups and body.sets is None:
        yield "group all"
    if body.sets is not None and body.set_number is not None:
        names = [text(column) for column, _ in body.groups]
        shown = ", ".join(f"({', '.join(names[i] for i in chosen)})" for chosen in body.sets)
        yield f"sets {text(body.set_number)} = {shown}"
    if body.having is not None:
        yield f"having {text(body.having)}"
        yield from _subqueries(body.having)
    for column, call in body.windows:
        yield f"window {text(column)} {column.type}{'' if column.nullable else ' not null'} = {text(call)}"
        yield from _subqueries(call)
    if body.qualify is not None:
        yield f"qualify {text(body.qualify)}"
        yield from _subqueries(body.qualify)
    word = "select distinct" if body.distinct else "select"
    if body.distinct_on:
        yield f"distinct on {', '.join(text(column) for column in body.distinct_on)}"
    for i, (column, expr) in enumerate(body.projection):
        hidden = " hidden" if i >= visible else ""
        yield f"{word}{hidden} {text(column)} {column.type}{'' if column.nullable else ' not null'} = {text(expr)}"
        yield from _subqueries(expr)


def _relation(relation: bound.Relation) -> Iterator[str]:
    match relation:
        case bound.TableRef(table, alias, columns, time):
            alias = f" as {alias}" if alias != table.name else ""
            yield f"{table.name}{_time(time)}{alias} {_span(columns)}"
        case bound.FileRef(source, alias, columns):
            options = "".join(f", {name} {value!r}" for name, value in source.options)
            yield f"{source.format} {source.shown!r}{options} as {alias} {_span(columns)}"
        case bound.SubqueryRef(query, alias, columns, shared):
            yield f"query{f' as {alias}' if alias else ''}{f' shared as {shared}' if shared else ''} {_span(columns)}"
            yield from _indented(describe_query(query))
        case bound.SeriesRef(start, stop, step, alias, columns):
            yield f"series from {text(start)} to {text(stop)} by {text(step)} as {alias} {_span(columns)}"
        case bound.WorkingRef(key, alias, columns):
            yield f"last round of recursive {key} as {alias} {_span(columns)}"
        case bound.Join(kind, left, right, on):
            yield f"{kind} join{f' on {text(on)}' if on is not None else ''}"
            if on is not None:
                yield from _subqueries(on)
            yield from _indented(_relation(left))
            yield from _indented(_relation(right))
        case _:
            assert_never(relation)


def _time(time: bound.TimeTravel | None) -> str:
    if time is None:
        return ""
    if time.changes is None:
        return f" as of {time.until}"
    return f" {'history' if time.changes.history else 'changes'} after {time.changes.since} up to {time.until}"


def _span(columns: tuple[Column, ...]) -> str:
    if not columns:
        return "(no columns)"
    return f"#{columns[0].id}" if len(columns) == 1 else f"#{columns[0].id}..#{columns[-1].id}"


def _subqueries(expr: Expr) -> Iterator[str]:
    query = getattr(expr, "query", None)
    if query is not None:
        yield f"  {_output(query)}:"
        yield from _indented(_indented(describe_query(query)))
    for child in expr.children():
        yield from _subqueries(child)


def _output(query: bound.Query) -> str:
    return f"query({', '.join(text(c) for c in query.columns)})"


# ---- expressions -----------------------------------------------------------------------------------------------------


def text(expr: Expr) -> str:
    """One expression on one line; a subquery is shown by its output columns."""
    match expr:
        case Column(id=number, name=name):
            return f"{name}#{number}"
        case Literal():
            return _literal(expr)
        case Parameter(index=index, name=name):
            return f":{name}" if name else f"${index + 1}"
        case Call(function=function, args=args):
            return _call(function, args)
        case Cast(arg=arg, safe=safe):
            return f"try_cast({text(arg)} as {expr.type})" if safe else f"{text(arg)}::{expr.type}"
        case Case(branches=branches, default=default):
            whens = " ".join(f"when {text(test)} then {text(value)}" for test, value in branches)
            return f"case {whens} else {text(default)} end"
        case InValues(arg=arg, items=items):
            return f"{text(arg)} in ({', '.join(text(item) for item in items)})"
        case Aggregate(function=function, args=args, distinct=distinct, filter=test, order=order):
            inner = ", ".join(text(arg) for arg in args) or ("*" if not order else "")
            keys = f"order {', '.join(_order(item) for item in order)}" if order else ""
            inner = " ".join(part for part in (inner, keys) if part)
            filtered = f" filter ({text(test)})" if test is not None else ""
            return f"{function}({'distinct ' if distinct else ''}{inner}){filtered}"
        case Window():
            return _window(expr)
        case ScalarSubquery(query=query) if query is not None:
            return _output(query)
        case Exists(query=query) if query is not None:
            return f"exists {_output(query)}"
        case InSubquery(args=args, query=query) if query is not None:
            return f"({', '.join(text(arg) for arg in args)}) in {_output(query)}"
        case Quantified(arg=arg, comparison=comparison, all=all_, query=query) if query is not None:
            return f"{text(arg)} {_INFIX[comparison]} {'all' if all_ else 'any'} {_output(query)}"
    return repr(expr)


def _window(call: Window) -> str:
    inner = ", ".join(text(arg) for arg in call.args) or ("*" if call.function == "count" else "")
    filtered = f" filter ({text(call.filter)})" if call.filter is not None else ""
    parts = [f"partition {', '.join(text(key) for key in call.partition)}"] if call.partition else []
    parts += [f"order {', '.join(_order(item) for item in call.order)}"] if call.order else []
    if call.frame is not None:
        start, end = _bound(call.frame.start, call.start), _bound(call.frame.end, call.end)
        exclude = f" exclude {call.frame.exclude}" if call.frame.exclude else ""
        parts.append(f"{call.frame.unit} between {start} and {end}{exclude}")
    nulls = " ignore nulls" if call.ignore_nulls else ""
    return f"{call.function}({inner}){filtered}{nulls} over ({' '.join(parts)})"


def _bound(bound: str, offset: Expr | None) -> str:
    return bound if offset is None else f"{text(offset)} {bound}"


def _call(function: str, args: tuple[Expr, ...]) -> str:
    if function in _INFIX:
        return "(" + f" {_INFIX[function]} ".join(text(arg) for arg in args) + ")"
    if function in _POSTFIX:
        return f"({text(args[0])} {_POSTFIX[function]})"
    if function in ("not", "neg"):
        return f"{'not ' if function == 'not' else '-'}{text(args[0])}"
    return f"{function}({', '.join(text(arg) for arg in args)})"


def _literal(literal: Literal) -> str:
    return value_text(literal.type, literal.value)


def value_text(type_: DataType, value: Any) -> str:
    """A physical value as SQL writes it, with its type unless that is obvious."""
    if value is None:
        return "null" if type_.kind is Kind.NULL else f"null::{type_}"
    if isinstance(value, Interval):
        return f"interval '{value.months} months {value.days} days {value.microseconds} microseconds'"
    if type_.kind is Kind.STRING:
        return "'" + str(value).replace("'", "''") + "'"
    if type_.kind is Kind.BINARY:
        return f"x'{bytes(value).hex()}'"
    if type_.kind is Kind.BOOLEAN:
        return "true" if value else "false"
    shown = str(type_.to_python(value)) if type_.kind in (Kind.DECIMAL, Kind.DATE, Kind.TIMESTAMP) else str(value)
    if type_.kind in (Kind.DATE, Kind.TIMESTAMP):
        return f"{type_.kind.value.lower()} '{shown}'"
    return shown if type_.kind in _PLAIN else f"{shown}::{type_}"


def describe_catalog(statement: CatalogStatement) -> Iterator[str]:
    """The lines of a statement about what there is."""
    match statement:
        case CreateView(view, replace, if_not_exists):
            verb, exists = "create or replace" if replace else "create", " if not exists" if if_not_exists else ""
            yield f"{verb} view {view.name}{exists} ({', '.join(view.columns)})"
            yield f"  {view.text}"
        case DropView(name, if_exists, views):
            yield f"drop view {name}{' if exists' if if_exists else ''}{''.join(f', view {v}' for v in views)}"
        case RenameView(name, new_name, namespace, readers):
            yield f"rename view {name!r} to {new_name!r} of schema {namespace!r}"
            yield from (f"  {view.name}: {view.text}" for _, view in readers)
        case ChangeViewOwner(pair):
            yield "no view" if pair is None else f"owner of view {pair[1].name}: {pair[1].owner!r}"
        case RenameSchema(before, after, tables, views, readers):
            yield f"rename schema {before.name!r} to {after.name!r}"
            yield from (f"  {each.name} to {new}" for each, new in (*tables, *views))
            yield from (f"  {view.name}: {view.text}" for _, view in readers)
        case ChangeSchemaOwner(_, after):
            yield f"owner of schema {after.name}: {after.owner!r}"
        case CreateSchema(namespace, if_not_exists):
            yield f"create schema {namespace.name}{' if not exists' if if_not_exists else ''}"
        case DropSchema(name, if_exists, dropped, views):
            with_it = "".join(f", {each}" for each in (*dropped, *views))
            yield f"drop schema {name}{' if exists' if if_exists else ''}{with_it}"
        case ShowSchemas(pattern):
            yield "show schemas" + ("" if pattern is None else f" like {pattern!r}")
        case AnalyzeTables(tables):
            yield f"analyze {', '.join(table.name for table in tables)}"
        case ShowTables(pattern, views):
            yield f"show {'views' if views else 'tables'}" + ("" if pattern is None else f" like {pattern!r}")
        case ShowFunctions(pattern):
            yield "show functions" + ("" if pattern is None else f" like {pattern!r}")
        case ShowCreateTable(table):
            yield f"show create {'view' if isinstance(table, View) else 'table'} {table.name}"
        case ShowPartitions(table):
            yield f"show partitions {table.name}"
        case Describe(table):
            yield f"describe {table.name}"
        case DescribeView(view, columns):
            yield f"describe view {view.name} ({', '.join(f'{c.name} {c.type}' for c in columns)})"
        case _:
            yield f"show stats {statement.table.name}"
