"""Passes decisions to the replica, in order, one call at a time, on threads of a pool.

    committed ─► entries that are not in the tablet's memory ─► ReplicatedState.apply
    truncated ─► ReplicatedState.entries_failed                 before anything that was committed later
    elected.. ─► ReplicatedState.leadership_changed

A leader has its own proposals in memory: they need no apply call, and usually no pool thread. A follower's entries are
delayed by `POSTPONED` unless a caller waits for them: waking a thread for four rows costs more than the rows do.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

from ..disk_errors import is_full
from ..raft.messages import Entry, Peer
from .interfaces import ReplicatedState
from .log.raft_log import RaftLog
from .workers import Job

APPLY_BYTES = 4 << 20
"""Approximate bytes of bodies in one call of `apply`."""
POSTPONED = 0.05
"""Seconds that committed entries may wait for more, while no caller waits for them."""
MOST_POSTPONED = 256
"""Most entries that wait for more."""


class Applier:
    """The applier of one tablet; all but `_work` and its callees need the lock of the tablet's consensus.

    Parameters
    ----------
    changed : Condition
        With the lock of the tablet's consensus; notified when no work is left.
    submit : callable
        Submits a job to the pool.
    postpone : callable
        Schedules a job in `POSTPONED` seconds; the job acquires the lock itself.
    applied : callable
        Called with the lock when `applied_index` has grown.
    full : callable
        Called without the lock with the error of an entry for which the disk has no space; the entry is applied again
        a moment later.
    fail : callable
        Called without the lock when the replica or the log raised an error; nothing is applied after that.

    Attributes
    ----------
    applied_index : int
        All entries up to this index are in the tablet's memory and committed.
    is_busy : bool
        A pool job is running.
    worker : int or None
        The thread that runs it (`threading.get_ident`).
    """

    def __init__(
        self,
        state: ReplicatedState,
        log: RaftLog,
        changed: threading.Condition,
        applied_index: int,
        *,
        submit: Callable[[Job], None],
        postpone: Callable[[Job], None],
        applied: Callable[[], None],
        full: Callable[[Exception], object],
        fail: Callable[[Exception], None],
    ):
        self.applied_index = applied_index
        self.is_busy = False
        self.worker: int | None = None
        self._state = state
        self._log = log
        self._changed = changed
        self._committed_index = applied_index
        self._own: set[int] = set()
        """Entries above `applied_index` that are in memory since they were proposed."""
        self._news: list[Job] = []
        self._submit = submit
        self._postpone = postpone
        self._is_postponed = False
        self._applied = applied
        self._full = full
        self._fail = fail
        self._is_stopped = False

    def add_own(self, first: int, last: int) -> None:
        """Records proposals whose effects are in the tablet's memory, undecided."""
        self._own.update(range(first, last + 1))

    def commit(self, index: int, *, is_urgent: bool) -> None:
        """Entries up to `index` are committed; `is_urgent`: a caller may be waiting for them."""
        self._committed_index = max(self._committed_index, index)
        if not self.is_busy:
            self._skip_own()
        if is_urgent or self._news or self._committed_index - self.applied_index >= MOST_POSTPONED:
            self._start()
        elif self._has_entries and not self.is_busy and not self._is_postponed:
            self._is_postponed = True
            self._postpone(self._end_postponement)

    def hasten(self) -> None:
        """Applies postponed entries at once: a caller waits for them."""
        self._start()

    def _end_postponement(self) -> None:
        with self._changed:
            self._is_postponed = False
            self._start()

    def cut_off(self, last_index: int) -> None:
        """Entries after `last_index` are void."""
        self._own = {index for index in self._own if index <= last_index}

    def settle(self) -> None:
        """Reports own proposals that were decided without a waiting writer, before any later entry is applied."""
        if self._state.entries_failed not in self._news:
            self._news.insert(0, self._state.entries_failed)
        self._start()

    def notify_leadership(self) -> None:
        """Reports a change of role, leader or term."""
        if self._state.leadership_changed not in self._news:
            self._news.append(self._state.leadership_changed)
        self._start()

    def notify_bootstrap(self, peer: Peer) -> None:
        """Reports that a peer needs a copy of the data."""
        self.notify(lambda: self._state.needs_bootstrap(peer))

    def notify(self, news: Job) -> None:
        """Queues a notification that is delivered without the lock, after those already queued."""
        self._news.append(news)
        self._start()

    def stop(self, last_news: Job | None = None) -> None:
        """Stops applying and notifying, except for `last_news`."""
        self._is_stopped = True
        self._news = [] if last_news is None else [last_news]
        self._start()

    # ---- in the pool ---------------------------------------------------------------------------------------------

    def _start(self) -> None:
        if self.is_busy or not (self._news or self._has_entries):
            return
        self.is_busy = True
        self._submit(self._work)

    @property
    def _has_entries(self) -> bool:
        return self.applied_index < self._committed_index and not self._is_stopped

    def _work(self) -> None:
        while True:
            with self._changed:
                self.worker = threading.get_ident()
                news, self._news = self._news, []
                first, last = self.applied_index + 1, self._committed_index
                if not news and not self._has_entries:
                    self.is_busy, self.worker = False, None
                    self._changed.notify_all()
                    return
                has_entries = self._has_entries and not news
            try:
                for notify in news:
                    notify()
                if has_entries:
                    self._apply(first, last)
            except Exception as error:
                if has_entries and is_full(error):
                    self._full(error)
                    self._rest()
                    return
                self._fail(error)

    def _rest(self) -> None:
        """Returns the thread to the pool; work resumes a moment later."""
        with self._changed:
            self.is_busy, self.worker = False, None
            self._changed.notify_all()
            if not self._is_postponed:
                self._is_postponed = True
                self._postpone(self._end_postponement)

    def _apply(self, first: int, last: int) -> None:
        entries = self._log.entries(first, last, APPLY_BYTES)
        with self._changed:
            missing: Sequence[Entry] = entries
            if self._own:
                missing = [entry for entry in entries if entry.index not in self._own]
        if missing:
            self._state.apply(missing)
        with self._changed:
            self.applied_index = entries[-1].index
            if self._own:
                self._own.difference_update(range(first, self.applied_index + 1))
                self._skip_own()
            self._applied()

    def _skip_own(self) -> None:
        """Advances over entries that are already in memory."""
        own, index = self._own, self.applied_index + 1
        while index <= self._committed_index and index in own:
            own.remove(index)
            index += 1
        if index > self.applied_index + 1:
            self.applied_index = index - 1
            self._applied()
