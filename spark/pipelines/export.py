"""Exports a table to files: Parquet, CSV or JSON lines, one snapshot, one file or more for each tablet.

    DEST/
      part-00000-3f2a91bc.parquet
      part-00001-77d0e1aa.parquet
      _SUCCESS                       written last: JSON with the files, their rows, bytes and SHA-256

Spark and other readers of such directories skip names that begin with an underscore. Workers write files under unique
names, so a task that runs twice leaves an extra file, which is removed at the end: only the files in `_SUCCESS` count.
"""

from __future__ import annotations

import json
import os
import shutil
import time
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import asdict, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq

from ...backup.durable_files import digest, sync_directory, write_durably
from ...backup.running import Handler
from ...driver.stores.served_directory import reachable
from ...driver.tables.timestamps import Moment, hybrid_time
from ...errors import InterfaceError, did_you_mean
from ...model.clock import format_timestamp
from ...model.disk_errors import disk_error
from ...model.lazy_dataclass import dataclass
from ...model.store import Timestamp
from ...model.types import DataType, Kind
from .. import workers
from ..session import check_classic
from ..source import partitions, relation, scanning
from ..source.options import SourceOptions, Use
from ..source.partitions import Part
from .jobs import run_tasks
from .json_lines import as_texts, json_lines
from .sources import FORMATS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MANIFEST: Final = "_SUCCESS"
BATCH_ROWS: Final = 1 << 16
FILE_BYTES: Final = 512 << 20
"""Approximate size of a file on nyala's disk: larger tablets are split into several."""


@dataclass(frozen=True, slots=True)
class ExportedFile:
    """A file of an export."""

    path: str
    rows: int
    bytes: int
    sha256: str


@dataclass(frozen=True, slots=True)
class ExportResult:
    """The result of an export: the snapshot in hybrid time, the files, the duration in seconds."""

    table: str
    format: str
    snapshot: int
    files: tuple[ExportedFile, ...]
    seconds: float = 0.0

    @property
    def rows(self) -> int:
        return sum(file.rows for file in self.files)

    @property
    def bytes(self) -> int:
        return sum(file.bytes for file in self.files)

    def to_dict(self) -> dict[str, Any]:
        """Plain data, for JSON."""
        return {
            **asdict(self),
            "snapshot_time": format_timestamp(Timestamp(self.snapshot)),
            "rows": self.rows,
            "bytes": self.bytes,
        }


@dataclass(frozen=True, slots=True)
class ExportTask:
    """Writes one part of a table to a file."""

    url: str
    part: Part
    names: tuple[str, ...]
    types: tuple[DataType, ...]
    folder: str
    number: int
    format: str
    client: dict[str, Any] = field(default_factory=dict, repr=False)


def export(
    spark: SparkSession,
    target: str | Path,
    table: str,
    destination: str | Path,
    *,
    format: str | None = None,
    columns: Sequence[str] | None = None,
    where: str | None = None,
    as_of: Moment | None = None,
    overwrite: bool = False,
    progress: Handler | None = None,
) -> ExportResult:
    """Writes a table, or some of its columns and rows, into a directory of files.

    Parameters
    ----------
    target : str or Path
        The store: the URL of a cluster or a directory.
    table : str
        A table or a view.
    destination : str or Path
        A directory that all workers reach under this name; created if it does not exist.
    format : {"parquet", "csv", "json"}, optional
        By default from the suffix of the directory's name, else Parquet. CSV has a header; NULL is an empty field, an
        empty text "". Bytes are hexadecimal digits in CSV and JSON.
    columns : sequence of str, optional
        The columns to export, in this order.
    where : str, optional
        Exports the rows for which this condition in nyala's SQL is true.
    as_of : datetime, str or int, optional
        The snapshot timestamp; by default the current time.
    overwrite : bool
        Replaces the files of an earlier export.

    Raises
    ------
    InterfaceError
        If the directory is not empty: an earlier export without `overwrite`, or anything else in any case.
    UnknownTable, UnknownColumn, StatementError, HistoryGone
        If the table cannot be read this way.
    """
    check_classic(spark, "export")
    started = time.monotonic()
    place = Path(destination).expanduser().absolute()
    chosen = _format(place, format)
    url = reachable(target)
    connection = workers.connection(url)
    url, client = workers.task_access(url, {}, connection.store)
    options = {"dbtable": table, "columns": None if columns is None else tuple(columns), "where": where}
    given = SourceOptions(
        Use.READ, {"url": url, **{name: value for name, value in options.items() if value is not None}}
    )
    planned = relation.plan_relation(connection, given)
    now = connection.store.now()
    snapshot = now if as_of is None else hybrid_time(as_of, now)
    parts = partitions.make_parts(connection, planned, snapshot, size=FILE_BYTES)
    before = _make_room(place, overwrite)
    names, types = tuple(name for name, _, _ in planned.columns), tuple(type_ for _, type_, _ in planned.columns)
    folder = place / f"_writing-{uuid.uuid4().hex[:8]}"
    folder.mkdir()
    try:
        tasks = [ExportTask(url, part, names, types, str(folder), n, chosen, client) for n, part in enumerate(parts)]
        written = run_tasks(spark, "writing files", tasks, write_part, progress, _rows)
        files = tuple(sorted((file for file in written if file is not None), key=lambda file: file.path))
        if not files:
            # An empty table is one empty file, which has the columns.
            files = (_written(tasks_of_nothing(url, names, types, folder, chosen), iter(())),)
        result = ExportResult(table, chosen, snapshot, files, time.monotonic() - started)
        _publish(place, folder, before, result)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return result


def tasks_of_nothing(
    url: str, names: tuple[str, ...], types: tuple[DataType, ...], folder: Path, format: str
) -> ExportTask:
    """The task of a table without rows."""
    return ExportTask(url, partitions.TokensPart(()), names, types, str(folder), 0, format)


def _format(place: Path, given: str | None) -> str:
    name = given or place.suffix.removeprefix(".").lower() or FORMATS[0]
    if name in FORMATS:
        return name
    if given is not None:
        raise InterfaceError(f"there is no format {given}{did_you_mean(given, FORMATS)}")
    return FORMATS[0]


def _rows(file: ExportedFile | None) -> int:
    return 0 if file is None else file.rows


# ---- the directory ---------------------------------------------------------------------------------------------------


def _make_room(place: Path, overwrite: bool) -> list[Path]:
    """The files of an earlier export, which are removed when the new ones are complete."""
    try:
        place.mkdir(parents=True, exist_ok=True)
        there = {path.name for path in place.iterdir() if not path.name.startswith("_writing-")}
    except OSError as error:
        raise disk_error(f"cannot write into {place}", error) from error
    if not there:
        return []
    if MANIFEST not in there:
        raise InterfaceError(f"{place} holds files other than an export; give an empty or a new directory")
    if not overwrite:
        raise InterfaceError(f"{place} holds an export already; give another directory, or --overwrite")
    try:
        earlier = [file["path"] for file in json.loads((place / MANIFEST).read_text())["files"]]
    except (ValueError, KeyError, TypeError) as error:
        raise InterfaceError(f"{place / MANIFEST} was not written by nyala; give another directory") from error
    strangers = sorted(there - {MANIFEST, *earlier})
    if strangers:
        raise InterfaceError(f"{place} holds {strangers[0]}, which is not part of an export; give another directory")
    return [place / name for name in earlier]


def _publish(place: Path, folder: Path, before: Sequence[Path], result: ExportResult) -> None:
    """Renames the files to their final names, then writes the list of them. While files are replaced there is no
    list."""
    (place / MANIFEST).unlink(missing_ok=True)
    for path in before:
        path.unlink(missing_ok=True)
    for file in result.files:
        (folder / file.path).replace(place / file.path)
    sync_directory(place)
    write_durably(place / MANIFEST, json.dumps(result.to_dict(), indent=1).encode() + b"\n")


# ---- tasks -----------------------------------------------------------------------------------------------------------


def write_part(task: ExportTask) -> ExportedFile | None:
    """Writes the task's file; returns None if its part has no rows."""
    connection = workers.connection(task.url, **task.client)
    schema = pa.schema([pa.field(name, type_.arrow) for name, type_ in zip(task.names, task.types, strict=True)])
    batches = scanning.read(connection, task.part, schema, BATCH_ROWS)
    first = next(batches, None)
    return None if first is None else _written(task, _again(first, batches))


def _again(first: pa.RecordBatch, rest: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield first
    yield from rest


def _written(task: ExportTask, batches: Iterator[pa.RecordBatch]) -> ExportedFile:
    suffix = {"json": "jsonl"}.get(task.format, task.format)
    place = Path(task.folder) / f"part-{task.number:05d}-{uuid.uuid4().hex[:8]}.{suffix}"
    try:
        with place.open("wb") as file:
            rows = _WRITERS[task.format](task, file, batches)
            file.flush()
            os.fsync(file.fileno())
        return ExportedFile(place.name, rows, place.stat().st_size, digest(place))
    except OSError as error:
        raise disk_error(f"cannot write {place}", error) from error


def _parquet(task: ExportTask, file: Any, batches: Iterator[pa.RecordBatch]) -> int:
    rows = 0
    schema = pa.schema([pa.field(name, type_.arrow) for name, type_ in zip(task.names, task.types, strict=True)])
    with pq.ParquetWriter(file, schema) as writer:
        for batch in batches:
            writer.write_batch(batch)
            rows += batch.num_rows
    return rows


def _csv(task: ExportTask, file: Any, batches: Iterator[pa.RecordBatch]) -> int:
    rows = 0
    types = [pa.string() if type_.kind is Kind.BINARY else type_.arrow for type_ in task.types]
    schema = pa.schema(list(zip(task.names, types, strict=True)))
    with pacsv.CSVWriter(file, schema) as writer:
        for batch in batches:
            writer.write_batch(pa.RecordBatch.from_arrays(as_texts(batch), schema=schema))
            rows += batch.num_rows
    return rows


def _json(task: ExportTask, file: Any, batches: Iterator[pa.RecordBatch]) -> int:
    rows = 0
    for batch in batches:
        file.write(json_lines(batch))
        rows += batch.num_rows
    return rows


_WRITERS: Final = {"parquet": _parquet, "csv": _csv, "json": _json}
