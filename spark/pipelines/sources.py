"""Files as DataFrames, for `ingest`: Parquet with its types, CSV and JSON as texts, which are cast later, row by row.

Every frame has, behind its own columns, `FILE` (where a row comes from) and, for CSV and JSON, `RAW` (the text of a row
that cannot be taken apart: too many or too few fields, no JSON; NULL for the others).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ...errors import InterfaceError, OperationalError, did_you_mean
from .jobs import reason

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

FILE: Final = "_nyala_file"
RAW: Final = "_nyala_raw"
FORMATS: Final = ("parquet", "csv", "json")
_SUFFIXES: Final = {
    ".parquet": "parquet", ".pq": "parquet", ".csv": "csv", ".tsv": "csv", ".json": "json", ".jsonl": "json",
    ".ndjson": "json",
}  # fmt: skip
_NULL: Final = "\x01nyala NULL\x01"
_COMPRESSED: Final = (".gz", ".bz2", ".zst", ".lz4", ".snappy")


@dataclass(frozen=True)
class Source:
    """Rows to take in.

    Attributes
    ----------
    frame : DataFrame
        The source's columns, `FILE`, and `RAW` where the format has it.
    columns : tuple of str
        The source's own.
    types : StructType
        What these columns are, where a table is made of them: of CSV and JSON as far as the values tell.
    """

    frame: DataFrame
    columns: tuple[str, ...]
    types: StructType

    @property
    def has_raw(self) -> bool:
        """Can a row be one that cannot be taken apart?"""
        return RAW in self.frame.columns


def format_of(source: str, given: str | None = None) -> str:
    """The format of files: the one given, or as the name ends; of a directory, as the names of its files end.

    >>> format_of("in/*.csv.gz")
    'csv'
    """
    if given is not None:
        if given not in FORMATS:
            raise InterfaceError(f"there is no format {given}{did_you_mean(given, FORMATS)}")
        return given
    place = Path(source)
    names = [place]
    if place.is_dir():
        names = sorted(path for path in place.iterdir() if not path.name.startswith((".", "_")))
    for name in names:
        suffixes = [suffix.lower() for suffix in name.suffixes if suffix.lower() not in _COMPRESSED]
        if suffixes and suffixes[-1] in _SUFFIXES:
            return _SUFFIXES[suffixes[-1]]
    raise InterfaceError(f"{source}: its name does not tell the format; give it: --format {', '.join(FORMATS)}")


def open_source(
    spark: SparkSession, source: str, format: str, options: Mapping[str, str], needs_types: bool = False
) -> Source:
    """The files of a path or pattern.

    `needs_types`: a table is to be made of it, so the values of CSV and JSON are looked at for what they are. Raises
    `OperationalError` where there is nothing to read.
    """
    from pyspark.errors import PySparkException

    try:
        if format == "parquet":
            frame = spark.read.options(**options).parquet(source)
            return Source(_with_file(frame), tuple(frame.columns), frame.schema)
        return _texts(spark, source, format, options, needs_types)
    except PySparkException as error:
        raise OperationalError(f"cannot read {source}: {reason(error)}") from error


def _texts(spark: SparkSession, source: str, format: str, options: Mapping[str, str], needs_types: bool) -> Source:
    from pyspark.sql.types import StringType, StructField, StructType

    if format == "csv":
        # A NULL of its own, so that "" stays an empty text and only an empty field is NULL.
        own = {"header": "true", "sep": "\t" if source.endswith(".tsv") else ",", "escape": '"', "nullValue": _NULL}
        asked = {"inferSchema": str(needs_types).lower()}
    else:
        own, asked = {}, {"primitivesAsString": str(not needs_types).lower()}
    given = {**own, **options}
    first = spark.read.options(**{"columnNameOfCorruptRecord": RAW, **asked, **given}).format(format).load(source)
    types = StructType([field for field in first.schema.fields if field.name != RAW])
    if not types.fields:
        raise OperationalError(f"{source} holds no columns")
    # Read once more as texts: a value that is not what it should be is then one bad value, and not a bad row.
    schema = StructType([*(StructField(name, StringType()) for name in types.names), StructField(RAW, StringType())])
    whole = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": RAW, "columnPruning": "false"}
    checked = {"enforceSchema": "false"} if given.get("header") == "true" else {}
    frame = spark.read.schema(schema).options(**{**whole, **checked, **given}).format(format).load(source)
    return Source(_with_file(frame), tuple(types.names), types)


def of_frame(frame: DataFrame) -> Source:
    """A DataFrame that somebody has made; its rows come from no file."""
    from pyspark.sql import functions as F

    return Source(frame.withColumn(FILE, F.lit(None).cast("string")), tuple(frame.columns), frame.schema)


def _with_file(frame: DataFrame) -> DataFrame:
    from pyspark.sql import functions as F

    return frame.select("*", F.col("_metadata.file_path").alias(FILE))
