"""Bulk loads: many rows become sorted DiskRowSets directly, past log and MemRowSet.

The life of a load:
1. `TableBulkLoader.append` routes rows to tablets and keeps them, as Arrow batches.
2. When the table's buffers pass `BUFFER_BYTES`, each tablet's rows are sorted, if they are not already, and written
   as one or more rowsets: a *run*. Files are durable, but nothing names them.
3. `TableBulkLoader.finish` writes the last runs and looks for keys that are there twice: among the runs, and against
   the tablets' rowsets. Where key intervals do not meet there is nothing to look up.
4. `load_publish.publish` does the same against what came in meanwhile, then makes all of it durable and visible at
   once; `load_record` says how.

Leaving the loader without `finish` removes the files; after a crash, opening the store does.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterator
from concurrent.futures import Executor
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from ...errors import AlreadyPresent, DiskError, IntegrityError, InterfaceError
from ..keys.keys import Keys
from ..rowsets.rowset_metadata import RowSetMetadata
from ..rowsets.rowset_writer import write_rowsets
from ..rowsets.stored_rowset import StoredRowSet, open_rowset
from ..schema import Table
from ..store import Timestamp
from ..tablet.tablet import Tablet, rowset_files
from ..writing.incoming_rows import conform, describe_key, limit_errors, null_errors
from .load_publish import Run, check_against_rowsets, common_keys, publish
from .table_store import TableStore

BUFFER_BYTES = 384 << 20
"""Of Arrow data that a load keeps. Larger runs make larger rowsets; while they are written, about as much again is
taken for the encoded columns."""
ROUTED_ROWS = 1 << 17
"""Rows that are routed at a time: the copies of a part stay in the cache, and memory is bounded."""


@dataclass(slots=True)
class _Buffer:
    """The rows for one tablet that are not written yet, and the rowsets that are."""

    batches: list[pa.RecordBatch] = field(default_factory=list)
    written: list[RowSetMetadata] = field(default_factory=list)


class TableBulkLoader:
    """A bulk load of one table; see `storage.store.BulkLoader`. For one thread at a time.

    An error ends the load: nothing of it stays.

    Parameters
    ----------
    pool : Executor
        Encodes the runs of several tablets side by side.
    check_open : callable
        Raises where the store has been closed or the table dropped.
    buffer_bytes : int
        Of Arrow data kept until a run is written.
    """

    def __init__(
        self, store: TableStore, pool: Executor, check_open: Callable[[], object], buffer_bytes: int = BUFFER_BYTES
    ):
        self.timestamp: Timestamp | None = None
        """When the rows became visible; None before `finish`."""
        self._store = store
        self._layout = store.layout
        self._table: Table = self._layout.table
        self._pool = pool
        self._check_open = check_open
        self._buffer_bytes = buffer_bytes
        self._buffers = {tablet.id: _Buffer() for tablet in self._layout.tablets}
        self._buffered = 0
        self._rows = 0
        self._is_over = False

    def __enter__(self) -> TableBulkLoader:
        return self

    def __exit__(self, *exc: object) -> None:
        self._abandon()

    # ---- collecting ----------------------------------------------------------------------------------------------

    def append(self, rows: pa.RecordBatch | pa.Table) -> None:
        """Add rows, in any order; columns by name.

        Raises what is wrong with the batch or with the first bad row: `UnknownColumn`, `TypeMismatch`,
        `NotNullViolation`, `NoPartition`, `AlreadyPresent`. The load has failed then.
        """
        if self._is_over:
            raise InterfaceError(f"this load of table {self._table.name} has ended; start another one")
        try:
            self._check_open()
            conformed = numbered_later(self._table, rows, conform(self._table, rows))
            for batch in batches_of(conformed):
                self._add(batch)
                if self._buffered >= self._buffer_bytes:
                    self._write_runs()
        except BaseException:
            self._abandon()
            raise

    def _add(self, batch: pa.RecordBatch) -> None:
        errors = null_errors(self._table, batch) or limit_errors(self._table, batch)
        if errors:
            raise errors[0].error
        tablets = self._layout.tablets
        self._rows += batch.num_rows
        self._buffered += batch.nbytes
        places = self._layout.partitioner.route(batch)
        low, high = int(places.min()), int(places.max())
        if low < 0:
            raise self._layout.no_partition(batch, int(np.argmin(places)))
        if low == high:
            self._buffers[tablets[low].id].batches.append(batch)
            return
        # One stable sort by a small integer (a radix sort), one take per column; the tablets then share the copy.
        order = np.argsort(places.astype(np.uint16), kind="stable")
        ends = np.searchsorted(places.take(order), np.arange(len(tablets) + 1))
        routed = batch.take(pa.array(order))
        for place in np.flatnonzero(np.diff(ends)).tolist():
            mine = routed.slice(int(ends[place]), int(ends[place + 1] - ends[place]))
            self._buffers[tablets[place].id].batches.append(mine)

    # ---- runs ----------------------------------------------------------------------------------------------------

    def _write_runs(self) -> None:
        """Write what is buffered, tablets side by side."""
        self._buffered = 0
        tablets = [t for t in self._layout.tablets if self._buffers[t.id].batches]
        failures = [e for e in self._pool.map(self._write_run, tablets) if e is not None]
        if failures:
            raise failures[0]

    def _write_run(self, tablet: Tablet) -> Exception | None:
        # Errors are returned, so that all tablets have ended before the first is raised and files are removed.
        buffer = self._buffers[tablet.id]
        batches, buffer.batches = buffer.batches, []
        try:
            buffer.written += _sorted_run(tablet, self._table, batches)
        except Exception as error:
            return error
        return None

    # ---- the end -------------------------------------------------------------------------------------------------

    def finish(self) -> int:
        """Make all rows durable and visible; how many there are. See `storage.store.BulkLoader`."""
        if self._is_over:
            raise InterfaceError(f"this load of table {self._table.name} has ended; start another one")
        try:
            self._check_open()
            self._write_runs()
            runs = [
                Run(tablet, [self._open(tablet, m) for m in self._buffers[tablet.id].written])
                for tablet in self._layout.tablets
                if self._buffers[tablet.id].written
            ]
            list(self._pool.map(self._check_run, runs))
            self.timestamp = publish(self._store, runs)
        except BaseException:
            self._abandon()
            raise
        self._is_over = True
        return self._rows

    def _open(self, tablet: Tablet, metadata: RowSetMetadata) -> StoredRowSet:
        return open_rowset(tablet.fs, tablet.rowset_directory, self._table.schema, metadata, tablet.cache)

    def _check_run(self, run: Run) -> None:
        for one, other in _meeting(run.rowsets):
            for keys in common_keys(self._table, one.rowset, other.rowset):
                raise _repeated(self._table, keys.values_at(0))
        check_against_rowsets(run, run.tablet.pin())

    def _abandon(self) -> None:
        """Remove the files of a load that does not happen."""
        if self._is_over:
            return
        self._is_over = True
        for tablet in self._layout.tablets:
            buffer = self._buffers[tablet.id]
            buffer.batches.clear()
            if self._store.repairs:
                continue  # a record that may be on the disk names the files; a crash would look for them
            for name in itertools.chain.from_iterable(map(rowset_files, buffer.written)):
                # What cannot be removed now is removed when the store opens: no metadata names it.
                with contextlib.suppress(DiskError):
                    tablet.fs.remove(f"{tablet.rowset_directory}/{name}")


def batches_of(rows: pa.Table | pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """The rows in batches of at most `ROUTED_ROWS` rows; very small chunks are joined."""
    table = rows if isinstance(rows, pa.Table) else pa.Table.from_batches([rows])
    chunks = max((column.num_chunks for column in table.columns), default=1)
    if chunks > 1 and table.num_rows < chunks * 4096:
        table = table.combine_chunks()
    for batch in table.to_batches(max_chunksize=ROUTED_ROWS):
        if batch.num_rows:
            yield batch


def numbered_later(table: Table, given: pa.RecordBatch | pa.Table, rows: Any) -> Any:
    """The rows with zeros in the AUTO_INCREMENT column; `IntegrityError` where some were given numbers."""
    column = table.schema.auto_increment
    if column is None:
        return rows
    place = table.schema.position(column.name)
    if column.name in given.schema.names and rows.column(place).null_count < rows.num_rows:
        raise IntegrityError(f"column {column.name} of table {table.name} is assigned by the store; leave it out")
    return rows.set_column(place, column.name, pa.repeat(pa.scalar(0, pa.int64()), rows.num_rows))


def _numbered(tablet: Tablet, table: Table, rows: pa.Table) -> pa.Table:
    """The rows with numbers that no other row of the tablet has."""
    column = table.schema.auto_increment
    if column is None:
        return rows
    first = tablet.take_numbers(rows.num_rows)
    numbers = pa.array(np.arange(first, first + rows.num_rows))
    return rows.set_column(table.schema.position(column.name), column.name, numbers)


def _sorted_run(tablet: Tablet, table: Table, batches: list[pa.RecordBatch]) -> list[RowSetMetadata]:
    rows = _numbered(tablet, table, pa.Table.from_batches(batches).combine_chunks())
    batches.clear()
    keys = Keys.from_rows(table.schema, rows)
    if not keys.is_strictly_ascending():
        repeated = keys.duplicates()
        if len(repeated):
            raise _repeated(table, keys.values_at(int(repeated[0])))
        rows = rows.take(pa.array(keys.order()))
    return write_rowsets(
        tablet.fs,
        tablet.rowset_directory,
        table.schema,
        rows,
        next_id=tablet.next_rowset_id,
        timestamp=0,  # set when the load is published
        rowset_bytes=tablet.options.rowset_bytes,
    )


def _repeated(table: Table, key: tuple[object, ...]) -> AlreadyPresent:
    return AlreadyPresent(f"key {describe_key(table, key)} is in this load of table {table.name} twice")


def _meeting(rowsets: list[StoredRowSet]) -> Iterator[tuple[StoredRowSet, StoredRowSet]]:
    """Pairs of rowsets whose key intervals overlap: a sweep in the order of min keys."""
    open_: list[StoredRowSet] = []
    for stored in sorted(rowsets, key=lambda r: r.rowset.metadata.min_key):
        open_ = [o for o in open_ if o.rowset.metadata.max_key >= stored.rowset.metadata.min_key]
        for other in open_:
            yield other, stored
        open_.append(stored)
