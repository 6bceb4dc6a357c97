"""Masters with ports, files and Raft; the tablet servers are fakes with ports."""

import contextlib
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from nyala.cluster.master.options import MasterOptions
from nyala.cluster.master.server import MasterServer
from nyala.cluster.wire.messages.methods import (
    CreateTablet,
    CreateView,
    DropTable,
    GetCatalog,
    Heartbeat,
    HeartbeatReply,
    ListServers,
    LocateTablets,
    ReportTablets,
    ServersReply,
    SetFaults,
)
from nyala.cluster.wire.messages.plain import view_to_plain
from nyala.errors import (
    DeadlineExceeded,
    InterfaceError,
    NotTheLeader,
    OperationalError,
    ProtocolError,
    StoreLocked,
)
from nyala.model.schema import View

from tests.cluster_master_support import RAFT, MasterCluster, free_addresses
from tests.fake_tservers import eventually


@pytest.fixture
def clusters(tmp_path: Path) -> Iterator[Callable[..., MasterCluster]]:
    with contextlib.ExitStack() as stack:

        def make(**kinds: Any) -> MasterCluster:
            cluster = MasterCluster(tmp_path, **kinds)
            stack.callback(cluster.close)
            return cluster

        yield make


def test_everything_survives_a_restart(clusters: Callable[..., MasterCluster]) -> None:
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


def test_create_is_finished_after_a_restart(clusters: Callable[..., MasterCluster]) -> None:
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
def test_three_masters_outlive_their_leaders(clusters: Callable[..., MasterCluster]) -> None:
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


def test_a_master_that_lost_its_files_copies_them(clusters: Callable[..., MasterCluster]) -> None:
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


def test_followers_name_the_leader(clusters: Callable[..., MasterCluster]) -> None:
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


def test_without_a_majority_nothing_is_answered(clusters: Callable[..., MasterCluster]) -> None:
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
    for masters, bind in ((addresses[1:], addresses[1]), ((), addresses[3]), (addresses[:3], addresses[1])):
        with pytest.raises(
            OperationalError, match=f"belongs to the master at {addresses[0]}, and is started at {bind}"
        ):
            MasterServer(options(masters, bind))
    for masters in (addresses[:3], (), addresses[1:]):  # the masters are in its log, and not in this list
        MasterServer(options(masters)).stop()


def test_faults_are_for_servers_that_allow_them(clusters: Callable[..., MasterCluster]) -> None:
    cluster = clusters()
    with pytest.raises(ProtocolError, match="SetFaults"):
        cluster.ask(SetFaults())
