"""Leader election: pre-vote, then vote.

    FOLLOWER ── no leader heard ──► CANDIDATE, requests pre-votes (the term stays)
                                        │ a majority grants them
                                        ▼
                                    CANDIDATE in the next term, requests votes ── a majority ──► LEADER

Sources: Ongaro's thesis, sections 3.4 (elections), 3.6.1 (only a peer that has all committed entries is elected), 4.2.3
(a peer that hears a leader votes for no other), 9.6 (pre-vote), 3.10 (transfer). Pre-vote and the promise together keep
a peer that was partitioned or removed from disturbing a working leader.
"""

from __future__ import annotations

from .core import Core
from .events import RaftRole
from .messages import VoteRequest, VoteResponse

MAX_DOUBLINGS = 3
"""The wait before the next election doubles after each lost one, up to 4 to 8 election timeouts."""


class Election:
    """This peer as a candidate and as a voter.

    Attributes
    ----------
    clock_floor : int
        While counting votes: the greatest clock limit that a voter has reported.
    """

    __slots__ = ("_core", "_is_pre", "_is_transfer", "_votes", "clock_floor")

    def __init__(self, core: Core):
        self._core = core
        self._is_pre = False
        self._is_transfer = False
        self._votes: set[str] = set()
        self.clock_floor = 0

    # ---- candidate -------------------------------------------------------------------------------------------------

    def campaign(self) -> bool:
        """Begins an election if this peer may; True if it is won at once, by the only voter."""
        core = self._core
        if not core.is_voter:
            return False
        if core.now < core.promised_until:
            core.election_at = max(core.election_at, core.promised_until)
            return False
        core.role, core.leader = RaftRole.CANDIDATE, None
        return self._ask(is_pre=True)

    def campaign_for_transfer(self) -> bool:
        """Begins an election at the leader's request: without pre-vote, and in spite of the promise to that leader."""
        if not self._core.is_voter:
            return False
        return self._ask(is_pre=False, is_transfer=True)

    def _ask(self, is_pre: bool, is_transfer: bool = False) -> bool:
        core = self._core
        if not is_pre:
            core.enter_term(core.term + 1, vote=core.id)
            core.role = RaftRole.CANDIDATE
        self._is_pre, self._is_transfer = is_pre, is_transfer
        self._votes = {core.id}
        self.clock_floor = core.clock_limit
        self._wait_for_votes()
        if self._has_majority():
            return self._majority_reached()
        request = VoteRequest(
            core.id, core.term + is_pre, core.last_term, core.log.last_index, pre=is_pre, transfer=is_transfer
        )
        for peer in core.members.current.voters:
            if peer.id != core.id:
                core.send(peer, request)
        return False

    def _wait_for_votes(self) -> None:
        core = self._core
        if self._is_pre:
            core.lost_elections += 1  # reset when a leader is heard, or by winning
        doublings = min(max(core.lost_elections - 1, 0), MAX_DOUBLINGS)
        core.election_at = core.now + core.options.election_timeout * (0.5 + core.random.random() / 2) * 2**doublings

    def _has_majority(self) -> bool:
        members = self._core.members
        return sum(id in self._votes for id in members.voters) >= members.majority

    def _majority_reached(self) -> bool:
        if self._is_pre:
            return self._ask(is_pre=False)
        return True

    def on_response(self, response: VoteResponse) -> bool:
        """Counts a vote; True if it wins the election."""
        core = self._core
        if core.role is not RaftRole.CANDIDATE or response.sender not in core.members.voters:
            return False
        if not response.granted:
            if response.term > core.term:
                core.enter_term(response.term)
            return False
        if response.pre is not self._is_pre or response.term != core.term + self._is_pre:
            return False
        self._votes.add(response.sender)
        self.clock_floor = max(self.clock_floor, response.clock_limit)
        return self._has_majority() and self._majority_reached()

    # ---- voter -----------------------------------------------------------------------------------------------------

    def on_request(self, request: VoteRequest) -> None:
        """Grants or refuses a vote."""
        core = self._core
        is_bound = core.role is RaftRole.LEADER or core.now < core.promised_until
        if request.term < core.term or (is_bound and not request.transfer):
            granted = False  # and its term is ignored: thesis, section 4.2.3
        elif request.pre:
            granted = (request.term > core.term or self._is_free_for(request)) and self._is_up_to_date(request)
        else:
            granted = self._vote(request)
        term = request.term if granted else core.term
        core.send(
            core.peer(request.sender), VoteResponse(core.id, term, granted, request.pre, clock_limit=core.clock_limit)
        )

    def _vote(self, request: VoteRequest) -> bool:
        core = self._core
        if request.term > core.term:
            core.enter_term(request.term)
        if core.role is RaftRole.LEADER or not self._is_free_for(request) or not self._is_up_to_date(request):
            return False
        core.give_vote(request.sender)
        core.wait_for_leader()
        return True

    def _is_free_for(self, request: VoteRequest) -> bool:
        """True if no leader of this term is known, and no vote in it was given to another peer."""
        return self._core.leader is None and self._core.vote in ("", request.sender)

    def _is_up_to_date(self, request: VoteRequest) -> bool:
        """True if the candidate's log is at least as up to date as this peer's (thesis, section 3.6.1)."""
        core = self._core
        return (request.last_term, request.last_index) >= (core.last_term, core.log.last_index)
