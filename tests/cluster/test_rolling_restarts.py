"""Real processes: planned absences. A rolling restart by the procedure of docs/deploying.md fails no statement of any
client and leaves every tablet with its replicas where they were; unplanned, the same absence moves them."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import nyala
import pytest
from cluster_workload import PAUSE_SECONDS, Workload, alias, check_replicas
from nyala.__main__ import main
from nyala.cluster.wire.messages.maintenance_methods import QuiesceServer, QuiesceStatus
from nyala.cluster.wire.messages.methods import GetStatus, ListServers, NamedServer
from nyala.errors import OperationalError
from nyala.testing import MiniCluster

pytestmark = pytest.mark.slow

DEAD_AFTER = 4.0
"""Seconds: the heartbeats of servers that run must not be later on a busy machine."""


@pytest.fixture(scope="module")
def shared() -> Iterator[MiniCluster]:
    """Four servers for three replicas: there is always a server to which a replica could be copied."""
    options = {"durability": "os", "master.dead-after": str(DEAD_AFTER)}
    with MiniCluster(tservers=4, options=options) as cluster:
        yield cluster


def run(*words: object) -> int:
    return main([*map(str, words)])


def places(cluster: MiniCluster) -> dict[str, frozenset[str]]:
    """Returns the servers of each tablet's replicas."""
    return {
        location.tablet_id: frozenset(cluster.name_of(peer.address) for peer in location.replicas)
        for location in cluster.locations("chain")
    }


def server(cluster: MiniCluster, name: str) -> NamedServer:
    listed = cluster.ask_master(ListServers()).tservers
    return next(one for one in listed if one.address == cluster.local.addresses[name])


def quiesced(cluster: MiniCluster, name: str) -> QuiesceStatus:
    return cluster.call(name, QuiesceServer(action="status"))


@contextmanager
def scanning(cluster: MiniCluster) -> Iterator[list[str]]:
    """A client that scans all the time: yields the errors of its statements."""
    stop, errors = threading.Event(), list[str]()

    def scan() -> None:
        with nyala.connect(alias(cluster.url, 5), deadline=60, replica_selection="any") as connection:
            while not stop.wait(PAUSE_SECONDS):
                try:
                    connection.execute("SELECT count(*), max(at) FROM chain").fetchall()
                except OperationalError as error:
                    errors.append(f"{type(error).__name__}: {error}")

    thread = threading.Thread(target=scan)
    thread.start()
    try:
        yield errors
    finally:
        stop.set()
        thread.join()


def test_a_rolling_restart_fails_no_statement_and_moves_no_replica(cluster: MiniCluster, workload: Workload) -> None:
    before = places(cluster)
    with scanning(cluster) as errors:
        for name in cluster.tservers:
            assert run("cluster", "maintain", cluster.directory, name) == 0
            assert run("cluster", "quiesce", cluster.directory, name, "--wait") == 0
            status = quiesced(cluster, name)
            assert (status.is_quiescing, status.leaders) == (True, 0)
            # A scan that is being refused counts for a moment.
            cluster.wait_until(lambda name=name: not quiesced(cluster, name).scans, "no scan is left")
            assert cluster.stop(name), "it had to be killed"
            cluster.wait_until(lambda name=name: server(cluster, name).state == "DEAD", "it is away for long")
            workload.wait_writes(20)
            cluster.start(name)
            check_replicas(cluster)
            assert run("cluster", "maintain", cluster.directory, name, "--end") == 0
            assert places(cluster) == before
            assert not cluster.call(name, GetStatus()).details["is_quiescing"]
    assert errors == []
    assert workload.unknown == set(), "no write had an unknown outcome"


def test_an_absence_without_maintenance_moves_replicas_and_the_end_of_one_does(
    cluster: MiniCluster, workload: Workload, capsys: pytest.CaptureFixture[str]
) -> None:
    name = cluster.leader("chain")
    before = places(cluster)
    assert run("cluster", "maintain", cluster.directory, name) == 0
    cluster.kill(name)
    cluster.wait_until(lambda: server(cluster, name).state == "DEAD", "it is away for long")
    for master in cluster.masters:  # the next leading master has read the catalog from its disk
        cluster.kill(master)
        cluster.start(master)
    cluster.wait_until(lambda: server(cluster, name).state == "DEAD", "the next master counts it as dead")
    workload.wait_writes(20)
    assert places(cluster) == before
    capsys.readouterr()
    assert run("cluster", "ksck", cluster.directory) == 1
    assert "is in maintenance, so its replicas are not copied to others" in capsys.readouterr().out
    assert run("cluster", "maintain", cluster.directory, name, "--end") == 0
    cluster.wait_until(lambda: all(name not in servers for servers in places(cluster).values()), "its replicas moved")
    cluster.start(name)
    check_replicas(cluster)


def test_a_server_that_quiesces_no_more_leads_again(cluster: MiniCluster, workload: Workload) -> None:
    name = cluster.leader("chain")
    assert run("cluster", "quiesce", cluster.directory, name, "--wait") == 0
    assert cluster.leader("chain") != name
    cluster.wait_until(lambda: server(cluster, name).is_quiescing, "the master has heard of it")
    assert run("cluster", "rebalance", cluster.directory) == 0
    assert quiesced(cluster, name).leaders == 0, "nor does the rebalancer make it lead"
    assert run("cluster", "quiesce", cluster.directory, name, "--end") == 0
    tablet = cluster.locations("chain")[0].tablet_id
    assert run("tablet", "leader-step-down", cluster.directory, tablet, "--to", name) == 0
    workload.wait_writes(20)
