"""Real processes under continuous writes: killed, paused, cut off, replaced, restarted. Nothing acknowledged is lost,
nothing happens twice, no session reads backwards, and replicas end alike."""

from __future__ import annotations

import itertools
import random
import threading
import time
from collections.abc import Iterator

import nyala
import pytest
from cluster_workload import Workload, check_chain, check_replicas
from histories import History
from nyala.cluster.wire.methods import LeaveCluster, ListServers
from nyala.errors import OperationalError
from nyala.testing import MiniCluster

pytestmark = pytest.mark.slow


@pytest.fixture
def cluster() -> Iterator[MiniCluster]:
    with MiniCluster(tservers=3) as cluster:
        yield cluster


@pytest.fixture
def workload(cluster: MiniCluster) -> Iterator[Workload]:
    workload = Workload(cluster.url)
    workload.create()
    with workload.running():
        workload.wait_writes(30)
        yield workload
    workload.check()
    check_replicas(cluster)


def test_a_leader_is_killed_then_a_follower(cluster: MiniCluster, workload: Workload) -> None:
    leader = cluster.leader("chain")
    cluster.kill(leader)
    workload.wait_writes(60)
    cluster.start(leader)
    workload.wait_writes(30)
    follower = cluster.followers("chain", 1)[0]
    cluster.kill(follower)
    workload.wait_writes(60)
    cluster.start(follower)
    workload.wait_writes(30)


def test_a_server_stands_still_for_ten_seconds(cluster: MiniCluster, workload: Workload) -> None:
    leader = cluster.leader("chain")
    cluster.pause(leader)
    workload.wait_writes(60)
    time.sleep(10)
    cluster.resume(leader)
    workload.wait_writes(60)


def test_a_server_is_cut_off(cluster: MiniCluster, workload: Workload) -> None:
    leader = cluster.leader("chain", 2)
    cluster.cut(leader)
    workload.wait_writes(60)
    cluster.heal()
    workload.wait_writes(60)


def test_two_servers_do_not_hear_each_other(cluster: MiniCluster, workload: Workload) -> None:
    leader = cluster.leader("chain")
    cluster.cut(leader, cluster.followers("chain")[0])
    workload.wait_writes(100)
    cluster.heal()
    workload.wait_writes(60)


def test_all_servers_are_restarted_one_after_the_other(cluster: MiniCluster, workload: Workload) -> None:
    for name in cluster.tservers:
        cluster.restart(name)
        workload.wait_writes(40)
    assert not workload.unknown, "no client saw an error"


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


def test_a_server_that_stays_away_is_replaced() -> None:
    with MiniCluster(tservers=4, options={"master.dead-after": "3"}) as cluster:
        workload = Workload(cluster.url)
        workload.create()
        with workload.running():
            workload.wait_writes(30)
            lost = cluster.leader("chain")
            address = cluster.local.addresses[lost]
            cluster.kill(lost)

            def is_replaced() -> bool:
                peers = [peer.address for location in cluster.locations("chain") for peer in location.replicas]
                return len(peers) == 9 and address not in peers

            cluster.wait_until(is_replaced, "its replicas are elsewhere")
            workload.wait_writes(40)
            cluster.start(lost)
        workload.check()
        check_replicas(cluster)


def test_a_master_is_killed_while_tables_are_made() -> None:
    with MiniCluster(tservers=3, masters=3) as cluster:
        made: list[str] = []
        stop = threading.Event()

        def make() -> None:
            with nyala.connect(cluster.url) as connection:
                for number in itertools.count():
                    if stop.is_set():
                        return
                    connection.execute(
                        f"CREATE TABLE made_{number} (id INT PRIMARY KEY) DISTRIBUTE BY HASH (id) INTO 2 BUCKETS"
                    )
                    made.append(f"made_{number}")

        thread = threading.Thread(target=make)
        thread.start()
        try:
            for name in cluster.masters[:2]:
                wait_made(cluster, made)
                cluster.kill(name)
                wait_made(cluster, made)
                cluster.start(name)
        finally:
            stop.set()
            thread.join(60)
        with nyala.connect(cluster.url) as connection:
            for name in made:
                connection.execute(f"INSERT INTO {name} VALUES (1)")
                assert connection.execute(f"SELECT count(*) FROM {name}").fetchone() == (1,)


def wait_made(cluster: MiniCluster, made: list[str]) -> None:
    before = len(made)
    cluster.wait_until(lambda: len(made) > before + 1, "two more tables are made", 90)


def test_a_chain_holds_at_past_moments_after_all_servers_are_killed(cluster: MiniCluster) -> None:
    workload = Workload(cluster.url, writers=4)
    workload.create()
    moments = []
    with workload.running():
        for _ in range(3):
            workload.wait_writes(80)
            with nyala.connect(cluster.url) as connection:
                (count,) = connection.execute("SELECT count(*) FROM chain").fetchone()
                moments.append((connection.store.now(), count))
    for name in cluster.tservers:
        cluster.kill(name)
    for name in cluster.tservers:
        cluster.start(name)
    with nyala.connect(cluster.url) as connection:
        for moment, count in moments:
            past = connection.at(moment)
            rows = past.execute("SELECT id, before FROM chain").fetchall()
            assert len(rows) >= count
            check_chain(rows)
    workload.check()
    check_replicas(cluster)


def test_single_rows_are_linearizable(cluster: MiniCluster) -> None:
    with nyala.connect(cluster.url) as connection:
        connection.execute("CREATE TABLE register (k INT PRIMARY KEY, v BIGINT) DISTRIBUTE BY HASH (k) INTO 2 BUCKETS")
    history, stop, values, wrong = History(), threading.Event(), itertools.count(1), []

    def client(seed: int) -> None:
        chosen = random.Random(seed)
        with nyala.connect(cluster.url, read_mode="READ_LATEST") as connection:
            while not stop.is_set():
                key = chosen.randrange(6)
                try:
                    if chosen.random() < 0.5:
                        value = next(values)
                        with history.write(key, value):
                            connection.execute("UPSERT INTO register VALUES (?, ?)", (key, value))
                    else:
                        began = time.monotonic()
                        row = connection.execute("SELECT v FROM register WHERE k = ?", (key,)).fetchone()
                        history.read(key, None if row is None else row[0], began)
                except OperationalError as error:
                    if not error.retryable:
                        wrong.append(error)
                        return
                stop.wait(0.01)

    threads = [threading.Thread(target=client, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    try:
        for round_ in range(3):
            time.sleep(2)
            victim = cluster.leader("register", round_ % 2)
            if round_ == 1:
                cluster.pause(victim)
                time.sleep(4)
                cluster.resume(victim)
            else:
                cluster.kill(victim)
                time.sleep(3)
                cluster.start(victim)
        time.sleep(2)
    finally:
        stop.set()
        for thread in threads:
            thread.join(60)
    assert not wrong
    assert len(history.operations) > 200
    history.check()
    check_replicas(cluster)
