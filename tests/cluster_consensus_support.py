"""Groups of servers in one process: hosts that talk through a network which can lose things, and a toy replica."""

from __future__ import annotations

import queue
import random
import threading
import time
from collections.abc import Callable, Sequence

import pyarrow as pa
from nyala.cluster.consensus.consensus import Consensus
from nyala.cluster.consensus.host import ConsensusHost
from nyala.cluster.raft.messages import Configuration, Entry, Message, Peer
from nyala.cluster.raft.node import RaftOptions
from nyala.cluster.wire.peers import PeerBatch
from nyala.errors import NotTheLeader
from nyala.model.clock import HybridClock
from nyala.storage.files.filesystem import FileSystem
from nyala.storage.files.memory_filesystem import CrashableFileSystem
from nyala.storage.log.wal import LogTicket
from nyala.storage.log.wal_format import EntryKind

OPTIONS = RaftOptions(heartbeat=0.1, election_timeout=0.8, lease=0.7)
"""Short, so that tests end soon, and long enough that a leader stays one on a machine that does much else."""
TABLET = "t1"
SCHEMA = pa.schema([pa.field("a", pa.int64())])
PATIENCE = 90.0


def eventually(condition: Callable[[], bool], what: str = "") -> None:
    """Wait until something is so."""
    until = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < until, f"not in time: {what or condition}"
        time.sleep(0.005)


class Network:
    """Carries messages between hosts, each host's by a thread of its own; `cut` holds unreachable servers."""

    def __init__(self) -> None:
        self.cut: set[str] = set()
        self.lost = 0.0
        self.sent = 0
        self._random = random.Random(1)
        self._inboxes: dict[str, queue.SimpleQueue[PeerBatch | None]] = {}

    def transport(self, sender: Peer, clock: HybridClock) -> NetworkTransport:
        return NetworkTransport(self, sender, clock)

    def attach(self, host: ConsensusHost) -> threading.Thread:
        inbox: queue.SimpleQueue[PeerBatch | None] = queue.SimpleQueue()
        self._inboxes[host.server.address] = inbox

        def run() -> None:
            while (batch := inbox.get()) is not None:
                host.receive(batch)

        thread = threading.Thread(target=run, name=f"nyala-test-{host.server.id}", daemon=True)
        thread.start()
        return thread

    def detach(self, host: ConsensusHost, thread: threading.Thread) -> None:
        inbox = self._inboxes.pop(host.server.address, None)
        if inbox is not None:
            inbox.put(None)
            thread.join()

    def deliver(self, sender: Peer, peer: Peer, batch: PeerBatch) -> None:
        self.sent += 1
        if self.cut & {sender.id, peer.id} or self._random.random() < self.lost:
            return
        inbox = self._inboxes.get(peer.address)
        if inbox is not None:
            inbox.put(batch)


class NetworkTransport:
    def __init__(self, network: Network, sender: Peer, clock: HybridClock):
        self._network, self._sender, self._clock = network, sender, clock

    def send(self, peer: Peer, tablet_id: str, message: Message) -> None:
        batch = PeerBatch(self._sender, self._clock.now(), ((tablet_id, message),))
        self._network.deliver(self._sender, peer, batch)


class ToyReplica:
    """A list of what was written, as (index, body); a leader's writes are there at once and may be taken back."""

    def __init__(self, clock: HybridClock) -> None:
        self.clock = clock
        self.write_lock = threading.Lock()
        self.memory: dict[int, bytes] = {}
        self.undecided: list[LogTicket] = []
        self.applied: list[Entry] = []
        self.bootstraps: list[Peer] = []
        self.leaderships = 0
        self.settled = 0
        self.error: Exception | None = None
        self.broken: Exception | None = None
        self.consensus: Consensus | None = None
        self._is_open = threading.Event()
        """The consensus may call before `ConsensusHost.open` has returned it."""
        self._calls = 0
        self._writing: int | None = None

    def begin(self, consensus: Consensus) -> None:
        """Go to work."""
        self.consensus = consensus
        self._is_open.set()

    def safe_timestamp(self) -> int:
        now = self.clock.now()
        writing = self._writing
        return now if writing is None else writing - 1

    def _enter(self) -> None:
        self._calls += 1
        assert self._calls == 1, "calls overlap"

    def apply(self, entries: Sequence[Entry]) -> None:
        self._enter()
        with self.write_lock:
            if self.broken is not None:
                self._calls -= 1
                raise self.broken
            self._settle()
            for entry in entries:
                assert not self.applied or entry.index > self.applied[-1].index
                self.applied.append(entry)
                if entry.kind in (EntryKind.WRITE, EntryKind.ALTER):
                    assert entry.index not in self.memory, "applied what is in memory"
                    self.memory[entry.index] = entry.body
        self._calls -= 1

    def entries_failed(self) -> None:
        self._enter()
        with self.write_lock:
            self._settle()
            self.settled += 1
        self._calls -= 1

    def _settle(self) -> None:
        assert self._is_open.wait(PATIENCE) and self.consensus is not None
        decided = self.consensus.log.decided(self.undecided)
        for ticket in self.undecided[:decided]:
            if ticket.error is not None:
                del self.memory[ticket.index]
        del self.undecided[:decided]

    def leadership_changed(self) -> None:
        self._enter()
        self.leaderships += 1
        self._calls -= 1

    def needs_bootstrap(self, peer: Peer) -> None:
        self._enter()
        self.bootstraps.append(peer)
        self._calls -= 1

    def failed(self, error: Exception) -> None:
        self.error = error

    def write(self, body: bytes, deadline: float | None = None, kind: EntryKind = EntryKind.WRITE) -> LogTicket:
        """Write as leader, and wait for the commit."""
        ticket = self.start(body, kind)
        assert self.consensus is not None
        self.consensus.wait(ticket, time.monotonic() + PATIENCE if deadline is None else deadline)
        return ticket

    def start(self, body: bytes, kind: EntryKind = EntryKind.WRITE) -> LogTicket:
        assert self.consensus is not None
        with self.write_lock:
            self._settle()
            self._writing = self.clock.now()
            try:
                ticket = self.consensus.log.append(self._writing, kind, [body])
                self.memory[ticket.index] = body
                self.undecided.append(ticket)
            finally:
                self._writing = None
            return ticket

    @property
    def bodies(self) -> list[bytes]:
        with self.write_lock:
            return [body for _, body in sorted(self.memory.items())]


class Server:
    """One server with one tablet, over a file system that can be crashed."""

    def __init__(self, id: str, network: Network, fs: FileSystem, durability: str = "fsync", segment_bytes: int = 4096):
        self.peer = Peer(id, f"{id}:1")
        self.network = network
        self.fs = fs
        self.durability = durability
        self.segment_bytes = segment_bytes

    def create(self, configuration: Configuration, tablet_id: str = TABLET) -> None:
        self.fs.make_directory(f"dir/{tablet_id}")
        ConsensusHost.create_files(self.fs, f"dir/{tablet_id}", configuration)
        self.fs.sync_directory(f"dir/{tablet_id}")
        self.fs.sync_directory("dir")
        self.fs.sync_directory("")

    def start(self, applied_index: int = 0, memory: dict[int, bytes] | None = None) -> None:
        self.clock = HybridClock()
        self.host = ConsensusHost(
            self.peer,
            self.clock,
            self.network.transport(self.peer, self.clock),
            OPTIONS,
            durability=self.durability,
            threads=2,
            segment_bytes=self.segment_bytes,
        )
        self.replica = ToyReplica(self.clock)
        self.replica.memory.update(memory or {})
        self.consensus = self.open(TABLET, self.replica, applied_index)
        self._thread = self.network.attach(self.host)

    def open(self, tablet_id: str, replica: ToyReplica, applied_index: int = 0) -> Consensus:
        consensus = self.host.open(
            tablet_id,
            self.fs,
            f"dir/{tablet_id}",
            SCHEMA,
            replica,
            applied_index=applied_index,
            alter_schema=lambda body: pa.schema([pa.field(body.decode(), pa.int64())]),
        )
        replica.begin(consensus)
        return consensus

    def stop(self) -> None:
        self.network.detach(self.host, self._thread)
        self.host.close()

    def crash(self, rng: random.Random, keep: float = 0.5) -> None:
        """Lose the power: what was not synced may be gone."""
        assert isinstance(self.fs, CrashableFileSystem)
        self.network.detach(self.host, self._thread)
        crashed = self.fs.crash(keep, rng)
        self.host.close()
        self.fs = crashed


class Group:
    """Some servers that replicate one tablet."""

    def __init__(self, count: int = 3, durability: str = "fsync", segment_bytes: int = 4096):
        self.network = Network()
        self.servers = [
            Server(f"s{n}", self.network, CrashableFileSystem(), durability, segment_bytes) for n in range(count)
        ]
        self.configuration = Configuration(tuple(server.peer for server in self.servers))
        for server in self.servers:
            server.create(self.configuration)
            server.start()
        self.servers[0].consensus.campaign()
        self.running = list(self.servers)

    def __enter__(self) -> Group:
        return self

    def __exit__(self, *exception: object) -> None:
        for server in self.running:
            server.stop()

    def leader(self) -> Server:
        """The one that serves, once there is one that others follow."""
        found: list[Server] = []

        def is_there() -> bool:
            found[:] = [
                s
                for s in self.running
                if s.peer.id not in self.network.cut and s.consensus.is_serving and self._is_newest(s)
            ]
            return len(found) == 1

        eventually(is_there, "a leader")
        return found[0]

    def _is_newest(self, server: Server) -> bool:
        terms = [s.consensus.status().term for s in self.running if s.peer.id not in self.network.cut]
        return server.consensus.status().term >= max(terms)

    def others(self, server: Server) -> list[Server]:
        return [other for other in self.running if other is not server]

    def write(self, body: bytes) -> None:
        """Write until it is acknowledged; what became of failed attempts is left open."""
        until = time.monotonic() + PATIENCE
        while True:
            try:
                self.leader().replica.write(body)
                return
            except NotTheLeader:
                assert time.monotonic() < until

    def stop(self, server: Server) -> None:
        self.running.remove(server)
        server.stop()

    def start(self, server: Server) -> None:
        server.start()
        self.running.append(server)

    def agree(self, bodies: list[bytes]) -> None:
        """All that run come to have exactly this in memory."""
        eventually(
            lambda: all(server.replica.bodies == bodies for server in self.running),
            f"{len(bodies)} bodies, found {[len(server.replica.bodies) for server in self.running]}",
        )
