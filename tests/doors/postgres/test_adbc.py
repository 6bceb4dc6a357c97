"""ADBC's driver for PostgreSQL: results and ingestion by binary COPY, metadata, transactions."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import nyala
import pyarrow as pa
import pytest
from nyala.doors.postgres.server.server import PostgresServer
from postgres_support import served

postgres = pytest.importorskip("adbc_driver_postgresql.dbapi")
pytestmark = pytest.mark.slow
SCHEMA = """
CREATE TABLE v (
    k INT PRIMARY KEY, tiny TINYINT, small SMALLINT, big BIGINT, real FLOAT, double DOUBLE, price DECIMAL(12, 3),
    day DATE, seen TIMESTAMP, name STRING, short VARCHAR(5), raw BINARY, is_on BOOLEAN)
"""
FULL = (
    1, -7, 300, 1 << 40, 1.5, 0.1, Decimal("-12345.678"), datetime.date(2024, 2, 29),
    datetime.datetime(1999, 12, 31, 23, 59, 59, 123456), "Zoë\t\\N", "abcde", b"\x00\xff'\\", True,
)  # fmt: skip
NAMES = ["k", "tiny", "small", "big", "real", "double", "price", "day", "seen", "name", "short", "raw", "is_on"]


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    with nyala.connect(":memory:") as connection:
        connection.execute(SCHEMA)
        connection.execute(f"INSERT INTO v VALUES ({', '.join('?' * 13)})", FULL)
        connection.execute("CREATE VIEW names AS SELECT name FROM v")
        with served(connection) as found:
            yield found


@pytest.fixture
def client(server: PostgresServer) -> Iterator[Any]:
    with postgres.connect(f"postgresql://me@{server.address}/store", autocommit=True) as connection:
        yield connection


def table(client: Any, sql: str, parameters: Any = None) -> pa.Table:
    with client.cursor() as cursor:
        cursor.execute(sql, parameters)
        return cursor.fetch_arrow_table()


def test_all_types_go_both_ways(client: Any) -> None:
    # The driver has numbers of any length as texts.
    expected = dict(zip(NAMES, FULL, strict=True)) | {"price": "-12345.678"}
    assert table(client, "SELECT * FROM v WHERE k = 1").to_pylist() == [expected]
    with client.cursor() as cursor:
        cursor.execute(f"INSERT INTO v VALUES ({', '.join(f'${n}' for n in range(1, 14))})", (2, *FULL[1:]))
        cursor.executemany("INSERT INTO v (k, name) VALUES ($1,$2)", [(3, "a"), (4, None)])
        assert cursor.rowcount == 2
    assert table(client, "SELECT * FROM v WHERE k = $1", (2,)).to_pylist() == [expected | {"k": 2}]
    assert table(client, "SELECT k, name FROM v WHERE k > $1 ORDER BY k", (2,)).to_pydict() == {
        "k": [3, 4],
        "name": ["a", None],
    }
    found = table(client, "SELECT INTERVAL '3' DAY AS i, NULL AS n, seen - day AS d FROM v WHERE k = 1").to_pylist()
    assert [found[0]["i"].days, found[0]["n"]] == [3, None]


def test_many_rows(client: Any) -> None:
    found = table(client, "SELECT n, n / 7.0 AS x, 'row ' || n AS s FROM generate_series(1, 200000) AS g(n) ORDER BY n")
    assert found.num_rows == 200_000
    assert found["n"].to_pylist() == list(range(1, 200_001))
    assert found["s"][199_999].as_py() == "row 200000"


def test_ingestion(client: Any) -> None:
    rows = pa.table(
        {
            "i": pa.array([1, None, 3], pa.int32()),
            "l": pa.array([1, 2, 3], pa.int64()),
            "h": pa.array([1, 2, 3], pa.int16()),
            "s": ["a", None, "c"],
            "d": [1.5, 2.5, None],
            "f": pa.array([1.5, 2.5, None], pa.float32()),
            "b": [True, None, False],
            "day": pa.array([datetime.date(2024, 1, 1)] * 3),
            "at": pa.array([datetime.datetime(2024, 1, 1, 1)] * 3, pa.timestamp("us")),
            "utc": pa.array([datetime.datetime(2024, 1, 1, 2)] * 3, pa.timestamp("us", tz="UTC")),
            "raw": [b"a", None, b"c"],
            "p": pa.array([Decimal("1.25")] * 3, pa.decimal128(10, 2)),
        }
    )
    expected = [
        row | {"p": "1.250000000", "utc": row["utc"].replace(tzinfo=None)}  # a TIMESTAMP, in UTC
        for row in rows.to_pylist()
    ]
    with client.cursor() as cursor:
        assert cursor.adbc_ingest("taken", rows, mode="create") == 3
        assert table(client, "SELECT * FROM taken ORDER BY l").to_pylist() == expected
        with pytest.raises(postgres.ProgrammingError, match="exists already"):
            cursor.adbc_ingest("taken", rows, mode="create")
        assert cursor.adbc_ingest("taken", rows.slice(0, 2), mode="append") == 2
        assert table(client, "SELECT count(*) AS n FROM taken").to_pydict() == {"n": [5]}
        assert cursor.adbc_ingest("taken", rows.select(["l"]), mode="replace") == 3
        assert table(client, "SELECT * FROM taken ORDER BY l").to_pydict() == {"l": [1, 2, 3]}
        assert cursor.adbc_ingest("own", rows.select(["l", "s"]), mode="create", temporary=True) == 3
        assert table(client, "SELECT s FROM own WHERE l = 3").to_pydict() == {"s": ["c"]}
        cursor.execute("DROP TABLE taken")


def test_metadata(client: Any) -> None:
    (catalog,) = client.adbc_get_objects(depth="all", table_name_filter="v").read_all().to_pylist()
    assert catalog["catalog_name"] == "store"
    schemas = {schema["db_schema_name"]: schema["db_schema_tables"] for schema in catalog["catalog_db_schemas"]}
    assert {"public", "nyala_catalog"} <= set(schemas)
    (found,) = schemas["public"]
    assert (found["table_name"], found["table_type"]) == ("v", "table")
    columns = sorted(found["table_columns"], key=lambda column: column["ordinal_position"])
    assert [column["column_name"] for column in columns] == NAMES
    assert [column["xdbc_type_name"] for column in columns[:7]] == [
        "int4", "int2", "int2", "int8", "float4", "float8", "numeric",
    ]  # fmt: skip
    assert [(key["constraint_type"], key["constraint_column_names"]) for key in found["table_constraints"]] == [
        ("PRIMARY KEY", ["k"])
    ]
    for schema in (None, "public"):
        assert client.adbc_get_table_schema("v", db_schema_filter=schema).names == NAMES
    assert {"table", "view"} <= set(client.adbc_get_table_types())
    assert client.adbc_get_info()["vendor_name"] == "PostgreSQL"
    with client.cursor() as cursor:
        assert cursor.adbc_execute_schema("SELECT k, name FROM v").types == [pa.int32(), pa.string()]


def test_transactions_and_errors(server: PostgresServer, client: Any) -> None:
    with postgres.connect(f"postgresql://me@{server.address}/store") as connection, connection.cursor() as cursor:
        cursor.execute("INSERT INTO v (k) VALUES (100)")
        cursor.adbc_ingest("mine", pa.table({"x": [1, 2]}), mode="create")
        assert table(client, "SELECT count(*) AS n FROM v WHERE k = 100").to_pydict() == {"n": [0]}
        connection.rollback()
        with pytest.raises(postgres.ProgrammingError) as caught:
            cursor.execute("SELECT * FROM mine")
        assert caught.value.sqlstate == "42P01"
        connection.rollback()
        cursor.execute("INSERT INTO v (k) VALUES (100)")
        connection.commit()
        with pytest.raises(postgres.Error) as caught:
            cursor.execute("INSERT INTO v (k) VALUES (100)")
        assert caught.value.sqlstate == "23505"
        connection.rollback()
        cursor.execute("DELETE FROM v WHERE k = 100")
        assert cursor.rowcount == 1
        connection.commit()
