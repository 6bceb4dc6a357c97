"""The JDBC driver of Arrow Flight SQL, by a Java program and by Spark's source `jdbc`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nyala
import pytest
from flight_sql_support import SCHEMA, served, until
from maven_support import jar, run_java
from nyala.doors.flight_sql.server import sessions as sessions_module
from nyala.doors.flight_sql.server.server import FlightSqlServer
from spark_session import OWN_WARNINGS, spark  # noqa: F401  # a fixture

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings(OWN_WARNINGS)]
DRIVER = "org.apache.arrow.driver.jdbc.ArrowFlightJdbcDriver"
PASSWORD = "correct horse"


@pytest.fixture(scope="module")
def driver() -> Path:
    return jar("org.apache.arrow", "flight-sql-jdbc-driver", "18.3.0")


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
def server(store: nyala.driver.connection.Connection) -> Iterator[FlightSqlServer]:
    with served(store, password=PASSWORD) as server:
        yield server


def url(server: FlightSqlServer) -> str:
    return f"jdbc:arrow-flight-sql://{server.address}?useEncryption=false"


def sections(printed: str) -> dict[str, list[str]]:
    """Lines by title."""
    found: dict[str, list[str]] = {}
    for part in printed.split("# ")[1:]:
        title, *lines = part.splitlines()
        found[title] = lines
    return found


def test_statements_and_metadata(driver: Path, server: FlightSqlServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sessions_module, "GRACE_SECONDS", 0.5)
    program = Path(__file__).parent / "FlightSqlJdbc.java"
    found = sections(run_java(program, driver, url(server), "me", PASSWORD, SCHEMA))
    assert found["updates"] == ["0", "2", "1", "[3]"]
    assert found["result columns"] == [
        "k | INTEGER | 10 | 0",
        "v | VARCHAR | 10 | 0",
        "d | DECIMAL | 15 | 2",
        "x | DOUBLE | 53 | 0",
        "t | TIMESTAMP | 26 | 6",
        "dt | DATE | 10 | 0",
        "b | BOOLEAN | 1 | 0",
        "n | BIGINT | 19 | 0",
        "y | VARBINARY | 0 | 0",
        "f | FLOAT | 24 | 0",
        "s | SMALLINT | 5 | 0",
    ]
    assert found["result"] == [
        "1 | one | 1.50 | null | null | null | null | null | null | null | null",
        "2 | v2 | 2.25 | 0.5 | 2024-01-02 03:04:05.123 | 2024-01-02 | true | 1099511627776 | [1, 2] | 1.5 | 7",
    ]
    assert found["result again"] == ["4 | v4"]
    assert found["after it"] == ["4"]
    assert "table nope does not exist" in found["error"][0] and "(SQLSTATE 42P01)" in found["error"][0]
    assert found["product"] == ['nyala | "', "true | true | true", "true"]
    assert found["catalogs"] == ["nyala"]
    assert found["schemas"] == [f"nyala | {SCHEMA}"]
    assert found["table types"] == ["SYSTEM TABLE", "TABLE", "VIEW"]
    assert found["tables"] == [f"{SCHEMA} | hosts | TABLE", f"{SCHEMA} | j | TABLE"]
    assert found["columns"][:3] == ["k | INT | 10 | 0 | 1", "v | VARCHAR | 10 | null | 2", "d | DECIMAL | 15 | 2 | 3"]
    assert len(found["columns"]) == 11
    assert found["primary keys"] == ["k | 1 | j_pkey"]
    assert found["imported keys"] == found["exported keys"] == found["cross reference"] == []
    until(lambda: len(server.sessions) == 0)


def test_spark_reads_by_jdbc_and_pushes_filters(driver: Path, server: FlightSqlServer, spark: Any) -> None:  # noqa: F811
    spark.sql(f"ADD JAR '{driver}'")
    reader = spark.read.format("jdbc").options(
        driver=DRIVER, url=url(server), user="me", password=PASSWORD, dbtable="hosts", pushDownAggregate="true"
    )
    frame = reader.load()
    assert [(field.name, field.dataType.simpleString()) for field in frame.schema.fields] == [
        ("host", "bigint"),  # the driver calls no integer signed
        ("name", "string"),
        ("load", "decimal(9,2)"),
        ("seen", "timestamp"),
    ]
    chosen = frame.where("host > 990 AND name <> 'h999'").select("host", "load")
    plan = chosen._jdf.queryExecution().toString()
    assert (
        "*GreaterThan(host,990), *Not(EqualTo(name,h999))], ReadSchema: struct<host:bigint,load:decimal(9,2)>" in plan
    )
    assert [row.host for row in chosen.orderBy("host").collect()] == [991, 992, 993, 994, 995, 996, 997, 998, 1000]
    assert frame.count() == 1000
    parts = reader.options(partitionColumn="host", lowerBound=1, upperBound=1000, numPartitions=3).load()
    assert parts.rdd.getNumPartitions() == 3
    assert parts.selectExpr("sum(load)").first()[0] == sum(range(1, 1001)) / 4
