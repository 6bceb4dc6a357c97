"""Readable rows of a table whose files are damaged, with a line for each loss.

The store must not be open, and not a byte of it is changed. Tablet by tablet:

1. Metadata, with the bulk loads whose records a crash left. Without metadata, the rowsets are guessed from the names
   and footers of their files; the log is ignored then, because the metadata says which of its entries are in files.
2. Rowsets whose keys can be read. A column that cannot be read is NULL in the row groups that are damaged, changes in
   delta files that cannot be read are lost: the rows keep their earlier values.
3. The log up to the first damaged entry. An entry that changes lost rows is skipped, and so is a part of a write over
   several tablets that the commit log does not have.

Rows are those of the newest state, without deleted ones. The only guarantee is that their bytes had correct checksums:
a row may be older than an acknowledged one, and a deleted row may reappear.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Collection, Iterator
from dataclasses import field, replace

import pyarrow as pa

from ...errors import CorruptionError, Error, OperationalError, UnknownTable, did_you_mean
from ...model.lazy_dataclass import dataclass
from ...model.schema import ColumnSchema, Table
from ...model.store import ScanCounters
from ..columns.column_file import ROW_GROUP_ROWS
from ..files.filesystem import FileSystem
from ..files.page_cache import PageCache
from ..loads.load_record import PREFIX, LoadRecord
from ..log.commit_log import CommitLog
from ..log.wal_format import EntryKind, LogEntry, decode_header
from ..log.wal_recovery import segment_index
from ..rowsets.disk_rowset import DiskRowSet, rowset_keys
from ..rowsets.rowset_metadata import RowSetMetadata
from ..rowsets.stored_rowset import StoredRowSet, open_rowset
from ..tables.catalog import Catalog, CatalogEntry
from ..tablet.tablet_metadata import TabletMetadata
from ..tablet.tablet_replay import Replay
from .dump.column_footer import file_facts
from .dump.dump_log import good_entries
from .files import read_file
from .read_only import ReadOnlyFileSystem
from .text import key_text

_LATEST = (1 << 64) - 1
_CACHE_BYTES = 64 << 20
_UNKNOWN_KEYS = (b"", b"\xff")
_COLUMN_FILE = re.compile(r"rowset-(\d+)-column-(\d+)(?:-(\d+))?\.col")


@dataclass(slots=True)
class Salvage:
    """The rows that can be read of a table; `lost` grows while they are read, a line for each loss."""

    table: Table
    batches: Iterator[pa.RecordBatch]
    lost: list[str] = field(default_factory=list)

    @property
    def schema(self) -> pa.Schema:
        """Of the batches: the table's, in which every column may be NULL."""
        return salvage_schema(self.table)


def salvage_schema(table: Table) -> pa.Schema:
    """The columns of what is salvaged of a table."""
    return pa.schema([pa.field(column.name, column.type.arrow) for column in table.schema.columns])


def salvage_table(fs: FileSystem, directory: str, name: str, tablet_ids: Collection[str] | None = None) -> Salvage:
    """Begin to read what can be read of a table, or of some of its tablets. `UnknownTable` where the catalog has none
    of that name, `CorruptionError` where the catalog itself is damaged."""
    directory = directory.rstrip("/") or "/"
    catalog = Catalog.read(fs, f"{directory}/catalog")
    entries = catalog.entries
    entry = entries.get(name)
    if entry is None:
        raise UnknownTable(f"table {name} does not exist{did_you_mean(name, entries)}")
    lost: list[str] = []
    reading = ReadOnlyFileSystem(fs)
    commits = CommitLog(reading, f"{directory}/commits", is_trial=True)
    commits.note_decided(catalog.decided)
    batches = _rows(reading, f"{directory}/tables/{entry.table.id}", entry, commits, lost, tablet_ids)
    return Salvage(entry.table, batches, lost)


def _rows(
    fs: FileSystem,
    directory: str,
    entry: CatalogEntry,
    commits: CommitLog,
    lost: list[str],
    tablet_ids: Collection[str] | None,
) -> Iterator[pa.RecordBatch]:
    loads = _loads(fs, directory, lost)
    for tablet_id in entry.tablet_ids if tablet_ids is None else tablet_ids:
        yield from _TabletSalvage(fs, f"{directory}/{tablet_id}", entry.table, tablet_id, loads, commits, lost).rows()


def _loads(fs: FileSystem, directory: str, lost: list[str]) -> list[LoadRecord]:
    loads = []
    names = fs.list(directory) if fs.exists(directory) else []
    for name in names:
        if name.startswith(PREFIX) and not name.endswith(".tmp"):
            try:
                loads.append(LoadRecord.read(fs, f"{directory}/{name}"))
            except OperationalError as error:
                lost.append(f"a bulk load: {error}")
    return loads


@dataclass(slots=True)
class _TabletSalvage:
    fs: FileSystem
    directory: str
    table: Table
    tablet_id: str
    loads: list[LoadRecord]
    commits: CommitLog
    lost: list[str]
    cache: PageCache = field(default_factory=lambda: PageCache(_CACHE_BYTES))

    def rows(self) -> Iterator[pa.RecordBatch]:
        """The readable rows of the tablet."""
        metadata = self._metadata()
        known = metadata or self._guessed()
        rowsets = [stored for rowset in known.rowsets if (stored := self._sound(rowset)) is not None]
        replay = Replay(self.table.schema, rowsets, self.cache, known.durable_index, f"{self.directory}/wal")
        if metadata is not None:
            self._replay(replay, metadata)
        for stored in replay.state.rowsets:
            yield from self._rowset_rows(stored)
            stored.close()
        memrowset = replay.state.memrowset
        if memrowset.row_count:
            snapshot = memrowset.snapshot(self.table.schema)
            columns = self.table.schema.columns
            for batch in snapshot.scan(columns, (), 0, memrowset.row_count, _LATEST >> 1, ScanCounters()):
                yield self._batch([vector.to_arrow() for vector in batch.columns()])

    # ---- metadata ------------------------------------------------------------------------------------------------

    def _metadata(self) -> TabletMetadata | None:
        try:
            metadata = TabletMetadata.read(self.fs, self.directory, self.tablet_id)
        except Error as error:
            self.lost.append(f"tablet {self.tablet_id}: its metadata, and with it the rows in its log alone: {error}")
            return None
        for record in self.loads:
            load = record.tablets.get(self.tablet_id)
            if load is not None and metadata.last_load < record.timestamp:
                metadata = load.applied_to(metadata, record.timestamp)
        return metadata

    def _guessed(self) -> TabletMetadata:
        """The rowsets by the names of their files, of each column the newest."""
        directory = f"{self.directory}/rowsets"
        columns: dict[int, dict[int, tuple[int, str]]] = {}
        names = self.fs.list(directory) if self.fs.exists(directory) else []
        for name in names:
            match = _COLUMN_FILE.fullmatch(name)
            if match is not None:
                rowset, column, generation = int(match[1]), int(match[2]), int(match[3] or 0)
                known = columns.setdefault(rowset, {})
                known[column] = max(known.get(column, (-1, "")), (generation, name))
        rowsets = []
        for rowset, files in sorted(columns.items()):
            redo = tuple(n for n in names if n.startswith(f"rowset-{rowset:08d}-redo-") and n.endswith(".delta"))
            for _, name in files.values():
                with contextlib.suppress(OperationalError):
                    count = file_facts(self.fs, f"{directory}/{name}").rows
                    chosen = {column: found for column, (_, found) in files.items()}
                    bloom = f"rowset-{rowset:08d}.bloom"
                    rowsets.append(RowSetMetadata(rowset, count, *_UNKNOWN_KEYS, chosen, bloom, redo_files=redo))
                    break
        return TabletMetadata(self.tablet_id, tuple(rowsets))

    # ---- rowsets -------------------------------------------------------------------------------------------------

    def _sound(self, metadata: RowSetMetadata) -> StoredRowSet | None:
        """The rowset without the files that cannot be read; None where its keys are among them."""
        where = f"tablet {self.tablet_id}: rowset {metadata.id}"
        directory = f"{self.directory}/rowsets"
        files = {}
        for column, name in metadata.column_files.items():
            if self.fs.exists(f"{directory}/{name}"):
                files[column] = name
            else:
                self.lost.append(f"{where}: column {self._name(column)}: {directory}/{name} is missing")
        kept = replace(metadata, column_files=files, undo_files=(), newest_undo=0, inserted=0)
        try:
            stored = open_rowset(self.fs, directory, self.table.schema, kept, self.cache)
            rowset_keys(self.table.schema, stored.rowset)
        except (Error, KeyError) as error:
            keys = self._key_range(metadata)
            self.lost.append(f"{where}: all of its {metadata.row_count:,} rows{keys}: its keys cannot be read: {error}")
            return None
        try:
            stored.deleted.load()
            stored.view(_LATEST).patches(0, stored.row_count)
        except Error as error:
            stored.close()
            self.lost.append(f"{where}: the changes in its delta files, rows are as they were before: {error}")
            return open_rowset(self.fs, directory, self.table.schema, replace(kept, redo_files=()), self.cache)
        return stored

    def _key_range(self, metadata: RowSetMetadata) -> str:
        """The least and the greatest key of a rowset, as its metadata has them; "" if that was guessed."""
        if (metadata.min_key, metadata.max_key) == _UNKNOWN_KEYS:
            return ""
        types = tuple(column.type for column in self.table.schema.key)
        low, high = key_text(types, metadata.min_key), key_text(types, metadata.max_key)
        return f", keys ({low}) to ({high})"

    def _name(self, column: int) -> str:
        return next((c.name for c in self.table.schema.columns if c.id == column), f"id {column}")

    def _rowset_rows(self, stored: StoredRowSet) -> Iterator[pa.RecordBatch]:
        for start in range(0, stored.row_count, ROW_GROUP_ROWS):
            stop = min(start + ROW_GROUP_ROWS, stored.row_count)
            bad = self._damaged_columns(stored, start, stop)
            try:
                yield from self._scan(self._without(stored, bad), start, stop)
            except Error as error:
                where = f"tablet {self.tablet_id}: rowset {stored.metadata.id}"
                keys = self._key_range(stored.metadata)
                self.lost.append(f"{where}{keys}: rows {start:,} to {stop:,}: {error}")

    def _damaged_columns(self, stored: StoredRowSet, start: int, stop: int) -> set[int]:
        """The columns, of those that are no keys, that cannot be read in some rows."""
        bad = set()
        for column in self.table.schema.columns[self.table.schema.key_columns :]:
            reader = stored.rowset.reader(column.id)
            if reader is None:
                continue
            try:
                reader.read(start, stop, None)
            except Error as error:
                bad.add(column.id)
                where = f"tablet {self.tablet_id}: rowset {stored.metadata.id}"
                keys = self._key_range(stored.metadata)
                self.lost.append(f"{where}{keys}: column {column.name} of rows {start:,} to {stop:,}: {error}")
        return bad

    def _without(self, stored: StoredRowSet, columns: set[int]) -> StoredRowSet:
        if not columns:
            return stored
        files = {c: name for c, name in stored.metadata.column_files.items() if c not in columns}
        metadata = replace(stored.metadata, column_files=files)
        rowset = DiskRowSet.open(self.fs, f"{self.directory}/rowsets", self.table.schema, metadata, self.cache)
        return replace(stored, rowset=rowset)

    def _scan(self, stored: StoredRowSet, start: int, stop: int) -> Iterator[pa.RecordBatch]:
        schema = self.table.schema
        unread = {c.id for c in schema.columns} - set(stored.metadata.column_files)
        columns: list[ColumnSchema] = [
            replace(c, initial=None) if c.id in unread and self._was_stored(stored, c.id) else c for c in schema.columns
        ]
        patches = stored.view(_LATEST).all_patches
        for batch in stored.rowset.scan(columns, (), start, stop, ScanCounters(), patches, schema):
            yield self._batch([vector.to_arrow() for vector in batch.columns()])

    def _was_stored(self, stored: StoredRowSet, column: int) -> bool:
        """True if the rowset has had a file of the column: what is lost is NULL, not the column's initial value."""
        name = f"rowset-{stored.metadata.id:08d}-column-{column:04d}"
        return any(name in line for line in self.lost)

    def _batch(self, arrays: list[pa.Array]) -> pa.RecordBatch:
        schema = salvage_schema(self.table)
        return pa.record_batch([a.cast(f.type) for a, f in zip(arrays, schema, strict=True)], schema=schema)

    # ---- the log -------------------------------------------------------------------------------------------------

    def _replay(self, replay: Replay, metadata: TabletMetadata) -> None:
        """Apply the log's good entries up to the first damage."""
        skipped = passed_over = 0
        last = metadata.replay_index
        for entry, schema in self._entries(metadata):
            last = entry.index
            try:
                if entry.kind is not EntryKind.PART or self.commits.is_committed(entry.timestamp):
                    replay.add(entry, schema)
                    replay.finish()
                else:
                    passed_over += 1
            except Error:
                skipped += 1
        if skipped:
            why = (
                "that change rows which are lost"
                if self.commits.damage is None
                else "or more: the commit log is damaged"
            )
            self.lost.append(f"tablet {self.tablet_id}: {skipped:,} log entries {why}")
        if passed_over:
            self.lost.append(
                f"tablet {self.tablet_id}: {passed_over:,} parts of writes over several tablets have no COMMIT: they "
                "never happened, unless the commit log has lost its end"
            )
        known = max(metadata.known_index, self.commits.last_part(self.tablet_id, metadata.cut_commits))
        if last < known:
            missing = known - last
            self.lost.append(f"tablet {self.tablet_id}: at least {missing:,} log entries behind entry {last:,}")

    def _entries(self, metadata: TabletMetadata) -> Iterator[tuple[LogEntry, pa.Schema]]:
        directory = f"{self.directory}/wal"
        expected = metadata.replay_index + 1
        names = [n for n in self.fs.list(directory) if n.endswith(".log")] if self.fs.exists(directory) else []
        for name, follower in zip(names, [*names[1:], None]):
            path = f"{directory}/{name}"
            try:
                if follower is not None and segment_index(directory, follower) <= expected:
                    continue
                data = memoryview(read_file(self.fs, path))
                header = decode_header(data, path)
                if header.first_index > expected or header.tablet_id not in ("", self.tablet_id):
                    raise CorruptionError(f"is no segment with entry {expected}", path, "header at offset 0")
                entries, damage = good_entries(data, header, path)
            except OperationalError as error:
                self.lost.append(f"tablet {self.tablet_id}: the log from entry {expected:,} on: {error}")
                return
            for entry in entries:
                if entry.index >= expected:
                    expected = entry.index + 1
                    yield entry, header.schema
            if damage:
                self.lost.append(f"tablet {self.tablet_id}: the log from entry {expected:,} on: {path}: {damage}")
                return
