"""Sending of a leader's entries: batched, pipelined, and one message for all peers with the same progress.

A message costs both sides, and their disks, far more than one more entry in it. So while one message is unanswered,
entries that do not fill another one wait for its response (Nagle). If several callers propose concurrently, each of
them waiting for its entry before the next proposal, then those whose entries were just committed are about to propose
again. They are *awaited*: entries wait until as many more have arrived, or a moment has passed (`RaftOptions.gathers`).
Without that, the callers would alternate in small groups, with several messages instead of one.

    committed 5 entries    awaited 5    held: a, b, c    2    held: a, b, c, d    1    d, e come: all are sent    0

The numbers are those of awaited proposers.
"""

from __future__ import annotations

from .core import Core
from .lease import Lease
from .messages import AppendRequest, Entry
from .progress import NEVER, PeerProgress

_FEW_IN_FLIGHT = 1
"""With this many unanswered messages, entries wait until they fill a batch, or until one message is answered."""
_MANY = 64
"""Number of entries, uncommitted or missing at a peer, from which they are sent in bulk without waiting."""
_PATIENCE = 0.008
"""Seconds after a commit for which its proposers are awaited."""


class Replication:
    """Sends messages to peers, according to each peer's `PeerProgress`.

    Attributes
    ----------
    safe_time, safe_index : int
        As sent in every message.
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
        """Sends all peers their missing entries, and each of them a message without entries, which is answered at once.
        It names the entry before the next one to be sent, so that a peer notices lost messages."""
        shared: dict[int, AppendRequest] = {}
        for progress in self._progress.values():
            self._send(progress, shared)
        empty: dict[int, AppendRequest] = {}
        for progress in self._progress.values():
            self._send_heartbeat(progress, empty)

    def send_all(self) -> None:
        """Sends all peers their missing entries."""
        shared: dict[int, AppendRequest] = {}
        for progress in self._progress.values():
            self._send(progress, shared)

    def send(self, progress: PeerProgress) -> None:
        """Sends a peer its missing entries, as far as its window allows."""
        if progress.next_index <= self._core.log.last_index:
            self._send(progress, {})

    def proposed(self, count: int) -> None:
        """Sends new entries to all peers, unless more are awaited."""
        self._awaited = max(0, self._awaited - count)
        self.send_unless_awaiting()

    def committed(self, count: int) -> None:
        """Awaits the proposers of newly committed entries."""
        if self._core.options.gathers:
            self._awaited = min(self._awaited + count, _MANY)
            self._awaited_until = self._core.now + _PATIENCE

    def send_unless_awaiting(self) -> None:
        """Sends all peers their missing entries, unless more are awaited."""
        if self._is_awaiting():
            self._core.ready.is_held = True
        else:
            self._awaited = 0
            self.send_all()

    def send_more(self, progress: PeerProgress) -> None:
        """Sends missing entries to a peer that has just responded, unless more are awaited."""
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
        """Sends a peer its missing entries, or a message without entries if none are missing."""
        if progress.needs_copy or progress.next_index > self._core.log.last_index:
            self._send_heartbeat(progress, {})
        else:
            self._send(progress, {})

    def ask_for_copy(self, progress: PeerProgress) -> None:
        """Requests that a peer copies the data: the log does not reach back to its missing entries."""
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
                    progress.needs_copy = True  # reported when the peer responds: it may be down
                    return
                entries = tuple(core.log.entries(first, last_index, core.options.max_batch_bytes))
                if len(progress.in_flight) >= _FEW_IN_FLIGHT and len(entries) > last_index - first:
                    # not a full batch: it is sent with the entries that arrive until the other messages are answered
                    return
                request = shared[first] = self._request(first - 1, previous_term, entries)
            core.send(progress.peer, request)
            progress.sent(first + len(request.entries) - 1)

    def _send_heartbeat(self, progress: PeerProgress, shared: dict[int, AppendRequest]) -> None:
        core = self._core
        if core.log.term(progress.next_index - 1) is None:
            progress.needs_copy = True
        # A peer that copies data matches this log up to the base once it has the copy; until then it refuses.
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
