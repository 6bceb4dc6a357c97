"""A damaged column file: whatever finds it, the replica has failed, another one leads, and none of it is copied."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from examples import few
from nyala.cluster.raft.messages import Peer, PeerRole
from nyala.cluster.wire.messages import methods, plain
from nyala.cluster.wire.rows.write_rows import write_to_request
from nyala.errors import CorruptionError, Error, ReplicaUnavailable
from nyala.model.codec.values import key_to_plain, map_to_plain
from nyala.model.store import Op, ScanSpec, WriteBatch
from tserver_support import Servers, rows, wait_for

TABLET = "t1-p0"
Meets = Callable[[Servers, int], Any]


@pytest.fixture
def three(tmp_path: Path) -> Iterator[Servers]:
    with Servers(tmp_path, 3, background=False) as servers:
        yield servers


def files(servers: Servers, number: int, pattern: str = "*.col") -> list[Path]:
    return sorted((servers.path / f"s{number}" / "tablets" / TABLET / "rowsets").glob(pattern))


def harm(path: Path) -> None:
    data = bytearray(path.read_bytes())
    for place in range(len(data) // 4, len(data) // 4 * 3):
        data[place] ^= 0x5A
    path.write_bytes(data)


def damaged_leader(servers: Servers, pattern: str = "*.col", numbers: tuple[int, ...] = (0, 1, 2)) -> int:
    """A tablet with 1,000 rows on disk, whose leader's files are damaged and not in memory."""
    servers.create(numbers=numbers)
    servers.write(TABLET, rows(range(1000)), Op.INSERT)
    for number in numbers:
        wait_for(lambda number=number: len(servers.keys(number, TABLET)) == 1000)
        servers.call(number, methods.WorkOnTablet(tablet_id=TABLET, work="flush"))
    for number in numbers:
        servers.restart(number)
    leader = servers.leader(TABLET)
    wait_for(lambda: (servers.report(leader, TABLET) or report_none()).applied_index > 0)
    for path in files(servers, leader, pattern):
        harm(path)
    return leader


def report_none() -> methods.TabletReport:
    raise ReplicaUnavailable("no report yet")


def row(servers: Servers, number: int, key: int, snapshot: int | None = None) -> Any:
    request = methods.ReadRow(
        tablet_id=TABLET, schema_version=0, key=key_to_plain((key,)), columns=("k", "v"), snapshot=snapshot
    )
    return servers.call(number, request).row


def write_row(servers: Servers, number: int, op: Op, key: int, text: str) -> Any:
    values = map_to_plain({"k": key, "v": text})
    request = methods.WriteRow(tablet_id=TABLET, schema_version=0, op=int(op), row=values, call=None)
    return servers.call(number, request)


def start_scan(servers: Servers, number: int) -> Any:
    spec = plain.spec_to_plain(ScanSpec(("k", "v"), snapshot=servers.clock.now()))
    ticket = methods.ScanTablet(tablet_id=TABLET, schema_version=0, spec=spec, scanner="x")
    return servers.call(number, methods.StartScan(ticket=ticket))


WAYS: dict[str, Meets] = {
    "a scan of the latest": lambda s, n: s.read(n, TABLET, latest=True),
    "a scan of a snapshot": lambda s, n: s.read(n, TABLET),
    "a scan in key order": lambda s, n: s.read(n, TABLET, ScanSpec(("k", "v"), ordered=True)),
    "a scan behind a key": lambda s, n: s.read(n, TABLET, ScanSpec(("k", "v"), ordered=True), after_key=(500,)),
    "a scan with a limit": lambda s, n: s.read(n, TABLET, ScanSpec(("k", "v"), limit=5)),
    "a scan that begins with a call": start_scan,
    "a look-up of the latest": lambda s, n: row(s, n, 500),
    "a look-up at a time": lambda s, n: row(s, n, 500, s.clock.now()),
    "the key check of a batch": lambda s, n: s.call(n, batch_request(range(400, 500), Op.INSERT)),
    "the key check of a row": lambda s, n: write_row(s, n, Op.INSERT, 500, "x"),
    "an update of a row": lambda s, n: write_row(s, n, Op.UPDATE, 500, "x"),
    "a checksum": lambda s, n: s.call(n, methods.ChecksumTablet(tablet_id=TABLET, snapshot=s.clock.now())),
    "a copy to another server": lambda s, n: copied_files(s, n),
}


def batch_request(keys: range, op: Op) -> methods.Write:
    return write_to_request(WriteBatch(rows(keys), op), tablet_id=TABLET, schema_version=0, call=None)


def copied_files(servers: Servers, number: int) -> None:
    begin = methods.BeginBootstrap(tablet_id=TABLET, receiver="x")
    session = wait_for(lambda: servers.call(number, begin))
    for path, size in session.files.items():
        servers.call(number, methods.ReadFile(session=session.session, path=path, offset=0, length=min(size, 1 << 20)))


@pytest.mark.parametrize("way", few(list(WAYS)))
def test_every_path_that_meets_damage_fails_the_replica_and_names_the_file(three: Servers, way: str) -> None:
    leader = damaged_leader(three)
    with pytest.raises(ReplicaUnavailable, match=r"(has failed|is FAILED): CorruptionError: .*\.col: "):
        WAYS[way](three, leader)
    report = three.report(leader, TABLET)
    assert report is not None
    assert (report.state, report.votes, report.is_serving) == ("FAILED", True, False)
    assert ".col" in report.error
    wait_for(lambda: three.leader(TABLET) != leader)
    other = three.leader(TABLET)
    assert three.keys(other, TABLET) == list(range(1000))
    write_row(three, other, Op.UPSERT, 500, "new")
    assert row(three, other, 500)[1] == "new"


def test_files_that_are_gone_are_damage(three: Servers) -> None:
    leader = damaged_leader(three)
    for path in files(three, leader):
        path.unlink()
    with pytest.raises(ReplicaUnavailable, match="No such file"):
        three.read(leader, TABLET)
    assert three.reports(TABLET)[leader].state == "FAILED"


def test_a_compaction_that_meets_damage_fails_the_replica(three: Servers) -> None:
    three.create()
    for start in (0, 1):
        three.write(TABLET, rows(range(start, 2000, 2)), Op.INSERT)
        for number in range(3):
            wait_for(lambda number=number, start=start: len(three.keys(number, TABLET)) == 1000 * (start + 1))
            three.call(number, methods.WorkOnTablet(tablet_id=TABLET, work="flush"))
    leader = three.leader(TABLET)
    three.restart(leader)
    wait_for(lambda: len(three.keys(leader, TABLET)) == 2000)
    three.restart(leader)  # no page is in memory any more
    wait_for(lambda: three.reports(TABLET)[leader].applied_index > 0)
    for path in files(three, leader):
        harm(path)
    server = three.running[leader]
    wait_for(lambda: server.maintenance.maintain() or server.tablets.reports((TABLET,))[0].state == "FAILED")
    report = server.tablets.reports((TABLET,))[0]
    assert (report.state, report.votes) == ("FAILED", True)
    assert "CorruptionError" in report.error


def test_a_replica_with_the_only_vote_goes_on_and_says_that_it_is_damaged(three: Servers) -> None:
    damaged_leader(three, "*column-0001.col", numbers=(0,))
    with pytest.raises(CorruptionError, match=r"column-0001\.col"):
        three.read(0, TABLET)
    report = three.report(0, TABLET)
    assert report is not None
    assert report.state == "RUNNING"
    assert "column-0001.col" in report.error
    assert len(three.read(0, TABLET, ScanSpec(("k",)))) == 1000  # the other column is intact


def test_an_error_that_is_no_damage_of_a_file_fails_no_replica(three: Servers) -> None:
    """A file that is intact when it is read again is not damaged: a bug, or a fault of memory, must not fail all
    replicas of a tablet one after the other."""
    three.create()
    three.write(TABLET, rows(range(1000)), Op.INSERT)
    leader = three.leader(TABLET)
    three.call(leader, methods.WorkOnTablet(tablet_id=TABLET, work="flush"))
    replica = three.running[leader].tablets.get(TABLET)
    (path, *_) = files(three, leader)
    for error in (
        CorruptionError("page 0", str(path), "a fault of the reader"),
        CorruptionError("page 0", "/somewhere/else.col", "page 0"),
        CorruptionError("page 0", str(path.parent / "rowset-99999999-column-0000.col"), "of no rowset"),
    ):
        assert replica.met(error) is error
    assert (replica.state, replica.error) == ("RUNNING", "")


def test_what_was_read_when_damage_was_met_is_let_go_of(three: Servers) -> None:
    leader = damaged_leader(three)
    gc.disable()
    try:
        for way in ("a scan of the latest", "a checksum"):
            with pytest.raises(Error):
                WAYS[way](three, leader)
        (replica,) = three.running[leader].tablets.replicas()
        wait_for(lambda: not any(replica.tablet.held_pins()), 10)
    finally:
        gc.enable()


def test_a_server_without_a_replica_gets_whole_files_though_the_first_source_is_damaged(tmp_path: Path) -> None:
    with Servers(tmp_path, 4) as servers:
        leader = damaged_leader(servers)
        target = servers.running[3]
        peer = Peer(target.id, target.address, PeerRole.PRE_VOTER)
        servers.call(leader, methods.ChangeReplicas(tablet_id=TABLET, kind="add", peer=peer))
        wait_for(lambda: (servers.report(3, TABLET) or report_none()).state == "RUNNING", 60)
        assert servers.keys(3, TABLET) == list(range(1000))
        report = servers.report(leader, TABLET)
        assert report is not None
        assert report.state == "FAILED"
