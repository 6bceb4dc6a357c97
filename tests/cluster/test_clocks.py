"""Wrong clocks of clients and servers, with real processes: nothing is executed twice, no other clock follows them, and
the past does not change."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator

import nyala
import pytest
from cluster_workload import Workload, check_replicas
from nyala.cluster.client.client import Client
from nyala.cluster.wire.calls.rpc import Channel
from nyala.cluster.wire.client_clock import ClientClock
from nyala.cluster.wire.messages import methods
from nyala.cluster.wire.messages.methods import Call, GetStatus, WriteRow
from nyala.driver.stores.cluster_url import servers
from nyala.errors import ClockTooFarAhead, OperationalError
from nyala.model.clock import LOGICAL_BITS, HybridClock, wall_microseconds
from nyala.model.store import Op, Timestamp
from nyala.testing import MiniCluster

pytestmark = pytest.mark.slow

HOURS = 7200


@pytest.fixture(scope="module")
def cluster() -> Iterator[MiniCluster]:
    with MiniCluster(tservers=3, options={"durability": "os"}) as found:
        yield found


def ahead(seconds: float) -> HybridClock:
    return HybridClock(lambda: wall_microseconds() + int(seconds * 1e6))


def status(cluster: MiniCluster, name: str) -> methods.ServerStatus:
    channel = Channel(cluster.local.addresses[name], ClientClock())
    try:
        found: methods.ServerStatus = channel.call(GetStatus())
        return found
    finally:
        channel.close()


def lead(cluster: MiniCluster, name: str) -> float:
    """Seconds by which a server's clock is ahead of this machine's."""
    return (status(cluster, name).clock >> LOGICAL_BITS) / 1e6 - time.time()


def leads(cluster: MiniCluster) -> list[float]:
    return [lead(cluster, name) for name in (*cluster.tservers, *cluster.masters)]


def test_a_client_that_is_hours_ahead_changes_nothing(cluster: MiniCluster) -> None:
    with nyala.connect(cluster.url) as connection:
        connection.execute("CREATE TABLE once (k INT PRIMARY KEY, v INT)")
        (tablet,) = cluster.locations("once")
        address = cluster.local.addresses[cluster.leader("once")]
        row = {"k": 1, "v": 1}
        table = connection.store.table("once")
        write = WriteRow(
            tablet_id=tablet.tablet_id,
            schema_version=table.version,
            op=Op.INSERT,
            row=row,
            call=Call(uuid.uuid4().hex, 1, 1),
        )
        cluster.wait_until(lambda: max(leads(cluster)) < 0.1, "no server is ahead because of another test")
        channel = Channel(address, ClientClock())
        first = channel.call(write)
        assert first.applied == 1
        for name in (*cluster.tservers, *cluster.masters):
            wrong = Channel(cluster.local.addresses[name], ahead(HOURS))
            with pytest.raises(ClockTooFarAhead, match=r"7200 s ahead of this machine's"):
                wrong.call(GetStatus())
            with pytest.raises(ClockTooFarAhead):
                wrong.call(WriteRow(tablet.tablet_id, table.version, Op.INSERT, row, Call(uuid.uuid4().hex, 1, 1)))
            wrong.close()
        with pytest.raises(ClockTooFarAhead):
            Client(servers(cluster.url), clock=ahead(HOURS)).table("once")
        moment = wall_microseconds() << LOGICAL_BITS
        assert channel.call(write) == first
        with connection.at(moment) as then:
            assert then.execute("SELECT count(*) FROM once").fetchone() == (1,)
        channel.close()
        assert max(leads(cluster)) < 1


def test_clients_that_are_each_a_little_ahead_do_not_add_up(cluster: MiniCluster) -> None:
    with nyala.connect(cluster.url) as connection:
        connection.execute("CREATE TABLE steps (k INT PRIMARY KEY)")
        channel = Channel(cluster.local.addresses[cluster.leader("steps")], clock := ClientClock())
        channel.call(GetStatus())
        for _ in range(4):
            clock.update(Timestamp(clock.now() + (9_000_000 << LOGICAL_BITS)))
            try:
                channel.call(GetStatus())
            except ClockTooFarAhead:
                break
        channel.close()
        for step in range(2, 5):
            moment = (wall_microseconds() + step * 8_000_000) << LOGICAL_BITS
            with pytest.raises(nyala.Error), connection.at(moment) as then:
                then.execute("SELECT * FROM steps").fetchall()
        assert max(leads(cluster)) < 11


def test_a_leader_whose_clock_jumps_ahead_is_replaced_and_drags_nobody_along(cluster: MiniCluster) -> None:
    workload = Workload(cluster.url, tablets=3, poisoned=False)
    with nyala.connect(cluster.url) as connection:
        connection.execute("DROP TABLE IF EXISTS chain")
    workload.create()
    with workload.running():
        workload.wait_writes(30)
        victim = cluster.leader("chain")
        others = [name for name in (*cluster.tservers, *cluster.masters) if name != victim]
        cluster.faults(victim, clock_skew=HOURS)
        assert lead(cluster, victim) > HOURS - 60
        workload.wait_writes(60)

        def leads_nothing() -> bool:
            with nyala.connect(cluster.url):
                return all(cluster.leader("chain", place) != victim for place in range(3))

        cluster.wait_until(leads_nothing, f"{victim} leads nothing")
        workload.wait_writes(30)
        assert max(lead(cluster, name) for name in others) < 11
        cluster.heal(victim)
        cluster.restart(victim)
        workload.wait_writes(30)
        assert lead(cluster, victim) < 11
    workload.check()
    check_replicas(cluster)


def test_all_clocks_ahead_and_back_again_stop_nothing() -> None:
    with MiniCluster(tservers=3, options={"durability": "os"}) as cluster:
        check_all_ahead(cluster)


def check_all_ahead(cluster: MiniCluster) -> None:
    everybody = (*cluster.masters, *cluster.tservers)
    with nyala.connect(cluster.url) as connection:
        connection.execute("CREATE TABLE back (k INT PRIMARY KEY)")
    for name in everybody:
        cluster.faults(name, clock_skew=HOURS)

    def insert(key: int) -> None:
        # Servers that start at once need their 30 s of memory of other clocks before all follow the same ones.
        end = time.monotonic() + 150
        while True:
            try:
                with nyala.connect(cluster.url) as connection:
                    connection.execute(f"UPSERT INTO back VALUES ({key})")
                    return
            except OperationalError:
                assert time.monotonic() < end
                time.sleep(0.2)

    insert(1)
    cluster.heal(*everybody)
    insert(2)
    for name in everybody:
        cluster.kill(name)
    for name in everybody:
        cluster.start(name)
    insert(3)
    with nyala.connect(cluster.url) as connection:
        assert connection.execute("SELECT k FROM back ORDER BY k").fetchall() == [(1,), (2,), (3,)]
