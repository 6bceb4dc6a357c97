"""SHOW, DESCRIBE and similar statements: small result sets about the catalog, column by column."""

from __future__ import annotations

from datetime import datetime, timedelta

import pyarrow as pa

from ...model import arrow_functions as pc
from ...model.access.rights import secured, secured_schema
from ...model.arrow_arrays import arrow_array
from ...model.partitions.partition import Partitioner
from ...model.schema import ColumnSchema, Table, View
from ...model.store import ColumnStatistics
from ...model.types import BIGINT, BOOLEAN, DOUBLE, STRING, TIMESTAMP
from ...sql import bound
from ...sql.binding.tables.show_create import create_table_text, create_view_text, range_text
from ...sql.functions import REGISTRY
from ..run.context import ExecutionContext
from .results import StatementResult, listing


def show_tables(statement: bound.ShowTables, context: ExecutionContext) -> StatementResult:
    """List the names of all tables and views, or of the views alone, ascending."""
    kinds = {view.name: "view" for view in context.store.views()}
    if not statement.views:
        kinds.update((table.name, "table") for table in context.store.tables())
    names = arrow_array(sorted(kinds), pa.string())
    if statement.pattern is not None:
        names = names.filter(pc.match_like(names, statement.pattern))
    if statement.views:
        return listing(["view"], [STRING], [names.to_pylist()])
    return listing(["table", "kind"], [STRING, STRING], [names.to_pylist(), [kinds[n] for n in names.to_pylist()]])


def show_schemas(statement: bound.ShowSchemas, context: ExecutionContext) -> StatementResult:
    """List the names of the schemas, ascending."""
    names = arrow_array([namespace.name for namespace in context.store.namespaces()], pa.string())
    if statement.pattern is not None:
        names = names.filter(pc.match_like(names, statement.pattern))
    return listing(["schema"], [STRING], [names.to_pylist()])


def show_functions(statement: bound.ShowFunctions) -> StatementResult:
    """List a row per function name, ascending; aliases are marked as such."""
    rows = []
    for name, function in sorted(REGISTRY.items()):
        other = "" if name == function.name else f"another name of {function.name}: "
        rows.append((name, function.signature, function.kind, function.category, other + function.description))
    names = ["function", "signature", "kind", "category", "description"]
    if statement.pattern is not None:
        wanted = pc.match_like(arrow_array([row[0] for row in rows], pa.string()), statement.pattern).to_pylist()
        rows = [row for row, matches in zip(rows, wanted) if matches]
    return listing(names, [STRING] * len(names), list(zip(*rows)) or [()] * len(names))


def show_create_table(table: Table | View) -> StatementResult:
    """Return the statement that creates a table or view."""
    text = create_view_text(table) if isinstance(table, View) else create_table_text(table)
    return listing(["statement"], [STRING], [[text]])


def show_partitions(table: Table) -> StatementResult:
    """List one row per tablet: its number, its bucket of each hash rule, its range."""
    levels = zip(*{table.partitions.rules_of(p.range) for p in Partitioner(table.schema, table.partitions).partitions})
    rules = [" or ".join(sorted({f"HASH ({', '.join(rule.columns)})" for rule in level})) for level in levels]
    range_rule = table.partitions.range_rule
    columns: list[list[object]] = [[] for _ in ("partition", *rules, *(["range"] if range_rule else []))]
    for place, partition in enumerate(Partitioner(table.schema, table.partitions).partitions):
        shown = [] if range_rule is None else [range_text(table, partition.range)]
        for column, value in zip(columns, (place, *partition.buckets, *shown), strict=True):
            column.append(value)
    names = ["partition", *(f"{rule} bucket" for rule in rules), *(["range"] if range_rule else [])]
    types = [BIGINT] * (1 + len(rules)) + ([STRING] if range_rule else [])
    return listing(names, types, columns)


def describe(table: Table) -> StatementResult:
    """List one row per column of a table."""
    columns = table.schema.columns
    names = ["column", "type", "nullable", "key", "default", "encoding", "compression"]
    names += ["block_size", "immutable", "auto_increment", "comment"]
    types = [STRING, STRING, BOOLEAN, BOOLEAN, STRING, STRING, STRING, BIGINT, BOOLEAN, BOOLEAN, STRING]
    rows = [_described(column, i < table.schema.key_columns) for i, column in enumerate(columns)]
    return listing(names, types, list(zip(*rows, strict=True)))


def describe_view(statement: bound.DescribeView) -> StatementResult:
    """List one row per column of a view."""
    columns = statement.columns
    return listing(
        ["column", "type", "nullable"],
        [STRING, STRING, BOOLEAN],
        [[c.name for c in columns], [str(c.type) for c in columns], [c.nullable for c in columns]],
    )


def _described(column: ColumnSchema, is_key: bool) -> tuple[object, ...]:
    default = None if column.default is None else str(column.type.to_python(column.default))
    storage = column.encoding.value, column.compression.value, column.block_size or None
    rules = column.immutable, column.auto_increment
    return column.name, str(column.type), column.nullable, is_key, default, *storage, *rules, column.comment


def show_stats(table: Table, context: ExecutionContext) -> StatementResult:
    """List a row per column of a table, then one for the table as a whole."""
    known, lies = context.store.statistics(table), context.store.table_storage(table)
    rows: list[tuple[object, ...]] = []
    for column in table.schema.columns:
        of, on_disk = known.columns.get(column.name, ColumnStatistics()), lies.columns[column.name]
        low, high = (_shown(column, value) for value in (of.low, of.high))
        distinct = None if of.distinct_count is None else round(of.distinct_count)
        nulls = min(of.null_count, known.row_count)
        encodings = ", ".join(on_disk.encodings) or None
        rows.append(
            (column.name, None, distinct, nulls, low, high, on_disk.width, on_disk.bytes, encodings, None, None)
        )
    rows.append((None, known.row_count, *[None] * 5, lies.bytes, None, lies.tablets, lies.rowsets))
    names = ["column", "rows", "distinct", "nulls", "min", "max", "width", "bytes", "encodings", "tablets", "rowsets"]
    types = [STRING, BIGINT, BIGINT, BIGINT, STRING, STRING, DOUBLE, BIGINT, STRING, BIGINT, BIGINT]
    return listing(names, types, list(zip(*rows, strict=True)))


def _shown(column: ColumnSchema, value: object) -> str | None:
    """Format a bound as SQL."""
    if value is None:
        return None
    python = column.type.to_python(value)
    return bytes(python).hex() if isinstance(python, bytes) else str(python)


def show_grants(statement: bound.ShowGrants, context: ExecutionContext) -> StatementResult:
    """List the grants of one object, of one role, or all of them; owners have all rights without a grant."""
    objects = [*map(secured, context.store.tables()), *map(secured, context.store.views())]
    objects += [secured_schema(namespace.name, namespace.owner) for namespace in context.store.namespaces()]
    by_key = {each.key: each for each in objects}
    rows = []
    for grant in context.store.access.grants:
        object_ = by_key.get(grant.key)
        if object_ is None or statement.key not in (None, grant.key) or statement.role not in (None, grant.grantee):
            continue
        grantee = grant.grantee or "PUBLIC"
        rows.append((object_.kind, object_.name, grantee, grant.right.name, grant.grantor, grant.has_option))
    names = ["kind", "object", "grantee", "right", "grantor", "grantable"]
    return listing(names, [STRING] * 5 + [BOOLEAN], list(zip(*sorted(rows))) or [()] * len(names))


def show_roles(context: ExecutionContext) -> StatementResult:
    """List the roles, with those of which each is a member."""
    access = context.store.access
    rows = []
    for role in access.all_roles():
        groups = ", ".join(sorted(each.role for each in access.memberships if each.member == role.name))
        until = None if role.valid_until is None else datetime(1970, 1, 1) + timedelta(microseconds=role.valid_until)
        rows.append((role.name, role.can_login, role.is_superuser, bool(role.verifier), until, groups))
    names = ["role", "login", "superuser", "password", "valid_until", "member_of"]
    return listing(names, [STRING, BOOLEAN, BOOLEAN, BOOLEAN, TIMESTAMP, STRING], list(zip(*rows)))
