"""Masters that are replaced under load, real processes: no acknowledged DDL is lost, and clients and tablet servers
find the new ones.

The tests share a cluster whose masters become others.
"""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import threading
from collections.abc import Iterator

import nyala
import pytest
from cluster_ddl_workload import TableMaker, check_no_orphans, leading_master
from nyala.__main__ import main
from nyala.cluster.admin.master_changes import MasterChanges
from nyala.cluster.client.client import Client
from nyala.cluster.wire.messages.membership_methods import ListMasters
from nyala.cluster.wire.messages.methods import CatalogReply, GetCatalog, GetStatus, ListServers, ServersReply
from nyala.errors import ClusterError, DeadlineExceeded, NotTheLeader
from nyala.net.addresses import host_of, port_of
from nyala.testing import MiniCluster

pytestmark = pytest.mark.slow

OPTIONS = {"durability": "os", "master.replicas": "1", "tserver.memrowset-bytes": "1000000"}


@pytest.fixture(scope="module")
def shared() -> Iterator[MiniCluster]:
    with MiniCluster(tservers=1, masters=3, options=OPTIONS) as cluster:
        yield cluster


def changes(cluster: MiniCluster) -> MasterChanges:
    """As a command that knows all addresses makes them."""
    return MasterChanges(cluster._channels, cluster.local.masters, lambda told: None, 60.0)


def addresses(cluster: MiniCluster) -> set[str]:
    return {peer.address for peer in cluster.ask_master(ListMasters()).configuration.voters}


def started(cluster: MiniCluster) -> str:
    """The name of a new master process, which waits to be added."""
    name = cluster.local.add_master()
    cluster.start(name)
    return name


def test_a_killed_master_is_replaced_while_the_leader_is_killed_too(cluster: MiniCluster) -> None:
    maker = TableMaker(cluster.url, "made")
    with maker.running():
        maker.wait_done(cluster, 2)
        leader = leading_master(cluster)
        dead = next(name for name in cluster.masters if name != leader)
        cluster.kill(dead)
        new = started(cluster)
        old, address = cluster.local.addresses[dead], cluster.local.addresses[new]
        interrupted = threading.Thread(target=_replace_once, args=(cluster, old, address))
        interrupted.start()
        cluster.wait_until(lambda: old not in addresses(cluster), "the dead master is removed")
        cluster.kill(leader)
        cluster.start(leader)
        interrupted.join()
        changes(cluster).replace(old, address)
        changes(cluster).replace(old, address)  # nothing is left to do
        assert addresses(cluster) == {at for name, at in _masters(cluster) if name != dead}
        maker.wait_done(cluster, 3)
    maker.check()
    check_no_orphans(cluster)
    cluster.start(dead)
    cluster.wait_until(lambda: _membership(cluster, dead) == "REMOVED", "the dead master notices its removal")
    with pytest.raises(NotTheLeader, match="this master was removed from the cluster"):
        cluster.call(dead, ListMasters())
    cluster.local.forget(dead)
    maker.drop_all()


def _replace_once(cluster: MiniCluster, old: str, new: str) -> None:
    with contextlib.suppress(ClusterError):  # interrupted by the death of the leader, perhaps
        changes(cluster).replace(old, new)


def _masters(cluster: MiniCluster) -> list[tuple[str, str]]:
    return [(name, cluster.local.addresses[name]) for name in cluster.masters]


def _membership(cluster: MiniCluster, name: str) -> str:
    return str(cluster.call(name, GetStatus()).details["membership"])


def test_client_and_tablet_server_outlive_all_their_masters(cluster: MiniCluster) -> None:
    first = cluster.masters
    # Connections of one process share a client; these are two others.
    given = [(host_of(address), port_of(address)) for address in cluster.local.masters]
    with nyala.connect(cluster.url) as connection, Client(given) as idle, Client(given) as unused:
        connection.execute("CREATE TABLE kept (k INT PRIMARY KEY)")
        idle.describe_tablets(idle.table("kept"))
        idle._catalog.stop()  # it is idle from now on: a refresh a second after the last use would be one too many
        known = idle.masters
        for number, name in enumerate(first):
            new = cluster.local.addresses[started(cluster)]
            changes(cluster).replace(cluster.local.addresses[name], new)
            connection.execute(f"INSERT INTO kept VALUES ({number})")
            connection.execute(f"CREATE TABLE made_{number} (k INT PRIMARY KEY)")
            cluster.local.forget(name)
        assert not set(first) & set(cluster.masters)
        connection.execute("CREATE TABLE last (k INT PRIMARY KEY)")
        # all are started as they were: the tablet server with masters of which none is left
        (tserver,) = cluster.tservers
        assert not set(cluster.local.process(tserver).command[6].split(",")) & set(cluster.local.masters)
        for name in (*cluster.masters, tserver):
            cluster.restart(name)
        assert "--masters is stale" in cluster.local.process(tserver).log_file.read_text()
        assert connection.execute("SELECT count(*) FROM kept").fetchall() == [(len(first),)]
        assert set(cluster.local.masters) <= set(connection.store.masters), "gateways show these in their pages"
        connection.execute("CREATE TABLE after (k INT PRIMARY KEY)")
        idle_clients_are_served_or_told_why(cluster, idle, unused, known)
    told = cluster.call(tserver, GetStatus()).details["masters"]
    assert {master["address"] for master in told} == addresses(cluster)


def idle_clients_are_served_or_told_why(
    cluster: MiniCluster, idle: Client, unused: Client, known: tuple[str, ...]
) -> None:
    """One that knows a tablet server learns the present masters from it; one that has read no table cannot."""
    assert idle.masters == known and not set(known) & addresses(cluster)
    idle._masters.call(ListServers(), ServersReply, "a list of servers")
    assert addresses(cluster) <= set(idle.masters)
    assert idle.table("after").name == "after", "it reads the catalog of today"
    with pytest.raises(DeadlineExceeded, match="have been replaced while it was idle, connect again, to those that"):
        unused._masters.call(GetCatalog(), CatalogReply, "the catalog", seconds=1.0)


def test_masters_are_the_same_in_sql_commands_and_ksck(
    cluster: MiniCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    directory = str(cluster.directory)
    dead = next(name for name in cluster.masters if name != leading_master(cluster))
    cluster.kill(dead)
    with nyala.connect(cluster.url) as connection:
        connection.execute("CREATE TABLE one_more (k INT PRIMARY KEY)")
        query = "SELECT address, state, term, last_index, lag_entries, role, error IS NULL FROM nyala_catalog.masters"
        found = {row[0]: row[1:] for row in connection.execute(query).fetchall()}
        assert main(["cluster", "masters", directory, "--json"]) == 0
        listed = {each["address"]: each for each in json.loads(capsys.readouterr().out)}
        assert main(["cluster", "ksck", directory, "--json"]) == 1
        checked = {
            each["address"]: each["state"]
            for each in json.loads(capsys.readouterr().out)["listed"]
            if each["kind"] == "master"
        }
        assert checked == {address: row[0] for address, row in found.items()}
        assert checked == {address: each["state"] for address, each in listed.items()}
        assert sorted(checked.values()) == ["FOLLOWER", "LEADER", "SILENT"]
        assert found[cluster.local.addresses[dead]] == ("SILENT", None, None, None, "VOTER", False)
        (leader,) = [row for row in found.values() if row[0] == "LEADER"]
        assert leader[1] > 0 and leader[2] > 0 and leader[3:] == (0, "VOTER", True)
        cluster.start(dead)
        caught_up = "SELECT count(*) FROM nyala_catalog.masters WHERE lag_entries = 0 AND error IS NULL"
        cluster.wait_until(lambda: connection.execute(caught_up).fetchall() == [(3,)], "all masters have caught up")


def test_commands_of_a_local_cluster(cluster: MiniCluster, capsys: pytest.CaptureFixture[str]) -> None:
    directory, before = str(cluster.directory), cluster.masters
    replace = [sys.executable, "-m", "nyala", "cluster", "replace-master", directory, before[0]]
    done = subprocess.run(replace, capture_output=True, text=True, timeout=180, check=False)
    assert f"{before[0]} has ended; its directory stays in {directory}" in done.stdout, done.stdout + done.stderr
    assert main(["cluster", "masters", directory, "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)
    assert [master["role"] for master in listed] == ["VOTER"] * 3
    assert sum(master["leads"] for master in listed) == 1
    assert cluster.local.addresses[before[0]] not in [master["address"] for master in listed]
    assert main(["cluster", "unsafe-change-masters", directory, "--survivor", before[1]]) == 1
    told = capsys.readouterr().err
    assert "ARE PERMANENTLY LOST" in told and "--accept-data-loss" in told
    cluster.local._processes.pop(before[0]).reap()  # the command has ended it, and started another one
    cluster.local.addresses = json.loads((cluster.directory / "cluster.json").read_text())["servers"]
