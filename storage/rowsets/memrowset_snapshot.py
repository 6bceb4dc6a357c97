"""A snapshot of a MemRowSet, for scans and flushes, while it continues to grow."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from ...model.arrow_arrays import arrow_array, arrow_scalar
from ...model.lazy_dataclass import dataclass
from ...model.predicates import ColumnPredicate
from ...model.schema import ColumnSchema, Schema
from ...model.store import ScanCounters
from ...model.vectors.vector import Array, Batch, LazyColumn, Vector, concat, vector_from_arrow
from ..deltas.deltas import ColumnPatch, Deltas, apply_patch, merge
from ..deltas.latest_state import RowSetPatches, places_within, rows_within
from ..predicate_eval.evaluation import evaluate
from .memrowset_chunks import BATCH_ROWS, Chunk
from .pending_rows import PendingChunk
from .stored_rowset import PatchCache


def initial_value(column: ColumnSchema) -> Any:
    """Python value that rows show for a column added after they were written."""
    return column.type.to_python(column.initial)


def column_places(schema: Schema) -> dict[int, int]:
    """Position of each column, by id."""
    return {column.id: place for place, column in enumerate(schema.columns)}


@dataclass(frozen=True, slots=True, eq=False)
class MemRowSetImage:
    """Contents of a MemRowSet up to some timestamp, for a flush.

    Parameters
    ----------
    rows : pa.Table
        Inserted rows, in order of insertion and in the inserted pieces, without those of aborted writes.
    inserted : ndarray of uint64, shape (n_rows,)
        The timestamps of insertion.
    numbers : ndarray of int64, shape (n_rows,)
        The row numbers in the MemRowSet, ascending.
    mutations : Deltas
        By these row numbers.
    """

    rows: pa.Table
    inserted: Array
    numbers: Array
    mutations: Deltas


class MemRowSetSnapshot:
    """A snapshot of a MemRowSet. Rows are numbered from 0 in the order of insertion.

    Parameters
    ----------
    schema : Schema
        By which it is read: predicates name its columns.
    stored : Schema
        That of the chunks.
    """

    def __init__(
        self,
        schema: Schema,
        stored: Schema,
        chunks: tuple[Chunk | PendingChunk, ...],
        aborted: frozenset[int],
        mutations: tuple[Deltas, ...],
        cache: PatchCache,
    ):
        self.schema = schema
        self.chunks = chunks
        self.aborted = aborted
        self.mutations = mutations
        self.row_count = sum(len(chunk) for chunk in chunks)
        self._places = column_places(stored)
        self._cache = cache
        self._resolved: tuple[int, RowSetPatches | None] = (-1, None)

    # ---- scans ---------------------------------------------------------------------------------------------------

    def scan(
        self,
        columns: Sequence[ColumnSchema],
        predicates: Sequence[ColumnPredicate],
        start_row: int,
        stop_row: int,
        timestamp: int,
        counters: ScanCounters,
    ) -> Iterator[Batch]:
        """The rows from `start_row` to `stop_row` that exist at `timestamp` and satisfy all predicates, in batches of
        at most 65,536 rows."""
        patches = self.patches(timestamp)
        for first, group in self._groups(start_row, stop_row):
            rows = _Group(self, first, group, patches)
            counters.passing(rows.length)
            counters.rows_considered += rows.length
            chosen = rows.select(predicates, timestamp)
            length = rows.length if chosen is None else len(chosen)
            if length:
                counters.rows_returned += length
                yield Batch([rows.lazy(column, chosen) for column in columns], length)

    def patches(self, timestamp: int) -> RowSetPatches | None:
        """Patches of the rows by mutations, at a timestamp whose writes are all decided, by row number; None if there
        are none."""
        if not self.mutations:
            return None
        kept, patches = self._resolved
        if kept != timestamp:
            patches = self._cache.patches((), self.mutations, self.row_count, timestamp, None)
            self._resolved = (timestamp, patches)
        return patches

    def _groups(self, start_row: int, stop_row: int) -> Iterator[tuple[int, list[Chunk | PendingChunk]]]:
        """The rows in lists of chunks with at most `BATCH_ROWS` rows together, each with its first row's number."""
        group: list[Chunk | PendingChunk] = []
        grouped = 0
        place = 0
        first = start_row
        for chunk in self.chunks:
            start, stop = max(start_row - place, 0), min(stop_row - place, len(chunk))
            place += len(chunk)
            while start < stop:
                taken = min(stop - start, BATCH_ROWS - grouped)
                group.append(chunk if taken == len(chunk) else chunk.slice(start, start + taken))
                grouped += taken
                start += taken
                if grouped == BATCH_ROWS:
                    yield first, group
                    first += grouped
                    group, grouped = [], 0
        if group:
            yield first, group

    def column_array(self, column: ColumnSchema, chunks: Sequence[Chunk | PendingChunk]) -> pa.Array:
        """A column as the rows of some chunks (not none) were inserted with, of its Arrow type."""
        arrays = self._arrays(column, chunks)
        return arrays[0] if len(arrays) == 1 else pa.concat_arrays(arrays)

    def column_vector(self, column: ColumnSchema, chunks: Sequence[Chunk | PendingChunk]) -> Vector:
        """The same as a vector."""
        place = self._places.get(column.id)
        if place is None:
            return vector_from_arrow(column.type, self.column_array(column, chunks))
        return concat([chunk.vector(place, column.type) for chunk in chunks])

    def _arrays(self, column: ColumnSchema, chunks: Sequence[Chunk | PendingChunk]) -> list[pa.Array]:
        """`column_array` in pieces, without a copy."""
        place = self._places.get(column.id)
        if place is None:
            rows = sum(len(chunk) for chunk in chunks)
            return [pa.repeat(arrow_scalar(initial_value(column), column.type.arrow), rows)]
        return [chunk.rows.column(place) for chunk in chunks]

    # ---- everything ----------------------------------------------------------------------------------------------

    def image(self, timestamp: int) -> MemRowSetImage:
        """Everything at or below a timestamp whose writes are all decided."""
        if not self.chunks:
            empty = np.empty(0, np.int64)
            return MemRowSetImage(self.schema.arrow.empty_table(), empty.astype(np.uint64), empty, Deltas.empty())
        inserted = np.concatenate([chunk.stamps() for chunk in self.chunks])
        kept = inserted <= np.uint64(timestamp)
        if self.aborted:
            kept &= ~np.isin(inserted, np.array(list(self.aborted), np.uint64))
        arrays = [pa.chunked_array(self._arrays(column, self.chunks)) for column in self.schema.columns]
        rows = pa.Table.from_arrays(arrays, schema=self.schema.arrow)
        numbers = np.flatnonzero(kept)
        if len(numbers) < self.row_count:
            rows, inserted = rows.take(arrow_array(numbers)), inserted[numbers]
        mutations = [run.until(timestamp) for run in self.mutations]
        return MemRowSetImage(rows, inserted, numbers, merge(mutations))

    def to_table(self) -> tuple[pa.Table, Array]:
        """All rows that are not aborted, as they were inserted and in this order, and the timestamps of insertion
        (ndarray of uint64)."""
        newest = max((chunk.newest for chunk in self.chunks), default=0)
        image = self.image(newest)
        return image.rows, image.inserted


class _Group:
    """Rows of several chunks that make one batch; columns are joined and patched at first touch."""

    def __init__(
        self, snapshot: MemRowSetSnapshot, first: int, chunks: list[Chunk | PendingChunk], patches: RowSetPatches | None
    ):
        self._snapshot = snapshot
        self._chunks = chunks
        self._first = first
        self._patches = patches
        self._vectors: dict[int, Vector] = {}
        self.length = sum(len(chunk) for chunk in chunks)

    def select(self, predicates: Sequence[ColumnPredicate], timestamp: int) -> Array | None:
        """Row numbers within the group that are visible and satisfy all predicates (ndarray of intp); None for all."""
        mask = self._visible(timestamp)
        for predicate in predicates:
            if mask is not None and not mask.any():
                break
            found = evaluate(predicate, self.vector(self._snapshot.schema.column(predicate.column)))
            mask = found if mask is None else mask & found
        return None if mask is None or mask.all() else np.flatnonzero(mask)

    def _visible(self, timestamp: int) -> Array | None:
        aborted = self._snapshot.aborted
        hidden = self._hidden()
        if not aborted and not len(hidden) and all(chunk.newest <= timestamp for chunk in self._chunks):
            return None
        stamps = np.concatenate([chunk.stamps() for chunk in self._chunks])
        visible: Array = stamps <= np.uint64(timestamp)
        if aborted:
            visible &= ~np.isin(stamps, np.array(list(aborted), np.uint64))
        visible[hidden] = False
        return visible

    def _hidden(self) -> Array:
        if self._patches is None:
            return np.empty(0, np.int64)
        return rows_within(self._patches.hidden, self._first, self._first + self.length) - self._first

    def vector(self, column: ColumnSchema) -> Vector:
        """A column of all rows of the group."""
        vector = self._vectors.get(column.id)
        if vector is None:
            patch = None if self._patches is None else self._patches.column(column.id)
            if patch is None:
                vector = self._snapshot.column_vector(column, self._chunks)
            else:
                array = self._snapshot.column_array(column, self._chunks)
                low, high = places_within(patch.rows, self._first, self._first + self.length)
                array = apply_patch(array, ColumnPatch(patch.rows[low:high] - self._first, patch.values[low:high]))
                vector = vector_from_arrow(column.type, array)
            self._vectors[column.id] = vector
        return vector

    def lazy(self, column: ColumnSchema, chosen: Array | None) -> LazyColumn:
        def load(selection: Array | None) -> Vector:
            vector = self.vector(column)
            return vector if selection is None else vector.take(selection)

        return LazyColumn(load, chosen)
