"""CommandStatementIngest: the rows of a stream become a new table, or are added to one.

| the table | `if_not_exist` | `if_exists` | effect |
|---|---|---|---|
| does not exist | CREATE, or none given | | it is created |
| does not exist | FAIL | | refused |
| exists | | FAIL, or none given | refused |
| exists | | APPEND | the rows are added |
| exists | | REPLACE | it is dropped and created |

A new table has the columns of the stream. Its key is the option `primary_key` (names, separated by commas); without it
the rows get hidden numbers, `NON UNIQUE PRIMARY KEY ()`. All rows are loaded, or none, and then no table is created.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pyarrow as pa

from ....driver.connection import Connection
from ....errors import DuplicateTable, NotSupportedError, UnknownTable
from ....model.namespaces import TEMPORARY_NAMESPACE
from ....model.types import type_from_arrow
from ....sql.session_facts import DATABASE
from ....sql.written_identifiers import qualified
from ..metadata.catalogs import quoted
from ..protocol.messages import given
from ..protocol.numbers import IfExists, IfNotExist
from .reports import Refused

PRIMARY_KEY = "primary_key"


def described_ingestion(command: Any) -> str:
    """A CommandStatementIngest for the audit log, with ADBC's name of its mode: `INGEST "main"."t" (create_append)`."""
    schema_name = TEMPORARY_NAMESPACE if command.temporary else given(command, "schema") or ""
    target = ".".join(quoted(part) for part in (schema_name, command.table) if part)
    options = command.table_definition_options
    parts = [
        *(["create"] if options.if_not_exist != IfNotExist.FAIL else []),
        *(["append"] if options.if_exists == IfExists.APPEND else []),
    ]
    mode = "replace" if options.if_exists == IfExists.REPLACE else "_".join(parts)
    return f"INGEST {target} ({mode})" if mode else f"INGEST {target}"


class Ingestion:
    """One CommandStatementIngest. Raises `NotSupportedError` or `Refused` for options that cannot be followed."""

    def __init__(self, connection: Connection, command: Any, schema: pa.Schema):
        self._connection = connection
        self._schema = schema
        self._name = command.table
        if not self._name:
            raise Refused("the request to ingest names no table", "42601")
        if given(command, "catalog") not in (None, "", DATABASE):
            raise NotSupportedError(f"there is no catalog {command.catalog}: this store is the catalog {DATABASE}")
        options = {entry.key: entry.value for entry in command.options}
        self._key = [name.strip() for name in options.pop(PRIMARY_KEY, "").split(",") if name.strip()]
        if options:
            raise NotSupportedError(f"there is no option {min(options)} of ingestion: there is {PRIMARY_KEY}")
        schema_name = given(command, "schema") or ""
        self._is_temporary = bool(command.temporary)
        if self._is_temporary:
            if schema_name not in ("", TEMPORARY_NAMESPACE):
                raise Refused(f"a temporary table cannot be in schema {schema_name}; leave that out", "42P16")
            schema_name = TEMPORARY_NAMESPACE
        self._parts = [schema_name, self._name] if schema_name else [self._name]
        self._target = ".".join(map(quoted, self._parts))
        self._if_not_exist = command.table_definition_options.if_not_exist
        self._if_exists = command.table_definition_options.if_exists

    def run(self, batches: Iterator[pa.RecordBatch], cancel: threading.Event) -> int:
        """Loads the rows; how many there were."""
        exists = self._exists()
        if exists and self._if_exists in (IfExists.UNSPECIFIED, IfExists.FAIL):
            raise DuplicateTable(f"table {self._name} exists already")
        if not exists and self._if_not_exist == IfNotExist.FAIL:
            raise UnknownTable(f"table {self._name} does not exist")
        if exists and self._if_exists == IfExists.APPEND:
            return self._load(batches, cancel)
        with self._all_or_none():
            if exists:
                self._connection.execute(f"DROP TABLE {self._target}")
            self._connection.execute(self._definition())
            return self._load(batches, cancel)

    def _exists(self) -> bool:
        try:
            self._connection.execute(f"SELECT 1 FROM {self._target} LIMIT 0").close()
        except UnknownTable:
            return False
        return True

    def _load(self, batches: Iterator[pa.RecordBatch], cancel: threading.Event) -> int:
        session = self._connection.session
        table = session.transaction_store().table(session.stored_name(self._parts))
        return self._connection.load(qualified(table.namespace, table.local_name), batches, cancel=cancel)

    def _definition(self) -> str:
        names = self._schema.names
        for name in self._key:
            if name not in names:
                raise Refused(f"{PRIMARY_KEY}: the rows have no column {name}; they have {', '.join(names)}", "42703")
        columns = []
        for field in self._schema:
            needed = " NOT NULL" if field.name in self._key else ""
            columns.append(f"{quoted(field.name)} {type_from_arrow(field.type)}{needed}")
        key = ", ".join(map(quoted, self._key))
        columns.append(f"PRIMARY KEY ({key})" if key else "NON UNIQUE PRIMARY KEY ()")
        kind = "TEMPORARY TABLE" if self._is_temporary else "TABLE"
        return f"CREATE {kind} {self._target} ({', '.join(columns)})"

    @contextmanager
    def _all_or_none(self) -> Iterator[None]:
        """A transaction with the table and its rows, where a table can be part of one; else a new table is dropped
        again after an error."""
        connection = self._connection
        if connection.transactional_ddl:
            with connection.transaction():
                yield
            return
        is_new = not self._exists()
        try:
            yield
        except BaseException:
            if connection.in_transaction:
                # It has nothing but these rows: with others in it, the table could not have been created.
                connection.rollback()
            if is_new and self._exists():
                connection.execute(f"DROP TABLE {self._target}")
            raise
