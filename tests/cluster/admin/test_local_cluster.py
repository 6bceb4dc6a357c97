"""Decisions of a local cluster before any of its servers runs."""

from __future__ import annotations

import random
import socket
from pathlib import Path

import pytest
from nyala.bench.servers import started_cluster
from nyala.cluster.admin.local_cluster import LocalCluster
from nyala.cluster.admin.minicluster import MiniCluster
from nyala.errors import InterfaceError


def ports(cluster: LocalCluster) -> list[int]:
    return [int(address.rpartition(":")[2]) for address in cluster.addresses.values()]


@pytest.mark.skipif(
    not Path("/proc/sys/net/ipv4/ip_local_port_range").exists(), reason="this system does not say which it gives out"
)
def test_no_server_has_a_port_that_the_system_may_give_to_somebody_elses_connection(tmp_path: Path) -> None:
    given_out = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    chosen = ports(LocalCluster.create(tmp_path / "c", tservers=9, masters=3))
    assert len(set(chosen)) == 12
    assert max(chosen) < given_out


def test_a_port_where_somebody_listens_is_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as one:
        taken = one.getsockname()[1]
        free = ports(LocalCluster.create(tmp_path / "a", tservers=1))
        monkeypatch.setattr(random, "sample", lambda *_: [taken, *free])
        assert ports(LocalCluster.create(tmp_path / "b", tservers=1)) == free
        monkeypatch.setattr(random, "sample", lambda *_: [taken, free[0]])
        # (The master has it.)
        with pytest.raises(InterfaceError, match="0 are free, not 2"):
            LocalCluster.create(tmp_path / "c", tservers=2)


def test_a_cluster_that_is_there_is_started_as_it_was_made(tmp_path: Path) -> None:
    cluster = LocalCluster.create(tmp_path / "c", tservers=3, options={"durability": "os"})
    cluster.check_made_with()
    cluster.check_made_with(tservers=3, masters=1, durability="os", is_secure=False)
    cluster.check_made_with(tservers=5)
    told = r"a cluster with --tservers 3 --masters 1 --durability os, and cannot be started with "
    for asked, words in (
        ({"tservers": 2}, "--tservers 2;"),
        ({"masters": 3, "durability": "fsync"}, "--masters 3 --durability fsync;"),
        ({"is_secure": True}, "--tls;"),
    ):
        with pytest.raises(InterfaceError, match=told + words):
            cluster.check_made_with(**asked)  # type: ignore[arg-type]


def test_the_defaults_of_tests_can_be_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LocalCluster, "start", lambda cluster: None)
    options = {"durability": "os"}
    with (
        MiniCluster(directory=tmp_path / "tests", options=options) as harmed,
        MiniCluster(directory=tmp_path / "own", options=options, defaults={}) as plain,
        started_cluster(tmp_path / "measured", "os") as measured,
    ):
        assert "--allow-faults" in harmed.local.process("master-1").command
        assert {"--allow-faults", "--cache-bytes", "--durability"} < {*harmed.local.process("tserver-1").command}
        for cluster in (plain, measured):
            for name in (*cluster.masters, *cluster.tservers):
                given = [part for part in cluster.local.process(name).command if part.startswith("--")]
                assert given == ["--dir", "--bind", "--masters", "--durability"]
