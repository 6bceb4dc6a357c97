"""What Raft peers tell each other, and what a replica's log is made of.

Sources: Ongaro, "Consensus: Bridging Theory and Practice" (2014), chapters 3 (basic algorithm), 4 (membership, one
server at a time), 6.4 (reads under a lease), 9.6 (pre-vote); Kudu paper, section 3.2, for pipelining, learners and the
jump back to the committed index.

All are msgspec structs, so they travel as msgpack arrays and are checked as they are decoded.
"""

from __future__ import annotations

import enum
from typing import TypeAlias

from msgspec import Struct


class PeerRole(enum.IntEnum):
    """VOTER counts in majorities. PRE_VOTER receives the log, has no vote, and is made a VOTER by the leader once it
    has caught up."""

    VOTER = 1
    PRE_VOTER = 2


class Peer(Struct, frozen=True, array_like=True):
    """A replica of a tablet: the id of its server, where that listens ("host:port"), and its role."""

    id: str
    address: str
    role: PeerRole = PeerRole.VOTER


class Configuration(Struct, frozen=True, array_like=True):
    """The replicas of a tablet. `index` is that of the log entry that made it so; 0: since the tablet was made."""

    peers: tuple[Peer, ...]
    index: int = 0

    def peer(self, id: str) -> Peer | None:
        """The peer on a server; None where there is none."""
        return next((peer for peer in self.peers if peer.id == id), None)

    @property
    def voters(self) -> tuple[Peer, ...]:
        return tuple(peer for peer in self.peers if peer.role is PeerRole.VOTER)

    @property
    def majority(self) -> int:
        """How many voters decide."""
        return len(self.voters) // 2 + 1


class Entry(Struct, frozen=True, array_like=True, gc=False):
    """One entry of the replicated log; `kind` is an `EntryKind` of the write-ahead log, `timestamp` hybrid time."""

    term: int
    index: int
    timestamp: int
    kind: int
    body: bytes


class HardState(Struct, frozen=True, array_like=True):
    """What a peer must not forget: its term, and whom it gave its vote in it ("" for nobody)."""

    term: int = 0
    vote: str = ""


class VoteRequest(Struct, frozen=True, array_like=True, tag=1):
    """Asks for a vote in `term`; `pre`: asks only whether it would be given, and `term` is that of the election to be.
    `transfer`: the leader of the term before asked for this election, so its promise of a lease holds nobody back."""

    sender: str
    term: int
    last_term: int
    last_index: int
    pre: bool = False
    transfer: bool = False


class VoteResponse(Struct, frozen=True, array_like=True, tag=2):
    """`term` is the voter's own, or for a vote that is given that of the request. `clock_limit` is the greatest hybrid
    time up to which the voter lets an earlier leader give out timestamps: the new one starts above it."""

    sender: str
    term: int
    granted: bool
    pre: bool = False
    clock_limit: int = 0


class AppendRequest(Struct, frozen=True, array_like=True, tag=3):
    """Entries behind (`previous_term`, `previous_index`); none: a heartbeat.

    `round` counts the leader's rounds; an answer names it, and renews the lease from when that round was begun.
    `clock_limit`: the leader gives out and serves no timestamp above it before a majority has heard of it.
    `safe_time`: with all entries up to `safe_index`, a reader has every write at or below this time, for ever.
    """

    sender: str
    term: int
    round: int
    previous_term: int
    previous_index: int
    commit_index: int
    entries: tuple[Entry, ...] = ()
    clock_limit: int = 0
    safe_time: int = 0
    safe_index: int = 0


class AppendResponse(Struct, frozen=True, array_like=True, tag=4):
    """`accepted`: the log agrees with the leader's up to `match_index`, and is durable up to there. Otherwise
    `match_index` is the peer's committed index, from where the leader goes on; `is_missing`: the server has no data of
    the tablet, and wants a copy (`round` as in the request, then, or 0). `is_full`: its disk is full, so that it cannot
    make entries durable."""

    sender: str
    term: int
    round: int
    accepted: bool
    match_index: int
    is_missing: bool = False
    is_full: bool = False


class TransferRequest(Struct, frozen=True, array_like=True, tag=5):
    """The leader of `term` wants the receiver to be elected now."""

    sender: str
    term: int


Message: TypeAlias = VoteRequest | VoteResponse | AppendRequest | AppendResponse | TransferRequest
