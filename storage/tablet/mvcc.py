"""Which writes of a tablet a reader may see: timestamps, and the set of writes still in flight.

    start ──► in flight ──┬── commit   durable, visible to every snapshot at or above its timestamp
                          └── abort    as if it had never been

A reader at timestamp T first waits until no write at or below T is in flight (`wait_until_clean`); from then on
"timestamp at or below T and not aborted" decides, and never changes again. A snapshot therefore is one number, and
the same number on several tablets is one consistent state of all of them (Kudu: READ_AT_SNAPSHOT at a clean time).

The in-flight set is entered under the lock under which the timestamp is drawn: a reader that draws a later timestamp
cannot miss it.

A write that is prepared, a part of a transaction over several tablets of a cluster, holds its timestamp (`hold`) until
the outcome is known: readers at or above it wait as for a write in flight.

A reader of the newest state need not draw one: what was acknowledged is committed, so the greatest timestamp that was
committed will do (`newest_clean`), and writes that are on their way to the disk, or to a majority, are above it, as a
rule. So look-ups do not wait for other clients' writes. A reply that shows the effect of another write, such as that
of a refused insertion, must wait until that is committed (`wait_until_clean`): a look-up that follows must see it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack

from ...errors import DeadlineExceeded
from ...model.clock import HybridClock
from ...model.store import Timestamp


class MvccManager:
    """The writes in flight of one tablet. Safe for several threads.

    Invariant: timestamps start in ascending order, and none is in flight twice.
    """

    def __init__(self, clock: HybridClock):
        self._clock = clock
        self._in_flight: set[int] = set()
        self._held: set[int] = set()
        """Timestamps of prepared writes."""
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)
        self._acknowledged = 0
        """At or above every timestamp that was acknowledged, while something is in flight."""
        self._ready: Timestamp | None = None
        """The greatest timestamp, if every write at or below it is decided. Read without the lock: later writes are
        above it, and acknowledged writes were recorded here before."""
        self._waiting = 0
        """Number of waiting readers: `notify_all` without waiters would cost as much as all other steps."""

    @property
    def clock(self) -> HybridClock:
        """The clock that gives the timestamps."""
        return self._clock

    def start(self) -> Timestamp:
        """A timestamp for a new write, in flight from now on."""
        with self._lock:
            timestamp = self._clock.now()
            self._enter(timestamp)
            return timestamp

    def _enter(self, timestamp: int) -> None:
        """A timestamp that was drawn just now is in flight. Needs the lock."""
        if not self._in_flight:
            self._acknowledged = timestamp - 1
            self._ready = Timestamp(timestamp - 1)
        self._in_flight.add(timestamp)

    def commit(self, timestamp: int) -> None:
        """The write is durable: let readers see it."""
        with self._lock:
            self._in_flight.remove(timestamp)
            if timestamp > self._acknowledged:
                self._acknowledged = timestamp
            acknowledged = self._acknowledged
            self._ready = Timestamp(acknowledged) if self._is_clean(acknowledged) else None
            if self._waiting:
                self._changed.notify_all()

    def commit_all(self, timestamps: Sequence[int]) -> None:
        """`commit` of several at once."""
        if not timestamps:
            return
        with self._lock:
            self._in_flight.difference_update(timestamps)
            self._acknowledged = acknowledged = max(self._acknowledged, *timestamps)
            self._ready = Timestamp(acknowledged) if self._is_clean(acknowledged) else None
            if self._waiting:
                self._changed.notify_all()

    def hold_new(self, proposed: int) -> int:
        """Hold a timestamp for a new prepared write and return it: the proposed one if it is above every timestamp that
        the clock has given, which then follows it; else a new one."""
        with self._lock:
            timestamp = proposed if self._clock.advance(Timestamp(proposed)) else self._clock.now()
            self._held.add(timestamp)
            return timestamp

    def hold(self, timestamp: int) -> None:
        """Hold the timestamp of a write that another server has prepared. No-op if it is held."""
        with self._lock:
            self._held.add(timestamp)

    def hold_later(self, timestamp: int, later: int) -> bool:
        """Hold a later timestamp in place of one; False, with nothing done, if another write holds it."""
        with self._lock:
            if later in self._held:
                return False
            self._clock.update(Timestamp(later))
            self._held.add(later)
            self._held.discard(timestamp)
            if self._waiting:
                self._changed.notify_all()
            return True

    def release(self, timestamp: int) -> None:
        """The outcome of a prepared write is visible: let readers pass. No-op if it is not held."""
        with self._lock:
            self._held.discard(timestamp)
            if self._waiting:
                self._changed.notify_all()

    def abort(self, timestamp: int) -> None:
        """The write failed, and its rows are marked so: let readers pass over it."""
        self.commit(timestamp)

    def is_clean(self, timestamp: int) -> bool:
        """True if every write at or below `timestamp` is decided."""
        with self._changed:
            return self._is_clean(timestamp)

    def note_committed(self, timestamp: int) -> None:
        """A prepared write is committed at a timestamp, which the clock has passed: `newest_clean` is at or above it.
        To be called before readers of its keys go on."""
        with self._lock:
            if timestamp > self._acknowledged:
                self._acknowledged = timestamp
                self._ready = Timestamp(timestamp) if self._is_clean(timestamp) else None

    def wait_until_clean(self, timestamp: int, deadline: float | None = None, *, passes_held: bool = False) -> None:
        """Return when every write at or below `timestamp` is decided: at most about the time of one fsync, or in a
        cluster of one round among the replicas. `DeadlineExceeded` where it is not by the deadline (of
        `time.monotonic`). With `passes_held` it does not wait for prepared writes."""
        # Never without the lock: a writer that drew its timestamp may not have entered it yet.
        with self._lock:
            self._wait(timestamp, deadline, passes_held)

    def clean_now(self, deadline: float | None = None, *, passes_held: bool = False) -> Timestamp:
        """A new timestamp at which every write is decided; all acknowledged writes are below it. Waits as
        `wait_until_clean`; with `passes_held` not for prepared writes: the caller finds out whether they concern it."""
        with self._lock:
            if self._held and not passes_held:
                # A transaction may have been acknowledged at a timestamp above the clock: it follows with the outcome.
                held = frozenset(self._held)
                self._wait_until(lambda: held.isdisjoint(self._held), deadline)
            timestamp = self._clock.now()
            if self._in_flight or (self._held and not passes_held):
                self._wait(timestamp, deadline, passes_held)
            return timestamp

    def newest_clean(self, deadline: float | None = None) -> Timestamp:
        """A timestamp at which every write is decided, and at or above all that was acknowledged so far; perhaps not a
        new one. Waits as `wait_until_clean`, for writes only that are older than one that was acknowledged, and never
        for prepared ones: the caller finds out whether they concern it."""
        # As a rule without the lock: concurrent look-ups would pass it to each other, each with a switch of threads. A
        # writer that draws a timestamp holds the lock until it is in flight.
        latest = self._clock.latest
        if not self._lock.locked() and not self._in_flight:
            return latest
        ready = self._ready
        if ready is not None and self._in_flight:
            return ready
        with self._lock:
            if not self._in_flight:
                return self._clock.now()
            timestamp = Timestamp(self._acknowledged)
            self._wait(timestamp, deadline, passes_held=True)
            return timestamp

    def passed_now(self) -> Timestamp:
        """The greatest timestamp such that every write at or below it is decided, and none will get one any more."""
        with self._lock:
            now = self._clock.now()
            undecided = self._in_flight | self._held if self._held else self._in_flight
            return Timestamp(min(undecided) - 1) if undecided else now

    def _wait(self, timestamp: int, deadline: float | None, passes_held: bool = False) -> None:
        self._wait_until(lambda: self._is_clean(timestamp, passes_held), deadline)

    def _wait_until(self, is_met: Callable[[], bool], deadline: float | None) -> None:
        while not is_met():
            remaining = None if deadline is None else deadline - time.monotonic()
            if remaining is not None and remaining <= 0:
                raise DeadlineExceeded("writes below the time that is read at were not decided in time")
            self._waiting += 1
            self._changed.wait(remaining)
            self._waiting -= 1

    def _is_clean(self, timestamp: int, passes_held: bool = False) -> bool:
        if self._held and not passes_held and min(self._held) <= timestamp:
            return False
        return not self._in_flight or min(self._in_flight) > timestamp


def commit_together(managers: Sequence[MvccManager], timestamp: int) -> None:
    """Commit a write to several tablets, in all of them together: a look-up without a snapshot that follows one that
    has seen a part sees the others, too. `managers` as in `start_together`."""
    with ExitStack() as stack:
        for manager in managers:
            stack.enter_context(manager._changed)
        for manager in managers:
            manager._ready = None  # look-ups that take no lock wait for it from here on
        for manager in managers:
            manager._in_flight.remove(timestamp)
            manager._acknowledged = max(manager._acknowledged, timestamp)
        for manager in managers:
            acknowledged = manager._acknowledged
            manager._ready = Timestamp(acknowledged) if manager._is_clean(acknowledged) else None
            if manager._waiting:
                manager._changed.notify_all()


def start_together(managers: Sequence[MvccManager]) -> Timestamp:
    """One timestamp for a write into several tablets: a snapshot sees all of it or nothing.

    `managers` are by table id and then in the order of tablets, so that two such calls cannot block each other.
    """
    with ExitStack() as stack:
        for manager in managers:
            stack.enter_context(manager._changed)
        timestamp = managers[0]._clock.now()
        for manager in managers:
            manager._enter(timestamp)
        return timestamp
