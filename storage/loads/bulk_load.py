"""Bulk loads: many rows become sorted DiskRowSets directly, past log and MemRowSet; few rows take the path of writes.

    up to `SMALL_ROWS` rows    log ──► MemRowSet             one sync; a later flush makes one rowset of many loads
    more                       rowsets of their own          rows are written once, not to the log and again by a flush

Both are all or none, durable at their end and visible at one timestamp; which one a load took is logged (DEBUG).

The life of a load:
1. `TableBulkLoader.append` routes rows to tablets and keeps them, as Arrow batches.
2. When the table's buffers pass `BUFFER_BYTES`, each tablet's rows are sorted, if they are not already, and written
   as one or more rowsets: a *run*. Files are durable, but nothing names them.
3. `TableBulkLoader.finish` writes the last runs and looks for keys that are there twice: among the runs, and against
   the tablets' rowsets. Where key intervals do not meet there is nothing to look up.
4. `storage.loads.load_publish.publish` does the same against what came in meanwhile, then makes all of it durable and
   visible at once; `storage.loads.load_record` says how.

A small load keeps its rows until `finish`, which inserts them as one batch. If that is refused, because of a key that
is there already or of an altered table, nothing has been written, and the load goes on with step 2, which either
succeeds or raises the error that larger loads raise.

Leaving the loader without `finish` removes the files; after a crash, opening the store does.
"""

from __future__ import annotations

import contextlib
import itertools
import logging
from collections.abc import Callable, Iterator
from concurrent.futures import Executor
from dataclasses import field

import numpy as np
import pyarrow as pa

from ...errors import AlreadyPresent, DiskError, OutcomeUnknown, SchemaChanged, UnknownColumn
from ...model.arrow_arrays import arrow_array
from ...model.keys.keys import Keys
from ...model.lazy_dataclass import dataclass
from ...model.schema import Table
from ...model.store import Op, Timestamp, WriteBatch, WriteResult
from ..rowsets.rowset_metadata import RowSetMetadata, rowset_files
from ..rowsets.rowset_writer import write_rowsets
from ..rowsets.stored_rowset import StoredRowSet, open_rowset
from ..tables.table_store import TableStore
from ..tablet.tablet import Tablet
from ..writing.incoming_rows import describe_key
from .load_publish import Run, check_against_rowsets, common_keys, publish
from .loading import SMALL_BYTES, SMALL_ROWS, Loading, loadable, routed

BUFFER_BYTES = 384 << 20
"""Of Arrow data that a load keeps. Larger runs make larger rowsets; while they are written, about as much again is
taken for the encoded columns."""

_log = logging.getLogger("nyala.storage.loads")


@dataclass(slots=True)
class _Buffer:
    """The rows for one tablet that are not written yet, and the rowsets that are."""

    batches: list[pa.RecordBatch] = field(default_factory=list)
    written: list[RowSetMetadata] = field(default_factory=list)


class TableBulkLoader(Loading):
    """A bulk load of one table into a store of this process; see the module's page and `Loading`.

    Parameters
    ----------
    pool : Executor
        Encodes the runs of several tablets side by side.
    check_open : callable
        Raises where the store has been closed or the table dropped.
    buffer_bytes : int
        Of Arrow data kept until a run is written.
    write : callable, optional
        Writes a batch to the table, as `Store.write` does; None: small loads become rowsets, too.
    """

    def __init__(
        self,
        store: TableStore,
        pool: Executor,
        check_open: Callable[[], object],
        buffer_bytes: int = BUFFER_BYTES,
        write: Callable[[WriteBatch], WriteResult] | None = None,
    ):
        store.check_quota(Op.INSERT)
        self._layout = store.layout
        super().__init__(self._layout.table)
        self.timestamp: Timestamp | None = None
        """When the rows became visible; None before `finish`."""
        self._store = store
        self._pool = pool
        self._check = check_open
        self._write = write
        self._buffer_bytes = buffer_bytes
        self._buffers = {tablet.id: _Buffer() for tablet in self._layout.tablets}
        self._buffered = 0
        self._rows = 0

    def _check_open(self) -> None:
        self._check()

    @contextlib.contextmanager
    def _step(self) -> Iterator[None]:
        # Of a table that is dropped meanwhile, the files stay until the step has ended: it writes some.
        pins = [tablet.pin() for tablet in self._layout.tablets if tablet.damage is None]
        try:
            with super()._step():
                yield
        finally:
            pins.clear()  # a traceback may keep this frame

    # ---- collecting ----------------------------------------------------------------------------------------------

    def _take(self, rows: pa.RecordBatch | pa.Table) -> None:
        tablets = self._layout.tablets
        for batch in loadable(self._table, rows):
            self._rows += batch.num_rows
            self._buffered += batch.nbytes
            for place, mine in routed(self._table, self._layout.partitioner, batch):
                if tablets[place].damage is not None:
                    tablets[place].refuse()
                self._buffers[tablets[place].id].batches.append(mine)
            if self._buffered >= self._buffer_bytes:
                self._write_runs()

    # ---- runs ----------------------------------------------------------------------------------------------------

    def _write_runs(self) -> None:
        """Write the buffered rows, several tablets at the same time."""
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
        """Make all rows durable and visible; how many there are. See `model.store.BulkLoader`."""
        with self._step():
            is_logged = self._is_small() and self._insert()
            if not is_logged:
                self._publish()
        self._is_over = True
        way = "through its log" if is_logged else "as rowsets"
        _log.debug("loaded %d rows into table %s %s", self._rows, self._table.name, way)
        return self._rows

    def _is_small(self) -> bool:
        has_written = any(buffer.written for buffer in self._buffers.values())
        return 0 < self._rows <= SMALL_ROWS and self._buffered <= SMALL_BYTES and not has_written

    def _insert(self) -> bool:
        """Insert the rows as one batch; False with nothing written if it is refused. `OutcomeUnknown` if the disk
        fails where durability "os" leaves the log unsynced."""
        if self._write is None:
            return False
        batches = [batch for buffer in self._buffers.values() for batch in buffer.batches]
        (rows,) = pa.Table.from_batches(batches).combine_chunks().to_batches()
        numbered = self._table.schema.auto_increment
        if numbered is not None:
            rows = rows.drop_columns([numbered.name])
        try:
            result = self._write(WriteBatch(rows, Op.INSERT, all_or_none=True))
        except (SchemaChanged, UnknownColumn):  # a load that was begun before ALTER TABLE has rows from before
            return False
        if result.errors:
            return False
        self._sync_logs()
        self.timestamp = result.timestamp
        self._forget()
        return True

    def _sync_logs(self) -> None:
        """Sync the logs of the load: with durability "os", too, a power failure must not take back a load that has
        ended."""
        tablets = [tablet for tablet in self._layout.tablets if self._buffers[tablet.id].batches]
        if tablets[0].options.durability != "os":
            return
        try:
            for tablet in tablets:
                tablet.log.sync_now()
            self._store.commits.sync_now()
        except DiskError as error:
            raise OutcomeUnknown(
                f"the rows of this load of table {self._table.name} can be read, but a power failure may take them "
                f"back: {error}"
            ) from error

    def _publish(self) -> None:
        """Steps 3 and 4 of the module's page."""
        self._write_runs()
        runs = [
            Run(tablet, [self._open(tablet, m) for m in self._buffers[tablet.id].written])
            for tablet in self._layout.tablets
            if self._buffers[tablet.id].written
        ]
        list(self._pool.map(self._check_run, runs))
        self.timestamp = publish(self._store, runs)

    def _open(self, tablet: Tablet, metadata: RowSetMetadata) -> StoredRowSet:
        return open_rowset(tablet.fs, tablet.rowset_directory, self._table.schema, metadata, tablet.cache)

    def _check_run(self, run: Run) -> None:
        for one, other in _meeting(run.rowsets):
            for keys in common_keys(self._table, one.rowset, other.rowset):
                raise _repeated(self._table, keys.values_at(0))
        check_against_rowsets(run, run.tablet.pin())

    def _forget(self) -> None:
        """Remove the files of a load that does not happen."""
        for tablet in self._layout.tablets:
            buffer = self._buffers[tablet.id]
            buffer.batches.clear()
            if self._store.repairs:
                continue  # a record that may be on the disk names the files; a crash would look for them
            for name in itertools.chain.from_iterable(map(rowset_files, buffer.written)):
                # What cannot be removed now is removed when the store opens: no metadata names it.
                with contextlib.suppress(DiskError):
                    tablet.fs.remove(f"{tablet.rowset_directory}/{name}")


def _numbered(tablet: Tablet, table: Table, rows: pa.Table) -> pa.Table:
    """The rows with numbers that no other row of the tablet has."""
    column = table.schema.auto_increment
    if column is None:
        return rows
    first = tablet.take_numbers(rows.num_rows)
    numbers = arrow_array(np.arange(first, first + rows.num_rows))
    return rows.set_column(table.schema.position(column.name), column.name, numbers)


def _sorted_run(tablet: Tablet, table: Table, batches: list[pa.RecordBatch]) -> list[RowSetMetadata]:
    rows = _numbered(tablet, table, pa.Table.from_batches(batches).combine_chunks())
    batches.clear()
    keys = Keys.from_rows(table.schema, rows)
    if not keys.is_strictly_ascending():
        repeated = keys.duplicates()
        if len(repeated):
            raise _repeated(table, keys.values_at(int(repeated[0])))
        rows = rows.take(arrow_array(keys.order()))
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
