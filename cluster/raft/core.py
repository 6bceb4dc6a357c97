"""State of a peer in every role; `election`, `following` and `leading` change it.

The results of one step are collected here: all work for the driver is written into `Core.ready`.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

from .events import Log, RaftRole, Ready
from .membership import CONFIGURATION, Membership, decode_configuration
from .messages import Configuration, Entry, HardState, Message, Peer
from .options import RaftOptions
from .progress import NEVER

FOREVER = float("inf")
QUIET_FACTOR = 8
"""A quiescing voter waits this number of times as long for a leader before it campaigns: 12 to 24 s by default."""


class Core:
    """State of one peer.

    Attributes
    ----------
    term, vote : int, str
        As in `HardState`; changed only by `enter_term` and `give_vote`, which also put them into `ready` to be made
        durable.
    leader : Peer or None
        The leader of the term, if known.
    commit_index : int
        Entries up to this index are committed, and are never truncated.
    durable_index : int
        Entries up to this index are on this peer's disk.
    clock_limit : int
        The greatest hybrid time up to which this peer has allowed any leader to assign timestamps.
    promised_until : float
        Until then this peer votes for no other leader: it has heard from one, or may have before a restart.
    is_quiescing : bool
        This peer leaves leadership to others (`transfer`).
    election_at : float
        When this peer campaigns unless it hears from a leader; `FOREVER` for a leader and for a peer without a vote.
    """

    __slots__ = (
        "_patience",
        "clock_limit",
        "commit_index",
        "durable_index",
        "election_at",
        "hybrid",
        "id",
        "is_quiescing",
        "leader",
        "log",
        "lost_elections",
        "members",
        "now",
        "options",
        "promised_until",
        "random",
        "ready",
        "role",
        "stranger",
        "term",
        "vote",
        "wall",
    )

    def __init__(
        self,
        id: str,
        log: Log,
        hard_state: HardState,
        configurations: Sequence[Configuration],
        options: RaftOptions,
        commit_index: int,
        now: float,
        random: random.Random,
        hybrid: Callable[[], int],
        wall: Callable[[], int] | None = None,
    ):
        self.id = id
        self.log = log
        self.term = hard_state.term
        self.vote = hard_state.vote
        self.options = options
        self.random = random
        self.hybrid = hybrid
        self.wall = wall or hybrid
        self.members = Membership(configurations)
        self.leader: Peer | None = None
        self.commit_index = max(log.base_index, min(commit_index, log.last_index))
        self.members.commit(self.commit_index)
        self.durable_index = log.last_index
        self.clock_limit = 0
        self.promised_until = NEVER
        self.lost_elections = 0
        self.is_quiescing = False
        self.stranger: Peer | None = None
        """The sender of the message at hand, if the driver has it."""
        self.now = now
        self.ready = Ready()
        self.role = self._resting_role()
        self._patience = self._draw_patience()
        self.wait_for_leader()

    # ---- roles -----------------------------------------------------------------------------------------------------

    @property
    def is_voter(self) -> bool:
        return self.id in self.members.voters

    def _resting_role(self) -> RaftRole:
        return RaftRole.FOLLOWER if self.is_voter else RaftRole.LEARNER

    def become_follower(self, leader: Peer | None = None) -> None:
        """Becomes neither leader nor candidate."""
        self.role = self._resting_role()
        self.leader = leader
        self._patience = self._draw_patience()
        self.wait_for_leader()

    def hear_leader(self, leader: Peer) -> None:
        """Records a message of the term's leader: promises it to wait for its next one, and to vote for no other
        peer."""
        if self.leader is None or self.role is RaftRole.CANDIDATE:
            self.lost_elections = 0
            self.become_follower(leader)
        self.leader = leader
        self.promised_until = self.now + self.options.election_timeout
        self.wait_for_leader()

    def _draw_patience(self) -> float:
        return self.options.election_timeout * (1 + self.random.random())

    def wait_for_leader(self, is_quiet: bool = True) -> None:
        """Restarts the election timer: once to twice the election timeout; `QUIET_FACTOR` times as long for a quiescing
        voter, if `is_quiet`. The only voter does not wait."""
        if self.role is RaftRole.LEARNER:
            self.election_at = FOREVER
        elif self.members.is_only_voter(self.id):
            self.election_at = self.now
        else:
            self.election_at = self.now + self._patience * (QUIET_FACTOR if is_quiet and self.is_quiescing else 1)

    # ---- term and vote ---------------------------------------------------------------------------------------------

    def enter_term(self, term: int, vote: str = "") -> None:
        """Moves to a later term, whose leader is not known yet."""
        assert term > self.term, f"from term {self.term} back to {term}"
        self.term = term
        self.give_vote(vote)
        self.become_follower()

    def give_vote(self, vote: str) -> None:
        self.vote = vote
        self.ready.hard_state = HardState(self.term, vote)

    # ---- peers -----------------------------------------------------------------------------------------------------

    def peer(self, id: str) -> Peer:
        """Returns a peer with its last known address."""
        if (peer := self.members.peer(id)) is not None:
            return peer
        if self.stranger is not None and self.stranger.id == id:
            return self.stranger
        return Peer(id, "")

    def send(self, peer: Peer, message: Message) -> None:
        self.ready.messages.append((peer, message))

    # ---- the log ---------------------------------------------------------------------------------------------------

    @property
    def last_term(self) -> int:
        term = self.log.term(self.log.last_index)
        assert term is not None, "the log does not know the term of its last entry"
        return term

    def append(self, entries: Sequence[Entry]) -> None:
        """Appends to the log; configurations among the entries are in force at once."""
        self.log.append(entries)
        for entry in entries:
            if entry.kind == CONFIGURATION:
                self.members.add(decode_configuration(entry.body, entry.index))
                self._configuration_changed()

    def truncate(self, last_index: int) -> None:
        """Truncates the log after `last_index`."""
        assert last_index >= self.commit_index, f"entry {last_index + 1} is committed (up to {self.commit_index})"
        self.log.truncate(last_index)
        self.durable_index = min(self.durable_index, last_index)
        self.ready.truncated_to = last_index
        if self.members.truncate(last_index):
            self._configuration_changed()

    def _configuration_changed(self) -> None:
        self.ready.configuration = self.members.current
        if self.role in (RaftRole.FOLLOWER, RaftRole.LEARNER) and self.role is not self._resting_role():
            self.role = self._resting_role()
            self.wait_for_leader()

    def commit(self, index: int) -> None:
        """Marks the entries up to `index` as committed."""
        self.commit_index = self.ready.commit_index = index
        self.members.commit(index)
