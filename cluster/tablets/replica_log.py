"""The replicated log as the tablet of a replica sees it.

tablet ──► ReplicaLog ──► consensus.ReplicatedLog

The class adds the index up to which the effects of entries are in the tablet's memory. These are applied entries
(`apply` at a follower), and entries that the tablet appended itself, as leader.

    entries       41    42    43    44    45    46    47
                  applied     own   own   CONF  own   (received, not applied)
                  ─────────── in flight, undecided ─
    last_index                                  46
    mark          the last of 42, 43, 44, 46 that has not failed when the writes before the mark are decided

A mark that is used after the writes before it are decided is never at or above an entry that may still be void: only
index 45 may be assigned again, to rows. (In the embedded log, whose entries are all writes, a mark falls back with the
end of the log.)
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Iterable, Sequence

import pyarrow as pa

from ...errors import DiskError
from ...storage.log.tablet_log import WriteContext
from ...storage.log.wal import LogTicket
from ...storage.log.wal_format import EntryKind
from ..consensus.log.replicated_log import ReplicatedLog

PATIENCE = 0.5
"""Seconds for which background work waits for a decision at a time."""


class ReplicaMark:
    """A position in the log; see the module's page."""

    def __init__(self, decided: int, undecided: Sequence[LogTicket]):
        self._decided = decided
        self._undecided = undecided

    @property
    def index(self) -> int:
        """The last entry before the mark; final once the writes before it are decided."""
        return max([self._decided, *(ticket.index for ticket in self._undecided if ticket.error is None)])


class ReplicaLog:
    """Implements `storage.log.tablet_log.TabletLog`. Thread-safe.

    Parameters
    ----------
    log : ReplicatedLog
        Of the tablet's consensus.
    applied_index : int
        Last entry in the tablet's memory and files when it is opened.
    known_index : int
        The tablet's files may reflect entries up to this index.
    """

    def __init__(self, log: ReplicatedLog, applied_index: int, known_index: int):
        self._log = log
        self._decided = applied_index
        self._known_index = known_index
        self._own: deque[LogTicket] = deque()
        """Own entries that are not decided, or were not when last checked."""
        self._lock = threading.Lock()
        """Guards the two; acquired before the consensus's own locks."""
        self._is_stopped = False

    # ---- indexes -----------------------------------------------------------------------------------------------------

    @property
    def decided_index(self) -> int:
        """Everything up to this index is decided and in memory."""
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
        """Records that entries of other leaders up to this index are in memory. Needs the tablet's `write_lock`, under
        which they were applied."""
        with self._lock:
            self._decided = max(self._decided, index)

    @property
    def last_index(self) -> int:
        """Index of the newest entry in memory."""
        return self.mark().index

    def mark(self) -> ReplicaMark:
        """Returns the current position."""
        with self._lock:
            return ReplicaMark(self._settled(), tuple(self._own))

    @property
    def synced_index(self) -> int:
        """Everything up to this index is decided: no leader will have another entry there."""
        return self.decided_index

    @property
    def finished_index(self) -> int:
        """The finished index of the log, as far as it is decided.

        Returns 0 until the replica has applied every entry that its files may reflect. The metadata must not be
        replaced before that, since its log index is derived from the memory (`Tablet.log_floor`).
        """
        finished = self._log.finished_index
        if not finished:
            return 0
        decided = self.decided_index
        return min(finished, decided) if decided >= self._known_index else 0

    # ---- appending -----------------------------------------------------------------------------------------------

    def append(
        self,
        timestamp: int,
        kind: EntryKind,
        bodies: Sequence[bytes],
        after: LogTicket | None = None,
        context: WriteContext | None = None,
    ) -> LogTicket:
        ticket = self._log.append(timestamp, kind, bodies, after, context)
        if context is not None:
            context.appended(ticket)  # before the entry may count as decided
        with self._lock:
            self._own.append(ticket)
        return ticket

    def sync(self, ticket: LogTicket, context: WriteContext | None = None) -> None:
        """Returns when the entry is committed; raises the error for which it failed, or `DeadlineExceeded`.

        Callers without a deadline may hold the tablet's `write_lock`, so their wait is limited to `PATIENCE` seconds.
        """
        deadline = None if context is None else context.deadline
        self._log.wait(ticket, time.monotonic() + PATIENCE if deadline is None else deadline)

    def decided(self, tickets: Iterable[LogTicket]) -> int:
        return self._log.decided(tickets)

    def sync_now(self) -> None:
        """Makes everything in memory durable in this replica's own log.

        Raises `DiskError` once the replica has failed or is closed: the metadata must not be replaced any more, since
        it might record half-done work.
        """
        if self._is_stopped:
            raise DiskError("the replica has failed or is closed: it is not written any more")
        self._log.sync_now()

    def stop(self) -> None:
        """Stops writing: the replica has failed, or is closed."""
        self._is_stopped = True

    def repair(self) -> None:
        self._log.repair()

    def change_schema(self, schema: pa.Schema) -> None:
        """No-op: the log has the new schema from its ALTER entry."""

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
