"""Messages between Raft peers, and the entries of a replica's log.

Sources: Ongaro, "Consensus: Bridging Theory and Practice" (2014), chapters 3 (basic algorithm), 4 (membership, one
server at a time), 6.4 (reads under a lease), 9.6 (pre-vote); Kudu paper, section 3.2, for pipelining, learners and the
jump back to the committed index.

All are msgspec structs: they are sent as msgpack arrays and checked as they are decoded.
"""

from __future__ import annotations

import enum
from typing import TypeAlias

from msgspec import Struct


class PeerRole(enum.IntEnum):
    """The role of a peer in the configuration. VOTER counts in majorities. PRE_VOTER receives the log without a vote,
    and the leader promotes it to VOTER once it has caught up."""

    VOTER = 1
    PRE_VOTER = 2


class Peer(Struct, frozen=True, array_like=True):
    """A replica of a tablet: the id of its server, the address at which that listens ("host:port"), and its role."""

    id: str
    address: str
    role: PeerRole = PeerRole.VOTER


class Configuration(Struct, frozen=True, array_like=True):
    """The replicas of a tablet. `index` is the log index of the entry that made it so; 0: unchanged since the tablet's
    creation."""

    peers: tuple[Peer, ...]
    index: int = 0

    def peer(self, id: str) -> Peer | None:
        """Returns the peer on a server; None if there is none."""
        return next((peer for peer in self.peers if peer.id == id), None)

    @property
    def voters(self) -> tuple[Peer, ...]:
        return tuple(peer for peer in self.peers if peer.role is PeerRole.VOTER)

    @property
    def majority(self) -> int:
        """Number of voters that decide."""
        return len(self.voters) // 2 + 1


class Entry(Struct, frozen=True, array_like=True, gc=False):
    """An entry of the replicated log; `kind` is an `EntryKind` of the write-ahead log, `timestamp` hybrid time."""

    term: int
    index: int
    timestamp: int
    kind: int
    body: bytes


class HardState(Struct, frozen=True, array_like=True):
    """State that a peer must keep over restarts: its term, and the candidate that it voted for in it ("": none)."""

    term: int = 0
    vote: str = ""


class VoteRequest(Struct, frozen=True, array_like=True, tag=1):
    """Requests a vote in `term`. With `pre`, a pre-vote: `term` is then that of the future election. `transfer`: the
    previous term's leader requested this election, so its lease does not prevent votes."""

    sender: str
    term: int
    last_term: int
    last_index: int
    pre: bool = False
    transfer: bool = False


class VoteResponse(Struct, frozen=True, array_like=True, tag=2):
    """`term` is the voter's own, or the request's if the vote is granted. `clock_limit` is the greatest hybrid time up
    to which the voter has allowed earlier leaders to assign timestamps: the new leader starts above it."""

    sender: str
    term: int
    granted: bool
    pre: bool = False
    clock_limit: int = 0


class AppendRequest(Struct, frozen=True, array_like=True, tag=3):
    """Entries after (`previous_term`, `previous_index`); with no entries, a heartbeat.

    `round` counts the leader's rounds; a response repeats it, and renews the lease from the round's beginning.
    `clock_limit`: the leader assigns and serves no timestamp above it before a majority has heard it. `safe_time`: the
    entries up to `safe_index` contain every write at or below this time, now and in future.
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
    """`accepted`: the log matches the leader's up to `match_index`, and is durable up to there.

    Otherwise `match_index` is the peer's commit index, from which the leader resumes. `is_missing`: the server has no
    data of the tablet, and requests a copy (`round` is then the request's, or 0). `is_full`: its disk is full, so it
    cannot make entries durable. `is_quiescing`: its server is quiescing, so leadership is not transferred to it.
    """

    sender: str
    term: int
    round: int
    accepted: bool
    match_index: int
    is_missing: bool = False
    is_full: bool = False
    is_quiescing: bool = False


class TransferRequest(Struct, frozen=True, array_like=True, tag=5):
    """The leader of `term` requests that the receiver campaigns at once."""

    sender: str
    term: int


Message: TypeAlias = VoteRequest | VoteResponse | AppendRequest | AppendResponse | TransferRequest
