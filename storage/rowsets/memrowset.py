"""MemRowSet: the rows of a tablet that were inserted since the last flush, and their changes.

    chunks       [65,536 rows][256][256][1][1]...      as they were inserted, numbered 0, 1, 2, ...
    index        {key: row number}                     packed integers, or encoded bytes
    order        [key, key, ...]                       the same in order, made at the first use: `KeyOrder`
    mutations    (row, timestamp, kind, values) ...    Kudu's mutation lists, as one `DeltaMemStore` of all rows
    deleted      row numbers                           the rows whose newest mutation about existence is a DELETE

Nothing is sorted before the flush. A key occurs once: after a DELETE its row is a ghost, and the next INSERT of the key
is a REINSERT mutation of that row (tablet design document, "MVCC Mutations in MemRowSet").

Every row has the timestamp of its insertion. A reader at T takes the rows at or below T and applies the mutations at or
below T; rows of aborted writes stay and are skipped, until the flush omits them.

A MemRowSet keeps the schema that it was created with. When the table is altered, it is read with the new one: columns
are found by their ids, and columns added later show their initial value.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Mapping, Sequence
from itertools import repeat
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from ...model.keys.keys import Keys
from ...model.schema import ColumnSchema, Schema
from ...model.vectors.vector import Array
from ..deltas.delta_memstore import DeltaMemStore
from ..deltas.deltas import DeltaKind, Deltas, merge
from .key_order import KeyOrder
from .memrowset_chunks import Chunks, RowCells, values_of
from .memrowset_snapshot import MemRowSetSnapshot, column_places, initial_value
from .stored_rowset import DeletedRows, PatchCache

INDEX_BYTES = 130
"""Memory that a key takes in the index: an object of 32 to 60 bytes, a row number, and their place in a dictionary."""
NEVER = (1 << 63) - 1
"""A timestamp above all others."""

IndexKeys: TypeAlias = "list[int] | list[bytes]"


def index_keys(keys: Keys) -> IndexKeys:
    """The keys as hashable objects that are equal where keys are: integers where a key fits 8 bytes, else bytes."""
    packed = keys.packed()
    if packed is not None:
        integers: list[int] = packed.tolist()
        return integers
    encoded: list[bytes] = keys.encoded().to_pylist()
    return encoded


class MemRowSet:
    """All methods may be called from several threads; those that change it, by one at a time (the tablet's writer).

    Invariants: the index holds exactly the keys of the rows that are not aborted; no key occurs twice; row numbers
    never change. `index` arguments are the numbers of log entries.
    """

    def __init__(self, schema: Schema):
        self.schema = schema
        self.mutations = DeltaMemStore(schema)
        """Changes of rows after their insertion, by row number."""
        self.deleted = DeletedRows(0)
        """The rows that are deleted now, writes in flight included."""
        self.first_index = 0
        """The least index of a log entry with a row; 0 while there is none."""
        self._newest = 0
        self._index: dict[int | bytes, int] = {}
        self._order: KeyOrder | None = None
        """Made at the first use of keys in order."""
        self._chunks = Chunks(schema)
        self._aborted: set[int] = set()
        self._patches = PatchCache()
        self._places = column_places(schema)
        self._known_places: tuple[Sequence[ColumnSchema], tuple[int, ...]] = (), ()
        """The last columns that were read, and their positions; replaced as a whole."""
        self._mutex = threading.Lock()

    # ---- size and age --------------------------------------------------------------------------------------------

    @property
    def row_count(self) -> int:
        """Number of rows inserted, aborted and deleted ones included."""
        return self._chunks.row_count

    @property
    def live_count(self) -> int:
        """About how many rows exist now: those of aborted writes are counted."""
        return self._chunks.row_count - self.deleted.count

    @property
    def nbytes(self) -> int:
        """About the memory taken, index and mutations included."""
        return self._chunks.nbytes + INDEX_BYTES * self._chunks.row_count + self.mutations.nbytes

    @property
    def newest(self) -> int:
        """The greatest timestamp of an insertion or mutation; 0 for none."""
        return max(self._newest, self.mutations.newest)

    # ---- keys ----------------------------------------------------------------------------------------------------

    def find(self, keys: IndexKeys) -> Array | None:
        """The row number of each key, deleted rows included, -1 where it is not here: ndarray of int64, shape
        (n_keys,). None where none is here, the usual case."""
        if self._index.keys().isdisjoint(keys):
            return None
        return np.fromiter(map(self._index.get, keys, repeat(-1)), np.int64, len(keys))

    def find_live(self, keys: IndexKeys) -> Array | None:
        """`find`, where a row that is deleted now counts as not here."""
        rows = self.find(keys)
        if rows is None or not self.deleted.count:
            return rows
        live = np.flatnonzero(rows >= 0)
        rows[live[self.deleted.contains(rows[live])]] = -1
        return rows if (rows >= 0).any() else None

    def find_one(self, key: int | bytes) -> int:
        """`find` for one key: its row number or -1."""
        return self._index.get(key, -1)

    def find_one_live(self, key: int | bytes) -> int:
        """`find_live` for one key: its row number or -1."""
        row = self._index.get(key, -1)
        return -1 if row >= 0 and self.deleted.count and self.deleted.has(row) else row

    def keys_from(self, low: int | bytes, count: int) -> list[Any]:
        """The first `count` keys at or above `low` in key order, those of deleted rows and of aborted writes included;
        fewer at the end."""
        order = self._order
        if order is None:
            with self._mutex:
                # Writers know of it before the index is copied: a key that comes meanwhile is added at least.
                order = self._order = self._order or KeyOrder(self._index)
        return order.from_key(low, count)

    def contains(self, keys: IndexKeys) -> Array | None:
        """Which keys are here and not deleted: ndarray of bool, shape (n_keys,); None where none is."""
        rows = self.find_live(keys)
        return None if rows is None else rows >= 0

    def touched(self, rows: Array, since: int) -> Array:
        """Which of some rows (ndarray of int64, none of an aborted write) were inserted, updated or deleted after a
        timestamp, writes in flight included: ndarray of bool."""
        touched_rows = self.mutations.touched(rows, since)
        if self._newest > since:
            with self._mutex:
                touched_rows |= self._chunks.inserted_after(rows, since)
        return touched_rows

    def row_touched(self, row: int, since: int) -> bool:
        """`touched` for one row, in a few microseconds."""
        if self.mutations.row_touched(row, since):
            return True
        if self._newest <= since:
            return False
        with self._mutex:
            return bool(self._chunks.inserted_after(np.array([row]), since)[0])

    # ---- writing -------------------------------------------------------------------------------------------------

    def insert(self, rows: pa.RecordBatch, keys: IndexKeys, timestamps: Array | int, index: int) -> None:
        """Take rows over; their keys are not here yet, and no timestamp is below those that are here.

        `timestamps` are of each row, ascending (ndarray of uint64), or one of all rows. `index` is that of the first
        log entry they come from.
        """
        if not rows.num_rows:
            return
        with self._mutex:
            first = self._chunks.row_count
            self._chunks.append(rows, timestamps)
            self._newest = max(self._newest, timestamps if isinstance(timestamps, int) else int(timestamps[-1]))
        self._index.update(zip(keys, range(first, first + len(keys))))
        if self._order is not None:
            self._order.add_all(keys)
        self._note(index)

    def insert_row(self, values: tuple[Any, ...], key: int | bytes, timestamp: int, index: int) -> None:
        """`insert` for one row in a few microseconds: Python values, as `pa.array` takes them, in the schema's
        order."""
        with self._mutex:
            row = self._chunks.row_count
            self._chunks.append_row(values, timestamp)
            if timestamp > self._newest:
                self._newest = timestamp
        self._index[key] = row
        if self._order is not None:
            self._order.add(key)
        self._note(index)

    def _note(self, index: int) -> None:
        # The index of an entry that failed is given again: the first is not always the least.
        if index < self.first_index or not self.first_index:
            self.first_index = index

    def mutate(self, deltas: Deltas, index: int) -> None:
        """Take over the mutations of one write, by row number; REINSERT only of rows that are deleted, with all
        columns."""
        self.mutations.append(deltas, index)
        self._mark_deleted(deltas)

    def mutate_row(self, row: int, kind: DeltaKind, values: Mapping[int, Any], timestamp: int, index: int) -> None:
        """`mutate` for one row; `values` by column id, as `DeltaMemStore.append_row` takes them."""
        self.mutations.append_row(row, kind, values, timestamp, index)
        if kind is DeltaKind.DELETE:
            self.deleted.add_row(row)
        elif kind is DeltaKind.REINSERT:
            self.deleted.remove_row(row)

    def abort(self, keys: IndexKeys, timestamp: int) -> None:
        """Forget a failed write: the rows it inserted, whose keys are given, and its mutations. Of several failed
        writes, the newest is aborted first."""
        if keys:
            with self._mutex:
                self._aborted.add(timestamp)
            for key in keys:
                self._index.pop(key, None)
        if timestamp <= self.mutations.newest:
            of_it = [run.select(run.timestamps == np.uint64(timestamp)) for run in self.mutations.snapshot()]
            self.mutations.abort(timestamp)
            self._mark_deleted(merge(of_it), undone=True)

    def restamp(self, old: int, new: int) -> None:
        """Give the rows and mutations with one timestamp a later one; they are the newest of their keys."""
        with self._mutex:
            if new in self._aborted:  # rows of a write that failed with the same timestamp stay invisible
                self._chunks.restamp(new, NEVER)
                self._aborted.discard(new)
                self._aborted.add(NEVER)
            self._chunks.restamp(old, new)
            self._newest = max(self._newest, new)
        self.mutations.restamp(old, new)

    def _mark_deleted(self, deltas: Deltas, undone: bool = False) -> None:
        deletes = deltas.rows[deltas.kinds == DeltaKind.DELETE]
        reinserts = deltas.rows[deltas.kinds == DeltaKind.REINSERT]
        if undone:
            deletes, reinserts = reinserts, deletes
        if len(deletes):
            self.deleted.add(deletes)
        if len(reinserts):
            self.deleted.remove(reinserts)

    # ---- reading -------------------------------------------------------------------------------------------------

    def snapshot(self, schema: Schema | None = None) -> MemRowSetSnapshot:
        """The current rows and mutations; later ones are not visible in it.

        `schema` is the schema to read with: the table's current one, by default the MemRowSet's own.
        """
        # The mutations first: every row that they speak of is then among the chunks.
        mutations = self.mutations.snapshot()
        with self._mutex:
            chunks = self._chunks.snapshot()
            aborted = frozenset(self._aborted)
        return MemRowSetSnapshot(schema or self.schema, self.schema, chunks, aborted, mutations, self._patches)

    def mutations_after(self, timestamp: int) -> Deltas:
        """The mutations above a timestamp, by row number."""
        later = [run for run in self.mutations.snapshot() if run.newest > timestamp]
        return merge([run.select(run.timestamps > np.uint64(timestamp)) for run in later])

    def get(self, row: int, columns: Sequence[ColumnSchema], timestamp: int) -> tuple[Any, ...] | None:
        """One row at a timestamp whose writes are decided: Python values of some columns, in a few microseconds; None
        where the row is not visible then."""
        (located,) = self._chunks.locate((row,), self._mutex)
        if located is None or located[0] > timestamp or located[0] in self._aborted:
            return None
        places = self._places_of(columns)
        chunk = located[2]
        values = values_of(located, places) if chunk is None else chunk.row(located[3], places)
        if -1 in places:
            _fill_in(values, places, columns)
        return self._mutated(values, row, columns, timestamp) if self.mutations.count else tuple(values)

    def rows(
        self, rows: Sequence[int], columns: Sequence[ColumnSchema], timestamp: int
    ) -> list[tuple[Any, ...] | None]:
        """`get` for some rows, in their order; None also where the number is -1."""
        places = self._places_of(columns)
        cells, is_altered = RowCells(places), -1 in places
        mutated: Collection[int] = self.mutations.changed(rows) if self.mutations.count and rows else ()
        found: list[tuple[Any, ...] | None] = []
        for row, located in zip(rows, self._chunks.locate(rows, self._mutex)):
            if located is None or located[0] > timestamp or located[0] in self._aborted:
                found.append(None)
                continue
            values = cells.of(located)
            if is_altered:
                _fill_in(values, places, columns)
            found.append(self._mutated(values, row, columns, timestamp) if row in mutated else tuple(values))
        return found

    def _places_of(self, columns: Sequence[ColumnSchema]) -> tuple[int, ...]:
        """Positions of columns here; -1 for columns added to the table later."""
        known = self._known_places
        if known[0] is columns:  # look-ups pass the same sequence each time
            return known[1]
        places = tuple([self._places.get(column.id, -1) for column in columns])
        self._known_places = columns, places
        return places

    def _mutated(
        self, values: list[Any], row: int, columns: Sequence[ColumnSchema], timestamp: int
    ) -> tuple[Any, ...] | None:
        """Applies mutations to a row with these values; None if it is deleted."""
        given: dict[int, Any] = {}
        if self.mutations.look_up(row, timestamp, [column.id for column in columns], given) is DeltaKind.DELETE:
            return None
        if given:
            values = [given.get(column.id, value) for column, value in zip(columns, values)]
        return tuple(values)


def _fill_in(values: list[Any], places: Sequence[int], columns: Sequence[ColumnSchema]) -> None:
    """Put initial values in the place of columns that came to the table later."""
    for place, column in enumerate(columns):
        if places[place] < 0:
            values[place] = initial_value(column)
