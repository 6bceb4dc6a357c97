"""Opening of a tablet: its files are those of its metadata, and its log is replayed into memory (`tablet_apply`)."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence

import pyarrow as pa

from ...errors import CorruptionError
from ...model.clock import HybridClock
from ...model.schema import Schema, Table
from ...model.store import Timestamp
from ..files.filesystem import FileSystem
from ..files.page_cache import PageCache
from ..log.commit_log import CommitLog
from ..log.logged_rows import LoggedRows
from ..log.tablet_log import TabletLog
from ..log.wal import WriteAheadLog
from ..log.wal_format import EntryKind, LogEntry, log_schema
from ..rowsets.memrowset import MemRowSet
from ..rowsets.rowset_metadata import rowset_files
from ..rowsets.stored_rowset import StoredRowSet, open_rowset
from .mvcc import MvccManager
from .tablet import StoreOptions, Tablet, TabletState
from .tablet_apply import PendingRows, apply_rows, number_after
from .tablet_metadata import TabletMetadata

_log = logging.getLogger("nyala.storage")


def open_tablet(
    fs: FileSystem,
    directory: str,
    table: Table,
    metadata: TabletMetadata,
    *,
    cache: PageCache,
    clock: HybridClock,
    options: StoreOptions,
    commits: CommitLog,
) -> Tablet:
    """Recover a tablet: replay the log but for parts of writes that are not in `commits`, remove files that no metadata
    names. `CorruptionError` names a file that is damaged or missing; no file has been changed then."""
    began = time.monotonic()
    rowset_directory = f"{directory}/rowsets"
    leftovers = unnamed_files(fs, rowset_directory, metadata)
    rowsets = _opened_rowsets(fs, rowset_directory, table, metadata, cache)
    _number_after(table.schema, rowsets)  # reads footers, which may be damaged: before any file is changed
    replay = Replay(table.schema, rowsets, cache, metadata.durable_index, f"{directory}/wal")

    passed_over: list[int] = []
    commits.note_witness(metadata.commit_index)

    def add(entry: LogEntry, schema: pa.Schema) -> None:
        clock.update(Timestamp(entry.timestamp))
        commits.note_witness(entry.witness)
        if entry.kind is not EntryKind.PART or commits.is_committed(entry.timestamp):
            replay.add(entry, schema)
        else:
            passed_over.append(entry.index)

    log = WriteAheadLog.recover(
        fs,
        f"{directory}/wal",
        log_schema(table.schema),
        metadata.replay_index,
        add,
        syncs=options.durability == "fsync",
        segment_bytes=options.segment_bytes,
        known_index=max(metadata.known_index, commits.last_part(metadata.tablet_id, metadata.cut_commits)),
        before_changes=replay.finish,
        is_trial=options.is_trial,
    )
    for name in leftovers:
        fs.remove(f"{rowset_directory}/{name}")
    if not options.is_trial:
        seconds = time.monotonic() - began
        _log_recovery(table, metadata.tablet_id, len(leftovers), replay.entries, seconds)
    tablet = tablet_with_log(
        fs,
        directory,
        table,
        metadata,
        replay.state,
        log,
        cache=cache,
        clock=clock,
        options=options,
    )
    log.on_durable = tablet.mvcc.commit_all
    log.witnessed = commits.durable
    tablet.commits = commits
    tablet.passed_over = tuple(passed_over)
    tablet.newest = max(tablet.newest, replay.newest)
    tablet.note_number(replay.next_number - 1)
    return tablet


def open_rowsets(
    fs: FileSystem, directory: str, table: Table, metadata: TabletMetadata, cache: PageCache
) -> list[StoredRowSet]:
    """The files of a tablet, without what the log has; removes those that no metadata names."""
    rowset_directory = f"{directory}/rowsets"
    for name in unnamed_files(fs, rowset_directory, metadata):
        fs.remove(f"{rowset_directory}/{name}")
    return _opened_rowsets(fs, rowset_directory, table, metadata, cache)


def _opened_rowsets(
    fs: FileSystem, directory: str, table: Table, metadata: TabletMetadata, cache: PageCache
) -> list[StoredRowSet]:
    rowsets = [open_rowset(fs, directory, table.schema, m, cache) for m in metadata.rowsets]
    for stored in rowsets:
        bloom = stored.rowset.bloom
        if not fs.exists(bloom.path):
            bloom.note_damage(f"{bloom.path}: whole file: the file is missing")
    return rowsets


def tablet_with_log(
    fs: FileSystem,
    directory: str,
    table: Table,
    metadata: TabletMetadata,
    state: TabletState,
    log: TabletLog,
    *,
    cache: PageCache,
    clock: HybridClock,
    options: StoreOptions,
) -> Tablet:
    """A tablet in this state, which continues with a log. A replica's begins with `open_rowsets` and no row in memory:
    all entries above `metadata.replay_index` are still to be applied (`tablet_apply.TabletApplier`)."""
    clock.update(Timestamp(max(metadata.newest, metadata.ancient_history_mark)))
    return Tablet(
        id=metadata.tablet_id,
        table=table,
        fs=fs,
        directory=directory,
        cache=cache,
        options=options,
        metadata=metadata,
        state=state,
        log=log,
        mvcc=MvccManager(clock),
        newest=metadata.newest,
        next_number=max(metadata.next_number, _number_after(table.schema, state.rowsets)),
        _next_rowset_id=metadata.next_rowset_id,
    )


def unnamed_files(fs: FileSystem, directory: str, metadata: TabletMetadata) -> list[str]:
    """Names of files that a crash left of unfinished flushes and loads; `CorruptionError` if a rowset's file is
    missing. A missing Bloom filter is rebuilt from the keys (`derived_files`)."""
    wanted = {name for rowset in metadata.rowsets for name in rowset_files(rowset)}
    derivable = {rowset.bloom_file for rowset in metadata.rowsets}
    names = set(fs.list(directory))
    if missing := sorted(wanted - derivable - names):
        raise CorruptionError("the file is missing", f"{directory}/{missing[0]}", "whole file")
    return sorted(names - wanted)


def _log_recovery(table: Table, tablet_id: str, leftovers: int, entries: int, seconds: float) -> None:
    """Say what recovery did, where it did anything."""
    if leftovers:
        message = "table %s: tablet %s: removed %d files of an unfinished flush or load"
        _log.info(message, table.name, tablet_id, leftovers)
    if entries:
        message = "table %s: tablet %s: replayed %d log entries in %.2f s"
        _log.info(message, table.name, tablet_id, entries, seconds)


def _number_after(schema: Schema, rowsets: Sequence[StoredRowSet]) -> int:
    """A number above all that the AUTO_INCREMENT column has in rowsets."""
    column = schema.key[-1]
    if not column.auto_increment:
        return 1
    highest = [stored.rowset.statistics()[column.id].high for stored in rowsets]
    return max((int(high) + 1 for high in highest if high is not None), default=1)


class Replay:
    """Brings log entries into a MemRowSet and into the DeltaMemStores of rowsets: `tablet_apply`.

    Parameters
    ----------
    schema : Schema
        The table's today.
    rowsets : sequence of StoredRowSet
        As their files have them.
    cache : PageCache
    durable_index : int
        What was inserted by entries up to here is in rowsets.
    path : str
        Of the log, for errors.
    """

    def __init__(
        self, schema: Schema, rowsets: Sequence[StoredRowSet], cache: PageCache, durable_index: int, path: str
    ):
        self.state = TabletState.of(MemRowSet(schema), None, rowsets, cache)
        self.newest = 0
        """The greatest timestamp of an entry."""
        self.entries = 0
        """Number of entries read."""
        self.next_number = 1
        """Above all numbers that the AUTO_INCREMENT column was given."""
        self._schema = schema
        self._durable_index = durable_index
        self._path = path
        self._pending = PendingRows()

    def add(self, entry: LogEntry, schema: pa.Schema) -> None:
        """Take the next entry; `schema` is that of its segment."""
        self.newest = max(self.newest, entry.timestamp)
        self.entries += 1
        if self._pending.add(entry, schema, self._durable_index):
            self.finish()

    def finish(self) -> None:
        """Apply the pending entries."""
        parts = self._pending.take()
        if parts:
            logged = LoggedRows.of(parts, self._schema)
            self.next_number = max(self.next_number, number_after(logged))
            apply_rows(self.state, logged, self._path)
