"""Input and output of a `RaftNode`; the node itself uses no clock, disk or socket.

Tick, Received, Propose, Persisted, ... ─► RaftNode.step(event, now) ─► Ready

The driver processes a `Ready` in the order of its fields; durability depends on that order:

1. `hard_state` is made durable before anything else of the Ready is sent.
2. The log is already changed in memory (`Log.append`, `Log.truncate`). The driver syncs it at any time and reports
   that by `Persisted`: only then does the node count its own entry, or acknowledge one of the leader's.
3. `messages` are sent. A leader sends them while its own disk works: a majority of the others is enough.
4. `commit_index` has grown: entries up to it are applied, in order.
5. The remaining fields are notifications: role, leader, configuration, peers that need a copy of the data.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import Protocol, TypeAlias

from msgspec import Struct

from .messages import Configuration, Entry, HardState, Message, Peer


class RaftRole(enum.StrEnum):
    """The role of a peer in its term. A learner is a PRE_VOTER, or a server outside the configuration."""

    FOLLOWER = "FOLLOWER"
    CANDIDATE = "CANDIDATE"
    LEADER = "LEADER"
    LEARNER = "LEARNER"


class Log(Protocol):
    """The replicated log as a node sees it: changed in memory at once, durable when the driver reports it.

    Indexes have no gaps. Entries up to `base_index` were removed (their effects are in files); the term of the last of
    them is known.
    """

    @property
    def base_index(self) -> int: ...

    @property
    def last_index(self) -> int: ...

    def term(self, index: int) -> int | None:
        """Returns the term of an entry, also of `base_index`; 0 for index 0, None for an index that the log does not
        have."""

    def entries(self, first: int, last: int, max_bytes: int) -> Sequence[Entry]:
        """Returns entries `first` to `last`, both inclusive: at least one, then as many as `max_bytes` of bodies hold.
        May return fewer."""

    def append(self, entries: Sequence[Entry]) -> None:
        """Appends entries after the last one."""

    def truncate(self, last_index: int) -> None:
        """Removes the entries after `last_index`."""


# ---- events -------------------------------------------------------------------------------------------------------


class Tick(Struct, frozen=True):
    """Time has passed; due at `RaftNode.deadline`."""


class Received(Struct, frozen=True):
    """A message of a peer has arrived. `sender`, if the driver knows it, has the address of a peer outside the
    configuration."""

    message: Message
    sender: Peer | None = None


class Propose(Struct, frozen=True):
    """Append entries to the leader's log: (timestamp, kind, body) each. Raises `NotTheLeader` at other peers."""

    entries: tuple[tuple[int, int, bytes], ...]


class Send(Struct, frozen=True):
    """As leader, send the peers their missing entries. Otherwise no effect."""


class Persisted(Struct, frozen=True):
    """The log is durable up to entry `index` of `term`; ignored if the log now has another term there. A sync that
    began before the last `Log.truncate` is not reported."""

    index: int
    term: int


class ChangePeers(Struct, frozen=True):
    """Replace the configuration by one that differs in one peer: added as PRE_VOTER or VOTER, promoted, or removed.
    `expected_index`, if given, is the index of the configuration to replace. Raises `ConfigurationRefused` while
    another change is uncommitted, for more than one difference, and for the removal of the leader itself."""

    peers: tuple[Peer, ...]
    expected_index: int | None = None


class Transfer(Struct, frozen=True):
    """Transfer leadership to a voter (None: the most up-to-date one)."""

    target: str | None = None


class Campaign(Struct, frozen=True):
    """Start an election at once: for the first leader of a new tablet."""


class Renew(Struct, frozen=True):
    """As leader, begin a round now instead of at the next heartbeat: after a lease or a clock limit has run out, or to
    send a commit index or a safe time to followers at once. Otherwise no effect."""


class Quiesce(Struct, frozen=True):
    """Leave leadership to other peers (`is_quiescing`), or take part in elections again; see `transfer`."""

    is_quiescing: bool


Event: TypeAlias = Tick | Received | Propose | Send | Persisted | ChangePeers | Transfer | Campaign | Renew | Quiesce


# ---- results ------------------------------------------------------------------------------------------------------


class Ready(Struct):
    """Work for the driver; see the module's page for the order."""

    hard_state: HardState | None = None
    truncated_to: int | None = None
    """The log was truncated: entries after this index are void, and callers that wait for them fail. New ones may
    follow."""
    messages: list[tuple[Peer, Message]] = []
    """A peer's address is "" if no configuration has it: the driver then uses the address that the server itself has
    sent."""
    commit_index: int | None = None
    is_leader_changed: bool = False
    """The role, term or leader has changed (`RaftNode.role`, `term`, `leader`), or the leader has become able to serve
    (`RaftNode.is_serving`)."""
    configuration: Configuration | None = None
    """The configuration in force (the log's newest, committed or not) has changed."""
    bootstraps: list[Peer] = []
    """Peers that need entries that the log no longer has: they must copy this replica's data. Repeated at most once per
    election timeout, until the peer responds with an index within the log."""
    silent: list[Peer] = []
    """Voters that the leader has not heard from for `RaftOptions.eviction_timeout`; reported once per silence."""
    is_held: bool = False
    """Entries are held back (`RaftOptions.gathers`): the driver steps `Send` soon."""
    clock_floor: int | None = None
    """The peer has become leader: its clock must be moved above this before its first proposal
    (`HybridClock.update`)."""
    ignored: str = ""
    """The reason for which a peer's message was ignored: it was invalid, from a faulty peer or another version."""
