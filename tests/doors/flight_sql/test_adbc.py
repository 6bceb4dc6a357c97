"""The driver of ADBC for Flight SQL, by itself and by polars."""

from __future__ import annotations

import datetime
import decimal
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import nyala
import pyarrow as pa
import pytest
from flight_sql_support import SCHEMA, SLOW, served, until
from nyala.doors.flight_sql.server.server import FlightSqlServer
from tls_support import HOST, Pki

dbapi = pytest.importorskip("adbc_driver_flightsql.dbapi")
polars = pytest.importorskip("polars")
from adbc_driver_flightsql import DatabaseOptions  # noqa: E402


@pytest.fixture(scope="module")
def store() -> Iterator[nyala.driver.connection.Connection]:
    with nyala.connect(":memory:") as connection:
        yield connection


@pytest.fixture(scope="module")
def server(store: nyala.driver.connection.Connection) -> Iterator[FlightSqlServer]:
    with served(store) as server:
        yield server


@contextmanager
def connected(server: FlightSqlServer, options: dict[str, str] | None = None, **more: Any) -> Iterator[Any]:
    with closing(dbapi.connect(server.url, db_kwargs=options or {}, **more)) as client:
        yield client


@pytest.fixture
def client(server: FlightSqlServer) -> Iterator[Any]:
    with connected(server) as client:
        with client.cursor() as cursor:
            for table in ("t", "fresh"):
                cursor.execute(f"DROP TABLE IF EXISTS {table}")
            cursor.execute(
                "CREATE TABLE t (k INT PRIMARY KEY, v STRING, d DECIMAL(9, 2), day DATE, at TIMESTAMP, x BINARY)"
            )
        client.commit()
        yield client


def rows(client: Any, text: str, parameters: Any = None) -> list[tuple[Any, ...]]:
    with client.cursor() as cursor:
        cursor.execute(text, parameters)
        found: list[tuple[Any, ...]] = cursor.fetchall()
        return found


def test_values_come_back_as_they_were_bound(client: Any) -> None:
    row = (
        1,
        "Zürich",
        decimal.Decimal("-1.25"),
        datetime.date(2024, 2, 29),
        datetime.datetime(2024, 2, 29, 12, 30, 0, 123456),
        b"\0\xff",
    )
    with client.cursor() as cursor:
        cursor.execute("INSERT INTO t VALUES (?, ?, ?, ?, ?, ?)", row)
        assert cursor.rowcount == 1
        cursor.execute("INSERT INTO t (k) VALUES (2)")
    assert rows(client, "SELECT * FROM t ORDER BY k") == [row, (2, None, None, None, None, None)]
    assert rows(client, "SELECT k FROM t WHERE v = ? AND d < ?", ("Zürich", 0)) == [(1,)]


def test_many_rows_are_one_write(client: Any) -> None:
    with client.cursor() as cursor:
        cursor.executemany("INSERT INTO t (k, v) VALUES (?, ?)", [(i, f"v{i}") for i in range(5000)])
        assert cursor.rowcount == 5000
        cursor.executemany("DELETE FROM t WHERE k = ?", [(i,) for i in range(10)])
        assert cursor.rowcount == 10
        cursor.execute("SELECT k, v FROM t")
        table = cursor.fetch_arrow_table()
    assert table.num_rows == 4990


def test_transactions(client: Any, server: FlightSqlServer) -> None:
    insert = "INSERT INTO t (k) VALUES (?)"
    with client.cursor() as cursor:
        cursor.execute(insert, (1,))
        client.rollback()
        cursor.execute(insert, (2,))  # prepared in the transaction before
        client.commit()
        cursor.execute(insert, (3,))
        cursor.adbc_ingest("fresh", pa.table({"a": [1]}), mode="create")  # names no transaction
        with connected(server) as other:
            assert rows(other, "SELECT k FROM t") == [(2,)]
        client.rollback()
    assert rows(client, "SELECT k FROM t") == [(2,)]
    assert rows(client, "SELECT count(*) FROM information_schema.tables WHERE table_name = 'fresh'") == [(0,)]


def test_many_rows_are_rolled_back(client: Any) -> None:
    with client.cursor() as cursor:
        cursor.executemany("INSERT INTO t (k) VALUES (?)", [(1,), (2,)])
        client.rollback()
    assert rows(client, "SELECT count(*) FROM t") == [(0,)]


def test_autocommit(server: FlightSqlServer, client: Any) -> None:
    with connected(server, autocommit=True) as automatic:
        assert rows(automatic, "INSERT INTO t (k) VALUES (1)") == []
        assert rows(client, "SELECT k FROM t") == [(1,)]


@pytest.mark.parametrize("batches", [False, True])
def test_ingestion(client: Any, batches: bool) -> None:
    table = pa.table({"a": pa.array([1, None, 3], pa.int64()), "b": ["x", "y", None]})

    def source() -> Any:
        return table.to_reader(2) if batches else table

    with client.cursor() as cursor:
        assert cursor.adbc_ingest("fresh", source(), mode="create") == 3
        with pytest.raises(dbapi.Error, match="exists already"):
            cursor.adbc_ingest("fresh", source(), mode="create")
        assert cursor.adbc_ingest("fresh", source(), mode="append") == 3
        assert cursor.adbc_ingest("fresh", source(), mode="create_append") == 3
        assert rows(client, "SELECT count(*), count(a), max(b) FROM fresh") == [(9, 6, "y")]
        assert cursor.adbc_ingest("fresh", source(), mode="replace", db_schema_name=SCHEMA) == 3
        assert rows(client, "SELECT count(*) FROM fresh") == [(3,)]
        with pytest.raises(dbapi.Error, match="does not exist"):
            cursor.adbc_ingest("none", source(), mode="append")


def test_metadata(client: Any) -> None:
    assert client.adbc_get_info()["vendor_name"] == "nyala"
    assert client.adbc_get_table_types() == ["SYSTEM TABLE", "TABLE", "VIEW"]
    schema = client.adbc_get_table_schema("t")
    assert schema.names == ["k", "v", "d", "day", "at", "x"]
    assert schema.field("d").type == pa.decimal128(9, 2)
    (catalog,) = client.adbc_get_objects(depth="all", table_name_filter="t").read_all().to_pylist()
    tables = {
        table["table_name"]: [column["column_name"] for column in table["table_columns"]]
        for schema in catalog["catalog_db_schemas"]
        for table in schema["db_schema_tables"]
    }
    assert catalog["catalog_name"] == "nyala" and tables == {"t": schema.names}
    assert (client.adbc_current_catalog, client.adbc_current_db_schema) == ("nyala", SCHEMA)


def test_a_statement_is_described_without_running(client: Any) -> None:
    with client.cursor() as cursor:
        assert cursor.adbc_execute_schema("SELECT k / 0 AS broken FROM t").names == ["broken"]
        cursor.adbc_prepare("SELECT v FROM t WHERE k = ?")
        partitions, schema = cursor.adbc_execute_partitions("SELECT 1 AS one")
        assert (len(partitions), schema.names) == (1, ["one"])
        cursor.adbc_read_partition(partitions[0])
        assert cursor.fetchall() == [(1,)]


def test_errors(client: Any) -> None:
    with pytest.raises(dbapi.Error, match=r"table nope does not exist.*(?s:.*)SQLSTATE 42P01"):
        rows(client, "SELECT * FROM nope")
    with pytest.raises(dbapi.Error, match="SQLSTATE 23505"):
        rows(client, "INSERT INTO t (k) VALUES (1), (1)")
    assert rows(client, "SELECT 1") == [(1,)]


def test_cancel(client: Any, server: FlightSqlServer) -> None:
    with client.cursor() as cursor:
        errors: list[Exception] = []

        def run() -> None:
            try:
                cursor.execute(SLOW)
                cursor.fetchall()
            except Exception as error:
                errors.append(error)

        thread = threading.Thread(target=run)
        thread.start()
        until(lambda: len(server.calls) == 1)
        cursor.adbc_cancel()
        thread.join()
        assert len(errors) == 1 and "ancel" in str(errors[0])
    until(lambda: len(server.calls) == 0)


def test_a_closed_connection_leaves_no_session(server: FlightSqlServer) -> None:
    before = len(server.sessions)
    with connected(server) as client:
        rows(client, "SELECT 1")
        assert len(server.sessions) == before + 1
    until(lambda: len(server.sessions) == before)


def test_password_and_tls(tmp_path: Path, store: nyala.driver.connection.Connection) -> None:
    files = Pki(tmp_path).files(HOST)
    with served(store, password="secret", tls_cert=str(files.certificate), tls_key=str(files.key)) as server:
        options = {DatabaseOptions.TLS_ROOT_CERTS.value: Path(files.ca).read_text(encoding="utf-8")}
        for password in ("secret", "wrong"):
            given = {**options, "username": "me", "password": password}
            if password == "secret":
                with connected(server, given) as client:
                    assert rows(client, "SELECT current_user") == [("me",)]
            else:
                with pytest.raises(dbapi.Error, match="password authentication failed"), connected(server, given):
                    pass


def test_polars_reads_and_writes(client: Any, server: FlightSqlServer) -> None:
    frame = polars.DataFrame({"a": [1, 2, 3], "b": ["x", None, "z"], "day": [datetime.date(2024, 1, 1)] * 3})
    with connected(server, autocommit=True) as connection:
        assert frame.write_database("fresh", connection, engine="adbc") == 3
        assert frame.write_database("fresh", connection, engine="adbc", if_table_exists="append") == 3
        found = polars.read_database("SELECT * FROM fresh ORDER BY a", connection)
        assert found.shape == (6, 3) and found.schema == frame.schema
        assert frame.write_database("fresh", connection, engine="adbc", if_table_exists="replace") == 3
        found = polars.read_database(
            "SELECT * FROM fresh WHERE a > ? ORDER BY a", connection, execute_options={"parameters": [1]}
        )
        assert found.rows() == frame.rows()[1:]
