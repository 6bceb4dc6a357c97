"""One tablet: its state in memory and on disk, opening and closing. What is done with it has modules of its own:
`tablet_write`, `tablet_replay`, `tablet_apply`, `tablet_scan`, `tablet_flush`, `delta_compaction`, `rowset_compaction`.

    tables/<table id>/<tablet id>/metadata       which rowsets there are, how far they reach in the log
                                  wal/           log segments
                                  rowsets/       column files, Bloom filters, delta files

    TabletState ──┬── memrowset     takes inserts
                  ├── flushing      the MemRowSet before it, while a flush writes it to disk
                  ├── rowsets       DiskRowSets with their deltas
                  └── tree          the same, to find by key

The state is immutable and replaced as a whole: a reader takes it once (`Tablet.pin`, `Tablet.view`) and sees every row
exactly once, whatever flushes, loads and compactions do meanwhile. Files that go out of use are retired, and removed
when the last pin from before is gone.

Locks, in the order in which they are taken: `flush_lock` (one flush or compaction at a time), `write_lock` (key checks,
log order, changes in memory), `metadata_lock` (the metadata file). The state is replaced under the last two.

Background work takes over what is in memory in these steps:
1. `Tablet.cut`, under `write_lock`: the newest timestamp and log entry at this moment.
2. `Tablet.wait_for`: all writes up to the cut are decided; what it covers is written to files.
3. `Tablet.write_metadata` names the files. This is the moment that counts for a crash: whatever came after the cut is
   in the log, and replayed.
4. In `Tablet.swap`, where no write is undecided, it carries over in memory what came after the cut, and replaces the
   state.
"""

from __future__ import annotations

import contextlib
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import field, replace
from functools import cached_property
from typing import NoReturn

from ...errors import CorruptionError, DeadlineExceeded, DiskError, HistoryGone, OperationalError, TabletGone
from ...model.clock import format_timestamp
from ...model.lazy_dataclass import dataclass
from ...model.schema import Schema, Table
from ...model.store import Timestamp
from ..deltas.delta_memstore import DeltaMemStore
from ..files.filesystem import FileSystem
from ..files.page_cache import PageCache
from ..files.retired_files import RetiredFiles
from ..keys.key_places import KeyPlaces
from ..keys.rowset_tree import RowSetTree
from ..log.commit_log import CommitLog
from ..log.logged_write import LoggedWrite
from ..log.tablet_log import LogPlace, TabletLog
from ..log.wal import LogTicket
from ..log.wal_format import log_schema
from ..rowsets.memrowset import MemRowSet
from ..rowsets.memrowset_snapshot import MemRowSetSnapshot
from ..rowsets.stored_rowset import StoredRowSet, StoredRowSetView
from .between_transactions import BetweenTransactions
from .mvcc import MvccManager
from .prepared import PreparedWrites
from .staged import StagedParts
from .tablet_metadata import TabletMetadata

_SETTLE_SECONDS = 1.0
"""Interval, in seconds, at which background work that waits for writes checks for decided writes without a waiting
writer."""


@dataclass(frozen=True, slots=True)
class StoreOptions:
    """Options that all tablets of a store share.

    Parameters
    ----------
    durability : str
        "fsync": a write is acknowledged when it is on the disk. "os": when the system has it; it survives the process,
        but a power failure may lose about the last second.
    memrowset_bytes, deltamemstore_bytes : int
        A MemRowSet, a DeltaMemStore of this size is flushed.
    segment_bytes, rowset_bytes : int
        Sizes aimed at, of log segments and DiskRowSets.
    history_seconds : int
        Seconds for which history stays readable; older history may be removed.
    """

    durability: str = "fsync"
    memrowset_bytes: int = 128 << 20
    segment_bytes: int = 64 << 20
    rowset_bytes: int = 64 << 20
    deltamemstore_bytes: int = 32 << 20
    history_seconds: int = 7 * 24 * 3600
    is_trial: bool = False
    """Opened by a check that drops what recovery writes: recovery logs nothing."""


@dataclass(frozen=True, slots=True, eq=False)
class TabletState:
    """All rows of a tablet. A key may be in several places; at any time it is visible in at most one."""

    memrowset: MemRowSet
    flushing: MemRowSet | None
    rowsets: tuple[StoredRowSet, ...]
    tree: RowSetTree[StoredRowSet]
    places: KeyPlaces[StoredRowSet]
    """Positions of keys in `rowsets`."""

    @classmethod
    def of(
        cls,
        memrowset: MemRowSet,
        flushing: MemRowSet | None,
        rowsets: Sequence[StoredRowSet],
        cache: PageCache,
        before: TabletState | None = None,
    ) -> TabletState:
        """Returns a state with its tree. Known positions of keys in `before`, the replaced state, are kept if only
        deltas changed."""
        entries = [(r.metadata.min_key, r.metadata.max_key, r) for r in rowsets]
        # A rowset keeps its id, and its rows their numbers, whatever becomes of its deltas.
        if before is not None and [r.metadata.id for r in before.rowsets] == [r.metadata.id for r in rowsets]:
            places = before.places.of_same_rows(rowsets)
        else:
            places = KeyPlaces(rowsets, cache)
            if before is not None:
                before.places.forget()
        return cls(memrowset, flushing, tuple(rowsets), RowSetTree(entries), places)

    def with_empty_memrowset(self, schema: Schema) -> TabletState:
        """The state in which the MemRowSet is about to be flushed and an empty one is filled."""
        return TabletState(MemRowSet(schema), self.memrowset, self.rowsets, self.tree, self.places)

    @property
    def memrowsets(self) -> list[MemRowSet]:
        """One or two, older first."""
        return [self.memrowset] if self.flushing is None else [self.flushing, self.memrowset]


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class Pin:
    """A state in use: while this object exists, the files of its rowsets stay."""

    state: TabletState
    table: Table


@dataclass(frozen=True, eq=False)
class TabletView:
    """Input of a scan: a tablet at one timestamp. It keeps the tablet's files from being removed."""

    table: Table
    timestamp: int
    memory: tuple[MemRowSet, ...]
    """With rows that may be of later times, too."""
    rowsets: tuple[StoredRowSetView, ...]
    pin: Pin

    @cached_property
    def memrowsets(self) -> tuple[MemRowSetSnapshot, ...]:
        """Snapshots of older MemRowSets than `memory`, made at the first use, because a snapshot has a cost."""
        return tuple(memrowset.snapshot(self.table.schema) for memrowset in self.memory)


@dataclass(frozen=True, slots=True, eq=False)
class Cut:
    """A cut between two writes of a tablet: all earlier writes are at or below `timestamp`."""

    timestamp: int
    mark: LogPlace
    is_flushed: bool
    """No MemRowSet held a row: all that was inserted before the cut is in rowsets."""

    @property
    def index(self) -> int:
        """The last log entry before the cut; final once the writes before the cut are decided: the indexes of entries
        that failed are given again."""
        return self.mark.index


@dataclass(eq=False)
class Tablet(BetweenTransactions):
    """A tablet that is open; see the module's page.

    Invariants: `metadata` is what the metadata file holds, or will hold after the next replacement where the last one
    failed; the log holds every durable change that is in no file of the rowsets that it names.
    """

    id: str
    table: Table
    fs: FileSystem
    directory: str
    cache: PageCache
    options: StoreOptions
    metadata: TabletMetadata
    state: TabletState
    log: TabletLog
    mvcc: MvccManager
    newest: int = 0
    """Timestamp of the newest write or load; guarded by `write_lock`."""
    next_number: int = 1
    """Above every number that the AUTO_INCREMENT column of a row was given, or shall be."""
    before_forgetting: Callable[[int], None] | None = None
    """Called before the metadata excludes log entries up to an index from replay, for other uses of these entries; an
    exception from it leaves the metadata unchanged."""
    is_dropped: bool = False
    """The tablet's files are to be removed: no background work begins, and what runs ends without a result."""
    damage: CorruptionError | None = None
    """Reason of the quarantine (`damaged_tablet`); None if the tablet is not damaged."""
    undecided: deque[LoggedWrite] = field(default_factory=deque)
    """Writes whose log entries were not known to be durable when last looked at; guarded by `write_lock`."""
    deciding: list[LoggedWrite] = field(default_factory=list)
    """Parts of writes over several tablets, not known to be decided when last looked at, whether their entries are
    durable or not. Other writes keep away from their keys, so they can be undone in any order; guarded likewise."""
    prepared: PreparedWrites = field(default_factory=PreparedWrites)
    """Parts of transactions over several tablets of a cluster whose outcome is not known yet."""
    staged: StagedParts = field(default_factory=StagedParts)
    commits: CommitLog | None = None
    """The store's, which decides on these; None in a cluster, where each tablet's log decides alone."""
    passed_over: tuple[int, ...] = ()
    """The log entries of parts that replay has passed over, since the commit log does not have them."""
    pins: weakref.WeakSet[Pin] = field(default_factory=weakref.WeakSet)
    write_lock: threading.Lock = field(default_factory=threading.Lock)
    flush_lock: threading.Lock = field(default_factory=threading.Lock)
    metadata_lock: threading.Lock = field(default_factory=threading.Lock)
    _ids_lock: threading.Lock = field(default_factory=threading.Lock)
    _pins_lock: threading.Lock = field(default_factory=threading.Lock)
    _next_rowset_id: int = 1

    def __post_init__(self) -> None:
        self._retired = RetiredFiles(self.fs)
        self._shared: Pin | None = None

    # ---- birth and end -------------------------------------------------------------------------------------------

    @staticmethod
    def create(fs: FileSystem, directory: str, tablet_id: str) -> None:
        """Make the files of an empty tablet durable, but for the name of `directory` itself."""
        for name in ("wal", "rowsets"):
            fs.make_directory(f"{directory}/{name}")
        TabletMetadata(tablet_id).write(fs, directory)

    def close(self) -> None:
        """Sync the log and close all files. Scans must have ended."""
        try:
            with contextlib.suppress(DiskError):
                self.note_log(self.log.last_index)
            self.log.close()
        finally:
            self.close_files()

    def close_files(self) -> None:
        """Close all files but those of the log."""
        self._retired.close()
        self.state.places.forget()
        for stored in self.state.rowsets:
            stored.close()

    def set_table(self, table: Table, is_log_ready: bool = False) -> None:
        """Go on with an altered table: what is logged and inserted from now on has the new schema, where that is
        another. A MemRowSet with rows of the old schema becomes `flushing`, to be flushed next.

        Needs `flush_lock` and `write_lock`, and a state without `flushing`. `DiskError` with nothing changed where the
        log cannot begin a segment for the new schema; with `is_log_ready` it has begun one, and no write is undecided.
        """
        if table.schema == self.table.schema:
            with self._pins_lock:
                self.table = table
                self._shared = None
            return
        assert self.state.flushing is None, "flush before the schema changes"
        if not is_log_ready:
            self.decide_all()
            self.log.change_schema(log_schema(table.schema))
        with self.metadata_lock, self._pins_lock:
            state = self.state
            old = state.memrowset if state.memrowset.row_count else None
            if old is not None:
                old.mutations.use_schema(table.schema)  # its rows may be given values of new columns yet
            rowsets = [r.with_schema(table.schema) for r in state.rowsets]
            self.state = TabletState.of(MemRowSet(table.schema), old, rowsets, self.cache, state)
            self.table = table

    # ---- parts ---------------------------------------------------------------------------------------------------

    def refuse(self) -> NoReturn:
        """Raise the error of a statement that needs a tablet in quarantine."""
        assert self.damage is not None
        cause = str(self.damage).removeprefix(f"{self.damage.path}: {self.damage.place}: ")
        raise CorruptionError(
            f"{cause}; tablet {self.id} of table {self.table.name} was set aside when the store was opened, and all "
            "others work: restore the file and open the store again, save the rows that can be read with nyala fs "
            "salvage, or drop the table",
            self.damage.path,
            self.damage.place,
        )

    def check_not_dropped(self) -> None:
        """Raise `TabletGone` where the tablet's files are to be removed."""
        if self.is_dropped:
            raise TabletGone(f"tablet {self.id} of table {self.table.name} is gone: it was dropped")

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

    def take_numbers(self, count: int) -> int:
        """Numbers for the AUTO_INCREMENT column of new rows, ascending without gaps: the first."""
        with self._ids_lock:
            self.next_number += count
            return self.next_number - count

    def note_number(self, number: int) -> None:
        """The AUTO_INCREMENT column of a row has this number."""
        with self._ids_lock:
            self.next_number = max(self.next_number, number + 1)

    @property
    def row_count(self) -> int:
        """About how many rows there are."""
        state = self.state
        return sum(m.live_count for m in state.memrowsets) + sum(r.live_count for r in state.rowsets)

    # ---- readers -------------------------------------------------------------------------------------------------

    def pin(self) -> Pin:
        """Pins the current state; its files stay while the pin exists."""
        with self._pins_lock:
            self.pins.add(pin := Pin(self.state, self.table))
        return pin

    def shared_pin(self) -> Pin:
        """`pin` for reads of some microseconds: all readers of the same state share one.

        The tablet itself holds it, too, and releases it in `held_pins`: earlier readers are counted there; a later
        reader finds it released, or of another state, and gets a new one.
        """
        pin = self._shared
        if pin is None or pin.state is not self.state or pin.table is not self.table:
            with self._pins_lock:
                pin = self._shared = Pin(self.state, self.table)
                self.pins.add(pin)
        return pin

    def held_pins(self) -> list[Pin]:
        """The pins that some reader holds."""
        with self._pins_lock:
            self._shared = None
            return list(self.pins)

    def view(self, timestamp: int) -> TabletView:
        """The rows as of a timestamp that the clock has passed; waits for writes in flight below it. `HistoryGone`
        where the past is forgotten."""
        self.mvcc.wait_until_clean(timestamp)
        pin = self.pin()
        self.check_history(timestamp)
        memory = tuple(m for m in pin.state.memrowsets if m.row_count)
        rowsets = tuple(r.view(timestamp) for r in pin.state.rowsets if r.is_visible(timestamp))
        return TabletView(pin.table, timestamp, memory, rowsets, pin)

    def check_history(self, timestamp: int) -> None:
        """Raise `HistoryGone` if the state at a timestamp is not kept any more. To be called while holding a pin: more
        history may be removed later, but not of the pinned state."""
        mark = self.metadata.ancient_history_mark
        if timestamp < mark:
            raise HistoryGone(
                f"cannot read table {self.table.name} as of {format_timestamp(Timestamp(timestamp))}: "
                f"its history is kept only since {format_timestamp(Timestamp(mark))}"
            )

    def retire(self, closers: Sequence[Callable[[], None]], paths: Sequence[str]) -> None:
        """Close readers and remove files as soon as they have no readers. To be called after the state, and the
        metadata on the disk, no longer name them."""
        self._retired.add(self.held_pins(), closers, paths)

    def remove_retired(self) -> None:
        """Remove retired files without readers. `DiskError` if a file cannot be removed: it is retried next time."""
        self._retired.remove_free()

    # ---- writers -------------------------------------------------------------------------------------------------

    def settle(self) -> None:
        """Undo the writes whose log entries failed, newest first, and forget those that are durable. Needs
        `write_lock`. Before any key is checked: a write that failed must not influence another one."""
        undecided = self.undecided
        failed: list[LoggedWrite] = []
        for _ in range(self.log.decided(logged.ticket for logged in undecided)):
            logged = undecided.popleft()
            if logged.ticket.error is not None:
                failed.append(logged)
            elif logged.is_abandoned and not logged.is_prepared:
                self.commit(logged.ticket, logged.timestamp)
        for logged in reversed(failed):
            logged.undo()
            if logged.is_prepared:
                void = self.prepared.remove_void(logged)
                self.mvcc.release(logged.timestamp if void is None else void.timestamp)
            else:
                self.mvcc.abort(logged.timestamp)
        if self.deciding:
            self._settle_parts()

    def _settle_parts(self) -> None:
        """Undo the parts of writes over several tablets that were aborted, and forget those that are decided."""
        deciding: list[LoggedWrite] = []
        for logged in self.deciding:
            assert logged.decision is not None
            if not logged.decision.is_decided:
                deciding.append(logged)
            elif logged.decision.is_aborted and logged.ticket.error is None:  # else it has been undone above
                logged.undo()
                self.mvcc.abort(logged.timestamp)
        self.deciding = deciding

    def commit(self, ticket: LogTicket, timestamp: int) -> None:
        """Commit a write whose entry is durable, unless the thread that made it durable has done that."""
        if not ticket.is_committed:
            self.mvcc.commit(timestamp)

    def decide_all(self) -> None:
        """Wait until no write is undecided, those over several tablets included. Needs `write_lock`; takes at most
        about four fsyncs. Raises the log's error if it cannot decide (a cluster's: `DeadlineExceeded`)."""
        if self.undecided:
            ticket = self.undecided[-1].ticket
            try:
                self.log.sync(ticket)
            except OperationalError:
                if not ticket.is_decided:
                    raise
            self.settle()
        if self.deciding:
            for logged in self.deciding:
                assert logged.decision is not None
                logged.decision.wait()  # the deciding thread needs no lock of a tablet for it
            self.settle()

    def abandon(self, logged: LoggedWrite | None) -> None:
        """Settle the decided writes, after the log did not report in time that a write is durable or has failed.
        Undecided writes stay in flight. Acquires `write_lock`."""
        with self.write_lock:
            self.settle()
            if logged is None or logged.ticket.error is not None:
                return
            if logged.ticket.durable:
                self.commit(logged.ticket, logged.timestamp)
            else:
                logged.is_abandoned = True

    # ---- background work -----------------------------------------------------------------------------------------

    def cut(self) -> Cut:
        """The current cut. Needs `write_lock`, as `nothing_prepared` holds it: what a transaction has prepared may get
        a later timestamp than the cut's."""
        return Cut(self.newest, self.log.mark(), not any(m.row_count for m in self.state.memrowsets))

    def wait_for(self, cut: Cut) -> None:
        """Return when all writes before the cut are decided; without locks."""
        while True:
            try:
                self.mvcc.wait_until_clean(cut.timestamp, time.monotonic() + _SETTLE_SECONDS)
                return
            except DeadlineExceeded:
                # Writers settle their own writes, unless they have abandoned the wait.
                with self.write_lock:
                    self.settle()

    def log_floor(self, durable_index: int | None = None, flushed: Collection[DeltaMemStore] = ()) -> int:
        """Log entries at or below this are in files.

        Parameters
        ----------
        durable_index : int, optional
            Instead of the metadata's.
        flushed : collection of DeltaMemStore
            Those whose deltas are in files, although the state still has them.
        """
        floor = self.metadata.durable_index if durable_index is None else durable_index
        for stored in self.state.rowsets:
            for memstore in stored.memstores:
                if memstore.first_index and memstore not in flushed:
                    floor = min(floor, memstore.first_index - 1)
        return max(self.staged.floor(floor), self.metadata.replay_index)

    def write_metadata(
        self, metadata: TabletMetadata, cut: Cut | None = None, flushed: Collection[DeltaMemStore] = ()
    ) -> None:
        """Replace the metadata file, and `metadata`, by this, completed with the tablet's own fields. Needs
        `metadata_lock`. `DiskError` where the disk fails; `metadata` is as it was.

        `cut` is that of the work which is now in files; `flushed` as for `log_floor`.
        """
        durable_index = metadata.durable_index
        if cut is not None and cut.is_flushed:
            durable_index = max(durable_index, cut.index)
        filled = replace(
            metadata,
            next_rowset_id=max(metadata.next_rowset_id, self.unused_rowset_id),
            durable_index=durable_index,
            newest=max(metadata.newest, 0 if cut is None else cut.timestamp),
            replay_index=self.log_floor(durable_index, flushed),
            next_number=max(metadata.next_number, self.next_number),
        )
        # With durability "os", too, the log must not end before what the metadata says of its entries: their indexes
        # would be given again. And what was decided on them must not change any more.
        self.log.sync_now()
        if self.commits is not None:
            self.commits.sync_now()
        filled = replace(filled, log_index=max(filled.log_index, self.log.synced_index))
        if self.commits is not None:
            known = self.commits.durable.durable_index
            filled = replace(filled, commit_index=max(filled.commit_index, known))
        if self.before_forgetting is not None and filled.replay_index > self.metadata.replay_index:
            self.before_forgetting(filled.replay_index)
        filled.write(self.fs, self.directory)
        self.metadata = filled
        self.staged.forget_through(filled.replay_index)

    def note_log(self, index: int) -> None:
        """Record in the metadata file that the log reaches entry `index`: a later opening that finds less reports the
        loss. `DiskError` if the disk fails."""
        if self.metadata.log_index >= index:
            return  # as every second, for most tablets
        with self.metadata_lock:
            if self.metadata.log_index < index:
                self.write_metadata(self.metadata)

    def trim_log(self) -> None:
        """Remove the segments whose entries are all in files."""
        self.log.remove_through(self.metadata.replay_index)

    @contextlib.contextmanager
    def swap(self) -> Iterator[TabletState]:
        """Hold `write_lock` and `metadata_lock` with no write undecided: for the replacement of the state, which it
        yields. It may take long if the log cannot decide, but fails only if the log has ended."""
        while True:
            with self.nothing_prepared():
                try:
                    self.decide_all()
                except OperationalError:
                    ticket = self.undecided[-1].ticket
                else:
                    with self.metadata_lock:
                        yield self.state
                    return
            try:
                self.log.sync(ticket)  # without the lock: others may go on meanwhile
            except DeadlineExceeded:
                continue
            except OperationalError:
                if not ticket.is_decided:
                    raise

    def replace_rowsets(
        self, old: Collection[StoredRowSet], new: Sequence[StoredRowSet], flushed: MemRowSet | None = None
    ) -> None:
        """Put rowsets into the state in place of others, and of a MemRowSet that was flushed. `metadata` names the new
        ones already (`write_metadata`). Needs `write_lock` and `metadata_lock`, as in `swap`."""
        state = self.state
        assert all(stored in state.rowsets for stored in old), "what is replaced is in the state"
        kept = [stored for stored in state.rowsets if stored not in old]
        place = min((state.rowsets.index(stored) for stored in old), default=len(kept))
        flushing = None if flushed is not None and flushed is state.flushing else state.flushing
        rowsets = [*kept[:place], *new, *kept[place:]]
        self.state = TabletState.of(state.memrowset, flushing, rowsets, self.cache, state)
        self.held_pins()  # the shared one would keep what was flushed in memory until the next look-up
