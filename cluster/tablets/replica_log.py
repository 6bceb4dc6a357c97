"""The replicated log as the tablet of a replica sees it.

    tablet ──► ReplicaLog ──► consensus.ReplicatedLog

What this adds is how far the entries go whose effects are in the tablet's memory: those that were applied (`apply`
at a follower), and those that the tablet appended itself, as leader.

    entries       41    42    43    44    45    46    47
                  applied     own   own   CONF  own   (received, not applied)
                  ─────────── in flight, undecided ─
    last_index                                  46
    mark          the last of 42, 43, 44, 46 that will not have failed when the writes before the mark are decided

A mark that is used when the writes before it are decided is never at or above an entry that may still be void: index
45 alone may be given again, to rows. (In the embedded log, whose entries are all writes, a mark falls back with the
end of the log.)
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager

import pyarrow as pa

from ...errors import DiskError
from ...storage.log.wal import LogTicket
from ...storage.log.wal_format import EntryKind
from ..consensus.log.replicated_log import ReplicatedLog

PATIENCE = 0.5
"""Seconds for which background work waits for a decision at a time."""


class _PerThread(threading.local):
    told: Callable[[LogTicket], None] | None = None
    has_deadline = False


class ReplicaMark:
    """A place in the log; see the module's page."""

    def __init__(self, decided: int, undecided: Sequence[LogTicket]):
        self._decided = decided
        self._undecided = undecided

    @property
    def index(self) -> int:
        """The last entry before it; final once the writes before it are decided."""
        return max([self._decided, *(ticket.index for ticket in self._undecided if ticket.error is None)])


class ReplicaLog:
    """Implements `storage.log.tablet_log.TabletLog`. Safe for several threads.

    Parameters
    ----------
    log : ReplicatedLog
        Of the tablet's consensus.
    applied_index : int
        What the tablet's memory and files have when it is opened.
    known_index : int
        The tablet's files may have something of the entries up to here.
    """

    def __init__(self, log: ReplicatedLog, applied_index: int, known_index: int):
        self._log = log
        self._decided = applied_index
        self._known_index = known_index
        self._own: deque[LogTicket] = deque()
        """Entries that the tablet appended, and that are not decided, or were not when last looked at."""
        self._lock = threading.Lock()
        """Guards the two; taken before the consensus's own locks."""
        self._per_thread = _PerThread()
        self._is_stopped = False

    # ---- how far it goes -----------------------------------------------------------------------------------------

    @property
    def decided_index(self) -> int:
        """Everything up to here is decided and in memory."""
        with self._lock:
            return self._settled()

    def _settled(self) -> int:
        own = self._own
        while own and own[0].is_decided:
            ticket = own.popleft()
            if ticket.error is None:
                self._decided = max(self._decided, ticket.index)
        return self._decided

    def note_applied(self, index: int) -> None:
        """Entries up to here, which others appended, are in memory. Needs the tablet's `write_lock`, under which they
        were brought there."""
        with self._lock:
            self._decided = max(self._decided, index)

    @property
    def last_index(self) -> int:
        """Of the newest entry that is in memory."""
        return self.mark().index

    def mark(self) -> ReplicaMark:
        """This place."""
        with self._lock:
            return ReplicaMark(self._settled(), tuple(self._own))

    @property
    def synced_index(self) -> int:
        """Everything up to here is decided: no leader will have another entry there."""
        return self.decided_index

    @property
    def finished_index(self) -> int:
        """Of the log, as far as it is decided. 0 while less is in memory than the files have something of: the metadata
        is not to be replaced then, since what it says of the log goes by what is in memory (`Tablet.log_floor`)."""
        decided = self.decided_index
        return min(self._log.finished_index, decided) if decided >= self._known_index else 0

    # ---- appending -----------------------------------------------------------------------------------------------

    def append(
        self, timestamp: int, kind: EntryKind, bodies: Sequence[bytes], after: LogTicket | None = None
    ) -> LogTicket:
        return self._note(self._log.append(timestamp, kind, bodies, after))

    def append_one(self, timestamp: int, kind: EntryKind, body: bytes, after: LogTicket | None = None) -> LogTicket:
        return self._note(self._log.append_one(timestamp, kind, body, after))

    def _note(self, ticket: LogTicket) -> LogTicket:
        told = self._per_thread.told
        if told is not None:
            told(ticket)  # before the entry may count as decided
        with self._lock:
            self._own.append(ticket)
        return ticket

    @contextmanager
    def telling(self, told: Callable[[LogTicket], None]) -> Iterator[None]:
        """Call `told` with the ticket of each entry that this thread appends, under the tablet's `write_lock`."""
        self._per_thread.told = told
        try:
            yield
        finally:
            self._per_thread.told = None

    @contextmanager
    def waiting_until(self, deadline: float) -> Iterator[None]:
        """In this thread, `sync` gives up at this time (`time.monotonic`)."""
        self._per_thread.has_deadline = True
        try:
            with self._log.waiting_until(deadline):
                yield
        finally:
            self._per_thread.has_deadline = False

    def sync(self, ticket: LogTicket) -> None:
        """Return when the entry is committed; raises the error for which it failed, or `DeadlineExceeded`. Who said
        nothing of a deadline holds the tablet's `write_lock`, perhaps: where nothing can be decided, that is soon."""
        if ticket.durable:
            return
        if self._per_thread.has_deadline:
            self._log.sync(ticket)
            return
        with self._log.waiting_until(time.monotonic() + PATIENCE):
            self._log.sync(ticket)

    def decided(self, tickets: Iterable[LogTicket]) -> int:
        return self._log.decided(tickets)

    def sync_now(self) -> None:
        """Make everything that is in memory durable in this replica's own log. `DiskError` once the replica has failed
        or is closed: the metadata must not be replaced any more, since what it would say may be half done."""
        if self._is_stopped:
            raise DiskError("the replica has failed, or is closed: nothing of it is written any more")
        self._log.sync_now()

    def stop(self) -> None:
        """The replica has failed, or is closed."""
        self._is_stopped = True

    def repair(self) -> None:
        self._log.repair()

    def change_schema(self, schema: pa.Schema) -> None:
        """Nothing: the entry by which the schema changed has told the log."""

    # ---- size and end --------------------------------------------------------------------------------------------

    @property
    def size(self) -> int:
        return self._log.size

    def size_from(self, index: int) -> int:
        return self._log.size_from(index)

    def remove_through(self, index: int) -> None:
        self._log.remove_through(min(index, self.decided_index))

    def close(self) -> None:
        self._log.close()
