"""Many rows by real clients: the values are those of the process itself, and COPY loads all rows or none."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from decimal import Decimal
from typing import Any
from unittest import mock

import nyala
import psycopg
import pyarrow as pa
import pytest
from examples import examples
from hypothesis import given, settings
from nyala.doors.postgres.server.server import PostgresServer
from nyala.doors.postgres.values import copy_binary
from nyala.doors.postgres.values.copy_binary import HEADER, TRAILER
from nyala.driver.connection import Connection
from nyala.model.types import DataType
from postgres_rows_support import COLUMN_TYPES, tables
from postgres_support import dsn, served

adbc = pytest.importorskip("adbc_driver_postgresql.dbapi")
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def store() -> Iterator[Connection]:
    with nyala.connect(":memory:") as connection:
        yield connection


@pytest.fixture(scope="module")
def server(store: Connection) -> Iterator[PostgresServer]:
    with served(store) as found:
        yield found


@pytest.fixture(scope="module")
def client(server: PostgresServer) -> Iterator[psycopg.Connection[Any]]:
    with psycopg.connect(dsn(server), autocommit=True) as connection:
        yield connection


@pytest.fixture(scope="module")
def arrow_client(server: PostgresServer) -> Iterator[Any]:
    with adbc.connect(f"postgresql://me@{server.address}/store", autocommit=True) as connection:
        yield connection


# ---- values ----------------------------------------------------------------------------------------------------------


def same(ours: Any, theirs: Any) -> bool:
    """True for equal values of one kind; NaN is equal to itself, and a number that a client has as text to its text."""
    if isinstance(ours, Decimal) and isinstance(theirs, str):
        theirs = Decimal(theirs)
    if ours != ours and theirs != theirs:
        return True
    return bool(ours == theirs) and (type(ours) is type(theirs) or isinstance(ours, tuple))


@settings(max_examples=examples(30))
@given(table=tables(COLUMN_TYPES))
def test_all_values_arrive(
    store: Connection,
    client: psycopg.Connection[Any],
    arrow_client: Any,
    table: tuple[list[DataType], pa.RecordBatch],
) -> None:
    types, batch = table
    store.execute("DROP TABLE IF EXISTS v")
    columns = "".join(f", c{i} {type_}" for i, type_ in enumerate(types))
    store.execute(f"CREATE TABLE v (k INT PRIMARY KEY{columns})")
    keys = pa.array(range(batch.num_rows), pa.int32())
    names = ["k", *batch.schema.names]
    store.load("v", pa.RecordBatch.from_arrays([keys, *batch.columns], names=names))
    expected = store.execute("SELECT * FROM v ORDER BY k").arrow().to_pydict()
    with arrow_client.cursor() as cursor:
        cursor.execute("SELECT * FROM v ORDER BY k")
        found = cursor.fetch_arrow_table().to_pydict()
    for name, values in expected.items():
        assert len(found[name]) == len(values)
        assert all(map(same, values, found[name])), name
    rows = client.execute("SELECT * FROM v ORDER BY k", binary=True).fetchall()
    for place, (name, values) in enumerate(expected.items()):
        assert all(map(same, values, [row[place] for row in rows])), name


def test_special_values_and_empty_results(
    store: Connection, client: psycopg.Connection[Any], arrow_client: Any
) -> None:
    sql = """
        SELECT CAST('NaN' AS DOUBLE) AS a, CAST('-Infinity' AS FLOAT) AS b,
               CAST('-99999999999999999999999999999999999999' AS DECIMAL(38, 0)) AS c,
               CAST('0.00000000000000000000000000000000000001' AS DECIMAL(38, 38)) AS d,
               CAST(NULL AS DATE) AS e, DATE '0001-01-01' AS f, TIMESTAMP '9999-12-31 23:59:59.999999' AS g, '' AS h
        FROM generate_series(1, {}) AS s(n)
    """
    names = list("abcdefgh")
    expected = [None, float("-inf"), Decimal("-" + 38 * "9"), Decimal("1E-38"), None, datetime.date(1, 1, 1)]
    expected += [datetime.datetime(9999, 12, 31, 23, 59, 59, 999999), ""]
    with arrow_client.cursor() as cursor:
        for rows in (0, 1, 70_000):
            ours = client.execute(sql.format(rows), binary=True).fetchall()
            cursor.execute(sql.format(rows))
            theirs = cursor.fetch_arrow_table()
            assert (len(ours), theirs.num_rows, theirs.schema.names) == (rows, rows, names)
            for row in (ours[-1:], [tuple(theirs.slice(rows - 1).to_pylist()[0].values())] if rows else []):
                for values in row:
                    assert values[0] != values[0]
                    assert all(map(same, expected[1:], values[1:]))


# ---- COPY FROM STDIN -------------------------------------------------------------------------------------------------


def row(key: int, text: bytes) -> bytes:
    """A row of two columns, as binary COPY has it."""
    return b"\0\2\0\0\0\4" + key.to_bytes(4, "big") + len(text).to_bytes(4, "big") + text


@pytest.fixture
def table(store: Connection) -> Iterator[None]:
    store.execute("CREATE TABLE loaded (k INT PRIMARY KEY, name VARCHAR(8))")
    yield
    store.execute("DROP TABLE loaded")


def copied(client: psycopg.Connection[Any], *pieces: bytes) -> int:
    """Rows that the table has after COPY of these pieces."""
    with client.cursor() as cursor:
        try:
            with cursor.copy("COPY loaded FROM STDIN (FORMAT binary)") as copy:
                for piece in pieces:
                    copy.write(piece)
        finally:
            ((rows,),) = client.execute("SELECT count(*) FROM loaded").fetchall()
    return int(rows)


@pytest.mark.usefixtures("table")
def test_blocks_are_kept_in_a_file_until_the_end(store: Connection, client: psycopg.Connection[Any]) -> None:
    data = HEADER + b"".join(row(key, b"%d" % key) for key in range(500)) + TRAILER
    with mock.patch.object(copy_binary, "BLOCK_BYTES", 300):
        assert copied(client, *(data[place : place + 100] for place in range(0, len(data), 100))) == 500
    assert store.execute("SELECT k, name FROM loaded ORDER BY k").fetchall() == [(k, str(k)) for k in range(500)]
    assert copied(client, HEADER + row(1000, b"x") * 1) == 501  # without a trailer
    assert copied(client, HEADER + TRAILER + b"what follows is ignored") == 501


@pytest.mark.usefixtures("table")
@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (b"\0\3" + row(1, b"")[2:], "row 401: 2 fields expected, 3 found"),
        (b"\0\2\0\0\0\3" + bytes(3), "row 401: a field has a length"),
        (row(1, b"\xff\xfe"), "row 401, column name: the text is not UTF-8"),
        (row(1, b"abc")[:-1], "ends in the middle of row 401"),
        (row(1, b"nine chars"), "name"),
        (row(0, b"twice"), "key"),
    ],
    ids=["fields", "length", "text", "end", "long", "key"],
)
@pytest.mark.parametrize("block", [256, 4 << 20])
def test_malformed_data_is_refused_whole(
    store: Connection, client: psycopg.Connection[Any], bad: bytes, message: str, block: int
) -> None:
    good = [row(key, b"n") for key in range(400)]
    end = b"" if "middle" in message else b"".join(row(key, b"n") for key in range(1000, 1050)) + TRAILER
    with mock.patch.object(copy_binary, "BLOCK_BYTES", block), pytest.raises(psycopg.Error, match=message):
        copied(client, HEADER, *good, bad, end)
    assert store.execute("SELECT count(*) FROM loaded").fetchall() == [(0,)]
    assert copied(client, HEADER, *good, TRAILER) == 400  # the connection is in order


@pytest.mark.usefixtures("table")
def test_a_client_that_gives_up_loads_nothing(client: psycopg.Connection[Any]) -> None:
    with (
        mock.patch.object(copy_binary, "BLOCK_BYTES", 64),
        pytest.raises(InterruptedError),
        client.cursor() as cursor,
        cursor.copy("COPY loaded FROM STDIN (FORMAT binary)") as copy,
    ):
        copy.write(HEADER + b"".join(row(key, b"n") for key in range(100)))
        raise InterruptedError("psycopg sends CopyFail")
    assert copied(client, HEADER, TRAILER) == 0
