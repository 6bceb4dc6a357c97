"""A DiskRowSet with its deltas, as a tablet's state holds it.

        UNDO files        base data         REDO files     flushing   memstore
    [... t3] [t3 ... t7]  DiskRowSet  [t8 ... t20] [... t31]  [t40]   [t41 ... now]

`StoredRowSet` is immutable and replaced as a whole in the tablet's state when a flush or a compaction changes its
parts; only its DeltaMemStore and its `DeletedRows` change in place, under the tablet's `write_lock`.

A `StoredRowSetView` is the same at one time, for a scan. It is made without looking at anything: DeltaMemStores only
grow, and the writes up to its time are decided, so that what it finds in them later is what was there before.
"""

from __future__ import annotations

import posixpath
import threading
from collections.abc import Collection, Sequence
from dataclasses import field, replace
from functools import cached_property

import numpy as np

from ...model.keys.keys import Keys
from ...model.lazy_dataclass import dataclass
from ...model.schema import Schema
from ...model.vectors.vector import Array
from ..deltas.delta_file import DeltaFile
from ..deltas.delta_memstore import DeltaMemStore
from ..deltas.deltas import NO_PATCHES, DeltaKind, Deltas, Patches, merge, resolve
from ..deltas.latest_state import Layer, Past, RowSetPatches
from ..deltas.single_deltas import TailRun
from ..files.filesystem import FileSystem
from ..files.page_cache import PageCache
from .disk_rowset import DiskRowSet
from .rowset_metadata import RowSetMetadata


class DeletedRows:
    """Set of the rows of a rowset that are deleted (in the newest state, writes in flight included).

    REDO files are read at the first use; the map is made at the first deletion. It grows with the rows that are added,
    for a MemRowSet. Changed by one thread at a time (the tablet's writer), read by any.

    Parameters
    ----------
    row_count : int
    files : tuple of DeltaFile
        The rowset's REDO files.
    """

    def __init__(self, row_count: int, files: tuple[DeltaFile, ...] = ()):
        self._row_count = row_count
        self._count = 0
        self._map: bytearray | None = None
        """1 for each deleted row; None while there is none. (Python reads a byte of it five times as fast as numpy.)"""
        self._files = files
        self._loading = threading.Lock()

    @property
    def count(self) -> int:
        """Number of deleted rows."""
        if self._files:
            self.load()
        return self._count

    def contains(self, rows: Array) -> Array:
        """ndarray of bool, parallel to `rows` (ndarray of int64)."""
        if self._files:
            self.load()
        if self._map is None:
            return np.zeros(len(rows), np.bool_)
        bits = np.frombuffer(self._map, np.bool_)
        if len(rows) and int(rows.max()) >= len(bits):
            return np.asarray(bits.take(rows, mode="clip") & (rows < len(bits)))
        return np.asarray(bits[rows])

    def has(self, row: int) -> bool:
        """`contains` for one row."""
        if self._files:
            self.load()
        deleted = self._map
        return deleted is not None and row < len(deleted) and deleted[row] == 1

    def add(self, rows: Array) -> None:
        """Rows (ndarray of int64, none twice) that are deleted from now on."""
        if self._files:
            self.load()
        if len(rows):
            bits = self._writable(int(rows.max()) + 1)
            self._count += len(rows) - int(np.count_nonzero(bits[rows]))
            bits[rows] = True

    def remove(self, rows: Array) -> None:
        """Rows (ndarray of int64, none twice) that are alive again: reinserted, or their deletion failed."""
        if self._files:
            self.load()
        if self._map is not None and len(rows):
            bits = self._writable(int(rows.max()) + 1)
            self._count -= int(np.count_nonzero(bits[rows]))
            bits[rows] = False

    def add_row(self, row: int) -> None:
        """`add` for one row."""
        if not self.has(row):
            if self._map is None or row >= len(self._map):
                self._writable(row + 1)
            assert self._map is not None
            self._map[row] = 1
            self._count += 1

    def remove_row(self, row: int) -> None:
        """`remove` for one row."""
        if self.has(row):
            assert self._map is not None
            self._map[row] = 0
            self._count -= 1

    def load(self) -> None:
        """Read the deletions of the REDO files, once; needed before one of them is removed."""
        with self._loading:
            if not self._files:
                return
            files = [f for f in self._files if f.statistics.deletes or f.statistics.reinserts]
            rows = resolve((), [f.existence() for f in files], 2**64 - 1, ()).hidden
            if len(rows):
                self._writable(self._row_count)[rows] = True
            self._count = len(rows)
            self._files = ()

    def reads(self, files: tuple[DeltaFile, ...]) -> bool:
        """True if it needs at most these files."""
        return not self._files or self._files is files

    def _writable(self, length: int) -> Array:
        """The map as ndarray of bool of at least `length` rows."""
        before = self._map
        if before is None or len(before) < length:
            bits = bytearray(max(length, self._row_count, 0 if before is None else 2 * len(before)))
            if before is not None:
                bits[: len(before)] = before
            self._map = before = bits
        return np.frombuffer(before, np.bool_)


class PatchCache:
    """The layers of a rowset's deltas and the patches of its newest state, kept for the next asker. Safe for several
    threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._layers: dict[Deltas | DeltaFile, Layer] = {}
        self._latest = RowSetPatches(())

    def patches(
        self, files: Sequence[DeltaFile], runs: Sequence[Deltas], rows: int, timestamp: int, past: Past | None
    ) -> RowSetPatches:
        """Patches of `rows` rows by REDO files and runs of deltas, in order of time."""
        with self._lock:
            sources: list[Deltas | DeltaFile] = [*files, *runs]
            layers: list[Layer] = []
            kept: dict[Deltas | DeltaFile, Layer] = {}
            for source in sources:
                layer = kept[source] = self._layers.get(source) or Layer.of(source, rows)
                ends = source if isinstance(source, Deltas) else source.statistics
                if ends.newest <= timestamp:
                    layers.append(layer)
                elif ends.oldest <= timestamp and isinstance(source, TailRun):
                    layers.append(Layer.of(source.until(timestamp), rows))
                elif ends.oldest <= timestamp:
                    layers.append(layer.until(timestamp))
            self._layers = kept
            if past is not None:
                return RowSetPatches(layers, past)
            if self._latest.layers != tuple(layers):
                self._latest = RowSetPatches(layers)
            return self._latest


@dataclass(frozen=True, slots=True, eq=False)
class StoredRowSet:
    """See the module's page."""

    rowset: DiskRowSet
    undo: tuple[DeltaFile, ...]
    redo: tuple[DeltaFile, ...]
    flushing: DeltaMemStore | None
    memstore: DeltaMemStore
    deleted: DeletedRows
    cache: PatchCache = field(default_factory=PatchCache)

    def __post_init__(self) -> None:
        # `dataclasses.replace` may take away files that were not read yet.
        if not self.deleted.reads(self.redo):
            self.deleted.load()

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

    def with_schema(self, schema: Schema) -> StoredRowSet:
        """The same rowset after its table was altered."""
        self.memstore.use_schema(schema)
        return replace(self, rowset=self.rowset.with_schema(schema))

    def close(self) -> None:
        """Release cached pages and close files."""
        self.rowset.close()
        for file in (*self.undo, *self.redo):
            file.close()

    def find_live(self, keys: Keys) -> Array:
        """Row offset per key, -1 where it is not here or deleted now: ndarray of int64, shape (n_keys,)."""
        offsets = self.rowset.find(keys)
        if self.deleted.count:
            here = np.flatnonzero(offsets >= 0)
            offsets[here[self.deleted.contains(offsets[here])]] = -1
        return offsets

    def touched(self, rows: Array, since: int) -> Array:
        """Which of some rows (ndarray of int64, in any order) were inserted, updated or deleted after a timestamp, not
        below the ancient history mark, writes in flight included: ndarray of bool."""
        touched_rows = np.zeros(len(rows), np.bool_)
        for memstore in self.memstores:
            touched_rows |= memstore.touched(rows, since)
        # A change that a compaction has brought into the base data is in an UNDO file.
        for file in (*self.redo, *self.undo):
            if file.statistics.newest > since:
                touched_rows |= file.touched_after(rows, since)
        if self.metadata.inserted > since:
            touched_rows |= ~self._has_own_insertion(rows)
        return touched_rows

    def row_touched(self, row: int, since: int) -> bool:
        """`touched` for one row, in a few microseconds where only rows in memory are that new."""
        if any(memstore.row_touched(row, since) for memstore in self.memstores):
            return True
        if self.metadata.inserted <= since and all(
            file.statistics.newest <= since for file in (*self.redo, *self.undo)
        ):
            return False
        return bool(self.touched(np.array([row]), since)[0])

    def _has_own_insertion(self, rows: Array) -> Array:
        """Which rows have an UNDO delta of their insertion; the others were inserted at `RowSetMetadata.inserted`."""
        existence = merge([file.existence() for file in self.undo])
        if not len(existence):
            return np.zeros(len(rows), np.bool_)
        first = np.minimum(np.searchsorted(existence.rows, rows), len(existence) - 1)
        return np.asarray((existence.rows[first] == rows) & (existence.kinds[first] == DeltaKind.DELETE))

    def key_hashes(self, start: int, stop: int) -> Array:
        """As `DiskRowSet.key_hashes`."""
        return self.rowset.key_hashes(start, stop)

    def is_visible(self, timestamp: int) -> bool:
        """True if any row may be visible at this timestamp."""
        return timestamp >= self.metadata.inserted or bool(self.undo)

    def view(self, timestamp: int) -> StoredRowSetView:
        """The state at `timestamp`, whose writes are all decided."""
        return StoredRowSetView(self, timestamp)

    def deltas(
        self, start: int, stop: int, columns: Collection[int] | None = None
    ) -> tuple[list[Deltas], list[Deltas]]:
        """(UNDO runs, REDO runs in order) of the rows `start` to `stop`: from files and memory, for compactions and
        diff scans."""
        undo = [file.read(start, stop, columns) for file in self.undo]
        redo = [file.read(start, stop, columns) for file in self.redo]
        for memstore in self.memstores:
            for run in memstore.snapshot():
                part = run.between(start, stop)
                redo.append(part if columns is None else part.only_columns(columns))
        return undo, redo

    def patches(self, timestamp: int, start: int, stop: int, columns: Collection[int] | None = None) -> Patches:
        """Patches of the rows `start` to `stop` for the state at `timestamp`, whose writes are all decided. Cached
        until the next write, so scans of an unchanged table compute them once."""
        return self.view(timestamp).patches(start, stop, columns)


@dataclass(frozen=True, eq=False)
class StoredRowSetView:
    """A rowset at one time; see the module's page. Safe for several threads."""

    stored: StoredRowSet
    timestamp: int

    @property
    def rowset(self) -> DiskRowSet:
        return self.stored.rowset

    @property
    def metadata(self) -> RowSetMetadata:
        return self.stored.rowset.metadata

    @property
    def row_count(self) -> int:
        """Base rows, hidden ones included."""
        return self.stored.rowset.row_count

    @cached_property
    def all_patches(self) -> RowSetPatches | None:
        """The patches of all rows, resolved at first use; None where the base data is the state."""
        stored = self.stored
        runs = [run for memstore in stored.memstores if memstore.version for run in memstore.snapshot()]
        metadata = self.metadata
        past = None
        if self.timestamp < max(metadata.newest_undo, metadata.inserted):
            past = Past(stored.undo, self.row_count, metadata.inserted, self.timestamp)
        if not runs and not stored.redo and past is None:
            return None
        patches = stored.cache.patches(stored.redo, runs, self.row_count, self.timestamp, past)
        return None if not patches.layers and past is None else patches

    def patches(self, start: int, stop: int, columns: Collection[int] | None = None) -> Patches:
        """As `StoredRowSet.patches`."""
        all_patches = self.all_patches
        if all_patches is None:
            return NO_PATCHES
        return all_patches.within(start, stop, self.rowset.column_ids if columns is None else columns)

    def deltas(
        self, start: int, stop: int, columns: Collection[int] | None = None
    ) -> tuple[list[Deltas], list[Deltas]]:
        """As `StoredRowSet.deltas`; some of them may be of later times."""
        return self.stored.deltas(start, stop, columns)


def open_rowset(
    fs: FileSystem, directory: str, schema: Schema, metadata: RowSetMetadata, cache: PageCache
) -> StoredRowSet:
    """A rowset by its metadata, without deltas in memory. No file is touched before it is needed."""
    handles = cache.handles(fs)

    def opened(names: Sequence[str]) -> tuple[DeltaFile, ...]:
        return tuple(DeltaFile(handles, posixpath.join(directory, name), schema, cache) for name in names)

    redo = opened(metadata.redo_files)
    return StoredRowSet(
        rowset=DiskRowSet.open(fs, directory, schema, metadata, cache),
        undo=opened(metadata.undo_files),
        redo=redo,
        flushing=None,
        memstore=DeltaMemStore(schema),
        deleted=DeletedRows(metadata.row_count, redo),
    )
