"""One row group of a scan over a DiskRowSet: which rows survive the predicates, and the columns read so far."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from .column_reader import ColumnReader
from .latest_state import RowSetPatches, places_within
from .patched_columns import patched_column
from .scan_predicates import BoundPredicate
from .schema import ColumnSchema
from .store import ScanCounters
from .vector import Array, Const, Vector

GATHER_SHARE = 32
"""Once fewer than one row in 32 survives, gathering the rows is cheaper than comparing all (measured: 65,536 two-byte
codes are compared in 6 to 12 µs, but numpy needs 80 µs to list the survivors of a mask with 4 % of them)."""


@dataclass(frozen=True, slots=True, eq=False)
class Judged:
    """What a predicate says of rows (ndarray of int64, ascending) whose values differ from those of the base: `passed`
    is an ndarray of bool beside them."""

    rows: Array
    passed: Array

    @property
    def passing(self) -> Array:
        return self.rows[self.passed]

    @property
    def failing(self) -> Array:
        return self.rows[~self.passed]

    def within(self, start: int, stop: int) -> Judged:
        """The same for the rows from `start` to `stop`, relative to `start`."""
        low, high = places_within(self.rows, start, stop)
        return Judged(self.rows[low:high] - start, self.passed[low:high])

    def correct_at(self, rows: Array, mask: Array) -> None:
        """Set `mask`, which is beside `rows` (ascending, not empty), for those of them that are judged."""
        places = rows.searchsorted(self.rows)
        here = rows.take(places, mode="clip") == self.rows
        mask[places[here]] = self.passed[here]


class RowGroup:
    """The part of a scan within one row group: rows `start` to `stop`, and the columns of it read so far."""

    __slots__ = ("_patched", "_read", "_rows", "_rows_ascend", "counters", "length", "start", "stop")

    def __init__(self, start: int, stop: int, counters: ScanCounters):
        self.start = start
        self.stop = stop
        self.length = stop - start
        self.counters = counters
        self._read: dict[ColumnReader, Vector] = {}
        self._patched: dict[int, Vector] = {}
        self._rows: Array | None = None
        self._rows_ascend = False

    def survivors(
        self,
        todo: Sequence[BoundPredicate],
        judged: Sequence[Judged] = (),
        rows: Array | None = None,
        excluded: Sequence[Array] = (),
    ) -> Array | None:
        """Rows (relative to `start`, ascending, ndarray of intp) that satisfy all predicates; None for all rows.

        Parameters
        ----------
        todo : sequence of BoundPredicate
            Evaluated on the base values.
        judged : sequence of Judged, optional
            For each of them, what it says of the rows that have other values.
        rows : ndarray of int64, optional
            Only these come into question; ascending, not empty.
        excluded : sequence of ndarray of int64
            Rows that are out whatever the predicates say.
        """
        mask: Array | None = None
        if excluded:
            mask = np.ones(self.length, np.bool_)
            for out in excluded:
                mask[out] = False
            if rows is not None:
                rows = rows[mask[rows]]
                if not len(rows):
                    return rows
        for number, predicate in enumerate(todo):
            if rows is not None:
                found = predicate.mask(self.column(predicate.reader, rows))
                if judged:
                    judged[number].correct_at(rows, found)
                rows = rows[found]
                if not len(rows):
                    return rows
                continue
            found = predicate.mask(self.column(predicate.reader, None))
            if judged:
                found[judged[number].rows] = judged[number].passed
            mask = found if mask is None else np.logical_and(mask, found, out=mask)
            if np.count_nonzero(mask) * GATHER_SHARE < self.length:
                rows = np.flatnonzero(mask)
                if not len(rows):
                    return rows
        if rows is None and mask is not None and not mask.all():
            rows = np.flatnonzero(mask)
        return rows

    def column(self, reader: ColumnReader, rows: Array | None) -> Vector:
        """A column at `rows`, or all of it; whole columns are kept for the batch that comes of this row group."""
        whole = self._read.get(reader)
        if whole is not None:
            return whole if rows is None else whole.take(rows)
        vector = reader.read(self.start, self.stop, rows, self.counters)
        if rows is None:
            self._read[reader] = vector
        return vector

    def patched(
        self, column: ColumnSchema, reader: ColumnReader | None, patches: RowSetPatches, rows: Array | None
    ) -> Vector:
        """As `column`, with patches over it; a column without a file has its initial value below."""
        whole = self._patched.get(column.id)
        if whole is not None:
            return whole if rows is None else whole.take(rows)
        vector: Vector
        if reader is None:
            vector = Const(column.type, column.initial, self.length if rows is None else len(rows))
        else:
            vector = self.column(reader, rows)
        patched = patched_column(patches, column, reader)
        if patched is not None:
            vector = patched.over(vector, self.start, self.stop, rows, self._ascends(rows))
        if rows is None:
            self._patched[column.id] = vector
        return vector

    def _ascends(self, rows: Array | None) -> bool:
        """Do row numbers ascend strictly? Usually those of the survivors are asked for, for several columns."""
        if rows is None:
            return True
        if rows is not self._rows:
            self._rows = rows
            self._rows_ascend = bool((rows[1:] > rows[:-1]).all())
        return self._rows_ascend

    def loader(self, reader: ColumnReader) -> Callable[[Array | None], Vector]:
        """What reads a column of the batch."""
        return partial(self.column, reader)

    def patched_loader(
        self, column: ColumnSchema, reader: ColumnReader | None, patches: RowSetPatches
    ) -> Callable[[Array | None], Vector]:
        """As `loader`, for `patched`: what the deltas say of a column is not read before, either."""
        return partial(self.patched, column, reader, patches)

    def count_skipped(self, readers: Sequence[ColumnReader]) -> None:
        """Count the row group as one whose statistics ruled it out."""
        self.counters.rowgroups_skipped += 1
        self.counters.pages_skipped += sum(_page_count(r, self.start, self.stop) for r in readers)

    def count_untouched(self, readers: Sequence[ColumnReader]) -> None:
        """Count the pages of the columns that were not needed to see that no row survives."""
        untouched = [r for r in readers if r not in self._read]
        self.counters.pages_skipped += sum(_page_count(r, self.start, self.stop) for r in untouched)


def _page_count(reader: ColumnReader, start: int, stop: int) -> int:
    first, last = reader.page_range(start, stop)
    return last - first
