"""Flushes: what a tablet has in memory is written to files, while it is read and written.

    MemRowSet flush                                         delta flush

    inserted rows    sorted by key ──► base data            DeltaMemStore ──► a REDO file of its rowset
    mutations        up to the cut ──► base data and UNDO
                     DELETEs of ghosts ──► a REDO file
                     behind the cut ──► the new rowsets' DeltaMemStores

1. Under `write_lock` a new MemRowSet (DeltaMemStore) takes what comes; the old one stays readable as `flushing`. This
   moment is the cut: the newest timestamp and the last log entry.
2. When all writes before the cut are decided, they are written as files, durable but unnamed.
3. The tablet's metadata is replaced: it names the files, and the last log entry that they hold. This is the moment of
   the flush; a crash before it leaves files that no metadata names, and the log.
4. Under `write_lock` the state is replaced. Mutations of the old MemRowSet's rows that came after the cut go to where
   the rows are now, in the same moment. No reader sees a row twice or not at all.
5. Log segments below are removed.

Where the disk fails on the way, `flushing` stays, and the next flush begins with it; so it is if step 3 is `Postponed`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from ...model.arrow_arrays import arrow_array
from ...model.keys.keys import Keys
from ...model.vectors.vector import Array
from ..deltas.delta_memstore import DeltaMemStore
from ..deltas.deltas import merge
from ..deltas.inversion import insertions, invert
from ..deltas.version_merge import above, deaths, moved
from ..rowsets.memrowset import MemRowSet
from ..rowsets.memrowset_snapshot import MemRowSetImage
from ..rowsets.rowset_metadata import RowSetMetadata, rowset_files
from ..rowsets.rowset_writer import WORKERS, column_array, write_rowsets
from ..rowsets.stored_rowset import StoredRowSet, open_rowset
from ..tablet.between_transactions import Postponed
from ..tablet.tablet import Cut, Tablet
from .precedence import awaited
from .rewrite import NewFiles, carry_over, part, reopened


def needs_flush(tablet: Tablet) -> bool:
    """True if the MemRowSet has reached its flush size, or a flush failed before."""
    state = tablet.state
    return state.flushing is not None or state.memrowset.nbytes >= tablet.options.memrowset_bytes


def flush_overfull(tablet: Tablet) -> None:
    """Make a writer wait, and see the `DiskError`, where flushes cannot keep up: memory stays bounded. Not while a
    transaction has prepared a write: its outcome may take long, and the server's memory limit holds all the same."""
    if not is_overfull(tablet):
        return
    # At a replica that has lost the lead, another thread may apply a prepared write meanwhile.
    with contextlib.suppress(Postponed), tablet.free_of_prepared() as is_free:
        if not is_free:
            return
        with contextlib.ExitStack() as held:
            with awaited(tablet):
                held.enter_context(tablet.flush_lock)
            # Of all writers that waited for the lock the first one flushes; what came since is not worth a rowset yet.
            if is_overfull(tablet) and not tablet.is_dropped:
                _flush(tablet, WORKERS)


def is_overfull(tablet: Tablet) -> bool:
    """True if `flush_overfull` should flush."""
    return tablet.state.memrowset.nbytes >= 2 * tablet.options.memrowset_bytes


# ---- MemRowSets --------------------------------------------------------------------------------------------------


def flush(tablet: Tablet, workers: int = WORKERS) -> int:
    """Flush the MemRowSet with `workers` threads; returns the number of rows written. `DiskError` if the disk fails,
    `TabletGone` if the tablet has been dropped."""
    with tablet.flush_lock:
        return _flush(tablet, workers)


def flush_all(tablet: Tablet) -> None:
    """Flush what the tablet has in memory now, deltas included: nothing of its log up to here is replayed again.
    `DiskError` where the disk fails."""
    flush(tablet)
    for stored in tablet.state.rowsets:
        flush_deltas(tablet, stored)


def _flush(tablet: Tablet, workers: int) -> int:
    rows = 0
    if tablet.state.flushing is not None:
        rows += _Flush(tablet, workers).run()
    if tablet.state.memrowset.row_count:
        rows += _Flush(tablet, workers).run()
    return rows


@contextlib.contextmanager
def quiet(tablet: Tablet) -> Iterator[None]:
    """Hold the tablet's `flush_lock` while it has no unfinished flush: for a change of its schema. `DiskError` if the
    disk fails."""
    while True:
        with awaited(tablet):
            tablet.flush_lock.acquire()
        if tablet.state.flushing is None:
            break
        tablet.flush_lock.release()
        flush(tablet)
    try:
        yield
    finally:
        tablet.flush_lock.release()


class _Flush:
    """The flush of one MemRowSet: of `state.flushing` where there is one. Needs `flush_lock`."""

    def __init__(self, tablet: Tablet, workers: int):
        self._tablet = tablet
        self._workers = workers
        self._schema = tablet.table.schema
        with tablet.nothing_prepared(), tablet.metadata_lock:
            state = tablet.state
            if state.flushing is None:
                state = tablet.state = state.with_empty_memrowset(self._schema)
            self._cut = tablet.cut()
            self._newer = state.memrowset.first_index
        assert state.flushing is not None
        self._old: MemRowSet = state.flushing
        self._offsets = np.empty(0, np.int64)
        """The place among all rows written, by row number of the old MemRowSet; -1 for rows that are left out."""

    def run(self) -> int:
        """Write, name and take over; how many rows were written."""
        tablet = self._tablet
        tablet.wait_for(self._cut)
        image = self._old.snapshot(self._schema).image(self._cut.timestamp)
        with NewFiles(tablet) as files:
            written = self._write(files, image)
            added = self._open(written)  # reads: what the metadata names must be in the state, whatever the disk does
            durable_index = _index_before(self._cut, self._newer)
            with tablet.between_transactions():
                files.publish(lambda known: known.with_flush(written, durable_index), cut=self._cut)
                self._old.mutations.snapshot()  # so that little is left to sort while writers wait
                with tablet.swap():
                    late = moved(self._old.mutations_after(self._cut.timestamp), self._offsets)
                    carry_over(late, added, self._cut.index + 1, self._tablet.log.last_index)
                    tablet.replace_rowsets((), added, self._old)
        tablet.trim_log()
        return sum(metadata.row_count for metadata in written)

    def _write(self, files: NewFiles, image: MemRowSetImage) -> list[RowSetMetadata]:
        """Write rowsets and their delta files, durable but for the names."""
        tablet, mark = self._tablet, self._tablet.metadata.ancient_history_mark
        order = self._order(image, mark)
        mutations = moved(image.mutations, self._offsets)
        changing = self._schema.columns[self._schema.key_columns :]
        turned = invert(changing, {c.id: image.rows.column(c.name) for c in changing}, mutations, order)
        keys = [column_array(c, image.rows).take(arrow_array(order)) for c in self._schema.key]
        rows = pa.Table.from_arrays([*keys, *turned.columns.values()], schema=self._schema.arrow)
        undo = merge([above(insertions(image.inserted[order]), mark), above(turned.undo, mark)])
        written = write_rowsets(
            tablet.fs,
            tablet.rowset_directory,
            self._schema,
            rows,
            next_id=tablet.next_rowset_id,
            timestamp=0,
            rowset_bytes=tablet.options.rowset_bytes,
            workers=self._workers,
        )
        files.paths += [files.path(name) for metadata in written for name in rowset_files(metadata)]
        starts = np.cumsum([0, *(metadata.row_count for metadata in written)]).tolist()
        return [
            files.with_deltas(
                metadata,
                part(undo, start, metadata.row_count),
                part(turned.deletes, start, metadata.row_count),
                self._cut.index,
            )
            for metadata, start in zip(written, starts)
        ]

    def _order(self, image: MemRowSetImage, mark: int) -> Array:
        """Positions in the image of the rows to write, by key: ndarray of int64. Rows that were finally deleted at or
        below the ancient history mark cannot be read and are omitted."""
        died = deaths(image.mutations, self._old.row_count)[image.numbers]
        order = np.flatnonzero((died == 0) | (died > np.uint64(mark)))
        if len(order):
            keys = Keys.from_rows(self._schema, image.rows)
            keys = keys if len(order) == len(died) else keys.take(order)
            if not keys.is_strictly_ascending():
                order = order[keys.order()]
        self._offsets = np.full(self._old.row_count, -1, np.int64)
        self._offsets[image.numbers[order]] = np.arange(len(order))
        return order

    def _open(self, written: Sequence[RowSetMetadata]) -> list[StoredRowSet]:
        tablet = self._tablet
        added = [open_rowset(tablet.fs, tablet.rowset_directory, self._schema, m, tablet.cache) for m in written]
        for stored in added:
            # Reads the REDO file: not under the writers' lock.
            stored.deleted.load()
        return added


def _index_before(cut: Cut, newer: int) -> int:
    """The last log entry before the cut that cannot be in what took over from `flushing`, whose first entry is `newer`
    (0 for none): where a flush failed and is tried again, that was before the cut."""
    return min(cut.index, newer - 1) if newer else cut.index


# ---- DeltaMemStores ----------------------------------------------------------------------------------------------


def flush_deltas(tablet: Tablet, stored: StoredRowSet) -> int:
    """Write the DeltaMemStore of a rowset as a REDO file; how many deltas. Nothing happens where the rowset is not in
    the tablet's state any more. `DiskError` where the disk fails."""
    with tablet.flush_lock:
        current = next((r for r in tablet.state.rowsets if r.metadata.id == stored.metadata.id), None)
        if current is None:
            return 0
        count = 0
        if current.flushing is not None:
            current, count = _flush_old_deltas(tablet, current)
        if current.memstore.count:
            current, more = _flush_old_deltas(tablet, current)
            count += more
        return count


def _flush_old_deltas(tablet: Tablet, stored: StoredRowSet) -> tuple[StoredRowSet, int]:
    """Flush `stored.flushing`, or the DeltaMemStore where there is none: the rowset afterwards, and how many deltas."""
    with tablet.nothing_prepared(), tablet.metadata_lock:
        if stored.flushing is None:
            swapped = replace(stored, flushing=stored.memstore, memstore=DeltaMemStore(tablet.table.schema))
            tablet.replace_rowsets([stored], [swapped])
            stored = swapped
        cut = tablet.cut()
        newer = stored.memstore.first_index
    old = stored.flushing
    assert old is not None
    tablet.wait_for(cut)
    stored.deleted.load()  # before `publish`: see `reopened`
    deltas = merge(old.snapshot()).only_columns({column.id for column in tablet.table.schema.columns})
    before = stored.metadata
    with NewFiles(tablet) as files:
        names = files.write_deltas("redo", before.id, before.redo_files, deltas)
        after = replace(
            before,
            redo_files=(*before.redo_files, *names),
            redo_index=max(before.redo_index, _index_before(cut, newer)),
            data_bytes=before.data_bytes + files.size,
        )
        with tablet.between_transactions():
            files.publish(lambda known: known.with_rowsets([before.id], [after]), cut=cut, flushed=[old])
            done = replace(reopened(tablet, stored, after), flushing=None)
            with tablet.swap():
                tablet.replace_rowsets([stored], [done])
    tablet.trim_log()
    return done, len(deltas)
