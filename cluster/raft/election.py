"""How a leader is chosen: elections with a round of questions before them, and votes.

    FOLLOWER ── no leader heard ──► CANDIDATE, asking whether it would be elected (pre-vote; the term stays)
                                        │ a majority would
                                        ▼
                                    CANDIDATE in the next term, asking for votes ── a majority ──► LEADER

Sources: Ongaro's thesis, sections 3.4 (elections), 3.6.1 (only who has all committed entries is elected), 4.2.3 (who
hears a leader votes for nobody else), 9.6 (pre-vote), 3.10 (transfer). Pre-vote and the promise together keep a peer
that was cut off, or removed, from disturbing a leader that works.
"""

from __future__ import annotations

from .core import Core
from .events import RaftRole
from .messages import VoteRequest, VoteResponse

MAX_DOUBLINGS = 3
"""After lost elections the wait for the next one doubles, up to 4 to 8 election timeouts."""


class Election:
    """This peer as a candidate and as a voter.

    Attributes
    ----------
    clock_floor : int
        While counting votes: the greatest clock limit that a voter has told.
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
        """Begin an election, if this peer may; True if it is won already, by the only voter."""
        core = self._core
        if not core.is_voter:
            return False
        if core.now < core.promised_until:
            core.election_at = max(core.election_at, core.promised_until)
            return False
        core.role, core.leader = RaftRole.CANDIDATE, None
        return self._ask(is_pre=True)

    def campaign_for_transfer(self) -> bool:
        """Begin an election that the leader asked for: our promise to it holds nobody back, and nobody need be asked
        first."""
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
            core.lost_elections += 1  # taken back by a leader that is heard, or by winning
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
        """Count a vote; True if the election is won by it."""
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
        """Give the vote, or refuse it."""
        core = self._core
        is_bound = core.role is RaftRole.LEADER or core.now < core.promised_until
        if request.term < core.term or (is_bound and not request.transfer):
            granted = False  # and its term is nothing to us: thesis, section 4.2.3
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
        """No leader of this term is known, and no vote was given to another in it."""
        return self._core.leader is None and self._core.vote in ("", request.sender)

    def _is_up_to_date(self, request: VoteRequest) -> bool:
        """The candidate's log is no shorter than ours where they may differ (thesis, section 3.6.1)."""
        core = self._core
        return (request.last_term, request.last_index) >= (core.last_term, core.log.last_index)
