"""Scans through the client: one timestamp for all tablets, and servers that die in the middle."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from cluster_support_client import FakeCluster, FakeStream, once
from examples import examples
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from nyala import errors
from nyala.cluster.client import retry, steps
from nyala.cluster.client.catalog import statistics_cache as facts
from nyala.cluster.client.client import Client
from nyala.cluster.client.scans import encoded_spec, stream_watch
from nyala.cluster.client.scans.token_scan import TokenScan
from nyala.cluster.wire.messages import methods
from nyala.driver.connection import Connection
from nyala.model.alterations import DropColumn, RenameColumn
from nyala.model.predicates import BloomFilter, InList, Range
from nyala.model.schema import ColumnSchema, HashRule, PartitionSchema, Schema, Table, TableDefinition
from nyala.model.store import ChangeRange, Op, ScanCounters, ScanSpec, ScanToken, Timestamp, WriteBatch
from nyala.model.types import INT, STRING

ROWS = 60
SCHEMA = Schema((ColumnSchema("a", STRING, False), ColumnSchema("k", INT, False), ColumnSchema("v", STRING, True)), 2)
DEFINITION = TableDefinition("t", SCHEMA)


@pytest.fixture
def cluster() -> Iterator[FakeCluster]:
    found = FakeCluster(batch_rows=5)
    yield found
    found.close()


@pytest.fixture
def table(client: Client) -> Table:
    """One tablet with rows of twelve batches."""
    table = client.create_table(DEFINITION)
    client.write(table, WriteBatch(some_rows()))
    return table


def some_rows() -> pa.RecordBatch:
    a, v = [f"a{k % 3}" for k in range(ROWS)], [f"v{k}" for k in range(ROWS)]
    return pa.record_batch({"a": a, "k": pa.array(range(ROWS), pa.int32()), "v": v})


def reading(client: Client, token: ScanToken, held_bytes: int = 64 << 20, counters: ScanCounters | None = None) -> Any:
    scan = TokenScan(
        client._shared, client._catalog, client._calls, client._watch, token, counters or ScanCounters(), held_bytes
    )
    return scan.batches()


def values(batches: Any, *places: int) -> list[Any]:
    """The cells of one column, or tuples of several."""
    found: list[Any] = []
    for batch in batches:
        columns = [batch.column(place).to_arrow().to_pylist() for place in places]
        found += columns[0] if len(places) == 1 else list(zip(*columns))
    return found


def token_of(client: Client, table: Table, spec: ScanSpec) -> ScanToken:
    (token,) = client.scan_tokens(table, spec)
    return token


def die_after(cluster: FakeCluster, batches: int, kill: bool = True) -> None:
    """Kills the server of the first stream after a number of batches; or breaks only the stream."""
    victims: list[FakeStream] = []

    def fault(address: str, request: Any, when: str) -> None:
        if isinstance(request, FakeStream) and request.batches == batches:
            if not victims:
                victims.append(request)
                if kill:
                    cluster.kill(address)
                raise errors.ServerUnavailable(f"{address}: the stream broke off")

    cluster.faults.append(fault)


# ---- servers that die ------------------------------------------------------------------------------------------------


@settings(max_examples=examples(60), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    broken=st.integers(0, 12),
    kill=st.booleans(),
    held=st.sampled_from([0, 500, 64 << 20]),
    ordered=st.booleans(),
    limit=st.one_of(st.none(), st.integers(1, 70)),
    columns=st.sampled_from([("v",), ("k", "v"), ("v", "a", "k"), ()]),
    first=st.sampled_from([0, 1, 4, 11, 12, 13]),
)
def test_a_server_that_dies_changes_nothing(broken, kill, held, ordered, limit, columns, first):
    """`first` batches come by the call that begins the scan, the rest by streams."""
    cluster = FakeCluster(batch_rows=5)
    cluster.first_batches = first
    client = cluster.client()
    try:
        table = client.create_table(DEFINITION)
        client.write(table, WriteBatch(some_rows()))
        token = token_of(client, table, ScanSpec(columns, ordered=ordered, limit=limit))
        die_after(cluster, broken, kill)
        found: list[tuple[Any, ...]] = []
        try:
            for batch in reading(client, token, held):
                assert batch.width == len(columns)
                cells = [vector.to_arrow().to_pylist() for vector in batch.columns()]
                found += list(zip(*cells)) if cells else [()] * batch.length
        except errors.ServerUnavailable as error:
            assert not ordered and kill and held < 64 << 20, "all else goes on"
            assert "was interrupted after" in str(error)
        else:
            model = [tuple({"a": f"a{k % 3}", "k": k, "v": f"v{k}"}[c] for c in columns) for k in range(ROWS)]
            if ordered:
                model = [row for a in range(3) for row in model[a::3]]
                assert found == model[:limit]
            else:
                assert len(found) == min(ROWS, ROWS if limit is None else limit)
                assert columns == () or len(set(found)) == len(found)
                assert set(found) <= set(model)
    finally:
        client.close()
        cluster.close()


def test_a_stream_that_breaks_goes_on_at_the_same_server(client, table, cluster):
    die_after(cluster, 7, kill=False)
    token = token_of(client, table, ScanSpec(("k",)))
    assert sorted(values(reading(client, token, 0), 0)) == list(range(ROWS))
    first, again = (ticket for _, ticket in cluster.requests(methods.ScanTablet))
    assert (again.scanner, first.resume_batch, again.resume_batch) == (first.scanner, 0, 7)


# ---- the call that begins a scan -------------------------------------------------------------------------------------


@pytest.mark.parametrize("first", [1, 5, 11])
def test_more_than_an_answer_holds_comes_by_a_stream(client, table, cluster, first):
    cluster.first_batches = first
    assert values(client.scan(token_of(client, table, ScanSpec(("k",), ordered=True))), 0) == [
        k for a in range(3) for k in range(a, ROWS, 3)
    ]
    ((_, begun),) = cluster.requests(methods.StartScan)
    ((_, ticket),) = cluster.requests(methods.ScanTablet)
    assert (ticket.scanner, ticket.resume_batch) == (begun.ticket.scanner, first)


def test_a_small_scan_is_one_call(client, table, cluster):
    cluster.first_batches = 100
    token = token_of(client, table, ScanSpec(("k",), limit=7))
    cluster.log.clear()
    assert len(values(client.scan(token), 0)) == 7
    assert [type(request) for _, request in cluster.log] == [methods.StartScan]
    batches = client.scan(token)
    next(batches)
    batches.close()
    assert not cluster.requests(methods.CloseScanner), "the server has nothing to forget"


def parts(client: Client, rows: int = 400) -> tuple[Table, list[ScanToken]]:
    """A table of eight tablets, with rows in all of them."""
    schema = Schema((ColumnSchema("k", INT, False),), 1)
    partitions = PartitionSchema((HashRule(("k",), 8),))
    table = client.create_table(TableDefinition("parts", schema, partitions))
    client.write(table, WriteBatch(pa.record_batch({"k": pa.array(range(rows), pa.int32())})))
    tokens = client.scan_tokens(table, ScanSpec(("k",)))
    assert len(tokens) == 8 and all(token.is_small for token in tokens)
    return table, tokens


class VirtualTime:
    """Time in which only pauses pass."""

    def __init__(self) -> None:
        self.now = 0.0

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


def test_without_a_master_neither_plans_nor_scans_wait_longer_than_they_say(
    make_client: Callable[..., Client], cluster: FakeCluster, table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    (token,) = make_client().scan_tokens(table, ScanSpec(("k",)))
    client = make_client(deadline=30.0)  # which does not have the tablet's location yet
    cluster.faults.append(once(methods.LocateTablets, errors.ServerUnavailable("it is away"), times=1 << 30))
    clock = VirtualTime()
    monkeypatch.setattr(retry, "time", clock)
    monkeypatch.setattr(steps, "time", clock)
    client.statistics(table)
    assert 4 < clock.now <= facts.PATIENCE_SECONDS
    began = clock.now
    (asked,) = client.scan_all([token], [ScanCounters()])
    with pytest.raises(errors.DeadlineExceeded, match=r"a scan of table t .* 30 seconds.*it is away"):
        list(asked)
    assert 28 < clock.now - began <= 30 + 2 * retry.LEAST_SECONDS
    cluster.faults.clear()
    assert len(values(reading(client, token), 0)) == ROWS


def test_the_tokens_of_a_scan_are_asked_for_before_the_first_is_read(client, cluster):
    cluster.first_batches = 100
    _, tokens = parts(client)
    cluster.log.clear()
    scans = client.scan_all(tokens, [ScanCounters() for _ in tokens])
    asked = [request.ticket.tablet_id for _, request in cluster.requests(methods.StartScan)]
    assert asked == [token.tablet_id for token in tokens]
    assert sorted(value for scan in scans for value in values(scan, 0)) == list(range(400))
    assert [type(request) for _, request in cluster.log] == [methods.StartScan] * 8


def test_what_was_asked_for_and_is_not_read_is_given_up_at_the_server(client, cluster):
    _, tokens = parts(client)
    cluster.first_batches = 1
    first, second, *others = client.scan_all(tokens, [ScanCounters() for _ in tokens])
    assert len(values(first, 0)) > 0
    next(second)  # a little is held back until it is complete: it has ended at the server
    cluster.first_batches = 100
    whole = client.scan_all(tokens[:1], [ScanCounters()])
    for scan in (second, *others, *whole):
        scan.close()
        scan.close()
        assert next(scan, None) is None
    begun = {request.ticket.tablet_id: request.ticket.scanner for _, request in cluster.requests(methods.StartScan)[:8]}
    wait_closed(cluster, {begun[token.tablet_id] for token in tokens[2:]})


def wait_closed(cluster: FakeCluster, wanted: set[str]) -> None:
    """Returns when these scans have been cancelled, and no others."""
    end = time.monotonic() + 90
    while {request.scanner for _, request in cluster.requests(methods.CloseScanner)} != wanted:
        assert time.monotonic() < end, "a scan was left at its server, or one was given up that had ended"
        time.sleep(0.01)


def test_what_was_asked_for_is_given_up_though_its_first_answer_is_late(client, cluster):
    _, tokens = parts(client)
    cluster.faults.append(once(methods.StartScan, errors.DeadlineExceeded("no answer in time")))
    (scan,) = client.scan_all(tokens[:1], [ScanCounters()])
    scan.close()
    ((_, begun),) = cluster.requests(methods.StartScan)
    wait_closed(cluster, {begun.ticket.scanner})


def test_an_ask_that_fails_is_no_error_before_its_token_is_read(client, cluster):
    cluster.first_batches = 100
    table, tokens = parts(client)
    leader = client._locations.get(tokens[3].tablet_id, table.id).leader
    cluster.dead.add(leader)
    scans = client.scan_all(tokens, [ScanCounters() for _ in tokens])
    cluster.dead.discard(leader)
    assert sorted(value for scan in scans for value in values(scan, 0)) == list(range(400))


def test_a_large_scan_is_a_stream_from_the_first(client, table, cluster, monkeypatch):
    monkeypatch.setattr(encoded_spec, "LARGE_ROWS", ROWS)
    client.statistics(table)
    list(client.scan(token_of(client, table, ScanSpec(("k",)))))
    assert not cluster.requests(methods.StartScan)
    list(client.scan(token_of(client, table, ScanSpec(("k",), (Range("k", upper=9),)))))
    assert len(cluster.requests(methods.StartScan)) == 1
    monkeypatch.setattr(encoded_spec, "STARTING_FILTER_BYTES", 100)
    bloom = BloomFilter("k", np.full(64, 2**64 - 1, np.uint64))
    assert len(values(client.scan(token_of(client, table, ScanSpec(("k",), (bloom,)))), 0)) == ROWS
    assert len(cluster.requests(methods.StartScan)) == 1


@pytest.mark.parametrize(
    "error",
    [
        errors.ServerOverloaded("64 scans at once"),
        errors.ServerUnavailable("the server stops"),
        errors.ReplicaUnavailable("no replica here"),
        errors.DeadlineExceeded("no answer in time"),
        errors.NotTheLeader("another leads", "", 1),
    ],
)
def test_a_beginning_that_fails_is_tried_again(client, table, cluster, error):
    cluster.first_batches = 3
    cluster.faults.append(once(methods.StartScan, error))
    token = token_of(client, table, ScanSpec(("k",)))
    assert sorted(values(client.scan(token), 0)) == list(range(ROWS))
    is_slow = isinstance(error, errors.DeadlineExceeded)
    assert len(cluster.requests(methods.StartScan)) == (1 if is_slow else 2), "the next one is asked by a stream"
    client.close()
    assert len(cluster.requests(methods.CloseScanner)) == is_slow


def test_answers_that_say_not_yet_are_no_progress(
    client: Client, table: Table, cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A tablet that has lost its majority: its servers reply that it takes a while, and then that they cannot."""
    cluster.first_batches = 0
    clock = VirtualTime()
    asked = itertools.count()

    def fault(address: str, request: Any, when: str) -> None:
        if isinstance(request, methods.ScanTablet):
            assert next(asked) < 300, "the scan goes on for ever"
            raise errors.ReplicaUnavailable("nobody leads it")

    cluster.faults.append(fault)
    token = token_of(client, table, ScanSpec(("k",)))
    monkeypatch.setattr(retry, "time", clock)
    monkeypatch.setattr(steps, "time", clock)
    with pytest.raises(errors.DeadlineExceeded, match=r"a scan of table t .* nobody leads it") as raised:
        list(client.scan(token))
    assert str(raised.value).count("was not done within") == 1, "a deadline that is over is told once"
    assert clock.now <= 30


def test_an_error_of_the_data_ends_a_beginning(client, table, cluster):
    cluster.faults.append(once(methods.StartScan, errors.HistoryGone("history is kept from ... on")))
    with pytest.raises(errors.HistoryGone, match="history is kept"):
        list(client.scan(token_of(client, table, ScanSpec(("k",)))))
    assert (len(cluster.requests(methods.StartScan)), cluster.requests(methods.ScanTablet)) == (1, [])


@pytest.mark.parametrize("held", [0, 64 << 20])
def test_a_server_that_dies_behind_its_answer(client, table, cluster, held):
    """The stream that should resume finds no server."""
    cluster.first_batches = 4

    def fault(address: str, request: Any, when: str) -> None:
        if isinstance(request, methods.ScanTablet) and request.resume_batch == 4 and not cluster.dead:
            cluster.kill(address)
            raise errors.ServerUnavailable(f"{address} cannot be reached")

    cluster.faults.append(fault)
    token = token_of(client, table, ScanSpec(("k",), ordered=True))
    assert values(reading(client, token, held), 0) == [k for a in range(3) for k in range(a, ROWS, 3)]
    assert len({address for address, _ in cluster.requests(methods.StartScan)}) == 2


def test_a_query_is_run_again_where_no_row_has_come_out(connection: Connection, client, table, cluster, monkeypatch):
    monkeypatch.setattr("nyala.cluster.client.scans.token_scan.HELD_BYTES", 0)
    monkeypatch.setattr(
        Client,
        "scan",
        lambda self, token, counters=None: reading(self, token, 0, counters),
    )
    die_after(cluster, 3)
    assert connection.execute("SELECT count(*), sum(k), min(v) FROM t WHERE k >= 0").fetchall() == [(60, 1770, "v0")]
    assert len({address for address, _ in cluster.requests(methods.ScanTablet)}) == 2


def test_a_slow_reader_keeps_its_scan(client, table, cluster, monkeypatch):
    monkeypatch.setattr(stream_watch, "KEEP_ALIVE_SECONDS", 0.05)
    batches = reading(client, token_of(client, table, ScanSpec(("k",))), 0)
    found = values([next(batches)], 0)
    while not cluster.requests(methods.KeepAlive):
        time.sleep(0.01)
    ((_, ticket),) = cluster.requests(methods.ScanTablet)
    assert cluster.requests(methods.KeepAlive)[0][1].scanner == ticket.scanner
    gone = [errors.ScannerExpired("the scan's stream was not read for too long")]

    def fault(address: str, request: Any, when: str) -> None:
        if isinstance(request, FakeStream) and gone:
            raise gone.pop()

    cluster.faults.append(fault)
    assert sorted(found + values(batches, 0)) == list(range(ROWS))
    assert [ticket.resume_batch for _, ticket in cluster.requests(methods.ScanTablet)] == [0, 1]


def test_a_silent_server_is_given_up(client, table, cluster, monkeypatch):
    monkeypatch.setattr(stream_watch, "SILENT_SECONDS", 0.1)
    silent: list[str] = []

    def fault(address: str, request: Any, when: str) -> None:
        if isinstance(request, methods.GetStatus) and address in silent:
            raise errors.DeadlineExceeded(f"{address} has not answered in time")
        if isinstance(request, FakeStream) and request.batches == 2 and silent in ([], [address]):
            silent[:] = [address]
            assert request.closed.wait(90)

    cluster.faults.append(fault)
    token = token_of(client, table, ScanSpec(("k",)))
    assert sorted(values(client.scan(token), 0)) == list(range(ROWS))
    assert cluster.requests(methods.GetStatus)


# ---- timestamps------------------------------------------------------------------------------------------------------


def test_all_tokens_read_at_one_time_above_all_writes(client, table):
    result = client.write_row(table, Op.UPSERT, {"a": "a0", "k": 0, "v": "new"})
    token = token_of(client, table, ScanSpec(("v",)))
    assert token.spec.snapshot is not None and token.spec.snapshot > result.timestamp
    client.write_row(table, Op.UPSERT, {"a": "a0", "k": 0, "v": "newer"})
    assert "new" in values(client.scan(token), 0)


def test_a_time_of_another_client_is_taken_note_of(client, make_client, table, cluster):
    ahead = Timestamp(client.now() + (5_000_000 << 12))
    other = make_client()
    other._shared.clock._latest = 0
    with pytest.raises(errors.DataError, match=r"cannot read table t as of .*: it is only"):
        other.scan_tokens(table, ScanSpec(("k",), snapshot=ahead))
    other.observe(ahead)
    assert other.scan_tokens(table, ScanSpec(("k",), snapshot=ahead))


def test_latest_reads_are_the_leaders_own(make_client, cluster):
    client = make_client(read_mode="READ_LATEST")
    table = client.create_table(DEFINITION)
    client.write_row(table, Op.INSERT, {"a": "a", "k": 1})
    token = token_of(client, table, ScanSpec(("k",)))
    assert token.spec.snapshot is None
    cluster.log.clear()
    assert values(client.scan(token), 0) == [1]
    ((address, ticket),) = cluster.requests(methods.ScanTablet)
    assert "snapshot" not in ticket.spec
    assert address == cluster.leader(token.tablet_id)


def test_the_past_is_read_at_any_replica_and_the_present_at_the_leader(make_client, table, cluster):
    client = make_client()
    now = client.now()
    leader = cluster.leader(client.scan_tokens(table, ScanSpec(()))[0].tablet_id)
    old = Timestamp(now - (60_000_000 << 12))
    asked: dict[str, set[str]] = {}
    for name, snapshot in (("fresh", None), ("past", old)):
        cluster.log.clear()
        for _ in range(30):
            token = token_of(client, table, ScanSpec(("k",), snapshot=snapshot))
            list(client.scan(token))
        asked[name] = {address for address, _ in cluster.requests(methods.ScanTablet)}
    assert asked["fresh"] == {leader}
    assert len(asked["past"]) == 3


def test_a_reader_of_the_present_follows_a_leader_that_has_handed_over(make_client, table, cluster):
    """The former leader still responds, but gets new rows half a heartbeat later; so it names the present leader."""
    client = make_client()
    (tablet,) = (token.tablet_id for token in client.scan_tokens(table, ScanSpec(())))
    before = cluster.leader(tablet)

    def asked(scans: int) -> list[str]:
        cluster.log.clear()
        for _ in range(scans):
            list(client.scan(token_of(client, table, ScanSpec(("k",)))))
        return [address for address, _ in cluster.requests(methods.ScanTablet)]

    assert asked(2) == [before] * 2
    cluster.leaders[tablet] = after = next(address for address in cluster.addresses if address != before)
    assert asked(3) == [before, after, after]
    client._locations.forget_leader(tablet, after)
    assert asked(3)[1:] == [after] * 2, "none was known, and whoever was asked has told"


# ---- tokens ----------------------------------------------------------------------------------------------------------


def test_tablets_are_pruned_and_their_places_told(client, cluster):
    parts = PartitionSchema((HashRule(("k",), 4),))
    schema = Schema((ColumnSchema("k", INT, False), ColumnSchema("v", STRING, True)), 1)
    one = client.create_table(TableDefinition("one", schema, parts))
    other = client.create_table(TableDefinition("other", schema, parts))
    client.write(one, WriteBatch(pa.record_batch({"k": pa.array(range(20), pa.int32())})))
    tokens = client.scan_tokens(one, ScanSpec(("k",)))
    assert [t.partition for t in tokens] == [t.partition for t in client.scan_tokens(other, ScanSpec(("k",)))]
    assert len({token.partition for token in tokens}) == 4
    assert len(client.scan_tokens(one, ScanSpec(("k",), (Range.equal("k", 3),)))) == 1
    assert client.scan_tokens(one, ScanSpec(("k",), (InList("k", ()),))) == []
    client.statistics(one)
    assert sum(token.rows for token in client.scan_tokens(one, ScanSpec(("k",)))) == 20
    named = client.scan_tokens(one, ScanSpec(("k",), tablet=tokens[2].tablet_id))
    assert [token.tablet_id for token in named] == [tokens[2].tablet_id]
    with pytest.raises(errors.TabletGone, match="table one has no tablet x: its range partition was dropped"):
        client.scan_tokens(one, ScanSpec(("k",), tablet="x"))
    with pytest.raises(errors.UnknownColumn, match="column w does not exist"):
        client.scan_tokens(one, ScanSpec(("w",)))


def test_tokens_outlive_a_rename_of_their_columns(client, make_client, table):
    token = token_of(client, table, ScanSpec(("v", "k"), (Range("k", lower=55),)))
    other = make_client()
    other.alter_table("t", [RenameColumn("v", "w"), RenameColumn("k", "v")])
    assert sorted(values(client.scan(token), 1, 0)) == [(k, f"v{k}") for k in range(55, 60)]
    other.alter_table("t", [DropColumn("w")])
    with pytest.raises(errors.StaleScanToken, match="column v of table t has been dropped"):
        list(client.scan(token))


def test_a_token_of_a_dropped_table_says_so(client, make_client, table):
    token = token_of(client, table, ScanSpec(("k",)))
    make_client().drop_table("t")
    with pytest.raises(errors.UnknownTable, match="table t has been dropped"):
        list(client.scan(token))


def test_changes_travel(client, table):
    since = client.now()
    client.write_row(table, Op.UPDATE, {"a": "a1", "k": 1, "v": "new"})
    client.write_row(table, Op.DELETE, {"a": "a2", "k": 2})
    token = token_of(client, table, ScanSpec(("k", "v", "_change"), changes=ChangeRange(since)))
    assert sorted(values(client.scan(token), 0, 1, 2)) == [(1, "new", "update"), (2, "v2", "delete")]


# ---- counters and ends -----------------------------------------------------------------------------------------------


def test_counters_tell_what_the_servers_did(client, table):
    passed: list[int] = []
    counters = ScanCounters(watch=passed.append)
    token = token_of(client, table, ScanSpec(("k",), (Range("k", upper=9),)))
    assert len(values(client.scan(token, counters), 0)) == 10
    assert (counters.rows_considered, counters.rows_returned) == (ROWS, 10)
    assert sum(passed) == ROWS


def test_a_cancelled_scan_ends_while_it_waits(client, table, cluster):
    waits = threading.Event()

    def fault(address: str, request: Any, when: str) -> None:
        if isinstance(request, FakeStream) and request.batches == 2:
            waits.set()
            assert request.closed.wait(90)

    cluster.faults.append(fault)

    def watch(rows: int) -> None:
        if waits.is_set():
            raise errors.Cancelled("the statement was cancelled")

    token = token_of(client, table, ScanSpec(("k",)))
    with pytest.raises(errors.Cancelled, match="the statement was cancelled"):
        list(client.scan(token, ScanCounters(watch=watch)))
    assert cluster.streams[-1].closed.is_set()


def test_a_scan_that_is_left_is_forgotten_at_the_server(client, table, cluster):
    batches = reading(client, token_of(client, table, ScanSpec(("k",))), 0)
    next(batches)
    batches.close()
    client.close()
    assert cluster.streams[-1].closed.is_set()
    assert not cluster.scanners


def test_errors_of_the_data_come_through(client, table, cluster):
    cluster.faults.append(once(methods.ScanTablet, errors.HistoryGone("history is kept from ... on")))
    with pytest.raises(errors.HistoryGone, match="history is kept"):
        list(client.scan(token_of(client, table, ScanSpec(("k",)))))
    assert len(cluster.requests(methods.ScanTablet)) == 1


def test_a_closed_client_says_so(client: Client, table: Table, make_client: Callable[..., Client]):
    token = token_of(client, table, ScanSpec(("k",)))
    batches = client.scan(token)
    client.close()
    for use in (client.now, client.tables, lambda: client.table("t"), lambda: list(batches)):
        with pytest.raises(errors.StoreClosed, match="is closed; connect again"):
            use()
