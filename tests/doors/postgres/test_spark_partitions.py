"""Spark's source `jdbc` by tablets and by a column, at one snapshot, while another connection writes."""

from __future__ import annotations

import itertools
import threading
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import nyala
import pytest
from maven_support import jar
from nyala.doors.postgres.server.server import PostgresServer
from nyala.errors import DataError, InterfaceError, NotSupportedError, OperationalError, UnknownTable
from nyala.spark import jdbc_partitions, jdbc_snapshot
from postgres_support import served
from spark_session import OWN_WARNINGS, spark  # noqa: F401  # a fixture

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings(OWN_WARNINGS)]
PASSWORD = "correct horse"
PROPERTIES = {"user": "me", "password": PASSWORD}
TABLES = {
    "plain": ("k INT PRIMARY KEY, v INT", "", "n, n"),
    "hashed": (
        "host STRING, k INT, v INT, PRIMARY KEY (host, k)",
        "DISTRIBUTE BY HASH (host) INTO 3 BUCKETS",
        "'it''s ' || n % 7, n, n",
    ),
    "archive.mixed": (
        'day DATE, "Host" STRING, v DECIMAL(20, 2), PRIMARY KEY (day, "Host")',
        "DISTRIBUTE BY HASH (\"Host\") INTO 2 BUCKETS, RANGE (day, \"Host\") (PARTITION VALUES < ('2024-01-03', 'h5'), "
        "PARTITION ('2024-01-03', 'h5') <= VALUES < ('2024-02-01', 'h9'), PARTITION ('2024-02-01', 'h9') <= VALUES)",
        "DATE '2024-01-01' + n % 60, 'h' || n, n",
    ),
    "names": (
        "name STRING PRIMARY KEY, v INT",
        "DISTRIBUTE BY RANGE (name) (PARTITION VALUES < 'n2', PARTITION VALUE = 'n5', PARTITION 'n6' <= VALUES)",
        "CASE n % 4 WHEN 0 THEN 'n5' WHEN 1 THEN 'a' || n ELSE 'n7' || n END, n",
    ),
}
"""Columns, distribution and the rows of numbers n."""
TABLETS = {"plain": 1, "hashed": 3, "archive.mixed": 6, "names": 3}


@pytest.fixture(scope="module")
def store() -> Iterator[nyala.driver.connection.Connection]:
    with nyala.connect(":memory:") as connection:
        connection.execute("CREATE SCHEMA archive")
        for name, (columns, distribution, rows) in TABLES.items():
            connection.execute(f"CREATE TABLE {name} ({columns}) {distribution}")
            connection.execute(f"UPSERT INTO {name} SELECT {rows} FROM generate_series(1, 400) AS g(n)")
        connection.execute("CREATE VIEW seen AS SELECT * FROM plain")
        yield connection


@pytest.fixture(scope="module")
def server(store: nyala.driver.connection.Connection) -> Iterator[PostgresServer]:
    with served(store, password=PASSWORD) as server:
        yield server


@pytest.fixture(scope="module")
def session(spark: Any) -> Any:  # noqa: F811
    spark.sql(f"ADD JAR '{jar('org.postgresql', 'postgresql', '42.7.4')}'")
    return spark


def url(server: PostgresServer) -> str:
    return f"jdbc:postgresql://{server.address}/store"


@contextmanager
def writing(store: nyala.driver.connection.Connection, name: str) -> Iterator[None]:
    """Another connection writes and deletes rows until the end of the block; it has begun before."""
    stopped, began = threading.Event(), threading.Event()
    rows = TABLES[name][2]

    def write() -> None:
        try:
            with store.duplicate() as writer:
                for number in itertools.count(1):
                    series = f"generate_series({number}, {number + 300}) AS g(n)"
                    writer.execute(f"UPSERT INTO {name} SELECT {rows} FROM {series}")
                    writer.execute(f"DELETE FROM {name} WHERE v % 5 = {number % 5}")
                    began.set()
                    if stopped.is_set():
                        return
        finally:
            began.set()

    with ThreadPoolExecutor(1) as pool:
        writes = pool.submit(write)
        try:
            assert began.wait(60)
            yield
        finally:
            stopped.set()
        writes.result()


def at_snapshot(store: nyala.driver.connection.Connection, table: str) -> Counter[Any]:
    return Counter(store.execute(f"SELECT * FROM {table}").fetchall())


@pytest.mark.parametrize("name", list(TABLES))
def test_the_partitions_are_the_table_at_one_snapshot_while_it_is_written(
    name: str, store: nyala.driver.connection.Connection, server: PostgresServer, session: Any
) -> None:
    with writing(store, name):
        given = jdbc_partitions(session, url(server), name, PROPERTIES)
        frame = session.read.jdbc(**given)
        parts = [Counter(map(tuple, rows)) for rows in frame.rdd.glom().collect()]
        again = Counter(map(tuple, frame.collect()))
    expected = at_snapshot(store, given["table"])
    assert len(parts) == TABLETS[name]
    assert sum(parts, Counter()) == again == expected and expected.total() > 0
    for rows, condition in zip(parts, given["predicates"], strict=True):
        assert rows == Counter(store.execute(f"SELECT * FROM {given['table']} WHERE {condition}").fetchall())


def test_a_partition_reads_one_tablet(
    store: nyala.driver.connection.Connection, server: PostgresServer, session: Any
) -> None:
    for name, tablets in TABLETS.items():
        given = jdbc_partitions(session, url(server), name, PROPERTIES)
        assert len(given["predicates"]) == tablets
        for condition in given["predicates"]:
            plan = store.execute(f"EXPLAIN SELECT * FROM {given['table']} WHERE {condition}").fetchall()
            assert tablets == 1 or any(f"1 of {tablets} tablets" in line for (line,) in plan), plan


def test_tablets_are_divided_by_the_first_key_column(
    store: nyala.driver.connection.Connection, server: PostgresServer, session: Any
) -> None:
    for name in ("plain", "archive.mixed"):
        given = jdbc_partitions(session, url(server), name, PROPERTIES, pieces=3)
        parts = [
            store.execute(f"SELECT * FROM {given['table']} WHERE {condition}").fetchall()
            for condition in given["predicates"]
        ]
        assert Counter(itertools.chain(*parts)) == at_snapshot(store, given["table"])
    given = jdbc_partitions(session, url(server), "plain", PROPERTIES, pieces=3)
    assert sorted(session.read.jdbc(**given).rdd.glom().map(len).collect())[0] > 50  # a third each


def test_parts_by_a_column_are_of_one_snapshot_while_the_table_is_written(
    store: nyala.driver.connection.Connection, server: PostgresServer, session: Any
) -> None:
    with writing(store, "plain"):
        table = jdbc_snapshot(session, url(server), "plain", PROPERTIES)
        frame = session.read.jdbc(
            url(server), table, column="k", lowerBound=1, upperBound=700, numPartitions=4,
            properties={**PROPERTIES, "driver": "org.postgresql.Driver"},
        )  # fmt: skip
        assert frame.rdd.getNumPartitions() == 4
        rows = Counter(map(tuple, frame.collect()))
    assert rows == at_snapshot(store, table)


def test_a_time_of_the_past_can_be_given(
    store: nyala.driver.connection.Connection, server: PostgresServer, session: Any
) -> None:
    store.execute("UPSERT INTO plain VALUES (-1, 1)")
    before = store.last_timestamp
    store.execute("DELETE FROM plain WHERE k = -1")
    given = jdbc_partitions(session, url(server), "plain", PROPERTIES, at=before)
    assert given["table"] == f"public.plain FOR SYSTEM_TIME AS OF {before}"
    assert session.read.jdbc(**given).where("k = -1").count() == 1
    assert session.read.jdbc(**jdbc_partitions(session, url(server), "plain", PROPERTIES)).where("k = -1").count() == 0


def test_errors_name_their_cause(server: PostgresServer, session: Any) -> None:
    there = url(server)
    with pytest.raises(UnknownTable, match="table nope does not exist at jdbc:postgresql"):
        jdbc_partitions(session, there, "nope", PROPERTIES)
    with pytest.raises(NotSupportedError, match="seen is a view, which has neither tablets nor a past"):
        jdbc_partitions(session, there, "seen", PROPERTIES)
    with pytest.raises(InterfaceError, match="is not the URL of a door"):
        jdbc_snapshot(session, "nyala://localhost:7051", "plain")
    with pytest.raises(InterfaceError, match="pieces=0"):
        jdbc_partitions(session, there, "plain", PROPERTIES, pieces=0)
    with pytest.raises(OperationalError, match=r"the partitions of plain cannot be read from .*password"):
        jdbc_partitions(session, there, "plain", {"user": "me", "password": "wrong"})
    with pytest.raises(DataError, match="is in the future"):
        jdbc_snapshot(session, there, "plain", PROPERTIES, at="2999-01-01")
