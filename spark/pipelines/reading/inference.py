"""Infers types of text columns, for tables created from CSV or JSON: a type is chosen only if it preserves the texts.

007, +49 30 1234        STRING      leading zeros and signs are part of them
12, -5                  INT, BIGINT, DECIMAL(38,0)
1.5, 1e-3               DOUBLE      if it has all of their digits, else DECIMAL
2020-01-01              DATE
2020-01-01T10:00:00Z    TIMESTAMP   up to microseconds
"", and nothing at all  STRING
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import DataType, StructType

_WHOLE: Final = r"^(0|-?[1-9][0-9]*)$"
_NUMBER: Final = r"^-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]+)?$"
_STRANGE: Final = r"^(?i)(nan|-?inf|-?infinity)$"
_DATE: Final = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}$"
_TIME: Final = (
    r"^[0-9]{4}-[0-9]{2}-[0-9]{2}([T ][0-9]{2}:[0-9]{2}(:[0-9]{2}(\.[0-9]{1,6})?)?(Z|[-+][0-9]{2}:?[0-9]{2})?)?$"
)
_DOUBLE_DIGITS: Final = 15
"""Number of digits up to which a DOUBLE distinguishes all decimal numbers."""
_MOST_DIGITS: Final = 38
KINDS: Final = frozenset(("integer", "number", "boolean", "text"))
"""The possible kinds of CSV values."""


def infer(frame: DataFrame, kinds: Mapping[str, Collection[str]]) -> StructType:
    """Infers the types of a frame's text columns.

    Parameters
    ----------
    frame : DataFrame
    kinds : mapping of str to collection of str
        The columns, with the possible kinds of their values: `json_rows.ScannedJson.columns`, or `KINDS` for CSV.
    """
    from pyspark.sql import functions as F
    from pyspark.sql.types import StructField, StructType

    names = list(kinds)
    measures = [F.struct(*_measures(_column(name))).alias(f"_{place}") for place, name in enumerate(names)]
    measured = frame.agg(*measures).collect()[0] if names else ()
    return StructType([StructField(n, _type(m.asDict(), kinds[n])) for n, m in zip(names, measured, strict=True)])


def _column(name: str) -> Column:
    from pyspark.sql import functions as F

    return F.col("`" + name.replace("`", "``") + "`")


def _measures(text: Column) -> Sequence[Column]:
    from pyspark.sql import functions as F

    number = text.rlike(_NUMBER)
    plain = F.regexp_replace(text, "[eE].*$", "")
    digits = F.length(F.regexp_replace(F.regexp_replace(plain, r"[-.]", ""), "^0+", ""))
    exact = text.try_cast("decimal(38,18)")
    same = F.coalesce(exact == text.try_cast("double").cast("string").try_cast("decimal(38,18)"), F.lit(False))
    whole = F.length(F.regexp_extract(plain, "^-?([0-9]*)", 1))
    scale = F.length(F.regexp_extract(plain, r"\.([0-9]*)$", 1))
    counts = {
        "there": text.isNotNull(),
        "int": text.rlike(_WHOLE) & text.try_cast("int").isNotNull(),
        "bigint": text.rlike(_WHOLE) & text.try_cast("bigint").isNotNull(),
        "integer": text.rlike(_WHOLE),
        "number": number,
        "strange": text.rlike(_STRANGE),
        "lossy": number & (digits > _DOUBLE_DIGITS) & ~same,
        "exponent": number & text.rlike("[eE]"),
        "boolean": F.lower(text).isin("true", "false"),
        "date": text.rlike(_DATE) & text.try_cast("date").isNotNull(),
        "time": text.rlike(_TIME) & text.try_cast("timestamp").isNotNull(),
    }
    return [
        *(F.count_if(condition).alias(name) for name, condition in counts.items()),
        F.coalesce(F.max(F.when(number, whole)), F.lit(0)).alias("whole"),
        F.coalesce(F.max(F.when(number, scale)), F.lit(0)).alias("scale"),
    ]


def _type(found: Mapping[str, Any], kinds: Collection[str]) -> DataType:
    from pyspark.sql import types as T

    there = found["there"]
    if not there or (set(kinds) != KINDS and len({"number" if k == "integer" else k for k in kinds}) != 1):
        return T.StringType()
    if "boolean" in kinds and found["boolean"] == there:
        return T.BooleanType()
    if not {"integer", "number"}.isdisjoint(kinds):
        number = _number(found)
        if number is not None:
            return number
    if kinds == KINDS and found["time"] == there:
        return T.DateType() if found["date"] == there else T.TimestampType()
    return T.StringType()


def _number(found: Mapping[str, Any]) -> DataType | None:
    from pyspark.sql import types as T

    there = found["there"]
    if found["int"] == there:
        return T.IntegerType()
    if found["bigint"] == there:
        return T.LongType()
    if not found["number"] or found["number"] + found["strange"] != there:
        return None
    if found["integer"] < there and not found["lossy"]:
        return T.DoubleType()
    digits = found["whole"] + found["scale"]
    if found["exponent"] or found["strange"] or digits > _MOST_DIGITS:
        return None
    return T.DecimalType(_MOST_DIGITS if found["scale"] == 0 else digits, found["scale"])
