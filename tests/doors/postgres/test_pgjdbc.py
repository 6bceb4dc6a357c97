"""The JDBC driver of PostgreSQL: a Java program, and Spark's source and sink `jdbc`."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import nyala
import pytest
from maven_support import jar, run_java
from nyala.doors.postgres.server.server import PostgresServer
from postgres_support import served
from spark_session import OWN_WARNINGS, spark  # noqa: F401  # a fixture

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings(OWN_WARNINGS)]
PASSWORD = "correct horse"


@pytest.fixture(scope="module")
def driver() -> Path:
    return jar("org.postgresql", "postgresql", "42.7.4")


@pytest.fixture(scope="module")
def store() -> Iterator[nyala.driver.connection.Connection]:
    with nyala.connect(":memory:") as connection:
        connection.execute("CREATE TABLE hosts (host INT PRIMARY KEY, name STRING, load DECIMAL(9, 2), seen TIMESTAMP)")
        connection.execute(
            "INSERT INTO hosts SELECT n, 'h' || n, CAST(n AS DECIMAL(9, 2)) / 4, TIMESTAMP '2024-01-01 00:00:00' "
            "FROM generate_series(1, 1000) AS g(n)"
        )
        yield connection


@pytest.fixture(scope="module")
def server(store: nyala.driver.connection.Connection) -> Iterator[PostgresServer]:
    with served(store, password=PASSWORD) as server:
        yield server


@pytest.fixture(scope="module")
def printed(driver: Path, server: PostgresServer) -> dict[str, list[str]]:
    """Lines that the program prints, by title."""
    program = Path(__file__).parent / "PostgresJdbc.java"
    found: dict[str, list[str]] = {}
    for part in run_java(program, driver, url(server), PASSWORD).split("# ")[1:]:
        title, *lines = part.splitlines()
        found[title] = lines
    return found


def url(server: PostgresServer) -> str:
    return f"jdbc:postgresql://{server.address}/store"


def test_statements(printed: dict[str, list[str]]) -> None:
    assert printed["updates"] == ["0", "2", "1", "10", "1"]
    assert [line.split(" | ")[1] for line in printed["result columns"]] == [
        "int4", "varchar", "numeric", "float8", "timestamp", "date", "bool", "int8", "bytea", "float4", "int2",
    ]  # fmt: skip
    assert "d | numeric | 15 | 2" in printed["result columns"]
    assert printed["result"] == [
        "1 | one | 1.50 | null | null | null | null | null | null | null | null",
        "2 | v2 | 2.25 | 0.5 | 2024-01-02 03:04:05.123 | 2024-01-02 | true | 1099511627776 | [1, 2] | 1.5 | 7",
    ]
    assert printed["result again"] == ["4 | v4", "5 | v5"]
    assert printed["many times"] == ["40"]
    assert printed["null, list, computed"] == ["2 | 4.50"]
    assert printed["error"][0].startswith("42P01 | ERROR: table nope does not exist")
    assert printed["duplicate"] == ["23505"]


def test_transactions_cursors_and_copy(printed: dict[str, list[str]]) -> None:
    assert printed["cursor"] == ["500500"]
    assert printed["savepoint"] == ["5", "12"]
    assert printed["isolation"] == ["true"]
    assert printed["copy"] == ["2", "2", "100\ta", "101\tb,"]


def test_a_sink_upserts_and_deletes_by_key(printed: dict[str, list[str]]) -> None:
    assert printed["sink"] == ["100", "[1]"] * 3
    assert printed["sunk"] == ["round 2 | 99 | 3 | 101 | 51480"]


def test_keys_of_inserted_rows_are_returned(printed: dict[str, list[str]]) -> None:
    assert printed["generated keys"] == ["200 | back"]
    assert printed["named keys"] == ["201"]
    assert printed["without a key"] == ["1 | x", "1 | x"]


def test_metadata(printed: dict[str, list[str]]) -> None:
    assert printed["product"] == ['PostgreSQL | 15 | "', "true | true | store | public"]
    assert printed["catalogs"] == ["store"]
    assert printed["schemas"] == ["information_schema", "nyala_catalog", "pg_catalog", "public"]
    assert {"TABLE", "VIEW", "SYSTEM TABLE"} <= set(printed["table types"])
    assert {"public | hosts | TABLE", "public | j | TABLE", "public | loose | TABLE"} <= set(printed["tables"])
    assert printed["columns"][:3] == [
        "k | int4 | 10 | 0 | NO | 1",
        "v | varchar | 10 | 0 | YES | 2",
        "d | numeric | 15 | 2 | YES | 3",
    ]
    assert len(printed["columns"]) == 11
    assert printed["primary keys"] == ["k | 1 | j_pkey"]
    assert printed["index info"] == ["j_pkey | k | false"]
    assert printed["best row"] == ["k"]
    assert printed["functions"] == ["upper"]
    for title in ("imported keys", "exported keys", "privileges", "procedures"):
        assert printed[title] == [], title
    assert all(line.endswith(" true") for line in printed["types"])


def test_spark_reads_and_writes(
    driver: Path,
    server: PostgresServer,
    store: nyala.driver.connection.Connection,
    spark: Any,  # noqa: F811
) -> None:
    spark.sql(f"ADD JAR '{driver}'")
    options = {"driver": "org.postgresql.Driver", "url": url(server), "user": "me", "password": PASSWORD}
    reader = spark.read.format("jdbc").options(**options, dbtable="hosts", pushDownAggregate="true")
    frame = reader.load()
    assert [(field.name, field.dataType.simpleString()) for field in frame.schema.fields] == [
        ("host", "int"),
        ("name", "string"),
        ("load", "decimal(9,2)"),
        ("seen", "timestamp"),
    ]
    chosen = frame.where("host > 990 AND name <> 'h999'").select("host", "load")
    plan = chosen._jdf.queryExecution().toString()
    assert "*GreaterThan(host,990), *Not(EqualTo(name,h999))], ReadSchema: struct<host:int,load:decimal(9,2)>" in plan
    assert [row.host for row in chosen.orderBy("host").collect()] == [991, 992, 993, 994, 995, 996, 997, 998, 1000]
    parts = reader.options(partitionColumn="host", lowerBound=1, upperBound=1000, numPartitions=3, fetchsize=100).load()
    assert parts.rdd.getNumPartitions() == 3
    assert parts.selectExpr("sum(load)").first()[0] == sum(range(1, 1001)) / 4

    writer = frame.write.format("jdbc").options(**options, numPartitions=2, batchsize=300)
    writer.option("dbtable", "copies").save()  # creates a table without a key
    writer.option("dbtable", "copies").mode("append").save()
    writer.option("dbtable", "replaced").mode("overwrite").save()
    writer.option("dbtable", "replaced").mode("overwrite").option("truncate", "true").save()
    sums = "SELECT count(*), sum(load), max(name), max(seen) FROM "
    assert store.execute(sums + "copies").fetchone()[:2] == (2000, 250250)
    assert store.execute(sums + "replaced").fetchone() == store.execute(sums + "hosts").fetchone()

    store.execute("CREATE SCHEMA archive; CREATE TABLE archive.hosts (PRIMARY KEY (host)) AS SELECT host FROM hosts")
    archived = spark.read.format("jdbc").options(**options, dbtable="archive.hosts").load()
    assert archived.columns == ["host"] and archived.where("host > 997").count() == 3
    store.execute("DROP SCHEMA archive CASCADE")


def test_a_catalog_of_spark_pushes_aggregates_limits_and_first_rows(
    driver: Path,
    server: PostgresServer,
    store: nyala.driver.connection.Connection,
    spark: Any,  # noqa: F811
) -> None:
    spark.sql(f"ADD JAR '{driver}'")
    entry = "spark.sql.catalog.door"
    spark.conf.set(entry, "org.apache.spark.sql.execution.datasources.v2.jdbc.JDBCTableCatalog")
    options = {"url": url(server), "driver": "org.postgresql.Driver", "user": "me", "password": PASSWORD}
    for name, value in {**options, "pushDownTableSample": "false"}.items():
        spark.conf.set(f"{entry}.{name}", value)
    pushed = {
        "SELECT host % 3 AS m, count(*), sum(load), max(name) FROM {} WHERE host > 10 GROUP BY 1 ORDER BY 1": (
            "PushedAggregates: [COUNT(*), SUM(load), MAX(name)]"
        ),
        "SELECT count(DISTINCT name), min(host), avg(host) FROM {} WHERE name LIKE 'h1%' OR host IN (2, 3)": (
            "PushedAggregates: [COUNT(DISTINCT name)"
        ),
        "SELECT name FROM {} WHERE host = 7 LIMIT 5": "PushedLimit: LIMIT 5",
        "SELECT host, name FROM {} ORDER BY load DESC LIMIT 3": "PushedTopN: ORDER BY [load DESC NULLS LAST] LIMIT 3",
        "SELECT host FROM {} ORDER BY host LIMIT 4 OFFSET 2": "PushedOffset: OFFSET 2",
    }
    for text, expected in pushed.items():
        frame = spark.sql(text.format("door.public.hosts"))
        assert expected in frame._jdf.queryExecution().toString(), text
        rows = [tuple(map(_plain, row)) for row in frame.collect()]
        assert rows == [tuple(map(_plain, row)) for row in store.execute(text.format("hosts")).fetchall()], text
    sample = spark.sql("SELECT count(*) FROM door.public.hosts TABLESAMPLE (50 PERCENT) REPEATABLE (1)").first()[0]
    assert 0 < sample < 1000  # Spark takes it itself


def _plain(value: Any) -> Any:
    """A number of any type as a float: sums of Spark have other types."""
    return float(value) if isinstance(value, (int, Decimal)) else value
