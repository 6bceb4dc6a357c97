"""Checks one table: its folder, load records, and each tablet with what refers to what."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np
import pyarrow as pa

from ....model.clock import HybridClock
from ....model.keys.keys import Keys
from ....model.lazy_dataclass import dataclass
from ....model.partitions.partition import Partitioner
from ....model.schema import Schema, Table
from ...files.checked_file import TEMPORARY_SUFFIX
from ...files.filesystem import FileSystem
from ...files.page_cache import PageCache
from ...loads.load_record import PREFIX, LoadRecord, complete_loads
from ...log.commit_log import CommitLog
from ...rowsets.disk_rowset import DiskRowSet, rowset_keys
from ...rowsets.rowset_metadata import RowSetMetadata, rowset_files
from ...rowsets.stored_rowset import StoredRowSet
from ...statistics.analysis import FILE as STATISTICS
from ...tables.catalog import CatalogEntry
from ...tablet.tablet import StoreOptions, Tablet
from ...tablet.tablet_metadata import TabletMetadata
from ...tablet.tablet_replay import open_tablet
from ...writing.incoming_rows import describe_key
from ..files import file_size
from ..read_only import ReadOnlyFileSystem
from ..text import plural
from .check_deltas import check_deltas
from .check_log import check_log
from .check_rowset import check_rowset
from .findings import WHOLE_FILE, Report
from .repeated_keys import KeySource, repeated_keys

SHOWN_KEYS = 10
"""Repeated keys of a tablet that become findings; the rest is counted."""


def check_table(
    fs: FileSystem,
    directory: str,
    entry: CatalogEntry,
    cache: PageCache,
    report: Report,
    commits: CommitLog | None,
) -> list[str]:
    """Check the folder of a table and all that is in it; `commits` is the store's commit log where that can be read.
    Returns the tablets whose logs have parts of writes without a COMMIT."""
    table = entry.table
    names = fs.list(directory)
    for name in names:
        if name not in entry.tablet_ids and name != STATISTICS and not name.startswith(PREFIX):
            report.note(f"{directory}/{name}", WHOLE_FILE, f"is no file of table {table.name}; it is left alone")
    metadata: dict[str, TabletMetadata] = {}
    for tablet_id in entry.tablet_ids:
        path = f"{directory}/{tablet_id}"
        report.checked.tablets += 1
        if tablet_id not in names:
            report.error(path, "directory", f"the folder of a tablet of table {table.name} is missing")
            continue
        with report.reading(f"{path}/metadata"):
            found = TabletMetadata.read(fs, path)
            report.checked.bytes += file_size(fs, f"{path}/metadata")
            if found.tablet_id != tablet_id:
                report.error(f"{path}/metadata", "tablet id", f"expected {tablet_id}, found {found.tablet_id}")
            metadata[tablet_id] = replace(found, tablet_id=tablet_id)
    loads_known = _finish_loads(fs, directory, entry, metadata, report)
    partitioner = Partitioner(table.schema, table.partitions)
    if len(partitioner.partitions) != len(entry.tablet_ids):
        counts = f"{len(entry.tablet_ids)} tablets for {len(partitioner.partitions)} partitions"
        report.error(directory, "catalog entry", f"table {table.name} has {counts}")
        return []
    undecided = []
    for number, tablet_id in enumerate(entry.tablet_ids):
        if tablet_id in metadata:
            tablet = _TabletCheck(
                fs, f"{directory}/{tablet_id}", table, partitioner, number, metadata[tablet_id], cache, report, commits
            )
            tablet.run(loads_known)
            if tablet.has_undecided:
                undecided.append(tablet_id)
        elif tablet_id in names:
            report.note(
                f"{directory}/{tablet_id}", "directory", "not checked: only its metadata lists the expected files"
            )
    return undecided


def _finish_loads(
    fs: FileSystem, directory: str, entry: CatalogEntry, metadata: dict[str, TabletMetadata], report: Report
) -> bool:
    """Change `metadata` as opening the store would; False if a load record is damaged, so that leftover files cannot be
    determined."""
    is_sound = True
    for name in fs.list(directory):
        path = f"{directory}/{name}"
        if not name.startswith(PREFIX):
            continue
        if name.endswith(TEMPORARY_SUFFIX):
            report.note(path, WHOLE_FILE, "a bulk load that did not happen; opening the store removes it")
            continue
        record: LoadRecord | None = None
        with report.reading(path):
            record = LoadRecord.read(fs, path)
        is_sound &= record is not None
        if record is None:
            continue
        if record.name != name:
            report.error(path, "file name", f"it holds the load {record.name}")
        if strangers := sorted(record.tablets.keys() - set(entry.tablet_ids)):
            report.error(path, "payload at offset 24", f"table {entry.table.name} has no tablet {strangers[0]}")
            is_sound = False
        report.note(path, WHOLE_FILE, "a bulk load that a crash interrupted; opening the store completes it")
    if is_sound and len(metadata) == len(entry.tablet_ids):
        with report.reading(directory, "load records"):
            completed = complete_loads(ReadOnlyFileSystem(fs), directory, list(metadata.values()))
            metadata.update({m.tablet_id: m for m in completed})
    return is_sound


@dataclass(slots=True)
class _TabletCheck:
    """Checks one tablet."""

    fs: FileSystem
    directory: str
    table: Table
    partitioner: Partitioner
    number: int
    metadata: TabletMetadata
    cache: PageCache
    report: Report
    commits: CommitLog | None
    has_undecided: bool = False

    def run(self, loads_known: bool) -> None:
        """Metadata, files, rowsets, log, keys. `loads_known`: see `_finish_loads`."""
        self._check_metadata()
        for name in self.fs.list(self.directory):
            if name not in ("metadata", "wal", "rowsets"):
                self.report.note(f"{self.directory}/{name}", WHOLE_FILE, "is no file of the tablet; harmless")
        missing = self._check_files(loads_known)
        self._check_log(self._check_rowsets(missing))

    def _check_metadata(self) -> None:
        """Check the metadata for consistency."""
        mine, path = self.metadata, f"{self.directory}/metadata"
        ids = [rowset.id for rowset in mine.rowsets]
        if len(set(ids)) < len(ids):
            self.report.error(path, "rowsets", "two rowsets have one id")
        if ids and max(ids) >= mine.next_rowset_id:
            self.report.error(path, "next rowset id", f"{mine.next_rowset_id} is not above rowset {max(ids)}")
        for rowset in mine.rowsets:
            if rowset.min_key > rowset.max_key:
                self.report.error(path, f"rowset {rowset.id}", "its least key is above its greatest")
            if max(rowset.newest_undo, rowset.inserted) > mine.newest:
                self.report.error(path, f"rowset {rowset.id}", "it is newer than the tablet's newest timestamp")

    def _check_files(self, loads_known: bool) -> set[str]:
        """Files of rowsets that are missing; reports leftovers."""
        directory = f"{self.directory}/rowsets"
        wanted = {name: rowset.id for rowset in self.metadata.rowsets for name in rowset_files(rowset)}
        found: set[str] = set()
        with self.report.reading(directory, "directory"):
            found = set(self.fs.list(directory))
        for name in sorted(wanted.keys() - found):
            message = f"the file is missing; {self.directory}/metadata names it for rowset {wanted[name]}"
            self.report.error(f"{directory}/{name}", WHOLE_FILE, message)
        if loads_known:
            for name in sorted(found - wanted.keys()):
                message = "no metadata names it: left of an unfinished flush or load; opening the store removes it"
                self.report.note(f"{directory}/{name}", WHOLE_FILE, message)
        return wanted.keys() - found

    def _check_rowsets(self, missing: set[str]) -> list[RowSetMetadata]:
        """The rowsets whose keys, and what REDO files say of them, can be trusted."""
        directory = f"{self.directory}/rowsets"
        sound = []
        for metadata in self.metadata.rowsets:
            rowset = check_rowset(self.fs, directory, self.table.schema, metadata, missing, self.cache, self.report)
            if rowset is not None:
                self._check_bounds(rowset)
                rowset.close()
            is_known = check_deltas(
                self.fs, directory, self.table, metadata, self.metadata.newest, missing, self.report
            )
            if rowset is not None and is_known:
                sound.append(metadata)
        return sound

    def _check_bounds(self, rowset: DiskRowSet) -> None:
        """Least and greatest key as the metadata has them, every key in the tablet's partition."""
        metadata, path = rowset.metadata, f"{self.directory}/metadata"
        pieces = rowset_keys(self.table.schema, rowset)
        ends = (pieces[0].encode_one(0), pieces[-1].encode_one(len(pieces[-1]) - 1))
        for name, said, found in zip(("least", "greatest"), (metadata.min_key, metadata.max_key), ends):
            if said != found:
                message = f"its {name} key is {found.hex(' ')}, the metadata has {said.hex(' ')}"
                self.report.error(path, f"rowset {metadata.id}", message)
        for keys in pieces:
            self._check_partition(keys, f"{self.directory}/rowsets", f"rowset {metadata.id}")

    def _check_partition(self, keys: Keys, path: str, place: str) -> None:
        names = [column.name for column in self.table.schema.key]
        rows = pa.record_batch([column.to_arrow() for column in keys.columns], names=names)
        strangers = (self.partitioner.route(rows) != self.number).nonzero()[0]
        if len(strangers):
            key = describe_key(self.table, keys.values_at(int(strangers[0])))
            label = self.partitioner.partitions[self.number].describe()
            self.report.error(path, place, f"the row with key {key} does not belong to this tablet: {label}")

    def _check_log(self, sound: list[RowSetMetadata]) -> None:
        """The log, then the keys that are alive once it is replayed over the rowsets that are sound."""
        directory = f"{self.directory}/wal"
        names: list[str] | None = None
        with self.report.reading(directory, "directory"):
            names = self.fs.list(directory)
        if names is None:
            return
        known = self.metadata.known_index
        if self.commits is not None:
            known = max(known, self.commits.last_part(self.metadata.tablet_id, self.metadata.cut_commits))
        check_log(self.fs, directory, names, self.metadata.replay_index, known, self.report)
        tablet: Tablet | None = None
        if self.commits is None:
            message = "not checked whether a key is alive twice: the commit log cannot be read"
            self.report.note(self.directory, "keys", message)
            return
        with self.report.reading(directory, "log"):
            tablet = self._recovered(sound, self.commits)
        if tablet is None:
            message = "not checked whether a key is alive twice: only the log has the last deletions"
            self.report.note(self.directory, "keys", message)
            return
        if tablet.passed_over:
            parts = plural(len(tablet.passed_over), "log entry", "log entries")
            message = f"{parts} of writes over several tablets without a COMMIT: they did not happen, as a whole"
            self.report.note(directory, f"entry {tablet.passed_over[0]}", message)
            self.has_undecided = True
        with self.report.reading(directory, "log"):
            self._check_unique(self._sources(tablet))
        tablet.close()

    def _recovered(self, sound: list[RowSetMetadata], commits: CommitLog) -> Tablet:
        """Contents of memory after opening the tablet."""
        # Only with files that are searched for keys: the others are checked already, and a missing one must not keep
        # the log from being replayed.
        keys = {column.id for column in self.table.schema.key}
        rowsets = [
            replace(r, column_files={c: name for c, name in r.column_files.items() if c in keys}, undo_files=())
            for r in sound
        ]
        return open_tablet(
            ReadOnlyFileSystem(self.fs),
            self.directory,
            self.table,
            replace(self.metadata, rowsets=tuple(rowsets)),
            cache=self.cache,
            clock=HybridClock(),
            options=StoreOptions(is_trial=True),
            commits=commits,
        )

    def _sources(self, tablet: Tablet) -> list[KeySource]:
        """Sources of live keys."""
        sources = [
            KeySource(
                f"rowset {stored.metadata.id}",
                stored.metadata.min_key,
                stored.metadata.max_key,
                partial(_live_keys, self.table.schema, stored),
            )
            for stored in tablet.state.rowsets
        ]
        memrowset = tablet.state.memrowset
        if memrowset.row_count:
            image = memrowset.snapshot().image(memrowset.newest)
            logged = Keys.from_rows(self.table.schema, image.rows)
            self._check_partition(logged, f"{self.directory}/wal", "log")
            alive = logged.take(np.flatnonzero(~memrowset.deleted.contains(image.numbers)))
            order = logged.order()
            ends = [logged.encode_one(int(order[i])) for i in (0, -1)]
            sources.append(KeySource("the log", ends[0], ends[1], lambda: [alive]))
        return sources

    def _check_unique(self, sources: list[KeySource]) -> None:
        with self.report.reading(self.directory, "keys"):
            repeated = repeated_keys(sources, SHOWN_KEYS)
            for values, names in repeated.shown:
                key = describe_key(self.table, values)
                self.report.error(self.directory, f"key {key}", f"it is alive in {' and in '.join(names)}")
            if repeated.count > len(repeated.shown):
                more = repeated.count - len(repeated.shown)
                self.report.error(self.directory, "keys", f"{more:,} more are alive in several places")


def _live_keys(schema: Schema, stored: StoredRowSet) -> list[Keys]:
    """The keys of a rowset's rows that are not deleted, in pieces."""
    live_keys = []
    start = 0
    for keys in rowset_keys(schema, stored.rowset):
        alive = ~stored.deleted.contains(np.arange(start, start + len(keys), dtype=np.int64))
        live_keys.append(keys if alive.all() else keys.take(np.flatnonzero(alive)))
        start += len(keys)
    return live_keys
