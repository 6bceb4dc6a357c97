"""The tasks of backups: write a tablet's rows or changes to a file, and restore a tablet from such files.

All of it may be repeated: each attempt writes a file with a unique name, and the manifest names the valid one; restored
rows are upserted.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pyarrow as pa
import pyarrow.parquet as pq

from ..driver.tables.table_scans import Scan
from ..errors import CorruptionError
from ..model.change_columns import change_columns
from ..model.lazy_dataclass import dataclass
from ..model.schema import ColumnSchema, Table
from ..model.store import CHANGE_COLUMN, CHANGED_AT_COLUMN, ChangeRange, Op, ScanSpec, Timestamp, WriteBatch
from ..storage.files.io_limit import spend
from .chains import FileOfChain
from .folding import conformed, fold
from .manifest import Kind, SavedFile
from .places import Place
from .running import OpenStore

ROW_GROUP_ROWS = 1 << 17
WRITE_ROWS = 1 << 15
CHANGE_NAMES = (CHANGE_COLUMN, CHANGED_AT_COLUMN)


@dataclass(frozen=True, slots=True)
class SaveTask:
    """Saves a tablet: its rows as of a time, or its changes after `since` up to that time.

    `folder` is the backup's in `place`, `directory` the table's below it.
    """

    open_store: OpenStore
    place: Place
    folder: str
    directory: str
    table: Table
    tablet: str
    since: Timestamp | None
    at: Timestamp

    @property
    def kind(self) -> Kind:
        return "rows" if self.since is None else "changes"


@dataclass(frozen=True, slots=True)
class RestoreTask:
    """Restores a tablet's rows as of a time from its files, and writes them into the table `target`."""

    open_store: OpenStore
    place: Place
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
    tokens = task.open_store().scan_tokens(task.table, spec)
    with Scan(task.open_store, columns, tokens, task.at) as scan:
        return _write(task, scan)


def _write(task: SaveTask, scan: Scan) -> SavedFile | None:
    path = f"{task.directory}/{task.tablet}-{task.kind}-{uuid.uuid4().hex[:8]}.parquet"
    place, stored = task.place, f"{task.folder}/{path}"
    batches = iter(scan)
    first = next(batches, None)
    if first is None:
        return None
    rows = size = 0
    with place.create(stored) as file, pq.ParquetWriter(file, scan.schema, compression="zstd") as writer:
        for batch in _regrouped(first, batches):
            writer.write_table(batch, row_group_size=ROW_GROUP_ROWS)
            rows += batch.num_rows
            spend(written=file.tell() - size)
            size = file.tell()
    return SavedFile(path, task.kind, task.tablet, rows, place.size(stored), place.digest(stored))


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


# ---- verifying -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class CheckTask:
    """Compares a file, by its path in `place`, with its entry in the manifest."""

    place: Place
    path: str
    file: SavedFile


def damage(task: CheckTask) -> str | None:
    """The fault of a file; None if it has none."""
    shown = task.place.path(task.path)
    try:
        size = task.place.size(task.path)
        if size != task.file.bytes:
            return f"{shown}: {size:,} bytes instead of the {task.file.bytes:,} that were written"
        if task.place.digest(task.path) != task.file.sha256:
            return f"{shown}: its checksum differs from that of the written file"
    except FileNotFoundError:
        return f"{shown} is missing"
    except OSError as error:
        return f"{shown} cannot be read: {error.strerror or error}"
    return None


# ---- restoring -------------------------------------------------------------------------------------------------------


def restore(task: RestoreTask) -> int:
    """Writes the rows of one tablet; returns the number of rows."""
    rows = 0
    store = task.open_store()
    for batch in _tablet_rows(task):
        for start in range(0, batch.num_rows, WRITE_ROWS):
            piece = batch.slice(start, WRITE_ROWS)
            result = store.write(task.target, WriteBatch(piece, Op.UPSERT, all_or_none=True))
            if result.errors:
                raise result.errors[0].error
        rows += batch.num_rows
    return rows


def _tablet_rows(task: RestoreTask) -> Iterator[pa.RecordBatch]:
    """The rows of a tablet as of a time, ascending by primary key; see `folding.fold`."""
    rows = (batch for each in task.files if each.file.kind == "rows" for batch in _read(task, each))
    changes = [
        pa.Table.from_batches(_read(task, each, CHANGE_NAMES)) for each in task.files if each.file.kind == "changes"
    ]
    return fold(task.definition, rows, changes, task.at)


def _read(task: RestoreTask, each: FileOfChain, extra: tuple[str, ...] = ()) -> Iterator[pa.RecordBatch]:
    """A file's rows in the columns of the restored definition."""
    try:
        with task.place.open(each.path) as source, pq.ParquetFile(source) as file:
            for batch in file.iter_batches(ROW_GROUP_ROWS):
                spend(read=each.file.bytes * batch.num_rows // max(each.file.rows, 1))
                yield conformed(batch, each.definition, task.definition, extra)
    except (OSError, pa.ArrowInvalid, KeyError) as error:
        raise CorruptionError(str(error), task.place.path(each.path), "Parquet") from error
