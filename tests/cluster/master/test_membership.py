"""Masters that are added and removed while they run, in this process; `tests/cluster/test_master_changes.py` has
processes."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from nyala.cluster.raft.messages import PeerRole
from nyala.cluster.wire.messages.membership_methods import (
    AddMaster,
    ListMasters,
    MastersReply,
    RemoveMaster,
    UnsafeChangeMasters,
)
from nyala.cluster.wire.messages.methods import GetCatalog, GetStatus, ListServers
from nyala.errors import ConfigurationRefused, Error, NotTheLeader

from tests.cluster_master_support import MasterCluster, free_addresses
from tests.fake_tservers import eventually


@pytest.fixture
def clusters(tmp_path: Path) -> Iterator[Callable[..., MasterCluster]]:
    with contextlib.ExitStack() as stack:

        def make(**kinds: Any) -> MasterCluster:
            cluster = MasterCluster(tmp_path, tservers=1, **kinds)
            stack.callback(cluster.close)
            return cluster

        yield make


def voters(cluster: MasterCluster) -> list[str]:
    reply: MastersReply = cluster.ask(ListMasters())
    return sorted(peer.address for peer in reply.configuration.voters)


def membership(cluster: MasterCluster, address: str) -> str:
    return str(cluster.channels.get(address).call(GetStatus(), 5.0).details["membership"])


def add(cluster: MasterCluster, address: str) -> None:
    """Starts a master with an empty directory, and waits until it votes."""
    cluster.start(address, tuple(voters(cluster)))
    cluster.ask(AddMaster(address=address))
    eventually(lambda: address in voters(cluster))


def has_everything(cluster: MasterCluster, names: list[str]) -> None:
    """Each master has the catalog: each leads once, and lists the tables."""
    assert cluster.names() == names
    for address in voters(cluster):
        assert membership(cluster, address) == "MASTER"


@pytest.mark.slow
def test_a_single_master_becomes_three_and_outlives_the_first(clusters: Callable[..., MasterCluster]) -> None:
    cluster = clusters()
    cluster.create("t")
    (first,) = cluster.addresses
    second, third = free_addresses(2)
    add(cluster, second)
    add(cluster, third)
    assert voters(cluster) == sorted((first, second, third))
    cluster.create("u")
    has_everything(cluster, ["t", "u"])
    assert sorted(cluster.ask(GetCatalog()).masters) == sorted((first, second, third))
    cluster.stop(first)
    assert cluster.names() == ["t", "u"]
    cluster.create("v")
    cluster.start(first, (first,))  # as it was started when it was the only one
    eventually(lambda: membership(cluster, first) == "MASTER")
    cluster.stop(cluster.leader())
    assert cluster.names() == ["t", "u", "v"]


@pytest.mark.slow
def test_all_masters_are_replaced_one_after_another(clusters: Callable[..., MasterCluster]) -> None:
    cluster = clusters(masters=3)
    cluster.create("t0")
    for number, (old, new) in enumerate(zip(cluster.addresses, free_addresses(3))):
        add(cluster, new)
        cluster.ask(RemoveMaster(address=old))
        eventually(lambda old=old: membership(cluster, old) == "REMOVED")
        cluster.create(f"t{number + 1}")
    assert not set(voters(cluster)) & set(cluster.addresses)
    for old in cluster.addresses:
        with pytest.raises(NotTheLeader, match="this master was removed from the cluster") as raised:
            cluster.channels.get(old).call(GetCatalog())
        assert raised.value.leader and raised.value.leader != old
        cluster.stop(old)
        cluster.start(old)
        assert membership(cluster, old) == "REMOVED", "also after a restart"
        cluster.stop(old)
    has_everything(cluster, ["t0", "t1", "t2", "t3"])


@pytest.mark.slow
def test_a_dead_master_that_was_removed_notices_it_and_can_be_added_again(
    clusters: Callable[..., MasterCluster],
) -> None:
    cluster = clusters(masters=3)
    leader = cluster.leader()
    dead = next(address for address in cluster.addresses if address != leader)
    eventually(lambda: cluster.masters[dead]._directory.cluster)
    cluster.stop(dead)
    cluster.ask(RemoveMaster(address=dead))
    cluster.ask(RemoveMaster(address=dead))  # a repetition changes nothing
    cluster.create("t")
    cluster.start(dead)
    eventually(lambda: membership(cluster, dead) == "REMOVED")
    cluster.ask(AddMaster(address=dead))
    eventually(lambda: dead in voters(cluster))
    eventually(lambda: membership(cluster, dead) == "MASTER")
    cluster.stop(dead)
    cluster.start(dead)
    eventually(lambda: membership(cluster, dead) == "MASTER")


def test_no_master_is_removed_that_the_majority_needs(clusters: Callable[..., MasterCluster]) -> None:
    cluster = clusters(masters=3)
    leader = cluster.leader()
    dead, alive = (address for address in cluster.addresses if address != leader)
    cluster.stop(dead)
    with pytest.raises(ConfigurationRefused, match=f"without {alive}, 2 masters remain, of which 1 run.*{dead}"):
        cluster.ask(RemoveMaster(address=alive))
    with pytest.raises(ConfigurationRefused, match="of which 1 run"):
        cluster.ask(RemoveMaster(address=leader))
    cluster.ask(RemoveMaster(address=dead))
    cluster.ask(RemoveMaster(address=cluster.leader()))
    (last,) = voters(cluster)
    with pytest.raises(ConfigurationRefused, match=f"{last} is the only master"):
        cluster.ask(RemoveMaster(address=last))


def test_what_cannot_be_added(clusters: Callable[..., MasterCluster], tmp_path: Path) -> None:
    cluster = clusters()
    nobody, stranger = free_addresses(2)
    with pytest.raises(ConfigurationRefused, match=f"no master process responds at {nobody}; first start one"):
        cluster.ask(AddMaster(address=nobody))
    (tserver,) = cluster.ask(ListServers()).tservers
    with pytest.raises(ConfigurationRefused, match=r"cannot be added|responds"):
        cluster.ask(AddMaster(address=tserver.address))
    cluster.start(stranger, ())  # a cluster of its own
    try:
        eventually(lambda: cluster.channels.get(stranger).call(GetStatus(), 5.0).is_leader)
        with pytest.raises(ConfigurationRefused, match=f"the master at {stranger} belongs to a cluster"):
            cluster.channels.get(cluster.addresses[0]).call(AddMaster(address=stranger), 30.0)
    finally:
        cluster.stop(stranger)
    assert voters(cluster) == list(cluster.addresses)


@pytest.mark.slow
def test_the_leader_dies_while_a_master_is_added(clusters: Callable[..., MasterCluster]) -> None:
    cluster = clusters(masters=3)
    cluster.create("t")
    (new,) = free_addresses(1)
    cluster.start(new)
    leader = cluster.leader()
    cluster.ask(AddMaster(address=new))
    cluster.stop(leader)
    cluster.ask(AddMaster(address=new))  # as a command does that is repeated
    eventually(lambda: new in voters(cluster))
    cluster.ask(RemoveMaster(address=leader))
    assert sorted(voters(cluster)) == sorted({*cluster.addresses, new} - {leader})
    assert cluster.names() == ["t"]


@pytest.mark.slow
def test_a_survivor_continues_alone(clusters: Callable[..., MasterCluster]) -> None:
    cluster = clusters(masters=3)
    cluster.create("t")
    leader = cluster.leader()
    survivor = next(address for address in cluster.addresses if address != leader)
    with pytest.raises(ConfigurationRefused, match="a master leads"):
        cluster.channels.get(survivor).call(UnsafeChangeMasters(survivors=(survivor,)), 5.0)
    for address in cluster.addresses:
        if address != survivor:
            cluster.stop(address)
            shutil.rmtree(cluster.path / address)
    channel = cluster.channels.get(survivor)
    with pytest.raises(ConfigurationRefused, match="have to be masters"):
        channel.call(UnsafeChangeMasters(survivors=("other:1", survivor)), 5.0)

    def is_forced() -> bool:
        with contextlib.suppress(Error):
            channel.call(UnsafeChangeMasters(survivors=(survivor,)), 5.0)
            return True
        return False

    eventually(is_forced)
    assert cluster.names() == ["t"]
    (new,) = free_addresses(1)
    add(cluster, new)
    assert [p.role for p in cluster.ask(ListMasters()).configuration.peers] == [PeerRole.VOTER] * 2
    assert cluster.create("u").table["id"] == "t001002", "tables of the lost masters may have the numbers before"
