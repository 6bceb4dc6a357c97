"""Real processes: servers whose directories are lost. One returns empty, and two of three never return."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import nyala
import pytest
from cluster_workload import alias, check_replicas
from forked_command import nyala as nyala_command
from nyala.cluster.wire.messages.methods import ListServers, NamedServer
from nyala.errors import OperationalError
from nyala.testing import MiniCluster

pytestmark = pytest.mark.slow


@pytest.fixture
def own(tmp_path: Path) -> Iterator[MiniCluster]:
    with MiniCluster(tservers=3, directory=tmp_path / "c", options={"master.dead-after": "3"}) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MiniCluster]:
    """For tests that leave three servers alive and `ksck` clean."""
    options = {"master.dead-after": "3"}
    with MiniCluster(tservers=3, directory=tmp_path_factory.mktemp("lost") / "c", options=options) as cluster:
        yield cluster


def run(*words: object) -> tuple[int, str]:
    ended = nyala_command(*words)
    return ended.returncode, ended.stdout + ended.stderr


def force(cluster: MiniCluster, *command: object) -> str:
    """Output of `tablet unsafe-change-config` when it has changed the configuration: the leader of a lost majority must
    have resigned."""
    told = ""

    def is_forced() -> bool:
        nonlocal told
        status, told = run(*command, "--accept-data-loss")
        assert status == 0 or "has a leader" in told, told
        return status == 0

    cluster.wait_until(is_forced, "no leader is left")
    return told


def servers(cluster: MiniCluster) -> list[NamedServer]:
    return list(cluster.ask_master(ListServers()).tservers)


def lose(cluster: MiniCluster, name: str) -> None:
    """Kills a server and deletes its directory."""
    cluster.kill(name)
    shutil.rmtree(cluster.directory / name)


def test_a_server_that_comes_back_empty_takes_the_place_of_the_one_before(shared: MiniCluster) -> None:
    with nyala.connect(shared.url) as connection:
        connection.execute("CREATE TABLE t (k INT PRIMARY KEY)")
        connection.execute("INSERT INTO t VALUES (1)")
        before = {server.id for server in servers(shared)}
        lose(shared, "tserver-2")
        shared.start("tserver-2")

        def is_whole() -> bool:
            return run("cluster", "ksck", shared.directory, "--checksum")[0] == 0

        shared.wait_until(is_whole, "ksck is clean, without a restart of the master")
        now = servers(shared)
        assert [server.state for server in now] == ["ALIVE"] * 3
        assert len({server.id for server in now} - before) == 1
        assert connection.execute("SELECT k FROM t").fetchall() == [(1,)]
        check_replicas(shared)
        connection.execute("DROP TABLE t")


@pytest.mark.parametrize("called", ["id", "address", "name"])
def test_what_is_lost_for_good_is_told_and_can_be_told_to_leave(shared: MiniCluster, called: str) -> None:
    """The only replica of a table was on the server: nothing can be copied, and ksck reports that."""
    with nyala.connect(shared.url) as connection:
        connection.execute("CREATE TABLE t (k INT PRIMARY KEY) REPLICAS 1")
        name = shared.leader("t")
        lost = next(server for server in servers(shared) if server.address == shared.local.addresses[name])
        lose(shared, name)
        shared.start(name)
        told = run("cluster", "ksck", shared.directory)
        assert told[0] == 1
        assert f"tablet server {lost.id} is lost, as another one runs at its address {lost.address}" in told[1]
        assert "has not heard of it" not in told[1]
        words = {"id": lost.id, "address": lost.address, "name": name}
        status, left = run("cluster", "leave", shared.directory, words[called])
        assert status == 0
        assert f"({lost.id}) has lost its directory" in left
        connection.execute("DROP TABLE t")
        shared.wait_until(lambda: all(server.id != lost.id for server in servers(shared)), "it is forgotten")
        shared.wait_until(lambda: run("cluster", "ksck", shared.directory)[0] == 0, "ksck is clean")
        assert all(server.state == "ALIVE" for server in servers(shared)), "the one that runs there did not leave"


def test_a_server_that_is_dead_and_left_is_forgotten(own: MiniCluster) -> None:
    added = own.add_tserver()
    (gone,) = [server.id for server in servers(own) if server.address == own.local.addresses[added]]
    own.kill(added)
    own.wait_until(lambda: any(s.state == "DEAD" for s in servers(own)), "it is dead")
    assert run("cluster", "leave", own.directory, added)[0] == 0
    own.wait_until(lambda: all(server.id != gone for server in servers(own)), "it is forgotten")
    own.wait_until(lambda: run("cluster", "ksck", own.directory)[0] == 0, "ksck is clean")


def test_one_replica_goes_on_where_the_majority_is_lost_for_good(own: MiniCluster) -> None:
    with nyala.connect(own.url) as connection, nyala.connect(alias(own.url, 1), deadline=5) as hasty:
        connection.execute("CREATE TABLE t (k INT PRIMARY KEY, v STRING)")
        connection.execute("INSERT INTO t SELECT k, 'v' || k FROM generate_series(1, 1000) AS s(k)")
        survivor, *others = [own.leader("t"), *own.followers("t")]
        (tablet,) = [location.tablet_id for location in own.locations("t")]
        command = ("tablet", "unsafe-change-config", own.directory, tablet, "--survivor", survivor)
        status, told = run(*command, "--accept-data-loss")
        assert status != 0
        assert "has a leader" in told or "is led" in told
        for name in others:
            lose(own, name)
        with pytest.raises(OperationalError):
            hasty.execute("INSERT INTO t VALUES (5000, 'x')")
        status, told = run(*command)
        assert status == 1
        assert "PERMANENTLY LOST" in told
        assert "nothing was changed" in told
        with pytest.raises(OperationalError):
            hasty.execute("SELECT count(*) FROM t")
        force(own, *command)
        (count,) = connection.execute("SELECT count(*) FROM t").fetchone()
        assert count in (1000, 1001)
        assert connection.execute("SELECT v FROM t WHERE k = 77").fetchall() == [("v77",)]
        connection.execute("UPSERT INTO t VALUES (5000, 'x'), (77, 'new')")
        assert connection.execute("SELECT v FROM t WHERE k IN (77, 5000) ORDER BY k").fetchall() == [("new",), ("x",)]
        own.restart(survivor)
        assert connection.execute("SELECT count(*) FROM t").fetchone() == (1001,)
        for name in others:  # empty machines in their places: the tablet gets its three replicas again
            own.start(name)
        own.wait_until(lambda: run("cluster", "ksck", own.directory)[0] == 0, "it has three replicas again", 90)
        check_replicas(own)
        assert connection.execute("SELECT count(*) FROM t").fetchone() == (1001,)


def test_two_of_five_replicas_go_on_together(tmp_path: Path) -> None:
    with (
        MiniCluster(tservers=5, directory=tmp_path / "c", options={"master.dead-after": "3"}) as cluster,
        nyala.connect(cluster.url) as connection,
    ):
        connection.execute("CREATE TABLE t (k INT PRIMARY KEY) REPLICAS 5")
        connection.execute("INSERT INTO t SELECT k FROM generate_series(1, 1000) AS s(k)")
        first, second, *others = [cluster.leader("t"), *cluster.followers("t")]
        (tablet,) = [location.tablet_id for location in cluster.locations("t")]
        for name in others:
            lose(cluster, name)
        command = ("tablet", "unsafe-change-config", cluster.directory, tablet)
        command = (*command, "--survivor", first, "--survivor", second)
        status, told = run(*command)
        assert status == 1
        assert f"The replica at {second} at {cluster.local.addresses[second]}" in told
        assert "FOLLOWS it, and LOSES entries that it lacks" in told
        assert "one of 2 replicas" in force(cluster, *command)
        assert connection.execute("SELECT count(*) FROM t").fetchone() == (1000,)
        connection.execute("INSERT INTO t VALUES (1001)")
        voters = {cluster.name_of(peer.address) for peer in cluster.locations("t")[0].replicas}
        assert {first, second} <= voters
        assert not voters & set(others)
        for name in others:
            cluster.start(name)
        cluster.wait_until(lambda: run("cluster", "ksck", cluster.directory)[0] == 0, "it has five replicas again", 90)
        check_replicas(cluster)
        assert connection.execute("SELECT count(*) FROM t").fetchone() == (1001,)


def test_a_configuration_is_forced_only_on_a_replica_of_the_tablet(own: MiniCluster) -> None:
    added = own.add_tserver()
    with nyala.connect(own.url) as connection:
        connection.execute("CREATE TABLE t (k INT PRIMARY KEY) REPLICAS 1")
    holder = own.leader("t")
    other = next(name for name in (*own.tservers, added) if name != holder)
    (tablet,) = [location.tablet_id for location in own.locations("t")]
    status, told = run("tablet", "unsafe-change-config", own.directory, tablet, "--survivor", other)
    assert status != 0
    assert "has no replica of tablet" in told
