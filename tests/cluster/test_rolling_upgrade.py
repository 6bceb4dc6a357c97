"""The servers of a cluster are replaced one by one: from a version of the repository's history to the present one.

Clients of both versions read and write meanwhile. Skipped where the history is not at hand, as in a source archive.
"""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
import tarfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nyala
import pytest
from nyala.cluster.admin.ksck import ksck
from nyala.cluster.admin.view import look
from nyala.cluster.wire.calls.rpc import Channels
from nyala.cluster.wire.client_clock import ClientClock
from nyala.errors import OperationalError
from nyala.model.clock import HybridClock

pytestmark = pytest.mark.slow

PREVIOUS = "34cc734fab1b3611837b8ac00c0d461d2ab006e1"
"""The newest version that wrote catalogs of format 5: its servers can be replaced one by one (docs/upgrading.md)."""
REPOSITORY = Path(__file__).parents[2]
WRITER = """
import sys, nyala
connection = nyala.connect(sys.argv[1])
for number in range(1_000_000):
    connection.execute("INSERT INTO t VALUES (?, 'while servers are replaced')", [number])
    print(number, flush=True)
"""


@pytest.fixture(scope="module")
def previous(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the previous version as the package `nyala`."""
    command = ["git", "-C", str(REPOSITORY), "archive", "--prefix=nyala/", PREVIOUS]
    try:
        done = subprocess.run(command, capture_output=True, check=False, timeout=120)
    except FileNotFoundError:
        pytest.skip("there is no git")
    if done.returncode:
        pytest.skip("the history does not have the previous version")
    folder = tmp_path_factory.mktemp("previous")
    with tarfile.open(fileobj=io.BytesIO(done.stdout)) as archive:
        archive.extractall(folder, filter="data")
    return folder


def environment(version: Path | None) -> dict[str, str]:
    """The environment of a process of that version; None: of the present one."""
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    return kept if version is None else {**kept, "PYTHONPATH": str(version)}


def run(version: Path | None, *arguments: str) -> str:
    """The output of a command of that version."""
    command = [sys.executable, "-m", "nyala", *arguments]
    done = subprocess.run(
        command, env=environment(version), cwd="/", capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


class OldCluster:
    """A cluster on this machine, begun by the previous version."""

    def __init__(self, directory: Path, previous: Path):
        self.new: list[subprocess.Popen[bytes]] = []
        self.url = run(previous, "cluster", "start", str(directory)).split()[-1]
        self.servers: list[dict[str, Any]] = json.loads(run(previous, "cluster", "status", str(directory), "--json"))

    def replace(self, server: dict[str, Any]) -> None:
        """Stop a server, and start it with the present version and the same arguments."""
        words = Path(f"/proc/{server['pid']}/cmdline").read_bytes().decode().split("\0")[:-1]
        folder = Path(f"/proc/{server['pid']}/cwd").readlink()
        os.kill(server["pid"], signal.SIGTERM)
        wait_for(lambda: not is_running(server["pid"]))
        self.new.append(subprocess.Popen(words, env=environment(None), cwd=folder, stderr=subprocess.DEVNULL))
        wait_for(self.is_whole)

    def is_whole(self) -> bool:
        """True if all servers respond, and all replicas have what their leaders have."""
        channels = Channels(ClientClock())
        try:
            masters = [self.url.removeprefix("nyala://")]
            return ksck(look(channels, masters, HybridClock(), 5.0, 2.0, leaderless=True)).is_clean
        except OperationalError:
            return False
        finally:
            channels.close()

    def stop(self) -> None:
        for process in self.new:
            process.terminate()
        for process in self.new:
            process.wait(60)
        for server in self.servers:
            if is_running(server["pid"]):
                os.kill(server["pid"], signal.SIGTERM)
        wait_for(lambda: not any(is_running(server["pid"]) for server in self.servers))


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def wait_for(condition: Any) -> None:
    deadline = time.monotonic() + 90
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


@pytest.fixture
def cluster(tmp_path: Path, previous: Path) -> Iterator[OldCluster]:
    cluster = OldCluster(tmp_path / "cluster", previous)
    yield cluster
    cluster.stop()


@pytest.mark.skipif(not Path("/proc/self/cmdline").exists(), reason="reads the arguments of servers from /proc")
def test_servers_are_replaced_one_by_one(cluster: OldCluster, previous: Path, tmp_path: Path) -> None:
    run(
        previous, "shell", cluster.url,
        "-c", "CREATE TABLE t (k BIGINT PRIMARY KEY, v STRING) PARTITION BY HASH (k) PARTITIONS 2",
        "-c", "INSERT INTO t SELECT -n, 'before' FROM generate_series(1, 3000) AS s(n)",
        "-c", "UPDATE t SET v = 'updated' WHERE k > -100",
    )  # fmt: skip
    written = tmp_path / "written"
    with written.open("wb") as out:
        command = [sys.executable, "-c", WRITER, cluster.url]
        writer = subprocess.Popen(command, env=environment(previous), cwd="/", stdout=out, stderr=subprocess.PIPE)
    try:
        wait_for(lambda: written.stat().st_size)
        # Tablet servers first, then the master, as docs/upgrading.md has it.
        for server in sorted(cluster.servers, key=lambda server: server["kind"], reverse=True):
            cluster.replace(server)
            with nyala.connect(cluster.url) as connection:  # a new client of a mixed cluster
                connection.execute("INSERT INTO t VALUES (?, 'of a new client')", [1_000_000 + server["pid"]])
                found = connection.execute(
                    "SELECT count(*), count(*) FILTER (v = 'updated') FROM t WHERE k < 0"
                ).fetchall()
                assert found == [(3000, 99)]
        assert "3000" in run(previous, "shell", cluster.url, "-c", "SELECT count(*) FROM t WHERE k < 0")
        assert writer.poll() is None, writer.stderr.read().decode() if writer.stderr else ""
    finally:
        writer.kill()
        writer.communicate()
    acknowledged = int(written.read_text().splitlines()[-2])
    with nyala.connect(cluster.url) as connection:
        keys = {k for (k,) in connection.execute("SELECT k FROM t WHERE k BETWEEN 0 AND 999999").fetchall()}
        assert keys >= set(range(acknowledged + 1))
        assert connection.execute("SELECT count(*) FROM t WHERE k >= 1000000").fetchall() == [(4,)]
        connection.execute("ALTER TABLE t ADD COLUMN later INT DEFAULT 7")
        assert connection.execute("SELECT sum(later) FROM t WHERE k < 0").fetchall() == [(21_000,)]
