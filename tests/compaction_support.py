"""Tablets with a history, made without log and MemRowSet, for the tests of compactions: every version is known."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
from nyala.model.clock import HybridClock
from nyala.model.schema import ColumnSchema, PartitionSchema, Schema, Table, assign_column_ids
from nyala.model.types import BIGINT, STRING
from nyala.storage.deltas.delta_file import write_delta_file
from nyala.storage.deltas.deltas import DeltaColumn, DeltaKind, Deltas, apply_patch, merge
from nyala.storage.deltas.inversion import insertions, invert
from nyala.storage.files.filesystem import FileSystem
from nyala.storage.files.memory_filesystem import MemoryFileSystem
from nyala.storage.files.page_cache import PageCache
from nyala.storage.log.wal import WriteAheadLog
from nyala.storage.log.wal_format import log_schema
from nyala.storage.rowsets.memrowset import MemRowSet
from nyala.storage.rowsets.rowset_source import RowSetSource
from nyala.storage.rowsets.rowset_writer import write_rowsets
from nyala.storage.rowsets.stored_rowset import StoredRowSet, open_rowset
from nyala.storage.tablet.mvcc import MvccManager
from nyala.storage.tablet.tablet import StoreOptions, Tablet, TabletState
from nyala.storage.tablet.tablet_metadata import TabletMetadata

COLUMNS = assign_column_ids(
    (ColumnSchema("k", BIGINT, nullable=False), ColumnSchema("v", BIGINT), ColumnSchema("w", STRING))
)
SCHEMA = Schema(COLUMNS, 1)
Row = tuple[Any, ...]


def make_tablet(fs: FileSystem | None = None, **options: Any) -> Tablet:
    """An empty tablet."""
    fs = fs or MemoryFileSystem()
    Tablet.create(fs, "t", "t")
    table = Table("t", "t", SCHEMA, PartitionSchema())
    cache = PageCache(1 << 20)
    return Tablet(
        id="t",
        table=table,
        fs=fs,
        directory="t",
        cache=cache,
        options=StoreOptions(**options),
        metadata=TabletMetadata.read(fs, "t"),
        state=TabletState.of(MemRowSet(SCHEMA), None, [], cache),
        log=WriteAheadLog(fs, "t/wal", log_schema(SCHEMA)),
        mvcc=MvccManager(HybridClock()),
    )


class History:
    """A random history of a few keys in one tablet. Times are 10, 20, 30, ..."""

    def __init__(self, seed: int, keys: int = 6, fs: FileSystem | None = None, **options: Any):
        self.tablet = make_tablet(fs, **options)
        self.versions: dict[int, list[tuple[int, Row | None]]] = {key: [] for key in range(keys)}
        self.rng = random.Random(seed)
        self.time = 0
        self._memory: dict[int, list[tuple[int, DeltaKind, dict[int, Any]]]] = {}

    # ---- writing -------------------------------------------------------------------------------------------------

    def write(self, count: int) -> None:
        """Some random writes of one row each."""
        for _ in range(count):
            self.time += 10
            key = self.rng.choice(list(self.versions))
            versions = self.versions[key]
            row = versions[-1][1] if versions else None
            if row is None:
                row = (key, self._number(), self._text())
                kind = DeltaKind.REINSERT
                given = {1: row[1], 2: row[2]}
            elif self.rng.random() < 0.3:
                row, kind, given = None, DeltaKind.DELETE, {}
            else:
                kind = DeltaKind.UPDATE
                given = {1: self._number()} if self.rng.random() < 0.5 else {2: self._text()}
                row = (key, given.get(1, row[1]), given.get(2, row[2]))
            versions.append((self.time, row))
            self.apply(key, kind, given)

    def _number(self) -> int | None:
        return self.rng.choice([None, *range(50)])

    def _text(self) -> str | None:
        return self.rng.choice([None, "a", "bb", "ccc"])

    def apply(self, key: int, kind: DeltaKind, given: dict[int, Any]) -> None:
        """Change a row in memory, at the present time."""
        self.tablet.newest = self.time
        if key in self._memory:
            self._memory[key].append((self.time, kind, given))
            return
        if kind is DeltaKind.REINSERT:
            self._memory[key] = [(self.time, kind, given)]
            return
        for stored in self.tablet.state.rowsets:
            keys = keys_of(stored)
            if key in keys and not stored.deleted.has(keys.index(key)):
                stored.memstore.append_row(keys.index(key), kind, given, self.time, 1)
                if kind is DeltaKind.DELETE:
                    stored.deleted.add(np.array([keys.index(key)]))
                return
        raise AssertionError("a row that lives is somewhere")

    # ---- flushing ------------------------------------------------------------------------------------------------

    def flush(self) -> None:
        """Write what is in memory as a rowset, as a MemRowSet's flush does."""
        if not self._memory:
            return
        tablet = self.tablet
        keys = sorted(self._memory)
        first = [self._memory[key][0] for key in keys]
        initial = {c.id: pa.array([r[2][c.id] for r in first], c.type.arrow) for c in COLUMNS[1:]}
        records = [(row, *record) for row, key in enumerate(keys) for record in self._memory[key][1:]]
        turned = invert(COLUMNS[1:], initial, deltas_of(records))
        inserted = np.array([r[0] for r in first], np.uint64)
        rows = pa.table({"k": pa.array(keys, pa.int64()), "v": turned.columns[1], "w": turned.columns[2]})
        (metadata,) = write_rowsets(
            tablet.fs, tablet.rowset_directory, SCHEMA, rows, next_id=tablet.next_rowset_id, timestamp=0
        )
        undo = turned.undo
        if len(set(inserted.tolist())) == 1 and self.rng.random() < 0.5:
            metadata = replace(metadata, inserted=int(inserted[0]), newest_undo=max(int(inserted[0]), undo.newest))
        else:
            undo = merge([undo, insertions(inserted)])
        stem = f"{tablet.rowset_directory}/rowset-{metadata.id:08d}"
        if len(undo):
            write_delta_file(tablet.fs, f"{stem}-undo-000001.delta", SCHEMA, undo)
            metadata = replace(
                metadata,
                undo_files=(f"rowset-{metadata.id:08d}-undo-000001.delta",),
                newest_undo=max(metadata.newest_undo, undo.newest),
            )
        if len(turned.deletes):
            write_delta_file(tablet.fs, f"{stem}-redo-000001.delta", SCHEMA, turned.deletes)
            metadata = replace(metadata, redo_files=(f"rowset-{metadata.id:08d}-redo-000001.delta",))
        stored = open_rowset(tablet.fs, tablet.rowset_directory, SCHEMA, metadata, tablet.cache)
        self._replace([], [stored])
        self._memory = {}

    def flush_deltas(self, stored: StoredRowSet) -> None:
        """Write a rowset's DeltaMemStore as a REDO file."""
        deltas = merge(stored.memstore.snapshot())
        if not len(deltas):
            return
        tablet, before = self.tablet, stored.metadata
        number = max((int(name[-12:-6]) for name in before.redo_files), default=0) + 1
        name = f"rowset-{before.id:08d}-redo-{number:06d}.delta"
        write_delta_file(tablet.fs, f"{tablet.rowset_directory}/{name}", SCHEMA, deltas)
        metadata = replace(before, redo_files=(*before.redo_files, name))
        self._replace([stored], [open_rowset(tablet.fs, tablet.rowset_directory, SCHEMA, metadata, tablet.cache)])

    def _replace(self, old: list[StoredRowSet], new: list[StoredRowSet]) -> None:
        tablet = self.tablet
        with tablet.metadata_lock:
            metadata = tablet.metadata.with_rowsets([s.metadata.id for s in old], [s.metadata for s in new])
            tablet.write_metadata(metadata)
        with tablet.swap():
            tablet.replace_rowsets(old, new)

    # ---- reading -------------------------------------------------------------------------------------------------

    @property
    def rowsets(self) -> tuple[StoredRowSet, ...]:
        return self.tablet.state.rowsets

    def expected(self, time: int) -> list[Row]:
        """The rows as of a time."""
        found = []
        for versions in self.versions.values():
            rows = [row for stamp, row in versions if stamp <= time]
            if rows and rows[-1] is not None:
                found.append(rows[-1])
        return found

    def check(self, some: int | None = None) -> None:
        """Hold the rowsets against the versions, at all times above the ancient history mark or at some of them."""
        assert not self._memory, "flush first"
        assert [s.metadata for s in self.rowsets] == list(self.tablet.metadata.rowsets)
        bases = {stored: base_columns(stored) for stored in self.rowsets}
        times = list(range(0, self.time + 10, 10))
        if some is not None:
            times = self.rng.sample(times, min(some, len(times)))
        for time in times:
            if time >= self.tablet.metadata.ancient_history_mark:
                found = sorted(row for stored in self.rowsets for row in rows_at(stored, bases[stored], time))
                assert found == self.expected(time), f"at {time}"

    def reopen(self) -> None:
        """Read everything from files again; what is in DeltaMemStores must have been flushed."""
        tablet = self.tablet
        tablet.metadata = TabletMetadata.read(tablet.fs, "t")
        rowsets = [
            open_rowset(tablet.fs, tablet.rowset_directory, SCHEMA, m, tablet.cache) for m in tablet.metadata.rowsets
        ]
        tablet.state = TabletState.of(MemRowSet(SCHEMA), None, rowsets, tablet.cache)


def deltas_of(records: list[tuple[int, int, DeltaKind, dict[int, Any]]]) -> Deltas:
    """Deltas from (row, time, kind, values), by row and time."""
    columns = {}
    for column in COLUMNS[1:]:
        places = [i for i, record in enumerate(records) if column.id in record[3]]
        if places:
            values = pa.array([records[i][3][column.id] for i in places], column.type.arrow)
            columns[column.id] = DeltaColumn(np.array(places, np.int64), values)
    rows, times, kinds = zip(*(record[:3] for record in records)) if records else ((), (), ())
    return Deltas(np.array(rows, np.int64), np.array(times, np.uint64), np.array(kinds, np.uint8), columns)


def keys_of(stored: StoredRowSet) -> list[int]:
    """The keys of a rowset's base data."""
    return RowSetSource(stored, 0).base(COLUMNS[0], 0, stored.row_count).to_pylist()


def base_columns(stored: StoredRowSet) -> list[pa.Array]:
    """The base data of a rowset."""
    return [RowSetSource(stored, 0).base(column, 0, stored.row_count) for column in COLUMNS]


def rows_at(stored: StoredRowSet, base: list[pa.Array], time: int) -> list[Row]:
    """The rows of a rowset that are visible at a time."""
    patches = stored.patches(time, 0, stored.row_count)
    hidden = set(patches.hidden.tolist())
    columns = []
    for column, values in zip(COLUMNS, base):
        patch = patches.columns.get(column.id)
        columns.append((values if patch is None else apply_patch(values, patch)).to_pylist())
    return [row for number, row in enumerate(zip(*columns)) if number not in hidden]
