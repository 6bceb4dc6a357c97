"""Clients of an embedded server: plans whose parts run there, many at once, broken streams, servers that start and
stop."""

from __future__ import annotations

import gc
import random
import threading
import warnings
import weakref
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import nyala
import pyarrow as pa
import pytest
from embedded_server_support import ServedStore
from nyala import errors
from nyala.cluster.client.client import Client
from nyala.cluster.client.scans.token_scan import TokenScan
from nyala.cluster.embedded_server.server import EmbeddedServer
from nyala.driver.stores.cluster_url import servers
from nyala.model.alterations import AddColumn, AddRangePartition
from nyala.model.schema import (
    ColumnSchema,
    PartitionSchema,
    RangePartition,
    RangeRule,
    Schema,
    TableDefinition,
)
from nyala.model.store import Op, ScanCounters, ScanSpec, WriteBatch
from nyala.model.types import INT

ROWS = 60_000
QUERIES = (
    "SELECT g, count(*), sum(v), min(s), max(d), avg(v) FROM t WHERE v > 0.25 GROUP BY g ORDER BY g",
    "SELECT count(*), count(DISTINCT s), sum(d) FROM t WHERE s LIKE 's1%' OR g + 1 = 3",
    "SELECT a.g, count(*) FROM t a JOIN t b ON a.k = b.k + 1 WHERE b.v < 0.1 GROUP BY a.g ORDER BY 2 DESC, 1",
    "SELECT k, s FROM t WHERE v IN (SELECT max(v) FROM t GROUP BY g) ORDER BY k LIMIT 7",
)


@pytest.fixture(scope="module")
def loaded():
    """A table of some size, partly in memory."""
    random_ = np.random.default_rng(3)
    keys = random_.permutation(ROWS)
    with ServedStore() as served_store:
        connection = served_store.connection()
        connection.execute(
            "CREATE TABLE t (k INT PRIMARY KEY, g INT, v DOUBLE, s STRING, d DECIMAL(20, 2)) "
            "PARTITION BY HASH (k) INTO 3 BUCKETS"
        )
        rows = pa.table(
            {
                "k": pa.array(keys, pa.int32()),
                "g": pa.array(keys % 7, pa.int32()),
                "v": random_.random(ROWS),
                "s": [f"s{k % 100}" for k in keys.tolist()],
                "d": pa.array((keys % 1000).tolist(), pa.decimal128(20, 2)),
            }
        )
        assert connection.load("t", rows) == ROWS
        connection.execute("UPDATE t SET v = v / 2 WHERE g = 5")
        connection.execute("DELETE FROM t WHERE k % 1000 = 3")
        yield served_store


@pytest.mark.parametrize("query", QUERIES)
def test_plans_that_run_in_part_at_the_owner_give_what_embedded_ones_give(loaded, query):
    served, embedded = loaded.connection(), loaded.embedded()
    assert served.store.runs_fragments and not embedded.store.runs_fragments
    rows = served.execute(query).fetchall()
    expected = embedded.execute(query).fetchall()
    assert len(rows) == len(expected) > 0
    for row, other in zip(rows, expected):
        for value, same in zip(row, other, strict=True):
            # The order of addition is not specified.
            assert value == (pytest.approx(same, rel=1e-9) if isinstance(same, float) else same)


def test_the_past_and_its_changes_are_the_same_from_both_sides(served_store):
    served, embedded = served_store.connection(), served_store.embedded()
    served.execute("CREATE TABLE t (k INT PRIMARY KEY, v INT)")
    served.execute("INSERT INTO t VALUES (1, 1), (2, 2)")
    first = served.last_timestamp
    embedded.execute("UPDATE t SET v = 20 WHERE k = 2")
    second = embedded.last_timestamp
    served.execute("DELETE FROM t WHERE k = 1")
    for one in (served, embedded):
        for moment, rows in ((first, [(1, 1), (2, 2)]), (second, [(1, 1), (2, 20)])):
            with one.at(moment) as past:
                assert past.execute("SELECT * FROM t ORDER BY k").fetchall() == rows
    seen = [one.table("t").changes(first, net=False).to_arrow().to_pylist() for one in (served, embedded)]
    assert seen[0] == seen[1] and [row["_change"] for row in seen[0]] == ["delete", "update"]
    with pytest.raises(errors.DataError, match="it is only"):
        served.execute("SELECT * FROM t FOR SYSTEM_TIME AS OF TIMESTAMP '2999-01-01 00:00:00'")


def test_everybody_sees_what_was_acknowledged_before(served_store):
    """For all writers and readers: clients with their own clocks, and the connection of the serving process."""
    sides = [served_store.connection(), served_store.connection(), served_store.embedded()]
    sides[0].execute("CREATE TABLE t (k INT PRIMARY KEY, v INT)")
    for number in range(60):
        writer, reader = random.Random(number).sample(sides, 2)
        writer.table("t").upsert([(number % 5, number)])
        assert reader.execute("SELECT max(v) FROM t").fetchall() == [(number,)]
        assert reader.store.read_row(reader.store.table("t"), (number % 5,), ("v",)) == (number,)


def test_many_write_and_scan_at_once(served_store):
    """Sums that every transaction keeps: rows are moved by whole batches, and each scan is of one timestamp."""
    served_store.connection().execute("CREATE TABLE t (k INT PRIMARY KEY, v INT) PARTITION BY HASH (k) INTO 3 BUCKETS")
    served_store.embedded().table("t").insert([(k, 0) for k in range(300)])
    stop = threading.Event()

    def write(seed: int, connection: nyala.Connection) -> int:
        for number in range(25):
            low = random.Random(seed * 100 + number).randrange(100) * 3
            connection.execute(f"UPDATE t SET v = v + 1 WHERE k BETWEEN {low} AND {low + 2}")
        return 25

    def scan(connection: nyala.Connection) -> int:
        before = 0
        while not stop.is_set():
            ((rows, total),) = connection.execute("SELECT count(*), sum(v) FROM t").fetchall()
            assert rows == 300 and total >= before
            before = total
        return 0

    with ThreadPoolExecutor(6) as pool:
        scans = [pool.submit(scan, connection) for connection in (served_store.connection(), served_store.embedded())]
        writes = [pool.submit(write, seed, served_store.connection()) for seed in range(2)]
        done = [future.result() for future in writes]
        stop.set()
        assert [future.result() for future in scans] == [0, 0]
    ((total,),) = served_store.connection().execute("SELECT sum(v) FROM t").fetchall()
    assert total <= 3 * sum(done), "two UPDATEs at once may both have read the same value, and never do a row twice"
    served_store.database.check()


def test_tables_are_altered_while_they_are_written_and_read(served_store):
    client = served_store.client()
    connection = served_store.connection()
    connection.execute("CREATE TABLE t (k INT PRIMARY KEY, v INT)")

    def write() -> int:
        return sum(client.write_row(client.table("t"), Op.UPSERT, {"k": k % 50, "v": k}).applied for k in range(300))

    with ThreadPoolExecutor(2) as pool:
        writing = pool.submit(write)
        for number in range(8):
            served_store.database.alter_table("t", [AddColumn(ColumnSchema(f"c{number}", INT, True))])
            assert connection.execute("SELECT count(*) FROM t WHERE k < 0").fetchall() == [(0,)]
        assert writing.result() == 300
    assert connection.execute("SELECT max(v), count(c7) FROM t").fetchall() == [(299, 0)]


@pytest.mark.parametrize("levels", [40, 99, 100, 101, 105, 130, 500])
def test_conditions_that_are_nested_too_deeply_to_travel_are_evaluated_here(loaded, levels):
    deep = "abs(" * levels + "k" + ")" * levels
    chain = "".join(f"(k <> {i} {'AND' if i % 2 else 'OR'} " for i in range(levels)) + "g = 1" + ")" * levels
    for text in (f"SELECT count(*), sum({deep}) FROM t WHERE {deep} < 100", f"SELECT count(*) FROM t WHERE {chain}"):
        assert loaded.connection().execute(text).fetchall() == loaded.embedded().execute(text).fetchall()


@pytest.mark.parametrize("anew", [False, True], ids=["dropped", "dropped and added"])
@pytest.mark.parametrize(
    ("text", "parameters"),
    [
        ("INSERT INTO t (k) VALUES (?)", (1,)),
        ("INSERT INTO t (k) VALUES (1), (2)", None),
        ("UPSERT INTO t (k) VALUES (?)", (1,)),
        ("INSERT INTO t (k) SELECT 1", None),
    ],
)
def test_statements_by_an_old_catalog_are_bound_again(served_store, text, parameters, anew):
    """The client has an outdated catalog, by which it writes a default of a dropped column."""
    served, embedded = served_store.connection(), served_store.embedded()
    embedded.execute("CREATE TABLE t (k INT PRIMARY KEY, d INT NOT NULL DEFAULT 7)")
    served.store.refresh_catalog()
    assert served.execute("SELECT count(*) FROM t").fetchall() == [(0,)]
    embedded.execute("ALTER TABLE t DROP COLUMN d")
    if anew:
        embedded.execute("ALTER TABLE t ADD COLUMN d STRING DEFAULT 'new'")
    served.execute(text, parameters)
    shown = embedded.execute("SELECT * FROM t WHERE k = 1").fetchall()
    assert shown == ([(1, "new")] if anew else [(1,)])


def test_a_scan_goes_on_behind_its_last_key_when_the_owner_has_forgotten_it(loaded):
    client = loaded.client()
    table = client.table("t")
    for token in client.scan_tokens(table, ScanSpec(("k", "s"), ordered=True)):
        scan = TokenScan(
            client._shared, client._catalog, client._calls, client._watch, token, ScanCounters(), held_bytes=0
        )
        keys = []
        for number, batch in enumerate(scan.batches()):
            keys += batch.column(0).to_arrow().to_pylist()
            if number == 0:
                loaded.server._scans._scanners.close_all(5.0)
        expected = [b.column(0).to_arrow().to_pylist() for b in client.scan(token)]
        assert keys == [key for some in expected for key in some] == sorted(keys)


def test_a_token_outlives_the_names_of_its_columns_but_not_its_table(served_store):
    client = served_store.client()
    connection = served_store.connection()
    connection.execute("CREATE TABLE t (k INT PRIMARY KEY, v INT)")
    connection.execute("INSERT INTO t VALUES (1, 2)")
    (token,) = client.scan_tokens(client.table("t"), ScanSpec(("v",)))
    connection.execute("ALTER TABLE t RENAME COLUMN v TO w")
    assert [batch.column(0).to_arrow().to_pylist() for batch in client.scan(token)] == [[2]]
    connection.execute("DROP TABLE t")
    with pytest.raises((errors.UnknownTable, errors.TabletGone), match="t has been dropped"):
        list(client.scan(token))


def test_the_owner_may_be_another_one_at_the_same_address(tmp_path):
    """The client notices: its writes exist, and its calls in progress are not executed twice."""
    with ServedStore(tmp_path / "store") as first:
        address = first.server.address
        client = first.client(deadline=20.0)
        connection = first.connection(deadline=20.0)
        connection.execute("CREATE TABLE t (k BIGINT PRIMARY KEY, v INT)")
        connection.execute("INSERT INTO t VALUES (1, 1)")
        table, before = client.table("t"), client.cluster_id
        first.server.close()
        with _Second(first, address) as second:
            with pytest.raises(errors.ClusterError, match="not known whether the previous one executed this call"):
                client.write_row(table, Op.INSERT, {"k": 2, "v": 2})
            client._catalog.refresh()
            assert client.cluster_id == second.id != before
            assert client.write_row(client.table("t"), Op.INSERT, {"k": 3, "v": 3}).applied == 1
            assert connection.execute("SELECT k FROM t ORDER BY k").fetchall() == [(1,), (3,)]


class _Second:
    """Another server of the same store, at an address that was just released."""

    def __init__(self, served_store: ServedStore, address: str) -> None:
        self._server = EmbeddedServer(served_store.database, directory=None, bind=address)

    def __enter__(self) -> EmbeddedServer:
        self._server.start()
        return self._server

    def __exit__(self, *exc: object) -> None:
        self._server.close(0.0)


def test_errors_are_those_of_the_store(served_store):
    served, embedded = served_store.connection(), served_store.embedded()
    served.execute("CREATE TABLE t (k INT PRIMARY KEY, v INT NOT NULL)")
    served.execute("INSERT INTO t VALUES (1, 1)")
    for statement in (
        "INSERT INTO t VALUES (1, 2)",
        "INSERT INTO t (k) VALUES (2)",
        "CREATE TABLE t (k INT PRIMARY KEY)",
        "DROP TABLE nothing",
        "ALTER TABLE t DROP COLUMN k",
        "ALTER TABLE t ADD COLUMN w INT NOT NULL",
        "SELECT v / 0 FROM t",
        "INSERT INTO t VALUES (99999999999, 1)",
    ):
        said = []
        for one in (served, embedded):
            with pytest.raises(errors.Error) as caught:
                one.execute(statement).fetchall()
            said.append((type(caught.value), str(caught.value)))
        assert said[0] == said[1], statement


def test_a_server_that_is_closed_is_no_more_there(served_store):
    client = served_store.client(deadline=0.5)
    served_store.server.close()
    served_store.server.close()
    with pytest.raises(errors.DeadlineExceeded, match="the last answer was ConnectionRefused"):
        client.create_table(TableDefinition("t", Schema((ColumnSchema("k", INT, False),), 1)))


def test_a_token_of_a_table_that_its_reader_has_not_heard_of(served_store):
    with nyala.connect(served_store.server.url) as reader, nyala.connect(served_store.server.url) as writer:
        reader.execute("SELECT 1").fetchall()
        assert not reader.store.tables()
        writer.execute("CREATE TABLE fresh (k INT PRIMARY KEY); INSERT INTO fresh VALUES (1), (2)")
        (token,) = writer.table("fresh").scan_tokens(["k"])
        parcel = token.serialize()
        assert nyala.ScanToken.deserialize(parcel).open(reader).to_arrow().column("k").to_pylist() == [1, 2]
        writer.execute("DROP TABLE fresh")
        with pytest.raises(errors.StaleScanToken, match="fresh"):
            nyala.ScanToken.deserialize(parcel).open(reader)


def client_threads() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("nyala-client")]


def test_a_client_that_is_dropped_is_released_without_the_collector(served_store):
    served_store.embedded().execute("CREATE TABLE t (k INT PRIMARY KEY) PARTITION BY HASH (k) INTO 2 BUCKETS")
    gc.collect()
    gc.disable()
    try:
        before = sorted(client_threads())
        client = Client(servers(served_store.server.url))
        table = client.table("t")
        client.write(table, WriteBatch(pa.record_batch({"k": pa.array(range(10), pa.int32())})))
        client.write_row(table, Op.INSERT, {"k": 10})
        (token, *_) = client.scan_tokens(table, ScanSpec(("k",)))
        scan = client.scan(token)
        dropped = weakref.ref(client)
        shared = client._shared
        del client
        assert dropped() is not None and len(next(iter(scan)).columns()) == 1, "the scan keeps it"
        with pytest.warns(ResourceWarning, match=r"a client of nyala://.* was dropped without close\(\)"):
            del scan
        assert dropped() is None and sorted(client_threads()) == before
        with pytest.raises(errors.StoreClosed):
            shared.check_open()
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            closed = Client(servers(served_store.server.url))
            closed.close()
            del closed
    finally:
        gc.enable()


def test_a_row_is_read_after_a_range_was_added(served_store):
    """The other tablets stay unchanged, in another version of the table: their readers must share its objects."""
    client = served_store.client()
    ranges = RangeRule(("k",), (RangePartition((0,), (30,)),))
    schema = Schema((ColumnSchema("k", INT, nullable=False), ColumnSchema("v", INT)), 1)
    table = client.create_table(TableDefinition("t", schema, PartitionSchema((), ranges)))
    client.write_row(table, Op.INSERT, {"k": 1, "v": 2})
    assert client.read_row(table, (1,), ("v",)) == (2,)
    table = client.alter_table("t", [AddRangePartition(RangePartition((30,), (40,)))])
    assert client.read_row(table, (1,), ("v",)) == (2,)
