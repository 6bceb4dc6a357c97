"""Three masters, real processes: killed and restarted while clients create, alter and drop tables, and write rows.

The tests share a cluster.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from cluster_ddl_workload import TableMaker, check_no_orphans, leading_master
from cluster_workload import Workload, check_replicas
from nyala.testing import MiniCluster

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def shared() -> Iterator[MiniCluster]:
    with MiniCluster(tservers=3, masters=3, options={"durability": "os"}) as cluster:
        yield cluster


def test_leading_masters_are_killed_while_tables_are_made(cluster: MiniCluster) -> None:
    one, other = TableMaker(cluster.url, "one"), TableMaker(cluster.url, "other")
    with one.running(), other.running():
        for _ in range(2):
            one.wait_done(cluster, 2)
            leader = leading_master(cluster)
            cluster.kill(leader)
            one.wait_done(cluster, 4)
            other.wait_done(cluster, 4)
            cluster.start(leader)
    one.check()
    other.check()
    check_no_orphans(cluster)
    check_replicas(cluster)
    one.drop_all()
    other.drop_all()
    check_no_orphans(cluster)


def test_all_servers_are_restarted_one_after_the_other(cluster: MiniCluster) -> None:
    workload, maker = Workload(cluster.url), TableMaker(cluster.url, "made")
    workload.create()
    with workload.running(), maker.running():
        for name in (*cluster.tservers, *cluster.masters):
            cluster.restart(name)
            workload.wait_writes(40)
            maker.wait_done(cluster, 2)
    assert not workload.unknown, "no client saw an error"
    assert not maker.retried, "no client saw an error"
    workload.check()
    maker.check()
    check_no_orphans(cluster)
    check_replicas(cluster)
