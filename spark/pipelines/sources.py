"""Opens files as DataFrames for `ingest`: Parquet with its types, CSV and JSON as texts, which are cast row by row
later.

Every frame has, after its own columns, `FILE` (the file of a row) and, for CSV and JSON, `RAW`: the text of a row that
cannot be parsed (too many or too few fields, not JSON), NULL for the others. All files are scanned before any row is
read: a column that only some of them have belongs to the source, and is NULL in the rows of the others.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import pyarrow as pa

from ...backup.running import Handler
from ...errors import InterfaceError, OperationalError, did_you_mean
from ...executor.files.csv_text import Dialect
from ...model.lazy_dataclass import dataclass
from .jobs import reason, run_tasks
from .reading.csv_rows import csv_rows
from .reading.csv_scan import ScannedCsv, dialect_of, scan_csv
from .reading.footers import check_alike, read_footer
from .reading.inference import KINDS, infer
from .reading.json_rows import is_multi_line, json_rows, scan_json
from .reading.listing import Listing, SourceFile, format_of_name, list_files
from .reading.raw_files import Span

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

FILE: Final = "_nyala_file"
RAW: Final = "_nyala_raw"
FORMATS: Final = ("parquet", "csv", "json")
_TASK_BYTES: Final = 64 << 20
_TASK_FILES: Final = 64
_LOSING: Final = ("ignorecorruptfiles", "ignoremissingfiles", "mergeschema")
T = TypeVar("T")
Rows = Iterator[tuple[pa.RecordBatch, list[str]]]


@dataclass(frozen=True)
class Source:
    """Rows to ingest.

    Attributes
    ----------
    frame : DataFrame
        The source's columns, `FILE`, and `RAW` if the format has it.
    columns : tuple of str
        The source's own columns.
    types : StructType
        The types of these columns, if a table is created from them; for CSV and JSON, inferred from the values.
    """

    frame: DataFrame
    columns: tuple[str, ...]
    types: StructType

    @property
    def has_raw(self) -> bool:
        """True if a row may be one that cannot be parsed."""
        return RAW in self.frame.columns


def format_of(source: str, given: str | None = None) -> str:
    """The format of files: the given one, or by the suffix; for a directory, by the suffixes of its files.

    >>> format_of("in/*.csv.gz")
    'csv'
    """
    if given is not None:
        if given not in FORMATS:
            raise InterfaceError(f"there is no format {given}{did_you_mean(given, FORMATS)}")
        return given
    place = Path(source)
    names: Iterable[Path] = [place]
    if place.is_dir():
        names = sorted(path for path in place.rglob("*") if not _is_hidden(path.relative_to(place)))
    for name in names:
        format_ = format_of_name(name)
        if format_ is not None:
            return format_
    raise InterfaceError(f"{source}: the format is not clear from its name; give it: --format {', '.join(FORMATS)}")


def _is_hidden(path: Path) -> bool:
    return any(part.startswith((".", "_")) for part in path.parts)


def open_source(
    spark: SparkSession,
    source: str,
    format: str,
    options: Mapping[str, str],
    needs_types: bool = False,
    progress: Handler | None = None,
) -> Source:
    """The files of a path or pattern.

    With `needs_types`, a table is to be created from it, so types are inferred from the values of CSV and JSON.

    Raises
    ------
    OperationalError
        If there is nothing to read, or a file cannot be read.
    DataError
        If a file is damaged, is not in its encoding, or has a quote that is never closed; or if files have a column in
        common and differ in its type.
    InterfaceError
        If an option is not known, or would lose data.
    """
    from pyspark.errors import PySparkException

    try:
        listing = list_files(spark, source, format, options)
        if format == "parquet":
            return _parquet(spark, source, listing, options, progress)
        read = _csv if format == "csv" else _json
        return read(spark, source, listing, options, needs_types, progress)
    except PySparkException as error:
        raise OperationalError(f"cannot read {source}: {reason(error)}") from error


def of_frame(frame: DataFrame) -> Source:
    """A DataFrame of the caller; its rows have no file."""
    from pyspark.sql import functions as F

    return Source(frame.withColumn(FILE, F.lit(None).cast("string")), tuple(frame.columns), frame.schema)


# ---- Parquet ---------------------------------------------------------------------------------------------------------


def _parquet(
    spark: SparkSession, source: str, found: Listing, options: Mapping[str, str], progress: Handler | None
) -> Source:
    from pyspark.sql import functions as F

    for name, value in options.items():
        if name.lower() in _LOSING:
            raise InterfaceError(f"--option {name}={value}: rows or columns could be lost by it; leave it out")
    check_alike(_scanned(spark, found, read_footer, progress))
    frame = spark.read.options(**options).option("mergeSchema", "true").parquet(source)
    return Source(frame.select("*", F.col("_metadata.file_path").alias(FILE)), tuple(frame.columns), frame.schema)


# ---- CSV and JSON ----------------------------------------------------------------------------------------------------


def _csv(
    spark: SparkSession,
    source: str,
    found: Listing,
    options: Mapping[str, str],
    needs_types: bool,
    progress: Handler | None,
) -> Source:
    dialect = dialect_of(options, "\t" if ".tsv" in Path(source).suffixes else ",")
    scanned = _scanned(spark, found, partial(scan_csv, dialect=dialect), progress)
    columns = list(dict.fromkeys(name for file in scanned for name in file.columns))
    if not columns:
        raise OperationalError(f"{source} holds no columns")
    _check_headerless(scanned, dialect)
    spans = [(span, file.columns) for file in scanned for span in file.spans]
    kinds = dict.fromkeys(columns, KINDS)
    return _texts(spark, found, spans, kinds, partial(_csv_rows, dialect=dialect), needs_types)


def _csv_rows(span: Span, columns: Sequence[str], dialect: Dialect) -> Rows:
    return csv_rows(span, columns, dialect)


def _check_headerless(scanned: Sequence[ScannedCsv], dialect: Dialect) -> None:
    """Files without a header have their columns by position, so they must have the same number of columns."""
    if dialect.header:
        return
    filled = [file for file in scanned if file.columns]
    for file in filled:
        if len(file.columns) != len(filled[0].columns):
            names = [SourceFile(one.uri, 0).name for one in (filled[0], file)]
            raise InterfaceError(
                f"{names[0]} has {len(filled[0].columns)} fields in its first row, and {names[1]} has "
                f"{len(file.columns)}; without a header all files must have the same number"
            )


def _json(
    spark: SparkSession,
    source: str,
    found: Listing,
    options: Mapping[str, str],
    needs_types: bool,
    progress: Handler | None,
) -> Source:
    multi_line = is_multi_line(options)
    scanned = _scanned(spark, found, partial(scan_json, multi_line=multi_line, needs_kinds=needs_types), progress)
    kinds: dict[str, frozenset[str]] = {}
    for file in scanned:
        for name, some in file.columns.items():
            kinds[name] = kinds.get(name, frozenset()) | some
    if not kinds:
        raise OperationalError(f"{source} holds no columns")
    spans = [(span, tuple(kinds)) for file in scanned for span in file.spans]
    return _texts(spark, found, spans, kinds, partial(_json_rows, multi_line=multi_line), needs_types)


def _json_rows(span: Span, columns: Sequence[str], multi_line: bool) -> Rows:
    return json_rows(span, columns, multi_line)


def _scanned(spark: SparkSession, found: Listing, scan: Callable[[str], T], progress: Handler | None) -> list[T]:
    """The results of the first pass over each file."""
    groups = _grouped([file.uri for file in found.files], [file.length for file in found.files])
    return [
        one
        for some in run_tasks(spark, "looking at files", groups, partial(_scan_all, scan=scan), progress)
        for one in some
    ]


def _scan_all(uris: Sequence[str], scan: Callable[[str], T]) -> list[T]:
    return [scan(uri) for uri in uris]


def _grouped(items: Sequence[T], sizes: Iterable[int]) -> list[list[T]]:
    """Consecutive items for one task each: as many as `_TASK_BYTES` and `_TASK_FILES` allow."""
    groups: list[list[T]] = []
    filled = 0
    for item, size in zip(items, sizes, strict=True):
        if not groups or filled + size > _TASK_BYTES or len(groups[-1]) == _TASK_FILES:
            groups.append([])
            filled = 0
        groups[-1].append(item)
        filled += size
    return groups


def _texts(
    spark: SparkSession,
    found: Listing,
    spans: Sequence[tuple[Span, tuple[str, ...]]],
    kinds: Mapping[str, Collection[str]],
    read: Callable[[Span, Sequence[str]], Rows],
    needs_types: bool,
) -> Source:
    """The source whose rows `read` makes from spans; the files' columns are followed by those of their directories."""
    from pyspark.sql.types import StringType, StructField, StructType

    columns = list(kinds)
    for name in found.partition_columns:
        if name.lower() in {column.lower() for column in columns}:
            raise InterfaceError(f"column {name} is in the files and in the names of their directories")
    names = [*columns, *found.partition_columns]
    schema = StructType([StructField(name, StringType()) for name in [*names, FILE, RAW]])
    frame = _frame(spark, found, spans, columns, read, schema)
    types = infer(frame, {**kinds, **dict.fromkeys(found.partition_columns, KINDS)}) if needs_types else schema
    return Source(frame, tuple(names), StructType([types[name] for name in names]))


def _frame(
    spark: SparkSession,
    found: Listing,
    spans: Sequence[tuple[Span, tuple[str, ...]]],
    columns: Sequence[str],
    read: Callable[[Span, Sequence[str]], Rows],
    schema: StructType,
) -> DataFrame:
    partitions = {file.uri: file.partition for file in found.files}
    lengths = {file.uri: file.length for file in found.files}
    sizes = [lengths[s.uri] if s.stop is None else min(s.stop - s.start, _TASK_BYTES) for s, _ in spans]
    groups = _grouped(spans, sizes)
    if not groups:
        return spark.createDataFrame([], schema)
    arrow = pa.schema([pa.field(name, pa.string()) for name in schema.names])

    def each(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                for span, own in groups[number]:
                    for rows, bad in read(span, own):
                        yield _row_batch(rows, bad, columns, (*partitions[span.uri], span.uri), arrow)

    return spark.range(0, len(groups), 1, len(groups)).mapInArrow(each, schema)


def _row_batch(
    rows: pa.RecordBatch, bad: Sequence[str], columns: Sequence[str], constants: Sequence[str | None], schema: pa.Schema
) -> pa.RecordBatch:
    """Rows of a file and malformed ones, in the columns of all files, with the values that are the same in each row."""
    size = rows.num_rows + len(bad)
    nothing = pa.nulls(len(bad), pa.string())
    there = set(rows.schema.names)
    arrays: list[Any] = [
        pa.concat_arrays([rows.column(name), nothing]) if name in there else pa.nulls(size, pa.string())
        for name in columns
    ]
    arrays += [pa.repeat(pa.scalar(value, pa.string()), size) for value in constants]
    arrays.append(pa.concat_arrays([pa.nulls(rows.num_rows, pa.string()), pa.array(bad, pa.string())]))
    return pa.RecordBatch.from_arrays(arrays, schema=schema)
