"""What a peer is and knows, whatever its role; `election`, `following` and `leading` change it.

It is also where one step's results are collected: everything that the driver must do is written into `Core.ready`.
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


class Core:
    """One peer's state.

    Attributes
    ----------
    term, vote : int, str
        As in `HardState`; changed by `enter_term` and `give_vote` alone, which also hand them out to be made durable.
    leader : Peer or None
        The leader of the term, as far as known.
    commit_index : int
        Entries up to here are committed, and are never cut off.
    durable_index : int
        Entries up to here are on our own disk.
    clock_limit : int
        The greatest hybrid time up to which we have let some leader give out timestamps.
    promised_until : float
        Until then no other leader is voted for: one has been heard of, or may have been before the restart.
    election_at : float
        When we campaign, unless a leader is heard; `FOREVER` where we have no vote or lead ourselves.
    """

    __slots__ = (
        "_patience",
        "clock_limit",
        "commit_index",
        "durable_index",
        "election_at",
        "hybrid",
        "id",
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
        self.stranger: Peer | None = None
        """The sender of the message at hand, if the driver told us."""
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

    def rest(self, leader: Peer | None = None) -> None:
        """Be neither leader nor candidate."""
        self.role = self._resting_role()
        self.leader = leader
        self._patience = self._draw_patience()
        self.wait_for_leader()

    def hear_leader(self, leader: Peer) -> None:
        """A message of the term's leader has come: promise it our patience, and nobody else our vote."""
        if self.leader is None or self.role is RaftRole.CANDIDATE:
            self.lost_elections = 0
            self.rest(leader)
        self.leader = leader
        self.promised_until = self.now + self.options.election_timeout
        self.wait_for_leader()

    def _draw_patience(self) -> float:
        return self.options.election_timeout * (1 + self.random.random())

    def wait_for_leader(self) -> None:
        """From now on, wait once to twice the election timeout; the only voter waits for nobody."""
        if self.role is RaftRole.LEARNER:
            self.election_at = FOREVER
        elif self.members.is_only_voter(self.id):
            self.election_at = self.now
        else:
            self.election_at = self.now + self._patience

    # ---- term and vote ---------------------------------------------------------------------------------------------

    def enter_term(self, term: int, vote: str = "") -> None:
        """Go on to a later term; nobody leads it yet."""
        assert term > self.term, f"from term {self.term} back to {term}"
        self.term = term
        self.give_vote(vote)
        self.rest()

    def give_vote(self, vote: str) -> None:
        self.vote = vote
        self.ready.hard_state = HardState(self.term, vote)

    # ---- peers -----------------------------------------------------------------------------------------------------

    def peer(self, id: str) -> Peer:
        """A peer with its address, as far as anybody has told."""
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
        """Append to the log; configurations among the entries are in force at once."""
        self.log.append(entries)
        for entry in entries:
            if entry.kind == CONFIGURATION:
                self.members.add(decode_configuration(entry.body, entry.index))
                self._configuration_changed()

    def truncate(self, last_index: int) -> None:
        """Cut the log behind `last_index`."""
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
        """Entries up to `index` are committed."""
        self.commit_index = self.ready.commit_index = index
        self.members.commit(index)
