"""Catalogs, schemas, tables and keys of a store, read from its information_schema.

The relations of the system schemas are not in information_schema.tables. They are listed as "SYSTEM TABLE" where a
client names their schema or that type; a client that walks through everything does not meet 200 of them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

import pyarrow as pa

from ....sql.binding.system.definitions import relations
from ....sql.expressions import Column
from ..protocol.messages import given
from .columns import schema_of

Rows = Callable[[str], Sequence[tuple[Any, ...]]]
"""Runs a query of the client's session; its rows."""
Describe = Callable[[str], Sequence[Column]]
"""The columns of a query, which is not run."""

TABLE, VIEW, SYSTEM = "TABLE", "VIEW", "SYSTEM TABLE"
TYPES: Final = (SYSTEM, TABLE, VIEW)
_TYPES: Final = {"BASE TABLE": TABLE, "LOCAL TEMPORARY": "LOCAL TEMPORARY", "VIEW": VIEW}


def _text(name: str, nullable: bool = True) -> pa.Field:
    return pa.field(name, pa.utf8(), nullable)


CATALOGS: Final = pa.schema([_text("catalog_name", False)])
SCHEMAS: Final = pa.schema([_text("catalog_name"), _text("db_schema_name", False)])
TABLE_TYPES: Final = pa.schema([_text("table_type", False)])
TABLES: Final = pa.schema(
    [_text("catalog_name"), _text("db_schema_name"), _text("table_name", False), _text("table_type", False)]
)
TABLES_WITH_SCHEMA: Final = TABLES.append(pa.field("table_schema", pa.binary(), False))
PRIMARY_KEYS: Final = pa.schema(
    [
        _text("catalog_name"),
        _text("db_schema_name"),
        _text("table_name", False),
        _text("column_name", False),
        _text("key_name"),
        pa.field("key_sequence", pa.int32(), False),
    ]
)
FOREIGN_KEYS: Final = pa.schema(
    [
        _text("pk_catalog_name"),
        _text("pk_db_schema_name"),
        _text("pk_table_name", False),
        _text("pk_column_name", False),
        _text("fk_catalog_name"),
        _text("fk_db_schema_name"),
        _text("fk_table_name", False),
        _text("fk_column_name", False),
        pa.field("key_sequence", pa.int32(), False),
        _text("fk_key_name"),
        _text("pk_key_name"),
        pa.field("update_rule", pa.uint8(), False),
        pa.field("delete_rule", pa.uint8(), False),
    ]
)


def matcher(pattern: str | None) -> Callable[[str], bool]:
    """Test of names by a pattern of Flight SQL: `%` is any text, `_` one character, a backslash quotes; None: all.

    >>> matcher("t_%")("table"), matcher("t\\\\_%")("table"), matcher(None)("x")
    (True, False, True)
    """
    if pattern is None:
        return lambda name: True
    parts = re.findall(r"\\.|.", pattern, re.S)
    wild = {"%": ".*", "_": "."}
    compiled = re.compile("".join(wild.get(part) or re.escape(part[-1]) for part in parts), re.S)
    return lambda name: compiled.fullmatch(name) is not None


def table_of(schema: pa.Schema, rows: Iterable[Sequence[Any]]) -> pa.Table:
    """Rows as an Arrow table."""
    return pa.Table.from_pylist([dict(zip(schema.names, row, strict=True)) for row in rows], schema)


def catalogs(rows: Rows, command: Any) -> pa.Table:
    """GetCatalogs."""
    return table_of(CATALOGS, rows("SELECT catalog_name FROM information_schema.information_schema_catalog_name"))


def schemas(rows: Rows, command: Any) -> pa.Table:
    """GetDbSchemas."""
    fits = matcher(given(command, "db_schema_filter_pattern"))
    found = rows("SELECT catalog_name, schema_name FROM information_schema.schemata ORDER BY 1, 2")
    return table_of(SCHEMAS, (row for row in found if _is_catalog(command, "catalog", row[0]) and fits(row[1])))


def table_types(rows: Rows, command: Any) -> pa.Table:
    """GetTableTypes."""
    return table_of(TABLE_TYPES, ([name] for name in TYPES))


def tables(rows: Rows, describe: Describe, command: Any) -> pa.Table:
    """GetTables, with the Arrow schemas of the tables if the command requests them."""
    listed = "SELECT table_catalog, table_schema, table_name, table_type FROM information_schema.tables"
    found = [(*row[:3], _TYPES.get(row[3], row[3])) for row in rows(listed)]
    pattern = given(command, "db_schema_filter_pattern")
    types = set(command.table_types)
    if SYSTEM in types or (pattern is not None and pattern not in ("", "%")):
        catalog = rows("SELECT catalog_name FROM information_schema.information_schema_catalog_name")[0][0]
        there = {row[1:3] for row in found}
        found += [(catalog, *name, SYSTEM) for name in relations() if name not in there]
    fits_schema = matcher(pattern)
    fits_table = matcher(given(command, "table_name_filter_pattern"))
    chosen = sorted(
        row
        for row in found
        if _is_catalog(command, "catalog", row[0])
        and fits_schema(row[1])
        and fits_table(row[2])
        and (not types or row[3] in types)
    )
    if not command.include_schema:
        return table_of(TABLES, chosen)
    return table_of(TABLES_WITH_SCHEMA, ((*row, _serialized(describe, row)) for row in chosen))


def _serialized(describe: Describe, row: tuple[Any, ...]) -> bytes:
    """The Arrow schema of a table in bytes."""
    catalog, schema, table = row[:3]
    columns = describe(f"SELECT * FROM {quoted(schema)}.{quoted(table)}")
    data: bytes = schema_of(columns, (catalog, schema, table)).serialize().to_pybytes()
    return data


def primary_keys(rows: Rows, command: Any) -> pa.Table:
    """GetPrimaryKeys."""
    found = rows(
        "SELECT k.table_catalog, k.table_schema, k.table_name, k.column_name, k.constraint_name, k.ordinal_position "
        "FROM information_schema.key_column_usage AS k JOIN information_schema.table_constraints AS c "
        "ON k.constraint_schema = c.constraint_schema AND k.constraint_name = c.constraint_name "
        "AND k.table_name = c.table_name WHERE c.constraint_type = 'PRIMARY KEY' "
        f"AND k.table_name = {text(command.table)} ORDER BY 1, 2, 3, 5, 6"
    )
    schema = given(command, "db_schema")
    return table_of(
        PRIMARY_KEYS,
        (row for row in found if _is_catalog(command, "catalog", row[0]) and schema in (None, row[1])),
    )


def foreign_keys(rows: Rows, command: Any) -> pa.Table:
    """GetExportedKeys, GetImportedKeys and GetCrossReference: nyala has no foreign keys."""
    return FOREIGN_KEYS.empty_table()


def _is_catalog(command: Any, field: str, catalog: str) -> bool:
    return given(command, field) in (None, catalog)


def quoted(name: str) -> str:
    """A name as SQL has it, whatever its characters."""
    return '"' + name.replace('"', '""') + '"'


def text(value: str) -> str:
    """A text as SQL has it."""
    return "'" + value.replace("'", "''") + "'"
