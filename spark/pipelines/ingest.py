"""Ingests files into a table.

1. The source's columns are matched with the table's (`ingest_plan`), or the table is created with them.
2. Bad rows: with a file for them, they are first counted by reason, written to it and left out. Without one, all rows
   must be good: they are written directly, the first bad one fails the job, and the bad rows are then counted.
3. The rows are sorted in their tablets' order if that pays: each Spark task then writes to one tablet, with ascending
   keys.
4. The data source writes them: staged by the tasks, published once (`spark.writing`). So after a failure the table has
   all rows or none, and a job with its own key (`job`) is done once.
"""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from ...backup.durable_files import write_durably
from ...backup.running import Handler
from ...driver.connection import connect
from ...driver.stores.served_directory import reachable
from ...errors import DataError, Error, InterfaceError
from ...model.lazy_dataclass import dataclass
from .. import workers
from ..session import check_classic
from ..source.naming import written_table
from ..writing.jobs import JobRecord, Jobs, State, check_job
from ..writing.operations import Operation
from .ingest_plan import DUPLICATE, NUMBER, REASON, IngestPlan, NewTable, create_text, plan_of, quoted, tablet_of
from .jobs import own_errors, watched
from .key_order import is_in_key_order
from .reading.listing import path_of
from .row_checks import cast_rows
from .sources import FILE, RAW, Source, format_of, of_frame, open_source

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

MAX_REJECTS: Final = 10_000
_MARK: Final = "nyala finds a bad row: "
_TABLET: Final = "_nyala_tablet"
_EXAMPLES: Final = 8
_EXAMPLE_CHARACTERS: Final = 200
_GIVE_REJECTS: Final = "name a file for them with --rejects, to continue without them"


@dataclass(frozen=True, slots=True)
class IngestResult:
    """The result of an ingest.

    Attributes
    ----------
    table, job : str
    rows : int
        Good rows of the source.
    written : int
        The number of them that changed the table.
    rejected : mapping of str to int
        Bad rows by reason.
    rejects : str, optional
        The file of the bad rows.
    done_before : bool
        True if an earlier run of the job had written its rows; this one did not read the source.
    seconds : float
    """

    table: str
    job: str
    rows: int
    written: int
    rejected: Mapping[str, int] = field(default_factory=dict)
    rejects: str | None = None
    done_before: bool = False
    seconds: float = 0.0

    def to_dict(self) -> dict[str, Any]:
        """Plain data, for JSON."""
        return asdict(self)

    def describe(self) -> list[str]:
        """Lines for display."""
        lines = [f"{count:,} rows rejected: {why}" for why, count in self.rejected.items()]
        lines += [f"they are in {self.rejects}"] if self.rejected and self.rejects else []
        if self.done_before:
            return [f"job {self.job} was already done: {self.rows:,} rows, {self.written:,} written into {self.table}"]
        rate = self.rows / self.seconds if self.seconds else 0
        took = f"{self.seconds:.1f} s, {rate:,.0f} rows/s"
        return [*lines, f"{self.rows:,} rows, {self.written:,} written into {self.table}, {took}"]


def ingest(
    spark: SparkSession,
    source: str | Path | DataFrame,
    target: str | Path,
    table: str,
    *,
    format: str | None = None,
    options: Mapping[str, str] | None = None,
    mapping: Mapping[str, str] | None = None,
    skip: Collection[str] = (),
    create: NewTable | None = None,
    operation: str = "insert",
    job: str | None = None,
    rejects: str | Path | None = None,
    max_rejects: int | None = None,
    sort: bool | None = None,
    progress: Handler | None = None,
) -> IngestResult:
    """Writes the rows of files, or of a DataFrame, into a table.

    Parameters
    ----------
    source : str, Path or DataFrame
        A file, a directory, a pattern; all workers reach it under this name.
    target : str or Path
        The store: the URL of a cluster or a directory.
    format : {"parquet", "csv", "json"}, optional
        By default from the suffix. CSV has a header unless `options` has header=false; JSON has an object per line.
    options : mapping of str to str, optional
        Options of Spark's reader.
    mapping : mapping of str to str, optional
        For columns of the table: a column of the source, or an expression of Spark SQL, in which time is UTC.
        Columns of the same name are matched, whatever their case.
    skip : collection of str
        Columns of the source that are left out.
    create : NewTable, optional
        Creates the table with the source's columns.
    operation : str
        The operation for each row, as the option `operation` of the data source.
    job : str, optional
        A key for this work: once it has been done, it is not repeated.
    rejects : str or Path, optional
        A file for bad rows: Parquet by its suffix, else a JSON object per line. Without it, a bad row is an error.
    max_rejects : int, optional
        Maximum number of bad rows; more are an error (10,000).
    sort : bool, optional
        Sorts the rows in their tablets' order first; None: unless the source has it already, as far as is known.
    progress : callable, optional
        Called with `jobs.Progress`.

    Raises
    ------
    DataError
        If rows are bad; nothing has been written.
    AlreadyPresent, NotFound
        If the operation fails for a row in the table's current state; nothing has been written.
    UnknownTable, UnknownColumn, NotNullViolation, InterfaceError, NotSupportedError
        If source and table do not match.
    """
    check_classic(spark, "ingest")
    started = time.monotonic()
    wanted = Operation.named(operation)
    limit = MAX_REJECTS if max_rejects is None else max_rejects
    if limit < 0:
        raise InterfaceError(f"--max-rejects {limit}: at least 0")
    if rejects is None and max_rejects:
        raise InterfaceError("--max-rejects needs a file for the bad rows: --rejects")
    if job is not None:
        check_job(job)
    url = reachable(target, create=create is not None)
    with connect(url) as connection, _strict(spark), own_errors():
        record = None if job is None else Jobs(connection).find(job)
        if record is not None and record.state is State.PUBLISHED and record.target == table:
            return _result(record, done_before=True)
        opened = _opened(spark, source, format, options or {}, create is not None, progress)
        if create is not None:
            connection.execute(create_text(written_table(connection, table), opened, create, mapping or {}, skip))
        try:
            plan = plan_of(opened, connection.store.table(table), wanted, mapping or {}, skip)
            work = _Ingest(spark, opened, plan, progress)
            good, rejected = work.checked(rejects, limit, wanted)
            if sort is None:
                sort = not (isinstance(source, str | Path) and is_in_key_order(str(source), format, plan))
            if sort:
                good = in_tablet_order(good, plan)
            key = job or f"ingest {uuid.uuid4().hex}"
            reached, client = workers.task_access(url, {}, connection.store)
            work.write(good, reached, wanted, key, client.get(workers.TOKEN))
        except BaseException:
            if create is not None:
                with suppress(Error):
                    connection.execute(f"DROP TABLE IF EXISTS {written_table(connection, table)}")
            raise
        record = Jobs(connection).find(key)
        assert record is not None, "the writer stores its record"
        if job is None:
            Jobs(connection).forget([record])
    told = None if rejects is None else str(rejects)
    return _result(record, rejected=rejected, rejects=told, seconds=time.monotonic() - started)


def _result(record: JobRecord, **more: Any) -> IngestResult:
    return IngestResult(record.target, record.job, record.rows, record.published, **more)


def _opened(
    spark: SparkSession,
    source: str | Path | DataFrame,
    format: str | None,
    options: Mapping[str, str],
    types: bool,
    progress: Handler | None,
) -> Source:
    if isinstance(source, str | Path):
        return open_source(spark, str(source), format_of(str(source), format), options, types, progress)
    return of_frame(source)


_SETTINGS: Final = {
    # Texts without a zone are in UTC, as in nyala.
    "spark.sql.session.timeZone": "UTC",
    # Overflows and failed casts in a mapping are errors, not NULL.
    "spark.sql.ansi.enabled": "true",
    "spark.sql.legacy.timeParserPolicy": "CORRECTED",
    # `code=001` is a text; the table determines its type.
    "spark.sql.sources.partitionColumnTypeInference.enabled": "false",
    "spark.sql.files.ignoreCorruptFiles": "false",
    "spark.sql.files.ignoreMissingFiles": "false",
    "spark.sql.legacy.parquet.nanosAsLong": "false",
    "spark.sql.mapKeyDedupPolicy": "EXCEPTION",
    # A fallible expression is evaluated where its failure is caught, and not in a shared step before.
    "spark.sql.subexpressionElimination.enabled": "false",
}
"""Settings of the session with which a reader or an expression could lose data."""


@contextmanager
def _strict(spark: SparkSession) -> Iterator[None]:
    """Applies `_SETTINGS` to the session, and restores its own afterwards."""
    before = {name: spark.conf.get(name, None) for name in _SETTINGS}
    for name, value in _SETTINGS.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name, old in before.items():
            if old is None:
                spark.conf.unset(name)
            else:
                spark.conf.set(name, old)


def in_tablet_order(rows: DataFrame, plan: IngestPlan) -> DataFrame:
    """The same rows with one partition for each tablet, sorted by key."""
    from pyspark.sql import functions as F

    key = [_column(name) for name in plan.key]
    tablets = plan.table.partitions.tablet_count
    if tablets < 2:
        return rows.sortWithinPartitions(*key)
    names = rows.columns
    placed = rows.withColumn(_TABLET, tablet_of(plan, key))
    return placed.repartitionById(tablets, F.col(_TABLET)).sortWithinPartitions(*key).select(*map(_column, names))


# ---- good and bad rows -----------------------------------------------------------------------------------------------


class _Ingest:
    """One ingest: its source, its plan, its Spark jobs."""

    def __init__(self, spark: SparkSession, source: Source, plan: IngestPlan, progress: Handler | None):
        self._spark = spark
        self._source = source
        self._plan = plan
        self._progress = progress
        self._names = [column.name for column in plan.columns]

    def checked(self, rejects: str | Path | None, limit: int, operation: Operation) -> tuple[DataFrame, dict[str, int]]:
        """The good rows, in the table's columns, and the number of bad ones by reason; the bad ones have been
        written to their file."""
        from pyspark.sql import functions as F

        if rejects is None and operation is Operation.INSERT:
            return self._certain(cast_rows(self._source, self._plan)), {}
        rows = self._judged()
        counts = self._counts(rows)
        if not counts:
            return rows.select(*map(_column, self._names)), {}
        if rejects is None:
            raise self._too_bad(rows, counts, _GIVE_REJECTS)
        place = Path(rejects).expanduser().absolute()
        self._write_rejects(rows, place, limit)
        if sum(counts.values()) > limit:
            raise self._too_bad(
                rows, counts, f"more than {limit:,} are too many (--max-rejects); the first are in {place}"
            )
        return rows.where(F.col(REASON).isNull()).select(*map(_column, self._names)), counts

    def _certain(self, rows: DataFrame) -> DataFrame:
        """Rows that must all be good: a bad one raises an error in the task that reads it."""
        from pyspark.sql import functions as F

        first, *others = self._names
        type_ = rows.schema[first].dataType
        error = F.raise_error(F.concat(F.lit(_MARK), F.col(REASON))).cast(type_)
        certain = F.when(F.col(REASON).isNull(), _column(first)).otherwise(error)
        return rows.select(certain.alias(first), *map(_column, others))

    def _packed(self) -> DataFrame:
        """All rows, bad ones with their reason, and the columns for the file of bad rows."""
        from pyspark.sql import functions as F

        kept = [FILE, *self._source.columns, *([RAW] if self._source.has_raw else [])]
        packed = self._source.frame.select(*map(_column, kept), F.struct(*map(_column, kept)).alias(_PACKED))
        return cast_rows(Source(packed, self._source.columns, self._source.types), self._plan, [_PACKED])

    def _judged(self) -> DataFrame:
        """All rows, with rows whose key occurred before marked as bad too."""
        from pyspark.sql import functions as F

        rows = self._packed()
        numbered = rows.withColumn(NUMBER, F.monotonically_increasing_id())
        key = self._plan.key
        if not key or self._plan.table.schema.auto_increment is not None:
            return numbered
        twice = (
            numbered.where(F.col(REASON).isNull())
            .groupBy(*map(_column, key))
            .agg(F.min(NUMBER).alias(_FIRST), F.count("*").alias(_COUNT))
            .where(F.col(_COUNT) > 1)
            .select(*map(_column, key), _FIRST)
            .localCheckpoint(eager=False)
        )
        with watched(self._spark, "looking for repeated keys", self._progress):
            if twice.isEmpty():
                return numbered
        later = F.col(_FIRST).isNotNull() & (F.col(_FIRST) != F.col(NUMBER))
        marked = F.coalesce(F.col(REASON), F.when(later, F.lit(DUPLICATE)))
        return numbered.join(twice, key, "left").withColumn(REASON, marked).drop(_FIRST)

    def _counts(self, rows: DataFrame) -> dict[str, int]:
        from pyspark.sql import functions as F

        with watched(self._spark, "checking rows", self._progress):
            counted = rows.where(F.col(REASON).isNotNull()).groupBy(REASON).count().collect()
        return {row[REASON]: row["count"] for row in sorted(counted, key=lambda row: (-row["count"], row[REASON]))}

    def _too_bad(self, rows: DataFrame, counts: Mapping[str, int], what: str) -> DataError:
        reasons = [f"{count:,}: {why}" for why, count in list(counts.items())[:_EXAMPLES]]
        more = [f"and {len(counts) - _EXAMPLES} more reasons"] if len(counts) > _EXAMPLES else []
        total = sum(counts.values())
        return DataError(
            f"{total:,} {'row' if total == 1 else 'rows'} of the source cannot be written into table "
            f"{self._plan.table.name}, and nothing was ({'; '.join([*reasons, *more])}){self._example(rows)}; {what}"
        )

    def _example(self, rows: DataFrame) -> str:
        """The part of the message about one of the bad rows."""
        example = self._bad(rows).limit(1).collect()
        if not example:
            return ""
        file = f"{path_of(example[0]['file'])}, " if example[0]["file"] else ""
        row = example[0]["row"]
        shown = row if len(row) <= _EXAMPLE_CHARACTERS else f"{row[:_EXAMPLE_CHARACTERS]}..."
        return f"; one of them: {file}{example[0]['reason']}, {shown}"

    def _bad(self, rows: DataFrame) -> DataFrame:
        """The bad rows among some rows: their file, the reason, the row as text."""
        from pyspark.sql import functions as F

        inner = [F.col(f"{_PACKED}.{quoted(name)}").alias(name) for name in self._source.columns]
        text = F.to_json(F.struct(*inner), {"ignoreNullFields": "false"})
        if self._source.has_raw:
            text = F.coalesce(F.col(f"{_PACKED}.{RAW}"), text)
        return rows.where(F.col(REASON).isNotNull()).select(
            F.col(f"{_PACKED}.{FILE}").alias("file"), F.col(REASON).alias("reason"), text.alias("row")
        )

    def _write_rejects(self, rows: DataFrame, place: Path, limit: int) -> None:
        with watched(self._spark, "writing bad rows", self._progress):
            bad_rows = self._bad(rows).limit(max(limit, 1)).toArrow()
        write_rejects(bad_rows, place)

    # ---- writing -------------------------------------------------------------------------------------------------

    def write(self, rows: DataFrame, url: str, operation: Operation, key: str, token: bytes | None) -> None:
        """Writes the rows through the data source, as the user of the token, if there is one."""
        writer = rows.write.format("nyala").mode("append").option("url", url).option("dbtable", self._plan.table.name)
        writer = writer.option("operation", operation.value).option("idempotencyKey", key)
        if token is not None:
            writer = writer.option("token", token.hex())
        try:
            with watched(self._spark, "writing rows", self._progress):
                writer.save()
        except Exception as error:
            if _MARK not in str(error):
                raise
            packed = self._packed()
            raise self._too_bad(packed, self._counts(packed), _GIVE_REJECTS) from error


def write_rejects(found: pa.Table, place: Path) -> None:
    """Writes bad rows to a file: Parquet by its suffix, else a JSON object per line.

    The columns are file, reason and row. The last is JSON of the source's values or, for a row that could not be
    parsed, its text.
    """
    place.parent.mkdir(parents=True, exist_ok=True)
    if place.suffix == ".parquet":
        sink = pa.BufferOutputStream()
        pq.write_table(found, sink)
        write_durably(place, sink.getvalue().to_pybytes())
        return
    lines = [json.dumps({**row, "row": _values(row["row"])}, ensure_ascii=False) for row in found.to_pylist()]
    write_durably(place, "".join(f"{line}\n" for line in lines).encode())


def _values(text: str | None) -> Any:
    try:
        value = json.loads(text or "null")
    except ValueError:
        return text
    return value if isinstance(value, dict) else text


def _column(name: str) -> Any:
    from pyspark.sql import functions as F

    return F.col(quoted(name))


_PACKED: Final = "_nyala_source"
_FIRST: Final = "_nyala_first"
_COUNT: Final = "_nyala_count"
