"""Servers that join, leave, or never return, under continuous writes: replicas move, and no client notices.

The tests share a cluster that grows.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from cluster_workload import Workload
from nyala.cluster.wire.messages.maintenance_methods import LeaveCluster
from nyala.cluster.wire.messages.methods import ListServers
from nyala.testing import MiniCluster

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def shared() -> Iterator[MiniCluster]:
    with MiniCluster(tservers=3, options={"durability": "os", "master.dead-after": "3"}) as cluster:
        yield cluster


def test_a_fourth_server_joins_and_one_leaves(cluster: MiniCluster, workload: Workload) -> None:
    cluster.add_tserver()
    leaving = cluster.leader("chain")
    servers = cluster.ask_master(ListServers()).tservers
    chosen = next(server for server in servers if cluster.name_of(server.address) == leaving)
    cluster.ask_master(LeaveCluster(server=chosen.id))

    def is_empty() -> bool:
        return next(s.replicas for s in cluster.ask_master(ListServers()).tservers if s.id == chosen.id) == 0

    cluster.wait_until(is_empty, f"{leaving} holds no replica")
    workload.wait_writes(40)
    assert not workload.unknown, "no client saw an error"
    cluster.ask_master(LeaveCluster(server=chosen.id, leaving=False))


def test_a_server_that_stays_away_is_replaced(cluster: MiniCluster, workload: Workload) -> None:
    if len(cluster.tservers) == 3:
        cluster.add_tserver()
    lost = cluster.leader("chain")
    address = cluster.local.addresses[lost]
    cluster.kill(lost)

    def is_replaced() -> bool:
        peers = [peer.address for location in cluster.locations("chain") for peer in location.replicas]
        return len(peers) == 9 and address not in peers

    cluster.wait_until(is_replaced, "its replicas are elsewhere")
    workload.wait_writes(40)
    cluster.start(lost)
