"""One round of a copy: everything is read once, in the order that makes it consistent (`copy_store`)."""

from __future__ import annotations

from dataclasses import field

from ....errors import CorruptionError, OperationalError
from ....model.clock import HybridClock
from ....model.lazy_dataclass import dataclass
from ...files.checked_file import TEMPORARY_SUFFIX
from ...files.filesystem import FileSystem
from ...files.io_limit import spend
from ...loads.load_record import PREFIX, LoadRecord
from ...log.commit_log import CommitLog
from ...log.wal_recovery import read_log
from ...rowsets.rowset_metadata import rowset_files
from ...statistics.analysis import FILE as STATISTICS
from ...tables.catalog import Catalog, CatalogEntry
from ...tablet.tablet_metadata import TabletMetadata
from ..files import file_size, read_file
from ..read_only import ReadOnlyFileSystem
from .copied_logs import (
    CopiedCommits,
    StoreChanged,
    copy_commits,
    copy_log,
    newest_timestamp,
    segment_names,
    write_file,
)

_CHUNK_BYTES = 4 << 20


@dataclass(slots=True)
class StoreCopy:
    """A finished copy: `timestamp` is that of the last commits that can be in it, `rounds` how often it was tried."""

    destination: str
    timestamp: int = 0
    tables: int = 0
    tablets: int = 0
    linked_files: int = 0
    linked_bytes: int = 0
    copied_files: int = 0
    copied_bytes: int = 0
    rounds: int = 0


@dataclass(slots=True)
class _Table:
    """One table as it was read at the beginning of a round."""

    entry: CatalogEntry
    loads: list[str]
    metadata: list[TabletMetadata] = field(default_factory=list)
    without_log: dict[str, int] = field(default_factory=dict)
    """Tablets whose log had no entry to copy, with their `replay_index`."""


@dataclass(slots=True)
class CopyRound:
    """One attempt: reads everything once, in the order that the page of `copy_store` has."""

    fs: FileSystem
    source: str
    working: str
    links: bool
    done: StoreCopy

    def run(self) -> None:
        """Copy everything. `StoreChanged` or `FileAccessError` if the writer replaced files meanwhile."""
        fs = self.fs
        catalog_bytes = read_file(fs, f"{self.source}/catalog")
        write_file(fs, f"{self.working}/catalog", catalog_bytes)
        catalog = Catalog.read(fs, f"{self.working}/catalog")
        first_commits = segment_names(fs, f"{self.source}/commits")[:1]
        tables = [self._copy_table(entry) for entry in catalog.entries.values()]
        self._remove_dropped(catalog)
        commits = copy_commits(fs, f"{self.source}/commits", f"{self.working}/commits")
        self.done.timestamp = timestamp = self._timestamp(catalog, tables, commits)
        sizes = dict(commits.sizes)
        for table in tables:
            for metadata in table.metadata:
                place = f"tables/{table.entry.table.id}/{metadata.tablet_id}/wal"
                log, copy = f"{self.source}/{place}", f"{self.working}/{place}"
                copied = copy_log(fs, log, copy, metadata.replay_index, timestamp, commits.last_index)
                if not copied:
                    table.without_log[metadata.tablet_id] = metadata.replay_index
                sizes |= copied
                fs.sync_directory(copy.rpartition("/")[0])
        self._verify_logs(tables)
        # The catalog last: a table or a load that is published before it is read again is seen by now.
        for table in tables:
            self._verify_table(table)
        if segment_names(fs, f"{self.source}/commits")[:1] != first_commits and first_commits:
            raise StoreChanged("COMMITs were removed")
        if read_file(fs, f"{self.source}/catalog") != catalog_bytes:
            raise StoreChanged("the catalog was replaced")
        self._verify_sizes(sizes)
        fs.sync_directory(self.working)
        self.done.tables, self.done.tablets = len(tables), sum(len(table.metadata) for table in tables)

    def _timestamp(self, catalog: Catalog, tables: list[_Table], commits: CopiedCommits) -> int:
        """The timestamp of the copy; all that was drawn up to it is in files, or belongs to no acknowledged write."""
        seen = [HybridClock().now(), commits.newest, *catalog.decided]
        for table in tables:
            seen += [LoadRecord.timestamp_of(name) for name in table.loads]
            for metadata in table.metadata:
                wal = f"{self.source}/tables/{table.entry.table.id}/{metadata.tablet_id}/wal"
                seen += [metadata.newest, newest_timestamp(self.fs, wal)]
        return max(seen)

    # ---- tables --------------------------------------------------------------------------------------------------

    def _copy_table(self, entry: CatalogEntry) -> _Table:
        """Copy load records, metadata and rowset files of a table."""
        fs, place = self.fs, f"tables/{entry.table.id}"
        source, copy = f"{self.source}/{place}", f"{self.working}/{place}"
        fs.make_directory(copy)
        for name in fs.list(copy):
            if name not in entry.tablet_ids:
                remove(fs, f"{copy}/{name}")
        table = _Table(entry, _loads(fs, source))
        for name in [*table.loads, STATISTICS]:
            if name != STATISTICS or fs.exists(f"{source}/{name}"):
                write_file(fs, f"{copy}/{name}", read_file(fs, f"{source}/{name}"))
        records = [LoadRecord.read(fs, f"{copy}/{name}") for name in table.loads]
        for tablet_id in entry.tablet_ids:
            fs.make_directory(f"{copy}/{tablet_id}/rowsets")
            write_file(fs, f"{copy}/{tablet_id}/metadata", read_file(fs, f"{source}/{tablet_id}/metadata"))
            metadata = TabletMetadata.read(fs, f"{copy}/{tablet_id}", tablet_id)
            table.metadata.append(metadata)
            for record in records:
                load = record.tablets.get(tablet_id)
                if load is not None and metadata.last_load < record.timestamp:
                    metadata = load.applied_to(metadata, record.timestamp)
            self._copy_rowsets(f"{source}/{tablet_id}/rowsets", f"{copy}/{tablet_id}/rowsets", metadata)
        fs.sync_directory(copy)
        fs.sync_directory(f"{self.working}/tables")
        return table

    def _copy_rowsets(self, source: str, copy: str, metadata: TabletMetadata) -> None:
        fs = self.fs
        filters = {rowset.bloom_file for rowset in metadata.rowsets}
        wanted = {name for rowset in metadata.rowsets for name in rowset_files(rowset)}
        known = set(fs.list(copy))
        for name in known - wanted:
            fs.remove(f"{copy}/{name}")
        for name in sorted(wanted - known):
            # A missing Bloom filter is rebuilt where the copy is opened, as it is in the store.
            if name not in filters or fs.exists(f"{source}/{name}"):
                self._copy_file(f"{source}/{name}", f"{copy}/{name}")
        fs.sync_directory(copy)

    def _copy_file(self, source: str, copy: str) -> None:
        fs = self.fs
        if self.links and fs.link(source, copy):
            file = fs.open(copy)
            self.done.linked_files += 1
            self.done.linked_bytes += file.size
            file.close()
            return
        self.links = False
        file = fs.open(source)
        try:
            written = fs.create(copy + TEMPORARY_SUFFIX)
            try:
                for start in range(0, file.size, _CHUNK_BYTES):
                    data = file.read_at(start, _CHUNK_BYTES)
                    written.write(data)
                    spend(read=len(data), written=len(data))
                written.sync()
            finally:
                written.close()
        finally:
            file.close()
        fs.rename(copy + TEMPORARY_SUFFIX, copy)
        self.done.copied_files += 1
        self.done.copied_bytes += file.size

    def _remove_dropped(self, catalog: Catalog) -> None:
        """Remove what former rounds copied of tables that have been dropped since."""
        kept = {entry.table.id for entry in catalog.entries.values()}
        self.fs.make_directory(f"{self.working}/tables")
        for name in self.fs.list(f"{self.working}/tables"):
            if name not in kept:
                self.fs.remove_tree(f"{self.working}/tables/{name}")
        self.fs.sync_directory(f"{self.working}/tables")

    # ---- verifying -----------------------------------------------------------------------------------------------

    def _verify_table(self, table: _Table) -> None:
        """`StoreChanged` if a bulk load was published or completed since the table was read, or if a log is empty
        because its entries were flushed meanwhile."""
        directory, name = f"{self.source}/tables/{table.entry.table.id}", table.entry.table.name
        latest = {id_: TabletMetadata.read(self.fs, f"{directory}/{id_}", id_) for id_ in table.entry.tablet_ids}
        if _loads(self.fs, directory) != table.loads or any(
            latest[before.tablet_id].last_load != before.last_load for before in table.metadata
        ):
            raise StoreChanged(f"a bulk load into table {name} was published")
        if any(latest[tablet_id].replay_index != index for tablet_id, index in table.without_log.items()):
            raise StoreChanged(f"rows of table {name} were flushed")

    def _verify_logs(self, tables: list[_Table]) -> None:
        """Read the copied logs as the opening of the copy will. `CorruptionError` if that finds acknowledged entries
        damaged or missing."""
        commits = CommitLog(ReadOnlyFileSystem(self.fs), f"{self.working}/commits", is_trial=True)
        try:
            commits.check_whole()
            for table in tables:
                for metadata in table.metadata:
                    wal = f"{self.working}/tables/{table.entry.table.id}/{metadata.tablet_id}/wal"
                    part = commits.last_part(metadata.tablet_id, metadata.cut_commits)
                    known = max(metadata.known_index, part)
                    read_log(self.fs, wal, metadata.replay_index, known, lambda entry, schema: None)
        except CorruptionError as error:
            place = error.path.replace(self.working, self.source)
            raise CorruptionError(
                str(error).removeprefix(f"{error.path}: {error.place}: "), place, error.place
            ) from error

    def _verify_sizes(self, sizes: dict[str, int]) -> None:
        """`StoreChanged` if a log was cut: its last entries failed, and were reported so to the clients."""
        for path, size in sizes.items():
            if self.fs.exists(path) and file_size(self.fs, path) < size:
                raise StoreChanged(f"{path} was cut after a failed write")


def _loads(fs: FileSystem, directory: str) -> list[str]:
    """The names of the load records of a table, ascending."""
    return [name for name in fs.list(directory) if name.startswith(PREFIX) and not name.endswith(TEMPORARY_SUFFIX)]


def remove(fs: FileSystem, path: str) -> None:
    """Remove a file, or a directory with all that is in it."""
    try:
        fs.list(path)
    except OperationalError:
        fs.remove(path)
    else:
        fs.remove_tree(path)
