"""Columns of results and tables as fields of Arrow schemas.

The metadata of a field has what Arrow's type does not: the name of the type, its precision and scale, and the table.
The JDBC driver reads them for ResultSetMetaData and DatabaseMetaData.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import pyarrow as pa

from ....model.types import DataType, Kind
from ....sql.expressions import Column

_PREFIX: Final = "ARROW:FLIGHT:SQL:"
_DIGITS: Final = {
    Kind.TINYINT: 3,
    Kind.SMALLINT: 5,
    Kind.INT: 10,
    Kind.BIGINT: 19,
    Kind.FLOAT: 24,
    Kind.DOUBLE: 53,
    Kind.DATE: 10,
    Kind.TIMESTAMP: 26,
    Kind.BOOLEAN: 1,
}
"""Precisions as JDBC counts them: decimal digits, bits of FLOAT and DOUBLE, characters of dates."""
_MICROSECONDS: Final = 6


def type_name(type_: DataType) -> str:
    """Name of a type without its parameters.

    >>> from ....model.types import DECIMAL
    >>> type_name(DECIMAL(15, 2))
    'DECIMAL'
    """
    return "VARCHAR" if type_.length is not None else type_.kind.value


def precision_of(type_: DataType) -> int | None:
    """Digits, bits or characters of a type's values; None if there is no such limit."""
    if type_.kind is Kind.DECIMAL:
        return type_.precision
    return type_.length if type_.length is not None else _DIGITS.get(type_.kind)


def scale_of(type_: DataType) -> int | None:
    """Digits behind the point, or of a second; None if the type has no scale."""
    if type_.kind is Kind.DECIMAL:
        return type_.scale
    if type_.kind is Kind.TIMESTAMP:
        return _MICROSECONDS
    return 0 if type_.is_integer or type_.kind is Kind.DATE else None


def schema_of(columns: Sequence[Column], table: tuple[str, str, str] | None = None) -> pa.Schema:
    """The Arrow schema of a result, or of a table named by catalog, schema and name."""
    return pa.schema([_field(column, table) for column in columns])


def _field(column: Column, table: tuple[str, str, str] | None) -> pa.Field:
    type_ = column.type
    facts = {
        "TYPE_NAME": type_name(type_),
        "PRECISION": precision_of(type_),
        "SCALE": scale_of(type_),
        "IS_AUTO_INCREMENT": 0,
        "IS_CASE_SENSITIVE": int(type_.kind is Kind.STRING),
        "IS_READ_ONLY": int(table is None),
        "IS_SEARCHABLE": 1,
    }
    if table is not None:
        facts |= dict(zip(("CATALOG_NAME", "SCHEMA_NAME", "TABLE_NAME"), table, strict=True))
        facts["DB_SCHEMA_NAME"] = table[1]
    metadata = {_PREFIX + name: str(value) for name, value in facts.items() if value is not None}
    return pa.field(column.name, type_.arrow, column.nullable, metadata)
