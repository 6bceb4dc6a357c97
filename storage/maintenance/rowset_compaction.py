"""Merging compaction: several DiskRowSets of a tablet become new ones of bounded size that do not overlap.

    inputs   ├──────────────┤              outputs   ├─────────┤├─────────┤├──────┤
                ├────────────────┤                   rows by key, newest values in the base data,
             ├─────┤                                 older ones in UNDO deltas; REDO: only DELETEs

1. Under `write_lock`, the cut: earlier writes go into the outputs.
2. Piece by piece of the keys, versions are put in order (`version_merge`). The outputs are written one by one, each
   column by column: a contiguous part of each input, updated by its REDO deltas (`deltas.inversion`), in key order.
3. The metadata names the outputs in place of the inputs. Replay gives them the log entries after the cut.
4. Under `write_lock`, deltas written after the cut are moved to the outputs' DeltaMemStores, and the state is replaced.

   Rows deleted at or below the ancient history mark are omitted, and so is the UNDO history at or below it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor
from dataclasses import field, replace

import numpy as np
import pyarrow as pa

from ...model.keys.keys import Keys
from ...model.lazy_dataclass import dataclass
from ...model.schema import ColumnSchema
from ...model.vectors.vector import Array
from ..columns.column_file import ROW_GROUP_ROWS
from ..deltas.deltas import DeltaColumn, DeltaKind, Deltas, merge
from ..deltas.inversion import Inversion, as_one, take_cells
from ..deltas.version_merge import (
    MergePlan,
    above,
    combined,
    implied_insertion,
    moved,
    newest_through,
    plan_merge,
    with_insertions,
)
from ..rowsets.rowset_metadata import RowSetMetadata
from ..rowsets.rowset_source import RowSetSource, concat_keys, stretches
from ..rowsets.rowset_writer import WORKERS, write_rowset, writers
from ..rowsets.stored_rowset import StoredRowSet, open_rowset
from ..tablet.tablet import Cut, Tablet
from .rewrite import NewFiles, carry_over, retire_replaced

PIECE_ROWS = 8 << 20
"""Number of keys merged at a time, which needs up to 100 bytes for each."""


@dataclass(frozen=True, slots=True)
class Compacted:
    """Result of a compaction: the new rowsets, and the bytes written."""

    rowsets: tuple[StoredRowSet, ...]
    bytes_written: int


def compact_rowsets(
    tablet: Tablet,
    rowsets: Sequence[StoredRowSet],
    mark: int = 0,
    workers: int = WORKERS,
    check: Callable[[], object] = lambda: None,
) -> Compacted:
    """`perform`, which takes `flush_lock`. `rowsets` that are not in the tablet's state any more are passed over."""
    with tablet.flush_lock:
        current = set(tablet.state.rowsets)
        return perform(tablet, [stored for stored in rowsets if stored in current], mark, workers, check)


def perform(
    tablet: Tablet,
    rowsets: Sequence[StoredRowSet],
    mark: int = 0,
    workers: int = WORKERS,
    check: Callable[[], object] = lambda: None,
) -> Compacted:
    """Merge rowsets of the tablet's state, whatever their overlap; one alone loses its REDO deltas and old history.

    Needs `flush_lock`; takes `write_lock` twice, for moments, and `metadata_lock`. Scans and writes go on. It reads the
    inputs once and writes about as much: two rowsets of a million rows with 13 columns take 2 s. In memory are 16 bytes
    per row, the keys of `PIECE_ROWS` rows, and of one output its REDO and UNDO deltas and, per worker thread, one
    column.

    Parameters
    ----------
    mark : int
        History at or below it may be dropped (`history.next_mark`); what is dropped decides on the tablet's mark.
    workers : int
        Threads that write columns.
    check : callable
        Called before each column, by any of the threads.

    Raises `DiskError` where the disk fails, and what `check` raises; nothing has changed then.
    """
    if not rowsets:
        return Compacted((), 0)
    with tablet.nothing_prepared():
        cut = tablet.cut()
    tablet.wait_for(cut)
    merged = _Merge(tablet, rowsets, cut, max(mark, tablet.metadata.ancient_history_mark), check)
    with NewFiles(tablet) as files:
        merged.write(files, workers)
        outputs = merged.open()  # reads: what the metadata names must be in the state, whatever the disk does
        memstores = [memstore for stored in rowsets for memstore in stored.memstores]
        ids = [stored.metadata.id for stored in rowsets]
        with tablet.between_transactions():
            files.publish(
                lambda known: known.with_rowsets(ids, merged.written), mark=merged.lost(), cut=cut, flushed=memstores
            )
            for memstore in memstores:
                memstore.snapshot()  # so that little is left to sort while writers wait
            with tablet.swap():
                merged.carry_over(outputs)
                tablet.replace_rowsets(rowsets, outputs)
    retire_replaced(tablet, rowsets, outputs)
    return Compacted(tuple(outputs), files.size)


class _Merge:
    """One compaction between its cut and the swap."""

    def __init__(
        self, tablet: Tablet, rowsets: Sequence[StoredRowSet], cut: Cut, mark: int, check: Callable[[], object]
    ):
        self.check = check
        self.tablet = tablet
        self.schema = tablet.table.schema
        self.mark = mark
        self.cut = cut
        self.sources = [RowSetSource(stored, cut.timestamp) for stored in rowsets]
        self.written: list[RowSetMetadata] = []
        self._starts = np.cumsum([0, *(source.row_count for source in self.sources)])
        """Number of each source's first row, counted through all of them."""
        self._row_targets = np.empty(0, np.int64)
        """The output row, counted through all outputs, by source row."""
        self._dropped = [0]
        """The newest timestamps of removed history."""

    def lost(self) -> int:
        """The greatest timestamp of history that was dropped; 0 for none. Reads from there on miss nothing."""
        return max(self._dropped)

    def above_mark(self, deltas: Deltas) -> Deltas:
        """The UNDO deltas that are kept. Called by several threads."""
        if deltas.oldest <= self.mark:
            self._dropped.append(newest_through(deltas.timestamps, self.mark))
        return above(deltas, self.mark)

    def is_inserted_above(self, inserted: int) -> bool:
        """True if the timestamp at which all rows of a rowset were inserted is kept; 0 means none."""
        if inserted > self.mark:
            return True
        self._dropped.append(inserted)
        return False

    def write(self, files: NewFiles, workers: int) -> None:
        """Write all outputs."""
        died = np.concatenate([source.deaths() for source in self.sources])
        self._dropped.append(newest_through(died, self.mark))
        self._row_targets = np.empty(len(died), np.int64)
        length = self._rows_per_output()
        written = 0
        with writers(workers) as pool:
            for pieces in stretches(self.sources, PIECE_ROWS):
                numbers, keys = self._piece(pieces)
                plan = plan_merge(keys, died[numbers], self.mark)
                sources = numbers[plan.sources]
                self._row_targets[sources] = np.where(plan.targets < 0, -1, plan.targets + written)
                written += plan.row_count
                for first, last, start, stop in _cuts(plan, length):
                    rows = slice(first, last)
                    targets = np.where(plan.targets[rows] < 0, -1, plan.targets[rows] - start)
                    part = _Part(sources[rows], targets, plan.is_base[rows], died[sources[rows]], stop - start)
                    base = plan.sources[rows][part.is_base]
                    self.written.append(_Output(self, part, files, pool).write(keys.take(base)))

    def _piece(self, pieces: Sequence[tuple[int, int]]) -> tuple[Array, Keys]:
        """The numbers and the keys of some rows of each source, one source behind the other."""
        numbers, keys = [], []
        for first, source, (start, stop) in zip(self._starts.tolist(), self.sources, pieces):
            if start < stop:
                numbers.append(np.arange(first + start, first + stop))
                keys.append(source.keys(self.schema, start, stop))
        return np.concatenate(numbers), concat_keys(keys)

    def _rows_per_output(self) -> int:
        """Number of rows of a rowset of the target size, by the bytes of the inputs."""
        rows = sum(source.row_count for source in self.sources)
        size = sum(source.stored.metadata.data_bytes for source in self.sources)
        return max(1, rows * self.tablet.options.rowset_bytes // max(size, 1))

    def pieces(self, part: _Part) -> list[_Piece]:
        """Ranges of each source in a part of the plan: contiguous, since sources ascend by key."""
        pieces_ = []
        owners = np.searchsorted(self._starts, part.sources, side="right") - 1
        place = 0
        for number, source in enumerate(self.sources):
            mine = np.flatnonzero(owners == number)
            if len(mine):
                rows = part.sources[mine] - self._starts[number]
                pieces_.append(_Piece(source, int(rows[0]), int(rows[-1]) + 1, place, part.targets[mine]))
                part.places[mine] = np.arange(place, place + len(mine))
                place += len(mine)
        return pieces_

    # ---- taking over ---------------------------------------------------------------------------------------------

    def open(self) -> list[StoredRowSet]:
        """The outputs."""
        tablet = self.tablet
        outputs = [
            open_rowset(tablet.fs, tablet.rowset_directory, self.schema, metadata, tablet.cache)
            for metadata in self.written
        ]
        for stored in outputs:
            stored.deleted.load()
        return outputs

    def carry_over(self, outputs: Sequence[StoredRowSet]) -> None:
        """Give the outputs the deltas that came after the cut. Needs `write_lock`, with no write undecided."""
        late = []
        for start, source in zip(self._starts.tolist(), self.sources):
            targets = self._row_targets[start : start + source.row_count]
            late.append(moved(source.in_memory_after(), targets))
        carry_over(merge(late), outputs, self.cut.index + 1, self.tablet.log.last_index)


def _cuts(plan: MergePlan, length: int) -> Iterator[tuple[int, int, int, int]]:
    """Cut a plan into outputs of about `length` rows, a multiple of 131,072, evenly spread: (first, last) among its
    `sources`, exclusive, and (start, stop) among its output rows. The versions of a key stay together."""
    outputs = max(1, round(plan.row_count / length))
    groups = -(-plan.row_count // ROW_GROUP_ROWS)
    length = -(-groups // outputs) * ROW_GROUP_ROWS
    bases = np.flatnonzero(plan.is_base)
    first = 0
    for start in range(0, plan.row_count, max(length, 1)):
        stop = min(start + length, plan.row_count)
        last = int(bases[stop - 1]) + 1
        yield first, last, start, stop
        first = last


@dataclass(frozen=True, slots=True, eq=False)
class _Part:
    """Part of a plan for one output: a `MergePlan` of its rows."""

    sources: Array
    targets: Array
    is_base: Array
    died: Array
    row_count: int
    places: Array = field(init=False)
    """Position of each of `sources` in the concatenated pieces."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "places", np.empty(len(self.sources), np.int64))


@dataclass(frozen=True, slots=True, eq=False)
class _Piece:
    """The rows `start` to `stop` (exclusive) of a source, at position `place` of the concatenated pieces, and the
    output row of each."""

    source: RowSetSource
    start: int
    stop: int
    place: int
    targets: Array

    @property
    def row_count(self) -> int:
        return self.stop - self.start


class _Output:
    """One output while it is written."""

    def __init__(self, merge_: _Merge, part: _Part, files: NewFiles, pool: Executor):
        self._merge = merge_
        self._part = part
        self._files = files
        self._pool = pool
        schema = merge_.schema
        self._keys = {column.id for column in schema.key}
        self._changing = [column.id for column in schema.columns if column.id not in self._keys]
        self._pieces = merge_.pieces(part)
        self._turned = [Inversion(self._redo(piece)) for piece in self._pieces]
        self._id = merge_.tablet.next_rowset_id()
        self._base_places = part.places[part.is_base]
        places = self._base_places
        self._is_in_order = len(places) == len(part.places) and bool((places[1:] > places[:-1]).all())
        is_older = ~part.is_base & (part.targets >= 0) & (part.died > np.uint64(merge_.mark))
        self._older = np.flatnonzero(is_older)
        """Places in the part of rows that become UNDO history, where it is still to be read."""
        self._older_values: dict[int, pa.Array] = {}
        self._old_values: list[dict[int, DeltaColumn]] = [{} for _ in self._pieces]
        """Values before the REDO deltas, of each piece and column."""

    def _redo(self, piece: _Piece) -> Deltas:
        redo = piece.source.redo(piece.start, piece.stop, self._changing)
        return replace(redo, rows=redo.rows - piece.start) if piece.start else redo

    def write(self, keys: Keys) -> RowSetMetadata:
        """Write base data and delta files; the metadata that describes them."""
        tablet = self._merge.tablet
        metadata = write_rowset(
            tablet.fs,
            tablet.rowset_directory,
            self._merge.schema,
            keys,
            self._column,
            rowset=self._id,
            pool=self._pool,
            written=self._files.paths,
        )
        self._files.size += metadata.data_bytes
        undo, inserted = self._history()
        return self._files.with_deltas(metadata, undo, self._deletes(), self._merge.cut.index, inserted)

    # ---- columns -------------------------------------------------------------------------------------------------

    def _column(self, column: ColumnSchema) -> pa.Array:
        """The newest values of a column, of the base rows; older ones are put aside. All cells of all pieces are copied
        once into one array, and once more in the order of the rows."""
        self._merge.check()
        is_key = column.id in self._keys
        arrays: list[pa.Array] = []
        newest: list[Array | None] = []
        starts = [0]
        for piece, turned in zip(self._pieces, self._turned):
            given = [] if is_key else turned.given(column.id)
            arrays += piece.source.base_groups(column, piece.start, piece.stop)
            arrays += given
            newest.append(None if is_key else turned.newest(column.id, piece.row_count))
            starts.append(starts[-1] + piece.row_count + sum(map(len, given)))
        cells = as_one(arrays, column.type.arrow)
        if is_key or all(places is None for places in newest):
            newest_cells = None
        else:
            newest_cells = np.concatenate(
                [
                    (np.arange(piece.row_count) if places is None else places) + start
                    for piece, places, start in zip(self._pieces, newest, starts)
                ]
            )
        if not is_key:
            self._put_aside(column.id, cells, newest_cells, starts)
        if newest_cells is None:
            return cells if self._is_in_order else take_cells(cells, self._base_places)
        return take_cells(cells, newest_cells if self._is_in_order else newest_cells[self._base_places])

    def _put_aside(self, column: int, cells: pa.Array, newest_cells: Array | None, starts: Sequence[int]) -> None:
        """Keep the old values of a column for `_history`."""
        if len(self._older):
            places = self._part.places[self._older]
            self._older_values[column] = take_cells(cells, places if newest_cells is None else newest_cells[places])
        for piece, turned, values, start in zip(self._pieces, self._turned, self._old_values, starts):
            old = turned.old_values(column, cells, piece.row_count, start)
            if old is not None:
                values[column] = old

    # ---- history -------------------------------------------------------------------------------------------------

    def _history(self) -> tuple[Deltas, int]:
        """The UNDO deltas of all output rows, after all columns were written, and the `RowSetMetadata.inserted` that
        replaces those of some insertions, or 0."""
        known = []
        for piece in self._pieces:
            undo = self._merge.above_mark(piece.source.undo(piece.start, piece.stop, self._changing))
            inserted = piece.source.stored.metadata.inserted
            known.append((undo, inserted if self._merge.is_inserted_above(inserted) else 0, piece.row_count))
        implied = implied_insertion(known)
        runs = []
        for piece, turned, values, (undo, inserted, _) in zip(self._pieces, self._turned, self._old_values, known):
            if inserted and inserted != implied:
                undo = with_insertions(undo, piece.start, piece.stop, inserted)
            runs.append(moved(replace(undo, rows=undo.rows - piece.start), piece.targets))
            runs.append(moved(self._merge.above_mark(turned.undo(values)), piece.targets))
        runs.append(self._lives_before())
        return combined(runs), implied

    def _lives_before(self) -> Deltas:
        """The ends of older versions of keys, as UNDO REINSERTs with their last values."""
        count = len(self._older)
        if not count:
            return Deltas.empty()
        places = np.arange(count, dtype=np.int64)
        columns = {column: DeltaColumn(places, values) for column, values in self._older_values.items()}
        kinds = np.full(count, DeltaKind.REINSERT, np.uint8)
        ends = Deltas(self._part.targets[self._older], self._part.died[self._older], kinds, columns)
        return ends.renumbered(ends.rows)

    def _deletes(self) -> Deltas:
        """The deletions of base rows: REDO deltas, since base data cannot represent a deleted row."""
        died = self._part.died[self._part.is_base]
        rows = np.flatnonzero(died)
        return Deltas(rows, died[rows], np.full(len(rows), DeltaKind.DELETE, np.uint8))
