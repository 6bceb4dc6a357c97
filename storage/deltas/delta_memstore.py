"""DeltaMemStore: the newest changes of one rowset, in memory: of a DiskRowSet since its last delta flush, of a
MemRowSet since its birth (its mutation lists, Kudu paper section 4.2).

    runs     [400,000 deltas][60,000][9,000]     sorted by row and timestamp, one behind the other in time
    tail     [700]                               the last run, while it is of few single deltas: columns made as needed
    pending  (row, kind, values, timestamp) or a run of a batch, unsorted

A writer only appends to `pending`. The next reader turns it into a run and joins that with the runs before it while
these are not clearly larger. So there are few runs, each delta is copied a few times for any number of reads, and a
snapshot of an unchanged store is free. Single deltas first join the tail, which costs a reader only the columns that it
uses. Nothing is dropped: history stays readable.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any

import numpy as np
import pyarrow as pa

from ...model.schema import Schema
from ...model.vectors.vector import Array
from ..single_rows.row_deltas import FOLD_ROWS, Folded, RowDelta, folded, look_up_chain, look_up_run, rows_in_run
from .deltas import DeltaKind, Deltas, merge
from .single_deltas import DeltaTail, delta_bytes, with_all_columns

GROWTH = 3
"""A run is joined with the previous one unless that is larger by this factor."""
TAIL_ROWS = 1024
"""The tail becomes a run like the others when it would have more deltas."""


class DeltaMemStore:
    """All methods may be called from several threads; those that change it, by one at a time (the tablet's writer).

    Timestamps come in ascending order, but for those of `restamp`, which ascend for each row; an aborted write leaves
    no trace.
    """

    def __init__(self, schema: Schema):
        self.schema = schema
        self.count = 0
        """Number of deltas, aborted ones included."""
        self.nbytes = 0
        """About the memory taken."""
        self.first_index = 0
        """The least index of a log entry with a delta here; 0 while there is none."""
        self.last_index = 0
        """Index of the log entry with the newest delta."""
        self.newest = 0
        """The greatest timestamp of a delta."""
        self.created = 0.0
        """`time.monotonic` of the first delta: maintenance flushes old stores."""
        self.version = 0
        """Grows with every change: while it is the same, so is what `snapshot` answers."""
        self._types = {column.id: column.type.arrow for column in schema.columns}
        self._pending: list[RowDelta | Deltas] = []
        self._runs: tuple[Deltas, ...] = ()
        self._tail = DeltaTail(self._types)
        """Source of the last run, while that is the tail; else empty."""
        self._single: dict[int, list[RowDelta]] = {}
        """The deltas by row that are in no run yet, as long as `_is_sparse`."""
        self._folds: dict[int, tuple[Folded, ...]] = {}
        """Folded deltas of rows with many deltas in `_single`; the newest fold first."""
        self._joins = 0
        """Number of times that new runs have replaced pending deltas."""
        self._is_sparse = True
        """All that is in no run yet is in `_single`."""
        self._snapshot_version = 0
        self._mutex = threading.Lock()
        """Guards `_pending` and the numbers above; held briefly, since the writer waits for it."""
        self._joining = threading.Lock()
        """Guards `_runs` and `_tail`; held while a reader joins runs. Acquired before `_mutex`. Look-ups of single
        deltas do not wait for it."""

    # ---- writing -------------------------------------------------------------------------------------------------

    def use_schema(self, schema: Schema) -> None:
        """The table was altered: from now on deltas may set its new columns, too."""
        with self._joining:
            self.schema = schema
            self._types |= {column.id: column.type.arrow for column in schema.columns}

    def append(self, deltas: Deltas, index: int) -> None:
        """Take over the deltas of the log entry `index`; no timestamp is below those that are here.

        Several runs with the same timestamp may come (entries of one large write); their rows differ.
        """
        if not len(deltas):
            return
        newest, size = deltas.newest, deltas.nbytes
        with self._mutex:
            self._pending.append(deltas)
            self._is_sparse = False
            self.count += len(deltas)
            self.nbytes += size
            self.last_index = index
            self.newest = max(self.newest, newest)
            self.version += 1
        if index < self.first_index or not self.first_index:
            self._note_first(index)

    def append_row(self, row: int, kind: DeltaKind, values: Mapping[int, Any], timestamp: int, index: int) -> None:
        """`append` for one delta, in a few microseconds; `values` are Python values as `pa.array` takes them, by column
        id. The store keeps the mapping, which the caller must not change later."""
        delta = (row, kind, values, timestamp)
        size = delta_bytes(delta)
        with self._mutex:
            self._pending.append(delta)
            self._chain(delta)
            self.count += 1
            self.nbytes += size
            self.last_index = index
            if timestamp > self.newest:
                self.newest = timestamp
            self.version += 1
        if index < self.first_index or not self.first_index:
            self._note_first(index)

    def _chain(self, delta: RowDelta) -> None:
        """Let look-ups find a single delta. Needs `_mutex`."""
        row = delta[0]
        chain = self._single.get(row)
        if chain is None:
            self._single[row] = [delta]
            return
        chain.append(delta)
        if not len(chain) % FOLD_ROWS:
            self._folds[row] = folded(chain, self._folds.get(row, ()))

    def _note_first(self, index: int) -> None:
        """Not only once: the index of an entry that failed is given again, to one whose deltas may come here later."""
        if not self.first_index:
            self.created = time.monotonic()
        self.first_index = index

    def abort(self, timestamp: int) -> None:
        """Forget the deltas of a failed write."""
        with self._joining:
            self._join()
            kept = (
                run if run.newest < timestamp else run.select(run.timestamps != np.uint64(timestamp))
                for run in self._runs
            )
            self._runs = tuple(run for run in kept if len(run))
            self._tail = DeltaTail(self._types, [delta for delta in self._tail.deltas if delta[3] != timestamp])
            with self._mutex:
                self.version += 1
                self._snapshot_version = self.version

    def restamp(self, old: int, new: int) -> None:
        """Give the deltas with one timestamp a later one; they are the newest of their rows."""
        with self._joining:
            self._join()
            runs = list(self._runs)
            if self._tail and runs:
                runs[-1] = with_all_columns(runs[-1])
            self._runs = tuple(run.restamped(old, new) for run in runs)
            self._tail = DeltaTail(self._types)
            with self._mutex:
                self.newest = max(self.newest, new)
                self.version += 1
                self._snapshot_version = self.version

    # ---- reading -------------------------------------------------------------------------------------------------

    def snapshot(self) -> tuple[Deltas, ...]:
        """The current deltas, as runs for `deltas.resolve`; later ones are not visible in it.

        The runs are in order of time for each row. While nothing changes,
        the result is the same tuple; unchanged runs are the same objects in later results.
        """
        if self._snapshot_version == self.version:
            return self._runs
        with self._joining:
            self._join()
            return self._runs

    def look_up(self, row: int, timestamp: int, columns: Sequence[int], found: dict[int, Any]) -> DeltaKind | None:
        """Looks up one row at a timestamp whose writes are decided, in a few microseconds: `look_up_run`."""
        if not self.count:
            return None
        # Without the mutex, which many look-ups at once would hand to each other: what is read belongs together unless
        # new runs have been put in place meanwhile.
        joins, is_sparse = self._joins, self._is_sparse
        single, runs, folds = self._single.get(row, ()), self._runs, self._folds.get(row, ())
        if not is_sparse or joins != self._joins:
            single, runs = (), self.snapshot()
        kind = look_up_chain(single, folds, timestamp, columns, found) if single else None
        for run in reversed(runs):
            if kind is not None:
                break
            kind = look_up_run(run, row, timestamp, columns, found)
        return kind

    def changed(self, rows: Sequence[int]) -> set[int]:
        """Those of some rows, at least one, that deltas are here of, whatever their time."""
        if not self.count:
            return set()
        # As `look_up`.
        joins, is_sparse = self._joins, self._is_sparse
        single, runs = self._single, self._runs
        if not is_sparse or joins != self._joins:
            single, runs = {}, self.snapshot()
        changed_rows = {row for row in rows if row in single} if single else set()
        for run in runs:
            changed_rows.update(rows_in_run(run, rows))
        return changed_rows

    def touched(self, rows: Array, since: int) -> Array:
        """Which of some rows have a delta above a timestamp, writes in flight included: as `Deltas.touched`."""
        touched_rows = np.zeros(len(rows), np.bool_)
        if self.newest > since:
            for run in self.snapshot():
                touched_rows |= run.touched(rows, since)
        return touched_rows

    def row_touched(self, row: int, since: int) -> bool:
        """`touched` for one row: single deltas need not become a run."""
        if self.newest <= since:
            return False
        # As `look_up`.
        joins, is_sparse = self._joins, self._is_sparse
        single, runs = self._single.get(row, ()), self._runs
        if not is_sparse or joins != self._joins:
            single, runs = (), self.snapshot()
        if single and single[-1][3] > since:
            return True
        return any(run.row_touched(row, since) for run in runs)

    def _join(self) -> None:
        """Turn pending deltas into runs. Needs `_joining`."""
        with self._mutex:
            pending, self._pending = self._pending, []
            version = self.version
        if pending:
            length = len(self._tail)
            try:
                runs, tail = self._joined(pending)
                size = tail.nbytes + sum(run.nbytes for run in runs[: len(runs) - bool(tail)])
            except BaseException:  # Ctrl-C, say, or no memory: all is as before
                self._tail = DeltaTail(self._types, self._tail.deltas[:length])
                with self._mutex:
                    self._pending = pending + self._pending
                raise
            with self._mutex:
                self._publish(runs, tail, size)
        self._snapshot_version = version

    def _joined(self, pending: Sequence[RowDelta | Deltas]) -> tuple[list[Deltas], DeltaTail]:
        """All runs including the pending deltas, and the tail, which may be the old one, extended."""
        runs, tail = list(self._runs), self._tail
        single = [delta for delta in pending if isinstance(delta, tuple)]
        if len(single) == len(pending) and len(tail) + len(single) <= TAIL_ROWS:
            if tail:
                runs.pop()
            tail.extend(single)
            return [*runs, tail.run()], tail
        if tail:
            runs[-1] = with_all_columns(runs[-1])
        runs.append(merge(_to_runs(pending, self._types)))
        while len(runs) > 1 and len(runs[-2]) <= GROWTH * len(runs[-1]):
            runs[-2:] = [merge(runs[-2:])]
        return runs, DeltaTail(self._types)

    def _publish(self, runs: Sequence[Deltas], tail: DeltaTail, size: int) -> None:
        """Publish new runs of `size` bytes; pending then has only the deltas added since the runs were begun. Needs
        both locks."""
        # In this order: a look-up takes what it reads for one state where it is sparse and `_joins` stays as it was.
        self._is_sparse = False
        self._joins += 1
        self._runs, self._tail = tuple(runs), tail
        self._single, self._folds = {}, {}
        single = [delta for delta in self._pending if isinstance(delta, tuple)]
        for delta in single:
            self._chain(delta)
        self._is_sparse = len(single) == len(self._pending)
        self.nbytes = size + sum(delta_bytes(p) if isinstance(p, tuple) else p.nbytes for p in self._pending)


def _to_runs(pending: Sequence[RowDelta | Deltas], types: Mapping[int, pa.DataType]) -> list[Deltas]:
    runs: list[Deltas] = []
    for single, group in groupby(pending, lambda item: isinstance(item, tuple)):
        if single:
            runs.append(with_all_columns(DeltaTail(types, list(group)).run()))  # type: ignore[arg-type]
        else:
            runs.extend(group)  # type: ignore[arg-type]
    return runs
