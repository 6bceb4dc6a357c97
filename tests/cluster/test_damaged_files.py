"""Real processes with damaged column files: no client sees it, ksck reports it, and the replica is replaced."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from typing import Any

import nyala
import pytest
from cluster_workload import Workload, alias, check_replicas, damage_files, make_lead
from forked_command import nyala as nyala_command
from nyala.cluster.wire.messages.methods import ChecksumTablet, ReportTablets, TabletReport
from nyala.testing import MiniCluster

pytestmark = pytest.mark.slow

ROWS = 20_000
STATEMENTS: dict[str, Callable[[nyala.Connection], Any]] = {
    "scan": lambda c: c.execute("SELECT count(v), sum(k) FROM t").fetchall() == [(ROWS, ROWS * (ROWS - 1) // 2)],
    "rows": lambda c: len(c.execute("SELECT k, v FROM t").fetchall()) == ROWS,
    "ordered": lambda c: c.execute("SELECT k FROM t ORDER BY k LIMIT 3").fetchall() == [(0,), (1,), (2,)],
    "grouped": lambda c: len(c.execute("SELECT k % 10, count(*) FROM t GROUP BY 1").fetchall()) == 10,
    "past": lambda c: count_past(c) == ROWS,
    "row": lambda c: c.execute("SELECT v FROM t WHERE k = 777").fetchall() == [("x" * 50 + "777",)],
    "update": lambda c: c.execute("UPDATE t SET v = v WHERE k = 4321").rowcount == 1,
    "upsert": lambda c: c.execute("UPSERT INTO t VALUES (5, ?)", ("x" * 50 + "5",)).rowcount == 1,
    "insert of a row that is there": lambda c: is_present(c),
}


def is_present(connection: nyala.Connection) -> bool:
    try:
        connection.execute("INSERT INTO t VALUES (9999, '')")
    except nyala.IntegrityError:
        return True
    return False


def count_past(connection: nyala.Connection) -> int:
    with connection.at(connection.store.now()) as past:
        return len(past.execute("SELECT v FROM t").fetchall())


@pytest.fixture(scope="module")
def shared() -> Iterator[MiniCluster]:
    with MiniCluster(tservers=3, options={"durability": "os", "master.dead-after": "10"}) as cluster:
        yield cluster


def reports(cluster: MiniCluster, name: str) -> dict[str, TabletReport]:
    return {report.tablet_id: report for report in cluster.call(name, ReportTablets()).tablets}


def ksck(cluster: MiniCluster, *options: str) -> tuple[int, str]:
    ended = nyala_command("cluster", "ksck", cluster.directory, *options)
    return ended.returncode, ended.stdout


@pytest.mark.parametrize("statement", STATEMENTS)
def test_a_damaged_leader_is_no_clients_business(cluster: MiniCluster, statement: str) -> None:
    with nyala.connect(cluster.url, deadline=60) as connection:
        connection.execute("CREATE TABLE t (k BIGINT PRIMARY KEY, v STRING)")
        connection.execute(f"INSERT INTO t SELECT k, '{'x' * 50}' || k FROM generate_series(0, {ROWS - 1}) AS s(k)")
        leader = cluster.leader("t")
        tablet_id = cluster.locations("t")[0].tablet_id
        damaged = damage_files(cluster, leader, "t")[0]
        content = damaged.read_bytes()
        make_lead(cluster, leader, "t")
        assert STATEMENTS[statement](connection), statement
        if statement == "upsert":  # blind: it may need to read no file
            assert STATEMENTS["scan"](connection)

        def is_anew() -> bool:
            if reports(cluster, leader)[tablet_id].state != "RUNNING":
                return False
            # The new replica may have a file of the same name.
            if not damaged.exists() or damaged.read_bytes() != content:
                return True
            # On a busy machine another server may have been elected before the statement, and have read.
            if cluster.leader("t") != leader:
                cluster.call(leader, ChecksumTablet(tablet_id=tablet_id, snapshot=connection.now()), 60.0)
            return False

        cluster.wait_until(is_anew, "the replica was made anew")
        assert STATEMENTS[statement](connection), statement
        check_replicas(cluster)


def test_ksck_goes_on_past_damaged_replicas_and_names_each(cluster: MiniCluster) -> None:
    """Tables with one replica each: nothing is repaired before the check, and intact ones can still be read."""
    with nyala.connect(cluster.url) as connection:
        for name in ("a", "b", "c"):
            connection.execute(f"CREATE TABLE {name} (k BIGINT PRIMARY KEY, v STRING) REPLICAS 1")
            connection.execute(f"INSERT INTO {name} SELECT k, 'x' || k FROM generate_series(1, 5000) AS s(k)")
        holders = {name: cluster.leader(name) for name in ("a", "b")}
        for name, holder in holders.items():
            damage_files(cluster, holder, name)
        status, told = ksck(cluster, "--checksum", "--json")
        found = json.loads(told)
        assert status == 1
        ill = {tablet["table"]: str(tablet) for tablet in found["tablets"] if tablet["health"] != "HEALTHY"}
        assert ill.keys() == {"a", "b"}
        for name, holder in holders.items():
            assert "CorruptionError" in ill[name]
            assert cluster.local.addresses[holder] in ill[name]
        assert found["checksums"]["c"]["rows"] == 5000
        status, told = ksck(cluster)
        assert status == 1
        assert told.count("is damaged: CorruptionError") == 2
        with pytest.raises(nyala.OperationalError, match=r"\.col: "):
            connection.execute("SELECT sum(k), max(v) FROM a").fetchall()


def test_two_of_three_replicas_are_damaged(cluster: MiniCluster) -> None:
    """The third is intact: it leads, and the two are copied from it, one after the other."""
    with nyala.connect(cluster.url, deadline=60) as connection:
        connection.execute("CREATE TABLE t (k BIGINT PRIMARY KEY, v STRING)")
        connection.execute(f"INSERT INTO t SELECT k, '{'x' * 50}' || k FROM generate_series(0, {ROWS - 1}) AS s(k)")
        whole, *others = [cluster.leader("t"), *cluster.followers("t")]
        for name in others:
            damage_files(cluster, name, "t")
        make_lead(cluster, others[0], "t")
        assert STATEMENTS["scan"](connection)
        check_replicas(cluster)
        assert whole in cluster.tservers


def test_a_chain_is_written_while_files_of_its_leaders_are_damaged(cluster: MiniCluster, workload: Workload) -> None:
    stop = threading.Event()

    def scan() -> None:
        with nyala.connect(alias(cluster.url, 3), read_mode="READ_LATEST") as connection:
            while not stop.wait(0.2):
                connection.execute("SELECT count(before), max(at) FROM chain").fetchall()

    reader = threading.Thread(target=scan)
    reader.start()
    try:
        for place in range(2):
            workload.wait_writes(40)
            leader = cluster.leader("chain", place)
            damage_files(cluster, leader, "chain", place)
            make_lead(cluster, leader, "chain", place)
            workload.wait_writes(60)
            cluster.wait_until(lambda: ksck(cluster)[0] == 0, "it is whole again")
    finally:
        stop.set()
        reader.join()
