"""Queries of a connection on Spark: the same answers in the same types, of one moment, errors and cancels of ours."""

import threading
from collections import Counter

import nyala
import pytest
from nyala.errors import Cancelled, DataError, InterfaceError, ProgrammingError, UnknownTable
from nyala.planner.algebra.logical import Join
from nyala.planner.algebra.trees import nodes
from nyala.planner.estimates.cost import key_pairs
from nyala.spark import sql
from nyala.testing import MiniCluster
from nyala.tpch import check
from nyala.tpch.generate import generate
from nyala.tpch.load import load
from nyala.tpch.queries import QUERIES
from spark_engine_support import prepared
from spark_session import setting

SCALE_FACTOR = 0.01
ON_A_CLUSTER = (3, 9, 13, 18, 21)


@pytest.fixture(scope="module")
def parquet(tmp_path_factory):
    return generate(SCALE_FACTOR, tmp_path_factory.mktemp("spark-tpch") / "parquet")


@pytest.fixture(scope="module")
def tpch(spark, parquet, tmp_path_factory):
    """An embedded store with TPC-H, which this process serves to the tasks."""
    directory = tmp_path_factory.mktemp("spark-tpch") / "store"
    load(directory, SCALE_FACTOR, buckets=3, data=parquet)
    with nyala.connect(directory, threads=2) as connection:
        yield connection


@pytest.fixture(scope="module")
def on_spark(tpch):
    with nyala.connect(tpch.session.target, threads=2, engine="spark") as connection:
        yield connection


@pytest.fixture(scope="module")
def store(spark, tmp_path_factory):
    """A small store of another directory."""
    with nyala.connect(tmp_path_factory.mktemp("spark-engine") / "store", threads=2, engine="spark") as connection:
        connection.execute(
            "CREATE TABLE t (k INT PRIMARY KEY, v BIGINT, s STRING) DISTRIBUTE BY HASH (k) INTO 3 BUCKETS"
        )
        connection.execute("INSERT INTO t SELECT n, n * n, 'text ' || n FROM generate_series(1, 500) AS g(n)")
        yield connection


@pytest.fixture
def small_reads(monkeypatch):
    """Every relation is read by tasks, also of tables as small as these."""
    monkeypatch.setattr("nyala.spark.engine.query.SMALL_TABLE", 0)
    monkeypatch.setattr("nyala.spark.engine.query.FEW_ROWS", 0)


def rows(connection, text, parameters=None):
    return connection.execute(text, parameters).fetchall()


def local(connection, text, parameters=None):
    connection.execute("SET engine = nyala")
    try:
        return connection.execute(text, parameters).arrow()
    finally:
        connection.execute("SET engine = spark")


@pytest.mark.parametrize("query", QUERIES, ids=lambda query: f"Q{query.number}")
def test_tpch_on_an_embedded_store(tpch, on_spark, query):
    wanted, found = tpch.execute(query.text).arrow(), on_spark.execute(query.text).arrow()
    assert found.schema == wanted.schema
    assert check.compare(query, found, wanted) is None


def test_tpch_on_a_cluster(spark, parquet, tpch):
    with MiniCluster(tservers=3) as cluster:
        load(cluster.url, SCALE_FACTOR, buckets=3, data=parquet)
        with nyala.connect(cluster.url, threads=2, engine="spark") as connection:
            for query in (QUERIES[number - 1] for number in ON_A_CLUSTER):
                wanted, found = tpch.execute(query.text).arrow(), connection.execute(query.text).arrow()
                assert found.schema == wanted.schema
                assert check.compare(query, found, wanted) is None, query.number


SHAPES = [
    "SELECT k, v, s FROM t WHERE k % 7 = 3 ORDER BY v DESC LIMIT 9",
    "SELECT 1 FROM t WHERE k < 4",
    "SELECT count(*) FROM t a, t b WHERE a.k = 3",
    "SELECT k FROM t WHERE s = 'nothing'",
    "SELECT avg(v), sum(v), count(*), min(s) FROM t WHERE k > 1000",
    "SELECT k, k FROM t WHERE k = 8",
    "SELECT k % 3 AS m, avg(v), sum(v) OVER (ORDER BY k % 3) FROM t GROUP BY k % 3, v HAVING v < 10",
    "WITH w AS (SELECT k, v FROM t WHERE v < 400) SELECT a.k, b.v FROM w a JOIN w b ON a.k + 1 = b.k",
    "SELECT a.k FROM t a LEFT JOIN t b ON b.k = a.k + 495 WHERE b.k IS NULL AND a.k > 490",
    "SELECT k FROM t WHERE k NOT IN (SELECT v FROM t) AND k < 12",
    "SELECT k, (SELECT max(b.k) FROM t b WHERE b.v = a.k) FROM t a WHERE k < 30",
]


@pytest.mark.parametrize("text", SHAPES)
def test_shapes(store, small_reads, text):
    wanted, found = local(store, text), store.execute(text).arrow()
    assert found.schema == wanted.schema
    assert Counter(map(str, found.to_pylist())) == Counter(map(str, wanted.to_pylist()))


def test_parameters_and_repetition(store):
    text = "SELECT s FROM t WHERE k = ?"
    assert rows(store, text, [3]) == [("text 3",)]
    assert rows(store, text, [4]) == [("text 4",)]


def test_statements_that_write_a_query(store, tmp_path):
    store.execute("CREATE TABLE copied PRIMARY KEY (k) AS SELECT k, v FROM t WHERE k <= 20")
    assert store.execute("INSERT INTO copied SELECT k + 100, v FROM t WHERE k <= 5").rowcount == 5
    store.execute(f"COPY (SELECT count(*) AS n, sum(v) AS total FROM copied) TO '{tmp_path}/c.csv'")
    assert (tmp_path / "c.csv").read_text().split() == ["n,total", f"25,{2870 + 55}"]
    store.execute("DROP TABLE copied")


# ---- one moment ------------------------------------------------------------------------------------------------------


def test_both_uses_of_a_table_are_of_one_moment(store, small_reads):
    store.execute("CREATE TABLE grows (k INT PRIMARY KEY) DISTRIBUTE BY HASH (k) INTO 2 BUCKETS")
    ended = threading.Event()

    def write():
        number = 0
        while not ended.is_set():
            store.table("grows").insert([{"k": number + i} for i in range(50)])
            number += 50

    writer = threading.Thread(target=write, name="nyala-test-writer")
    writer.start()
    try:
        counts = [
            rows(store, "SELECT (SELECT count(*) FROM grows), (SELECT count(k) FROM grows), count(*) FROM grows")[0]
            for _ in range(3)
        ]
    finally:
        ended.set()
        writer.join()
    assert all(len(set(found)) == 1 for found in counts)
    assert counts[0][0] <= counts[-1][0]


def test_the_past(store, small_reads):
    store.execute("CREATE TABLE past (k INT PRIMARY KEY, v INT)")
    store.execute("INSERT INTO past VALUES (1, 10), (2, 20)")
    moment = store.last_timestamp
    store.execute("UPDATE past SET v = 0")
    assert rows(store, f"SELECT sum(v) FROM past FOR SYSTEM_TIME AS OF {moment}") == [(30,)]
    with store.at(moment) as before:
        assert rows(before, "SELECT sum(v) FROM past") == [(30,)]
    assert rows(store, "SELECT sum(v) FROM past") == [(0,)]


# ---- EXPLAIN, hints --------------------------------------------------------------------------------------------------


def test_explain_shows_spark_s_sql_and_the_relations(on_spark):
    shown = "\n".join(line for (line,) in rows(on_spark, f"EXPLAIN {QUERIES[2].text}"))
    assert shown.startswith("-- Spark SQL\nSELECT")
    assert "BROADCAST" in shown or "SHUFFLE_HASH" in shown
    assert "Scan lineitem" in shown
    assert "task" in shown


def test_no_large_side_is_broadcast(tpch, monkeypatch):
    monkeypatch.setattr("nyala.spark.engine.hints.BROADCAST_BYTES", 100_000)
    hinted = 0
    for query in QUERIES:
        found = prepared(tpch.store, query.text)
        for join in (node for node in nodes(found.root) if isinstance(node, Join)):
            hint = found.hints(join)
            if hint is not None and hint.startswith("broadcast"):
                side = join.left if hint.endswith("left") else join.right
                assert found.hints.size(side) <= 100_000 or not key_pairs(join), query.number
            hinted += hint is not None
    assert hinted > 30


# ---- errors, cancel --------------------------------------------------------------------------------------------------


def test_a_store_in_memory_cannot_be_reached():
    with nyala.connect(":memory:", engine="spark") as connection:
        connection.execute("CREATE TABLE t (k INT PRIMARY KEY)")
        with pytest.raises(InterfaceError, match=":memory:"):
            connection.execute("SELECT k FROM t")
        connection.execute("SET engine = nyala")
        assert rows(connection, "SELECT k FROM t") == []


def test_errors_of_tasks_and_of_spark_are_ours(store, small_reads):
    with pytest.raises(DataError, match="zero"):
        rows(store, "SELECT 1 / (k - 3) FROM t")
    with pytest.raises(DataError, match="zero"):
        rows(store, "SELECT 1 / (sum(a.k) - sum(b.k)) FROM t a JOIN t b ON a.k = b.k")
    assert rows(store, "SELECT count(*) FROM t") == [(500,)], "the engine goes on"


def test_cancel(spark, store, small_reads):
    text = "SELECT count(*) FROM t a, t b, t c, t d WHERE a.v + b.v + c.v + d.v = 17"
    errors = []

    def run():
        try:
            rows(store, text)
        except Cancelled as error:
            errors.append(error)

    thread = threading.Thread(target=run, name="nyala-test-query")
    thread.start()
    tracker = spark.sparkContext.statusTracker()
    while thread.is_alive() and not tracker.getActiveJobsIds():
        thread.join(0.05)
    assert thread.is_alive(), "the query was not cancelled yet"
    store.cancel()
    thread.join(60)
    assert not thread.is_alive()
    assert len(errors) == 1
    assert rows(store, "SELECT max(k) FROM t") == [(500,)]


def test_progress_is_told(store):
    told = []
    store.set_progress_handler(told.append)
    try:
        rows(store, "SELECT s, count(*) FROM t GROUP BY s")
    finally:
        store.set_progress_handler(None)
    assert told[-1].parts_done == told[-1].parts
    assert told[-1].fraction == 1.0


def test_the_session_of_the_user_stays_the_active_one(spark, store):
    spark.createDataFrame([(1,)], "n int")  # makes it that
    assert rows(store, "SELECT count(*) FROM t WHERE v < 10") == [(3,)]  # a small table: its rows are a local relation
    assert spark._jvm.SparkSession.active().equals(spark._jsparkSession)
    assert type(spark)._activeSession is spark


# ---- nyala.spark.sql -------------------------------------------------------------------------------------------------


def test_a_query_as_a_dataframe(spark, store, small_reads):
    before = {view.name for view in spark.catalog.listTables()}
    frame = sql(spark, "SELECT k, v AS square, s FROM t WHERE k < 6", store.session.target)
    assert {view.name for view in spark.catalog.listTables()} == before, "no view is left behind"
    assert frame.columns == ["k", "square", "s"]
    joined = frame.alias("a").join(frame.alias("b"), on="k")
    assert joined.where("k > 2").count() == 3
    store.execute("UPDATE t SET v = -1 WHERE k = 5")
    try:
        assert frame.agg({"square": "sum"}).collect()[0][0] == 55, "a DataFrame is of the moment when it was made"
        assert sql(spark, "SELECT sum(v) FROM t WHERE k < 6", store.session.target).collect()[0][0] == 29
    finally:
        store.execute("UPDATE t SET v = 25 WHERE k = 5")
    with setting(spark, "spark.nyala.url", str(store.session.target)):
        assert sql(spark, "SELECT count(*) AS n FROM t").collect()[0].n == 500


def test_wrong_texts_for_a_dataframe(spark, store):
    with pytest.raises(ProgrammingError, match="made of a SELECT"):
        sql(spark, "DROP TABLE t", store.session.target)
    with pytest.raises(ProgrammingError, match="2 statements"):
        sql(spark, "SELECT 1; SELECT 2", store.session.target)
    with pytest.raises(UnknownTable):
        sql(spark, "SELECT 1 FROM nowhere", store.session.target)


RATIOS = (
    "SELECT k FROM d WHERE CASE WHEN a > 0 THEN 900 / a END > 0.1 ORDER BY k",
    "SELECT k, abs(s - m) / m, m / s FROM "
    "(SELECT k, sum(a) AS s, avg(sum(a)) OVER (PARTITION BY g) AS m FROM d GROUP BY k, g) AS x ORDER BY k",
    "SELECT k, avg(a) OVER () / a, a / avg(a) OVER (), avg(b) OVER () / b, b / avg(a) OVER () FROM d ORDER BY k",
    "SELECT k, (a / 3) / (b / 7), (b / 3) / a, b / b, -a / (b / 3) FROM d ORDER BY k",
)


@pytest.mark.parametrize("text", RATIOS)
def test_ratios_to_averages_are_exact(store, text):
    """The operands of such quotients are DECIMALs of 38 digits; their values are as large as money is."""
    store.execute("CREATE TABLE IF NOT EXISTS d (k INT PRIMARY KEY, g INT, a DECIMAL(7,2), b DECIMAL(18,4))")
    store.execute(
        "UPSERT INTO d VALUES (1, 1, 500.00, 0.0001), (2, 1, 1.00, 12345678.9), (3, 2, 7.50, -98765432109.8765)"
    )
    assert store.execute(text).arrow() == local(store, text)
