"""What goes into a `RaftNode` and what comes out of it; the node itself touches no clock, disk or socket.

    Tick, Received, Propose, Persisted, ... ─► RaftNode.step(event, now) ─► Ready

The driver deals with a `Ready` in the order of its fields; that order is what durability rests on:

1. `hard_state` is made durable before anything else of the Ready is sent.
2. The log has been changed already, in memory (`Log.append`, `Log.truncate`). The driver syncs it when it likes, and
   says so by `Persisted`: only then does the node count its own entry, or acknowledge one of the leader's.
3. `messages` are sent. A leader's go out beside its own disk's work: a majority of others is enough.
4. `commit_index` has grown: entries up to it are applied, in order.
5. The rest is news: role, leader, configuration, peers that need a copy of the data.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import Protocol, TypeAlias

from msgspec import Struct

from .messages import Configuration, Entry, HardState, Message, Peer


class RaftRole(enum.StrEnum):
    """What a peer is in its term. A learner is a PRE_VOTER, or a server that the configuration does not name."""

    FOLLOWER = "FOLLOWER"
    CANDIDATE = "CANDIDATE"
    LEADER = "LEADER"
    LEARNER = "LEARNER"


class Log(Protocol):
    """The replicated log as a node sees it: in memory at once, durable when the driver says so.

    Indexes have no gaps. Entries up to `base_index` are gone (they are in files); of the last of them the term is
    known.
    """

    @property
    def base_index(self) -> int: ...

    @property
    def last_index(self) -> int: ...

    def term(self, index: int) -> int | None:
        """The term of an entry, `base_index` included; 0 for index 0, None where it is not there (any more)."""

    def entries(self, first: int, last: int, max_bytes: int) -> Sequence[Entry]:
        """Entries `first` to `last`, both inclusive; at least one, then as many as `max_bytes` of bodies hold. May be
        fewer."""

    def append(self, entries: Sequence[Entry]) -> None:
        """Entries behind the last one."""

    def truncate(self, last_index: int) -> None:
        """Forget the entries behind `last_index`."""


# ---- events -------------------------------------------------------------------------------------------------------


class Tick(Struct, frozen=True):
    """Time has passed; due at `RaftNode.deadline`."""


class Received(Struct, frozen=True):
    """A message of a peer has come. `sender`, where the driver knows it, tells the address of one that the
    configuration does not name."""

    message: Message
    sender: Peer | None = None


class Propose(Struct, frozen=True):
    """Append entries to the log of the leader: (timestamp, kind, body) each. `NotTheLeader` where it is none."""

    entries: tuple[tuple[int, int, bytes], ...]


class Send(Struct, frozen=True):
    """As leader, send the peers what they lack. Otherwise nothing."""


class Persisted(Struct, frozen=True):
    """The log is durable up to entry `index`, which is of `term`: where it has another by now, this is old news. A sync
    that was begun before the last `Log.truncate` is not told."""

    index: int
    term: int


class ChangePeers(Struct, frozen=True):
    """Replace the configuration by one that differs in one peer: added as PRE_VOTER or VOTER, promoted, or removed.
    `expected_index`, where given, is that of the configuration that it replaces. `ConfigurationRefused` where it cannot
    be: another change is not committed yet, it differs in more, or would remove the leader itself."""

    peers: tuple[Peer, ...]
    expected_index: int | None = None


class Transfer(Struct, frozen=True):
    """Hand leadership to a voter (None: the one that is furthest)."""

    target: str | None = None


class Campaign(Struct, frozen=True):
    """Start an election now, without waiting: for the first leader of a new tablet."""


class Renew(Struct, frozen=True):
    """As leader, begin a round now instead of at the next heartbeat: for a lease or a clock limit that has run out, or
    to tell followers of a commit or a safe time at once. Otherwise nothing."""


Event: TypeAlias = Tick | Received | Propose | Send | Persisted | ChangePeers | Transfer | Campaign | Renew


# ---- results ------------------------------------------------------------------------------------------------------


class Ready(Struct):
    """What the driver must do now; see the module's page for the order."""

    hard_state: HardState | None = None
    truncated_to: int | None = None
    """The log was cut: entries behind this index are void, whatever waits for them has failed. New ones may follow."""
    messages: list[tuple[Peer, Message]] = []
    """Where a peer's address is "", no configuration tells it: the driver knows it from what that server has sent."""
    commit_index: int | None = None
    is_leader_changed: bool = False
    """Role, term or leader are others than before (`RaftNode.role`, `term`, `leader`), or the leader has become able to
    serve (`RaftNode.is_serving`)."""
    configuration: Configuration | None = None
    """The configuration in force (the log's newest, committed or not) is another."""
    bootstraps: list[Peer] = []
    """Peers that need what the log has no more: they are to copy this replica's data. Repeated, at most once per
    election timeout, until the peer answers from within the log."""
    silent: list[Peer] = []
    """Voters that the leader has not heard of for `RaftOptions.eviction_timeout`; told once per silence."""
    is_held: bool = False
    """Entries are held back (`RaftOptions.gathers`): step `Send` in a moment."""
    clock_floor: int | None = None
    """The peer has become leader: before it proposes anything, its clock must be above this (`HybridClock.update`)."""
    ignored: str = ""
    """Why the message of a peer was disregarded: it was nonsense, from a faulty peer or of another version."""
