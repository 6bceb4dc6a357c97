"""Masters with ports, files and Raft; the tablet servers are fakes with ports."""

import contextlib
import shutil
import socket
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from nyala.cluster.master.options import MasterOptions
from nyala.cluster.master.server import MasterServer
from nyala.cluster.raft.options import RaftOptions
from nyala.cluster.wire.calls.rpc import Channels
from nyala.cluster.wire.messages.methods import (
    Call,
    CreateTable,
    CreateTablet,
    CreateView,
    DropTable,
    GetCatalog,
    GetStatus,
    Heartbeat,
    HeartbeatReply,
    ListServers,
    LocateTablets,
    ReportTablets,
    Request,
    ServersReply,
    SetFaults,
)
from nyala.cluster.wire.messages.plain import definition_to_plain, view_to_plain
from nyala.cluster.wire.server import RpcServer
from nyala.errors import (
    DeadlineExceeded,
    Error,
    InterfaceError,
    NotTheLeader,
    OperationalError,
    ProtocolError,
    ServerUnavailable,
    StoreLocked,
)
from nyala.model.clock import HybridClock
from nyala.model.schema import ColumnSchema, HashRule, PartitionSchema, Schema, TableDefinition, View
from nyala.model.types import BIGINT

from tests.fake_tservers import FakeTservers, eventually

RAFT = RaftOptions(heartbeat=0.1, election_timeout=0.4, lease=0.3)


def free_addresses(count: int) -> tuple[str, ...]:
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return tuple(f"127.0.0.1:{one.getsockname()[1]}" for one in sockets)


class Cluster:
    """Masters and fake tablet servers, with a client."""

    def __init__(self, path: Path, masters: int = 1, tservers: int = 3, **options: Any):
        self.path = path
        self.addresses = free_addresses(masters)
        self.options = options
        self.channels = Channels(HybridClock())
        self.masters: dict[str, MasterServer] = {}
        for address in self.addresses:
            self.start(address)
        self.tservers = FakeTservers((), self._beat)
        self._servers: list[RpcServer] = []
        for number in range(tservers):
            server = self.tservers.add(f"ts{number}")
            rpc = RpcServer("127.0.0.1:0", HybridClock(), handlers=server.handlers, id=server.id)
            server.address = rpc.address
            rpc.start()
            self._servers.append(rpc)
        self.tservers.start()
        self.client, self.calls = uuid.uuid4().hex, 0
        eventually(lambda: len(self.ask(ListServers()).tservers) == tservers)

    def start(self, address: str) -> MasterServer:
        options = MasterOptions(
            directory=str(self.path / address),
            bind=address,
            masters=self.addresses,
            raft=RAFT,
            warm_up=0.3,
            **self.options,
        )
        master = self.masters[address] = MasterServer(options)
        master.start()
        return master

    def stop(self, address: str, drains: bool = False) -> None:
        master = self.masters.pop(address)
        if drains:
            master.drain()
        master.stop()

    def leader(self) -> str:
        """The address of the master that leads."""

        def look() -> str:
            for address in self.masters:
                with contextlib.suppress(Error):
                    if self.channels.get(address).call(GetStatus(), 2.0).is_leader:
                        return address
            return ""

        found: str = eventually(look)
        return found

    def ask(self, request: Request, seconds: float = 20.0, timeout: float = 10.0) -> Any:
        """The leader's answer."""
        end = time.monotonic() + seconds
        while True:
            for address in list(self.masters):
                try:
                    return self.channels.get(address).call(request, timeout)
                except (NotTheLeader, ServerUnavailable) as error:
                    last = error
            if time.monotonic() > end:
                raise last
            time.sleep(0.05)

    def create(self, name: str, call: Call | None = None, timeout: float = 10.0) -> Any:
        columns = (ColumnSchema("k", BIGINT, nullable=False), ColumnSchema("v", BIGINT))
        definition = TableDefinition(name, Schema(columns, 1), PartitionSchema((HashRule(("k",), 2),)))
        plain = definition_to_plain(definition)
        return self.ask(CreateTable(definition=plain, replicas=None, call=call or self.next_call()), timeout=timeout)

    def next_call(self) -> Call:
        self.calls += 1
        return Call(self.client, self.calls, 1)

    def names(self) -> list[str]:
        return [table["name"] for table in self.ask(GetCatalog()).tables]

    def _beat(self, beat: Heartbeat) -> HeartbeatReply:
        reply = HeartbeatReply(is_leader=False)
        for address in list(self.masters):
            with contextlib.suppress(Error):
                reply = self.channels.get(address).call(beat, 1.0)
                if reply.is_leader:
                    break
        return reply

    def close(self) -> None:
        self.tservers.stop()
        for server in self._servers:
            server.stop()
        for address in list(self.masters):
            self.stop(address)
        self.channels.close()


@pytest.fixture
def clusters(tmp_path: Path) -> Iterator[Callable[..., Cluster]]:
    with contextlib.ExitStack() as stack:

        def make(**kinds: Any) -> Cluster:
            cluster = Cluster(tmp_path, **kinds)
            stack.callback(cluster.close)
            return cluster

        yield make


def test_everything_survives_a_restart(clusters: Callable[..., Cluster]) -> None:
    cluster = clusters()
    created = cluster.create("t")
    cluster.ask(CreateView(view=view_to_plain(View("v", "SELECT 1", ("a",))), replace=False, call=cluster.next_call()))
    cluster.create("gone")
    cluster.ask(DropTable(name="gone", views=(), call=cluster.next_call()))
    before = cluster.ask(GetCatalog())
    (address,) = cluster.addresses
    cluster.stop(address)
    cluster.start(address)
    assert cluster.ask(GetCatalog()) == before
    located = cluster.ask(LocateTablets(table_id=created.table["id"])).tablets
    assert [len(tablet.replicas) for tablet in located] == [3, 3]
    assert cluster.create("u").table["id"] == "t000003"


def test_create_is_finished_after_a_restart(clusters: Callable[..., Cluster]) -> None:
    cluster = clusters()
    for server in cluster.tservers.servers.values():
        server.refuses = {CreateTablet}
    call = cluster.next_call()
    with pytest.raises(DeadlineExceeded):
        cluster.create("t", call, timeout=1.0)
    (address,) = cluster.addresses
    cluster.stop(address)
    cluster.start(address)
    for server in cluster.tservers.servers.values():
        server.refuses = set()
    assert cluster.create("t", call).table["id"] == "t000001"
    eventually(lambda: cluster.ask(GetCatalog()).tables[0]["state"] == "RUNNING")


@pytest.mark.slow
def test_three_masters_outlive_their_leaders(clusters: Callable[..., Cluster]) -> None:
    cluster = clusters(masters=3)
    call = cluster.next_call()
    made = cluster.create("t0", call)
    for number in range(3):
        leader = cluster.leader()
        cluster.stop(leader, drains=number == 1)
        assert cluster.create("t0", call).table == made.table
        cluster.create(f"t{number + 1}")
        cluster.start(leader)
    assert cluster.names() == [f"t{number}" for number in range(4)]


def test_a_master_that_lost_its_files_copies_them(clusters: Callable[..., Cluster]) -> None:
    cluster = clusters(masters=3)
    cluster.create("t")
    leader = cluster.leader()
    lost = next(address for address in cluster.addresses if address != leader)
    cluster.stop(lost)
    shutil.rmtree(cluster.path / lost)
    cluster.create("u")
    cluster.start(lost)
    last = cluster.channels.get(leader).call(ReportTablets()).tablets[0].last_index

    def has_all() -> bool:
        reports = cluster.channels.get(lost).call(ReportTablets()).tablets
        return bool(reports) and reports[0].commit_index >= last

    eventually(has_all)
    third = next(address for address in cluster.addresses if address not in (leader, lost))
    cluster.stop(third)
    cluster.create("v")
    cluster.stop(leader)
    cluster.start(third)
    assert cluster.names() == ["t", "u", "v"]


def test_followers_name_the_leader(clusters: Callable[..., Cluster]) -> None:
    cluster = clusters(masters=3)

    def named() -> bool:
        """True if all masters name the current leader: one may have been elected without the third's vote."""
        leader = cluster.leader()
        told: ServersReply = cluster.ask(ListServers())
        beat = Heartbeat(server=cluster.tservers.servers["ts0"].peer, sequence=1, is_full=True)
        followers = [cluster.channels.get(address) for address in cluster.addresses if address != leader]
        for follower in followers:
            with pytest.raises(NotTheLeader) as raised:
                follower.call(GetCatalog())
            if raised.value.leader != leader:
                return False
        return sorted(told.masters) == sorted((address, address == leader) for address in cluster.addresses) and all(
            follower.call(beat) == HeartbeatReply(is_leader=False, leader=leader) for follower in followers
        )

    eventually(named)


def test_without_a_majority_nothing_is_answered(clusters: Callable[..., Cluster]) -> None:
    cluster = clusters(masters=3)
    cluster.create("t")
    leader = cluster.leader()
    for address in cluster.addresses:
        if address != leader:
            cluster.stop(address)

    def refuses() -> bool:
        try:
            cluster.channels.get(leader).call(GetCatalog(), 2.0)
        except (NotTheLeader, DeadlineExceeded):
            return True
        return False

    eventually(refuses)


def test_a_directory_belongs_to_its_masters(tmp_path: Path) -> None:
    addresses = free_addresses(4)

    def options(masters: tuple[str, ...], bind: str = addresses[0]) -> MasterOptions:
        return MasterOptions(directory=str(tmp_path / "m"), bind=bind, masters=masters, raft=RAFT)

    with pytest.raises(InterfaceError, match="none of them"):
        MasterServer(options(addresses[1:]))
    first = MasterServer(options(addresses[:3]))
    with pytest.raises(StoreLocked):
        MasterServer(options(addresses[:3], addresses[1]))
    first.stop()
    for masters, bind in ((addresses[1:], addresses[1]), ((), addresses[0]), (addresses[:3], addresses[1])):
        with pytest.raises(OperationalError, match="other masters"):
            MasterServer(options(masters, bind))
    MasterServer(options(addresses[:3])).stop()


def test_faults_are_for_servers_that_allow_them(clusters: Callable[..., Cluster]) -> None:
    cluster = clusters()
    with pytest.raises(ProtocolError, match="SetFaults"):
        cluster.ask(SetFaults())
