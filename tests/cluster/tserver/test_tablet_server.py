"""Tablet servers in one process: writes, scans, failures."""

from __future__ import annotations

import uuid
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from nyala.cluster.wire.messages import methods, plain
from nyala.cluster.wire.messages.transaction_methods import StageWrite
from nyala.cluster.wire.rows.write_rows import write_to_request
from nyala.errors import (
    NotTheLeader,
    ProtocolError,
    ReplicaUnavailable,
    ScannerExpired,
    ServerOverloaded,
    StaleSchema,
    WriteTooLarge,
)
from nyala.model.codec.values import key_to_plain
from nyala.model.predicates import Range
from nyala.model.store import Op, ScanSpec, Timestamp, WriteBatch
from nyala.storage.maintenance import memory
from tserver_support import Servers, rows, tablet, tuples, wait_for


@pytest.fixture
def one(tmp_path: Path) -> Iterator[Servers]:
    with Servers(tmp_path, 1) as servers:
        yield servers


@pytest.fixture
def three(tmp_path: Path) -> Iterator[Servers]:
    with Servers(tmp_path, 3) as servers:
        yield servers


def test_a_server_alone_keeps_what_was_written(one: Servers) -> None:
    id = one.create()
    assert one.create() == id
    written = one.write(id, rows(range(1000)), Op.INSERT)
    assert written.applied == 1000
    refused = one.write(id, rows([5, 2000]), Op.INSERT)
    assert refused.applied == 1
    assert [(e.row, e.error) for e in refused.errors] == [(0, "AlreadyPresent")]
    assert one.keys(0, id) == [*range(1000), 2000]
    server = one.restart(0)
    assert one.leader(id) == 0
    assert one.keys(0, id) == [*range(1000), 2000]
    status = one.call(0, methods.GetStatus())
    assert (status.id, status.kind, status.tablets, status.leaders) == (server.id, "tserver", 1, 1)


def test_rows_one_by_one(one: Servers) -> None:
    id = one.create()
    call = methods.Call(uuid.uuid4().hex, 1, 1)
    row = methods.WriteRow(tablet_id=id, schema_version=0, op=Op.INSERT, row={"k": 7, "v": "seven"}, call=call)
    first = one.call(0, row)
    assert one.call(0, row) == first
    read = methods.ReadRow(tablet_id=id, schema_version=0, key=(7,), columns=("v", "k"))
    assert one.call(0, read).row == ("seven", 7)
    before = methods.ReadRow(tablet_id=id, schema_version=0, key=(7,), columns=("v",), snapshot=first.timestamp - 1)
    assert one.call(0, before).row is None


def test_three_replicas_say_the_same_at_a_time(three: Servers) -> None:
    id = three.create()
    three.write(id, rows(range(5000)))
    middle = three.clock.now()
    three.write(id, rows(range(2500), "w"))
    three.write(id, rows(range(100)).select(["k"]), Op.DELETE)
    old = [(k, f"v{k}") for k in range(5000)]
    new = [(k, f"{'w' if k < 2500 else 'v'}{k}") for k in range(100, 5000)]
    for number in three.running:
        assert sorted(three.read(number, id)) == new
        assert sorted(three.read(number, id, ScanSpec(("k", "v"), snapshot=middle))) == old
        found = three.read(number, id, ScanSpec(("v",), (Range("k", 2498, 2501),)))
        assert sorted(found) == [("v2500",), ("v2501",), ("w2498",), ("w2499",)]
    sums = {
        three.call(number, methods.ChecksumTablet(tablet_id=id, snapshot=three.clock.now())) for number in three.running
    }
    assert len(sums) == 1
    leader = three.leader(id)
    for number in three.running:
        if number != leader:
            with pytest.raises(NotTheLeader) as raised:
                three.read(number, id, ScanSpec(("k",)), latest=True)
            assert raised.value.leader == three.running[leader].address
        stream = three.stream(number, id, ScanSpec(("k",)))
        assert len(list(tuples(stream))) == 4900
        assert stream.end.leader == three.running[leader].address
    assert len(three.read(leader, id, ScanSpec(("k",)), latest=True)) == 4900


def test_another_leader_goes_on_and_the_old_one_returns(three: Servers) -> None:
    id = three.create()
    three.write(id, rows(range(100)))
    first = three.leader(id)
    bind = three.running[first].address
    three.stop(first)
    three.write(id, rows(range(100, 200)))
    assert three.leader(id) != first
    three.start(first, bind=bind)
    three.write(id, rows(range(200, 300)))
    assert wait_for(lambda: three.keys(first, id)) == list(range(300))


def test_all_return_from_their_directories(three: Servers) -> None:
    id = three.create()
    three.write(id, rows(range(1000)))
    addresses = {number: server.address for number, server in three.running.items()}
    for number in list(three.running):
        three.stop(number)
    for number, address in addresses.items():
        three.start(number, bind=address)
    three.write(id, rows(range(1000, 1010)))
    for number in three.running:
        assert wait_for(lambda number=number: three.keys(number, id)) == list(range(1010))


# ---- scans -------------------------------------------------------------------------------------------------------


def load(servers: Servers, id: str, count: int, flush: bool = True) -> None:
    for start in range(0, count, 50_000):
        servers.write(id, rows(range(start, min(start + 50_000, count))))
        if flush:
            servers.call(servers.leader(id), methods.WorkOnTablet(tablet_id=id, work="flush"))


def test_a_broken_stream_goes_on(one: Servers) -> None:
    id = one.create()
    load(one, id, 250_000)
    whole = ScanSpec(("k",), snapshot=one.clock.now())
    first = one.stream(0, id, whole, scanner="s")
    found = [next(first), next(first)]
    first.close()
    second = one.stream(0, id, whole, scanner="s", resume_batch=2)
    found += second
    assert sorted(row[0] for row in tuples(found)) == list(range(250_000))
    assert second.end is not None
    assert second.end.batches == len(found)
    assert second.end.rows_returned == 250_000
    one.call(0, methods.CloseScanner(scanner="s"))
    with pytest.raises(ScannerExpired):
        next(one.stream(0, id, whole, scanner="s", resume_batch=3))
    with pytest.raises(ScannerExpired):
        one.call(0, methods.KeepAlive(scanner="s"))


def test_an_ordered_scan_goes_on_at_another_replica(three: Servers) -> None:
    id = three.create()
    load(three, id, 200_000)
    spec = ScanSpec(("k", "v"), ordered=True, snapshot=three.clock.now())
    leader = three.leader(id)
    stream = three.stream(leader, id, spec)
    found = list(tuples([next(stream)]))
    stream.close()
    three.stop(leader)
    other = next(iter(three.running))
    found += three.read(other, id, spec, after_key=key_to_plain((found[-1][0],)))
    assert found == [(k, f"v{k}") for k in range(200_000)]
    limited = ScanSpec(("v",), ordered=True, snapshot=spec.snapshot, limit=3)
    assert three.read(other, id, limited, after_key=(99,)) == [("v100",), ("v101",), ("v102",)]


def test_tickets_that_do_not_fit(one: Servers) -> None:
    id = one.create()
    with pytest.raises(ReplicaUnavailable):
        one.read(0, "t1-p9")
    with pytest.raises(StaleSchema):
        one.read(0, id, version=3)
    with pytest.raises(ProtocolError):
        one.read(0, id, fragment=b"unknown")


def test_facts_and_work(one: Servers) -> None:
    id = one.create()
    one.write(id, rows(range(20_000)))
    flushed = one.call(0, methods.WorkOnTablet(tablet_id=id, work="flush"))
    assert flushed.numbers == {"rows": 20_000}
    one.write(id, rows(range(100), "w"))
    one.call(0, methods.WorkOnTablet(tablet_id=id, work="flush"))
    compacted = one.call(0, methods.WorkOnTablet(tablet_id=id, work="compact")).numbers
    assert compacted["rowsets_after"] == 1
    analyzed = one.call(0, methods.WorkOnTablet(tablet_id=id, work="analyze")).numbers
    assert analyzed["rows"] == 20_000
    (facts,) = one.call(0, methods.DescribeTablets(tablet_ids=(id, "t9-p0"))).tablets
    assert (facts.rows, plain.statistics_from_plain(facts.statistics).columns["k"].high) == (20_000, 19_999)
    keys = one.call(0, methods.KeySamples(tablet_id=id)).keys
    assert keys == tuple(sorted(keys))
    assert len(keys) == 5
    with pytest.raises(ProtocolError, match="flush, compact or analyze"):
        one.call(0, methods.WorkOnTablet(tablet_id=id, work="polish"))


def test_calls_that_are_none_do_no_harm(one: Servers) -> None:
    id = one.create()
    for call in (methods.Call("me", 1, 1), methods.Call(uuid.uuid4().hex, 0, 0), methods.Call(uuid.uuid4().hex, 1, 2)):
        row = methods.WriteRow(tablet_id=id, schema_version=0, op=Op.INSERT, row={"k": 1, "v": "x"}, call=call)
        with pytest.raises(ProtocolError, match="UUID"):
            one.call(0, row)
    with pytest.raises(ProtocolError, match="99"):
        one.call(0, methods.WriteRow(tablet_id=id, schema_version=0, op=99, row={"k": 1}, call=None))
    assert one.keys(0, id) == []


# ---- tablets that come and go --------------------------------------------------------------------------------------


def test_a_replica_is_removed_with_a_tombstone_or_without(one: Servers) -> None:
    id = one.create()
    one.write(id, rows(range(10)))
    path = one.path / "s0" / "tablets" / id
    configuration = one.reports(id)[0].configuration
    one.call(0, methods.DeleteTablet(tablet_id=id, configuration_index=configuration.index))
    report = one.report(0, id)
    assert report is not None
    assert (report.state, report.configuration) == ("TOMBSTONED", configuration)
    assert report.term > 0
    with pytest.raises(ReplicaUnavailable, match="TOMBSTONED"):
        one.read(0, id)
    assert {entry.name for entry in path.iterdir()} == {"replica", "consensus"}
    one.restart(0)
    wait_for(lambda: one.report(0, id) == report)
    one.call(0, methods.DeleteTablet(tablet_id=id, forget=True))
    assert one.report(0, id) is None
    assert not path.exists()
    one.call(0, methods.DeleteTablet(tablet_id=id))


def test_a_scan_that_runs_outlives_its_tablet(one: Servers) -> None:
    id = one.create()
    load(one, id, 300_000)
    stream = one.stream(0, id, ScanSpec(("k", "v")))
    found = [next(stream)]
    one.call(0, methods.DeleteTablet(tablet_id=id, forget=True))
    found += stream
    assert sorted(tuples(found)) == sorted((k, f"v{k}") for k in range(300_000))
    wait_for(lambda: not (one.path / "s0" / "tablets" / id).exists())


def test_what_crashes_leave_behind_goes(one: Servers) -> None:
    id = one.create()
    one.write(id, rows(range(10)))
    path = one.path / "s0" / "tablets"
    one.stop(0)
    (path / "half-made" / "wal").mkdir(parents=True)
    (path / "half-made" / "consensus").write_bytes(b"x")
    one.start(0)
    wait_for(lambda: not (path / "half-made").exists())
    assert one.leader(id) == 0
    assert one.keys(0, id) == list(range(10))


def test_a_damaged_tablet_fails_alone(one: Servers) -> None:
    good, bad = one.create(), one.create(tablet("t1-p1"))
    one.write(good, rows(range(10)))
    path = one.path / "s0" / "tablets" / bad / "metadata"
    one.stop(0)
    path.write_bytes(b"nonsense" * 10)
    one.start(0)
    report = wait_for(lambda: (r := one.report(0, bad)) and r.state == "FAILED" and r)
    assert "metadata" in report.error
    wait_for(lambda: one.keys(0, good) == list(range(10)))
    with pytest.raises(ReplicaUnavailable, match="metadata"):
        one.read(0, bad)


@pytest.mark.parametrize("part", ["metadata", "replica", "wal"])
def test_files_of_two_tablets_that_were_mixed_up_fail_both_and_not_the_server(one: Servers, part: str) -> None:
    good, first, second = one.create(), one.create(tablet("t1-p1")), one.create(tablet("t1-p2"))
    for number, id in enumerate((good, first, second)):
        one.write(id, rows(range(number * 100, number * 100 + 10)))
    path = one.path / "s0" / "tablets"
    one.stop(0)
    (path / first / part).rename(path / "aside")
    (path / second / part).rename(path / first / part)
    (path / "aside").rename(path / second / part)
    one.start(0)
    for id, other in ((first, second), (second, first)):
        report = wait_for(lambda id=id: (r := one.report(0, id)) and r.state == "FAILED" and r)
        assert f"tablet {other}, expected {id}: files were mixed up" in report.error
    wait_for(lambda: one.keys(0, good) == list(range(10)))


# ---- memory ------------------------------------------------------------------------------------------------------


def test_writes_are_shed_while_memory_is_full(tmp_path: Path) -> None:
    with Servers(tmp_path, 1, memory_limit_bytes=4 << 20, background=False, cache_bytes=1 << 20) as one:
        id = one.create()
        refused: list[Any] = []
        for start in range(0, 400_000, 10_000):
            batch = rows(range(start, start + 10_000))
            request = write_to_request(WriteBatch(batch, Op.UPSERT), tablet_id=id, schema_version=0, call=None)
            try:
                one.call(0, request)
            except ServerOverloaded as error:
                refused.append(error)
                break
        assert refused
        assert refused[0].retryable
        count = len(one.keys(0, id))
        assert count == start
        one.running[0].maintenance.maintain()
        one.write(id, rows(range(start, start + 10)))
        assert len(one.keys(0, id)) == count + 10


def test_a_part_of_a_transaction_that_takes_too_much_memory_is_refused_for_good(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory, "_processwide", weakref.WeakSet())  # other tests' stores would count
    with Servers(tmp_path, 1, memory_limit_bytes=1 << 20, background=False, cache_bytes=1 << 18) as one:
        id = one.create()
        transaction, since = uuid.uuid4().hex, Timestamp(one.running[0].clock.now())

        def stage(number: int) -> None:
            changes = WriteBatch(rows(range(300 * number, 300 * number + 300)), Op.UPSERT, True, unchanged_since=since)
            part = write_to_request(changes, tablet_id=id, schema_version=0, call=None)
            request = StageWrite(
                transaction=transaction, number=number, part=part, decider_table="t", decider_tablet=id
            )
            one.call(0, request)

        stage(0)
        stage(1)
        with pytest.raises(WriteTooLarge, match=r"take .* bytes of memory or more, and may take 262,144, a quarter"):
            for number in range(2, 5):
                stage(number)
        assert one.keys(0, id) == []


def test_a_batch_larger_than_the_memory_is_refused_for_good_and_stops_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory, "_processwide", weakref.WeakSet())  # other tests' stores would count
    with Servers(tmp_path, 1, memory_limit_bytes=1 << 20, background=False, cache_bytes=1 << 18) as one:
        id = one.create()
        one.write(id, rows(range(5)))
        batch = WriteBatch(rows(range(100_000)), Op.UPSERT)
        with pytest.raises(WriteTooLarge, match=r"bytes of memory is too large: .* may take 1,048,576 bytes") as told:
            one.call(0, write_to_request(batch, tablet_id=id, schema_version=0, call=None))
        assert not told.value.retryable
        one.write(id, rows(range(5, 10)))
        assert one.keys(0, id) == list(range(10))
