"""A DiskRowSet with its deltas, as a tablet's state holds it.

        UNDO files        base data         REDO files     flushing   memstore
    [... t3] [t3 ... t7]  DiskRowSet  [t8 ... t20] [... t31]  [t40]   [t41 ... now]

`StoredRowSet` is immutable and replaced as a whole in the tablet's state when a flush or a compaction changes its parts;
only its DeltaMemStore and its `DeletedRows` change in place, under the tablet's `write_lock`.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from .delta_file import DeltaFile
from .delta_memstore import DeltaMemStore
from .deltas import Deltas, Patches
from .disk_rowset import DiskRowSet
from .keys import Keys
from .rowset_metadata import RowSetMetadata
from .vector import Array


class DeletedRows:
    """Which rows of a rowset are deleted now (in the newest state, writes in flight included)."""

    def __init__(self, row_count: int):
        self.count = 0

    def contains(self, rows: Array) -> Array:
        """ndarray of bool, beside `rows` (ndarray of int64)."""
        raise NotImplementedError

    def has(self, row: int) -> bool:
        """`contains` for one row."""
        raise NotImplementedError

    def add(self, rows: Array) -> None:
        """Rows that are deleted from now on."""
        raise NotImplementedError

    def remove(self, rows: Array) -> None:
        """Rows that are alive again (reinserted, or their deletion failed)."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True, eq=False)
class StoredRowSet:
    """See the module's page."""

    rowset: DiskRowSet
    undo: tuple[DeltaFile, ...]
    redo: tuple[DeltaFile, ...]
    flushing: DeltaMemStore | None
    memstore: DeltaMemStore
    deleted: DeletedRows

    @property
    def metadata(self) -> RowSetMetadata:
        return self.rowset.metadata

    @property
    def row_count(self) -> int:
        """Base rows, deleted ones included."""
        return self.rowset.row_count

    @property
    def live_count(self) -> int:
        """Rows that are not deleted now."""
        return self.rowset.row_count - self.deleted.count

    @property
    def memstores(self) -> list[DeltaMemStore]:
        """One or two, older first."""
        return [self.memstore] if self.flushing is None else [self.flushing, self.memstore]

    def find_live(self, keys: Keys) -> Array:
        """Row offset per key, -1 where it is not here or deleted now: ndarray of int64, shape (n_keys,)."""
        raise NotImplementedError

    def is_visible(self, timestamp: int) -> bool:
        """May any row be visible at this time?"""
        raise NotImplementedError

    def deltas(self, start: int, stop: int, columns: Collection[int] | None = None) -> tuple[list[Deltas], list[Deltas]]:
        """(UNDO runs, REDO runs in order) of the rows `start` to `stop`: from files and memory, for compactions and
        diff scans."""
        raise NotImplementedError

    def patches(self, timestamp: int, start: int, stop: int, columns: Collection[int] | None = None) -> Patches:
        """What the rows `start` to `stop` need to show the state at `timestamp`, whose writes are all decided. Kept for
        the next asker where no write came in between: a scan of a table at rest pays once."""
        raise NotImplementedError
