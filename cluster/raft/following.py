"""A peer that receives entries from a leader.

An entry is appended if the entry before it is the leader's too; conflicting entries are truncated first, and are never
committed ones (thesis, section 3.5). Entries are acknowledged when they are durable, up to the index at which the log
is known to match this leader's. Acknowledging a round needs no disk: a heartbeat is answered at once.
"""

from __future__ import annotations

import msgspec

from .core import Core
from .membership import CONFIGURATION, decode_configuration
from .messages import AppendRequest, AppendResponse, Entry, Peer

MAX_PENDING_SAFE_TIMES = 16


class Following:
    """State that belongs to one term's leader, and the safe times that leaders, including this peer, have announced.

    Attributes
    ----------
    safe_time, safe_index : int
        `safe_index` is committed here, and the entries up to it contain every write at or below `safe_time`.
    """

    __slots__ = (
        "_core",
        "_heard_round",
        "_matched_index",
        "_pending_safe_times",
        "_term",
        "_unacknowledged",
        "safe_index",
        "safe_time",
    )

    def __init__(self, core: Core):
        self._core = core
        self._term = -1
        self._matched_index = 0
        self._heard_round = 0
        self._unacknowledged = False
        self.safe_time = 0
        self.safe_index = 0
        self._pending_safe_times: list[tuple[int, int]] = []

    def on_append(self, request: AppendRequest) -> None:
        """Processes a message of the current term's leader."""
        core = self._core
        if reason := _what_is_wrong(request) or self._what_contradicts(request):
            core.ready.ignored = reason
            return
        leader = core.peer(request.sender)
        core.hear_leader(leader)
        if self._term != core.term:
            self._term, self._heard_round, self._unacknowledged = core.term, 0, False
            self._matched_index = core.commit_index  # every later leader has it too: thesis, section 3.6.3
        self._heard_round = max(self._heard_round, request.round)
        core.clock_limit = max(core.clock_limit, request.clock_limit)
        if not self._has_previous(request):
            self._respond(leader, request.round, False, core.commit_index)
            return
        self._take(request)
        self._take_safe_time(request.safe_time, request.safe_index)
        if request.entries and core.durable_index < self._matched_index:
            self._unacknowledged = True
        else:
            self._acknowledge()

    def _what_contradicts(self, request: AppendRequest) -> str:
        """Returns the reason for which the sender cannot lead this tablet: another entry in place of a committed one;
        or ""."""
        core = self._core
        index = min(core.commit_index, request.previous_index + len(request.entries))
        if index < request.previous_index:
            return ""
        place = index - request.previous_index - 1  # if the last one matches, so do all before it
        term = request.entries[place].term if place >= 0 else request.previous_term
        own_term = core.log.term(index)
        if own_term is None or own_term == term:
            return ""
        return f"{request.sender} has entry {index} of term {term}, which is committed here as one of term {own_term}"

    def _has_previous(self, request: AppendRequest) -> bool:
        """True if this log matches the leader's up to the index before the message's entries."""
        core = self._core
        return (
            request.previous_index <= core.commit_index
            or core.log.term(request.previous_index) == request.previous_term
        )

    def _take(self, request: AppendRequest) -> None:
        core = self._core
        entries = request.entries
        if entries:
            if request.previous_index != core.log.last_index:
                entries = self._new_entries(entries)
            if entries:
                core.append(entries)
        self._matched_index = max(self._matched_index, request.previous_index + len(request.entries))
        committed = min(request.commit_index, self._matched_index)
        if committed > core.commit_index:
            core.commit(committed)
            self._settle_safe_times()

    def _new_entries(self, entries: tuple[Entry, ...]) -> tuple[Entry, ...]:
        """Returns the entries that the log does not have yet, after truncating conflicting ones. A message that later
        ones have overtaken conflicts with nothing."""
        core = self._core
        log, last_index = core.log, core.log.last_index
        for place, entry in enumerate(entries):
            if entry.index <= core.commit_index:
                continue
            if entry.index > last_index:
                return entries[place:]
            if log.term(entry.index) != entry.term:
                core.truncate(entry.index - 1)
                return entries[place:]
        return ()

    # ---- acknowledging ---------------------------------------------------------------------------------------------

    def persisted(self) -> None:
        """Acknowledges entries that have become durable."""
        if self._unacknowledged and self._term == self._core.term and self._core.leader is not None:
            self._acknowledge()

    def _acknowledge(self) -> None:
        core = self._core
        assert core.leader is not None
        match_index = min(core.durable_index, self._matched_index)
        self._unacknowledged = match_index < self._matched_index
        self._respond(core.leader, self._heard_round, True, match_index)

    def _respond(self, leader: Peer, round: int, accepted: bool, match_index: int) -> None:
        core = self._core
        response = AppendResponse(core.id, core.term, round, accepted, match_index, is_quiescing=core.is_quiescing)
        core.send(leader, response)

    # ---- safe time -------------------------------------------------------------------------------------------------

    def _take_safe_time(self, safe_time: int, safe_index: int) -> None:
        pending = self._pending_safe_times
        newest = pending[-1][0] if pending else self.safe_time
        if safe_time <= newest:
            return
        if len(pending) == MAX_PENDING_SAFE_TIMES:
            pending.pop()
        pending.append((safe_time, safe_index))
        self._settle_safe_times()

    def have_led(self, safe_time: int, safe_index: int) -> None:
        """Keeps the safe time that this peer, whose leadership has ended, had announced; `safe_index` is committed."""
        self._settle_safe_times()
        if safe_time > self.safe_time:
            self.safe_time, self.safe_index = safe_time, safe_index
            self._pending_safe_times.clear()

    def _settle_safe_times(self) -> None:
        pending = self._pending_safe_times
        while pending and pending[0][1] <= self._core.commit_index:
            self.safe_time, self.safe_index = pending.pop(0)


def _what_is_wrong(request: AppendRequest) -> str:
    """Returns the reason for which no leader would send this message; "" if one could."""
    index, term = request.previous_index, request.previous_term
    if index < 0 or not 0 <= term <= request.term:
        return f"{request.sender} of term {request.term} names entry {index} of term {term} as the preceding one"
    for entry in request.entries:
        index += 1
        if entry.index != index or not term <= entry.term <= request.term:
            return (
                f"{request.sender} of term {request.term} sends entry {entry.index} of term {entry.term} instead of "
                f"entry {index} of term {term} or later"
            )
        term = entry.term
        if entry.kind == CONFIGURATION:
            try:
                decode_configuration(entry.body, index)
            except msgspec.MsgspecError as error:
                return f"{request.sender} sends entry {index}, a CONFIGURATION that cannot be read: {error}"
    return ""
