"""Which column of a source becomes which column of a table, and what makes a row a bad one: Spark's expressions.

    source      id      when                     note
                 │        │                        │
    value       id      to_timestamp(when)       note              the mapping, or the column of the same name
    cast        try_cast(... AS int)             ...               the table's type
    reason      CASE WHEN no JSON               THEN 'malformed row'
                     WHEN id IS NULL            THEN 'column k: NULL in a NOT NULL column'
                     WHEN the cast gives NULL   THEN 'column k: not a value of INT'
                     WHEN it is too long        THEN 'column note: longer than VARCHAR(10)' ...     the first that holds

What is sure to be right by its type is not looked at: rows of Parquet that fit cost nothing.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from ...errors import InterfaceError, NotNullViolation, NotSupportedError, UnknownColumn, did_you_mean
from ...sql.binding.show_create import name_text
from ...storage.keys.key_encoding import END, key_width
from ...storage.keys.partition import Partitioner
from ...storage.schema import ColumnSchema, PartitionSchema, Schema, Table
from ...storage.types import DataType, Kind
from ...storage.writing.incoming_rows import MAX_CELL_BYTES, MAX_KEY_BYTES
from ..types import from_spark
from ..writing.operations import Operation
from .jobs import reason as told
from .sources import RAW, Source

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import StructType

REASON: Final = "_nyala_reason"
NUMBER: Final = "_nyala_number"
MALFORMED: Final = "malformed row"
DUPLICATE: Final = "key is there twice in the source"
NO_PARTITION: Final = "no partition covers the key"
_EXACT: Final = {
    Kind.TINYINT: ("byte",),
    Kind.SMALLINT: ("byte", "short"),
    Kind.INT: ("byte", "short", "integer"),
    Kind.BIGINT: ("byte", "short", "integer", "long"),
    Kind.FLOAT: ("float",),
    Kind.DOUBLE: ("float", "double"),
    Kind.BOOLEAN: ("boolean",),
    Kind.DATE: ("date",),
    Kind.TIMESTAMP: ("timestamp", "timestamp_ntz", "date"),
    Kind.STRING: ("string",),
    Kind.BINARY: ("binary",),
}
"""Types of Spark whose values are all values of nyala's: the writer takes them as they are."""
_FRACTIONS: Final = ("float", "double", "decimal")
_NESTED: Final = ("struct", "array", "map", "variant")


@dataclass(frozen=True, slots=True)
class NewTable:
    """A table to be made from a source: its key, and how it is distributed, in the words of DISTRIBUTE BY."""

    primary_key: Sequence[str]
    distribute_by: str | None = None


@dataclass(frozen=True)
class Plan:
    """How rows come into a table: `columns` are the table's that get something."""

    table: Table
    columns: tuple[ColumnSchema, ...]
    values: Mapping[str, Column]
    """What each column gets, of the source's columns."""
    types: Mapping[str, tuple[str, Any]]
    """The name of Spark's type of each value, and the type."""

    @property
    def key(self) -> list[str]:
        """The key's columns that the rows give."""
        given = {column.name for column in self.columns}
        return [column.name for column in self.table.schema.key if column.name in given]


def matched(
    source: Sequence[str], table: Sequence[str], mapping: Mapping[str, str], skip: Collection[str]
) -> dict[str, str]:
    """The expression that each column of the table gets, by the mapping and by equal names.

    Parameters
    ----------
    source, table : sequence of str
        The names of their columns.
    mapping : mapping of str to str
        Columns of the table; a column of the source or an expression each.
    skip : collection of str
        Columns of the source that are to be left out.

    Raises
    ------
    UnknownColumn
        A name is not there.
    InterfaceError
        A column of the source would be lost without having been left out in so many words.

    Examples
    --------
    >>> matched(["ID", "note", "x"], ["id", "text"], {"text": "upper(note)"}, ["x"])
    {'id': '`ID`', 'text': 'upper(note)'}
    """
    for name in mapping:
        if name not in table:
            raise UnknownColumn(f"there is no column {name} to map to{did_you_mean(name, table, 'the table has')}")
    for name in skip:
        if name not in source:
            raise UnknownColumn(f"there is no column {name} to skip{did_you_mean(name, source, 'the source has')}")
    words = {word.lower() for text in mapping.values() for word in re.findall(r"\w+", text)}
    found = {name: quoted(text) if text in source else text for name, text in mapping.items()}
    lower = {name.lower(): name for name in table}
    for name in source:
        if name in skip:
            continue
        target = name if name in table else lower.get(name.lower())
        if target is None:
            if name.lower() not in words:
                hint = did_you_mean(name, table, "the table has")
                raise InterfaceError(
                    f"column {name} of the source goes nowhere; leave it out with --skip {name}, or map it{hint}"
                )
        elif target not in mapping:
            if target in found:
                raise InterfaceError(f"two columns of the source would become column {target}; --skip one of them")
            found[target] = quoted(name)
    return {name: found[name] for name in table if name in found}


def quoted(name: str) -> str:
    """A column's name in Spark SQL."""
    return "`" + name.replace("`", "``") + "`"


def plan_of(
    source: Source, table: Table, operation: Operation, mapping: Mapping[str, str], skip: Collection[str]
) -> Plan:
    """The plan of an ingest.

    Raises
    ------
    NotNullViolation
        Nothing of the source becomes a column that every row needs.
    NotSupportedError
        A nested value would become a column.
    """
    wanted = list(table.schema.visible_columns)
    found = matched(source.columns, [column.name for column in wanted], mapping, skip)
    _check_missing(table, operation, found)
    columns = tuple(column for column in wanted if column.name in found)
    values, schema = expressions(source.frame, found)
    types = {field.name: (field.dataType.typeName().partition("(")[0], field.dataType) for field in schema.fields}
    for column in columns:
        kind, type_ = types[column.name]
        if kind in _NESTED and column.type.kind is not Kind.STRING:
            raise NotSupportedError(f"column {column.name}: a {type_.simpleString()} cannot become {column.type}")
    return Plan(table, columns, values, types)


def expressions(frame: DataFrame, found: Mapping[str, str]) -> tuple[dict[str, Column], StructType]:
    """Spark's columns of some expressions, and what they are; `InterfaceError` for one that cannot be."""
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
                f"nothing of the source becomes column {column.name} of table {table.name}, which every row needs; "
                f"say what does with --map {column.name}=..."
            )


# ---- rows ------------------------------------------------------------------------------------------------------------


def cast_rows(source: Source, plan: Plan, extra: Sequence[str] = ()) -> DataFrame:
    """The rows in the table's columns and types, and `REASON`: NULL, or why a row is a bad one. `extra` columns of the
    source are kept."""
    from pyspark.sql import functions as F

    raw = {column.name: f"_nyala_{place}" for place, column in enumerate(plan.columns)}
    checks = [RAW] if source.has_raw else []
    named = source.frame.select(
        *(plan.values[name].alias(alias) for name, alias in raw.items()),
        *(F.col(name) for name in dict.fromkeys([*checks, *extra])),
    )
    made = {
        column.name: _cast(F.col(raw[column.name]), column.type, plan.types[column.name][0]) for column in plan.columns
    }
    conditions = [(F.col(RAW).isNotNull(), MALFORMED)] if source.has_raw else []
    for column in plan.columns:
        conditions += _conditions(
            plan.table, column, F.col(raw[column.name]), made[column.name], plan.types[column.name]
        )
    conditions += _key_condition(plan, made)
    reason = F.lit(None).cast("string")
    for condition, text in reversed(conditions):
        reason = F.when(condition, F.lit(text)).otherwise(reason)
    if plan.table.partitions.range_rule is not None:
        place = tablet_of(plan, [made[name] for name in plan.key])
        reason = F.coalesce(reason, F.when(place == -1, F.lit(NO_PARTITION)))
    return named.select(
        *(made[name].alias(name) for name in raw), *(F.col(name) for name in extra), reason.alias(REASON)
    )


def _cast(value: Column, type_: DataType, given: str) -> Column:
    if _is_exact(type_, given, None):
        return value
    if type_.kind is Kind.STRING and given in _NESTED:
        from pyspark.sql import functions as F

        return F.to_json(value)
    return value.try_cast(spark_type(type_))


def spark_type(type_: DataType) -> str:
    """What Spark casts to. A text that names a moment may say its zone, which `timestamp_ntz` would pass over."""
    if type_.is_decimal:
        return f"decimal({type_.precision},{type_.scale})"
    return {Kind.TIMESTAMP: "timestamp"}.get(type_.kind, type_.kind.value.lower())


def _is_exact(type_: DataType, given: str, spark: Any) -> bool:
    if type_.is_decimal:
        if given != "decimal" or spark is None:
            return False
        precision, scale = type_.precision or 0, type_.scale or 0
        return bool(spark.scale <= scale and spark.precision - spark.scale <= precision - scale)
    return given in _EXACT[type_.kind]


def _conditions(
    table: Table, column: ColumnSchema, value: Column, made: Column, given: tuple[str, Any]
) -> Iterator[tuple[Column, str]]:
    """What makes a row bad by this column, each with its words."""
    from pyspark.sql import functions as F

    kind, type_ = given
    where = f"column {column.name}"
    if not column.nullable:
        yield value.isNull(), f"{where}: NULL in a NOT NULL column"
    if not _is_exact(column.type, kind, type_):
        range_ = "out of range of" if kind in (*_FRACTIONS, "byte", "short", "integer", "long") else "not a value of"
        yield value.isNotNull() & made.isNull(), f"{where}: {range_} {column.type}"
        if column.type.is_integer and kind in _FRACTIONS:
            yield made.cast(type_) != value, f"{where}: has a fraction, and {column.type} has none"
        if column.type.kind is Kind.FLOAT and kind in ("double", "decimal"):
            infinite = made.cast("double").isin(float("inf"), float("-inf"))
            yield infinite & ~value.cast("double").isin(float("inf"), float("-inf")), f"{where}: out of range of FLOAT"
        if column.type.kind is Kind.STRING and kind == "binary":
            yield ~F.is_valid_utf8(made), f"{where}: not a text in UTF-8"
    if column.type.length is not None:
        yield F.char_length(made) > column.type.length, f"{where}: longer than {column.type}"
    if column.type.is_text and (column.type.length is None or 4 * column.type.length > MAX_CELL_BYTES):
        yield F.octet_length(made) > MAX_CELL_BYTES, f"{where}: longer than {MAX_CELL_BYTES:,} bytes"


def _key_condition(plan: Plan, made: Mapping[str, Column]) -> Iterator[tuple[Column, str]]:
    """Keys that are too long; only keys with texts can be."""
    from pyspark.sql import functions as F

    texts = [column for column in plan.table.schema.key if column.type.is_text and column.name in made]
    fixed = sum(key_width(column.type) or len(END) for column in plan.table.schema.key)
    if texts and any(column.type.length is None or 4 * column.type.length > 1024 for column in texts):
        length = sum((F.octet_length(made[column.name]) for column in texts), start=F.lit(fixed))
        yield length > MAX_KEY_BYTES, f"key longer than {MAX_KEY_BYTES:,} bytes"


# ---- tablets ---------------------------------------------------------------------------------------------------------


def tablet_of(plan: Plan, key: Sequence[Column]) -> Column:
    """The number of the tablet that a row belongs to, of its key's columns; -1 where no partition covers it, NULL where
    a part of the key is NULL. An Arrow UDF: only the key crosses into Python."""
    from pyspark.sql.functions import arrow_udf
    from pyspark.sql.types import IntegerType

    route = TabletOf(plan.table.schema, plan.table.partitions, plan.key)

    def tablet(*arrays: pa.Array) -> pa.Array:
        return route(arrays)

    return arrow_udf(tablet, IntegerType())(*key)


class TabletOf:
    """Routes the columns of keys to tablets, with nyala's own partitioner; plain data that travels to the workers."""

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
    """Spark's timestamp as nyala's, which has no zone; other types as they are."""
    if pa.types.is_timestamp(array.type) and array.type.tz is not None:
        array = array.cast(pa.timestamp("us", "UTC")).cast(pa.timestamp("us"))
    return array.cast(type_)


# ---- new tables ------------------------------------------------------------------------------------------------------


def create_text(name: str, source: Source, new: NewTable, mapping: Mapping[str, str], skip: Collection[str]) -> str:
    """CREATE TABLE of a table with the source's columns, those that are mapped with the types of their expressions,
    the key in front."""
    used = {word.lower() for text in mapping.values() for word in re.findall(r"\w+", text)}
    kept = [field for field in source.types.fields if field.name not in skip and field.name not in mapping]
    kept = [field for field in kept if field.name in new.primary_key or field.name.lower() not in used]
    named = {field.name: type_ for field, (_, type_, _) in zip(kept, from_spark(type(source.types)(kept)), strict=True)}
    _, schema = expressions(source.frame, {n: quoted(t) if t in source.columns else t for n, t in mapping.items()})
    for column, type_, _ in from_spark(schema):
        named[column] = type_
    for key in new.primary_key:
        if key not in named:
            raise UnknownColumn(f"--primary-key: there is no column {key}{did_you_mean(key, named, 'there are')}")
    ordered = [*new.primary_key, *(column for column in named if column not in new.primary_key)]
    lines = [f"  {name_text(c)} {named[c]}{' NOT NULL' if c in new.primary_key else ''}" for c in ordered]
    lines.append(f"  PRIMARY KEY ({', '.join(map(name_text, new.primary_key))})")
    text = f"CREATE TABLE {name_text(name)} (\n" + ",\n".join(lines) + "\n)"
    return text if new.distribute_by is None else f"{text}\nDISTRIBUTE BY {new.distribute_by}"
