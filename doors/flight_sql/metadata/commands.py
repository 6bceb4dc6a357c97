"""The commands about metadata by name: the schema of each table, and a function that makes it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import pyarrow as pa

from . import catalogs, sql_info, xdbc_types

SCHEMAS: Final[dict[str, pa.Schema]] = {
    "CommandGetCatalogs": catalogs.CATALOGS,
    "CommandGetDbSchemas": catalogs.SCHEMAS,
    "CommandGetTables": catalogs.TABLES,
    "CommandGetTableTypes": catalogs.TABLE_TYPES,
    "CommandGetPrimaryKeys": catalogs.PRIMARY_KEYS,
    "CommandGetExportedKeys": catalogs.FOREIGN_KEYS,
    "CommandGetImportedKeys": catalogs.FOREIGN_KEYS,
    "CommandGetCrossReference": catalogs.FOREIGN_KEYS,
    "CommandGetXdbcTypeInfo": xdbc_types.XDBC_TYPES,
    "CommandGetSqlInfo": sql_info.SQL_INFO,
}
_FROM_ROWS: Final[dict[str, Callable[[catalogs.Rows, Any], pa.Table]]] = {
    "CommandGetCatalogs": catalogs.catalogs,
    "CommandGetDbSchemas": catalogs.schemas,
    "CommandGetTableTypes": catalogs.table_types,
    "CommandGetPrimaryKeys": catalogs.primary_keys,
    "CommandGetExportedKeys": catalogs.foreign_keys,
    "CommandGetImportedKeys": catalogs.foreign_keys,
    "CommandGetCrossReference": catalogs.foreign_keys,
}


def schema_for(name: str, command: Any) -> pa.Schema:
    """The schema of a command's table."""
    if name == "CommandGetTables" and command.include_schema:
        return catalogs.TABLES_WITH_SCHEMA
    return SCHEMAS[name]


def table_for(name: str, command: Any, rows: catalogs.Rows, describe: catalogs.Describe, **facts: Any) -> pa.Table:
    """The table of a command.

    Parameters
    ----------
    name : str
        One of `SCHEMAS`.
    command : message
    rows, describe : callable
        Run a query, and describe one, in the client's session.
    facts
        Those of `sql_info.sql_info`.
    """
    if name == "CommandGetTables":
        return catalogs.tables(rows, describe, command)
    if name == "CommandGetXdbcTypeInfo":
        return xdbc_types.xdbc_types(command)
    if name == "CommandGetSqlInfo":
        return sql_info.sql_info(rows, command.info, **facts)
    return _FROM_ROWS[name](rows, command)
