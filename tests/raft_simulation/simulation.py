"""The loop: virtual time, the network between the servers, clients, and faults.

A schedule has two parts. While it is rough (`Profile.duration`), faults come and go at random. Then all faults end:
stopped servers start, partitions heal, disks and messages are quick; clocks stay wrong. Within `LIVENESS_BOUND` a
leader with a lease must commit a new entry, and every peer of its configuration apply it and vote.
"""

from __future__ import annotations

import hashlib
import heapq
import random
from collections import Counter
from collections.abc import Callable, Container, Iterable
from dataclasses import dataclass
from typing import Any

from nyala.cluster.raft.events import Campaign, ChangePeers, Propose, Quiesce, Renew, Transfer
from nyala.cluster.raft.messages import AppendRequest, Configuration, HardState, Message, Peer, PeerRole
from nyala.cluster.raft.node import RaftOptions
from nyala.storage.log.wal_format import EntryKind

from .disk import Disk
from .invariants import Invariant, Invariants, InvariantViolation
from .profile import Profile
from .server import CRASH_POINTS, Server, make_peer

NAMES = "abcdefgh"
HEALING_STEP = 0.25
LIVENESS_BOUND = 60.0
"""Seconds of virtual time after all faults have ended; most schedules need 2 to 5."""
MAX_EVENTS = 30_000
"""A schedule has some hundreds of events; one with this number loops for ever."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """A successful schedule: its number of events, how often each kind of event happened, and the digest of its trace
    ("" if none was kept)."""

    seed: int
    events: int
    committed: int
    count: Counter[str]
    trace_hash: str


class Simulation:
    """The schedule of a seed, with its profile or another one."""

    def __init__(self, seed: int, *, profile: Profile | None = None, keeps_trace: bool = False):
        self.seed = seed
        self.chance = chance = random.Random(seed)
        self.profile = profile or Profile.draw(chance)
        self.options = RaftOptions(
            election_timeout=self.profile.election_timeout,
            lease=self.profile.election_timeout * 0.9,
            max_batch_bytes=self.profile.max_batch_bytes,
            window=self.profile.window,
            gathers=seed % 2 == 1,
        )
        self.time = 0.0
        self.invariants = Invariants()
        self.leaders: dict[str, Server] = {}
        self.count: Counter[str] = Counter()
        self.trace: list[str] | None = [] if keeps_trace else None
        self.events = 0
        self._heap: list[tuple[float, int, Callable[..., object], tuple[Any, ...]]] = []
        self._sequence = 0
        self._cut: Counter[tuple[str, str]] = Counter()
        self._storms = 0
        self._faint: dict[tuple[int, str, str], bool] = {}
        self._is_healed = False
        self.fragile = self.profile.fragile
        self._is_done = False
        self._copies: set[str] = set()
        self._last_proposal: tuple[int, int] | None = None
        self.servers: dict[str, Server] = {}
        first = Configuration(tuple(make_peer(id) for id in NAMES[: self.profile.voters]))
        for id in NAMES:
            self.servers[id] = Server(self, id, chance)
        self.invariants.configuration = first
        for peer in first.peers:
            self.servers[peer.id].create(Disk(HardState(), first))

    # ---- the loop ---------------------------------------------------------------------------------------------

    def at(self, time: float, function: Callable[..., object], *arguments: Any) -> None:
        self._sequence = sequence = self._sequence + 1
        heapq.heappush(self._heap, (time, sequence, function, arguments))

    def after(self, seconds: float, function: Callable[..., object], *arguments: Any) -> None:
        self._sequence = sequence = self._sequence + 1
        heapq.heappush(self._heap, (self.time + seconds, sequence, function, arguments))

    def run(self) -> Outcome:
        """Raises `InvariantViolation`; an exception of the node is one of its contract."""
        try:
            self._run()
        except InvariantViolation as violation:
            violation.seed, violation.events = self.seed, self.events
            raise
        except Exception as error:
            violation = InvariantViolation(Invariant.CONTRACT, f"{type(error).__name__}: {error}")
            violation.seed, violation.events = self.seed, self.events
            raise violation from error
        return Outcome(self.seed, self.events, len(self.invariants.committed), self.count, self.trace_hash)

    @property
    def trace_hash(self) -> str:
        """Returns the digest of the trace so far; "" if none is kept."""
        return hashlib.sha256("\n".join(self.trace).encode()).hexdigest() if self.trace is not None else ""

    def _run(self) -> None:
        profile, heap, pop = self.profile, self._heap, heapq.heappop
        if self.chance.random() < 0.8:
            self.servers["a"].submit(Campaign())
        self.after(self.chance.random() * profile.client_interval, self._client)
        self.after(1.0 + self.chance.random() * profile.fault_interval, self._fault)
        self.at(profile.duration, self._heal)
        while not self._is_done:
            self.time, _, function, arguments = pop(heap)
            self.events += 1
            function(*arguments)
            if self.events > MAX_EVENTS:
                raise InvariantViolation(Invariant.LIVENESS, f"{MAX_EVENTS} events by {self.time:.3f} s")

    def note(self, server: Server, what: object) -> None:
        assert self.trace is not None
        self.trace.append(f"{self.time:.6f} {server.id}{server.incarnation} {what}")

    # ---- the network and the disks ------------------------------------------------------------------------------

    def send(self, sender: Server, receiver: str, message: Message) -> None:
        """Loses a message, or delivers it after a while, perhaps twice."""
        if (sender.id, receiver) in self._cut:
            return
        profile, chance = self.profile, self.chance.random
        delay = profile.delay * (0.1 + chance())
        if not self._is_healed:
            fate = chance()
            if fate < profile.drop or (self._storms and fate < 0.35):
                return
            if profile.faint and type(message) is AppendRequest and self._is_faint(message, receiver):
                return
            if fate > 1.0 - profile.long_delay:
                delay += chance() * 2.0
            elif fate > 1.0 - profile.long_delay - profile.duplicate:
                self.after(delay + chance() * 0.5, self.servers[receiver].receive, message, sender.latest)
            if self._storms:
                delay += chance() * 0.4
        self.after(delay, self.servers[receiver].receive, message, sender.latest)

    def _is_faint(self, message: AppendRequest, receiver: str) -> bool:
        """True if no message of this leader, in this term, reaches a peer."""
        key = (message.term, message.sender, receiver)
        if (is_faint := self._faint.get(key)) is None:
            is_faint = self._faint[key] = self.chance.random() < self.profile.faint
        return is_faint

    def disk_delay(self, server: Server) -> float:
        chance = self.chance
        delay = self.profile.disk * (0.2 + chance.random())
        if not self._is_healed and (server.is_slow or chance.random() < self.profile.slow_disk):
            delay += chance.random() * 1.5
        return delay

    def bootstrap_wanted(self, source: Server, target: Peer) -> None:
        """Copies the leader's data to the target, which takes a while; one copy at a time."""
        if target.id not in self._copies:
            self._copies.add(target.id)
            self.after(self.chance.uniform(0.02, 0.5), self._copy, source, source.incarnation, self.servers[target.id])

    def _copy(self, source: Server, incarnation: int, target: Server) -> None:
        self._copies.discard(target.id)
        if source.incarnation != incarnation or source.is_busy or not target.is_up or target.is_busy:
            return
        if target.has_node:
            # The target's acknowledged entries may be part of a majority, so the common part of its log and the
            # source's must be in the copy. It is if the logs part before the source's begins; otherwise the target can
            # continue from its own.
            base = source.log.base_index
            if target.applied >= base or target.log.term(base) == source.log.base_term:
                return
            target.crash(stays_down=True)
        disk = source.copy_for(target)
        target.disk = disk
        target.start()
        self.count["bootstrap"] += 1

    # ---- clients --------------------------------------------------------------------------------------------------

    def _client(self) -> None:
        chance = self.chance
        # Peers that get one entry per message would never catch up with clients that write more.
        writes = self.profile.writes if not self._is_healed else 0.05
        self.after(chance.random() * 2 * self.profile.client_interval, self._client)
        for leader in list(self.leaders.values()):
            if not leader.is_busy:
                leader.serve_leader_read(at_limit=chance.random() < 0.1)
                if chance.random() < writes:
                    self._propose(leader, chance.randint(1, 3))
                if chance.random() < 0.4:
                    leader.announce_safe_time()

    def _propose(self, leader: Server, count: int) -> bool:
        """Returns entries with timestamps of the leader's clock, without those that may not be assigned yet."""
        entries = [(leader.hybrid(), int(EntryKind.WRITE), b"%d:%d" % (self.events, number)) for number in range(count)]
        node = leader.node
        if not node.is_serving or entries[-1][0] > node.timestamp_limit:
            self.count["beyond the limit"] += 1
            if self.chance.random() < 0.5:
                leader.step(Renew())
            return False
        first, term = leader.log.last_index + 1, node.term
        self._last_proposal = (first, term)
        for index in range(first, first + count):
            leader.proposals[index] = term
        incarnation = leader.incarnation
        if not leader.step(Propose(tuple(entries))):
            for index in range(first, first + count):
                leader.proposals.pop(index, None)
            self.count["refused"] += 1
            return False
        return incarnation == leader.incarnation

    # ---- faults ---------------------------------------------------------------------------------------------------

    def _fault(self) -> None:
        if self._is_healed:
            return
        profile, chance = self.profile, self.chance
        self.after(chance.random() * 2 * profile.fault_interval, self._fault)
        (kind,) = chance.choices(tuple(profile.faults), tuple(profile.faults.values()))
        self.count[kind] += 1
        if self.trace is not None:
            self.trace.append(f"{self.time:.6f} fault {kind}")
        _FAULTS[kind](self, self._victim(), chance.uniform(0.2, 1.0) * profile.fault_length)

    def _victim(self) -> Server:
        """Returns a victim: half of the time a leader, where a fault does most harm."""
        leaders = list(self.leaders.values())
        if leaders and self.chance.random() < 0.5:
            return self.chance.choice(leaders)
        return self.chance.choice([server for server in self.servers.values() if server.disk is not None])

    def _leader(self) -> Server | None:
        leaders = [leader for leader in self.leaders.values() if not leader.is_busy]
        return self.chance.choice(leaders) if leaders else None

    def elected(self, leader: Server) -> None:
        """Lets some leaders fail soon: while their first entries are in transit."""
        profile, chance = self.profile, self.chance
        if self._is_healed or chance.random() >= profile.short_reigns:
            return
        delay = chance.random() ** 2 * 6 * (profile.delay + profile.disk)
        fault = chance.choice((self._crash, self._crash_in_ready, self._partition, self._cut_link))
        self.after(delay, fault, leader, profile.fault_length)

    def _crash(self, server: Server, seconds: float) -> None:
        if server.is_up:
            server.crash()

    def _crash_in_ready(self, server: Server, seconds: float) -> None:
        server.crash_point = self.chance.randrange(CRASH_POINTS)

    def _pause(self, server: Server, seconds: float) -> None:
        if server.has_node:
            server.hold(seconds * 2)

    def _partition(self, server: Server, seconds: float) -> None:
        """Partitions the victim alone, or with some others."""
        names = list(self.servers)
        side = {server.id} | {id for id in names if self.chance.random() < 0.3}
        self._cut_off([(x, y) for x in names for y in names if (x in side) != (y in side)], seconds * 2)

    def _cut_one_way(self, server: Server, seconds: float) -> None:
        """Drops messages from the victim to some peers, or to it."""
        others = [id for id in self.servers if id != server.id and self.chance.random() < 0.7]
        speaks = self.chance.random() < 0.5
        self._cut_off([(server.id, id) if speaks else (id, server.id) for id in others], seconds * 2)

    def _cut_link(self, server: Server, seconds: float) -> None:
        """Drops messages between the victim and one other, in both directions."""
        other = self.chance.choice([other for other in self.servers.values() if other.disk is not None])
        self._cut_off([(server.id, other.id), (other.id, server.id)], seconds * 3)

    def _cut_off(self, links: list[tuple[str, str]], seconds: float) -> None:
        self._cut.update(links)
        self.after(seconds, self._join, links)

    def _join(self, links: Iterable[tuple[str, str]]) -> None:
        for link in links:
            self._cut[link] -= 1
            if self._cut[link] <= 0:
                del self._cut[link]

    def _slow_disk(self, server: Server, seconds: float) -> None:
        server.is_slow = True
        self.after(seconds * 2, self._quick_disk, server)

    def _quick_disk(self, server: Server) -> None:
        server.is_slow = False

    def _storm(self, server: Server, seconds: float) -> None:
        self._storms += 1
        self.after(seconds, self._calm)

    def _calm(self) -> None:
        self._storms -= 1

    def _transfer(self, server: Server, seconds: float) -> None:
        leader = self._leader()
        if leader is not None:
            target = self.chance.choice([None, *(peer.id for peer in leader.node.configuration.voters)])
            leader.step(Transfer(target))

    def _add(self, server: Server, seconds: float) -> None:
        leader = self._leader()
        if leader is None:
            return
        peers = leader.node.configuration.peers
        known = {peer.id for peer in peers}
        strangers = [id for id in NAMES if id not in known]
        if len(peers) < 5:
            # Not a VOTER at once unless it has data: an election might need the vote of a server that cannot give it.
            is_voter = self.servers[strangers[0]].disk is not None and self.chance.random() < 0.5
            role = PeerRole.VOTER if is_voter else PeerRole.PRE_VOTER
            added = Peer(strangers[0], make_peer(strangers[0]).address, role)
            self._change(leader, (*peers, added))

    def _remove(self, server: Server, seconds: float) -> None:
        """Removes a peer other than the leader; sometimes requests that the leader removes itself, which it refuses."""
        leader = self._leader()
        if leader is None:
            return
        peers = leader.node.configuration.peers
        if len(peers) > 2:
            removed = self.chance.choice(peers)
            self._change(leader, tuple(peer for peer in peers if peer is not removed))
            self.after(seconds, self._forget, self.servers[removed.id])

    def _replace(self, server: Server, seconds: float) -> None:
        """Removes a peer, a stopped one if there is one, and soon adds another at the leader of that time. The removed
        one keeps its data, and campaigns in vain when it runs again."""
        leader = self._leader()
        if leader is None:
            return
        peers = leader.node.configuration.peers
        others = [peer for peer in peers if peer.id != leader.id]
        if len(others) > 1:
            removed = min(others, key=lambda peer: self.servers[peer.id].is_up)
            self._change(leader, tuple(peer for peer in peers if peer is not removed))
            self.after(seconds, self._add, server, seconds)

    def _readdress(self, server: Server, seconds: float) -> None:
        """Moves a server to another address."""
        leader = self._leader()
        if leader is not None:
            peers = list(leader.node.configuration.peers)
            place = self.chance.randrange(len(peers))
            old = peers[place]
            peers[place] = Peer(old.id, f"{old.id}:{self.events}", old.role)
            self._change(leader, tuple(peers))

    def _campaign(self, server: Server, seconds: float) -> None:
        """Starts an election at a random peer."""
        if server.has_node:
            server.submit(Campaign())

    def _quiesce(self, server: Server, seconds: float) -> None:
        """Quiesces a server for a while, or until its process ends: sometimes a majority of them, and beyond the end of
        all faults."""
        if server.has_node:
            server.submit(Quiesce(True))
            if self.chance.random() < 0.7:
                self.after(seconds * 4, self._end_quiescing, server, server.incarnation)

    def _end_quiescing(self, server: Server, incarnation: int) -> None:
        if server.incarnation == incarnation:
            server.submit(Quiesce(False))

    def _change(self, leader: Server, peers: tuple[Peer, ...]) -> None:
        expected = self.chance.choice((None, leader.node.configuration.index))
        if leader.step(ChangePeers(peers, expected)):
            self.count["change"] += 1

    def _forget(self, server: Server) -> None:
        """Deletes the data of a removed peer, if no other peer counts on it."""
        configurations = [self.invariants.configuration]
        for other in self.servers.values():
            if other.disk is not None:
                configurations += other.disk.configurations()
            if other.has_node:
                configurations.append(other.node.configuration)
        newest = [c for c in configurations if c.index >= self.invariants.configuration.index]
        if server.disk is None or any(configuration.peer(server.id) for configuration in newest):
            return
        if server.is_up:
            server.crash()
        server.disk = None
        self.count["deleted"] += 1

    def _trim(self, server: Server, seconds: float) -> None:
        server.flush_and_trim()

    def _is_quiescing(self, peer: Peer) -> bool:
        """False for a server without data, which has no node yet: a new one does not quiesce."""
        server = self.servers[peer.id]
        return server.has_node and server.node.is_quiescing

    # ---- the end --------------------------------------------------------------------------------------------------

    def _heal(self) -> None:
        self._is_healed = True
        self.fragile = 0.0
        self._cut.clear()
        self._storms = 0
        for server in self.servers.values():
            server.is_slow = False
            server.crash_point = None
            server.restart()
            server.busy_until = min(server.busy_until, self.time)
            server.wake(server.incarnation)
        self._last_proposal = None
        self.after(HEALING_STEP, self._check_recovery, self.time + LIVENESS_BOUND, None)

    def _check_recovery(self, deadline: float, goal: int | None) -> None:
        """Checks that the newest leader commits a new entry, which reaches all peers; no PRE_VOTER is left, and it has
        the lease. It is quiescing only if all voters are."""
        leader = max(self.leaders.values(), key=lambda server: server.node.term, default=None)
        if goal is not None and len(self.invariants.committed) >= goal and leader is not None:
            peers = leader.node.configuration.peers
            is_whole = all(self.servers[peer.id].applied >= goal and peer.role is PeerRole.VOTER for peer in peers)
            is_quiescing = all(self._is_quiescing(peer) for peer in peers)
            is_right = leader.node.is_quiescing == is_quiescing
            if is_whole and is_right and leader.node.has_lease(leader.now()):
                self._is_done = True
                self.count["healing"] += int(self.time - deadline + LIVENESS_BOUND)
                return
        if self.time > deadline:
            states = "\n  ".join(server.describe() for server in self.servers.values())
            raise InvariantViolation(
                Invariant.LIVENESS,
                f"nothing new is committed everywhere after {LIVENESS_BOUND:.0f} s (goal {goal}):\n  {states}",
            )
        if goal is None and leader is not None and not leader.is_busy and self._propose(leader, 1):
            goal = len(self.invariants.committed) + 1
        self.after(HEALING_STEP, self._check_recovery, deadline, goal)


_FAULTS: dict[str, Callable[[Simulation, Server, float], None]] = {
    "crash": Simulation._crash,
    "crash_in_ready": Simulation._crash_in_ready,
    "pause": Simulation._pause,
    "partition": Simulation._partition,
    "cut_one_way": Simulation._cut_one_way,
    "cut_link": Simulation._cut_link,
    "slow_disk": Simulation._slow_disk,
    "storm": Simulation._storm,
    "transfer": Simulation._transfer,
    "add": Simulation._add,
    "remove": Simulation._remove,
    "replace": Simulation._replace,
    "readdress": Simulation._readdress,
    "trim": Simulation._trim,
    "campaign": Simulation._campaign,
    "quiesce": Simulation._quiesce,
}


def simulate(seed: int, *, keeps_trace: bool = False) -> Outcome:
    """Runs the schedule of a seed."""
    return Simulation(seed, keeps_trace=keeps_trace).run()


def find_violation(
    seeds: Iterable[int], invariants: Container[Invariant], draw: Callable[[random.Random], Profile] = Profile.draw
) -> InvariantViolation | None:
    """Returns the first violation of one of the invariants by a seed, in profiles of a kind."""
    for seed in seeds:
        try:
            Simulation(seed, profile=draw(random.Random(seed))).run()
        except InvariantViolation as violation:
            if violation.invariant in invariants:
                return violation
    return None
