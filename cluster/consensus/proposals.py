"""Entries that this peer proposed and nobody has decided yet, and the threads that wait for them.

    append ──► in the log, in memory ──┬── committed   `durable`: the writer lets readers see it
                                       └── cut off     `error`: a later leader did not have it; it is undone

A writer that gives up waiting changes nothing about that. Its entry is *abandoned*: once it is decided, somebody else
must be told (`ReplicatedState.entries_failed`).
"""

from __future__ import annotations

import weakref
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from ...errors import OperationalError
from ...storage.log.wal import LogMark, LogTicket


@dataclass(slots=True, eq=False)
class Proposal(LogTicket):
    """The ticket of entries that were proposed together. Each waiter is called once, with the consensus's lock held,
    when the proposal is decided or nobody here will: a thread's releases a lock that it waits for, so a commit wakes
    those alone whom it concerns."""

    is_abandoned: bool = False
    waiters: list[Callable[[], None]] = field(default_factory=list)

    def wake(self) -> None:
        """Let all who wait look again."""
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
        """Entries up to `index`, `count` of them, were proposed; `in_memory`: their effects are there already, or will
        be before the caller lets go of the tablet's `write_lock`."""
        proposal = Proposal(index, count=count)
        self._undecided.append(proposal)
        if in_memory:
            self.memory_index = index
        return proposal

    def commit(self, index: int) -> bool:
        """Entries up to `index` are committed; True if nobody waits for one of them any more."""
        undecided, is_abandoned = self._undecided, False
        while undecided and undecided[0].index <= index:
            proposal = undecided.popleft()
            proposal.durable = True
            is_abandoned |= proposal.is_abandoned
            if proposal.waiters:
                proposal.wake()
        return is_abandoned

    def cut_off(self, last_index: int, error: OperationalError) -> bool:
        """Entries behind `last_index` are void; True if some were proposed here."""
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
        """Nothing will be decided here any more: let all who wait see that."""
        for proposal in self._undecided:
            proposal.wake()

    def mark(self) -> LogMark:
        """The end of what is in the tablet's memory."""
        mark = LogMark(self.memory_index)
        self._marks.add(mark)
        return mark
