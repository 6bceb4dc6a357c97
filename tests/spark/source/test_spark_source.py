"""The data source reads what nyala reads: all types, conditions, queries, at one time, however often it is used."""

from __future__ import annotations

import datetime
import decimal
import itertools
import threading
from pathlib import Path

import nyala
import pyarrow as pa
import pytest
from nyala.spark import table
from nyala.spark.source import options, partitions, relation, scanning
from nyala.spark.types import arrow_schema
from nyala.testing import MiniCluster
from pyspark.errors import AnalysisException
from spark_session import setting

PUSHDOWN = "spark.sql.python.filterPushdown.enabled"
SCHEMA = """CREATE TABLE wide (k INT, h STRING, b BOOLEAN, i8 TINYINT, i16 SMALLINT, i64 BIGINT, f FLOAT, x DOUBLE,
    d9 DECIMAL(9, 2), d18 DECIMAL(18, 0), d38 DECIMAL(38, 10), day DATE, ts TIMESTAMP, s STRING, v VARCHAR(5),
    raw BINARY, PRIMARY KEY (k)) DISTRIBUTE BY HASH (k) INTO 4 BUCKETS"""
EXTREMES = {
    "h": ["", "ü\U0001f600" * 50],
    "b": [True, False],
    "i8": [-128, 127],
    "i16": [-(1 << 15), (1 << 15) - 1],
    "i64": [-(1 << 63), (1 << 63) - 1],
    "f": [1.5, float("-inf")],
    "x": [5e-324, float("inf")],
    "d9": [decimal.Decimal("-9999999.99"), decimal.Decimal("0.01")],
    "d18": [decimal.Decimal(10**18 - 1), decimal.Decimal(-1)],
    "d38": [decimal.Decimal("9" * 28 + "." + "9" * 10), decimal.Decimal("1e-10")],
    "day": [datetime.date(1, 1, 1), datetime.date(9999, 12, 31)],
    "ts": [datetime.datetime(1900, 1, 1), datetime.datetime(2262, 4, 11, 23, 47, 16, 854775)],
    "s": ["a", "b\x00c"],
    "v": ["five5", "ü"],
    "raw": [b"", b"\x00\xff"],
}
ROWS = 400


@pytest.fixture(scope="module")
def cluster():
    with MiniCluster(tservers=2) as made:
        yield made


@pytest.fixture(scope="module")
def connection(cluster):
    with nyala.connect(cluster.url) as made:
        made.execute(SCHEMA)
        columns = {"k": list(range(ROWS))}
        for place, (name, values) in enumerate(EXTREMES.items()):
            cells = [*values, None]
            columns[name] = [cells[(k // (place + 1)) % 3] for k in range(ROWS)]
        types = {column.name: column.type.arrow for column in made.table("wide").columns}
        made.load("wide", pa.table({name: pa.array(cells, types[name]) for name, cells in columns.items()}))
        yield made


@pytest.fixture
def load(spark, cluster, connection):
    """`load(dbtable="wide", ...)`: a relation."""
    return lambda **options: spark.read.format("nyala").options(url=cluster.url, **options).load()


@pytest.fixture
def read(cluster, connection):
    """`read(dbtable="wide", ...)`: the rows, in any order, and how many tasks would read them; without Spark."""

    def rows(**given):
        parsed = options.parse({"url": cluster.url, **given}, options.Use.READ)
        found = relation.plan_relation(connection, parsed)
        snapshot = connection.store.now()
        parts = partitions.make_parts(connection, found, snapshot, parsed["numPartitions"], parsed["splitSize"])
        schema = arrow_schema(found.columns)
        batches = [b for part in parts for b in scanning.read(connection, part, schema, parsed["fetchsize"])]
        assert all(batch.schema.equals(schema) for batch in batches)
        return [tuple(row.values()) for batch in batches for row in batch.to_pylist()], len(parts)

    return rows


def _by_key(rows):
    """Rows in a fixed order; `repr` distinguishes the signs of zero."""
    return sorted(map(tuple, rows), key=repr)


# ---- what is read ----------------------------------------------------------------------------------------------------


def test_every_type_arrives_by_both_roads(spark, cluster, connection, load):
    expected = connection.table("wide").scan(ordered=True).to_arrow()
    for frame in (load(dbtable="wide"), table(spark, "wide", cluster.url)):
        found = frame.toArrow().sort_by("k")
        assert found.schema.names == expected.schema.names
        assert not frame.schema["k"].nullable and frame.schema["v"].nullable
        for name in expected.schema.names:
            column = found[name].cast(expected.schema.field(name).type)
            assert column.to_pylist() == expected[name].to_pylist(), name


@pytest.mark.parametrize(
    "condition",
    [
        "k >= 390",
        "k < 20 AND h IS NULL",
        "k % 7 = 3 AND s LIKE '%c' -- a comment",
        "d9 * 2 < 0 OR ts > TIMESTAMP '2000-01-01 00:00:00'",
        "x > 1e300 AND NOT b",
        "k IN (SELECT max(k) FROM wide)",
        "k = 1 OR random() > 2",
        "false",
    ],
)
def test_a_condition_means_what_it_means_in_nyala(connection, read, condition):
    expected = connection.execute(f"SELECT v, k FROM wide WHERE ({condition}\n)").fetchall()
    found, _ = read(dbtable="wide", columns="v, k", where=condition)
    assert _by_key(found) == _by_key(expected)


def test_a_condition_is_heard_on_both_roads(spark, cluster, connection, load):
    condition = "k < 300 AND k % 7 = 3 AND s LIKE '%c'"
    expected = _by_key(connection.execute(f"SELECT v, k FROM wide WHERE {condition}"))
    assert _by_key(load(dbtable="wide", columns="v, k", where=condition).collect()) == expected
    assert _by_key(table(spark, "wide", cluster.url, ["v", "k"], condition).collect()) == expected


@pytest.mark.parametrize(
    ("query", "tasks"),
    [
        ("SELECT k + 1 AS next, upper(s) AS s FROM wide WHERE i8 > 0", 4),
        ("SELECT s AS other, k FROM wide;", 4),
        ("SELECT w.k, w.i8 + 1 AS one FROM (SELECT k, i8 FROM wide WHERE b) AS w WHERE w.k > 3", 4),
        ("SELECT h, count(*) AS n, INTERVAL '1' DAY AS day, NULL AS nothing FROM wide GROUP BY h", 1),
        ("SELECT a.k FROM wide AS a JOIN wide AS b ON a.k = b.k + 1", 1),
        ("SELECT k FROM wide ORDER BY k LIMIT 3", 1),
        ("VALUES (1, 'a'), (2, NULL)", 1),
    ],
)
def test_a_query_is_run_in_parallel_where_it_is_a_scan(connection, read, query, tasks):
    found, parts = read(query=query)
    day = datetime.timedelta(days=1)
    rows = connection.execute(query.rstrip(";")).fetchall()
    assert _by_key(found) == _by_key(["1 day" if value == day else value for value in row] for row in rows)
    assert parts == tasks


def test_queries_of_both_kinds_through_spark(load):
    frame = load(query="SELECT k AS a, s AS b, v FROM wide", columns="b,a", where="a < 3")
    assert frame.columns == ["b", "a"]
    assert sorted(row.a for row in frame.collect()) == [0, 1, 2]
    assert load(query="SELECT count(*) AS n, INTERVAL '1' DAY AS i, NULL AS x FROM wide").collect() == [
        (ROWS, "1 day", None)
    ]


def test_a_view_is_read_like_a_table(connection, read):
    connection.execute("CREATE OR REPLACE VIEW young AS SELECT k, s FROM wide WHERE k < 5")
    rows, _ = read(dbtable="young", columns="k", where="k > 2")
    assert sorted(rows) == [(3,), (4,)]


def test_names_of_any_kind(connection, read):
    connection.execute('CREATE TABLE "odd ""name" ("a, b" INT PRIMARY KEY, "Select" STRING)')
    connection.execute("""INSERT INTO "odd ""name" VALUES (1, 'x')""")
    assert read(dbtable='odd "name', columns='Select,"a, b"') == ([("x", 1)], 1)


def test_a_table_of_another_schema(cluster, connection, load):
    connection.execute("CREATE SCHEMA a")
    connection.execute("CREATE TABLE a.wide (k INT PRIMARY KEY, v STRING) DISTRIBUTE BY HASH (k) INTO 2 BUCKETS")
    connection.execute("INSERT INTO a.wide VALUES (1, 'x'), (2, 'y')")
    connection.execute("CREATE VIEW a.seen AS SELECT v FROM a.wide WHERE k = 2")
    assert sorted(map(tuple, load(dbtable="a.wide").collect())) == [(1, "x"), (2, "y")]
    assert load(dbtable='a."wide"', columns="v", where="k < 2").collect() == [("x",)]
    assert load(dbtable="a.seen").collect() == [("y",)]
    assert load(dbtable="public.wide").count() == load(dbtable="wide").count() == ROWS
    load(dbtable="a.wide").selectExpr("k + 2 AS k", "v").write.format("nyala").mode("append").options(
        url=cluster.url, dbtable="a.wide"
    ).save()
    assert connection.execute("SELECT k FROM a.wide ORDER BY k").fetchall() == [(1,), (2,), (3,), (4,)]
    connection.execute("DROP SCHEMA a CASCADE")


def test_timestamps_can_be_moments(load):
    assert load(dbtable="wide").schema["ts"].dataType.typeName() == "timestamp_ntz"
    frame = load(dbtable="wide", preferTimestampNTZ="false", where="k = 1")
    assert frame.schema["ts"].dataType.typeName() == "timestamp"
    assert (
        frame.selectExpr("CAST(ts AS STRING) AS t").collect()
        == load(dbtable="wide", where="k = 1").selectExpr("CAST(ts AS STRING)").collect()
    )


# ---- one relation, used more than once -------------------------------------------------------------------------------


@pytest.mark.parametrize("pushdown_is_on", ["false", "true"])
def test_one_relation_used_twice_gives_right_rows(spark, load, pushdown_is_on):
    with setting(spark, PUSHDOWN, pushdown_is_on):
        frame = load(dbtable="wide", columns="k,s")
        assert [row.k for row in frame.where("k = 1").collect()] == [1]
        assert frame.count() == ROWS
        assert sorted(row.k for row in frame.where("k = 1").union(frame.where("k = 2")).collect()) == [1, 2]
        first, second = frame.where("k = 3"), frame.where("k = 4")
        second.explain()
        assert [row.k for row in first.collect()] == [3]
        frame.createOrReplaceTempView("used_twice")
        joined = spark.sql("SELECT x.k, y.k FROM used_twice x, used_twice y WHERE x.k = 1 AND y.k = 2")
        assert [tuple(row) for row in joined.collect()] == [(1, 2)]


def test_a_relation_reads_one_time_for_its_life(connection, load):
    connection.execute("CREATE TABLE life (k INT PRIMARY KEY)")
    connection.execute("INSERT INTO life VALUES (1), (2)")
    before = connection.last_timestamp
    frame = load(dbtable="life")
    assert frame.count() == 2
    connection.execute("INSERT INTO life VALUES (3)")
    assert frame.count() == 2
    assert load(dbtable="life").count() == 3
    assert load(dbtable="life", asOf=str(before)).count() == 2
    now = datetime.datetime.now(datetime.UTC).replace(tzinfo=None)
    assert load(dbtable="life", asOf=now.isoformat(" "), isolationLevel="serializable").count() == 3
    assert load(query="SELECT count(*) AS n FROM life", asOf=str(before)).collect() == [(2,)]


def test_all_tasks_read_one_time_while_writers_go_on(spark, cluster, connection, load):
    """Rows 0, 1, 2, ... are inserted one after the other, into tablets in turn: at any time there is a beginning of the
    sequence, without gaps. Tasks that read at several times would see some."""
    connection.execute("CREATE TABLE sequence (k INT PRIMARY KEY) DISTRIBUTE BY HASH (k) INTO 4 BUCKETS")
    handle = connection.table("sequence")
    stop = threading.Event()

    def write():
        for k in itertools.count():
            if stop.is_set():
                return
            handle.insert((k,))

    writer = threading.Thread(target=write, name="nyala-test-writer")
    writer.start()
    try:
        for frame in (load(dbtable="sequence"), load(dbtable="sequence"), table(spark, "sequence", cluster.url)):
            assert frame.rdd.getNumPartitions() == 4
            found = sorted(row.k for row in frame.collect())
            assert found == list(range(len(found)))
            assert sorted(row.k for row in frame.collect()) == found  # later, and of the same time
    finally:
        stop.set()
        writer.join()


# ---- pushdown on request ---------------------------------------------------------------------------------------------


def test_filters_are_pushed_on_request_alone(spark, load):
    with setting(spark, PUSHDOWN, "true"):
        for condition in ("k > 390 AND s LIKE 'a%' AND NOT b", "x > 1 AND d9 < 0 AND i8 NOT IN (127, 3)"):
            pushing = load(dbtable="wide", pushdown="true").where(condition)
            assert sorted(pushing.select("k").collect()) == sorted(
                load(dbtable="wide").where(condition).select("k").collect()
            )
    with pytest.raises(Exception, match="DATA_SOURCE_PUSHDOWN_DISABLED"):
        load(dbtable="wide", pushdown="true").count()


# ---- Spark's own SQL -------------------------------------------------------------------------------------------------


def test_spark_s_sql_knows_the_format(spark, cluster, load):
    options = f"OPTIONS (url '{cluster.url}', dbtable 'wide', columns 'k, s', where 'k < 10')"
    spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW low USING nyala {options}")
    assert "BatchScan nyala[k" in spark.sql("EXPLAIN SELECT k FROM low").collect()[0][0]
    spark.sql("CACHE TABLE low")
    assert spark.sql("SELECT sum(a.k) FROM low AS a JOIN low AS b ON a.k = b.k").collect() == [(45,)]
    spark.catalog.dropTempView("low")


def test_a_table_in_spark_s_catalog_needs_its_options_again(spark, cluster, connection):
    """Spark 4.3 keeps none of them; where it does one day, this test says so."""
    spark.sql(f"CREATE TABLE kept USING nyala OPTIONS (url '{cluster.url}', dbtable 'wide', columns 'k')")
    try:
        with pytest.raises(AnalysisException, match=r"option url is missing.*Spark 4.3 loses the options"):
            spark.sql("SELECT sum(k) FROM kept").collect()
        again = f"WITH (url = '{cluster.url}', dbtable = 'wide', columns = 'k', where = 'k < 10')"
        assert spark.sql(f"SELECT sum(k) FROM kept {again}").collect() == [(45,)]
    finally:
        spark.sql("DROP TABLE kept")


def test_a_declared_schema_prunes_and_is_checked(spark, cluster, connection):
    reader = spark.read.format("nyala").options(url=cluster.url, dbtable="wide", where="k = 7")
    assert reader.schema("s STRING, k INT").load().columns == ["s", "k"]
    assert [row.k for row in reader.schema("s STRING, k INT").load().collect()] == [7]
    for wrong, said in [
        ("k BIGINT", "column k is INT; .* BIGINT"),
        ("kk INT", "which the relation does not have; the relation has b, d18"),
    ]:
        with pytest.raises(Exception, match=said):
            reader.schema(wrong).load().collect()


# ---- what cannot be --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({}, "option dbtable is missing: name the table"),
        ({"dbtable": "wid"}, "table wid does not exist; did you mean wide"),
        ({"dbtable": "wide", "query": "SELECT 1 AS one"}, "exclude each other"),
        ({"dbtable": "wide", "columns": "k,ss"}, "column ss does not exist in table wide"),
        ({"dbtable": "wide", "where": "kk > 1"}, "column kk does not exist"),
        ({"dbtable": "wide", "where": "k + 1"}, "BOOLEAN"),
        ({"query": "SELECT k, k FROM wide"}, "two columns are called k"),
        ({"query": "DELETE FROM wide"}, "a relation is a SELECT"),
        ({"query": "SELECT 1 AS a; SELECT 2 AS b"}, "holds 2 statements"),
    ],
)
def test_what_is_wrong_is_said(read, options, said):
    with pytest.raises(nyala.Error, match=said):
        read(**options)


def test_spark_shows_what_was_said(load):
    with pytest.raises(AnalysisException, match="the data source nyala has no option numpartition; did you mean numP"):
        load(dbtable="wide", numPartition="3")


def test_a_time_that_cannot_be_read_is_an_error(load):
    with pytest.raises(Exception, match="is in the future"):
        load(dbtable="wide", asOf="9999-01-01").count()
    with pytest.raises(Exception, match="is not a value of type TIMESTAMP"):
        load(dbtable="wide", asOf="yesterday").count()


def test_a_table_that_is_dropped_meanwhile_is_an_error(connection, load):
    connection.execute("CREATE TABLE gone (k INT PRIMARY KEY)")
    frame = load(dbtable="gone")
    assert frame.count() == 0
    connection.execute("DROP TABLE gone")
    with pytest.raises(Exception, match=r"table gone .* has been dropped"):
        frame.count()


def test_the_session_s_setting_names_the_store(spark, cluster, connection):
    with pytest.raises(nyala.InterfaceError, match=r"spark\.nyala\.url"):
        table(spark, "wide")
    with setting(spark, "spark.nyala.url", cluster.url):
        assert table(spark, "wide", where="false").collect() == []
        assert table(spark, "wide", columns=["k"], at=0).count() == 0


# ---- without Spark ---------------------------------------------------------------------------------------------------


def test_the_documentation_has_the_options():
    text = (Path(nyala.__file__).parent / "docs" / "spark.md").read_text(encoding="utf-8")
    assert "\n".join(options.documented()) in text, "paste what nyala.spark.source.options.documented() gives"
