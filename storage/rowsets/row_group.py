"""One row group of a scan over a DiskRowSet: which rows survive the predicates, and the columns read so far."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
import pyarrow as pa

from ...model.arrow_arrays import arrow_array, numpy_array
from ...model.lazy_dataclass import dataclass
from ...model.schema import ColumnSchema
from ...model.store import ScanCounters
from ...model.vectors.vector import Array, Const, Dict, Flat, Narrow, Text, Vector, Wide
from ..columns.column_reader import ColumnReader
from ..deltas.latest_state import RowSetPatches, places_within
from ..predicate_eval.bind_predicates import BoundPredicate
from .patched_columns import patched_column

GATHER_SHARE = 32
"""Once fewer than one row in 32 survives, gathering the rows is cheaper than comparing all (measured: 65,536 two-byte
codes are compared in 6 to 12 µs, but numpy needs 80 µs to list the survivors of a mask with 4 % of them)."""
FILTER_SHARE = 32
"""While fewer than one row in 32 is missing, whole columns are read and freed of the missing rows by runs (measured:
a filter of 131,072 codes takes 25 to 40 µs then, gathering them by number 110 µs)."""
_STEP = 256
"""Step of a sample of row numbers that detects, nearly always, that they do not ascend."""
WHOLE_SHARE = 4
"""From one row in 4 on, rows in another order than theirs are taken of a whole column under its patches (measured, of
131,072 codes of 1 to 4 bytes: copying and patching a column takes 8 to 30 µs, finding where its patches went 300)."""


@dataclass(frozen=True, slots=True, eq=False)
class Judged:
    """Result of a predicate for changed rows (ndarray of int64, ascending): `passed` is a parallel ndarray of bool."""

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
        """Set `mask`, parallel to `rows` (ascending, not empty), for the judged rows."""
        places = rows.searchsorted(self.rows)
        here = rows.take(places, mode="clip") == self.rows
        mask[places[here]] = self.passed[here]


class RowGroup:
    """The part of a scan within one row group: rows `start` to `stop`, and the columns of it read so far."""

    __slots__ = ("_filter", "_patched", "_read", "_rows", "_rows_ascend", "counters", "length", "start", "stop")

    def __init__(self, start: int, stop: int, counters: ScanCounters):
        self.start = start
        self.stop = stop
        self.length = stop - start
        self.counters = counters
        self._read: dict[ColumnReader, Vector] = {}
        self._patched: dict[int, Vector] = {}
        self._rows: Array | None = None
        self._rows_ascend = False
        self._filter: pa.BooleanArray | None = None
        """The survivors, `_rows`, as a mask, where nearly all rows survive."""

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
        if excluded and (rows is not None or not todo):
            mask = _without(np.ones(self.length, np.bool_), excluded)
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
            mask = _without(found, excluded) if mask is None else np.logical_and(mask, found, out=mask)
            if np.count_nonzero(mask) * GATHER_SHARE < self.length:
                rows = np.flatnonzero(mask)
                if not len(rows):
                    return rows
        if rows is None and mask is not None:
            missing = self.length - np.count_nonzero(mask)
            if missing:
                rows = np.flatnonzero(mask)
                self._rows, self._rows_ascend = rows, True
                if missing * FILTER_SHARE < self.length:
                    self._filter = _bitmap(mask)
        return rows

    def column(self, reader: ColumnReader, rows: Array | None) -> Vector:
        """A column at `rows`, or all of it; whole columns are kept for the batch that comes of this row group."""
        if rows is not None and rows is self._rows and self._filter is not None:
            return _filtered(self.column(reader, None), self._filter)
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
        if rows is not None and rows is self._rows and self._filter is not None:
            return _filtered(self.patched(column, reader, patches, None), self._filter)
        whole = self._patched.get(column.id)
        if whole is not None:
            return whole if rows is None else whole.take(rows)
        if rows is not None and len(rows) * WHOLE_SHARE > self.length and not self._ascends(rows):
            return self.patched(column, reader, patches, None).take(rows)
        patched = patched_column(patches, column, reader)
        vector = None if patched is None else patched.covering(self.start, self.stop)
        if vector is not None:
            vector = vector if rows is None else vector.take(rows)
        else:
            if reader is None:
                vector = Const(column.type, column.initial, self.length if rows is None else len(rows))
            else:
                vector = self.column(reader, rows)
            if patched is not None:
                vector = patched.over(vector, self.start, self.stop, rows, self._ascends(rows))
        if rows is None:
            self._patched[column.id] = vector
        return vector

    def _ascends(self, rows: Array | None) -> bool:
        """True if row numbers ascend strictly. Mostly called with the remaining rows, once per column."""
        if rows is None:
            return True
        if rows is not self._rows:
            self._rows, self._filter = rows, None
            few = rows[::_STEP]
            self._rows_ascend = bool((few[1:] > few[:-1]).all() and (rows[1:] > rows[:-1]).all())
        return self._rows_ascend

    def loader(self, reader: ColumnReader) -> Callable[[Array | None], Vector]:
        """Function that reads a column of the batch."""
        return partial(self.column, reader)

    def patched_loader(
        self, column: ColumnSchema, reader: ColumnReader | None, patches: RowSetPatches
    ) -> Callable[[Array | None], Vector]:
        """As `loader`, for `patched`: deltas of a column are not read earlier, either."""
        return partial(self.patched, column, reader, patches)

    def count_skipped(self, readers: Sequence[ColumnReader]) -> None:
        """Count the row group as one whose statistics ruled it out."""
        self.counters.rowgroups_skipped += 1
        self.counters.pages_skipped += sum(_page_count(r, self.start, self.stop) for r in readers)

    def count_untouched(self, readers: Sequence[ColumnReader]) -> None:
        """Count the pages of the columns that were not needed to see that no row survives."""
        untouched = [r for r in readers if r not in self._read]
        self.counters.pages_skipped += sum(_page_count(r, self.start, self.stop) for r in untouched)


def _without(mask: Array, excluded: Sequence[Array]) -> Array:
    """A mask from which rows are taken out."""
    for out in excluded:
        mask[out] = False
    return mask


def _bitmap(mask: Array) -> pa.BooleanArray:
    return pa.Array.from_buffers(pa.bool_(), len(mask), [None, pa.py_buffer(np.packbits(mask, bitorder="little"))])


def _filtered(vector: Vector, kept: pa.BooleanArray) -> Vector:
    """The rows of a vector where `kept` is true."""
    if isinstance(vector, (Text, Wide)):
        return type(vector)(vector.type, vector.array.filter(kept))
    validity = None if vector.validity is None else _filtered_array(vector.validity, kept)
    if isinstance(vector, Narrow):
        return Narrow(vector.type, _filtered_array(vector.codes, kept), vector.base, validity, vector.top)
    if isinstance(vector, Dict):
        return Dict(vector.type, _filtered_array(vector.codes, kept), vector.dictionary, validity, vector.ordered)
    if isinstance(vector, Flat) and vector.values().dtype.kind in "iufb":
        return Flat(vector.type, _filtered_array(vector.values(), kept), validity, vector.low, vector.high)
    return vector.filter(numpy_array(kept))


def _filtered_array(array: Array, kept: pa.BooleanArray) -> Array:
    # As unsigned integers of the same size: to Arrow, booleans are bits.
    found: Array = numpy_array(arrow_array(array.view(f"u{array.itemsize}")).filter(kept))
    return found.view(array.dtype)


def _page_count(reader: ColumnReader, start: int, stop: int) -> int:
    first, last = reader.page_range(start, stop)
    return last - first
