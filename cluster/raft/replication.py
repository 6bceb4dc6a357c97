"""How a leader's entries get to its peers: batched, pipelined, and one message for all peers that are equally far.

A message costs both sides, and their disks, far more than one entry more in it. So while one is on its way, entries
that do not fill another one wait for its answer (Nagle). And where several propose at a time, each of whom waits for
his entry before he proposes the next, those whose entries were committed just now are about to propose again: they are
*awaited*, and what is there waits until as many have come, or a moment has passed (`RaftOptions.gathers`). Without
that, all of them would take turns in small groups, with several messages where one could do.

    committed 5 entries    awaited 5    held: a, b, c    2    held: a, b, c, d    1    d, e come: all are sent    0
"""

from __future__ import annotations

from .core import Core
from .lease import Lease
from .messages import AppendRequest, Entry
from .progress import NEVER, PeerProgress

_FEW_IN_FLIGHT = 1
"""With so many messages on their way, entries wait until they fill a batch, or until one is answered."""
_MANY = 64
"""Entries that are not committed, or that a peer lacks, from which on they go in bulk anyway."""
_PATIENCE = 0.008
"""Seconds after a commit for which its proposers are awaited."""


class Replication:
    """Sends; what is to be sent follows from each peer's `PeerProgress`.

    Attributes
    ----------
    safe_time, safe_index : int
        As told in every message.
    """

    __slots__ = (
        "_awaited",
        "_awaited_until",
        "_core",
        "_lease",
        "_progress",
        "safe_index",
        "safe_time",
    )

    def __init__(self, core: Core, lease: Lease, progress: dict[str, PeerProgress]):
        self._core = core
        self._lease = lease
        self._progress = progress
        self._awaited = 0
        self._awaited_until = NEVER
        self.safe_time = 0
        self.safe_index = 0

    def begin_round(self) -> None:
        """Send all peers what they lack, and to each, besides, a message without entries: it is answered at once. It
        names the entry before the next one to be sent, so that a peer notices what was lost."""
        shared: dict[int, AppendRequest] = {}
        for progress in self._progress.values():
            self._send(progress, shared)
        empty: dict[int, AppendRequest] = {}
        for progress in self._progress.values():
            self._send_heartbeat(progress, empty)

    def send_all(self) -> None:
        """Send all peers what they lack."""
        shared: dict[int, AppendRequest] = {}
        for progress in self._progress.values():
            self._send(progress, shared)

    def send(self, progress: PeerProgress) -> None:
        """Send a peer what it lacks, as far as its window allows."""
        if progress.next_index <= self._core.log.last_index:
            self._send(progress, {})

    def proposed(self, count: int) -> None:
        """So many entries have come: send all peers what they lack, unless more is awaited."""
        self._awaited = max(0, self._awaited - count)
        self.send_unless_awaiting()

    def committed(self, count: int) -> None:
        """So many entries more are committed: who proposed them is awaited."""
        if self._core.options.gathers:
            self._awaited = min(self._awaited + count, _MANY)
            self._awaited_until = self._core.now + _PATIENCE

    def send_unless_awaiting(self) -> None:
        """Send all peers what they lack, unless more is awaited."""
        if self._is_awaiting():
            self._core.ready.is_held = True
        else:
            self._awaited = 0
            self.send_all()

    def go_on(self, progress: PeerProgress) -> None:
        """Send a peer, which has just answered, what it lacks, unless more is awaited."""
        lacking = self._core.log.last_index - progress.next_index + 1
        if lacking >= _MANY or not self._is_awaiting():
            self.send(progress)
        elif lacking > 0:
            self._core.ready.is_held = True

    def _is_awaiting(self) -> bool:
        core = self._core
        if not self._awaited or core.now >= self._awaited_until:
            return False
        return core.log.last_index - core.commit_index < _MANY

    def send_at_least_one(self, progress: PeerProgress) -> None:
        """Send a peer what it lacks, and something even if that is nothing."""
        if progress.needs_copy or progress.next_index > self._core.log.last_index:
            self._send_heartbeat(progress, {})
        else:
            self._send(progress, {})

    def ask_for_copy(self, progress: PeerProgress) -> None:
        """The log does not reach back to what the peer, which has just answered, lacks."""
        progress.needs_copy = True
        if progress.is_copy_due(self._core.now, self._core.options.election_timeout):
            self._core.ready.bootstraps.append(progress.peer)

    def _send(self, progress: PeerProgress, shared: dict[int, AppendRequest]) -> None:
        core = self._core
        last_index, window = core.log.last_index, core.options.window
        while progress.next_index <= last_index and len(progress.in_flight) < window and not progress.needs_copy:
            first = progress.next_index
            request = shared.get(first)
            if request is None:
                if (previous_term := core.log.term(first - 1)) is None:
                    progress.needs_copy = True  # and told when the peer answers: it may be gone
                    return
                entries = tuple(core.log.entries(first, last_index, core.options.max_batch_bytes))
                if len(progress.in_flight) >= _FEW_IN_FLIGHT and len(entries) > last_index - first:
                    return  # not a whole batch: what comes until the others are answered goes along
                request = shared[first] = self._request(first - 1, previous_term, entries)
            core.send(progress.peer, request)
            progress.sent(first + len(request.entries) - 1)

    def _send_heartbeat(self, progress: PeerProgress, shared: dict[int, AppendRequest]) -> None:
        core = self._core
        if core.log.term(progress.next_index - 1) is None:
            progress.needs_copy = True
        # A peer that copies data agrees with us up to there, once it has the copy; before, it refuses.
        previous_index = core.log.base_index if progress.needs_copy else progress.next_index - 1
        if (request := shared.get(previous_index)) is None:
            previous_term = core.log.term(previous_index)
            assert previous_term is not None, f"the log does not know the term of entry {previous_index}"
            request = shared[previous_index] = self._request(previous_index, previous_term, ())
        core.send(progress.peer, request)

    def _request(self, previous_index: int, previous_term: int, entries: tuple[Entry, ...]) -> AppendRequest:
        core, lease = self._core, self._lease
        return AppendRequest(
            core.id,
            core.term,
            lease.round,
            previous_term,
            previous_index,
            core.commit_index,
            entries,
            lease.clock_limit,
            self.safe_time,
            self.safe_index,
        )
