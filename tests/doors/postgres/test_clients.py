"""Real clients: psycopg, asyncpg, pg8000, psql, SQLAlchemy and pandas, each with its own way of talking."""

from __future__ import annotations

import asyncio
import datetime
import decimal
import shutil
import subprocess
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import nyala
import pytest
from nyala.doors.postgres.server.server import PostgresServer
from postgres_support import dsn, served

psycopg = pytest.importorskip("psycopg")

SCHEMA = """
CREATE TABLE v (
    k INT PRIMARY KEY, tiny TINYINT, small SMALLINT, big BIGINT, real FLOAT, double DOUBLE, price DECIMAL(12, 3),
    wide DECIMAL(38, 5), day DATE, seen TIMESTAMP, name STRING, short VARCHAR(5), raw BINARY, is_on BOOLEAN)
"""
FULL = (
    1, -7, 300, 1 << 40, 1.5, 0.1, Decimal("-12345.678"), Decimal("123456789012345678901234567890.12345"),
    datetime.date(2024, 2, 29), datetime.datetime(1999, 12, 31, 23, 59, 59, 123456), "Zoë\t\\N", "abcde",
    b"\x00\xff'\\", True,
)  # fmt: skip
SLOW = "SELECT count(*) FROM generate_series(1, 100000) AS a(n), generate_series(1, 100000) AS b(m) WHERE n * m % 7 = 3"
EMPTY = (2, *[None] * 13)
COLUMNS = "k, tiny, small, big, real, double, price, wide, day, seen, name, short, raw, is_on"


@pytest.fixture
def server() -> Iterator[PostgresServer]:
    with nyala.connect(":memory:") as connection:
        connection.execute(SCHEMA)
        connection.execute(f"INSERT INTO v VALUES ({', '.join('?' * 14)})", FULL)
        connection.execute("INSERT INTO v (k) VALUES (2)")
        with served(connection) as found:
            yield found


# ---- psycopg ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("binary", [False, True])
def test_psycopg_reads_all_types(server: PostgresServer, binary: bool) -> None:
    with psycopg.connect(dsn(server)) as connection, connection.cursor(binary=binary) as cursor:
        cursor.execute("SELECT * FROM v ORDER BY k")
        assert cursor.fetchall() == [FULL, EMPTY]
        assert [column.type_code for column in cursor.description] == [
            23, 21, 21, 20, 700, 701, 1700, 1700, 1082, 1114, 25, 1043, 17, 16,
        ]  # fmt: skip
        assert (cursor.description[6].precision, cursor.description[6].scale) == (12, 3)
        cursor.execute("SELECT seen - day AS i FROM v WHERE k = 1 UNION ALL SELECT INTERVAL '2' DAY")
        assert all(isinstance(row[0], datetime.timedelta) for row in cursor)


@pytest.mark.parametrize("placeholder", ["%t", "%b"])
def test_psycopg_writes_all_types(server: PostgresServer, placeholder: str) -> None:
    with psycopg.connect(dsn(server)) as connection, connection.cursor() as cursor:
        marks = ", ".join([placeholder] * 14)
        cursor.execute(f"INSERT INTO v VALUES ({marks})", (3, *FULL[1:]))
        cursor.execute(f"INSERT INTO v VALUES ({marks})", (4, *EMPTY[1:]))
        assert cursor.rowcount == 1
        cursor.execute(f"SELECT * FROM v WHERE k >= {placeholder} ORDER BY k", (3,))
        assert [row[1:] for row in cursor] == [FULL[1:], EMPTY[1:]]
        for column, value in zip(COLUMNS.split(", ")[1:], FULL[1:], strict=True):
            if column != "real":
                cursor.execute(f"SELECT count(*) FROM v WHERE {column} = {placeholder}", (value,))
                assert cursor.fetchone() == (2,), column


def test_psycopg_transactions(server: PostgresServer) -> None:
    with psycopg.connect(dsn(server)) as connection:
        connection.execute("INSERT INTO v (k) VALUES (10)")
        with pytest.raises(psycopg.errors.UniqueViolation):
            connection.execute("INSERT INTO v (k) VALUES (10)")
        with pytest.raises(psycopg.errors.InFailedSqlTransaction):
            connection.execute("SELECT 1")
        connection.rollback()
        with connection.transaction():
            connection.execute("INSERT INTO v (k) VALUES (11)")
            with pytest.raises(psycopg.errors.UniqueViolation), connection.transaction():
                connection.execute("INSERT INTO v (k) VALUES (12)")
                connection.execute("INSERT INTO v (k) VALUES (11)")
        assert connection.execute("SELECT k FROM v WHERE k >= 10").fetchall() == [(11,)]


def test_psycopg_prepares_what_it_runs_often(server: PostgresServer) -> None:
    with psycopg.connect(dsn(server), autocommit=True, prepare_threshold=2) as connection:
        for number in range(100, 120):
            connection.execute("INSERT INTO v (k, name) VALUES (%s, %s)", (number, str(number)))
        found = [connection.execute("SELECT name FROM v WHERE k = %s", (k,)).fetchone() for k in range(100, 120)]
        assert found == [(str(k),) for k in range(100, 120)]
        connection.execute("ALTER TABLE v ADD COLUMN more INT")
        assert connection.execute("SELECT name FROM v WHERE k = %s", (100,)).fetchone() == ("100",)


def test_psycopg_pipelines(server: PostgresServer) -> None:
    with psycopg.connect(dsn(server), autocommit=True) as connection:
        with connection.pipeline() as pipeline:
            cursors = [connection.execute("SELECT %s::int + 1", (n,)) for n in range(50)]
            pipeline.sync()
            assert [cursor.fetchone() for cursor in cursors] == [(n + 1,) for n in range(50)]
            connection.execute("INSERT INTO v (k) VALUES (20)")
            connection.execute("INSERT INTO v (k) VALUES (21)")
            connection.execute("INSERT INTO v (k) VALUES (20)")
            with pytest.raises(psycopg.errors.UniqueViolation):
                pipeline.sync()
        assert connection.execute("SELECT count(*) FROM v WHERE k >= 20").fetchone() == (0,)


@pytest.mark.parametrize("format_", ["text", "binary", "csv"])
def test_psycopg_copies_out_and_in(server: PostgresServer, format_: str) -> None:
    with psycopg.connect(dsn(server)) as connection, connection.cursor() as cursor:
        with cursor.copy(f"COPY v TO STDOUT (FORMAT {format_})") as copy:
            data = b"".join(copy)
        cursor.execute("DELETE FROM v")
        with cursor.copy(f"COPY v FROM STDIN (FORMAT {format_})") as copy:
            for start in range(0, len(data), 7):
                copy.write(data[start : start + 7])
        assert cursor.rowcount == 2
        assert cursor.execute("SELECT * FROM v ORDER BY k").fetchall() == [FULL, EMPTY]
        connection.rollback()
        assert cursor.execute("SELECT count(*) FROM v").fetchone() == (2,)


@pytest.mark.parametrize("binary", [False, True])
def test_psycopg_copies_rows(server: PostgresServer, binary: bool) -> None:
    types = ["int4", "int2", "int2", "int8", "float4", "float8", "numeric", "numeric"]
    types += ["date", "timestamp", "text", "varchar", "bytea", "bool"]
    with psycopg.connect(dsn(server)) as connection, connection.cursor() as cursor:
        options = "(FORMAT binary)" if binary else ""
        with cursor.copy(f"COPY v ({COLUMNS}) FROM STDIN {options}") as copy:
            copy.set_types(types)
            for k in range(1000, 3000):
                copy.write_row((k, *FULL[1:]) if k % 3 else (k, *EMPTY[1:]))
        with cursor.copy(f"COPY (SELECT * FROM v WHERE k >= 1000 ORDER BY k) TO STDOUT {options}") as copy:
            copy.set_types(types)
            found = list(copy.rows())
        assert found == [(k, *FULL[1:]) if k % 3 else (k, *EMPTY[1:]) for k in range(1000, 3000)]


def test_psycopg_cancels(server: PostgresServer) -> None:
    with psycopg.connect(dsn(server), autocommit=True) as connection:
        connection.execute("SET statement_timeout = '50ms'")
        with pytest.raises(psycopg.errors.QueryCanceled):
            connection.execute(SLOW)
        assert connection.execute("SHOW statement_timeout").fetchone() == ("50ms",)


def test_psycopg_streams(server: PostgresServer) -> None:
    with psycopg.connect(dsn(server)) as connection, connection.cursor() as cursor:
        total = sum(n for (n,) in cursor.stream("SELECT n FROM generate_series(1, 5000) AS g(n)"))
        assert total == 5000 * 5001 // 2


def test_psycopg_in_asyncio(server: PostgresServer) -> None:
    async def run() -> None:
        async with await psycopg.AsyncConnection.connect(dsn(server)) as connection:
            cursor = await connection.execute("SELECT name FROM v WHERE k = %s", (1,))
            assert await cursor.fetchone() == (FULL[10],)
            async with connection.cursor() as other, other.copy("COPY v (k) FROM STDIN") as copy:
                await copy.write("70\n71\n")
            cursor = await connection.execute("SELECT count(*) FROM v WHERE k >= 70")
            assert await cursor.fetchone() == (2,)

    asyncio.run(run())


def test_errors_have_their_place_and_state(server: PostgresServer) -> None:
    with psycopg.connect(dsn(server), autocommit=True) as connection:
        for statement, state, position in (
            ("SELECT nope FROM v", "42703", "8"),
            ("SELECT * FROM nowhere", "42P01", "15"),
            ("SELECT 1 +", "42601", "11"),
            ("SELECT CAST('x' AS INT)", "22P02", "8"),
            ("INSERT INTO v (k) VALUES (NULL)", "23502", None),
        ):
            with pytest.raises(psycopg.Error) as caught:
                connection.execute(statement)
            assert caught.value.diag.sqlstate == state, statement
            assert caught.value.diag.statement_position == position, statement


# ---- asyncpg ---------------------------------------------------------------------------------------------------------


def test_asyncpg(server: PostgresServer) -> None:
    asyncpg = pytest.importorskip("asyncpg")

    async def run() -> None:
        connection = await asyncpg.connect(host="127.0.0.1", port=server.port, user="me", database="store", ssl=False)
        try:
            assert [tuple(row) for row in await connection.fetch("SELECT * FROM v ORDER BY k")] == [FULL, EMPTY]
            marks = ", ".join(f"${n}" for n in range(1, 15))
            await connection.execute(f"INSERT INTO v VALUES ({marks})", 3, *FULL[1:])
            await connection.executemany(f"INSERT INTO v VALUES ({marks})", [(k, *EMPTY[1:]) for k in range(4, 14)])
            assert await connection.fetchval("SELECT count(*) FROM v WHERE k = $1 OR price = $2", 4, FULL[6]) == 3
            async with connection.transaction():
                found = [row["k"] async for row in connection.cursor("SELECT k FROM v ORDER BY k", prefetch=3)]
                many = connection.cursor("SELECT n FROM generate_series(1, 140000) AS g(n)", prefetch=997)
                numbers = [row["n"] async for row in many]
            assert found == list(range(1, 14)) and numbers == list(range(1, 140_001))
            with pytest.raises(asyncpg.UniqueViolationError):
                async with connection.transaction():
                    await connection.execute("INSERT INTO v (k) VALUES (50)")
                    await connection.execute("INSERT INTO v (k) VALUES (50)")
            records = [(k, float(k), decimal.Decimal(k) / 8) for k in range(100, 200)]
            await connection.copy_records_to_table("v", records=records, columns=["k", "double", "price"])
            assert await connection.fetchval("SELECT sum(price) FROM v WHERE k >= 100") == sum(r[2] for r in records)
            out: list[bytes] = []

            async def keep(data: bytes) -> None:
                out.append(data)

            await connection.copy_from_query("SELECT k FROM v WHERE k < 4 ORDER BY k", output=keep)
            assert b"".join(out) == b"1\n2\n3\n"
            with pytest.raises(asyncio.TimeoutError):
                await connection.fetch(
                    "SELECT count(*) FROM generate_series(1, 100000) AS a(n), generate_series(1, 100000) AS b(m) "
                    "WHERE n * m % 7 = 3",
                    timeout=0.2,
                )
            assert await connection.fetchval("SELECT 1") == 1
        finally:
            await connection.close()

    asyncio.run(run())


# ---- pg8000 ----------------------------------------------------------------------------------------------------------


def test_pg8000(server: PostgresServer) -> None:
    dbapi = pytest.importorskip("pg8000.dbapi")
    connection = dbapi.connect(user="me", host="127.0.0.1", port=server.port, database="store")
    try:
        cursor = connection.cursor()
        cursor.execute("SELECT * FROM v ORDER BY k")
        assert [tuple(row) for row in cursor.fetchall()] == [FULL, EMPTY]
        cursor.execute(f"INSERT INTO v VALUES ({', '.join(['%s'] * 14)})", (3, *FULL[1:]))
        cursor.execute("SELECT name FROM v WHERE k = %s AND price = %s", (3, FULL[6]))
        assert cursor.fetchall() == ([FULL[10]],)
        connection.rollback()
        cursor.execute("SELECT count(*) FROM v")
        assert cursor.fetchone() == [2]
        with pytest.raises(dbapi.DatabaseError):
            cursor.execute("SELECT nope")
        connection.rollback()
    finally:
        connection.close()


# ---- psql ------------------------------------------------------------------------------------------------------------

needs_psql = pytest.mark.skipif(shutil.which("psql") is None, reason="needs psql: apt-get install postgresql-client")


def psql(server: PostgresServer, *arguments: str, stdin: str | None = None, **settings: str) -> str:
    environment = {"PATH": "/usr/bin:/bin:/usr/local/bin", "PGCONNECT_TIMEOUT": "60", "LC_ALL": "C", **settings}
    done = subprocess.run(
        ["psql", "-X", "-h", "127.0.0.1", "-p", str(server.port), "-U", "me", "store", *arguments],
        input=stdin, capture_output=True, text=True, timeout=120, env=environment, check=False,
    )  # fmt: skip
    return done.stdout + done.stderr


@needs_psql
def test_psql(server: PostgresServer, tmp_path: Path) -> None:
    assert psql(server, "-c", "SELECT k, price, name IS NULL AS n FROM v ORDER BY k") == (
        " k |   price    | n \n---+------------+---\n 1 | -12345.678 | f\n 2 |            | t\n(2 rows)\n\n"
    )
    script = (
        "BEGIN;\nINSERT INTO v (k) VALUES (3);\nINSERT INTO v (k) VALUES (3);\nINSERT INTO v (k) VALUES (4);\nCOMMIT;\n"
    )
    out = psql(server, "-q", stdin=script + "SELECT count(*) FROM v;\n")
    assert "already" in out and "aborted" in out and " 2\n" in out
    file = tmp_path / "rows.csv"
    file.write_text("k,name\n5,five\n6,\n")
    assert psql(server, "-c", f"\\copy v (k, name) FROM '{file}' WITH (FORMAT csv, HEADER)") == "COPY 2\n"
    assert (
        psql(server, "-At", "-c", "\\copy (SELECT k, name FROM v WHERE k > 2 ORDER BY k) TO STDOUT")
        == "5\tfive\n6\t\\N\n"
    )
    assert psql(
        server, "-At", stdin="COPY v (k) FROM STDIN;\n7\n8\n\\.\nSELECT k FROM v WHERE k > 6 ORDER BY k;\n"
    ) == ("COPY 2\n7\n8\n")
    out = psql(server, "-c", "SELECT nope\nFROM v")
    assert "ERROR:  column nope does not exist" in out and "LINE 1: SELECT nope" in out and "        ^" in out
    assert "1.5" in psql(server, "-x", "-c", "SELECT * FROM v WHERE k = 1")


@needs_psql
def test_psql_with_a_password(tmp_path: Path) -> None:
    with served(password="päss") as server:
        assert psql(server, "-Atc", "SELECT 42", PGPASSWORD="päss") == "42\n"
        assert "password authentication failed" in psql(server, "-Atc", "SELECT 42", PGPASSWORD="pass")


def test_tables_as_clients_of_postgresql_create_them(server: PostgresServer) -> None:
    with psycopg.connect(dsn(server), autocommit=True) as connection:
        connection.execute("CREATE TABLE loose (n numeric, at timestamptz, d numeric(5, 1))")
        connection.execute("INSERT INTO loose VALUES (%s, %s, 1), (%s, %s, 1)", (Decimal("1.5"), None) * 2)
        connection.execute("CREATE TEMPORARY TABLE own AS SELECT n FROM loose")
        assert connection.execute("SELECT * FROM loose").fetchall() == [(Decimal("1.5"), None, 1)] * 2
        assert connection.execute("SELECT * FROM own").fetchall() == [(Decimal("1.5"),)] * 2
        assert connection.execute("SELECT round(2::numeric / 3, 2), current_database()").fetchone() == (
            Decimal("0.67"),
            "store",
        )
        assert connection.execute("SELECT count(*) FROM store.public.loose").fetchone() == (2,)
        found = connection.execute("""SELECT '"public" . "loose"'::regclass = 'loose'::regclass""").fetchone()
        assert found == (True,)
        connection.execute("TRUNCATE TABLE ONLY loose")
        assert connection.execute("SELECT count(*) FROM loose").fetchone() == (0,)


def test_parameters_without_a_type_get_that_of_their_context(server: PostgresServer) -> None:
    with psycopg.connect(dsn(server), autocommit=True) as connection, connection.cursor() as cursor:
        for key in range(10, 14):  # as texts: psycopg gives no type to a text
            cursor.execute(
                "INSERT INTO v (k, big, price, day, seen, is_on) VALUES (%s,%s,%s,%s,%s,%s)",
                (str(key), "7", "1.5", "2024-02-29 +01", "2024-01-01 10:00:00+02", "t"),
                prepare=True,
            )
            cursor.execute("UPDATE v SET big = big + %s WHERE k = %s", ("5", str(key)), prepare=True)
        cursor.execute("SELECT big, price, day, seen, is_on FROM v WHERE k = %s", ("12",), prepare=True)
        day, seen = datetime.date(2024, 2, 29), datetime.datetime(2024, 1, 1, 8)
        assert cursor.fetchall() == [(12, Decimal("1.5"), day, seen, True)]
        with pytest.raises(psycopg.errors.InvalidTextRepresentation):
            cursor.execute("SELECT 1 FROM v WHERE k = %s", ("twelve",))
        cursor.execute("SELECT k FROM v ORDER BY k LIMIT %s", ("1",))
        assert cursor.fetchall() == [(1,)]


# ---- SQLAlchemy, pandas ----------------------------------------------------------------------------------------------


def test_sqlalchemy_and_pandas(server: PostgresServer) -> None:
    sqlalchemy: Any = pytest.importorskip("sqlalchemy")
    pandas: Any = pytest.importorskip("pandas")
    url = f"postgresql+psycopg://me@127.0.0.1:{server.port}/store"
    engine = sqlalchemy.create_engine(url)
    try:
        with engine.begin() as connection:
            statement = sqlalchemy.text("SELECT k, name FROM v WHERE k = :k")
            assert connection.execute(statement, {"k": 1}).one() == (1, FULL[10])
            connection.execute(
                sqlalchemy.text("INSERT INTO v (k, price) VALUES (:k, :p)"), [{"k": 3, "p": 1}, {"k": 4, "p": 2}]
            )
        frame = pandas.read_sql(sqlalchemy.text("SELECT k, double, day FROM v WHERE k < 3 ORDER BY k"), engine)
        assert frame["k"].tolist() == [1, 2]
        assert frame["double"][0] == 0.1
        with pytest.raises(sqlalchemy.exc.IntegrityError), engine.begin() as connection:
            connection.execute(sqlalchemy.text("INSERT INTO v (k) VALUES (1)"))
    finally:
        engine.dispose()
