"""Undecided entries that this peer proposed, and the threads that wait for them.

    append ──► in the log, in memory ──┬── committed   `durable`: the writer lets readers see it
                                       └── truncated   `error`: a later leader did not have it; it is undone

A writer that times out changes nothing about that. Its entry is *abandoned*: once it is decided, the replica is
notified instead (`ReplicatedState.entries_failed`).
"""

from __future__ import annotations

import weakref
from collections import deque
from collections.abc import Callable
from dataclasses import field

from ...errors import OperationalError
from ...model.lazy_dataclass import dataclass
from ...storage.log.wal import LogMark, LogTicket


@dataclass(slots=True, eq=False)
class Proposal(LogTicket):
    """The ticket of entries that were proposed together. Each waiter is called once, with the consensus's lock held,
    when the proposal is decided or can no longer be decided here. A thread's waiter releases a lock on which it blocks,
    so a commit wakes only the threads that it concerns."""

    is_abandoned: bool = False
    waiters: list[Callable[[], None]] = field(default_factory=list)

    def wake(self) -> None:
        """Wakes all waiters to check again."""
        for wake in self.waiters:
            wake()
        self.waiters.clear()


class Proposals:
    """The undecided proposals of one tablet, oldest first. Everything here needs the lock of the tablet's consensus.

    Attributes
    ----------
    memory_index : int
        The last entry whose effects are in the tablet's memory: an own proposal, or one that was applied.
    """

    def __init__(self, memory_index: int):
        self.memory_index = memory_index
        self._undecided: deque[Proposal] = deque()
        self._marks: weakref.WeakSet[LogMark] = weakref.WeakSet()

    def add(self, index: int, count: int, *, in_memory: bool) -> Proposal:
        """Adds a proposal of `count` entries up to `index`; `in_memory`: their effects are in memory, or will be before
        the caller releases the tablet's `write_lock`."""
        proposal = Proposal(index, count=count)
        self._undecided.append(proposal)
        if in_memory:
            self.memory_index = index
        return proposal

    def commit(self, index: int) -> bool:
        """Entries up to `index` are committed; True if one of them has no waiter any more."""
        undecided, is_abandoned = self._undecided, False
        while undecided and undecided[0].index <= index:
            proposal = undecided.popleft()
            proposal.durable = True
            is_abandoned |= proposal.is_abandoned
            if proposal.waiters:
                proposal.wake()
        return is_abandoned

    def cut_off(self, last_index: int, error: OperationalError) -> bool:
        """Entries after `last_index` are void; True if some were proposed here."""
        failed: list[Proposal] = []
        while self._undecided and self._undecided[-1].index > last_index:
            failed.append(self._undecided.pop())
        for proposal in failed:
            proposal.error = error
            proposal.wake()
        self.memory_index = min(self.memory_index, last_index)
        for mark in self._marks:
            mark.index = min(mark.index, last_index)
        return bool(failed)

    def wake_all(self) -> None:
        """Wakes all waiters: no more proposals will be decided here."""
        for proposal in self._undecided:
            proposal.wake()

    def mark(self) -> LogMark:
        """Returns the end of the entries in the tablet's memory."""
        mark = LogMark(self.memory_index)
        self._marks.add(mark)
        return mark
