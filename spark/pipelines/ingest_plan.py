"""Maps the columns of a source to the columns of a table, as Spark expressions.

    source      id      when                     note
                 │        │                        │
    value       id      to_timestamp(when)       note              the mapping, or the column of the same name

Conditions for bad rows are in `row_checks`.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import field
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from ...errors import InterfaceError, NotNullViolation, NotSupportedError, UnknownColumn, did_you_mean
from ...model.lazy_dataclass import dataclass
from ...model.partitions.partition import Partitioner
from ...model.schema import ColumnSchema, PartitionSchema, Schema, Table
from ...model.types import Kind
from ...sql.binding.tables.show_create import name_text
from ..types import from_spark
from ..writing.operations import Operation
from .jobs import reason as told
from .sources import Source

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import StructType

REASON: Final = "_nyala_reason"
NUMBER: Final = "_nyala_number"
DUPLICATE: Final = "key occurs twice in the source"
FRACTIONS: Final = ("float", "double", "decimal")
INTEGERS: Final = ("byte", "short", "integer", "long")
NESTED: Final = ("struct", "array", "map", "variant")
TIMES: Final = ("timestamp", "timestamp_ntz", "date")
_NUMBERS: Final = (Kind.TINYINT, Kind.SMALLINT, Kind.INT, Kind.BIGINT, Kind.FLOAT, Kind.DOUBLE)


@dataclass(frozen=True, slots=True)
class NewTable:
    """The definition of a table to be created from a source: its key, and its clause DISTRIBUTE BY."""

    primary_key: Sequence[str]
    distribute_by: str | None = None


@dataclass(frozen=True)
class IngestPlan:
    """The mapping of rows to a table; `columns` are the table's columns that get values."""

    table: Table
    columns: tuple[ColumnSchema, ...]
    values: Mapping[str, Column]
    """The expression of each column, over the source's columns."""
    types: Mapping[str, tuple[str, Any]]
    """The name of the Spark type of each value, and the type."""
    computed: Mapping[str, str] = field(default_factory=dict)
    """The columns whose expression is more than a column of the source: it may fail for a row."""

    @property
    def key(self) -> list[str]:
        """The key columns that the rows provide."""
        given = {column.name for column in self.columns}
        return [column.name for column in self.table.schema.key if column.name in given]


def matched(
    source: Sequence[str], table: Sequence[str], mapping: Mapping[str, str], skip: Collection[str]
) -> dict[str, str]:
    """The expression of each column of the table, by the mapping and by equal names.

    Parameters
    ----------
    source, table : sequence of str
        The names of their columns.
    mapping : mapping of str to str
        For columns of the table: a column of the source or an expression each.
    skip : collection of str
        Columns of the source to leave out.

    Raises
    ------
    UnknownColumn
        If a name does not exist.
    InterfaceError
        If a column of the source would be lost without being listed in `skip`.

    Examples
    --------
    >>> matched(["ID", "note", "x"], ["id", "text"], {"text": "upper(note)"}, ["x"])
    {'id': '`ID`', 'text': 'upper(note)'}
    """
    for name in mapping:
        if name not in table:
            raise UnknownColumn(f"column {name} to map to does not exist{did_you_mean(name, table, 'the table has')}")
    for name in skip:
        if name not in source:
            raise UnknownColumn(f"column {name} to skip does not exist{did_you_mean(name, source, 'the source has')}")
    words = {word.lower() for text in mapping.values() for word in re.findall(r"\w+", text)}
    expressions_by_name = {name: quoted(text) if text in source else text for name, text in mapping.items()}
    lower = {name.lower(): name for name in table}
    for name in source:
        if name in skip:
            continue
        target = name if name in table else lower.get(name.lower())
        if target is None:
            if name.lower() not in words:
                hint = did_you_mean(name, table, "the table has")
                raise InterfaceError(
                    f"column {name} of the source is not mapped; leave it out with --skip {name}, or map it{hint}"
                )
        elif target not in mapping:
            if target in expressions_by_name:
                raise InterfaceError(f"two columns of the source would become column {target}; --skip one of them")
            expressions_by_name[target] = quoted(name)
    return {name: expressions_by_name[name] for name in table if name in expressions_by_name}


def quoted(name: str) -> str:
    """A column's name in Spark SQL."""
    return "`" + name.replace("`", "``") + "`"


def plan_of(
    source: Source, table: Table, operation: Operation, mapping: Mapping[str, str], skip: Collection[str]
) -> IngestPlan:
    """The plan of an ingest.

    Raises
    ------
    NotNullViolation
        If a column that every row needs gets no value from the source.
    NotSupportedError
        If a column would get a nested value.
    """
    wanted = list(table.schema.visible_columns)
    expressions_by_name = matched(source.columns, [column.name for column in wanted], mapping, skip)
    _check_missing(table, operation, expressions_by_name)
    columns = tuple(column for column in wanted if column.name in expressions_by_name)
    values, schema = expressions(source.frame, expressions_by_name)
    types = {field.name: (field.dataType.typeName().partition("(")[0], field.dataType) for field in schema.fields}
    for column in columns:
        _check_kinds(column, *types[column.name])
    computed = {
        name: text for name, text in expressions_by_name.items() if text != quoted(text[1:-1].replace("``", "`"))
    }
    return IngestPlan(table, columns, values, types, computed)


def _check_kinds(column: ColumnSchema, kind: str, type_: Any) -> None:
    """Raises `NotSupportedError` for a type without a value in common with the column's.

    Spark has casts for some of them, such as numbers to seconds since 1970.
    """
    to_number = column.type.is_decimal or column.type.kind in _NUMBERS or column.type.kind is Kind.BOOLEAN
    hint = ""
    if kind in NESTED:
        fits = column.type.kind is Kind.STRING
    elif kind in TIMES:
        fits = not to_number
    elif kind in (*INTEGERS, *FRACTIONS, "boolean"):
        fits = column.type.kind not in (Kind.DATE, Kind.TIMESTAMP, Kind.BINARY)
        hint = f"; say how, such as --map {column.name}='timestamp_seconds(...)' or timestamp_millis(...)"
    else:
        return
    if not fits:
        hint = hint if column.type.kind is Kind.TIMESTAMP else ""
        raise NotSupportedError(f"column {column.name}: a {type_.simpleString()} cannot become {column.type}{hint}")


def expressions(frame: DataFrame, found: Mapping[str, str]) -> tuple[dict[str, Column], StructType]:
    """Spark's columns for some expressions, and their types; raises `InterfaceError` for an invalid one."""
    from pyspark.errors import PySparkException
    from pyspark.sql import functions as F

    values = {}
    for name, text in found.items():
        try:
            values[name] = F.expr(text)
            frame.select(values[name])
        except PySparkException as error:
            raise InterfaceError(f"column {name}: {text} cannot be computed of the source: {told(error)}") from error
    return values, frame.select(*(value.alias(name) for name, value in values.items())).schema


def _check_missing(table: Table, operation: Operation, found: Mapping[str, str]) -> None:
    for place, column in enumerate(table.schema.columns):
        if column.name in found or column.auto_increment or column.default is not None:
            continue
        if place < table.schema.key_columns or (operation.adds and not column.nullable):
            raise NotNullViolation(
                f"no column of the source is mapped to column {column.name} of {table.name}, which every row needs; "
                f"map one with --map {column.name}=..."
            )


# ---- tablets ---------------------------------------------------------------------------------------------------------


def tablet_of(plan: IngestPlan, key: Sequence[Column]) -> Column:
    """The number of the tablet that a row belongs to, from its key columns.

    -1 if no partition covers it, NULL if a part of the key is NULL. An Arrow UDF: only the key is sent to Python.
    """
    from pyspark.sql.functions import arrow_udf
    from pyspark.sql.types import IntegerType

    route = TabletOf(plan.table.schema, plan.table.partitions, plan.key)

    def tablet(*arrays: pa.Array) -> pa.Array:
        return route(arrays)

    return arrow_udf(tablet, IntegerType())(*key)


class TabletOf:
    """Maps the columns of keys to tablets with nyala's own partitioner; plain data that is sent to the workers."""

    def __init__(self, schema: Schema, partitions: PartitionSchema, names: Sequence[str]):
        self._schema = schema
        self._partitions = partitions
        self._names = list(names)
        self._partitioner: Partitioner | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_partitioner": None}

    def __call__(self, arrays: Sequence[pa.Array]) -> pa.Array:
        """The tablet of each row: int32."""
        if self._partitioner is None:
            self._partitioner = Partitioner(self._schema, self._partitions)
        types = [self._schema.column(name).type.arrow for name in self._names]
        columns = [_plain(array, type_) for array, type_ in zip(arrays, types, strict=True)]
        there = np.ones(len(columns[0]), np.bool_)
        for column in columns:
            there &= column.is_valid().to_numpy(zero_copy_only=False)
        rows = pa.RecordBatch.from_arrays(columns, names=self._names)
        places = np.zeros(len(there), np.int32)
        places[there] = self._partitioner.route(rows if there.all() else rows.filter(pa.array(there)))
        return pa.array(places, pa.int32(), mask=~there)


def _plain(array: pa.Array, type_: pa.DataType) -> pa.Array:
    """Spark's timestamp as nyala's, which has no zone; other types unchanged."""
    if pa.types.is_timestamp(array.type) and array.type.tz is not None:
        array = array.cast(pa.timestamp("us", "UTC")).cast(pa.timestamp("us"))
    return array.cast(type_)


# ---- new tables ------------------------------------------------------------------------------------------------------


def create_text(name: str, source: Source, new: NewTable, mapping: Mapping[str, str], skip: Collection[str]) -> str:
    """CREATE TABLE, of a name in SQL, with the source's columns, mapped ones with the types of their expressions, the
    key first."""
    used = {word.lower() for text in mapping.values() for word in re.findall(r"\w+", text)}
    kept = [field for field in source.types.fields if field.name not in skip and field.name not in mapping]
    kept = [field for field in kept if field.name in new.primary_key or field.name.lower() not in used]
    named = {field.name: type_ for field, (_, type_, _) in zip(kept, from_spark(type(source.types)(kept)), strict=True)}
    _, schema = expressions(source.frame, {n: quoted(t) if t in source.columns else t for n, t in mapping.items()})
    for column, type_, _ in from_spark(schema):
        named[column] = type_
    for key in new.primary_key:
        if key not in named:
            raise UnknownColumn(f"--primary-key: column {key} does not exist{did_you_mean(key, named, 'there are')}")
    ordered = [*new.primary_key, *(column for column in named if column not in new.primary_key)]
    lines = [f"  {name_text(c)} {named[c]}{' NOT NULL' if c in new.primary_key else ''}" for c in ordered]
    lines.append(f"  PRIMARY KEY ({', '.join(map(name_text, new.primary_key))})")
    text = f"CREATE TABLE {name} (\n" + ",\n".join(lines) + "\n)"
    return text if new.distribute_by is None else f"{text}\nDISTRIBUTE BY {new.distribute_by}"
