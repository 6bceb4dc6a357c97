"""Replicas that are added, removed and fail: copies to other servers, broken disks, transfers of leadership."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from nyala.cluster.raft.messages import Peer, PeerRole
from nyala.cluster.tablets.superblock import ReplicaState, Superblock
from nyala.cluster.wire.messages import methods
from nyala.errors import ConfigurationRefused, DiskError, ReplicaUnavailable
from nyala.model.alterations import AddColumn
from nyala.model.altered_table import apply_steps
from nyala.model.schema import ColumnSchema
from nyala.model.store import ScanSpec
from nyala.model.types import BIGINT
from nyala.storage.files.os_filesystem import OsFileSystem
from tserver_support import Servers, rows, table, tablet, wait_for


class BrokenDisk(OsFileSystem):
    """The operating system's files, except those below one path, which fail on request."""

    def __init__(self, path: Path):
        self._path = str(path)
        self.is_broken = False

    def _check(self, path: str) -> None:
        if self.is_broken and path.startswith(self._path):
            raise DiskError(f"{path}: Input/output error")

    def create(self, path: str) -> Any:
        self._check(path)
        return _File(super().create(path), lambda: self._check(path))

    def append(self, path: str) -> Any:
        self._check(path)
        return _File(super().append(path), lambda: self._check(path))

    def open(self, path: str) -> Any:
        self._check(path)
        return super().open(path)

    def list(self, path: str) -> list[str]:
        self._check(path)
        return super().list(path)

    def rename(self, old: str, new: str) -> None:
        self._check(new)
        super().rename(old, new)


class _File:
    def __init__(self, file: Any, check: Any):
        self._file = file
        self._check = check

    def write(self, data: Any) -> None:
        self._check()
        self._file.write(data)

    def sync(self) -> None:
        self._check()
        self._file.sync()

    def close(self) -> None:
        self._file.close()

    @property
    def size(self) -> int:
        size: int = self._file.size
        return size


@pytest.fixture
def four(tmp_path: Path) -> Iterator[Servers]:
    with Servers(tmp_path, 4, segment_bytes=1 << 16) as servers:
        yield servers


def add(servers: Servers, id: str, number: int) -> None:
    """Adds a server's replica to a tablet, and waits until it has a vote."""
    peer = Peer(servers.running[number].id, servers.running[number].address, PeerRole.PRE_VOTER)
    servers.call_leader(id, methods.ChangeReplicas(tablet_id=id, kind="add", peer=peer))

    def is_voter() -> bool:
        report = servers.reports(id)[servers.leader(id)]
        found = report.configuration.peer(peer.id)
        return found is not None and found.role is PeerRole.VOTER

    wait_for(is_voter)


def test_a_fourth_server_gets_a_copy_and_a_vote(four: Servers) -> None:
    id = four.create(numbers=(0, 1, 2))
    for start in range(0, 20_000, 2000):
        four.write(id, rows(range(start, start + 2000)))
    four.call(four.leader(id), methods.WorkOnTablet(tablet_id=id, work="flush"))
    four.write(id, rows(range(20_000, 20_100)))
    add(four, id, 3)
    assert wait_for(lambda: four.keys(3, id)) == list(range(20_100))
    gone = next(n for n in (0, 1, 2) if n != four.leader(id))
    peer = Peer(four.running[gone].id, four.running[gone].address)
    changed = four.call_leader(id, methods.ChangeReplicas(tablet_id=id, kind="remove", peer=peer)).configuration
    assert {p.id for p in changed.peers} == {four.running[n].id for n in range(4) if n != gone}
    four.call(gone, methods.DeleteTablet(tablet_id=id, configuration_index=changed.index))
    report = four.report(gone, id)
    assert report is not None
    assert report.state == "TOMBSTONED"
    four.write(id, rows(range(30_000, 30_010)))
    # With its tombstone, it returns by a copy.
    add(four, id, gone)
    assert len(wait_for(lambda: four.keys(gone, id))) == 20_110


def test_a_replica_that_is_too_far_behind_is_copied_anew(four: Servers) -> None:
    id = four.create(numbers=(0, 1, 2))
    behind = next(n for n in (0, 1, 2) if n != four.leader(id))
    bind = four.running[behind].address
    four.write(id, rows(range(10)))
    four.stop(behind)
    for start in range(0, 40_000, 2000):
        four.write(id, rows(range(start, start + 2000), "w"))
    for number in four.running:
        if four.report(number, id):
            four.call(number, methods.WorkOnTablet(tablet_id=id, work="flush"))
    four.start(behind, bind=bind)
    assert wait_for(lambda: four.keys(behind, id)) == list(range(40_000))
    four.write(id, rows([50_000]))
    assert wait_for(lambda: 50_000 in four.keys(behind, id))


def test_a_replica_that_needs_no_copy_is_not_replaced(four: Servers) -> None:
    id = four.create(numbers=(0, 1, 2))
    four.write(id, rows(range(100)))
    leader = four.leader(id)
    follower = next(n for n in (0, 1, 2) if n != leader)
    term = four.reports(id)[leader].term
    source = Peer(four.running[leader].id, four.running[leader].address)
    before = four.running[follower].tablets.get(id)
    request = methods.StartBootstrap(tablet=before.description, source=source, term=term)
    four.call(follower, request)
    wait_for(lambda: id not in four.running[follower].tablets.copies._copying)
    assert four.running[follower].tablets.get(id) is before
    with pytest.raises(ConfigurationRefused, match="term"):
        four.call(follower, methods.StartBootstrap(tablet=before.description, source=source, term=term - 1))


def test_a_copy_that_breaks_off_leaves_nothing_where_nothing_was(four: Servers) -> None:
    id = four.create(numbers=(0,))
    nobody = Peer("nobody", "127.0.0.1:1")
    description = four.running[0].tablets.get(id).description
    four.call(1, methods.StartBootstrap(tablet=description, source=nobody, term=99))
    wait_for(lambda: id not in four.running[1].tablets.copies._copying)
    assert four.report(1, id) is None
    assert not (four.path / "s1" / "tablets" / id).exists()


def test_a_copy_that_a_crash_cut_short_becomes_a_tombstone_or_nothing(four: Servers) -> None:
    first = four.create(numbers=(0, 1, 2))
    four.write(first, rows(range(10)))
    four.stop(0)
    path = four.path / "s0" / "tablets"
    Superblock(tablet(first), ReplicaState.COPYING).write(OsFileSystem(), str(path / first))
    (path / "t1-p5" / "rowsets").mkdir(parents=True)
    Superblock(tablet("t1-p5"), ReplicaState.COPYING).write(OsFileSystem(), str(path / "t1-p5"))
    four.start(0)
    report = wait_for(lambda: (r := four.report(0, first)) and r.state == "TOMBSTONED" and r)
    assert report.term > 0
    wait_for(lambda: not (path / "t1-p5").exists())


# ---- disks -------------------------------------------------------------------------------------------------------


def test_a_data_directory_that_breaks_fails_its_tablets_alone(tmp_path: Path) -> None:
    disk = BrokenDisk(tmp_path / "data")
    with Servers(tmp_path, 0) as servers:
        servers.start(0, data_directories=(str(tmp_path / "data"),), fs=disk)
        ids = [servers.create(tablet(f"t1-p{n}")) for n in range(4)]
        bad = [id for id in ids if (tmp_path / "data" / "tablets" / id).exists()]
        good = [id for id in ids if id not in bad]
        assert len(bad) == len(good) == 2
        for id in ids:
            servers.write(id, rows(range(10)))
        disk.is_broken = True
        with pytest.raises((DiskError, ReplicaUnavailable)):
            servers.call(0, _write_one(bad[0]))
        for id in bad:
            report = wait_for(lambda id=id: (r := servers.report(0, id)) and r.state == "FAILED" and r)
            assert "Input/output error" in report.error
            with pytest.raises(ReplicaUnavailable):
                servers.read(0, id)
        for id in good:
            servers.write(id, rows(range(10, 20)))
            assert servers.keys(0, id) == list(range(20))
        fresh = servers.create(tablet("t1-p9"))
        assert (tmp_path / "s0" / "tablets" / fresh).exists()
        servers.restart(0, data_directories=(str(tmp_path / "data"),), fs=disk)
        for id in bad:
            wait_for(lambda id=id: servers.reports(id)[0].state == "FAILED")
        for id in good:
            assert wait_for(lambda id=id: servers.keys(0, id)) == list(range(20))
        servers.call(0, methods.DeleteTablet(tablet_id=bad[0]))
        assert servers.report(0, bad[0]) is None
        disk.is_broken = False
        servers.restart(0, data_directories=(str(tmp_path / "data"),), fs=disk)
        assert wait_for(lambda: servers.keys(0, bad[1])) == list(range(10))
        assert servers.report(0, bad[0]) is None


def _write_one(id: str) -> methods.WriteRow:
    return methods.WriteRow(tablet_id=id, schema_version=0, op=3, row={"k": 1, "v": "x"}, call=None)


# ---- leaders -----------------------------------------------------------------------------------------------------


def test_a_server_that_drains_hands_its_leaderships_over(tmp_path: Path) -> None:
    with Servers(tmp_path, 3) as servers:
        ids = [servers.create(tablet(f"t1-p{n}")) for n in range(5)]
        leader = servers.leader(ids[0])
        for id in ids:
            if servers.leader(id) != leader:
                servers.call_leader(id, methods.StepDown(tablet_id=id, target=servers.running[leader].id))
                wait_for(lambda id=id: servers.leader(id) == leader)
        servers.running[leader].drain()
        servers.stop(leader)
        for id in ids:
            reports = servers.reports(id)
            assert any(report.role == "LEADER" for report in reports.values())
            servers.write(id, rows([1]))


def test_a_table_is_altered_at_all_replicas(tmp_path: Path) -> None:
    with Servers(tmp_path, 3) as servers:
        id = servers.create()
        servers.write(id, rows(range(10)))
        wider = apply_steps(table(), [AddColumn(ColumnSchema("w", BIGINT, default=7))])
        assert wider.version == 1
        servers.call_leader(id, methods.AlterTablet(tablet=tablet(id, wider)))
        servers.write(id, rows(range(10, 20)), version=1)
        for number in servers.running:
            found = wait_for(lambda number=number: servers.read(number, id, ScanSpec(("k", "w")), version=1))
            assert sorted(found) == [(k, 7) for k in range(20)]
