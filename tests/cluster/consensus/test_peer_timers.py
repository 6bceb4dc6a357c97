"""Timers of a peer's driver, in simulated time: one is pending, however often leadership has changed."""

from __future__ import annotations

import heapq
import itertools
import math
import random
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext

import pyarrow as pa
from nyala.cluster.consensus.consensus_file import ConsensusFile
from nyala.cluster.consensus.host import ConsensusHost
from nyala.cluster.consensus.log.raft_log import RaftLog
from nyala.cluster.consensus.peer_driver import PeerDriver
from nyala.cluster.raft.events import ChangePeers, RaftRole
from nyala.cluster.raft.messages import AppendRequest, Configuration, Entry, Message, Peer
from nyala.cluster.raft.node import RaftNode, RaftOptions
from nyala.model.clock import HybridClock
from nyala.storage.files.memory_filesystem import MemoryFileSystem

Job = Callable[[], None]
PEERS = tuple(Peer(f"s{number}", f"host{number}:1") for number in range(3))
SCHEMA = pa.schema([pa.field("k", pa.int64())])
OPTIONS = RaftOptions(slot=0.1)


class Group:
    """Three drivers of one tablet without threads: jobs, messages and timers are run by `pass_time`."""

    def __init__(self) -> None:
        self.now = 100.0
        self.timers: list[tuple[float, int, Job]] = []
        self.messages: list[tuple[str, Peer, Message]] = []
        self.jobs: list[Job] = []
        self.numbers = itertools.count()
        self.cut: set[str] = set()
        self.services = {peer.id: Services(self, peer) for peer in PEERS}
        fs = MemoryFileSystem()
        self.drivers = {peer.id: self._driver(fs, peer) for peer in PEERS}

    def _driver(self, fs: MemoryFileSystem, peer: Peer) -> PeerDriver:
        fs.make_directory(peer.id)
        ConsensusHost.create_files(fs, peer.id, Configuration(PEERS))
        file, services = ConsensusFile(fs, peer.id), self.services[peer.id]
        log = RaftLog(fs, f"{peer.id}/wal", SCHEMA, syncs=False)

        def make_node() -> RaftNode:
            kept = file.state
            source, hybrid = random.Random(peer.id), services.clock.now
            return RaftNode(
                peer.id,
                log,
                kept.hard_state,
                kept.configuration,
                OPTIONS,
                now=self.now,
                random=source,
                hybrid=hybrid,
                is_new=True,
            )

        return PeerDriver("t1", services, make_node, log, file, State(), 0)

    def pass_time(self, seconds: float) -> None:
        """Runs everything that is due until that many seconds have passed."""
        until = self.now + seconds
        while True:
            while self.jobs or self.messages:
                jobs, self.jobs = self.jobs, []
                messages, self.messages = self.messages, []
                for job in jobs:
                    job()
                for id, sender, message in messages:
                    if not self.cut & {id, sender.id}:
                        self.drivers[id].receive(message, sender)
            if not self.timers or self.timers[0][0] > until:
                self.now = until
                return
            when, _, timer = heapq.heappop(self.timers)
            self.now = max(self.now, when)
            timer()

    def leader(self) -> PeerDriver:
        return next(d for d in self.drivers.values() if d.is_serving and d.node.id not in self.cut)


class Services:
    """`peer_driver.Services` of one server of a group."""

    def __init__(self, group: Group, server: Peer):
        self.group, self.server, self.clock = group, server, HybridClock()

    def now(self) -> float:
        return self.group.now

    def wall_clock(self) -> int:
        return self.clock.wall()

    def can_lead(self, clock_limit: int) -> bool:
        return True

    def send(self, peer: Peer, tablet_id: str, message: Message) -> None:
        self.group.messages.append((peer.id, self.server, message))

    def on_disk(self, job: Job) -> None:
        self.group.jobs.append(job)

    on_pool = send_later = on_disk

    def schedule(self, when: float, job: Job) -> None:
        assert math.isfinite(when)
        heapq.heappush(self.group.timers, (when, next(self.group.numbers), job))

    def round_down(self, when: float) -> float:
        return math.floor(when / OPTIONS.slot) * OPTIONS.slot

    def disk_full(self, tablet_id: str, error: Exception) -> bool:
        raise error

    def deciding(self) -> AbstractContextManager[object]:
        return nullcontext()


class State:
    """A replica that keeps nothing."""

    def apply(self, entries: list[Entry]) -> None: ...

    def entries_failed(self) -> None: ...

    def leadership_changed(self) -> None: ...

    def needs_bootstrap(self, peer: Peer) -> None: ...

    def safe_timestamp(self) -> int:
        return 0

    def failed(self, error: Exception) -> None:
        raise error


def test_changes_of_leadership_leave_no_timers_behind() -> None:
    """A timer that an earlier one has replaced used to schedule itself again for ever."""
    group = Group()
    group.pass_time(10)
    for _ in range(12):
        deposed = group.leader().node.id
        group.cut = {deposed}
        group.pass_time(10)
        assert group.leader().node.id != deposed
        group.cut = set()
        group.pass_time(10)
    before = next(group.numbers)
    group.pass_time(60)
    # A round each 0.5 s at the leader, and a look every 1.5 to 3 s at each of the others.
    assert 120 <= next(group.numbers) - before <= 120 + 2 * 60 + 10
    assert len(group.timers) <= len(PEERS) + 3


def test_a_peer_without_a_vote_ignores_the_timer_of_its_voting_days() -> None:
    group = Group()
    group.pass_time(10)
    leader = group.leader()
    leaves = next(peer for peer in PEERS if peer.id != leader.node.id)
    kept = tuple(peer for peer in PEERS if peer is not leaves)
    removed = group.drivers[leaves.id]
    leader.step(ChangePeers(kept))
    entry = leader.log.entries(leader.log.last_index, leader.log.last_index, 1)[0]
    node = leader.node
    request = AppendRequest(node.id, node.term, 1, node.term, entry.index - 1, node.commit_index, (entry,))
    removed.receive(request, next(peer for peer in PEERS if peer.id == node.id))
    assert removed.node.role is RaftRole.LEARNER
    assert removed.node.deadline == math.inf
    group.pass_time(30)  # its timer comes, and sets no other
    assert removed.error is None
    assert leader.is_serving
