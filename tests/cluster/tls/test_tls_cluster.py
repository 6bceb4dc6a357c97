"""A cluster of processes that accept only TLS: all functions of a cluster, and the callers that it refuses."""

from __future__ import annotations

import json
import time
from collections import Counter
from contextlib import closing
from pathlib import Path

import nyala
import pyarrow as pa
import pytest
from nyala.__main__ import main
from nyala.cluster.admin.certificates import make_certificates
from nyala.cluster.admin.master_changes import MasterChanges
from nyala.cluster.admin.ports import HOST
from nyala.cluster.master.options import MasterOptions
from nyala.cluster.master.server import MasterServer
from nyala.cluster.tserver.options import TabletServerOptions
from nyala.cluster.tserver.server import TabletServer
from nyala.cluster.wire.calls.rpc import Channel, Channels
from nyala.cluster.wire.messages.maintenance_methods import LeaveCluster
from nyala.cluster.wire.messages.membership_methods import RemoveMaster
from nyala.cluster.wire.messages.methods import GetStatus
from nyala.cluster.wire.security.access import Role
from nyala.cluster.wire.security.tls import read_credentials
from nyala.driver.stores.cluster_url import ENVIRONMENT, with_parameters
from nyala.errors import AccessDenied, AuthenticationFailed, ClusterError, InterfaceError
from nyala.model.clock import HybridClock
from nyala.spark import workers
from nyala.testing import MiniCluster
from tls_support import Pki

PATIENCE = 60.0


@pytest.mark.slow
def test_a_cluster_from_its_first_table_to_new_certificates(
    foreign: Pki, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with MiniCluster(tservers=4, options={"durability": "os"}, tls=True) as cluster:
        others_are_kept_out(cluster, foreign)
        the_whole_life(cluster, capsys)
        masters_are_others(cluster)
        commands_find_their_files(cluster, capsys, monkeypatch)
        spark_tasks_reach_it(cluster)
        compacting_is_for_administrators(cluster)


def masters_are_others(cluster: MiniCluster) -> None:
    """One master becomes two, and the first one leaves: the new one has a certificate of the same CA."""
    changes = MasterChanges(cluster._channels, cluster.local.masters, lambda told: None, PATIENCE)
    with nyala.connect(cluster.url, **cluster.tls) as connection:
        (first,) = cluster.masters
        second = cluster.local.add_master()
        cluster.start(second)
        changes.add(cluster.local.addresses[second])
        connection.execute("CREATE TABLE by_two (k INT PRIMARY KEY)")
        states = "SELECT role, lag_entries FROM nyala_catalog.masters"
        cluster.wait_until(lambda: connection.execute(states).fetchall() == [("VOTER", 0)] * 2, "both have the catalog")
        with closing(Channels(HybridClock())) as unknown, pytest.raises(ClusterError):
            unknown.get(cluster.local.addresses[second]).call(RemoveMaster(address=cluster.local.addresses[first]), 5.0)
        changes.remove(cluster.local.addresses[first])
        cluster.local.forget(first)
        connection.execute("CREATE TABLE by_the_second (k INT PRIMARY KEY)")
        assert connection.execute("SELECT address, state FROM nyala_catalog.masters").fetchall() == [
            (cluster.local.addresses[second], "LEADER")
        ]


def ksck(cluster: MiniCluster, *words: str) -> bool:
    return main(["cluster", "ksck", str(cluster.directory), *words]) == 0


def until_healthy(cluster: MiniCluster) -> None:
    end = time.monotonic() + PATIENCE
    while not ksck(cluster):
        assert time.monotonic() < end, "it does not become healthy"
        time.sleep(0.2)


def the_whole_life(cluster: MiniCluster, capsys: pytest.CaptureFixture[str]) -> None:
    with nyala.connect(cluster.url, **cluster.tls) as connection:
        connection.execute(
            "CREATE TABLE t (k INT PRIMARY KEY, v STRING) DISTRIBUTE BY HASH (k) INTO 2 BUCKETS REPLICAS 3"
        )
        rows = [(k, "x" * (k % 50)) for k in range(2000)]
        connection.executemany("INSERT INTO t VALUES (?, ?)", rows)
        assert connection.execute("SELECT * FROM t ORDER BY k").fetchall() == rows
        assert connection.execute("SELECT v FROM t WHERE k = 7").fetchone() == ("x" * 7,)

        # A server that has no replica gets one: a copy over TLS.
        leader, moved = cluster.leader("t"), cluster.followers("t")[0]
        free = next(name for name in cluster.tservers if name not in (leader, *cluster.followers("t")))
        addresses = cluster.local.addresses
        tablet = cluster.locations("t")[0].tablet_id
        home = str(cluster.directory)
        assert main(["tablet", "move", home, tablet, "--from", addresses[moved], "--to", addresses[free]]) == 0
        assert free in cluster.followers("t")

        cluster.kill(leader)
        connection.execute("UPDATE t SET v = 'after' WHERE k = 7")
        assert connection.execute("SELECT count(*), max(v) FROM t").fetchone() == (2000, "x" * 49)
        cluster.start(leader)
        until_healthy(cluster)
        capsys.readouterr()
        assert ksck(cluster, "--checksum", "--json")
        assert json.loads(capsys.readouterr().out)["checksums"]["t"]["rows"] == 2000

        # Rotation: restarted servers read new certificates, of the same CA.
        old = cluster.call("master-1", GetStatus()).details["certificate_expires"]
        make_certificates(cluster.local.certificates, [[HOST, "localhost"]], days=7, renew=True)
        for name in (free, "master-1"):
            cluster.restart(name)
        assert cluster.call("master-1", GetStatus()).details["certificate_expires"] < old
        assert connection.execute("SELECT v FROM t WHERE k = 7").fetchone() == ("after",)


def commands_find_their_files(
    cluster: MiniCluster, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    home, admin = str(cluster.directory), cluster.local.admin_tls
    assert admin is not None
    assert main(["cluster", "status", "--dir", home]) == 0
    assert main(["tablet", "list", home]) == 0
    words = [word for name, path in admin.options().items() for word in (f"--{name.replace('_', '-')}", path)]
    assert main(["cluster", "rebalance", cluster.url, "--dry-run", *words]) == 0
    assert main(["tablet", "list", with_parameters(cluster.url, admin.options())]) == 0
    capsys.readouterr()
    for name, path in cluster.tls.items():
        monkeypatch.setenv(ENVIRONMENT[name], path)
    assert main(["shell", cluster.url, "-c", "SELECT 6 * 7 AS answer", "--format", "csv"]) == 0
    assert capsys.readouterr().out.split() == ["answer", "42"]
    # A client's certificate does not suffice to administer a cluster.
    assert main(["cluster", "ksck", cluster.url]) == 1
    assert "ReportTablets is not for a client's certificate" in capsys.readouterr().err


def spark_tasks_reach_it(cluster: MiniCluster) -> None:
    found = [workers.connection(cluster.url, **cluster.tls)]
    found.append(workers.connection(with_parameters(cluster.url, cluster.tls)))
    found.append(workers.connection(cluster.url))
    assert len(set(map(id, found))) == 1
    assert found[0].execute("SELECT 1").fetchone() == (1,)
    workers.close()


def compacting_is_for_administrators(cluster: MiniCluster) -> None:
    """By SQL; and no action of a client at its end or in the background is denied."""
    with nyala.connect(cluster.url, **cluster.tls) as connection:
        before = sum(logged(cluster, "denied").values())
        connection.execute("CREATE TABLE loaded (k INT PRIMARY KEY, v STRING) REPLICAS 3")
        connection.load("loaded", pa.table({"k": pa.array(range(500), pa.int32()), "v": ["x"] * 500}))
        connection.execute("ANALYZE TABLE loaded")
        connection.execute("UPDATE loaded SET v = 'y' WHERE k < 10")
        assert sum(logged(cluster, "denied").values()) == before
        with pytest.raises(AccessDenied, match="to compact a tablet is not for a client's certificate") as told:
            connection.execute("COMPACT TABLE loaded")
        assert told.value.sqlstate == "42501"
        assert sum(logged(cluster, "denied").values()) > before
    admin = cluster.local.admin_tls
    assert admin is not None
    with nyala.connect(cluster.url + f",{cluster.local.masters[0]}", **admin.options()) as connection:
        connection.execute("COMPACT TABLE loaded")
        assert connection.execute("SELECT count(*) FROM loaded WHERE v = 'y'").fetchone() == (10,)
    done = [fields for fields in lines(cluster, "done") if fields["what"] == "WorkOnTablet"]
    assert {(fields["work"], fields["who"]) for fields in done} == {("compact", "nyala-admin")}
    made = [fields for fields in lines(cluster, "done") if fields["what"] == "CreateTable"]
    assert ("loaded", "nyala-client") in {(fields.get("name"), fields["who"]) for fields in made}


def lines(cluster: MiniCluster, event: str) -> list[dict[str, str]]:
    """The fields of the audit lines of one kind, of all servers."""
    found = []
    for name in (*cluster.tservers, *cluster.masters):
        for line in (cluster.directory / f"{name}.log").read_text().splitlines():
            entry = json.loads(line) if line.startswith("{") else {}
            if entry.get("logger") == "nyala.cluster.audit" and entry["event"] == event:
                found.append(entry["fields"])
    return found


def logged(cluster: MiniCluster, event: str) -> Counter[str]:
    return Counter(fields["what"] for fields in lines(cluster, event))


def others_are_kept_out(cluster: MiniCluster, foreign: Pki) -> None:
    with pytest.raises(AuthenticationFailed, match="accepts only TLS"):
        nyala.connect(cluster.url)
    with pytest.raises(AuthenticationFailed, match="is not signed by the CA"):
        nyala.connect(cluster.url, **foreign.files().options())
    files = cluster.local.client_tls
    assert files is not None
    channel = Channel(cluster.local.masters[0], HybridClock(), tls=read_credentials(files))
    with pytest.raises(AccessDenied, match="LeaveCluster is not for a client's certificate"):
        channel.call(LeaveCluster(server="x"), 10.0)
    channel.close()


def test_files_that_are_not_good_make_no_server(pki: Pki, tmp_path: Path) -> None:
    other = pki.issue("other", Role.SERVER, ["10.1.2.3"])
    for files, told in (
        (pki.files(), "is not for this use"),
        (other, "is not for 127.0.0.1, the host of this server's address"),
    ):
        home = str(tmp_path / "server")
        with pytest.raises(InterfaceError, match=told):
            TabletServer(TabletServerOptions(directory=home, bind=f"{HOST}:0", tls=files))
        with pytest.raises(InterfaceError, match=told):
            MasterServer(MasterOptions(directory=home, bind=f"{HOST}:0", tls=files))
