"""Real processes with full disks: writes are refused or go to other servers, and the error names cause and place; reads
continue; no replica is replaced for it; when there is space again, all recovers in seconds, without a restart."""

from __future__ import annotations

import random
import shutil
import subprocess
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import nyala
import pyarrow as pa
import pytest
from cluster_workload import Workload, check_replicas
from forked_command import nyala as nyala_command
from nyala.cluster.wire.messages.methods import GetStatus, ReportTablets, TabletReport
from nyala.errors import Error, OperationalError
from nyala.testing import MiniCluster

pytestmark = pytest.mark.slow

DISK_BYTES = 40 << 20
OPTIONS = {
    "master.dead-after": "4",
    "tserver.memrowset-bytes": str(1 << 20),
    "tserver.cache-bytes": str(32 << 20),
}
HEAL_SECONDS = 30.0


def reports(cluster: MiniCluster) -> list[TabletReport]:
    return [r for name in cluster.tservers for r in cluster.call(name, ReportTablets()).tablets]


def check_nothing_was_given_up(cluster: MiniCluster, replicas: int) -> None:
    found = reports(cluster)
    assert [r.state for r in found] == ["RUNNING"] * replicas, [(r.tablet_id, r.state, r.error) for r in found]
    assert {len(r.configuration.voters) for r in found} == {3}


def ksck(cluster: MiniCluster) -> str:
    return nyala_command("cluster", "ksck", cluster.directory).stdout


def rows(start: int, count: int = 500) -> pa.Table:
    keys, noise = range(start, start + count), random.Random(start)  # incompressible
    return pa.table({"k": pa.array(keys, pa.int64()), "v": [f"{noise.getrandbits(2000):0500x}" for _ in keys]})


class Small:
    """A cluster each of whose tablet servers has a small disk of its own."""

    def __init__(self, cluster: MiniCluster):
        self.cluster = cluster
        self.disks = [cluster.directory / name for name in cluster.tservers]
        self.mounted: list[Path] = []

    def mount(self) -> None:
        """Mounts the servers' directories on file systems of their own, and restarts the servers."""
        for name, disk in zip(self.cluster.tservers, self.disks):
            self.cluster.stop(name)
            moved = disk.with_name(f"{name}-moved")
            disk.rename(moved)
            disk.mkdir()
            command = ["mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES}", "tmpfs", str(disk)]
            ended = subprocess.run(command, capture_output=True, text=True)
            if ended.returncode:
                pytest.skip(f"small file systems cannot be mounted here: {ended.stderr.strip()}")
            self.mounted.append(disk)
            shutil.copytree(moved, disk, dirs_exist_ok=True)
            self.cluster.start(name)

    def fill(self, disks: Sequence[Path]) -> None:
        for disk in disks:
            with (disk / "ballast").open("wb", buffering=0) as file:
                size = 1 << 20
                while size:
                    try:
                        if not file.write(b"x" * size):
                            break
                    except OSError:
                        size //= 2

    def free(self) -> None:
        for disk in self.disks:
            (disk / "ballast").unlink(missing_ok=True)

    def unmount(self) -> None:
        for disk in self.mounted:
            subprocess.run(["umount", "-l", str(disk)], check=True)


@pytest.fixture
def small(tmp_path: Path) -> Iterator[tuple[Small, MiniCluster]]:
    if shutil.which("mount") is None:
        pytest.skip("there is no mount")
    disks: Small | None = None
    try:
        with MiniCluster(tservers=3, directory=tmp_path / "c", options=OPTIONS) as cluster:
            disks = Small(cluster)
            disks.mount()
            yield disks, cluster
    finally:
        if disks is not None:
            disks.unmount()


def test_all_disks_are_full(small: tuple[Small, MiniCluster]) -> None:
    disks, cluster = small
    with nyala.connect(cluster.url, deadline=8) as connection:
        connection.execute(
            "CREATE TABLE t (k BIGINT PRIMARY KEY, v STRING) DISTRIBUTE BY HASH (k) INTO 2 BUCKETS REPLICAS 3"
        )
        table, written = connection.table("t"), 0
        while written < 4000:
            written += _upsert(table, written)
        disks.fill(disks.disks)
        with pytest.raises(OperationalError, match=r"disk full: .*(tserver-|127)"):
            for _ in range(200):
                written += _upsert(table, written)
        (count,) = connection.execute("SELECT count(*) FROM t").fetchone()  # reads continue
        assert written <= count <= written + 500
        assert connection.execute("SELECT k FROM t WHERE k = 77").fetchall() == [(77,)]
        time.sleep(8)  # twice the time after which a server counts as dead
        check_nothing_was_given_up(cluster, 6)
        assert "disk full" in ksck(cluster)
        assert connection.execute("SELECT count(*) FROM t").fetchone()[0] >= written
        disks.free()
        began = time.monotonic()
        while True:
            try:
                written += _upsert(table, written)
                break
            except OperationalError:
                assert time.monotonic() - began < HEAL_SECONDS
        print("healed after", time.monotonic() - began)
        check_nothing_was_given_up(cluster, 6)
        check_replicas(cluster)


def _upsert(table: object, start: int) -> int:
    table.upsert(rows(start))  # type: ignore[attr-defined]
    return 500


def test_one_disk_is_full(small: tuple[Small, MiniCluster]) -> None:
    disks, cluster = small
    with nyala.connect(cluster.url, deadline=60) as connection:
        connection.execute(
            "CREATE TABLE t (k BIGINT PRIMARY KEY, v STRING) DISTRIBUTE BY HASH (k) INTO 3 BUCKETS REPLICAS 3"
        )
        table, written = connection.table("t"), 0
        victim = cluster.leader("t")
        number = int(victim.rpartition("-")[2])
        for _ in range(4):
            written += _upsert(table, written)
        disks.fill([disks.disks[number - 1]])
        for _ in range(6):
            written += _upsert(table, written)  # others lead, and have space
        address = cluster.local.addresses[victim]
        cluster.wait_until(
            lambda: f"tablet server {address} accepts no writes: disk full" in ksck(cluster), "ksck says so"
        )
        cluster.wait_until(lambda: all(cluster.leader("t", p) != victim for p in range(3)), "others lead")
        check_nothing_was_given_up(cluster, 9)
        disks.free()
        cluster.wait_until(lambda: ksck(cluster).endswith("OK\n"), "it is whole again", HEAL_SECONDS)
        assert connection.execute("SELECT count(*) FROM t").fetchone() == (written,)
        check_replicas(cluster)


def test_dropping_a_table_makes_space(small: tuple[Small, MiniCluster]) -> None:
    cluster = small[1]
    with nyala.connect(cluster.url, deadline=10) as connection:
        for name in ("big", "t"):
            connection.execute(f"CREATE TABLE {name} (k BIGINT PRIMARY KEY, v STRING) REPLICAS 3")
        big, written = connection.table("big"), 0
        with pytest.raises(OperationalError, match="disk full"):
            for _ in range(200):
                written += _upsert(big, written)
        connection.execute("DROP TABLE big")

        def goes_on() -> bool:
            try:
                return bool(_upsert(connection.table("t"), 0))
            except Error:
                return False

        cluster.wait_until(goes_on, "there is space again", HEAL_SECONDS)
        check_replicas(cluster)


# ---- where nothing can be mounted --------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def shared() -> Iterator[MiniCluster]:
    with MiniCluster(tservers=3, options={**OPTIONS, "durability": "os"}) as cluster:
        yield cluster


@pytest.mark.parametrize("count", [1, 2, 3])
def test_a_chain_is_written_while_disks_are_full(cluster: MiniCluster, workload: Workload, count: int) -> None:
    """Of one, two and all servers: acknowledged writes stay, and writes resume by themselves."""
    workload.wait_writes(30)
    chosen = [cluster.leader("chain"), *cluster.followers("chain")][:count]
    for name in chosen:
        cluster.faults(name, full_path=f"/{name}/")
    if count == 1:
        workload.wait_writes(60)
    time.sleep(6)
    check_nothing_was_given_up(cluster, 9)
    cluster.heal()
    workload.wait_writes(60, HEAL_SECONDS)
    check_nothing_was_given_up(cluster, 9)


@pytest.mark.parametrize("full", [1, 3])
def test_masters_disks_are_full(full: int) -> None:
    """DDL reports cause and place, if no other master with space can lead; reads, rows and the catalog's readers
    continue."""
    with MiniCluster(tservers=3, masters=3, options={"durability": "os"}) as cluster:
        leading = next(name for name in cluster.masters if cluster.call(name, GetStatus()).is_leader)
        chosen = [leading] if full == 1 else list(cluster.masters)
        with nyala.connect(cluster.url, deadline=4) as connection:
            connection.execute("CREATE TABLE t (k INT PRIMARY KEY, v INT)")
            for name in chosen:
                cluster.faults(name, full_path=f"/{name}/")
            # Noticed within two seconds; until then a change waits for space.
            cluster.wait_until(lambda: all(is_full(cluster, name) for name in chosen), "the masters notice it")
            if full == 1:
                cluster.wait_until(lambda: not cluster.call(leading, GetStatus()).is_leader, "another master leads")
                execute_soon(connection, "CREATE TABLE u (k INT PRIMARY KEY)")
            else:
                for statement in (
                    "CREATE TABLE u (k INT PRIMARY KEY)",
                    "ALTER TABLE t ADD COLUMN w INT",
                    "DROP TABLE t",
                ):
                    with pytest.raises(OperationalError, match=r"disk full: \S*/master-\d|disk full: the masters at "):
                        connection.execute(statement)
                told = ksck(cluster)
                assert told.count("accepts no changes of the catalog: disk full: ") == 3, told
            connection.execute("UPSERT INTO t VALUES (1, 1)")
            assert connection.execute("SELECT * FROM t").fetchall() == [(1, 1)]
        with nyala.connect(cluster.url + f",{cluster.local.masters[0]}") as another:
            assert another.execute("SELECT * FROM t").fetchall() == [(1, 1)]
            cluster.heal()
            execute_soon(another, "ALTER TABLE t ADD COLUMN w INT")
            assert another.execute("SELECT * FROM t").fetchall() == [(1, 1, None)]


def is_full(cluster: MiniCluster, name: str) -> bool:
    return bool(cluster.call(name, GetStatus()).details.get("full"))


def execute_soon(connection: nyala.Connection, statement: str) -> None:
    end = time.monotonic() + HEAL_SECONDS
    while True:
        try:
            connection.execute(statement)
            return
        except OperationalError:
            assert time.monotonic() < end
            time.sleep(0.2)
