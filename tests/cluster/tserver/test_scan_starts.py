"""Scans that begin with a call: the same rows as by a stream, little memory, and no blocked thread."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest
from examples import examples
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from nyala.cluster.tserver.scans import scan_service
from nyala.cluster.tserver.scans.scanners import KEPT_BATCHES
from nyala.cluster.wire.messages import methods, plain
from nyala.cluster.wire.messages.methods import ScanStart, ScanTablet, StartScan
from nyala.cluster.wire.rows.scan_streams import StartedScan
from nyala.errors import ProtocolError, ReplicaUnavailable, ScannerExpired, StaleSchema
from nyala.model.predicates import InList, Range
from nyala.model.store import ChangeRange, Op, ScanSpec, Timestamp
from nyala.model.vectors.vector import Batch
from tserver_support import Servers, rows, tuples, wait_for

ROWS = 30_000


def halved(fragment: bytes, table: Any, spec: ScanSpec) -> Any:
    """A fragment that returns the first half of each batch."""
    return lambda batches: (batch.slice(0, batch.length // 2) for batch in batches)


@pytest.fixture(autouse=True)
def small_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    """A few rows exceed a reply."""
    monkeypatch.setattr(scan_service, "START_BYTES", 256 << 10)


@pytest.fixture(scope="module")
def one(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Servers]:
    """A server with a tablet of several rowsets and rows in memory."""
    with Servers(tmp_path_factory.mktemp("starts"), 1, background=False) as servers:
        id = servers.create()
        for start in range(0, ROWS, 10_000):
            servers.write(id, rows(range(start, start + 10_000)))
            if start < 20_000:
                servers.call(0, methods.WorkOnTablet(tablet_id=id, work="flush"))
        servers.running[0].scans._fragments = halved
        yield servers


def ticket(servers: Servers, spec: ScanSpec, **more: Any) -> ScanTablet:
    if spec.snapshot is None:
        spec = replace(spec, snapshot=servers.clock.now())
    fields = {"tablet_id": "t1-p0", "schema_version": 0, "scanner": uuid.uuid4().hex, **more}
    return ScanTablet(spec=plain.spec_to_plain(spec), **fields)


def start(servers: Servers, asked: ScanTablet) -> ScanStart:
    reply: ScanStart = servers.call(0, StartScan(ticket=asked))
    return reply


def whole(servers: Servers, asked: ScanTablet) -> tuple[list[Batch], Any]:
    """Returns all batches, by the call and the stream that resumes, and the end."""
    begun = StartedScan(start(servers, asked))
    found = list(begun)
    if begun.end is not None:
        return found, begun.end
    channel = servers.channels.get(servers.running[0].address)
    stream = channel.scan(msgspec.structs.replace(asked, resume_batch=begun.batches), 30.0)
    found += stream
    return found, stream.end


specs = st.builds(
    ScanSpec,
    st.sampled_from([("k",), ("v", "k"), ("v",), ()]),
    st.sampled_from([(), (Range("k", 100, 19_990),), (InList("k", (5, 15_000, 29_999)),), (Range("k", lower=ROWS),)]),
    ordered=st.booleans(),
    limit=st.sampled_from([None, 1, 4_000, 12_000]),
)


@settings(max_examples=examples(40), suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(spec=specs, fragment=st.booleans(), after=st.sampled_from([None, (0,), (17_000,)]), most=st.integers(0, 200_000))
def test_the_same_rows_as_by_a_stream(one: Servers, monkeypatch, spec, fragment, after, most) -> None:
    monkeypatch.setattr(scan_service, "START_BYTES", most)
    more = {"fragment": b"half" if fragment else b"", "after_key": after if spec.ordered and not fragment else None}
    asked = ticket(one, spec, **more)
    channel = one.channels.get(one.running[0].address)
    stream = channel.scan(msgspec.structs.replace(asked, scanner="by stream" + asked.scanner), 30.0)
    expected = list(stream)
    found, end = whole(one, asked)
    if spec.columns:
        compare = list if spec.ordered else sorted
        assert compare(tuples(found)) == compare(tuples(expected))
    assert [batch.length for batch in found] == [batch.length for batch in expected]
    assert (end.rows_considered, end.batches) == (stream.end.rows_considered, len(found))


def test_changes_come_too(one: Servers) -> None:
    since = one.clock.now()
    one.write("t1-p0", rows(range(5), "new"))
    one.write("t1-p0", rows([7]).select(["k"]), Op.DELETE)
    reply = start(one, ticket(one, ScanSpec(("k", "_change"), changes=ChangeRange(since))))
    assert reply.end is not None
    found = sorted(tuples(StartedScan(reply)))
    assert found == [*((k, "update") for k in range(5)), (7, "delete")]
    one.write("t1-p0", rows([*range(5), 7]))


def test_a_scan_that_ended_is_forgotten(one: Servers) -> None:
    scanners = one.running[0].scans._scanners
    asked = ticket(one, ScanSpec(("k",), (Range("k", 3, 9),)))
    assert start(one, asked).end is not None
    assert asked.scanner not in scanners._live and asked.scanner not in scanners._finished
    channel = one.channels.get(one.running[0].address)
    with pytest.raises(ScannerExpired):
        next(channel.scan(msgspec.structs.replace(asked, resume_batch=1), 30.0))


def test_no_answer_is_large(one: Servers, monkeypatch) -> None:
    asked = ticket(one, ScanSpec(("v", "k")))
    reply = start(one, asked)
    assert reply.end is None
    assert len(msgspec.msgpack.encode(reply)) < scan_service.START_BYTES + 10_000
    assert len(reply.batches) < KEPT_BATCHES
    scanner = one.running[0].scans._scanners._live[asked.scanner]
    assert 0 < scanner._kept_bytes < 10 * scan_service.START_BYTES
    one.call(0, methods.CloseScanner(scanner=asked.scanner))
    assert (one.running[0].scans.count, scanner._kept_bytes) == (0, 0)


def test_what_is_not_there_yet_is_waited_for_by_the_stream(one: Servers, monkeypatch) -> None:
    """The tablet cannot be read for a while; the call reports that, and its thread is free."""
    replica = one.running[0].tablets.get("t1-p0")
    real, asked_until = type(replica).view, []

    def view(self: Any, snapshot: Timestamp, *, deadline: float, **more: Any) -> Any:
        asked_until.append(deadline)
        if len(asked_until) == 1:
            time.sleep(max(0.0, deadline - time.monotonic()))
            raise ReplicaUnavailable("it does not have all of the tablet up to then yet")
        return real(self, snapshot, deadline=deadline, **more)

    monkeypatch.setattr(type(replica), "view", view)
    found, end = whole(one, ticket(one, ScanSpec(("k",), (Range("k", 3, 3),), limit=1)))
    assert (list(tuples(found)), end.batches, len(asked_until)) == ([(3,)], 1, 2)
    assert asked_until[1] - asked_until[0] > 1, "the stream has time"


def test_a_scan_that_is_closed_before_its_delayed_start_leaves_nothing(one: Servers, monkeypatch) -> None:
    """A large call that begins a scan is sent separately, and may arrive after the one that closes it."""
    service = one.running[0].scans
    real, may_start, errors = service._scanners.start, threading.Event(), []

    def delayed(*arguments: Any) -> Any:
        assert may_start.wait(60)
        return real(*arguments)

    def begin() -> None:
        try:
            start(one, asked)
        except ScannerExpired as error:
            errors.append(error)

    monkeypatch.setattr(service._scanners, "start", delayed)
    asked = ticket(one, ScanSpec(("v", "k")))
    thread = threading.Thread(target=begin)
    thread.start()
    one.call(0, methods.CloseScanner(scanner=asked.scanner))
    may_start.set()
    thread.join()
    assert (len(errors), service.count) == (1, 0)


def test_more_beginnings_than_are_served_go_by_streams(one: Servers) -> None:
    starts = one.running[0].scans._starts
    taken = 0
    while starts.acquire(blocking=False):
        taken += 1
    try:
        asked = ticket(one, ScanSpec(("k",), (Range("k", 3, 4),)))
        assert start(one, asked) == ScanStart()
        assert sorted(tuples(whole(one, asked)[0])) == [(3,), (4,)]
    finally:
        starts.release(taken)


def test_tickets_that_do_not_fit(one: Servers) -> None:
    spec = ScanSpec(("k",))
    for asked, error in (
        (ticket(one, spec, tablet_id="t1-p9"), ReplicaUnavailable),
        (ticket(one, spec, schema_version=3), StaleSchema),
        (ticket(one, spec, resume_batch=2), ProtocolError),
        (ticket(one, spec, after_key=(1, 2)), ProtocolError),
        (msgspec.structs.replace(ticket(one, spec), spec={"columns": 7}), ProtocolError),
    ):
        with pytest.raises(error):
            start(one, asked)
    wait_for(lambda: one.running[0].scans.count == 0)


def test_a_server_that_restarts_has_forgotten_what_it_began(tmp_path: Path) -> None:
    with Servers(tmp_path, 1) as servers:
        servers.create()
        servers.write("t1-p0", rows(range(ROWS)))
        asked = ticket(servers, ScanSpec(("v", "k"), (Range("k", 0, ROWS),)))
        reply = start(servers, asked)
        assert reply.end is None
        servers.restart(0)
        servers.leader("t1-p0")
        channel = servers.channels.get(servers.running[0].address)
        resumed = msgspec.structs.replace(asked, resume_batch=max(1, len(reply.batches)))
        with pytest.raises(ScannerExpired):
            next(channel.scan(resumed, 30.0))
