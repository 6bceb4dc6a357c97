"""`nyala cluster` and `nyala tablet`, from an empty directory to a stopped cluster, as a user types them."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import nyala
import pytest
from nyala.__main__ import main

Run = Callable[..., str]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs a command in this process; returns its output, after checking its exit status."""

    def run(*words: str, status: int = 0) -> str:
        capsys.readouterr()
        found = main(list(words))
        told = capsys.readouterr()
        assert found == status, told.out + told.err
        return told.out + told.err

    return run


def run_alone(*words: str) -> str:
    """The same in a process of its own, which does not end the servers that it starts."""
    done = subprocess.run(
        [sys.executable, "-m", "nyala", *words], capture_output=True, text=True, check=False, timeout=180
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


@pytest.mark.slow
def test_a_cluster_from_start_to_stop(tmp_path: Path, run: Run) -> None:
    home = str(tmp_path / "demo")

    def status() -> list[dict[str, Any]]:
        return json.loads(run("cluster", "status", "--dir", home, "--json"))  # type: ignore[no-any-return]

    url = run_alone("cluster", "start", "--tservers", "4", "--dir", home, "--durability", "os").split()[-1]
    try:
        assert url in run("cluster", "start", home, "--tservers", "4", "--durability", "os"), "all of them run already"
        told = "--tservers 4 --masters 1 --durability os, and cannot be started with --tservers 3 --masters 3"
        assert told in run("cluster", "start", home, "--tservers", "3", "--masters", "3", status=1)
        with nyala.connect(url) as connection:
            connection.execute(
                "CREATE TABLE t (k INT PRIMARY KEY, v STRING) DISTRIBUTE BY HASH (k) INTO 4 BUCKETS REPLICAS 3"
            )
            connection.executemany("INSERT INTO t VALUES (?, ?)", [(k, "x" * k) for k in range(200)])
        servers = {server["address"]: server for server in status()}
        assert len(servers) == 5
        assert sum(server["replicas"] for server in servers.values() if server["kind"] == "tserver") == 12
        tablets = json.loads(run("tablet", "list", home, "t", "--json"))
        assert len(tablets) == 4

        tablet = tablets[0]
        there = [replica["address"] for replica in tablet["replicas"]]
        free = next(a for a, server in servers.items() if server["kind"] == "tserver" and a not in there)
        # (A local cluster's servers have names, too.)
        run(
            "tablet", "move", home, tablet["tablet"], "--from", servers[there[0]]["name"], "--to", servers[free]["name"]
        )
        after = json.loads(run("tablet", "list", home, "--json"))
        moved = next(t for t in after if t["tablet"] == tablet["tablet"])
        assert {replica["address"] for replica in moved["replicas"]} == {*there[1:], free}

        leader = next(replica["address"] for replica in moved["replicas"] if replica["leads"])
        leads = run("tablet", "leader-step-down", url, tablet["tablet"]).split()[-1]
        after = json.loads(run("tablet", "list", home, "--json"))
        moved = next(t for t in after if t["tablet"] == tablet["tablet"])
        assert [replica["address"] for replica in moved["replicas"] if replica["leads"]] == [leads] != [leader]

        for other in after:
            if not any(replica["leads"] for replica in other["replicas"] if replica["address"] == leads):
                if any(replica["address"] == leads for replica in other["replicas"]):
                    run("tablet", "leader-step-down", "--dir", home, other["tablet"], "--to", leads)
        assert "leaderships handed over: 0" not in run("cluster", "rebalance", home)
        counts = [server["replicas"] for server in status() if server["kind"] == "tserver"]
        assert max(counts) - min(counts) <= 2
        leading = [server["leads"] for server in status() if server["kind"] == "tserver"]
        assert max(leading) - min(leading) <= 2
        assert "holds no replica any more" in run("cluster", "leave", "--dir", home, servers[free]["name"], "--wait")
        assert "cannot be emptied: without it, 2 tablet servers remain" in run(
            "cluster", "leave", home, there[0], status=1
        )
        assert next(server["replicas"] for server in status() if server["address"] == free) == 0
        assert "200 rows" in run("cluster", "ksck", home, "--checksum")
        assert "has no table s; it has: t" in run("tablet", "list", home, "s", status=1)
        assert "has no replica at x" in run(
            "tablet", "move", home, tablet["tablet"], "--from", "x", "--to", free, status=1
        )
    finally:
        run("cluster", "stop", "--dir", home)
    stopped = json.loads(run("cluster", "status", "--dir", home, "--json", status=1))
    assert [server["pid"] for server in stopped] == [None] * 5
    run_alone("cluster", "start", "--dir", home)
    try:
        with nyala.connect(url) as connection:
            assert connection.execute("SELECT count(*), sum(length(v)) FROM t").fetchone() == (200, 19900)
    finally:
        run("cluster", "stop", "--dir", home)


def test_mistakes_are_told(tmp_path: Path, run: Run) -> None:
    assert "holds no cluster" in run("cluster", "stop", "--dir", str(tmp_path), status=1)
    (tmp_path / "file").write_text("x")
    assert "is not empty" in run("cluster", "start", "--dir", str(tmp_path), status=1)
    file = str(tmp_path / "file")
    assert f"{file} cannot be the directory of a cluster" in run("cluster", "start", "--dir", file, status=1)
    none = str(tmp_path / "none")
    assert "0 tablet servers" in run("cluster", "start", "--dir", none, "--tservers", "0", status=1)
