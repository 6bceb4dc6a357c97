"""Own rows of a transaction as columns: runs, each with the net state of its keys.

    keys        4          7          9          12
    base        PRESENT    ABSENT     UNKNOWN    PRESENT
    is_deleted  no         no         no         yes
    a           (unset)    5          1          -
    b           "x"        NULL       "y"        -
    at COMMIT   UPDATE b   INSERT     UPSERT     DELETE

An entry says all about its key: what the store has at the snapshot, as far as that is known, and what the transaction
has made of it. A newer run has newer entries, which take up what older ones say. So the newest entry of a key counts
alone.

Cells that an UPDATE has not set are read from the store when a scan needs them, once for each column of a run.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from functools import cached_property

import numpy as np
import pyarrow as pa

from ...errors import InternalError
from ...model.keys.keys import Keys
from ...model.partitions.partition import Partitioner
from ...model.schema import Table
from ...model.vectors.vector import Array, Vector, vector_from_arrow
from ..writing.op_resolution import Given
from .base_rows import BaseRows
from .gathering import gathered
from .key_index import KeyIndex


class Presence:
    """Whether the store has a row with a key, at the transaction's snapshot."""

    ABSENT, PRESENT, UNKNOWN = range(3)


class OwnRun:
    """Entries of distinct keys, in any order. Immutable, but for what is computed and kept.

    Parameters
    ----------
    table : Table
    rows : pa.RecordBatch
        All columns of the table; NULL where a cell is not set.
    isset : sequence of Given
        Per column: which rows set it. All do of the key columns; deleted rows set nothing else.
    base : ndarray of uint8, shape (n_rows,)
        `Presence` of each key.
    is_deleted : ndarray of bool, shape (n_rows,)
    """

    def __init__(self, table: Table, rows: pa.RecordBatch, isset: Sequence[Given], base: Array, is_deleted: Array):
        self.table = table
        self.rows = rows
        self.isset = tuple(isset)
        self.base = base
        self.is_deleted = is_deleted
        self._lock = threading.Lock()
        self._completed: dict[int, pa.Array] = {}
        """Columns with the store's values in cells that are not set, by position."""

    def __len__(self) -> int:
        return int(self.rows.num_rows)

    @property
    def nbytes(self) -> int:
        """About the bytes of memory that the entries take."""
        entry_bytes = len(self.isset) + 18
        return int(self.rows.nbytes + entry_bytes * self.rows.num_rows)

    # ---- keys ----------------------------------------------------------------------------------------------------

    @cached_property
    def keys(self) -> Keys:
        """The keys of all entries."""
        return Keys.from_rows(self.table.schema, self.rows)

    @cached_property
    def index(self) -> KeyIndex:
        """All keys."""
        return KeyIndex(self.table.schema, self.keys)

    @cached_property
    def is_shadow(self) -> Array:
        """True for entries whose row in the store must not be seen, if there is one: ndarray of bool."""
        return np.asarray(self.base != Presence.ABSENT)

    @cached_property
    def shadows(self) -> KeyIndex | None:
        """The keys of the rows of the store that must not be seen; None if there are none."""
        if self.is_shadow.all():
            return self.index
        if not self.is_shadow.any():
            return None
        return KeyIndex(self.table.schema, self.keys.take(np.flatnonzero(self.is_shadow)))

    def places(self, partitioner: Partitioner) -> Array:
        """The partition of each entry: ndarray of int32."""
        return self._places if len(partitioner.partitions) == 1 else self._routed(partitioner)

    @cached_property
    def _places(self) -> Array:
        return np.zeros(len(self), np.int32)

    def _routed(self, partitioner: Partitioner) -> Array:
        places = self.__dict__.get("_partition_places")
        if places is None:
            places = self.__dict__["_partition_places"] = partitioner.route(self.rows)
        return np.asarray(places)

    # ---- cells ---------------------------------------------------------------------------------------------------

    def is_set(self, place: int) -> Array:
        """The rows that set a column: ndarray of bool, shape (n_rows,)."""
        return np.broadcast_to(self.isset[place], len(self))

    def column(self, place: int, base: BaseRows) -> Vector:
        """A column of all rows; cells that are not set have the store's values, those of deleted rows any."""
        return vector_from_arrow(self.table.schema.columns[place].type, self._array(place, base))

    def complete(self, places: Sequence[int], base: BaseRows) -> None:
        """Read what `column` needs of the store for several columns, together."""
        with self._lock:
            lacking = [place for place in places if self.isset[place] is not True and place not in self._completed]
            unset = [(place, np.flatnonzero(~self.is_set(place) & ~self.is_deleted)) for place in lacking]
            for place, rows in unset:
                if not len(rows):
                    self._completed[place] = self.rows.column(place)
            unset = [(place, rows) for place, rows in unset if len(rows)]
            if not unset:
                return
            union = np.unique(np.concatenate([rows for _, rows in unset]))
            columns = self.table.schema.columns
            present, arrays = base.fetch(self.keys.take(union), [columns[place].name for place, _ in unset])
            if not present.all():
                raise InternalError(f"table {self.table.name} lacks rows at a snapshot that had them before")
            for (place, rows), array in zip(unset, arrays):
                which = np.zeros(len(self), np.int8)
                which[rows] = 1
                source = np.arange(len(self))
                source[rows] = np.searchsorted(union, rows)
                cells = [self.rows.column(place), array]
                self._completed[place] = gathered(cells, which, source, columns[place].type.arrow)

    def _array(self, place: int, base: BaseRows) -> pa.Array:
        if self.isset[place] is True:
            return self.rows.column(place)
        if place not in self._completed:
            self.complete([place], base)
        return self._completed[place]


def merged_runs(older: OwnRun, newer: OwnRun) -> OwnRun:
    """One run of the entries of two."""
    kept = np.flatnonzero(newer.index.find(older.keys) < 0)
    if not len(kept):
        return newer
    schema = older.table.schema
    which = np.repeat(np.array([0, 1], np.int8), [len(kept), len(newer)])
    row = np.concatenate([kept, np.arange(len(newer))])
    arrays = []
    isset: list[Given] = []
    for place, column in enumerate(schema.columns):
        cells = [older.rows.column(place), newer.rows.column(place)]
        arrays.append(gathered(cells, which, row, column.type.arrow))
        flags = [older.isset[place], newer.isset[place]]
        if isinstance(flags[0], bool) and flags[0] is flags[1]:
            isset.append(flags[0])
        else:
            isset.append(np.concatenate([older.is_set(place)[kept], newer.is_set(place)]))
    rows = pa.RecordBatch.from_arrays(arrays, schema=schema.arrow)
    base = np.concatenate([older.base[kept], newer.base])
    return OwnRun(older.table, rows, isset, base, np.concatenate([older.is_deleted[kept], newer.is_deleted]))
