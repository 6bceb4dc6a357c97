"""Prepared writes of a tablet: parts of transactions over several tablets of a cluster, whose outcome is not known yet.

    prepare ──► in the log and in memory, timestamp held ──┬── commit   visible
                                                           └── abort    undone

A prepared write has a timestamp of the tablet's own; the commit timestamp may be later (`LoggedWrite.restamp`). It
holds its keys: other writes of these keys wait for the outcome, and so do look-ups of them at or above its timestamp.
Scans at or above it wait for the outcome as well (`MvccManager.hold`). `cluster.tablets.transactions` prepares and
resolves; here is what writers and readers of the tablet need of it.

Background work cuts the log, and replaces the memory that an abort would undo, only while nothing is prepared
(`between_transactions`).
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterable, Iterator, Set
from dataclasses import field

from ...errors import StoreClosed
from ...model.lazy_dataclass import dataclass
from ..log.decision import Decision
from ..log.logged_write import LoggedWrite
from ..rowsets.memrowset import NEVER


@dataclass(frozen=True, slots=True, eq=False)
class PreparedWrite:
    """One prepared write.

    Parameters
    ----------
    logged : LoggedWrite
        Its changes in memory.
    timestamp : int
        That it holds; the commit timestamp is not below it.
    keys : set of int or bytes
        Index keys of its rows.
    decision : Decision
        Decided when the outcome is visible.
    note : bytes
        What the log entry says of the transaction.
    since : float
        When this replica met it: monotonic seconds.
    """

    logged: LoggedWrite
    timestamp: int
    keys: Set[int | bytes]
    decision: Decision
    note: bytes
    since: float = field(default_factory=time.monotonic)

    def leave_timestamp(self) -> None:
        """Move its rows to a timestamp that no other write ever has. Needs the tablet's `write_lock`."""
        self.logged.restamp(NEVER - self.logged.ticket.index)


class PreparedWrites:
    """The prepared writes of one tablet, by transaction id. Changed under the tablet's `write_lock`; may be read
    without it."""

    def __init__(self) -> None:
        self._writes: dict[str, PreparedWrite] = {}
        self._lock = threading.Lock()
        """Guards `_closers` and `_is_held_back`."""
        self._closers = 0
        self._is_held_back = False
        self._resumed = threading.Condition(self._lock)
        self._is_ended = False

    def __bool__(self) -> bool:
        return bool(self._writes)

    def __iter__(self) -> Iterator[tuple[str, PreparedWrite]]:
        return iter(self._writes.items())

    @property
    def count(self) -> int:
        """Number of prepared writes."""
        return len(self._writes)

    @property
    def seconds(self) -> float:
        """Seconds for which the oldest has been prepared; 0.0 if there is none."""
        oldest = min((write.since for write in self._writes.values()), default=None)
        return 0.0 if oldest is None else time.monotonic() - oldest

    @property
    def is_open(self) -> bool:
        """False while background work keeps new writes from being prepared."""
        return not self._closers

    @contextlib.contextmanager
    def closed(self) -> Iterator[None]:
        """Keep new writes from being prepared meanwhile."""
        with self._lock:
            self._closers += 1
        try:
            yield
        finally:
            with self._lock:
                self._closers -= 1

    @property
    def is_held_back(self) -> bool:
        """True while no PREPARE entry must be applied. Needs the tablet's `write_lock`."""
        return self._is_held_back

    def hold_back(self) -> None:
        """Keep PREPARE entries from being applied until `resume`. Needs the tablet's `write_lock`, with nothing
        prepared and new writes kept off by `closed`."""
        with self._lock:
            self._is_held_back = True

    def resume(self) -> None:
        """End `hold_back`."""
        with self._resumed:
            self._is_held_back = False
            self._resumed.notify_all()

    def wait_resumed(self) -> None:
        """Block until PREPARE entries may be applied; without locks. The files of the background work are written, so
        it takes no longer than a replacement of the metadata."""
        with self._resumed:
            self._resumed.wait_for(lambda: not self._is_held_back)

    def end(self) -> None:
        """The tablet is being closed: background work must not wait for an outcome any more."""
        self._is_ended = True

    def wait(self, seconds: float) -> None:
        """Block until a prepared write is decided, or for `seconds`; `StoreClosed` after `end`."""
        for write in self._writes.values():
            if self._is_ended:
                raise StoreClosed("the tablet is being closed while a transaction has prepared writes")
            write.decision.wait(seconds)
            return

    def get(self, transaction: str) -> PreparedWrite | None:
        """The prepared write of a transaction."""
        return self._writes.get(transaction)

    def add(self, transaction: str, write: PreparedWrite) -> None:
        """Hold the keys of a write."""
        self._writes = {**self._writes, transaction: write}  # replaced, for readers without the lock

    def remove(self, transaction: str) -> PreparedWrite | None:
        """Release the keys of a write; None if there is no such write."""
        writes = self._writes.copy()
        write = writes.pop(transaction, None)
        self._writes = writes
        return write

    def remove_void(self, logged: LoggedWrite) -> PreparedWrite | None:
        """Forget a write whose log entry failed, and which has been undone; returns it."""
        for transaction, write in self._writes.items():
            if write.logged is logged:
                self.remove(transaction)
                write.decision.abort()
                return write
        return None

    def holding(self, key: int | bytes, until: int | None = None) -> PreparedWrite | None:
        """The write that holds a key, if its timestamp is at or below `until`."""
        for write in self._writes.values():
            if key in write.keys and (until is None or write.timestamp <= until):
                return write
        return None

    def leave_timestamp(self, timestamp: int) -> None:
        """Move the rows of a write that has a timestamp to one that no other write ever has: rows of another
        transaction, committed at that timestamp, would be undone with them. Readers wait for its outcome all the same,
        which gives the rows their timestamp. Needs the tablet's `write_lock`."""
        for write in self._writes.values():
            if write.logged.timestamp == timestamp:
                write.leave_timestamp()

    def sharing(self, keys: Iterable[int | bytes]) -> PreparedWrite | None:
        """A write that holds one of some keys."""
        return next((write for write in self._writes.values() if not write.keys.isdisjoint(keys)), None)
