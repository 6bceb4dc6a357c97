"""Users of a cluster are the masters' and the tablet servers': kill -9 of any of them takes nothing away, and a server
that restarts without masters still refuses what it refused before. The tests share a cluster of real processes."""

from __future__ import annotations

from collections.abc import Iterator

import nyala
import pytest
from cluster_ddl_workload import leading_master
from nyala.cluster.client.client import Client
from nyala.cluster.wire.calls.rpc import Channel
from nyala.cluster.wire.messages.methods import ReadRow
from nyala.errors import NotTheLeader, PermissionDenied, ReplicaUnavailable, ServerUnavailable
from nyala.model.clock import HybridClock
from nyala.testing import MiniCluster

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def shared() -> Iterator[MiniCluster]:
    with MiniCluster(tservers=1, masters=3, options={"durability": "os"}) as cluster:
        yield cluster


def test_users_survive_the_leading_master_and_the_tablet_server(cluster: MiniCluster) -> None:
    with nyala.connect(cluster.url) as owner:
        owner.execute("CREATE TABLE t (k INT PRIMARY KEY, v INT); INSERT INTO t VALUES (1, 1)")
        owner.execute("CREATE TABLE o (k INT PRIMARY KEY, v INT); INSERT INTO o VALUES (1, 1)")
        owner.execute("CREATE ROLE readers; CREATE USER ann PASSWORD 'of ann' IN ROLE readers")
        owner.execute("GRANT SELECT ON t TO readers WITH GRANT OPTION; GRANT CREATE ON SCHEMA public TO ann")
        grants = owner.execute("SHOW GRANTS").fetchall()
        for _ in range(2):
            leader = leading_master(cluster)
            cluster.kill(leader)
            with nyala.connect(cluster.url, user="ann", password="of ann") as ann:
                assert ann.execute("SELECT v FROM t").fetchall() == [(1,)]
                ann.execute("CREATE TABLE hers (k INT PRIMARY KEY)")
                assert ann.store.table("hers").owner == "ann"
                ann.execute("DROP TABLE hers")
            owner.store.refresh_catalog()
            assert owner.execute("SHOW GRANTS").fetchall() == grants
            cluster.start(leader)
        _a_server_without_masters_refuses(cluster)


def _a_server_without_masters_refuses(cluster: MiniCluster) -> None:
    (mine,), (other,) = cluster.locations("t"), cluster.locations("o")
    server, address = cluster.tservers[0], mine.replicas[0].address
    with nyala.connect(cluster.url, user="ann", password="of ann") as ann:
        assert isinstance(ann.store, Client) and ann.store._login is not None
        tokens = ann.store._login
        for master in cluster.masters:
            cluster.kill(master)
        cluster.kill(server)
        cluster.local.process(server).start()
        cluster.local.process(server).wait_ready()
        channel = Channel(address, HybridClock(), tokens=tokens)
        try:
            reading = ReadRow(tablet_id=mine.tablet_id, schema_version=0, key=(1,), columns=("k", "v"))
            cluster.wait_until(lambda: _answers(channel, reading), "the tablet is served again")
            with pytest.raises(PermissionDenied, match="for table o: user ann needs SELECT"):
                channel.call(ReadRow(tablet_id=other.tablet_id, schema_version=0, key=(1,), columns=("v",)))
        finally:
            channel.close()
        for master in cluster.masters:
            cluster.local.process(master).start()
    cluster.local.wait_registered(60.0, [server])


def _answers(channel: Channel, request: ReadRow) -> bool:
    try:
        assert channel.call(request).row == (1, 1)
    except (NotTheLeader, ReplicaUnavailable, ServerUnavailable):
        return False
    return True


def test_a_gateway_checks_the_passwords_of_the_clusters_users(cluster: MiniCluster) -> None:
    pytest.importorskip("psycopg")
    from gateway_support import users_of_a_gateway

    with nyala.connect(cluster.url) as owner:
        users_of_a_gateway(owner, cluster.url)
