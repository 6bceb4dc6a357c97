"""The workers' tasks for backups: write a tablet's rows or changes to a file, and restore a tablet from such files.

All of it may be repeated: each attempt writes a file with a unique name, and the manifest names the valid one; restored
rows are upserted.
"""

from __future__ import annotations

import hashlib
import os
import uuid
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from ....driver.connection import Connection
from ....driver.tables.table_scans import Scan
from ....errors import CorruptionError
from ....model.change_columns import change_columns
from ....model.disk_errors import disk_error
from ....model.lazy_dataclass import dataclass
from ....model.schema import ColumnSchema, Table
from ....model.store import CHANGE_COLUMN, CHANGED_AT_COLUMN, ChangeRange, Op, ScanSpec, Timestamp, WriteBatch
from ... import workers
from .chains import FileOfChain
from .folding import conformed, fold
from .manifest import Kind, SavedFile, sync_directory

ROW_GROUP_ROWS = 1 << 17
WRITE_ROWS = 1 << 15
CHANGE_NAMES = (CHANGE_COLUMN, CHANGED_AT_COLUMN)


@dataclass(frozen=True, slots=True)
class SaveTask:
    """Saves a tablet: its rows as of a time, or its changes after `since` up to that time.

    `folder` is the backup's, `directory` the table's below it.
    """

    url: str
    table: Table
    tablet: str
    since: Timestamp | None
    at: Timestamp
    folder: str
    directory: str

    @property
    def kind(self) -> Kind:
        return "rows" if self.since is None else "changes"


@dataclass(frozen=True, slots=True)
class RestoreTask:
    """Restores a tablet's rows as of a time from its files, and writes them into the table `target`."""

    url: str
    target: Table
    definition: Table
    files: tuple[FileOfChain, ...]
    at: Timestamp


# ---- saving ----------------------------------------------------------------------------------------------------------


def save(task: SaveTask) -> SavedFile | None:
    """Writes the task's file durably; returns None if there was nothing to write."""
    columns: tuple[ColumnSchema, ...] = task.table.schema.columns
    changes = None
    if task.since is not None:
        columns = (*columns, *change_columns(task.at))
        changes = ChangeRange(task.since, history=True)
    spec = ScanSpec(
        tuple(column.name for column in columns),
        snapshot=task.at,
        ordered=changes is None,
        changes=changes,
        tablet=task.tablet,
    )
    connection = workers.connection(task.url)
    tokens = connection.store.scan_tokens(task.table, spec)
    with Scan(lambda: connection.store, columns, tokens, task.at) as scan:
        return _write(task, scan)


def _write(task: SaveTask, scan: Scan) -> SavedFile | None:
    path = f"{task.directory}/{task.tablet}-{task.kind}-{uuid.uuid4().hex[:8]}.parquet"
    place = Path(task.folder) / path
    rows = 0
    try:
        batches = iter(scan)
        first = next(batches, None)
        if first is None:
            return None
        place.parent.mkdir(parents=True, exist_ok=True)
        with place.open("wb") as file:
            with pq.ParquetWriter(file, scan.schema, compression="zstd") as writer:
                for batch in _regrouped(first, batches):
                    writer.write_table(batch, row_group_size=ROW_GROUP_ROWS)
                    rows += batch.num_rows
            file.flush()
            os.fsync(file.fileno())
        sync_directory(place.parent)
        return SavedFile(path, task.kind, task.tablet, rows, place.stat().st_size, digest(place))
    except OSError as error:
        raise disk_error(f"cannot write {place}", error) from error


def _regrouped(first: pa.RecordBatch, rest: Iterator[pa.RecordBatch]) -> Iterator[pa.Table]:
    """The same rows in pieces that make good row groups."""
    held, count = [first], first.num_rows
    for batch in rest:
        held.append(batch)
        count += batch.num_rows
        if count >= ROW_GROUP_ROWS:
            yield pa.Table.from_batches(held)
            held, count = [], 0
    if held:
        yield pa.Table.from_batches(held)


def digest(path: Path) -> str:
    """The SHA-256 of a file, in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


# ---- verifying -------------------------------------------------------------------------------------------------------


def damage(task: tuple[str, SavedFile]) -> str | None:
    """The fault of a file (its path and its manifest entry); None if it has none."""
    path, saved = Path(task[0]), task[1]
    try:
        size = path.stat().st_size
        if size != saved.bytes:
            return f"{path}: {size:,} bytes instead of the {saved.bytes:,} that were written"
        return None if digest(path) == saved.sha256 else f"{path}: its checksum differs from that of the written file"
    except FileNotFoundError:
        return f"{path} is missing"
    except OSError as error:
        return f"{path} cannot be read: {error.strerror or error}"


# ---- restoring -------------------------------------------------------------------------------------------------------


def restore(task: RestoreTask) -> int:
    """Writes the rows of one tablet; returns the number of rows."""
    rows = 0
    connection = workers.connection(task.url)
    for batch in tablet_rows(task.definition, task.files, task.at):
        for start in range(0, batch.num_rows, WRITE_ROWS):
            _upsert(connection, task.target, batch.slice(start, WRITE_ROWS))
        rows += batch.num_rows
    return rows


def _upsert(connection: Connection, table: Table, rows: pa.RecordBatch) -> None:
    result = connection.store.write(table, WriteBatch(rows, Op.UPSERT, all_or_none=True))
    if result.errors:
        raise result.errors[0].error


def tablet_rows(definition: Table, files: tuple[FileOfChain, ...], at: Timestamp) -> Iterator[pa.RecordBatch]:
    """The rows of a tablet as of a time, ascending by primary key; see `folding.fold`."""
    rows = (batch for each in files if each.file.kind == "rows" for batch in _read(each, definition))
    changes = [
        pa.Table.from_batches(_read(each, definition, CHANGE_NAMES)) for each in files if each.file.kind == "changes"
    ]
    return fold(definition, rows, changes, at)


def _read(each: FileOfChain, definition: Table, extra: tuple[str, ...] = ()) -> Iterator[pa.RecordBatch]:
    """A file's rows in the columns of a later definition."""
    try:
        with pq.ParquetFile(each.path) as file:
            for batch in file.iter_batches(ROW_GROUP_ROWS):
                yield conformed(batch, each.definition, definition, extra)
    except (OSError, pa.ArrowInvalid, KeyError) as error:
        raise CorruptionError(str(error), str(each.path), "Parquet") from error
