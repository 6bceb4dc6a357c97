"""Converts nyala's types to Spark's, and to the Arrow types that Spark expects.

| nyala | Spark | Arrow |
|---|---|---|
| BOOLEAN | boolean | bool |
| TINYINT SMALLINT INT BIGINT | tinyint smallint int bigint | int8 int16 int32 int64 |
| FLOAT DOUBLE | float double | float double |
| DECIMAL(p, s) | decimal(p, s) | decimal128(p, s) |
| DATE | date | date32 |
| TIMESTAMP | timestamp_ntz (or timestamp, if requested) | timestamp[us] (timestamp[us, tz=UTC]) |
| STRING, VARCHAR(n) | string | string |
| BINARY | binary | binary |
| INTERVAL (of a query) | string, as nyala writes it: `1 mon 2 days` | string |
| NULL (of a query) | string | string |

A TIMESTAMP has no time zone, so it is Spark's timestamp_ntz: the session's time zone affects neither its display nor
computations with it. If Spark's timestamp is requested, it is the instant in UTC. Spark has no intervals with months,
days and seconds, and cannot send `varchar(n)` through Arrow.

Both of Spark's timestamp types are written to TIMESTAMP; timestamp as the instant in UTC.
"""

from __future__ import annotations

from collections.abc import Sequence
from inspect import signature
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import pyarrow as pa

from ..errors import NotSupportedError, NumericOutOfRange
from ..model.types import DECIMAL, NULL, TIMESTAMP, DataType, Interval, Kind

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

NamedType: TypeAlias = tuple[str, DataType, bool]
"""A column: its name, its type, True if it may be NULL."""

_NAMES: Final = {
    Kind.BOOLEAN: "boolean",
    Kind.TINYINT: "byte",
    Kind.SMALLINT: "short",
    Kind.INT: "integer",
    Kind.BIGINT: "long",
    Kind.FLOAT: "float",
    Kind.DOUBLE: "double",
    Kind.DATE: "date",
    Kind.TIMESTAMP: "timestamp_ntz",
    Kind.STRING: "string",
    Kind.BINARY: "binary",
    Kind.INTERVAL: "string",
    Kind.NULL: "string",
}
"""Spark's types without parameters, as its JSON names them."""
_ZONED: Final = "timestamp"
_TYPES: Final = {
    **{name: DataType(kind) for kind, name in _NAMES.items() if kind not in (Kind.INTERVAL, Kind.NULL)},
    _ZONED: TIMESTAMP,
}


def spark_schema(columns: Sequence[NamedType], zoned: bool = False) -> StructType:
    """Columns as Spark's schema; with `zoned`, TIMESTAMP is Spark's timestamp and not timestamp_ntz."""
    from pyspark.sql.types import StructType

    fields = [
        {"name": name, "type": _spark_name(type_, zoned), "nullable": nullable, "metadata": {}}
        for name, type_, nullable in columns
    ]
    found: StructType = StructType.fromJson({"type": "struct", "fields": fields})
    return found


def _spark_name(type_: DataType, zoned: bool) -> str:
    if type_.is_decimal:
        return f"decimal({type_.precision},{type_.scale})"
    return _ZONED if zoned and type_.kind is Kind.TIMESTAMP else _NAMES[type_.kind]


def arrow_schema(columns: Sequence[NamedType], zoned: bool = False) -> pa.Schema:
    """The Arrow schema that Spark expects of batches with these columns."""
    return pa.schema([pa.field(name, _arrow_type(type_, zoned), nullable) for name, type_, nullable in columns])


def _arrow_type(type_: DataType, zoned: bool) -> pa.DataType:
    if not type_.is_storable:
        return pa.string()
    return pa.timestamp("us", "UTC") if zoned and type_.kind is Kind.TIMESTAMP else type_.arrow


def arrow_of(schema: StructType) -> pa.Schema:
    """The Arrow schema that Spark expects for one of its schemas."""
    from pyspark.sql.pandas.types import to_arrow_schema

    if "timezone" in signature(to_arrow_schema).parameters:
        return to_arrow_schema(schema, timezone="UTC")
    return to_arrow_schema(schema)  # PySpark 4.1 omits the argument for UTC


def from_spark(schema: StructType, voids: bool = False) -> list[NamedType]:
    """The nyala columns that hold every value of Spark's; with `voids`, a column of only NULLs has type NULL.

    Raises `NotSupportedError` for types that have no counterpart: nested ones, intervals, TIME, VARIANT.
    """
    return [(field.name, _from_spark(field.name, field.dataType, voids), field.nullable) for field in schema.fields]


def _from_spark(name: str, type_: Any, voids: bool) -> DataType:
    written = type_.typeName().partition(" collate ")[0]
    if written == "void" and voids:
        return NULL
    if written in ("varchar", "char"):
        return DataType(Kind.STRING, length=type_.length)
    if written == "decimal":
        return DECIMAL(type_.precision, type_.scale)
    if written not in _TYPES:
        raise NotSupportedError(
            f"column {name} is {type_.simpleString()} in Spark, and nyala has no such type; cast it to another one "
            f"({', '.join(sorted(_TYPES))}, decimal), or leave it out"
        )
    return _TYPES[written]


def to_spark(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Converts a nyala batch to exactly Spark's schema; columns by position, under the schema's names.

    Raises `NumericOutOfRange` for a value that the requested type cannot hold, and `NotSupportedError` if no value of
    one type is valid in the other. Nothing is rounded or truncated.
    """
    if batch.num_columns != len(schema):
        raise NotSupportedError(f"{batch.num_columns} columns were read, and Spark's schema has {len(schema)}")
    columns = [_fitting(column, field) for column, field in zip(batch.columns, schema)]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _fitting(column: pa.Array, field: pa.Field) -> pa.Array:
    if not field.nullable and column.null_count:
        raise NumericOutOfRange(f"column {field.name} has NULLs, and Spark's schema declares it not nullable")
    if column.type == field.type:
        return column
    if column.type == pa.month_day_nano_interval():
        return _as_text(column)
    try:
        return column.cast(field.type, safe=True)
    except pa.ArrowNotImplementedError as error:
        raise NotSupportedError(f"column {field.name} is {column.type}, and cannot be {field.type}") from error
    except pa.ArrowInvalid as error:
        raise NumericOutOfRange(f"column {field.name}, {column.type} as {field.type}: {error}") from error


def _as_text(intervals: pa.Array) -> pa.Array:
    """Intervals as nyala writes them."""
    spans = [None if one is None else Interval(one[0], one[1], one[2] // 1000) for one in intervals.to_pylist()]
    return pa.array([None if span is None else str(span) for span in spans], pa.string())


def fits(type_: DataType, wanted: DataType) -> bool:
    """True if the values of a column are exactly those of the type that a user declared. Lengths are ignored: Spark
    has none."""
    if not type_.is_storable:
        return wanted.kind is Kind.STRING
    return type_.kind is wanted.kind and (type_.precision, type_.scale) == (wanted.precision, wanted.scale)
