"""Real processes: tables whose number of replicas is changed while programs write, and servers and masters die. The
servers are at three locations, over which three replicas of a tablet are spread, by the masters or, after the loss of
the only server of a location, by the rebalancer."""

from __future__ import annotations

import random
from collections.abc import Iterator

import nyala
import pytest
from cluster_workload import Workload, check_replicas
from nyala.__main__ import main
from nyala.cluster.raft.messages import PeerRole
from nyala.errors import OperationalError
from nyala.testing import MiniCluster

pytestmark = pytest.mark.slow

PLACES = {f"tserver-{number}": f"/dc/rack{place}" for number, place in enumerate((1, 1, 2, 2, 3), 1)}


@pytest.fixture(scope="module")
def shared() -> Iterator[MiniCluster]:
    options = {"durability": "os", "master.dead-after": "8"}
    options |= {f"{name}.location": place for name, place in PLACES.items()}
    with MiniCluster(tservers=5, options=options) as cluster:
        yield cluster


def counts(cluster: MiniCluster) -> list[int]:
    """Returns the numbers of voters of each tablet; no peer is without a vote."""
    found = []
    for location in cluster.locations("chain"):
        roles = [peer.role for peer in location.replicas]
        found.append(len(roles) if set(roles) == {PeerRole.VOTER} else -1)
    return found


def check_places(cluster: MiniCluster) -> None:
    """Asserts that no two replicas of a tablet are at one location, by the servers' names and by the master."""
    for location in cluster.locations("chain"):
        places = [PLACES[cluster.name_of(peer.address)] for peer in location.replicas]
        assert tuple(places) == location.locations
        assert len(set(places)) == len(places), f"{location.tablet_id} at {places}"


def wait_counts(cluster: MiniCluster, count: int) -> None:
    cluster.wait_until(lambda: set(counts(cluster)) == {count}, f"every tablet has {count} voters", 90)


def test_a_table_gets_five_replicas_and_three_and_one(cluster: MiniCluster, workload: Workload) -> None:
    chance = random.Random(1)
    check_places(cluster)
    with nyala.connect(cluster.url) as connection:
        connection.execute("ALTER TABLE chain SET REPLICAS 5")
        assert "REPLICAS 5" in connection.execute("SHOW CREATE TABLE chain").fetchone()[0]
        victim = chance.choice(cluster.tservers)
        for name in (*cluster.masters, victim):  # in the middle of it
            cluster.kill(name)
            cluster.start(name)
        workload.wait_writes(20)
        wait_counts(cluster, 5)
        check_replicas(cluster)
        with pytest.raises(OperationalError, match="7 replicas need at least 7 tablet servers: 5 are alive"):
            connection.execute("ALTER TABLE chain SET REPLICAS 7")
        connection.execute("ALTER TABLE chain SET TBLPROPERTIES ('kudu.num_tablet_replicas' = '3')")
        cluster.kill(cluster.leader("chain"))
        workload.wait_writes(20)
        cluster.local.start()
        wait_counts(cluster, 3)
        check_replicas(cluster)
        # A replica whose server was away for too long was the first to be removed, perhaps the only one at its
        # location. Masters move none for its location alone.
        assert main(["cluster", "rebalance", str(cluster.directory)]) == 0
        check_places(cluster)
        connection.execute("ALTER TABLE chain SET REPLICAS 1")
        wait_counts(cluster, 1)
        workload.wait_writes(20)
        connection.execute("ALTER TABLE chain SET REPLICAS 3")
        workload.wait_writes(20)
        wait_counts(cluster, 3)
        check_places(cluster)
