"""Writes through the client: the same results as the embedded store, exactly once whatever messages are lost."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from cluster_support_client import FakeCluster, once
from examples import examples
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from nyala import errors
from nyala.cluster.client.client import Client
from nyala.cluster.client.writes import routing
from nyala.cluster.wire.messages import methods
from nyala.driver.connection import Connection
from nyala.model.alterations import AddColumn, AddRangePartition, DropColumn, DropRangePartition, RenameColumn
from nyala.model.clock import LOGICAL_BITS, wall_microseconds
from nyala.model.partitions.partition import Partitioner
from nyala.model.schema import (
    ColumnSchema,
    HashRule,
    PartitionSchema,
    RangePartition,
    RangeRule,
    Schema,
    Table,
    TableDefinition,
)
from nyala.model.store import Op, ScanSpec, Store, WriteBatch
from nyala.model.types import INT, STRING
from nyala.storage.database import Database

SCHEMA = Schema(
    (
        ColumnSchema("k", INT, False),
        ColumnSchema("v", STRING, True),
        ColumnSchema("n", INT, False),
        ColumnSchema("fixed", INT, True, immutable=True),
    ),
    1,
)
RANGES = RangeRule(("k",), (RangePartition((0,), (10,)), RangePartition((10,), (30,))))
DEFINITION = TableDefinition("t", SCHEMA, PartitionSchema((HashRule(("k",), 3),), RANGES))


@pytest.fixture
def table(client: Client) -> Table:
    return client.create_table(DEFINITION)


def rows_of(store: Store, table: Table) -> list[tuple[Any, ...]]:
    """All rows by key."""
    names = tuple(table.schema.names)
    found = []
    for token in store.scan_tokens(table, ScanSpec(names)):
        for batch in store.scan(token):
            found += [tuple(row.values()) for row in batch.to_arrow(names).to_pylist()]
    return sorted(found)


def some(keys: list[int], **columns: Any) -> pa.RecordBatch:
    """Rows with these keys and the least they need."""
    n = columns.pop("n", keys)
    return pa.record_batch({"k": pa.array(keys, pa.int32()), "n": pa.array(n, pa.int32()), **columns})


def told(result: Any) -> tuple[int, list[tuple[int, str, str]]]:
    """The content of a write's result, except its timestamp."""
    return result.applied, [(e.row, type(e.error).__name__, str(e.error)) for e in result.errors]


# ---- against the embedded store --------------------------------------------------------------------------------------

ROW = st.fixed_dictionaries(
    {
        "k": st.one_of(st.integers(0, 29), st.integers(30, 31), st.none()),
        "v": st.one_of(st.none(), st.text("ab", max_size=3)),
        "n": st.one_of(st.integers(0, 5), st.none()),
        "fixed": st.one_of(st.none(), st.integers(0, 3)),
        "op": st.sampled_from(list(Op)),
        "isset": st.booleans(),
    }
)


@settings(max_examples=examples(60), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    batches=st.lists(st.tuples(st.lists(ROW, min_size=1, max_size=25), st.booleans(), st.booleans()), max_size=4),
    piece_rows=st.sampled_from([1, 3, 1 << 17]),
)
def test_the_embedded_store_gives_the_same_answers(monkeypatch, batches, piece_rows):
    monkeypatch.setattr(routing, "PIECE_ROWS", piece_rows)
    cluster, model = FakeCluster(), Database(":memory:", background=False)
    client = cluster.client()
    try:
        table, same = client.create_table(DEFINITION), model.create_table(DEFINITION)
        for rows, all_or_none, with_isset in batches:
            data = {name: pa.array([row[name] for row in rows], type_) for name, type_ in _TYPES.items()}
            isset = {"n": np.array([row["isset"] for row in rows])} if with_isset else {}
            ops = np.array([row["op"] for row in rows], np.uint8)
            batch = WriteBatch(pa.record_batch(data), ops, all_or_none, isset)
            assert told(client.write(table, batch)) == told(model.write(same, batch))
            assert rows_of(client, table) == rows_of(model, same)
    finally:
        client.close()
        cluster.close()
        model.close()


_TYPES = {"k": pa.int32(), "v": pa.string(), "n": pa.int32(), "fixed": pa.int32()}


@settings(max_examples=examples(40), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(st.sampled_from(list(Op)), ROW, st.sets(st.sampled_from(["v", "n", "fixed"]))), max_size=12))
def test_single_rows_have_the_answers_of_the_embedded_store(written):
    cluster, model = FakeCluster(), Database(":memory:", background=False)
    client = cluster.client()
    try:
        table, same = client.create_table(DEFINITION), model.create_table(DEFINITION)
        for op, row, names in written:
            cells = {"k": row["k"], **{name: row[name] for name in names}}
            assert told(client.write_row(table, op, cells)) == told(model.write_row(same, op, cells))
            for key in range(0, 31, 5):
                columns = ("n", "v", "k")
                assert client.read_row(table, (key,), columns) == model.read_row(same, (key,), columns)
    finally:
        client.close()
        cluster.close()
        model.close()


@pytest.mark.parametrize(
    "rows",
    [
        pa.record_batch({"k": [1], "nothing": [2]}),
        pa.record_batch({"n": pa.array([1], pa.int32())}),
        pa.record_batch({"k": ["text"]}),
    ],
)
def test_what_is_wrong_with_a_batch_is_raised_in_the_same_words(client, table, cluster, rows):
    with pytest.raises(errors.Error) as here:
        client.write(table, WriteBatch(rows))
    with pytest.raises(errors.Error) as there:
        cluster.database.write(table, WriteBatch(rows))
    assert (type(here.value), str(here.value)) == (type(there.value), str(there.value))
    assert not cluster.requests(methods.Write)


# ---- pieces ----------------------------------------------------------------------------------------------------------


def test_large_batches_are_cut_and_keys_stay_together(client, table, monkeypatch):
    monkeypatch.setattr(routing, "PIECE_BYTES", 1 << 10)
    keys = [key % 30 for key in range(3000)]
    routed = routing.route(client._catalog.known(table), WriteBatch(some(keys), Op.UPSERT))
    assert len(routed.pieces) > 10
    assert sorted(number for piece in routed.pieces for number in piece.numbers.tolist()) == list(range(3000))
    owners: dict[int, int] = {}
    for place, piece in enumerate(routed.pieces):
        assert piece.numbers.tolist() == sorted(piece.numbers.tolist(), key=lambda n: (keys[n], n))
        for key in piece.batch.rows.column("k").to_pylist():
            assert owners.setdefault(key, place) == place


@given(st.lists(st.integers(0, 2000), min_size=1, max_size=40), st.booleans())
def test_cut_tiles_the_rows(sizes, keyed):
    rows = pa.record_batch({"v": ["x" * size for size in sizes]})
    places = np.arange(0, len(sizes), 3) if keyed else None
    parts = list(routing.cut(rows, 0, len(sizes), places))
    assert [row for start, stop in parts for row in range(start, stop)] == list(range(len(sizes)))
    if keyed:
        assert all(start % 3 == 0 for start, _ in parts)


def test_rows_go_straight_to_the_leaders_of_their_tablets(client, table, cluster):
    client.write(table, WriteBatch(some(list(range(30)))))
    sent = cluster.requests(methods.Write)
    assert {request.tablet_id for _, request in sent} == set(client._catalog.known(table).tablet_ids)
    assert all(address == cluster.leader(request.tablet_id) for address, request in sent)
    partitioner = Partitioner(table.schema, table.partitions)
    assert len(sent) == len(partitioner.partitions)


# ---- all or none -----------------------------------------------------------------------------------------------------


def test_all_are_checked_before_any_is_written(client, table, cluster):
    client.write(table, WriteBatch(some([5])))
    cluster.log.clear()
    result = client.write(table, WriteBatch(some([1, 5, 7, 99, 12]), all_or_none=True))
    assert result.applied == 0
    assert [(e.row, type(e.error)) for e in result.errors] == [(1, errors.AlreadyPresent), (3, errors.NoPartition)]
    assert all(request.check_only and request.call is None for _, request in cluster.requests(methods.Write))
    assert [row[0] for row in rows_of(client, table)] == [5]


def test_what_cannot_be_refused_is_not_checked(client, table, cluster):
    batch = some([1, 12, 25])
    assert client.write(table, WriteBatch(batch, Op.UPSERT, all_or_none=True)).applied == 3
    assert client.write(table, WriteBatch(batch.select(["k"]), Op.DELETE_IGNORE, all_or_none=True)).applied == 3
    assert not any(request.check_only for _, request in cluster.requests(methods.Write))


# ---- exactly once ----------------------------------------------------------------------------------------------------


def test_a_lost_answer_is_asked_for_again_by_the_same_number(client, table, cluster):
    cluster.faults.append(once(methods.Write, errors.ServerUnavailable("broke off"), "after", times=2))
    result = client.write(table, WriteBatch(some([1, 2, 3])))
    assert told(result) == (3, [])
    assert len(cluster.applied) == len(set(cluster.applied))
    sent = [(request.tablet_id, request.call.sequence) for _, request in cluster.requests(methods.Write)]
    assert len(sent) > len(set(sent))


def test_a_row_is_written_once_though_leaders_die(client, table, cluster):
    client.write_row(table, Op.INSERT, {"k": 1, "n": 1})
    (address, request), *_ = cluster.requests(methods.WriteRow)

    def die(at: str, asked: Any, when: str) -> None:
        if isinstance(asked, methods.WriteRow) and when == "after" and at == address and at not in cluster.dead:
            cluster.kill(at)
            raise errors.ServerUnavailable(f"{at}: broke off")

    cluster.faults.append(die)
    result = client.write_row(table, Op.DELETE, {"k": 1})
    assert told(result) == (1, [])
    assert len(cluster.requests(methods.WriteRow)) >= 3
    assert client.read_row(table, (1,), ("k",)) is None
    assert request.tablet_id in cluster.leaders


def test_a_row_is_written_unless_it_was_changed_meanwhile(client, table, cluster):
    for key in (1, 2):
        client.write_row(table, Op.INSERT, {"k": key, "n": 0})
    read_at = client.now()
    client.write_row(table, Op.UPDATE, {"k": 2, "n": 5})
    for key, at, kinds in ((1, read_at, []), (2, read_at, [errors.RowChanged]), (2, client.now(), [])):
        result = client.write_row(table, Op.UPDATE, {"k": key, "n": 6}, at)
        assert [type(error.error) for error in result.errors] == kinds
    assert [client.read_row(table, (key,), ("n",)) for key in (1, 2)] == [(6,), (6,)]


def test_answered_calls_may_be_forgotten_and_open_ones_not(client, table, cluster):
    began, go_on = threading.Event(), threading.Event()

    def hold(at: str, asked: Any, when: str) -> None:
        if isinstance(asked, methods.WriteRow) and asked.row["k"] == 7 and when == "before":
            began.set()
            assert go_on.wait(90)

    cluster.faults.append(hold)
    with ThreadPoolExecutor(1) as pool:
        slow = pool.submit(client.write_row, table, Op.INSERT, {"k": 7, "n": 0})
        assert began.wait(90)
        for key in (1, 2, 3):
            client.write_row(table, Op.INSERT, {"k": key, "n": 0})
        go_on.set()
        slow.result()
    client.write_row(table, Op.INSERT, {"k": 4, "n": 0})
    calls = {request.row["k"]: request.call for _, request in cluster.requests(methods.WriteRow)}
    assert all(calls[key].first_incomplete == calls[7].sequence for key in (1, 2, 3))
    assert calls[4].first_incomplete == calls[4].sequence


def test_a_write_that_runs_out_of_time_says_why(make_client, cluster):
    client = make_client(deadline=0.3)
    table = client.create_table(DEFINITION)
    cluster.faults.append(once(methods.Write, errors.ServerOverloaded("no memory left"), times=1 << 30))
    with pytest.raises(errors.DeadlineExceeded, match=r"a write of 1 rows to table t .* ServerOverloaded: no memory"):
        client.write(table, WriteBatch(some([1])))
    cluster.faults.clear()
    assert client.write(table, WriteBatch(some([1]))).applied == 1


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (errors.TypeMismatch("no"), r"1 have written theirs \(\d rows changed\) and 1 failed: no$"),
        (
            errors.ServerOverloaded("full"),
            r"1 have .* and 1 failed, of which 1 may have written theirs .*\(up to \d rows\)",
        ),
    ],
)
def test_a_statement_that_is_done_in_part_says_so(make_client, cluster, error, text):
    client = make_client(deadline=0.5)
    table = client.create_table(DEFINITION)
    batch = some([1, 12, 25])
    client.write(table, WriteBatch(batch))
    first = cluster.requests(methods.Write)[0][1].tablet_id

    def refuse(at: str, asked: Any, when: str) -> None:
        if isinstance(asked, methods.Write) and asked.tablet_id == first and not asked.check_only:
            raise error

    cluster.faults.append(refuse)
    with pytest.raises(
        errors.PartlyWritten, match=f"of the 2 tablets of table t that the rows go to, {text}"
    ) as raised:
        client.write(table, WriteBatch(batch, Op.UPSERT, all_or_none=True))
    assert (raised.value.retryable, raised.value.sqlstate) == (False, "40003")
    assert raised.value.__cause__ is not None


def test_a_statement_of_which_nothing_is_done_keeps_its_error(client, table, cluster):
    cluster.faults.append(once(methods.Write, errors.TypeMismatch("no"), times=3))
    with pytest.raises(errors.TypeMismatch):
        client.write(table, WriteBatch(some([1, 12, 25]), Op.UPSERT, all_or_none=True))


# ---- leaders and locations -------------------------------------------------------------------------------------------


def test_hints_lead_to_the_leader(client, table, cluster):
    client.write(table, WriteBatch(some([1])))
    (tablet,) = {request.tablet_id for _, request in cluster.requests(methods.Write)}
    cluster.leaders[tablet] = next(a for a in cluster.addresses if a != cluster.leaders[tablet])
    cluster.log.clear()
    client.write(table, WriteBatch(some([1]), Op.UPSERT))
    client.write(table, WriteBatch(some([1]), Op.UPSERT))
    assert [address == cluster.leader(tablet) for address, _ in cluster.requests(methods.Write)] == [False, True, True]
    assert not cluster.requests(methods.LocateTablets), "the hint was enough"


def test_locations_are_asked_for_again_where_replicas_have_moved(client, table, cluster):
    client.write(table, WriteBatch(some([1])))
    for address in list(cluster.addresses):
        cluster.kill(address, elect=False)
    cluster.addresses = ["new0:1", "new1:1"]
    cluster.leaders = dict.fromkeys(cluster.leaders, "new1:1")
    cluster.log.clear()
    assert client.write(table, WriteBatch(some([1]), Op.UPSERT)).applied == 1
    assert cluster.requests(methods.LocateTablets)


def test_the_masters_leader_is_found(client, table, cluster):
    cluster.leading_master = "master2:1"
    client.drop_table("t")
    cluster.dead.add("master2:1")
    cluster.leading_master = "master1:1"
    client.create_table(DEFINITION)
    assert [table.name for table in client.tables()] == ["t"]


# ---- schemas ---------------------------------------------------------------------------------------------------------


def test_a_batch_goes_on_with_the_altered_table_where_it_fits(client, make_client, table):
    other = make_client()
    other.alter_table("t", [AddColumn(ColumnSchema("more", INT, True))])
    assert client.write(table, WriteBatch(some([1, 12]))).applied == 2
    assert client.write_row(table, Op.INSERT, {"k": 2, "n": 2}).applied == 1
    other.alter_table("t", [DropColumn("v")])
    with pytest.raises(errors.UnknownColumn, match=r"column v (does not exist|of table t is gone)"):
        client.write(table, WriteBatch(some([3], v=["gone"])))
    with pytest.raises(errors.UnknownColumn, match=r"column v (does not exist|of table t is gone)"):
        client.write_row(table, Op.INSERT, {"k": 3, "n": 3, "v": "gone"})
    other.alter_table("t", [RenameColumn("more", "v")])
    with pytest.raises(errors.UnknownColumn, match="is another one since the table was altered"):
        client.write(table, WriteBatch(some([3], v=pa.array([5], pa.int32()))))


def test_a_tablet_that_lags_behind_the_catalog_is_waited_for(client, table, cluster):
    cluster.faults.append(once(methods.Write, errors.StaleSchema("not yet"), times=3))
    assert client.write(table, WriteBatch(some([1]))).applied == 1
    cluster.faults.append(once(methods.ReadRow, errors.StaleSchema("not yet"), times=3))
    assert client.read_row(table, (1,), ("n",)) == (1,)


def test_ranges_that_come_and_go_are_seen(client, make_client, table):
    other = make_client()
    client.write(table, WriteBatch(some([5, 15])))
    other.alter_table("t", [AddRangePartition(RangePartition((30,), (40,)))])
    assert told(client.write(table, WriteBatch(some([35])))) == (1, [])
    assert client.read_row(table, (35,), ("n",)) == (35,)
    other.alter_table("t", [DropRangePartition(RangePartition((10,), (30,)))])
    model = "NoPartition"
    applied, refused = told(client.write(table, WriteBatch(some([6, 16, 36]))))
    assert (applied, [(row, kind) for row, kind, _ in refused]) == (2, [(1, model)])
    other.alter_table("t", [DropRangePartition(RangePartition((30,), (40,)))])
    applied, refused = told(client.write_row(table, Op.UPSERT, {"k": 37, "n": 1}))
    assert (applied, [kind for _, kind, _ in refused]) == (0, [model])
    assert client.read_row(table, (36,), ("n",)) is None
    with pytest.raises(errors.UnknownColumn):
        client.read_row(table, (5,), ("nothing",))


def test_a_dropped_table_is_unknown(client, make_client, table):
    make_client().drop_table("t")
    for use in (
        lambda: client.write(table, WriteBatch(some([1]))),
        lambda: client.write_row(table, Op.INSERT, {"k": 1, "n": 1}),
        lambda: client.read_row(table, (1,), ("n",)),
    ):
        with pytest.raises(errors.UnknownTable, match="table t has been dropped"):
            use()


# ---- the rest --------------------------------------------------------------------------------------------------------


def test_commit_wait_lets_the_time_of_the_write_pass(make_client: Callable[..., Client], cluster):
    client = make_client(commit_wait=True)
    table = client.create_table(DEFINITION)
    cluster.database.clock.update((wall_microseconds() + 50_000) << LOGICAL_BITS)
    result = client.write_row(table, Op.INSERT, {"k": 1, "n": 1})
    assert result.timestamp >> LOGICAL_BITS < wall_microseconds()


def test_flush_modes_work_over_the_client(connection: Connection, cluster):
    connection.execute("CREATE TABLE s (k INT PRIMARY KEY, v STRING) DISTRIBUTE BY HASH (k) INTO 3 BUCKETS")
    for mode in ("MANUAL_FLUSH", "AUTO_FLUSH_BACKGROUND"):
        cluster.faults.append(once(methods.Write, errors.ServerUnavailable("broke off"), "after"))
        with connection.new_session(mode) as session:
            session.upsert("s", [{"k": key, "v": mode} for key in range(50)])
            session.insert("s", [{"k": 7, "v": "again"}])
            with pytest.raises(errors.RowsRefused, match="1 row"):
                session.flush()
            assert [type(e.error) for e in session.pending_errors().errors] == [errors.AlreadyPresent]
        assert connection.execute("SELECT count(*), min(v) FROM s").fetchall() == [(50, mode)]
    with connection.new_session() as session, pytest.raises(errors.RowsRefused):
        session.insert("s", {"k": 7, "v": "again"})
