"""Groups of replicas in one process: real consensus over a network of queues, each server on files in memory."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import Any

import numpy as np
import pyarrow as pa
from nyala.cluster.consensus.host import ConsensusHost
from nyala.cluster.raft.messages import Configuration, Message, Peer, PeerRole
from nyala.cluster.raft.options import RaftOptions
from nyala.cluster.tablets.bootstrap import BootstrapSources, copy_replica
from nyala.cluster.tablets.health import ReplicaListener
from nyala.cluster.tablets.replica import Replica
from nyala.cluster.wire.messages.methods import BeginBootstrap, Call, EndBootstrap, ReadFile, Tablet
from nyala.cluster.wire.messages.plain import table_to_plain
from nyala.cluster.wire.peers import PeerBatch
from nyala.errors import ClusterError
from nyala.model.clock import HybridClock
from nyala.model.partitions.partition import Partitioner
from nyala.model.schema import ColumnSchema, PartitionSchema, Schema, Table, assign_column_ids
from nyala.model.store import Op, ScanSpec, Timestamp, WriteBatch
from nyala.model.types import BIGINT, STRING
from nyala.storage.files.memory_filesystem import MemoryFileSystem
from nyala.storage.files.page_cache import PageCache
from nyala.storage.tablet.tablet import StoreOptions

TABLET = "t1-p0"
FAST = RaftOptions(heartbeat=0.05, election_timeout=0.3)
COLUMNS = (ColumnSchema("k", BIGINT, nullable=False), ColumnSchema("v", STRING), ColumnSchema("n", BIGINT))
SCHEMA = Schema(assign_column_ids(COLUMNS), 1)
TABLE = Table("t1", "t", SCHEMA, PartitionSchema(), next_column_id=3)


def describe(table: Table = TABLE, place: int = 0, tablet_id: str = TABLET) -> Tablet:
    partition = Partitioner(table.schema, table.partitions).partitions[place]
    return Tablet(id=tablet_id, table=table_to_plain(table), place=partition.place, partition=partition.describe())


class Network:
    """Carries messages between servers; those of servers in `cut` are lost."""

    def __init__(self) -> None:
        self.cut: set[str] = set()
        self._queues: dict[str, queue.SimpleQueue[PeerBatch | None]] = {}
        self._threads: list[threading.Thread] = []

    def join(self, server: Server) -> None:
        inbox: queue.SimpleQueue[PeerBatch | None] = queue.SimpleQueue()
        self._queues[server.peer.id] = inbox

        def carry() -> None:
            while (batch := inbox.get()) is not None:
                with suppress(ClusterError):
                    server.host.receive(batch)

        thread = threading.Thread(target=carry, name=f"net-{server.peer.id}", daemon=True)
        thread.start()
        self._threads.append(thread)

    def send(self, server: Server, to: Peer, tablet_id: str, message: Message) -> None:
        inbox = self._queues.get(to.id)
        if inbox is not None and not {server.peer.id, to.id} & self.cut:
            inbox.put(PeerBatch(server.peer, server.clock.now(), ((tablet_id, message),)))

    def leave(self, server: Server) -> None:
        inbox = self._queues.pop(server.peer.id, None)
        if inbox is not None:
            inbox.put(None)


class _Transport:
    def __init__(self, network: Network, server: Server):
        self._network, self._server = network, server

    def send(self, peer: Peer, tablet_id: str, message: Message) -> None:
        self._network.send(self._server, peer, tablet_id, message)


class Server:
    """One server with at most one replica."""

    def __init__(self, network: Network, id: str, fs: Any = None, **options: Any):
        self.network = network
        self.peer = Peer(id, f"{id}:1", PeerRole.VOTER)
        self.fs = fs or MemoryFileSystem()
        self.directory = "/data/" + TABLET
        self.clock = HybridClock()
        self.options = StoreOptions(**{"segment_bytes": 20_000, "memrowset_bytes": 1 << 20, **options})
        self.sources = BootstrapSources()
        self.wanted: list[Peer] = []
        self.changes = 0
        self.replica: Replica | None = None
        self.start_host()

    def start_host(self) -> None:
        self.cache = PageCache(1 << 20)
        self.host = ConsensusHost(
            self.peer, self.clock, _Transport(self.network, self), FAST, segment_bytes=self.options.segment_bytes
        )
        self.network.join(self)

    def create(self, configuration: Configuration, tablet: Tablet | None = None) -> None:
        Replica.create(self.fs, self.directory, tablet or describe(), configuration)

    def open(self) -> Replica:
        def changed(replica: Replica) -> None:
            self.changes += 1

        listener = ReplicaListener(changed, lambda replica, peer: self.wanted.append(peer))
        self.replica = Replica.open(
            self.fs,
            self.directory,
            self.host,
            cache=self.cache,
            clock=self.clock,
            options=self.options,
            listener=listener,
        )
        return self.replica

    def close(self) -> None:
        self.network.leave(self)
        if self.replica is not None:
            self.replica.close()
            self.replica = None
        self.host.close()

    def restart(self) -> None:
        self.close()
        self.clock = HybridClock()
        self.start_host()
        self.open()

    def bootstrap_call(self, request: Any) -> Any:
        """Stands for `Channel.call` to this server."""
        if isinstance(request, BeginBootstrap):
            assert self.replica is not None
            return self.sources.begin(self.replica, request.receiver)
        if isinstance(request, ReadFile):
            return self.sources.read(request)
        assert isinstance(request, EndBootstrap)
        return self.sources.end(request.session)


class Group:
    """Servers with a replica each of one tablet."""

    def __init__(
        self,
        count: int = 3,
        table: Table = TABLE,
        place: int = 0,
        tablet_id: str = TABLET,
        prefix: str = "s",
        **options: Any,
    ):
        self.network = Network()
        self.servers = [Server(self.network, f"{prefix}{number}", **options) for number in range(count)]
        self.configuration = Configuration(tuple(server.peer for server in self.servers))
        for server in self.servers:
            server.create(self.configuration, describe(table, place, tablet_id))
        for server in self.servers:
            server.open()
        self.servers[0].replica.consensus.campaign()

    def __enter__(self) -> Group:
        return self

    def __exit__(self, *exc: object) -> None:
        for server in self.servers:
            server.close()

    @property
    def running(self) -> list[Server]:
        return [server for server in self.servers if server.replica is not None]

    def add_server(self, id: str, **options: Any) -> Server:
        server = Server(self.network, id, **options)
        self.servers.append(server)
        return server

    def leader(self) -> Server:
        """The server that serves as leader; waits for one."""

        def find() -> Server | None:
            found = []
            for server in self.running:
                if server.peer.id not in self.network.cut and server.replica.state == "RUNNING":
                    status = server.replica.consensus.status()
                    if status.is_serving:
                        found.append((status.term, server))
            return max(found, key=lambda item: item[0])[1] if found else None

        return until(find)

    def followers(self) -> list[Server]:
        leader = self.leader()
        return [server for server in self.running if server is not leader]

    def call(self, act: Callable[[Replica], Any], seconds: float = 90.0) -> Any:
        """Do something at the leader, again and again while it fails in a way that may pass."""
        end = time.monotonic() + seconds
        while True:
            try:
                return act(self.leader().replica)
            except ClusterError as error:
                if not error.retryable or time.monotonic() > end:
                    raise
                time.sleep(0.01)

    def write(self, rows: pa.RecordBatch, op: Op | Any = Op.INSERT, call: Call | None = None, **options: Any) -> Any:
        return self.call(lambda r: r.write(WriteBatch(rows, op, **options), call, deadline=soon(2)))

    def bootstrap(self, sink: Server, source: Server | None = None) -> Replica:
        source = source or self.leader()
        copy_replica(source.bootstrap_call, TABLET, sink.peer.id, sink.fs, sink.directory)
        return sink.open()


def until(ask: Callable[[], Any], seconds: float = 90.0) -> Any:
    """Wait until the answer is true: the answer."""
    end = time.monotonic() + seconds
    while not (found := ask()):
        assert time.monotonic() < end, "it did not come about"
        time.sleep(0.005)
    return found


def soon(seconds: float = 20.0) -> float:
    return time.monotonic() + seconds


def batch(keys: Iterable[int], text: str = "v", n: int | None = 0) -> pa.RecordBatch:
    numbers = list(keys)
    return pa.record_batch(
        {
            "k": pa.array(numbers, pa.int64()),
            "v": pa.array([f"{text}{k}" for k in numbers]),
            "n": pa.array([n] * len(numbers), pa.int64()),
        }
    )


def rows_at(replica: Replica, snapshot: int | None = None, columns: tuple[str, ...] = ("k", "v", "n")) -> list[Any]:
    """All rows of a replica at a time, sorted."""
    if snapshot is None:
        snapshot = replica._clock.now()
    found: list[Any] = []
    for part in replica.scan(ScanSpec(columns, snapshot=Timestamp(snapshot)), deadline=soon()):
        found.extend(zip(*[column.to_arrow().to_pylist() for column in part.columns()]))
    return sorted(found)


def make_rows(
    table: Table, rows: list[Mapping[str, Any]], names: Iterable[str]
) -> tuple[pa.RecordBatch, dict[str, Any]]:
    """Rows that may leave columns out: (record batch, isset)."""
    arrow = table.schema.arrow
    names = list(names)
    given = {name: pa.array([row.get(name) for row in rows], arrow.field(name).type) for name in names}
    key = {column.name for column in table.schema.key}
    isset = {name: np.array([name in row for row in rows]) for name in names if name not in key}
    return pa.record_batch(given), isset
