"""One tablet: its state in memory and on disk, opening and closing. What is done with it has modules of its own:
`tablet_write`, `tablet_scan`, `tablet_flush`.

    tables/<table id>/<tablet id>/metadata       which rowsets there are, how far they reach in the log
                                  wal/           log segments
                                  rowsets/       column files and Bloom filters

    TabletState ──┬── memrowset     takes inserts
                  ├── flushing      the MemRowSet before it, while a flush writes it to disk
                  ├── rowsets       DiskRowSets
                  └── tree          the same, to find by key

The state is immutable and replaced as a whole: a reader takes it once and sees every row exactly once, whatever
flushes and loads do meanwhile.

Locks, in the order in which they are taken: `flush_lock` (one flush at a time), `write_lock` (key checks, log order,
inserts), `metadata_lock` (the metadata file and, with it, the state's rowsets).
"""

from __future__ import annotations

import threading
import weakref
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from ..errors import CorruptionError, OperationalError
from .clock import HybridClock, format_timestamp
from .disk_rowset import DiskRowSet
from .filesystem import FileSystem
from .keys import Keys
from .memrowset import IndexKeys, MemRowSet, MemRowSetSnapshot, index_keys
from .mvcc import MvccManager
from .page_cache import PageCache
from .rowset_metadata import RowSetMetadata
from .rowset_tree import RowSetTree
from .schema import Schema, Table
from .store import ScanCounters, Timestamp
from .tablet_metadata import TabletMetadata
from .vector import Array
from .wal import LogTicket, WriteAheadLog
from .wal_format import EntryKind, LogEntry, decode_write

COLUMN_ID = b"nyala.column_id"
"""Field metadata of logged rows: the column's permanent id."""
REPLAY_ENTRIES = 1024
"""Log entries that are replayed as one insert: a single row costs as much as some hundred."""


@dataclass(frozen=True, slots=True)
class StoreOptions:
    """What all tablets of a store share.

    Parameters
    ----------
    durability : str
        "fsync": a write is acknowledged when it is on the disk. "os": when the system has it; it survives the
        process, but a power failure may cost about the last second.
    memrowset_bytes : int
        A MemRowSet of this size is flushed.
    segment_bytes, rowset_bytes : int
        Sizes aimed at, of log segments and DiskRowSets.
    """

    durability: str = "fsync"
    memrowset_bytes: int = 128 << 20
    segment_bytes: int = 64 << 20
    rowset_bytes: int = 64 << 20


@dataclass(frozen=True, slots=True, eq=False)
class StoredRowSet:
    """An open DiskRowSet, and when its rows were inserted.

    All rows are visible at or above `newest`, none below `oldest`. For a snapshot in between, `inserted` has the
    timestamp of each row (ndarray of uint64): it is kept in memory for a while after a flush, because snapshots taken
    before it are still being read then. UNDO files will keep it for good.
    """

    rowset: DiskRowSet
    oldest: int
    newest: int
    inserted: Array | None = None

    def is_visible(self, timestamp: int) -> bool:
        """Is any row visible at this time?"""
        return timestamp >= self.oldest

    def visible_rows(self, timestamp: int, table: str) -> Array | None:
        """Which rows are visible: ndarray of bool, shape (n_rows,); None for all. Raises `OperationalError` where that
        is forgotten."""
        if timestamp >= self.newest:
            return None
        if self.inserted is None:
            raise OperationalError(
                f"cannot read table {table} as of {format_timestamp(Timestamp(timestamp))}: "
                f"its history is kept only since {format_timestamp(Timestamp(self.newest))}"
            )
        return np.asarray(self.inserted <= np.uint64(timestamp))


@dataclass(frozen=True, slots=True, eq=False)
class TabletState:
    """All rows of a tablet, each exactly once."""

    memrowset: MemRowSet
    flushing: MemRowSet | None
    rowsets: tuple[StoredRowSet, ...]
    tree: RowSetTree[StoredRowSet]

    @classmethod
    def of(cls, memrowset: MemRowSet, flushing: MemRowSet | None, rowsets: Sequence[StoredRowSet]) -> TabletState:
        """A state with its tree."""
        entries = [(r.rowset.metadata.min_key, r.rowset.metadata.max_key, r) for r in rowsets]
        return cls(memrowset, flushing, tuple(rowsets), RowSetTree(entries))

    @property
    def memrowsets(self) -> list[MemRowSet]:
        """One or two."""
        return [self.memrowset] if self.flushing is None else [self.flushing, self.memrowset]


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class TabletView:
    """What a scan reads: a tablet at one timestamp. It keeps the tablet's files from being removed."""

    table: Table
    timestamp: int
    memrowsets: tuple[MemRowSetSnapshot, ...]
    rowsets: tuple[StoredRowSet, ...]


@dataclass(slots=True, eq=False)
class LoggedWrite:
    """A write that is in the log and the MemRowSet, perhaps not durable yet."""

    ticket: LogTicket
    memrowset: MemRowSet
    keys: IndexKeys
    timestamp: int


@dataclass(eq=False)
class Tablet:
    """A tablet that is open; see the module's page.

    Invariants: `metadata` is what the metadata file holds, or will hold after the next replacement where the last one
    failed; its rowsets are those of `state`; the log holds every durable row of `state.memrowsets`.
    """

    id: str
    table: Table
    fs: FileSystem
    directory: str
    cache: PageCache
    options: StoreOptions
    metadata: TabletMetadata
    state: TabletState
    log: WriteAheadLog
    mvcc: MvccManager
    undecided: deque[LoggedWrite] = field(default_factory=deque)
    """Writes whose log entries were not known to be durable when last looked at; guarded by `write_lock`."""
    views: weakref.WeakSet[TabletView] = field(default_factory=weakref.WeakSet)
    write_lock: threading.Lock = field(default_factory=threading.Lock)
    flush_lock: threading.Lock = field(default_factory=threading.Lock)
    metadata_lock: threading.Lock = field(default_factory=threading.Lock)
    _ids_lock: threading.Lock = field(default_factory=threading.Lock)
    _next_rowset_id: int = 1

    # ---- birth and end -------------------------------------------------------------------------------------------

    @staticmethod
    def create(fs: FileSystem, directory: str, tablet_id: str) -> None:
        """Make the files of an empty tablet durable, but for the name of `directory` itself."""
        for name in ("wal", "rowsets"):
            fs.make_directory(f"{directory}/{name}")
        TabletMetadata(tablet_id).write(fs, directory)

    @classmethod
    def open(
        cls,
        fs: FileSystem,
        directory: str,
        table: Table,
        metadata: TabletMetadata,
        *,
        cache: PageCache,
        clock: HybridClock,
        options: StoreOptions,
    ) -> Tablet:
        """Recover a tablet: remove files that no metadata names, replay the log. `CorruptionError` names a file that
        is damaged or missing."""
        rowset_directory = f"{directory}/rowsets"
        check_files(fs, rowset_directory, metadata)
        rowsets = [open_rowset(fs, rowset_directory, table.schema, m, cache) for m in metadata.rowsets]
        clock.update(Timestamp(metadata.newest))
        replay = _Replay(table.schema, clock, f"{directory}/wal")
        log = WriteAheadLog.recover(
            fs,
            f"{directory}/wal",
            log_schema(table.schema),
            metadata.durable_index,
            replay.add,
            syncs=options.durability == "fsync",
            segment_bytes=options.segment_bytes,
        )
        return cls(
            id=metadata.tablet_id,
            table=table,
            fs=fs,
            directory=directory,
            cache=cache,
            options=options,
            metadata=metadata,
            state=TabletState.of(replay.finish(), None, rowsets),
            log=log,
            mvcc=MvccManager(clock),
            _next_rowset_id=metadata.next_rowset_id,
        )

    def close(self) -> None:
        """Sync the log and close all files. Scans must have ended."""
        try:
            self.log.close()
        finally:
            for stored in self.state.rowsets:
                stored.rowset.close()

    # ---- parts ---------------------------------------------------------------------------------------------------

    @property
    def rowset_directory(self) -> str:
        return f"{self.directory}/rowsets"

    def next_rowset_id(self) -> int:
        """A rowset id that was never used."""
        with self._ids_lock:
            self._next_rowset_id += 1
            return self._next_rowset_id - 1

    @property
    def unused_rowset_id(self) -> int:
        """A number above every rowset id in use."""
        return self._next_rowset_id

    def add_rowsets(self, metadata: TabletMetadata, added: Sequence[StoredRowSet], flushed: MemRowSet | None) -> None:
        """Put rowsets into the state in place of a flushed MemRowSet. Needs `metadata_lock`."""
        self.metadata = metadata
        state = self.state
        flushing = None if flushed is state.flushing else state.flushing
        self.state = TabletState.of(state.memrowset, flushing, [*state.rowsets, *added])

    def view(self, timestamp: int) -> TabletView:
        """The rows as of a timestamp that the clock has passed; waits for writes in flight below it."""
        self.mvcc.wait_until_clean(timestamp)
        state = self.state
        snapshots = tuple(m.snapshot() for m in state.memrowsets if m.row_count)
        rowsets = tuple(r for r in state.rowsets if r.is_visible(timestamp))
        view = TabletView(self.table, timestamp, snapshots, rowsets)
        self.views.add(view)
        return view

    @property
    def row_count(self) -> int:
        """About how many rows there are."""
        state = self.state
        return sum(m.row_count for m in state.memrowsets) + sum(r.rowset.row_count for r in state.rowsets)

    def check(self) -> None:
        """Hold the tablet against its invariants; costs a read of everything. For tests and tools."""
        state = self.state
        assert [r.rowset.metadata for r in state.rowsets] == list(self.metadata.rowsets), "state and metadata differ"
        assert self.metadata.durable_index <= self.log.last_index, "metadata is ahead of the log"
        seen: set[int | bytes] = set()
        for memrowset in state.memrowsets:
            rows, _ = memrowset.snapshot().to_table()
            _check_new(seen, index_keys(Keys.from_rows(self.table.schema, rows)), self.id)
        for stored in state.rowsets:
            stored.rowset.check()
            for keys in rowset_keys(self.table.schema, stored.rowset):
                _check_new(seen, index_keys(keys), self.id)


def _check_new(seen: set[int | bytes], keys: IndexKeys, tablet_id: str) -> None:
    before = len(seen)
    seen.update(keys)
    assert len(seen) == before + len(keys), f"tablet {tablet_id} has a key twice"


# ---- rowsets -----------------------------------------------------------------------------------------------------


def open_rowset(
    fs: FileSystem, directory: str, schema: Schema, metadata: RowSetMetadata, cache: PageCache
) -> StoredRowSet:
    """A rowset by its metadata."""
    oldest = metadata.extra.get("oldest", metadata.newest_undo)
    return StoredRowSet(DiskRowSet.open(fs, directory, schema, metadata, cache), oldest, metadata.newest_undo)


def rowset_files(metadata: RowSetMetadata) -> list[str]:
    """The names of a rowset's files."""
    return [*metadata.column_files.values(), metadata.bloom_file, *metadata.undo_files, *metadata.redo_files]


def check_files(fs: FileSystem, directory: str, metadata: TabletMetadata) -> None:
    """Remove what a crash left of unfinished flushes and loads; `CorruptionError` where a rowset's file is missing."""
    wanted = {name for rowset in metadata.rowsets for name in rowset_files(rowset)}
    found = set(fs.list(directory))
    if missing := sorted(wanted - found):
        raise CorruptionError("the file is missing", f"{directory}/{missing[0]}", "whole file")
    for name in sorted(found - wanted):
        fs.remove(f"{directory}/{name}")


def rowset_keys(schema: Schema, rowset: DiskRowSet) -> list[Keys]:
    """All keys of a rowset, in pieces, in key order."""
    types = tuple(column.type for column in schema.key)
    batches = rowset.scan(schema.key, (), 0, rowset.row_count, ScanCounters())
    return [Keys(types, tuple(batch.columns())) for batch in batches]


# ---- the log's rows ----------------------------------------------------------------------------------------------


def log_schema(schema: Schema) -> pa.Schema:
    """The Arrow schema of logged rows; fields carry their column's id, so that later schemas can read them."""
    return pa.schema(
        [pa.field(c.name, c.type.arrow, c.nullable, {COLUMN_ID: str(c.id).encode()}) for c in schema.columns]
    )


def logged_rows(rows: pa.RecordBatch, schema: Schema) -> pa.RecordBatch:
    """Rows from the log in a table's schema of today: columns by id, defaults where the log has none."""
    places = {int(field.metadata[COLUMN_ID]): place for place, field in enumerate(rows.schema)}
    arrays = []
    for column in schema.columns:
        place = places.get(column.id)
        if place is not None:
            arrays.append(rows.column(place))
        else:
            default = pa.scalar(column.type.to_python(column.default), column.type.arrow)
            arrays.append(pa.repeat(default, rows.num_rows))
    return pa.RecordBatch.from_arrays(arrays, schema=schema.arrow)


class _Replay:
    """Collects log entries and inserts them into a MemRowSet, many at a time."""

    def __init__(self, schema: Schema, clock: HybridClock, path: str):
        self._schema = schema
        self._clock = clock
        self._path = path
        self._memrowset = MemRowSet(schema)
        self._rows: list[pa.RecordBatch] = []
        self._stamps: list[int] = []
        self._index = 0

    def add(self, entry: LogEntry, schema: pa.Schema) -> None:
        self._clock.update(Timestamp(entry.timestamp))
        if entry.kind is EntryKind.LOAD:
            return  # the metadata says whether it happened
        rows, _ = decode_write(entry.body, schema)
        self._rows.append(logged_rows(rows, self._schema))
        self._stamps.append(entry.timestamp)
        self._index = entry.index
        if len(self._rows) == REPLAY_ENTRIES:
            self._insert()

    def finish(self) -> MemRowSet:
        self._insert()
        return self._memrowset

    def _insert(self) -> None:
        if not self._rows:
            return
        counts = [rows.num_rows for rows in self._rows]
        rows = pa.concat_batches(self._rows)
        keys = Keys.from_rows(self._schema, rows)
        index = index_keys(keys)
        if len(keys.duplicates()) or self._memrowset.contains(index) is not None:
            raise CorruptionError("a key was inserted twice", self._path, f"entries up to {self._index}")
        self._memrowset.insert(rows, index, np.repeat(np.array(self._stamps, np.uint64), counts))
        self._memrowset.note_durable(self._index)
        self._rows.clear()
        self._stamps.clear()
