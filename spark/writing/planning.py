"""Plans a write before any task runs, from its options, its table and its columns.

A missing table is created if the option `primaryKey` gives its key: with the DataFrame's columns under names in lower
case, which need no quotes in SQL.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from ...driver.connection import Connection
from ...errors import InterfaceError, NotSupportedError, UnknownColumn, UnknownTable, did_you_mean
from ...model.schema import Table
from ...model.types import Kind
from ...sql.binding.tables.show_create import quoted_name
from ..source.naming import is_query, table_name, written_table
from ..source.options import SourceOptions
from ..types import NamedType, from_spark
from .fitting import Fitting
from .jobs import check_job
from .operations import Operation
from .staging import RUN_PREFIX, staging_name
from .tasks import JobPlan

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

REPEATABLE: Final = tuple(
    operation.value
    for operation in Operation
    if not (operation.needs_absent or operation.needs_present or operation is Operation.OVERWRITE)
)
"""Operations that tasks may apply to the table directly: repeating them has no further effect."""


def plan_of(connection: Connection, given: SourceOptions, schema: StructType, overwrite: bool) -> JobPlan:
    """The plan of a write, with an existing table that accepts such rows.

    Raises `InterfaceError` for invalid options, `UnknownTable`, and the errors of `Fitting` for the columns.
    """
    if not given["dbtable"]:
        raise InterfaceError("option dbtable is missing: name the table to write to")
    target = table_name(connection, given["dbtable"])
    if connection.store.view(target) is not None or is_query(target):
        raise InterfaceError(f"{target} is a view or a query; rows are written into tables")
    operation = _operation(given, overwrite)
    if "idempotencyKey" in given:
        check_job(given["idempotencyKey"])
    columns = from_spark(schema, voids=True)
    table = _table(connection, given, target, columns)
    Fitting(table, operation, pa.schema([pa.field(name, type_.arrow) for name, type_, _ in columns]))
    key = given["idempotencyKey"] if "idempotencyKey" in given else RUN_PREFIX + uuid.uuid4().hex
    return JobPlan(
        job=key,
        target=table.name,
        operation=operation,
        staging=staging_name(),
        batch_rows=given["batchsize"],
        is_staged=given["staged"],
    )


def _operation(given: SourceOptions, overwrite: bool) -> Operation:
    named = Operation.named(given["operation"])
    if overwrite and "operation" in given:
        raise InterfaceError(f'mode overwrite replaces all rows of the table; operation={named.value} is for "append"')
    operation = Operation.OVERWRITE if overwrite else named
    if not given["staged"] and operation.value not in REPEATABLE:
        raise InterfaceError(
            f"staged=false: tasks may run more than once, so they can write directly only with a repeatable operation "
            f"({', '.join(REPEATABLE)}), not {operation.value}"
        )
    if "idempotencyKey" in given and given["idempotencyKey"].startswith((RUN_PREFIX, STREAM_PREFIX)):
        raise InterfaceError(
            f"idempotencyKey={given['idempotencyKey']!r}: keys that begin with {RUN_PREFIX!r} or {STREAM_PREFIX!r} are "
            "reserved for jobs without one"
        )
    return operation


STREAM_PREFIX: Final = "stream "
"""Prefix of the keys of streams' batches."""

# ---- the table -------------------------------------------------------------------------------------------------------


def _table(connection: Connection, given: SourceOptions, target: str, columns: Sequence[NamedType]) -> Table:
    table = _existing(connection, target)
    if table is None and given["primaryKey"] is None:
        try:
            return connection.store.table(target)
        except UnknownTable as error:
            error.add_note("option primaryKey makes the table from the DataFrame's columns")
            raise
    if table is None:
        connection.execute(_definition(given, written_table(connection, target.lower()), columns))
        table = _existing(connection, target)
    assert table is not None
    _check_key(table, given["primaryKey"])
    return table


def _check_key(table: Table, wanted: Sequence[str] | None) -> None:
    """Raises `InterfaceError` if the option `primaryKey` differs from the table's key."""
    key = [column.name for column in table.schema.key]
    if wanted is not None and [name.lower() for name in wanted] != [name.lower() for name in key]:
        raise InterfaceError(
            f"primaryKey={','.join(wanted)}: table {table.name} already exists, and its primary key is "
            f"({', '.join(key)})"
        )


def _existing(connection: Connection, target: str) -> Table | None:
    """The table of that name, or of the name in lower case."""
    for name in (target, target.lower()):
        try:
            return connection.store.table(name)
        except UnknownTable:
            continue
    return None


def _definition(given: SourceOptions, target: str, columns: Sequence[NamedType]) -> str:
    """CREATE TABLE, of a name in SQL, for a DataFrame's columns, the key first."""
    named = {name.lower(): (type_, nullable) for name, type_, nullable in columns}
    if len(named) < len(columns):
        raise InterfaceError("the DataFrame has columns that differ only in case; rename one")
    for name, (type_, _) in named.items():
        if type_.kind is Kind.NULL:
            raise NotSupportedError(f"column {name} holds bare NULLs, so it has no type for a new table; cast it")
    key = [name.lower() for name in given["primaryKey"]]
    for name in key:
        if name not in named:
            hint = did_you_mean(name, named, "it has")
            raise UnknownColumn(f"primaryKey={','.join(key)}: the DataFrame has no column {name}{hint}")
    lines = [f"{quoted_name(name)} {named[name][0]} NOT NULL" for name in key]
    for name, (type_, nullable) in named.items():
        if name not in key:
            lines.append(f"{quoted_name(name)} {type_}{'' if nullable else ' NOT NULL'}")
    lines.append(f"PRIMARY KEY ({', '.join(map(quoted_name, key))})")
    text = f"CREATE TABLE IF NOT EXISTS {target} ({', '.join(lines)})"
    if given["distributeBy"] is not None:
        text += f" DISTRIBUTE BY {given['distributeBy']}"
    if given["replicas"] is not None:
        text += f" REPLICAS {given['replicas']}"
    return text
