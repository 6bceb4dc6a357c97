"""A replica: one tablet's storage and its peer in the tablet's consensus, at one server.

    client ──► leader_writes ──► Tablet ──► ReplicaLog ──► Consensus ──► peers
                                   ▲                          │
                                   └──── Replica.apply ◄──────┘   committed entries
    client ──► reads ─────────────►┘

Opening does not replay the log: entries above the metadata's `replay_index` are applied when the consensus reports them
as committed, like later ones. Until the replica has applied every entry that its files may reflect, it is not flushed
or compacted: its `flush_lock` is held (`tablet_apply` explains why).

`stages` has the states of its opening, `health` those of its errors.

An alteration of the table goes through the log. Once it is proposed, the leader accepts no write until it is applied
(or void): later entries are in the new schema. All replicas change to it at the same entry.

Locks, in the order in which they are acquired: `Tablet.flush_lock`, `Tablet.write_lock`, then those of the consensus.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from typing import Any

from ...errors import DeadlineExceeded, DiskError, OperationalError, ReplicaUnavailable, StoreClosed
from ...model.clock import HybridClock
from ...model.schema import Table
from ...model.store import (
    AnalyzeResult,
    CompactionResult,
    Op,
    ScanCounters,
    ScanSpec,
    Timestamp,
    WriteBatch,
    WriteResult,
)
from ...model.vectors.vector import Batch
from ...storage.files.checked_file import TEMPORARY_SUFFIX
from ...storage.files.filesystem import FileSystem
from ...storage.files.page_cache import PageCache
from ...storage.log.wal import LogTicket
from ...storage.log.wal_format import EntryKind, log_schema
from ...storage.maintenance.table_compaction import compact_tablets
from ...storage.maintenance.tablet_flush import flush, flush_overfull, quiet
from ...storage.reading.tablet_scan import cut, scan_view
from ...storage.rowsets.memrowset import MemRowSet
from ...storage.statistics.analysis import Analysis, analyze
from ...storage.statistics.table_statistics import StatisticsCache
from ...storage.tables.store_directory import make_durable_directory
from ...storage.tables.tablet_descriptions import sampled_keys
from ...storage.tablet.between_transactions import again_if_postponed
from ...storage.tablet.tablet import StoreOptions, Tablet, TabletState, TabletView
from ...storage.tablet.tablet_apply import TabletApplier
from ...storage.tablet.tablet_metadata import TabletMetadata
from ...storage.tablet.tablet_replay import open_rowsets, tablet_with_log
from ..consensus.host import ConsensusHost
from ..consensus.log.tracked import as_log_entry
from ..disk_errors import is_full
from ..raft.messages import Configuration, Entry, Peer
from ..wire.messages import methods
from ..wire.messages.methods import Call, TabletFacts, TabletReport
from .exactly_once import ExactlyOnceTable, SavedResults
from .health import ReplicaHealth, ReplicaListener
from .layout import ReplicaLayout, decode_description, encode_description, schema_behind
from .leader_writes import Done, Later, LeaderWrites
from .reads import ReplicaReads
from .replica_log import ReplicaLog
from .stages import Progress, Stage
from .statistics import data_bytes, tablet_statistics
from .superblock import ReplicaState, Superblock
from .transactions import ReplicaTransactions

_ROWS = frozenset(
    (EntryKind.WRITE, EntryKind.ROW, EntryKind.TRACKED, EntryKind.PREPARE, EntryKind.RESOLVE, EntryKind.STAGE)
)


class Replica(ReplicaHealth):
    """One replica; see the module's page. Thread-safe. Implements `consensus.interfaces.ReplicatedState`.

    Deadlines are of `time.monotonic`; `schema_version` is the caller's version of the table (`StaleSchema` if the
    replica has another one), None for any. Everything but reports raises `ReplicaUnavailable` if the replica has
    failed.

    Attributes
    ----------
    tablet : Tablet
    consensus : Consensus
    results : ExactlyOnceTable
    layout : ReplicaLayout
        Replaced under the tablet's `write_lock`.
    state, error : str
        See `ReplicaHealth`.
    serving_since : int
        Hybrid time of the newest NO_OP entry: a leader that serves assigned no timestamp of its term before it.
    schema_index : int
        The log entry by which the table got its present form; 0: unchanged since the tablet's creation.
    """

    def __init__(
        self,
        fs: FileSystem,
        directory: str,
        superblock: Superblock,
        clock: HybridClock,
        listener: ReplicaListener,
    ):
        super().__init__(directory, listener)
        self.fs = fs
        self.layout = ReplicaLayout.of(superblock.tablet)
        self.schema_index = superblock.schema_index
        self.results = ExactlyOnceTable(SavedResults.read(fs, directory))
        self.serving_since = 0
        self._applied_to = 0
        """Of the entries passed to `apply`, those up to here are in memory; one without space is passed again."""
        self._clock = clock
        self._altering: LogTicket | None = None
        """The ALTER entry that this replica proposed last; guarded by `write_lock`."""
        self._alter_lock = threading.Lock()
        """Serialises proposals of alterations."""
        self._progress = Progress()
        """The consensus may call while it is OPENING, before the tablet is assigned."""
        self._results_lock = threading.Lock()
        """Guards the file."""

    # ---- creation and end --------------------------------------------------------------------------------------------

    @staticmethod
    def create(fs: FileSystem, directory: str, tablet: methods.Tablet, configuration: Configuration) -> None:
        """Durably creates the files of an empty replica, including its directory's entry. A crash before the end leaves
        a directory without a superblock."""
        ReplicaLayout.of(tablet)  # an unreadable description creates no replica
        make_durable_directory(fs, directory)
        Tablet.create(fs, directory, tablet.id)
        ConsensusHost.create_files(fs, directory, configuration)
        Superblock(tablet, ReplicaState.READY).write(fs, directory)

    @classmethod
    def open(
        cls,
        fs: FileSystem,
        directory: str,
        host: ConsensusHost,
        *,
        cache: PageCache,
        clock: HybridClock,
        options: StoreOptions,
        listener: ReplicaListener | None = None,
    ) -> Replica:
        """Opens a replica whose superblock has the state READY; raises `CorruptionError`, `DiskError`."""
        superblock = Superblock.read(fs, directory)
        if superblock is None or superblock.state is not ReplicaState.READY:
            found = "no superblock" if superblock is None else f"state {superblock.state.value}"
            raise ReplicaUnavailable(f"{directory} holds no replica that can be opened: {found}")
        for name in fs.list(directory):
            if name.endswith(TEMPORARY_SUFFIX):
                fs.remove(f"{directory}/{name}")
        replica = cls(fs, directory, superblock, clock, listener or ReplicaListener())
        metadata = TabletMetadata.read(fs, directory, superblock.tablet.id)
        table = replica.layout.table
        rowsets = open_rowsets(fs, directory, table, metadata, cache)
        replica.consensus = host.open(
            superblock.tablet.id,
            fs,
            directory,
            log_schema(table.schema),
            replica,
            applied_index=metadata.replay_index,
            alter_schema=schema_behind,
        )
        try:
            known_index = max([metadata.durable_index, *(rowset.redo_index for rowset in metadata.rowsets)])
            log = ReplicaLog(replica.consensus.log, metadata.replay_index, known_index)
            state = TabletState.of(MemRowSet(table.schema), None, rowsets, cache)
            tablet = tablet_with_log(
                fs, directory, table, metadata, state, log, cache=cache, clock=clock, options=options
            )
            replica._begin(tablet, log, known_index)
        except BaseException:
            replica._note_failure("")
            replica._progress.to(Stage.UNOPENED)
            replica.consensus.close()
            raise
        return replica

    def _begin(self, tablet: Tablet, log: ReplicaLog, known_index: int) -> None:
        """Starts work."""
        self.tablet = tablet
        tablet.before_forgetting = self._keep_results
        self._log = log
        self._known_index = known_index
        is_behind = known_index > tablet.metadata.replay_index
        if is_behind:
            tablet.flush_lock.acquire()
        self._applier = TabletApplier(tablet, known_index)
        shared = tablet, self.consensus, self.results, self._clock, self
        self._writes = LeaderWrites(*shared)
        self._transactions = ReplicaTransactions(*shared, self._applier, self.watched)
        self._reads = ReplicaReads(tablet, self.consensus, self._clock, self)
        self._statistics = StatisticsCache(self.table, Analysis.read(self.fs, self.directory))
        self._progress.to(Stage.CATCHING_UP if is_behind else Stage.CURRENT)

    def close(self) -> None:
        """Ends the replica's part in the consensus and closes all files. Reads must have ended."""
        self.tablet.prepared.end()
        with suppress(OperationalError):
            self.consensus.close()
        self._log.stop()
        self.tablet.close_files()

    @property
    def tablet_id(self) -> str:
        return self.layout.description.id

    @property
    def description(self) -> methods.Tablet:
        """The tablet's description."""
        return self.layout.description

    @property
    def table(self) -> Table:
        """The table in this replica's version."""
        return self.layout.table

    # ---- called by the consensus -------------------------------------------------------------------------------------

    def _wait_open(self) -> None:
        self._progress.wait_opened()
        if self._progress.stage is Stage.UNOPENED:
            raise StoreClosed(f"the replica of tablet {self.tablet_id} could not be opened")

    def apply(self, entries: Sequence[Entry]) -> None:
        """See `ReplicatedState`."""
        self._wait_open()
        if self._progress.stage is Stage.CURRENT and not self.disk_full:
            self._flush_overfull()
        all_entries, entries = entries, [entry for entry in entries if entry.index > self._applied_to]
        start = 0
        for number, entry in enumerate(entries):
            if entry.kind == EntryKind.ALTER:
                self._apply_rows(entries[start:number])
                self._apply_alteration(entry)
                self._applied_to = entry.index
                start = number + 1
        self._apply_rows(entries[start:])
        self._clock.update(Timestamp(max(entry.timestamp for entry in all_entries)))
        if self._progress.stage is Stage.CATCHING_UP and all_entries[-1].index >= self._known_index:
            self._progress.to(Stage.CURRENT)
            self.tablet.flush_lock.release()
        if any(entry.kind == EntryKind.CONFIGURATION for entry in all_entries):
            self._listener.on_change(self)

    def _apply_rows(self, entries: Sequence[Entry]) -> None:
        if not entries:
            return
        tablet, schema_at = self.tablet, self.consensus.log.schema_at
        with tablet.applying(any(entry.kind == EntryKind.PREPARE for entry in entries)):
            tablet.settle()
            for entry in entries:
                if entry.kind in _ROWS:
                    logged, header = as_log_entry(entry)
                    if logged.kind is EntryKind.PREPARE:
                        self._transactions.apply_prepare(logged, schema_at(entry.index))
                    elif logged.kind is EntryKind.RESOLVE:
                        self._transactions.apply_resolve(logged)
                    elif logged.kind is EntryKind.STAGE:
                        self._transactions.apply_stage(logged)
                    else:
                        self._applier.add(logged, schema_at(entry.index))
                    if header is not None:
                        self.results.note(header, entry.index, entry.timestamp)
                elif entry.kind == EntryKind.NO_OP:
                    self.serving_since = max(self.serving_since, entry.timestamp)
            self._applier.finish()
            self._log.note_applied(entries[-1].index)
            self._applied_to = entries[-1].index

    def _flush_overfull(self) -> None:
        """Keeps memory bounded; if there is no space for a flush, the entries are applied all the same."""
        try:
            flush_overfull(self.tablet)
        except DiskError as error:
            if not is_full(error):
                raise
            self.met(error)

    def _apply_alteration(self, entry: Entry) -> None:
        """Changes to another version of the table."""
        tablet = self.tablet
        layout = ReplicaLayout.of(decode_description(entry.body))
        is_known = entry.index <= self.schema_index  # the superblock had it when the replica was opened
        with ExitStack() as locks:
            if self._progress.stage is Stage.CURRENT:
                locks.enter_context(quiet(tablet))
            for stored in () if is_known else tablet.state.rowsets:
                stored.deleted.load()  # may read from disk, which `set_table` must not
            with tablet.write_lock:
                tablet.settle()
                tablet.staged.drop_unprepared()
                if not is_known:
                    Superblock(layout.description, ReplicaState.READY, entry.index).write(self.fs, self.directory)
                    self.schema_index = entry.index
                    tablet.set_table(layout.table)
                    self.layout = layout
                    self._statistics = StatisticsCache(layout.table, self._statistics.analysis)
                self._log.note_applied(entry.index)
                if self._altering is not None and self._altering.index <= entry.index:
                    self._altering = None
        self._listener.on_change(self)

    def entries_failed(self) -> None:
        """See `ReplicatedState`."""
        self._wait_open()
        with self.tablet.write_lock:
            self.tablet.settle()

    def leadership_changed(self) -> None:
        """See `ReplicatedState`."""
        self._wait_open()
        self._listener.on_change(self)

    def needs_bootstrap(self, peer: Peer) -> None:
        """See `ReplicatedState`."""
        self._wait_open()
        self._listener.on_bootstrap(self, peer)

    def safe_timestamp(self) -> int:
        """See `ReplicatedState`."""
        return self.tablet.mvcc.passed_now() if self._progress.stage in (Stage.CATCHING_UP, Stage.CURRENT) else 0

    def failed(self, error: Exception) -> None:
        """See `ReplicatedState`; also called by any thread that finds the replica's disk failed."""
        self._wait_open()
        self._log.stop()
        self._note_failure(f"{type(error).__name__}: {error}")
        self._listener.on_change(self)

    @property
    def decided_index(self) -> int:
        """Everything up to here is decided and in memory."""
        return self._log.decided_index

    def _keep_results(self, index: int) -> None:
        """Saves the results of entries up to `index`, which are never replayed again."""
        with self._results_lock:
            if index > self.results.saved_index:
                saved = self.results.save(self._log.decided_index)
                saved.write(self.fs, self.directory)
                self.results.note_saved(saved.index)

    # ---- writes, at the leader -----------------------------------------------------------------------------------

    def write(
        self,
        batch: WriteBatch,
        call: Call | None,
        *,
        deadline: float,
        schema_version: int | None = None,
        check_only: bool = False,
        is_transaction: bool = False,
    ) -> WriteResult:
        """Applies a batch as one entry of the log. Refused rows are reported row by row.

        Parameters
        ----------
        call : Call, optional
            The call id; a retry of the same call, here or at a later leader, gets the result of the first one.
        check_only : bool
            Report what would be refused now, and change nothing.
        is_transaction : bool
            `unchanged_since` is the snapshot of a transaction: `SerializationFailure` if any other write has changed
            one of the keys since.

        Raises `NotTheLeader`, `StaleSchema` (also for a row of another tablet), `DiskError` with nothing done. After
        `DeadlineExceeded`, and errors after the entry was proposed, the outcome is unknown: a retry of the same call
        returns it.
        """
        self._check_running()
        with self.watched:
            return self._writes.write(batch, call, deadline, schema_version, check_only, is_transaction)

    def write_row(
        self, op: Op, row: Mapping[str, Any], call: Call | None, *, deadline: float, schema_version: int | None = None
    ) -> WriteResult:
        """Like `write`, for one row of physical values by column name, on the row path."""
        self._check_running()
        with self.watched:
            return self._writes.write_row(op, row, call, deadline, schema_version)

    def start_row(
        self,
        op: Op,
        row: Mapping[str, Any],
        call: Call | None,
        *,
        schema_version: int | None = None,
        later: Later,
        done: Done,
    ) -> bool:
        """Like `write_row`, without waiting: when the write is decided, `later` gets a job that calls `done` with the
        result or the error. Returns False, with nothing done, if it would have to wait before that. Raises as
        `write_row` for an immediate refusal."""
        self._check_running()
        with self.watched:
            return self._writes.start_row(op, row, call, schema_version, later, self._judged(done))

    def start_rows(
        self, batch: WriteBatch, call: Call | None, *, schema_version: int | None = None, later: Later, done: Done
    ) -> bool:
        """Like `start_row`, for a batch; False also for one of many rows, and if a row is refused or nothing
        changes."""
        self._check_running()
        with self.watched:
            return self._writes.start_rows(batch, call, schema_version, later, self._judged(done))

    def _judged(self, done: Done) -> Done:
        return lambda outcome: done(self.met(outcome) if isinstance(outcome, Exception) else outcome)

    def take_numbers(self, count: int) -> int:
        """See `ServedTablet`."""
        self._check_running()
        self.consensus.check_serving()
        return self.tablet.take_numbers(count)

    @property
    def transactions(self) -> ReplicaTransactions:
        """Its parts of transactions over several tablets."""
        self._check_running()
        return self._transactions

    def alter(self, tablet: methods.Tablet, *, deadline: float) -> None:
        """Brings the tablet to another version of its table, at all replicas; returns when that is committed and
        applied here. No-op if the replica has that version or a later one."""
        self._check_running()
        layout = ReplicaLayout.of(tablet)
        self.consensus.check_serving()
        if not self._alter_lock.acquire(timeout=max(deadline - time.monotonic(), 0)):
            raise DeadlineExceeded(f"tablet {self.tablet_id} is being altered")
        try:
            self.wait_altered(deadline)
            ticket = None
            with self.tablet.prepared.closed():  # else there might always be another one
                while ticket is None:
                    if not self._transactions.wait_resolved(deadline):
                        raise DeadlineExceeded(f"a transaction has prepared rows of tablet {self.tablet_id}")
                    with self.tablet.write_lock:
                        self.tablet.settle()
                        if self.table.version >= layout.table.version:
                            return
                        if not self.tablet.prepared:
                            body = encode_description(tablet)
                            ticket = self._altering = self.consensus.propose(EntryKind.ALTER, body)
            self.consensus.wait(ticket, deadline)
            self.consensus.wait_applied(ticket.index, deadline)
        finally:
            self._alter_lock.release()

    @property
    def is_altering(self) -> bool:
        """True while an alteration is in progress in the log. Needs the tablet's `write_lock`."""
        if self._altering is not None and self._altering.error is not None:
            self._altering = None
        return self._altering is not None

    def wait_altered(self, deadline: float) -> None:
        """Returns when no alteration is in progress; raises `DeadlineExceeded`."""
        with self.tablet.write_lock:
            ticket = self._altering if self.is_altering else None
        if ticket is not None:
            try:
                self.consensus.wait(ticket, deadline)
            except OperationalError:
                if not ticket.is_decided:
                    raise
                return  # the alteration is void
            self.consensus.wait_applied(ticket.index, deadline)

    # ---- reads ---------------------------------------------------------------------------------------------------

    def read_row(
        self,
        key: Sequence[Any],
        columns: Sequence[str],
        snapshot: Timestamp | None,
        *,
        deadline: float,
        schema_version: int | None = None,
    ) -> tuple[tuple[Any, ...] | None, Timestamp]:
        """Returns the row with a primary key (None: none exists), and the timestamp as of which it was read; physical
        values in and out. Without a snapshot it is the latest, at the leader, and includes every write acknowledged
        before. Raises `DeadlineExceeded` (`NO_WAIT`: instead of waiting)."""
        self._check_running()
        with self.watched:
            return self._reads.row(key, columns, snapshot, deadline, schema_version)

    def view(self, snapshot: Timestamp | None, *, deadline: float, schema_version: int | None = None) -> TabletView:
        """Returns the tablet as of a timestamp, once it is complete up to there; None: the latest, from the leader
        only.

        Raises `NotTheLeader`; `DeadlineExceeded` or `ReplicaUnavailable` if the data does not arrive in time;
        `HistoryGone` below the ancient history mark.
        """
        self._check_running()
        with self.watched:
            return self._reads.view(snapshot, deadline, schema_version)

    @property
    def leader_address(self) -> str:
        """Address of the leader; "" while none is known."""
        return self.consensus.leader_address()

    def scan(self, spec: ScanSpec, *, deadline: float) -> Iterator[Batch]:
        """Returns the rows of a scan; `deadline` is for its beginning. Raises as `view`."""
        view = self.view(spec.snapshot, deadline=deadline)
        with self.watched:
            for pieces in cut(view, spec):
                yield from scan_view(view, pieces, spec, ScanCounters())

    # ---- statistics --------------------------------------------------------------------------------------------------

    def report(self) -> TabletReport:
        """Returns the replica's report."""
        status = self.consensus.status()
        return TabletReport(
            tablet_id=self.tablet_id,
            table_id=self.table.id,
            state=self.state,
            role=status.role,
            term=status.term,
            leader=status.leader,
            configuration=status.configuration,
            schema_version=self.table.version,
            is_serving=status.is_serving and self.state == "RUNNING",
            commit_index=status.commit_index,
            last_index=status.last_index,
            applied_index=status.applied_index,
            rows=self.tablet.row_count if self.state == "RUNNING" else 0,
            bytes=self.data_bytes,
            error=self.error,
            votes=not status.error,
            disk_full=self.disk_full,
            prepared=self.tablet.prepared.count,
            prepared_seconds=self.tablet.prepared.seconds,
        )

    @property
    def data_bytes(self) -> int:
        """Bytes of the rowsets on disk."""
        return data_bytes(self.tablet)

    def facts(self) -> TabletFacts:
        """Returns statistics for a planner."""
        self._check_running()
        with self.watched:
            return tablet_statistics(self.tablet, self.table, self._statistics)

    def key_samples(self) -> Sequence[tuple[Any, ...]]:
        """Returns the keys of every 4,096th row of each DiskRowSet, ascending, as physical values."""
        self._check_running()
        with self.watched:
            return sampled_keys(self.tablet.pin())

    # ---- work ----------------------------------------------------------------------------------------------------

    def check_workable(self) -> None:
        """Raises `ReplicaUnavailable` if the replica cannot be flushed, compacted or copied."""
        self._check_running()
        if self._progress.stage is Stage.CATCHING_UP:
            raise ReplicaUnavailable(
                f"the replica of tablet {self.tablet_id} has just been opened: it waits for log entries up to "
                f"{self._known_index} to be confirmed"
            )

    def flush(self) -> int:
        """Writes the rows in memory to DiskRowSets; returns their number. Raises `DiskError`."""
        self.check_workable()
        with self.watched:
            return again_if_postponed(lambda: flush(self.tablet), self.check_workable)

    def compact(self, check: Callable[[], None] | None = None) -> CompactionResult:
        """Implements `Store.compact_table` for this replica."""
        self.check_workable()
        with self.watched:
            return again_if_postponed(lambda: compact_tablets([self.tablet], check), self.check_workable)

    def analyze(self, check: Callable[[], None] | None = None) -> AnalyzeResult:
        """Implements `Store.analyze_table` for this replica."""
        self.check_workable()
        with self.watched:
            analysis, result = analyze([self.tablet], self._clock.now(), check)
        with suppress(DiskError):
            analysis.write(self.fs, self.directory)
        self._statistics = StatisticsCache(self.table, analysis)
        return result
