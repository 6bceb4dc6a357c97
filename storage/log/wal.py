"""The write-ahead log of one tablet: append, group commit, replay. `wal_format` draws its bytes.

    append(entry) ─► behind the newest segment ─► LogTicket ─► sync(ticket) ─► acknowledged
                     (under the mutex, in index order)         one write and one fsync for all waiting threads

Group commit: the first thread that waits for its entry becomes the leader; it writes what was appended and syncs the
file, both without the mutex. Entries that arrive in the meantime wait in memory for the next leader. n writers cost
about two fsyncs. No thread makes a system call while it holds the mutex, or the tablet's lock around it: a system call
releases the interpreter to another thread, which soon blocks on that lock, and from then on every write would cost
several switches of threads.

With durability "os" an entry is written to the file when it is appended, and counts as durable then.

After a failed write or fsync it is unknown what reached the disk. So all entries since the last good one fail together,
the segment is cut back to there, and nothing is appended before the cut has succeeded: a later acknowledged entry never
follows one that was reported as failed.
"""

from __future__ import annotations

import itertools
import logging
import threading
import weakref
from collections.abc import Callable, Iterable, Sequence
from dataclasses import field
from typing import Protocol

import pyarrow as pa

from ...errors import DiskError, OperationalError, OutcomeUnknown, StoreClosed
from ...model.lazy_dataclass import dataclass
from ..files.file_identity import tablet_of
from ..files.filesystem import FileSystem, WritableFile
from .commit_queue import CommitQueue
from .wal_format import ENTRY_OVERHEAD, EntryKind, encode_front, encode_header
from .wal_recovery import RecoveredLog, Replay, Segment, read_log

_log = logging.getLogger("nyala.storage")

SEGMENT_BYTES = 64 << 20
"""A segment is removed as a whole, so it should be small against the memory that its rows take; Kudu has 8 MB."""
TERM = 1
"""Without replication there is one leader for ever."""

_JOINED_BYTES = 1 << 14
"""Limit for joining buffers before a write: joining costs a copy, and a system call costs about as much as copying this
many bytes."""


class MustWait(OperationalError):
    """The entry can only be appended after a wait, which the caller has excluded (`WriteContext.waits`)."""


class Waiting(Protocol):
    """The part of a `tablet_log.WriteContext` that this log reads."""

    waits: bool


@dataclass(slots=True, eq=False)
class LogTicket:
    """An appended entry, or the last one of `count`; `TabletLog.sync` waits until they are durable or have failed."""

    index: int
    durable: bool = False
    error: OperationalError | None = None
    count: int = 1
    timestamp: int = 0
    """Timestamp of a write whose changes are all in memory: the thread that makes the entry durable may commit it then
    (`on_durable`), and sets `is_committed`. 0: the writer commits it."""
    is_committed: bool = False

    @property
    def is_decided(self) -> bool:
        return self.durable or self.error is not None


@dataclass(slots=True, eq=False, weakref_slot=True)
class LogMark:
    """A place in the log: behind entry `index`. Where that entry fails, the mark falls back with the log's end, since
    indexes of failed entries are given again."""

    index: int


@dataclass(slots=True)
class _Newest:
    """The segment being written. Invariant: `synced_size <= size`, both at an entry's end; `unwritten` are the last
    bytes of `size`."""

    segment: Segment
    file: WritableFile
    synced_size: int
    pending: list[LogTicket] = field(default_factory=list)
    unwritten: list[bytes] = field(default_factory=list)
    """Appended entries, to be written by the next leader."""
    needs_cut: bool = False
    """Bytes behind `segment.size` are refuse."""


@dataclass(slots=True, eq=False)
class Witnessed:
    """Value that later entries record: the store's commit log is durable up to this COMMIT; 0: nothing. In the commit
    log itself, 1 if the parts of the COMMIT are synced, else 0."""

    durable_index: int = 0


class WriteAheadLog:
    """Entries of one tablet with ascending indexes; all methods may be called from several threads.

    Invariants
    ----------
    - Indexes have no gaps; `synced_index <= last_index`.
    - Every segment but the newest is wholly synced.
    - While `needs_cut`, nothing is appended.

    Parameters
    ----------
    fs, directory : where the segments lie
    schema : pa.Schema
        Of the rows in entries to come; written at the front of each segment.
    last_index : int
        Of the last entry that exists, here or in rowsets; 0 where there is none.
    syncs : bool
        False: `sync` does not wait for the disk (durability "os"); `sync_now` still does.
    """

    def __init__(
        self,
        fs: FileSystem,
        directory: str,
        schema: pa.Schema,
        last_index: int = 0,
        syncs: bool = True,
        segment_bytes: int = SEGMENT_BYTES,
    ):
        self._fs = fs
        self._directory = directory
        self._schema = schema
        self._syncs = syncs
        self._segment_bytes = segment_bytes
        self._last_index = last_index
        self._synced_index = last_index
        self._old: list[Segment] = []
        self._newest: _Newest | None = None
        self._syncing = False
        self._closed = False
        self._is_refused = False
        """The last write or sync failed; said once, and once that it works again."""
        self._marks: weakref.WeakSet[LogMark] = weakref.WeakSet()
        self.witnessed = Witnessed()
        """Written into each entry (`LogEntry.witness`)."""
        self.on_durable: Callable[[Sequence[int]], None] | None = None
        """Called with the timestamps of the durable tickets that have one, before their writers are woken. If each
        writer committed after waking, readers of later writes would have to wait for it."""
        self._mutex = threading.Lock()
        self._changed = threading.Condition(self._mutex)
        """A sync has ended; for those who do not wait for one ticket alone."""
        self._queue = CommitQueue()

    # ---- state ---------------------------------------------------------------------------------------------------

    @property
    def last_index(self) -> int:
        """Of the newest entry."""
        return self._last_index

    @property
    def synced_index(self) -> int:
        """All entries up to here are durable."""
        return self._synced_index

    @property
    def size(self) -> int:
        """Bytes of all segments."""
        with self._changed:
            return sum(s.size for s in self._segments())

    def size_from(self, index: int) -> int:
        """Bytes of the segments that must stay because of the entry `index` and those behind it."""
        with self._changed:
            return sum(s.size for s in self._segments() if s.last_index >= index or s.last_index < s.first_index)

    @property
    def finished_segments(self) -> list[int]:
        """The last entry of each segment that is finished, ascending."""
        with self._changed:
            return [segment.last_index for segment in self._old]

    @property
    def finished_index(self) -> int:
        """Last entry of the segments that are finished; 0 where there is none."""
        with self._changed:
            return self._old[-1].last_index if self._old else 0

    def _segments(self) -> list[Segment]:
        return self._old if self._newest is None else [*self._old, self._newest.segment]

    # ---- append and sync -----------------------------------------------------------------------------------------

    def append(
        self,
        timestamp: int,
        kind: EntryKind,
        bodies: Sequence[bytes],
        after: LogTicket | None = None,
        context: Waiting | None = None,
    ) -> LogTicket:
        """Put entries behind the others, one per body, all or none, after a crash, too; they are durable only after
        `sync`.

        `after` is an entry on which these rely: where it has failed, they fail too; where it fails later, all behind
        it do. Returns the ticket of the last. Raises `DiskError` where there is no room for them, or `after` has
        failed; the log is then as it was. `MustWait` if `context` excludes waits and the disk is needed now: for a new
        segment, after a failure, or because nothing is synced later.
        """
        size = sum(map(len, bodies)) + ENTRY_OVERHEAD * len(bodies)
        with self._mutex:
            if context is not None and not context.waits and not self._takes_at_once(size):
                raise MustWait
            if self._closed:
                raise StoreClosed(f"the log {self._directory} is closed; open the store again")
            if self._newest is not None and self._newest.needs_cut:
                self._repair()
            newest = self._room_for(size)
            if after is not None and after.error is not None:
                raise _raisable(cause_of(after.error)) from after.error
            index, synced, witness = self._last_index, self._synced_index, self.witnessed.durable_index
            last = index + len(bodies)
            pieces: list[bytes] = []
            for body in bodies:
                index += 1
                front = encode_front(TERM, index, timestamp, synced, kind, body, index < last, witness)
                pieces += (front, body)
            if not self._syncs:
                self._write_unsynced(newest, pieces)
            newest.segment.size += size
            newest.segment.last_index = self._last_index = last
            ticket = LogTicket(last, durable=not self._syncs, count=len(bodies))
            if self._syncs:
                newest.unwritten += pieces
                newest.pending.append(ticket)
            return ticket

    def _takes_at_once(self, size: int) -> bool:
        """True if entries can be appended in memory alone. Needs the mutex."""
        newest = self._newest
        if newest is None or newest.needs_cut or not self._syncs or self._closed:
            return False
        return newest.segment.size + size <= self._segment_bytes

    def _write_unsynced(self, newest: _Newest, pieces: list[bytes]) -> None:
        """Write entries that are not to be synced. `DiskError` if that fails: they are cut off before the next."""
        try:
            _write(newest.file, pieces)
        except DiskError as error:
            newest.needs_cut = True
            self._note_outcome(error)
            raise
        if self._is_refused:
            self._note_outcome(None)

    def sync(self, ticket: LogTicket, context: object = None) -> None:
        """Return when the entry is durable; raise the `DiskError` for which it failed."""
        while not ticket.is_decided:
            with self._mutex:
                if ticket.is_decided:
                    break
                if not self._syncing:
                    self._lead()
                    continue
                turn = self._queue.join(ticket)
            turn.acquire()
        if ticket.error is not None:
            raise _raisable(ticket.error) from ticket.error

    def decided(self, tickets: Iterable[LogTicket]) -> int:
        """Number of tickets, from the first on, that are decided; those that fail together are counted together."""
        with self._changed:
            return sum(1 for _ in itertools.takewhile(lambda ticket: ticket.is_decided, tickets))

    def mark(self) -> LogMark:
        """The current end of the log."""
        with self._changed:
            mark = LogMark(self._last_index)
            self._marks.add(mark)
            return mark

    def sync_now(self) -> None:
        """Make everything appended so far durable, whatever the durability."""
        with self._changed:
            target = self._last_index
            while self._synced_index < min(target, self._last_index):
                self._sync_or_wait()

    def _sync_or_wait(self) -> None:
        """Lead one fsync, or wait for the one that runs. Needs the mutex; releases it during the sync."""
        if self._syncing:
            self._changed.wait()
        else:
            self._lead()

    def _lead(self) -> None:
        """Write and sync the appended entries. Needs the mutex; releases it during the sync. With durability "os",
        raises the `DiskError` of the failure; otherwise the tickets have it."""
        newest = self._newest
        assert newest is not None, "an undecided entry lies in the newest segment"
        covered, size, index = len(newest.pending), newest.segment.size, newest.segment.last_index
        unwritten, newest.unwritten = newest.unwritten, []
        self._syncing = True
        self._mutex.release()
        failure: DiskError | None = None
        try:
            _write(newest.file, unwritten)
            newest.file.sync()
        except DiskError as error:
            failure = error
        except BaseException as error:  # Ctrl-C, say: some of it may be in the file
            failure = DiskError(f"cannot write {newest.segment.path}: interrupted by {type(error).__name__}")
            raise
        finally:
            self._mutex.acquire()
            self._syncing = False
            if failure is not None or self._is_refused:
                self._note_outcome(failure)
            if failure is None:
                self._settle(newest, covered, size, index)
            elif self._syncs:
                self._fail_pending(newest, failure)
            self._changed.notify_all()
            self._queue.wake()
        if failure is not None and not self._syncs:
            raise failure

    def _note_outcome(self, failure: DiskError | None) -> None:
        """Log that the disk begins to refuse writes, or takes them again."""
        if failure is not None and not self._is_refused:
            _log.warning("the log refuses writes until the disk accepts them, reads continue: %s", failure)
        elif failure is None and self._is_refused:
            _log.warning("the log takes writes again: %s", self._directory)
        self._is_refused = failure is not None

    def _settle(self, newest: _Newest, covered: int, size: int, index: int) -> None:
        tickets = newest.pending[:covered]
        if self.on_durable is not None:
            # A ticket gets its timestamp while this goes on, perhaps: then it has come too late.
            ready = [ticket for ticket in tickets if ticket.timestamp]
            self.on_durable([ticket.timestamp for ticket in ready])
            for ticket in ready:
                ticket.is_committed = True
        for ticket in tickets:
            ticket.durable = True
        del newest.pending[:covered]
        newest.synced_size = max(newest.synced_size, size)
        self._synced_index = max(self._synced_index, index)

    def _fail_pending(self, newest: _Newest, failure: DiskError) -> None:
        """Undo all entries that are not synced, then fail their tickets. Needs the mutex."""
        failed = newest.pending.copy()
        newest.pending.clear()
        newest.unwritten.clear()
        newest.needs_cut = True
        newest.segment.size = newest.synced_size
        newest.segment.last_index = self._last_index = self._synced_index
        for mark in self._marks:
            mark.index = min(mark.index, self._last_index)
        try:
            # At once, if the disk permits: entries that were reported as failed must not exist after a crash.
            self._repair()
        except DiskError as error:
            failure = _in_doubt(failure, error)
        finally:
            for ticket in failed:
                ticket.error = failure

    def repair(self) -> None:
        """Cut away what a failed write or sync left, where that was not possible yet; `DiskError` while it is not."""
        with self._changed:
            self._repair()

    def _repair(self) -> None:
        """Cut away what a failed write or sync left; `DiskError` while the disk still refuses."""
        newest = self._newest
        if newest is None or not newest.needs_cut:
            return
        self._wait_for_sync()
        newest.file.close()
        self._fs.truncate(newest.segment.path, newest.segment.size)
        newest.file = self._fs.append(newest.segment.path)
        newest.needs_cut = False

    def _wait_for_sync(self) -> None:
        while self._syncing:
            self._changed.wait()

    # ---- segments ------------------------------------------------------------------------------------------------

    def _room_for(self, size: int) -> _Newest:
        newest = self._newest
        if newest is not None:
            is_empty = newest.segment.last_index < newest.segment.first_index
            if is_empty or newest.segment.size + size <= self._segment_bytes:
                return newest
            self._finish_newest()
        return self._begin_segment()

    def _finish_newest(self) -> None:
        """Sync the newest segment and count it among the old ones, unless it is empty, as after a failed write: the
        next segment takes its place and its name, and must not be removed with it."""
        while self._newest is not None and self._synced_index < self._last_index:
            self._sync_or_wait()
            self._repair()
        self._wait_for_sync()
        newest, self._newest = self._newest, None
        if newest is not None:
            newest.file.close()
            if newest.segment.first_index <= newest.segment.last_index:
                self._old.append(newest.segment)

    def _begin_segment(self) -> _Newest:
        first = self._last_index + 1
        path = f"{self._directory}/{first:016x}.log"
        header = encode_header(first, self._schema, tablet_of(path))
        file = self._fs.create(path)
        try:
            file.write(header)
            # The header and the name are durable before any entry is, so a bad header means an empty segment.
            file.sync()
            self._fs.sync_directory(self._directory)
        except DiskError:
            file.close()
            raise
        segment = Segment(path, first, first - 1, len(header))
        self._newest = _Newest(segment, file, len(header))
        return self._newest

    def change_schema(self, schema: pa.Schema) -> None:
        """Rows of entries to come have this schema. `DiskError` with nothing changed where the segment that was begun
        cannot be finished."""
        with self._changed:
            self._repair()
            self._finish_newest()
            self._schema = schema

    def remove_through(self, index: int) -> None:
        """Remove the segments all of whose entries are at or below `index`, oldest first."""
        with self._changed:
            self._wait_for_sync()
            newest = self._newest
            if newest is not None and newest.segment.first_index <= newest.segment.last_index <= index:
                newest.file.close()
                for ticket in newest.pending:
                    ticket.durable = True
                self._queue.wake()
                self._synced_index = self._last_index
                self._old.append(newest.segment)
                self._newest = None
            while self._old and self._old[0].last_index <= index:
                self._fs.remove(self._old[0].path)
                del self._old[0]

    def close(self) -> None:
        """Make everything durable and close the files; nothing can be appended afterwards."""
        with self._changed:
            self._closed = True
            try:
                self._repair()
                self._finish_newest()
            finally:
                if self._newest is not None:
                    self._newest.file.close()
                    self._newest = None

    # ---- recovery ------------------------------------------------------------------------------------------------

    @classmethod
    def recover(
        cls,
        fs: FileSystem,
        directory: str,
        schema: pa.Schema,
        durable_index: int,
        replay: Replay,
        syncs: bool = True,
        segment_bytes: int = SEGMENT_BYTES,
        known_index: int = 0,
        before_changes: Callable[[], None] = lambda: None,
        is_trial: bool = False,
    ) -> WriteAheadLog:
        """Open the log of a tablet whose rowsets hold everything up to `durable_index`; replay what lies above.

        A torn tail is cut. Raises `CorruptionError` where an entry that was durable is damaged or missing; those up to
        `known_index` were. Files are changed only after all segments were read and `before_changes` has returned:
        a damaged log stays as it is. With `is_trial`, nothing is logged.
        """
        recovered = read_log(fs, directory, durable_index, known_index, replay)
        before_changes()
        return cls.settled(fs, directory, schema, recovered, durable_index, syncs, segment_bytes, is_trial)

    @classmethod
    def settled(
        cls,
        fs: FileSystem,
        directory: str,
        schema: pa.Schema,
        found: RecoveredLog,
        durable_index: int,
        syncs: bool = True,
        segment_bytes: int = SEGMENT_BYTES,
        is_trial: bool = False,
    ) -> WriteAheadLog:
        """The log that was read (`read_log`), with its torn tail cut; parameters as those of `recover`."""
        found.settle(fs, is_trial)
        log = cls(fs, directory, schema, found.last_index, syncs, segment_bytes)
        log._old = [recovered.segment for recovered in found.segments]
        log.remove_through(durable_index)
        return log


def _in_doubt(failure: DiskError, error: DiskError) -> OutcomeUnknown:
    """The error of failed entries that may be on the disk, because they could not be cut off."""
    doubt = OutcomeUnknown(
        f"{failure}; the written bytes could not be cut off either ({error}). The write is not visible, but may "
        "be if this process ends before the disk works again: check whether the rows exist before writing them again"
    )
    doubt.__cause__ = failure
    return doubt


def _raisable(error: BaseException) -> DiskError:
    """An error of the same kind for each thread that it is raised in."""
    return error.repeated() if isinstance(error, DiskError) else DiskError(str(error))


def cause_of(error: BaseException) -> BaseException:
    """Cause of an `OutcomeUnknown`, for callers that know the outcome."""
    while isinstance(error, OutcomeUnknown) and error.__cause__ is not None:
        error = error.__cause__
    return error


def _write(file: WritableFile, pieces: Sequence[bytes]) -> None:
    """Write all pieces in their order, small ones together."""
    joined: list[bytes] = []
    size = 0
    for piece in pieces:
        if size + len(piece) > _JOINED_BYTES and joined:
            file.write(b"".join(joined))
            joined, size = [], 0
        joined.append(piece)
        size += len(piece)
    if joined:
        file.write(joined[0] if len(joined) == 1 else b"".join(joined))
