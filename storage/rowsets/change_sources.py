"""Sources of a diff scan: the history of a rowset's rows within an interval, for DiskRowSets and MemRowSets.

    base values ── UNDO deltas above `since` lead back ── REDO deltas up to `until` lead forth

The insertion of a row is an UNDO delta here wherever it is kept: in an UNDO file, in `RowSetMetadata.inserted`, or as
the timestamp of a MemRowSet's row. So a row's state at any time within the interval is given by the last REDO delta up
to it, else by the first UNDO delta above it, else by the base data; cell by cell, and likewise for its existence.

All functions work on given rows: those with deltas.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable

import numpy as np
import pyarrow as pa

from ...model import arrow_functions as pc
from ...model.arrow_arrays import arrow_array
from ...model.keys.keys import Keys
from ...model.lazy_dataclass import dataclass
from ...model.schema import ColumnSchema, Schema
from ...model.store import ScanCounters
from ...model.vectors.vector import Array, vector_from_arrow
from ..columns.column_file import ROW_GROUP_ROWS
from ..deltas.deltas import DeltaKind, Deltas, joined, merge
from ..deltas.version_merge import with_insertions
from .memrowset import MemRowSet
from .memrowset_snapshot import MemRowSetSnapshot
from .stored_rowset import StoredRowSet, StoredRowSetView

LATEST = (1 << 63) - 1
"""A timestamp above all others: with it, writes in flight count, too."""


@dataclass(frozen=True, slots=True, eq=False)
class Events:
    """Events of the rows of a source within the interval.

    Parameters
    ----------
    rows : ndarray of int64, shape (n_events,)
        Ascending.
    times : ndarray of uint64, shape (n_events,)
        Ascending and unique within a row.
    undo, redo : Deltas
        About existence only, without values: for `exists`.
    """

    rows: Array
    times: Array
    undo: Deltas
    redo: Deltas

    def __len__(self) -> int:
        return len(self.rows)

    def exists(self, rows: Array, times: Array) -> Array:
        """Rows that exist at their time, which is in the interval: a parallel ndarray of bool."""
        return _exist(self.undo, self.redo, rows, times)


def _exist(undo: Deltas, redo: Deltas, rows: Array, times: Array) -> Array:
    """`Events.exists`, by deltas about existence."""
    existing = np.ones(len(rows), np.bool_)
    for deltas, places in (
        (undo, first_after(undo.rows, undo.timestamps, rows, times)),
        (redo, last_until(redo.rows, redo.timestamps, rows, times)),
    ):
        told = places >= 0
        revived = deltas.kinds[places[told]] == DeltaKind.REINSERT
        existing[told] = revived
    return existing


class ChangeSource(ABC):
    """The rows of one rowset from `since` (exclusive) to `until`; writes up to `until` are decided, unless it is
    `LATEST`: then those in flight count, too."""

    def __init__(self, row_count: int, since: int, until: int):
        self.row_count = row_count
        self.since = since
        self.until = until

    @abstractmethod
    def undo_heads(self, start: int, stop: int) -> Deltas:
        """All UNDO deltas above `since` of the rows `start` to `stop` (exclusive), without values."""

    @abstractmethod
    def redo_heads(self, start: int, stop: int) -> Deltas:
        """The REDO deltas up to `until` likewise; UPDATEs at or below `since` may be missing."""

    @abstractmethod
    def column_deltas(self, column: int, start: int, stop: int) -> tuple[list[Deltas], list[Deltas]]:
        """(UNDO runs, REDO runs) of the rows `start` to `stop` (exclusive), with the values of one column; such that do
        not matter within the interval may be among them."""

    @abstractmethod
    def base(self, column: ColumnSchema, rows: Array, counters: ScanCounters) -> pa.Array:
        """The base values of some rows (ascending, none twice)."""

    def events(self) -> Events:
        """Events of all rows."""
        undo, redo = self.undo_heads(0, self.row_count), self.redo_heads(0, self.row_count)
        before = undo.timestamps <= np.uint64(self.until)
        after = redo.timestamps > np.uint64(self.since)
        rows = np.concatenate([undo.rows[before], redo.rows[after]])
        times = np.concatenate([undo.timestamps[before], redo.timestamps[after]])
        if before.any() and after.any():
            order = np.lexsort((times, rows))
            rows, times = rows[order], times[order]
        fresh = np.ones(len(rows), np.bool_)
        fresh[1:] = (rows[1:] != rows[:-1]) | (times[1:] != times[:-1])
        return Events(rows[fresh], times[fresh], _about_existence(undo), _about_existence(redo))

    def keys(self, schema: Schema, rows: Array, counters: ScanCounters) -> Keys:
        """The primary keys of some rows (ascending, none twice)."""
        columns = tuple(vector_from_arrow(c.type, self.base(c, rows, counters)) for c in schema.key)
        return Keys(tuple(c.type for c in schema.key), columns)

    def values(self, column: ColumnSchema, rows: Array, times: Array, counters: ScanCounters) -> pa.Array:
        """Values of a column of some rows at their time, which is in the interval.

        Parameters
        ----------
        rows : ndarray of int64, shape (n,)
            In any order, repetitions allowed; not empty.
        times : ndarray of uint64, shape (n,)
            Times at which the row exists.
        """
        distinct, source = distinct_rows(rows)
        cells = [self.base(column, distinct, counters)]
        undo, redo = self.column_deltas(column.id, int(distinct[0]), int(distinct[-1]) + 1)
        above = _cells(undo, column.id, lambda run: run.timestamps > np.uint64(self.since))
        upto = _cells(redo, column.id, lambda run: run.timestamps <= np.uint64(self.until))
        for deltas, find in ((above, first_after), (upto, last_until)):
            given = deltas.columns.get(column.id)
            if given is None:
                continue
            places = find(deltas.rows[given.places], deltas.timestamps[given.places], rows, times)
            source = np.where(places >= 0, sum(map(len, cells)) + places, source)
            cells.append(given.values)
        array = cells[0] if len(cells) == 1 else pa.concat_arrays(cells)
        return array.take(arrow_array(source))

    def differ(self, schema: Schema, rows: Array) -> Array:
        """Which of some rows (ndarray of int64, in any order, not empty) that exist at `until` did not exist at
        `since`, or had another value in a column: ndarray of bool. A float that is not a number differs from itself."""
        start, stop = int(rows.min()), int(rows.max()) + 1
        undo, redo = _about_existence(self.undo_heads(start, stop)), _about_existence(self.redo_heads(start, stop))
        first, last = np.full(len(rows), self.since, np.uint64), np.full(len(rows), self.until, np.uint64)
        differing = ~_exist(undo, redo, rows, first)
        for column in schema.columns[schema.key_columns :]:
            same = np.flatnonzero(~differing)
            if not len(same):
                break
            before = self.values(column, rows[same], first[same], ScanCounters())
            after = self.values(column, rows[same], last[same], ScanCounters())
            equal = pc.or_(pc.fill_null(pc.equal(before, after), False), pc.and_(before.is_null(), after.is_null()))
            differing[same] = ~equal.to_numpy(zero_copy_only=False)
        return differing


def _about_existence(deltas: Deltas) -> Deltas:
    return deltas.select(deltas.kinds != DeltaKind.UPDATE)


def _cells(runs: Iterable[Deltas], column: int, within: Callable[[Deltas], Array]) -> Deltas:
    """The deltas of several runs that give a column a value at the times of interest."""
    chosen = []
    for run in runs:
        given = run.columns.get(column)
        if given is not None:
            single = Deltas(run.rows, run.timestamps, run.kinds, {column: given})
            mask = np.zeros(len(run), np.bool_)
            mask[given.places] = True
            chosen.append(single.select(mask & within(run)))
    return merge(chosen)


def distinct_rows(rows: Array) -> tuple[Array, Array]:
    """Some rows ascending, none twice, and for each of `rows` its place among them."""
    if (rows[1:] > rows[:-1]).all():
        return rows, np.arange(len(rows))
    distinct, places = np.unique(rows, return_inverse=True)
    return distinct, places


# ---- places in time ----------------------------------------------------------------------------------------------


def last_until(rows: Array, times: Array, asked_rows: Array, asked_times: Array) -> Array:
    """Positions of the last entry of each requested row at or before its time: ndarray of int64, -1 for none.

    `rows` and `times` (ndarrays of int64 and uint64) are ordered by row, then by time.
    """
    places = _behind(rows, times, asked_rows, asked_times) - 1
    found = places >= 0
    found[found] = rows[places[found]] == asked_rows[found]
    return np.where(found, places, -1)


def first_after(rows: Array, times: Array, asked_rows: Array, asked_times: Array) -> Array:
    """Likewise the place of the row's first entry after the time."""
    places = _behind(rows, times, asked_rows, asked_times)
    found = places < len(rows)
    found[found] = rows[places[found]] == asked_rows[found]
    return np.where(found, places, -1)


def _behind(rows: Array, times: Array, asked_rows: Array, asked_times: Array) -> Array:
    """Number of entries before each requested row and time: ndarray of int64."""
    # Times as ranks among the requested ones, so that row and time fit one integer, which numpy searches for.
    first = asked_times[:1]
    ranks = first if (asked_times == first).all() else np.unique(asked_times)
    entries = rows * (len(ranks) + 1) + np.searchsorted(ranks, times)
    asked = asked_rows * (len(ranks) + 1) + np.searchsorted(ranks, asked_times)
    return np.searchsorted(entries, asked, side="right").astype(np.int64)


# ---- DiskRowSets -------------------------------------------------------------------------------------------------


class StoredSource(ChangeSource):
    """A DiskRowSet with its deltas."""

    def __init__(self, stored: StoredRowSetView, since: int, until: int):
        super().__init__(stored.row_count, since, until)
        self._rowset = stored.rowset
        self._inserted = stored.metadata.inserted
        self._undo = stored.stored.undo
        self._redo = stored.stored.redo
        # Runs do not change: all columns are read from the same ones.
        self._memory = [run for memstore in stored.stored.memstores for run in memstore.snapshot()]

    def undo_heads(self, start: int, stop: int) -> Deltas:
        later = [file for file in self._undo if file.statistics.newest > self.since]
        heads = merge([file.read(start, stop, ()) for file in later])
        heads = heads.select(heads.timestamps > np.uint64(self.since))
        if self._inserted <= self.since:
            return heads
        # All rows without an UNDO delta of their own insertion came at `inserted`.
        existence = merge([file.existence().between(start, stop) for file in self._undo])
        dated = with_insertions(existence, start, stop, self._inserted)
        together = dated.select((dated.timestamps == np.uint64(self._inserted)) & (dated.kinds == DeltaKind.DELETE))
        known = heads.rows[(heads.timestamps == np.uint64(self._inserted)) & (heads.kinds == DeltaKind.DELETE)]
        return merge([heads, together.select(~np.isin(together.rows, known))])

    def redo_heads(self, start: int, stop: int) -> Deltas:
        heads = []
        for file in self._redo:
            if file.statistics.newest > self.since:
                heads.append(file.read(start, stop, ()))
            elif file.statistics.deletes:
                heads.append(file.existence().between(start, stop))
        heads += [_without_values(run).between(start, stop) for run in self._memory]
        return merge([run.until(self.until) for run in heads])

    def column_deltas(self, column: int, start: int, stop: int) -> tuple[list[Deltas], list[Deltas]]:
        undo = [file.read(start, stop, (column,)) for file in self._undo if file.statistics.newest > self.since]
        redo = [file.read(start, stop, (column,)) for file in self._redo if file.statistics.oldest <= self.until]
        return undo, [*redo, *(run.between(start, stop) for run in self._memory if column in run.columns)]

    def base(self, column: ColumnSchema, rows: Array, counters: ScanCounters) -> pa.Array:
        done = ScanCounters()
        arrays = []
        for group in np.split(rows, np.flatnonzero(np.diff(rows // ROW_GROUP_ROWS)) + 1):
            first = int(group[0])
            (batch,) = self._rowset.scan((column,), (), first, int(group[-1]) + 1, done)
            arrays.append(batch.select(group - first).column(0).to_arrow())
        counters.pages_read += done.pages_read
        counters.bytes_read += done.bytes_read
        return arrays[0] if len(arrays) == 1 else pa.concat_arrays(arrays)


def _without_values(deltas: Deltas) -> Deltas:
    return Deltas(deltas.rows, deltas.timestamps, deltas.kinds)


# ---- MemRowSets --------------------------------------------------------------------------------------------------


class MemorySource(ChangeSource):
    """A MemRowSet: rows in the order of insertion, each with its timestamp, and their mutations."""

    def __init__(self, snapshot: MemRowSetSnapshot, since: int, until: int):
        super().__init__(snapshot.row_count, since, until)
        self._snapshot = snapshot
        self._starts = np.cumsum([0, *(len(chunk) for chunk in snapshot.chunks)])

    def undo_heads(self, start: int, stop: int) -> Deltas:
        aborted = np.array(sorted(self._snapshot.aborted), np.uint64)
        runs = []
        for first, chunk in zip(self._starts.tolist(), self._snapshot.chunks):
            if chunk.newest > self.since and first < stop and first + len(chunk) > start:
                stamps = chunk.stamps()
                rows = np.flatnonzero((stamps > np.uint64(self.since)) & ~np.isin(stamps, aborted))
                runs.append(Deltas(rows + first, stamps[rows], np.full(len(rows), DeltaKind.DELETE, np.uint8)))
        return joined(runs).between(start, stop)

    def redo_heads(self, start: int, stop: int) -> Deltas:
        runs = [_without_values(run).between(start, stop) for run in self._snapshot.mutations]
        return merge([run.until(self.until) for run in runs])

    def column_deltas(self, column: int, start: int, stop: int) -> tuple[list[Deltas], list[Deltas]]:
        return [], [run.between(start, stop) for run in self._snapshot.mutations if column in run.columns]

    def base(self, column: ColumnSchema, rows: Array, counters: ScanCounters) -> pa.Array:
        numbers = np.searchsorted(self._starts, rows, side="right") - 1
        parts = []
        for mine in np.split(np.arange(len(rows)), np.flatnonzero(np.diff(numbers)) + 1):
            number = int(numbers[mine[0]])
            array = self._snapshot.column_array(column, [self._snapshot.chunks[number]])
            parts.append(array.take(arrow_array(rows[mine] - self._starts[number])))
        return parts[0] if len(parts) == 1 else pa.concat_arrays(parts)


def latest_changes(home: MemRowSet | StoredRowSet, schema: Schema, since: int) -> ChangeSource:
    """The history of a rowset, by a table's schema, from a time up to now, writes in flight included. Needs the
    tablet's `write_lock`."""
    if isinstance(home, MemRowSet):
        return MemorySource(home.snapshot(schema), since, LATEST)
    return StoredSource(home.view(LATEST), since, LATEST)
