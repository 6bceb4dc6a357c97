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
from collections.abc import Callable, Sequence
from functools import cached_property

import numpy as np
import pyarrow as pa

from ...errors import InternalError
from ...model.keys.keys import Keys
from ...model.partitions.partition import Partitioner
from ...model.schema import Table
from ...model.vectors.vector import Array, Vector, concat, vector_from_arrow
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
        self.size = int(rows.nbytes)
        """About the bytes of the rows, in memory or in a file."""
        self._is_spilled = False
        self._lock = threading.Lock()
        self._completed: dict[int, pa.Array] = {}
        """Columns with the store's values in cells that are not set, by position."""

    def __len__(self) -> int:
        return int(self.rows.num_rows)

    @property
    def nbytes(self) -> int:
        """About the bytes of memory that `spill` would free."""
        kept = sum(int(array.nbytes) for array in list(self._completed.values()))
        return kept if self._is_spilled else self.size + kept

    def spill(self, move: Callable[[pa.RecordBatch], pa.RecordBatch]) -> None:
        """Move the rows to a file; about 30 bytes for each stay in memory. Values do not change: scans go on."""
        with self._lock:
            if not self._is_spilled:
                self.rows = move(self.rows)
                self._is_spilled = True
            self._completed = {}
            for derived in ("keys", "index", "shadows"):
                self.__dict__.pop(derived, None)

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

    def complete(self, places: Sequence[int], base: BaseRows) -> dict[int, pa.Array]:
        """Read the cells that `column` needs of the store for several columns, together; the columns by position."""
        with self._lock:
            completed = self._completed
            lacking = [place for place in places if self.isset[place] is not True and place not in completed]
            unset = [(place, np.flatnonzero(~self.is_set(place) & ~self.is_deleted)) for place in lacking]
            for place, rows in unset:
                if not len(rows):
                    completed[place] = self.rows.column(place)
            unset = [(place, rows) for place, rows in unset if len(rows)]
            if not unset:
                return completed
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
                completed[place] = gathered(cells, which, source, columns[place].type.arrow)
            return completed

    def _array(self, place: int, base: BaseRows) -> pa.Array:
        if self.isset[place] is True:
            return self.rows.column(place)
        found = self._completed.get(place)
        return self.complete([place], base)[place] if found is None else found


def merged_runs(runs: Sequence[OwnRun]) -> OwnRun:
    """One run, in the order of keys, of the entries of several (at least one, the newest last)."""
    if len(runs) == 1:
        return runs[0]
    schema = runs[0].table.schema
    sizes = [len(run) for run in runs]
    columns = zip(*(run.keys.columns for run in runs))
    keys = Keys(runs[0].keys.types, tuple(concat(list(vectors)) for vectors in columns))
    order = keys.merge_order() if all(run.keys.is_strictly_ascending() for run in runs) else keys.order()
    # Of equal keys the newest comes last.
    is_first = np.ones(len(order), np.bool_)
    is_first[keys.duplicates()] = False
    kept = order[np.append(is_first[order][1:], True)]
    which = np.repeat(np.arange(len(runs)), sizes)[kept]
    row = kept - np.concatenate([[0], np.cumsum(sizes)])[which]
    arrays = []
    isset: list[Given] = []
    for place, column in enumerate(schema.columns):
        arrays.append(gathered([run.rows.column(place) for run in runs], which, row, column.type.arrow))
        flags = {run.isset[place] if isinstance(run.isset[place], bool) else None for run in runs}
        if len(flags) == 1 and None not in flags:
            isset.append(flags.pop() is True)
        else:
            isset.append(np.concatenate([run.is_set(place) for run in runs])[kept])
    rows = pa.RecordBatch.from_arrays(arrays, schema=schema.arrow)
    base = np.concatenate([run.base for run in runs])[kept]
    return OwnRun(runs[0].table, rows, isset, base, np.concatenate([run.is_deleted for run in runs])[kept])
