"""A log in memory, and a few Raft peers on one manual clock, whose messages and disks a test moves by hand."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

from nyala.cluster.raft.events import (
    Campaign,
    Event,
    Persisted,
    Propose,
    RaftRole,
    Ready,
    Received,
    Tick,
)
from nyala.cluster.raft.messages import AppendResponse, Configuration, Entry, HardState, Message, Peer, PeerRole
from nyala.cluster.raft.node import RaftNode, RaftOptions

WRITE = 1
OPTIONS = RaftOptions()


class MemoryLog:
    """As a node sees its log: entries behind `base_index`, whose term is `base_term`."""

    def __init__(self, entries: Sequence[Entry] = (), base_index: int = 0, base_term: int = 0):
        self.base_index, self.base_term = base_index, base_term
        self.stored = list(entries)

    @property
    def last_index(self) -> int:
        return self.base_index + len(self.stored)

    def term(self, index: int) -> int | None:
        if index == self.base_index:
            return self.base_term
        return self.stored[index - self.base_index - 1].term if self.base_index < index <= self.last_index else None

    def entries(self, first: int, last: int, max_bytes: int) -> list[Entry]:
        assert self.base_index < first <= last <= self.last_index
        found = self.stored[first - self.base_index - 1 : last - self.base_index]
        size, count = 0, 0
        for entry in found:
            size += len(entry.body)
            if count and size > max_bytes:
                break
            count += 1
        return found[:count]

    def append(self, entries: Sequence[Entry]) -> None:
        assert [e.index for e in entries] == list(range(self.last_index + 1, self.last_index + 1 + len(entries)))
        self.stored.extend(entries)

    def truncate(self, last_index: int) -> None:
        assert self.base_index <= last_index
        del self.stored[last_index - self.base_index :]

    def remove_through(self, index: int) -> None:
        """Forget the entries up to `index`."""
        self.base_term, self.stored = self.term(index) or 0, self.stored[index - self.base_index :]
        self.base_index = index


def peers(names: str) -> tuple[Peer, ...]:
    """One peer per letter: capitals are voters, small letters PRE_VOTERs (of the same server's name in capitals)."""
    return tuple(
        Peer(name.upper(), f"{name.upper()}:1", PeerRole.VOTER if name.isupper() else PeerRole.PRE_VOTER)
        for name in names
    )


def log_of(terms: Sequence[int], base_index: int = 0, base_term: int = 0) -> MemoryLog:
    """A log whose entries have these terms."""
    entries = [Entry(term, base_index + n, n, WRITE, b"") for n, term in enumerate(terms, 1)]
    return MemoryLog(entries, base_index, base_term)


def make_node(
    id: str = "A",
    names: str = "ABC",
    index: int = 0,
    *,
    log: MemoryLog | None = None,
    term: int = 0,
    vote: str = "",
    now: float = 0.0,
    hybrid: Callable[[], int] = lambda: 1000,
    options: RaftOptions = OPTIONS,
    is_new: bool = True,
    clock_limit: int = 0,
    **more: object,
) -> RaftNode:
    """One node by itself; its random numbers begin the same way each time."""
    return RaftNode(
        id,
        log if log is not None else MemoryLog(),
        HardState(term, vote),
        Configuration(peers(names), index),
        options,
        now=now,
        random=random.Random(7),
        hybrid=hybrid,
        is_new=is_new,
        clock_limit=clock_limit,
        **more,  # type: ignore[arg-type]
    )


def messages(ready: Ready, kind: type[Message] | None = None) -> list[Message]:
    """Returns the sent messages, of one kind or all."""
    return [message for _, message in ready.messages if kind is None or isinstance(message, kind)]


class Group:
    """Peers A, B, ... whose messages are delivered, and whose disks sync, when a test says so.

    Attributes
    ----------
    nodes : dict of str to RaftNode
    applied : dict of str to list of Entry
        What each has committed, in order.
    cut : set of str
        Servers that no message reaches or leaves.
    slow : set of str
        Servers whose disk does not sync.
    """

    def __init__(self, names: str = "ABC", *, options: RaftOptions = OPTIONS, is_new: bool = True):
        self.now, self.hybrid_time = 100.0, 1_000_000
        self.options = options
        self.nodes: dict[str, RaftNode] = {}
        self.logs: dict[str, MemoryLog] = {}
        self.applied: dict[str, list[Entry]] = {}
        self.wire: list[tuple[str, Message]] = []
        self.readies: dict[str, list[Ready]] = {}
        self.cut: set[str] = set()
        self.slow: set[str] = set()
        for peer in peers(names):
            self.start(peer.id, Configuration(peers(names)), is_new=is_new)

    def start(self, id: str, configuration: Configuration, *, is_new: bool = False) -> RaftNode:
        """Start a peer, on what is left of its log and state from before."""
        old = self.nodes.get(id)
        self.logs.setdefault(id, MemoryLog())
        self.nodes[id] = RaftNode(
            id,
            self.logs[id],
            old.hard_state if old else HardState(),
            configuration,
            self.options,
            now=self.now,
            random=random.Random(id),
            hybrid=self.hybrid,
            clock_limit=old.clock_limit if old else 0,
            is_new=is_new,
        )
        self.applied[id], self.readies[id] = [], []
        return self.nodes[id]

    def hybrid(self) -> int:
        self.hybrid_time += 1
        return self.hybrid_time

    def step(self, id: str, event: Event) -> Ready:
        """One event for one peer; its messages go on the wire."""
        node, log = self.nodes[id], self.logs[id]
        ready = node.step(event, self.now)
        self.readies[id].append(ready)
        if ready.clock_floor is not None:
            self.hybrid_time = max(self.hybrid_time, ready.clock_floor)
        self.wire += [(peer.id, message) for peer, message in ready.messages if id not in self.cut]
        if ready.commit_index is not None:
            done = len(self.applied[id])
            self.applied[id] += log.stored[done : ready.commit_index - log.base_index]
        return ready

    def sync(self, id: str) -> None:
        """The disk of a peer catches up with its log."""
        log = self.logs[id]
        if self.nodes[id].durable_index < log.last_index:
            term = log.term(log.last_index)
            assert term is not None
            self.step(id, Persisted(log.last_index, term))

    def settle(self) -> None:
        """Deliver messages and sync disks until nothing is left to do."""
        while True:
            for id in self.nodes:
                if id not in self.slow:
                    self.sync(id)
            if not self.wire:
                return
            wire, self.wire = self.wire, []
            for id, message in wire:
                if id in self.nodes and id not in self.cut:
                    self.step(id, Received(message))

    def elect(self, id: str = "A") -> RaftNode:
        """Make a peer of a new tablet its leader."""
        self.step(id, Campaign())
        self.settle()
        assert self.nodes[id].role is RaftRole.LEADER
        return self.nodes[id]

    def propose(self, id: str, *bodies: bytes) -> Ready:
        return self.step(id, Propose(tuple((self.hybrid(), WRITE, body) for body in bodies)))

    def run(self, seconds: float, *, settle: bool = True) -> None:
        """Let time pass: each Tick when it is due."""
        end = self.now + seconds
        while True:
            due = {id: node.deadline for id, node in self.nodes.items() if node.deadline <= end}
            if not due:
                break
            self.now = max(self.now, min(due.values()))
            for id in due:
                if self.nodes[id].deadline <= self.now:
                    self.step(id, Tick())
            if settle:
                self.settle()
        self.now = end

    @property
    def leaders(self) -> list[str]:
        return [id for id, node in self.nodes.items() if node.role is RaftRole.LEADER]

    def bodies(self, id: str) -> list[bytes]:
        """The bodies of what a peer has committed, without those of no-operations and configurations."""
        return [entry.body for entry in self.applied[id] if entry.kind == WRITE]


def missing(id: str, term: int, round: int) -> Received:
    """The answer of a server that has no data of the tablet."""
    return Received(AppendResponse(id, term, round, False, 0, is_missing=True))
