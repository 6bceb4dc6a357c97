"""One peer of one tablet's consensus, without clock, disk or socket: takes events, returns work for the driver.

    FOLLOWER ── no leader heard ──► CANDIDATE ── elected ──► LEADER
        ▲                               │                       │
        └── a leader is heard ──────────┴── a later term, or no majority is heard ──┘   LEARNER: has no vote

`election`, `following` and `leading` hold the behaviour of each role; `core` has the state that all roles share. The
node draws no random number or time itself, so the same events give the same messages, to the byte.

Source: Ongaro, "Consensus: Bridging Theory and Practice" (2014); Kudu paper, section 3.2. `events` gives the order in
which the driver processes a `Ready`.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence

from ...errors import NotTheLeader
from .core import Core
from .election import Election
from .events import (
    Campaign,
    ChangePeers,
    Event,
    Log,
    Persisted,
    Propose,
    Quiesce,
    RaftRole,
    Ready,
    Received,
    Renew,
    Send,
    Tick,
    Transfer,
)
from .following import Following
from .leading import Leading
from .messages import (
    AppendRequest,
    AppendResponse,
    Configuration,
    HardState,
    Peer,
    TransferRequest,
    VoteRequest,
    VoteResponse,
)
from .options import RaftOptions
from .progress import PeerProgress

__all__ = ["RaftNode", "RaftOptions"]

MAX_TERM = 1 << 62
"""Limit on terms: no tablet reaches it, and a message with a greater one would leave no next term for an election."""


class RaftNode:
    """A peer of a tablet's consensus. Not thread-safe: its driver serialises the steps.

    Parameters
    ----------
    id : str
        The server's, as in `Peer.id`.
    log : Log
        As recovered: all of it is durable.
    hard_state : HardState
    configuration : Configuration
        The newest in the log or the tablet's files, committed or not.
    now : float
        Seconds of a monotonic clock; the same one as is passed to `step`.
    random : random.Random
        For election timeouts.
    hybrid : callable
        Returns the current hybrid timestamp (`HybridClock.now`).
    wall : callable, optional
        Returns the wall clock as a hybrid time, which hybrid time may be ahead of; None: `hybrid`.
    clock_limit : int
        The value of `RaftNode.clock_limit` before the restart.
    is_new : bool
        The tablet was just created, so this peer cannot have promised anything.
    commit_index : int
        Entries up to this index are known to be committed: those that the driver has applied. At least
        `Log.base_index`.
    history : sequence of Configuration
        Those before `configuration`, back to a committed one: a truncation may restore them.
    """

    __slots__ = ("_core", "_election", "_following", "_leading")

    def __init__(
        self,
        id: str,
        log: Log,
        hard_state: HardState,
        configuration: Configuration,
        options: RaftOptions,
        *,
        now: float,
        random: random.Random,
        hybrid: Callable[[], int],
        wall: Callable[[], int] | None = None,
        clock_limit: int = 0,
        is_new: bool = False,
        commit_index: int = 0,
        history: Sequence[Configuration] = (),
    ):
        configurations = (*history, configuration)
        self._core = Core(id, log, hard_state, configurations, options, commit_index, now, random, hybrid, wall)
        self._core.clock_limit = clock_limit
        if not is_new and not self._core.members.is_only_voter(id):
            self._core.promised_until = now + options.election_timeout  # promises from before the restart are not known
        self._election = Election(self._core)
        self._following = Following(self._core)
        self._leading: Leading | None = None

    # ---- what it is ------------------------------------------------------------------------------------------------

    @property
    def id(self) -> str:
        return self._core.id

    @property
    def role(self) -> RaftRole:
        return self._core.role

    @property
    def term(self) -> int:
        return self._core.term

    @property
    def leader(self) -> str:
        """Id of the term's leader; "" while none is known."""
        return self._core.leader.id if self._core.leader is not None else ""

    @property
    def leader_peer(self) -> Peer | None:
        """The term's leader with its address."""
        return self._core.leader

    @property
    def hard_state(self) -> HardState:
        return HardState(self._core.term, self._core.vote)

    @property
    def commit_index(self) -> int:
        return self._core.commit_index

    @property
    def durable_index(self) -> int:
        """Log index up to which this peer's log is durable."""
        return self._core.durable_index

    @property
    def configuration(self) -> Configuration:
        """The configuration in force: the newest in the log."""
        return self._core.members.current

    @property
    def committed_configuration(self) -> Configuration:
        """The newest configuration that is known to be committed."""
        return self._core.members.committed

    @property
    def is_quiescing(self) -> bool:
        """True if this peer leaves leadership to others (`events.Quiesce`)."""
        return self._core.is_quiescing

    @property
    def deadline(self) -> float:
        """When a `Tick` is due; infinite for a learner."""
        return self._leading.deadline if self._leading is not None else self._core.election_at

    # ---- what a leader may do --------------------------------------------------------------------------------------

    @property
    def is_serving(self) -> bool:
        """True if this peer leads and an entry of its own term is committed: it then has every committed entry."""
        return self._leading is not None and self._leading.is_serving

    @property
    def is_transferring(self) -> bool:
        """True if this peer leads and is transferring leadership: it accepts no proposals."""
        return self._leading is not None and self._leading.transferring.has_begun

    def has_lease(self, now: float) -> bool:
        """True if this peer leads and no other can be elected before `now`."""
        return self._leading is not None and self._leading.has_lease(now)

    @property
    def timestamp_limit(self) -> int:
        """The greatest hybrid time that the leader may assign or read at; 0 at other peers."""
        return self._leading.lease.timestamp_limit if self._leading is not None else 0

    @property
    def timestamp_floor(self) -> int:
        """Every timestamp that this leader assigns is above it."""
        return self._leading.timestamp_floor if self._leading is not None else 0

    def announce_safe_time(self, timestamp: int, index: int) -> None:
        """As leader, announces that the entries up to `index` contain every write at or below `timestamp`, now and in
        future. The next messages carry it to the followers, up to the majority's clock limit. Otherwise no effect."""
        if self._leading is not None:
            self._leading.announce_safe_time(timestamp, index)

    def peer_progress(self) -> Mapping[str, PeerProgress]:
        """As leader, returns the progress of the other peers by id, read-only. Otherwise empty."""
        return self._leading.progress if self._leading is not None else {}

    # ---- what a follower may do ------------------------------------------------------------------------------------

    @property
    def clock_limit(self) -> int:
        """The greatest hybrid time up to which this peer has allowed a leader to assign timestamps. It never falls. The
        driver keeps it over restarts, so it holds even if all voters restart at once."""
        return self._core.clock_limit

    @property
    def safe_time(self) -> int:
        """The safe time that a leader last announced, or this peer when it last led. `safe_index` is committed, and the
        entries up to it contain every write at or below this time, now and in future."""
        return self._following.safe_time

    @property
    def safe_index(self) -> int:
        return self._following.safe_index

    # ---- events ----------------------------------------------------------------------------------------------------

    def step(self, event: Event, now: float) -> Ready:
        """Processes an event.

        Parameters
        ----------
        now : float
            Read when the event was available, not before: promises to a leader start here.

        Raises
        ------
        NotTheLeader
            For Propose, ChangePeers, Transfer if another peer leads, or leadership is being transferred.
        ConfigurationRefused
            For ChangePeers and Transfer. After an error nothing has changed.
        """
        core = self._core
        core.now = now
        ready = core.ready = Ready()
        role, term, leader = core.role, core.term, core.leader
        was_serving = self._leading is not None and self._leading.is_serving
        _HANDLERS[type(event)](self, event)
        self._note_end_of_leadership()
        is_serving = self._leading is not None and self._leading.is_serving
        if core.role is not role or core.term != term or is_serving is not was_serving:
            ready.is_leader_changed = True
        elif core.leader is not leader:  # as a rule it is the same object
            ready.is_leader_changed = core.leader != leader
        return ready

    def _note_end_of_leadership(self) -> None:
        """Keeps the safe time of a leadership that has ended."""
        if self._leading is not None and self._core.role is not RaftRole.LEADER:
            self._following.have_led(*self._leading.lasting_safe_time())
            self._leading = None

    def _tick(self, event: Tick) -> None:
        if self._leading is not None:
            self._leading.tick()
        elif self._core.now >= self._core.election_at:
            self._campaign(event)

    def _campaign(self, event: Tick | Campaign) -> None:
        if isinstance(event, Campaign) and self._core.is_quiescing and not self._core.members.is_only_voter(self.id):
            return  # others campaign when they hear no leader
        if self._leading is None and self._election.campaign():
            self._lead()

    def _lead(self) -> None:
        """Becomes leader after a won election."""
        core = self._core
        core.role, core.leader, core.lost_elections = RaftRole.LEADER, core.peer(core.id), 0
        self._leading = Leading(core, self._election.clock_floor)

    def _propose(self, event: Propose) -> None:
        self._leadership().propose(event.entries)

    def _send(self, event: Send) -> None:
        if self._leading is not None:
            self._leading.send()

    def _change_peers(self, event: ChangePeers) -> None:
        self._leadership().change_peers(event.peers, event.expected_index)

    def _transfer(self, event: Transfer) -> None:
        self._leadership().transferring.begin(event.target)

    def _quiesce(self, event: Quiesce) -> None:
        core = self._core
        if core.is_quiescing == event.is_quiescing:
            return
        core.is_quiescing = event.is_quiescing
        if self._leading is not None:
            self._leading.transferring.begin_if_quiescing()
        elif core.role is RaftRole.CANDIDATE and core.is_quiescing:
            core.become_follower()
        else:
            core.wait_for_leader()

    def _leadership(self) -> Leading:
        if self._leading is not None:
            return self._leading
        leader = self._core.leader
        raise NotTheLeader(
            f"{self.id} is {self.role} in term {self.term}; the leader is {leader.id if leader else 'not known'}",
            leader.address if leader else "",
            self.term,
        )

    def _renew(self, event: Renew) -> None:
        if self._leading is not None:
            self._leading.renew()

    def _persisted(self, event: Persisted) -> None:
        core = self._core
        if event.index <= core.durable_index or core.log.term(event.index) != event.term:
            return
        core.durable_index = event.index
        if self._leading is not None:
            self._leading.count_entries()
        else:
            self._following.persisted()

    # ---- messages --------------------------------------------------------------------------------------------------

    def _received(self, event: Received) -> None:
        message = event.message
        if message.sender == self.id or not 0 <= message.term < MAX_TERM:
            self._core.ready.ignored = f"a message of {message.sender} in term {message.term}, to {self.id}"
            return
        self._core.stranger = event.sender
        _MESSAGE_HANDLERS[type(message)](self, message)

    def _append_request(self, request: AppendRequest) -> None:
        core = self._core
        if request.term < core.term:
            answer = AppendResponse(core.id, core.term, request.round, False, core.commit_index)
            core.send(core.peer(request.sender), answer)
            return
        if request.term > core.term:
            core.enter_term(request.term)
            self._note_end_of_leadership()  # before the new leader changes the log
        elif core.leader is not None and core.leader.id != request.sender:
            core.ready.ignored = f"{request.sender} claims to lead term {core.term}, which {core.leader.id} leads"
            return
        self._following.on_append(request)

    def _append_response(self, response: AppendResponse) -> None:
        core = self._core
        if self._leading is None or (response.term < core.term and not response.is_missing):
            return
        if response.term > core.term:
            if core.members.current.peer(response.sender) is not None:
                core.enter_term(response.term)
            return
        self._leading.on_response(response)

    def _vote_request(self, request: VoteRequest) -> None:
        self._election.on_request(request)

    def _vote_response(self, response: VoteResponse) -> None:
        if self._election.on_response(response):
            self._lead()

    def _transfer_request(self, request: TransferRequest) -> None:
        core = self._core
        if request.term == core.term and self.leader == request.sender and self._election.campaign_for_transfer():
            self._lead()


_HANDLERS: Mapping[type[Event], Callable[..., None]] = {
    Tick: RaftNode._tick,
    Received: RaftNode._received,
    Propose: RaftNode._propose,
    Send: RaftNode._send,
    Persisted: RaftNode._persisted,
    ChangePeers: RaftNode._change_peers,
    Transfer: RaftNode._transfer,
    Campaign: RaftNode._campaign,
    Renew: RaftNode._renew,
    Quiesce: RaftNode._quiesce,
}

_MESSAGE_HANDLERS: Mapping[type, Callable[..., None]] = {
    AppendRequest: RaftNode._append_request,
    AppendResponse: RaftNode._append_response,
    VoteRequest: RaftNode._vote_request,
    VoteResponse: RaftNode._vote_response,
    TransferRequest: RaftNode._transfer_request,
}
