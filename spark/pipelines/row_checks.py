"""Conditions for bad rows of a source: Spark expressions over the columns that the plan has chosen.

    value       id      to_timestamp(when)       note
    cast        try_cast(... AS int)             ...               the table's type
    reason      CASE WHEN not JSON              THEN 'malformed row'
                     WHEN id IS NULL            THEN 'column k: NULL in a NOT NULL column'
                     WHEN the cast gives NULL   THEN 'column k: not a value of INT'
                     WHEN it is too long        THEN 'column note: longer than VARCHAR(10)' ...     the first that holds

Values that are valid by their type are not checked: rows of Parquet that fit cost nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from ...model.keys.key_encoding import END, key_width
from ...model.schema import ColumnSchema, Table
from ...model.types import DataType, Kind
from ...storage.writing.incoming_rows import MAX_CELL_BYTES, MAX_KEY_BYTES
from .ingest_plan import FRACTIONS, NESTED, REASON, TIMES, IngestPlan, tablet_of
from .sources import RAW, Source

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

MALFORMED: Final = "malformed row"
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
"""Spark types whose values are all valid in nyala: the writer takes them unchanged."""
_DATE: Final = r"^\s*[0-9]+-[0-9]{1,2}-[0-9]{1,2}\s*$"
_MOMENT: Final = r"^\s*[0-9]+-[0-9]{1,2}-[0-9]{1,2}([T ].*|\s*)$"
"""Spark's cast accepts more texts as times: `10:00` is ten o'clock of today, `2020` a day in January."""
_TOO_FINE: Final = r"\.[0-9]{6}[0-9]*[1-9]"
_FOREIGN_NUMBER: Final = r"(?i)([0-9.][df]|0x.*)\s*$"
"""Texts that only Java accepts as numbers."""


def cast_rows(source: Source, plan: IngestPlan, extra: Sequence[str] = ()) -> DataFrame:
    """The rows in the table's columns and types, and `REASON`: NULL, or the reason why a row is bad.

    `extra` columns of the source are kept.
    """
    from pyspark.sql import functions as F

    raw = {column.name: f"_nyala_{place}" for place, column in enumerate(plan.columns)}
    checks = [RAW] if source.has_raw else []
    named = source.frame.select(
        *(_computable(plan, name).alias(alias) for name, alias in raw.items()),
        *(_succeeds(plan.values[name]).alias(f"{raw[name]}_ok") for name in plan.computed),
        *(F.col(name) for name in dict.fromkeys([*checks, *extra])),
    )
    made = {
        column.name: _cast(F.col(raw[column.name]), column.type, plan.types[column.name][0]) for column in plan.columns
    }
    conditions = [(F.col(RAW).isNotNull(), MALFORMED)] if source.has_raw else []
    for name, text in plan.computed.items():
        conditions.append((~F.col(f"{raw[name]}_ok"), f"column {name}: {text} cannot be computed of the row"))
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


def _computable(plan: IngestPlan, name: str) -> Column:
    """A column's value; NULL if its expression fails."""
    from pyspark.sql import functions as F

    value = plan.values[name]
    return F.when(_succeeds(value), value) if name in plan.computed else value


def _succeeds(value: Column) -> Column:
    """True if an expression can be computed, False if it raises an error.

    Spark has no such function; of those that it has, `try_to_binary` yields NULL for an error of its argument too.
    """
    from pyspark.sql import functions as F

    shown = F.concat(F.lit("-"), F.coalesce(value.cast("string"), F.lit("")))
    return F.try_to_binary(shown, F.lit("utf-8")).isNotNull()


def _cast(value: Column, type_: DataType, given: str) -> Column:
    if _is_exact(type_, given, None):
        return value
    if type_.kind is Kind.STRING and given in NESTED:
        from pyspark.sql import functions as F

        return F.to_json(value)
    return value.try_cast(spark_type(type_))


def spark_type(type_: DataType) -> str:
    """The target type of Spark's cast. A text may have a time zone, which `timestamp_ntz` would ignore."""
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
    """The conditions that make a row bad by this column, each with its message."""
    from pyspark.sql import functions as F

    kind, type_ = given
    where = f"column {column.name}"
    if not column.nullable:
        yield value.isNull(), f"{where}: NULL in a NOT NULL column"
    if not _is_exact(column.type, kind, type_):
        range_ = "out of range of" if kind in (*FRACTIONS, "byte", "short", "integer", "long") else "not a value of"
        yield value.isNotNull() & made.isNull(), f"{where}: {range_} {column.type}"
        if column.type.is_integer and kind in FRACTIONS:
            yield made.cast(type_) != value, f"{where}: has a fraction, and {column.type} has none"
        if column.type.kind is Kind.FLOAT and kind in ("double", "decimal"):
            infinite = made.cast("double").isin(float("inf"), float("-inf"))
            yield infinite & ~value.cast("double").isin(float("inf"), float("-inf")), f"{where}: out of range of FLOAT"
        if column.type.kind is Kind.STRING and kind == "binary":
            yield ~F.is_valid_utf8(made), f"{where}: not a text in UTF-8"
        if column.type.kind is Kind.DATE and kind in TIMES:
            yield made.cast(type_) != value, f"{where}: has a time of day, and DATE has none"
        if kind == "string":
            yield from _text_conditions(column.type, where, value, made)
    if column.type.length is not None:
        yield F.char_length(made) > column.type.length, f"{where}: longer than {column.type}"
    if column.type.is_text and (column.type.length is None or 4 * column.type.length > MAX_CELL_BYTES):
        yield F.octet_length(made) > MAX_CELL_BYTES, f"{where}: longer than {MAX_CELL_BYTES:,} bytes"


def _text_conditions(type_: DataType, where: str, value: Column, made: Column) -> Iterator[tuple[Column, str]]:
    """Texts that Spark's cast accepts although it would lose or change their value."""
    from pyspark.sql import functions as F

    no_value = f"{where}: not a value of {type_}"
    if type_.kind is Kind.DATE:
        yield ~value.rlike(_DATE), no_value
    elif type_.kind is Kind.TIMESTAMP:
        yield ~value.rlike(_MOMENT), no_value
        yield value.rlike(_TOO_FINE), f"{where}: finer than a microsecond"
    elif type_.kind in (Kind.FLOAT, Kind.DOUBLE):
        yield value.rlike(_FOREIGN_NUMBER), no_value
        infinite = made.cast("double").isin(float("inf"), float("-inf"))
        yield infinite & ~F.lower(value).contains("inf"), f"{where}: out of range of {type_}"


def _key_condition(plan: IngestPlan, made: Mapping[str, Column]) -> Iterator[tuple[Column, str]]:
    """Keys that are too long, which is possible only for keys with texts."""
    from pyspark.sql import functions as F

    texts = [column for column in plan.table.schema.key if column.type.is_text and column.name in made]
    fixed = sum(key_width(column.type) or len(END) for column in plan.table.schema.key)
    if texts and any(column.type.length is None or 4 * column.type.length > 1024 for column in texts):
        length = sum((F.octet_length(made[column.name]) for column in texts), start=F.lit(fixed))
        yield length > MAX_KEY_BYTES, f"key longer than {MAX_KEY_BYTES:,} bytes"
