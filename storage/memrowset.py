"""MemRowSet: the rows of a tablet that are in no DiskRowSet yet.

    chunks    [65,536 rows][65,536 rows][256][256][256][1][1][1][1]...      columns: Arrow arrays, append only
    index     {key, key, key, ...}                                          packed integers, or encoded bytes

Each insert appends its rows as one chunk, as they come (after the log wrote them, a view of the logged bytes), and
adds its keys to the index in one call. Nothing is sorted before the flush. Once `FAN_IN` small chunks of a size class
stand at the end, they are joined into one: each row is copied at most twice, whether rows come one by one or in
millions.

Every row has the timestamp of its insertion. A reader at T takes the rows at or below T; rows of aborted writes stay
where they are and are passed over, until the flush leaves them out.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from .keys import Keys
from .predicate_eval import evaluate
from .predicates import ColumnPredicate
from .schema import ColumnSchema, Schema
from .store import ScanCounters
from .vector import Array, Batch, LazyColumn, Vector, vector_from_arrow

BATCH_ROWS = 65_536
FAN_IN = 256
"""Chunks of a size class that are joined: 256 single rows become one chunk of 256, 256 of those one of 65,536."""
INDEX_BYTES = 100
"""Memory that a key takes in the index: an object of 32 to 60 bytes, and its place in a set at most half full."""

IndexKeys: TypeAlias = "list[int] | list[bytes]"


def index_keys(keys: Keys) -> IndexKeys:
    """The keys as hashable objects that are equal where keys are: integers where a key fits 8 bytes, else bytes."""
    packed = keys.packed()
    if packed is not None:
        integers: list[int] = packed.tolist()
        return integers
    encoded: list[bytes] = keys.encoded().to_pylist()
    return encoded


@dataclass(frozen=True, slots=True, eq=False)
class Chunk:
    """Rows in the order of insertion.

    Parameters
    ----------
    rows : pa.RecordBatch
        All columns of the schema.
    timestamps : ndarray of uint64, shape (n_rows,), or int
        Of each row, or of all.
    oldest, newest : int
        The least and the greatest of them.
    """

    rows: pa.RecordBatch
    timestamps: Array | int
    oldest: int
    newest: int

    def stamps(self) -> Array:
        """The timestamp of each row: ndarray of uint64, shape (n_rows,)."""
        if isinstance(self.timestamps, int):
            return np.full(self.rows.num_rows, self.timestamps, np.uint64)
        return self.timestamps

    def slice(self, start: int, stop: int) -> Chunk:
        """Some of the rows, as views."""
        stamps = self.timestamps if isinstance(self.timestamps, int) else self.timestamps[start:stop]
        return Chunk(self.rows.slice(start, stop - start), stamps, self.oldest, self.newest)


class MemRowSet:
    """All methods may be called from several threads; those that change it, by one at a time (the tablet's writer).

    Invariants: the index holds exactly the keys of the rows that are not aborted; no key is there twice; chunks are
    only appended and joined, so that row numbers (in the order of insertion) never change.
    """

    def __init__(self, schema: Schema):
        self.schema = schema
        self.row_count = 0
        """Aborted rows included."""
        self.nbytes = 0
        """About the memory taken, the index included."""
        self.durable_index = 0
        """The greatest index of a durable log entry whose rows are here; 0 for none."""
        self.newest = 0
        """The greatest timestamp of a row."""
        self._index: set[int | bytes] = set()
        self._chunks: list[Chunk] = []
        self._aborted: set[int] = set()
        self._mutex = threading.Lock()

    # ---- writing -------------------------------------------------------------------------------------------------

    def contains(self, keys: IndexKeys) -> Array | None:
        """Which keys are here: ndarray of bool, shape (n_keys,); None where none is, the usual case."""
        if self._index.isdisjoint(keys):
            return None
        return np.fromiter(map(self._index.__contains__, keys), np.bool_, len(keys))

    def insert(self, rows: pa.RecordBatch, keys: IndexKeys, timestamps: Array | int) -> None:
        """Take rows over; their keys are not here yet, and no timestamp is below those that are here.

        `timestamps` are of each row, ascending (ndarray of uint64), or one of all rows.
        """
        self._index.update(keys)
        if isinstance(timestamps, int):
            chunk = Chunk(rows, timestamps, timestamps, timestamps)
        else:
            chunk = Chunk(rows, timestamps, int(timestamps[0]), int(timestamps[-1]))
        with self._mutex:
            self._chunks.append(chunk)
            self.row_count += rows.num_rows
            self.nbytes += rows.nbytes + INDEX_BYTES * rows.num_rows
            self.newest = chunk.newest
            self._join_small(1, FAN_IN)
            self._join_small(FAN_IN, BATCH_ROWS)

    def note_durable(self, index: int) -> None:
        """The log entry `index`, whose rows are here, is durable."""
        with self._mutex:
            self.durable_index = max(self.durable_index, index)

    def abort(self, keys: IndexKeys, timestamp: int) -> None:
        """Forget the rows of a failed write."""
        with self._mutex:
            self._aborted.add(timestamp)
        self._index.difference_update(keys)

    def _join_small(self, low: int, high: int) -> None:
        """Join the last `FAN_IN` chunks if each has `low` to `high` (exclusive) rows."""
        last = self._chunks[-FAN_IN:]
        # The newest chunk decides nearly always, without looking at the others.
        if len(last) < FAN_IN or not low <= last[-1].rows.num_rows < high:
            return
        if all(low <= chunk.rows.num_rows < high for chunk in last):
            self._chunks[-FAN_IN:] = [_joined(last)]

    # ---- reading -------------------------------------------------------------------------------------------------

    def snapshot(self) -> MemRowSetSnapshot:
        """The rows as they are now; later inserts do not show in it."""
        with self._mutex:
            return MemRowSetSnapshot(self.schema, tuple(self._chunks), frozenset(self._aborted))


@dataclass(frozen=True, slots=True, eq=False)
class MemRowSetSnapshot:
    """The chunks of a MemRowSet at one moment. Rows are numbered from 0 in the order of insertion."""

    schema: Schema
    chunks: tuple[Chunk, ...]
    aborted: frozenset[int]

    @property
    def row_count(self) -> int:
        return sum(chunk.rows.num_rows for chunk in self.chunks)

    def scan(
        self,
        columns: Sequence[ColumnSchema],
        predicates: Sequence[ColumnPredicate],
        start_row: int,
        stop_row: int,
        timestamp: int,
        counters: ScanCounters,
    ) -> Iterator[Batch]:
        """The rows from `start_row` to `stop_row` that were inserted at or before `timestamp` and satisfy all
        predicates, in batches of at most 65,536 rows."""
        for group in self._groups(start_row, stop_row):
            rows = _Group(self.schema, group)
            counters.rows_considered += rows.length
            chosen = rows.select(predicates, timestamp, self.aborted)
            length = rows.length if chosen is None else len(chosen)
            if length:
                counters.rows_returned += length
                yield Batch([rows.lazy(column, chosen) for column in columns], length)

    def to_table(self) -> tuple[pa.Table, Array]:
        """All rows that are not aborted, in insertion order, and their timestamps (ndarray of uint64)."""
        chunks = [kept for chunk in self.chunks if (kept := self._without_aborted(chunk)) is not None]
        table = pa.Table.from_batches([c.rows for c in chunks], self.schema.arrow)
        stamps = [c.stamps() for c in chunks]
        return table, np.concatenate(stamps) if stamps else np.empty(0, np.uint64)

    def _without_aborted(self, chunk: Chunk) -> Chunk | None:
        if not self.aborted:
            return chunk
        stamps = chunk.stamps()
        kept = np.flatnonzero(~np.isin(stamps, np.array(list(self.aborted), np.uint64)))
        if not len(kept):
            return None
        return Chunk(chunk.rows.take(pa.array(kept)), stamps[kept], chunk.oldest, chunk.newest)

    def _groups(self, start_row: int, stop_row: int) -> Iterator[list[Chunk]]:
        """The rows in lists of chunks with at most `BATCH_ROWS` rows together."""
        group: list[Chunk] = []
        grouped = 0
        place = 0
        for chunk in self.chunks:
            start, stop = max(start_row - place, 0), min(stop_row - place, chunk.rows.num_rows)
            place += chunk.rows.num_rows
            while start < stop:
                taken = min(stop - start, BATCH_ROWS - grouped)
                group.append(chunk if taken == chunk.rows.num_rows else chunk.slice(start, start + taken))
                grouped += taken
                start += taken
                if grouped == BATCH_ROWS:
                    yield group
                    group, grouped = [], 0
        if group:
            yield group


class _Group:
    """Rows of several chunks that make one batch; columns are joined at first touch."""

    def __init__(self, schema: Schema, chunks: list[Chunk]):
        self._schema = schema
        self._chunks = chunks
        self._vectors: dict[str, Vector] = {}
        self.length = sum(chunk.rows.num_rows for chunk in chunks)

    def select(self, predicates: Sequence[ColumnPredicate], timestamp: int, aborted: frozenset[int]) -> Array | None:
        """Row numbers that are visible and satisfy all predicates (ndarray of intp); None for all."""
        mask = self._visible(timestamp, aborted)
        for predicate in predicates:
            if mask is not None and not mask.any():
                break
            found = evaluate(predicate, self.vector(predicate.column))
            mask = found if mask is None else mask & found
        return None if mask is None or mask.all() else np.flatnonzero(mask)

    def _visible(self, timestamp: int, aborted: frozenset[int]) -> Array | None:
        if not aborted and all(chunk.newest <= timestamp for chunk in self._chunks):
            return None
        stamps = np.concatenate([chunk.stamps() for chunk in self._chunks])
        visible: Array = stamps <= np.uint64(timestamp)
        if aborted:
            visible &= ~np.isin(stamps, np.array(list(aborted), np.uint64))
        return visible

    def vector(self, name: str) -> Vector:
        vector = self._vectors.get(name)
        if vector is None:
            place = self._schema.position(name)
            arrays = [chunk.rows.column(place) for chunk in self._chunks]
            array = arrays[0] if len(arrays) == 1 else pa.concat_arrays(arrays)
            vector = self._vectors[name] = vector_from_arrow(self._schema.columns[place].type, array)
        return vector

    def lazy(self, column: ColumnSchema, chosen: Array | None) -> LazyColumn:
        def load(selection: Array | None) -> Vector:
            vector = self.vector(column.name)
            return vector if selection is None else vector.take(selection)

        return LazyColumn(load, chosen)


def _joined(chunks: Sequence[Chunk]) -> Chunk:
    rows = pa.concat_batches([chunk.rows for chunk in chunks])
    stamps = np.concatenate([chunk.stamps() for chunk in chunks])
    return Chunk(rows, stamps, min(c.oldest for c in chunks), max(c.newest for c in chunks))
