"""Real clients that read the system catalogs: arrays and oids in both formats, named cursors, reflection, psql."""

from __future__ import annotations

import asyncio
import os
import pty
import re
import select
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import nyala
import pytest
from nyala.doors.postgres.server.server import PostgresServer
from nyala.doors.postgres.values.arrays import array_from_bytes, array_to_bytes
from nyala.errors import InvalidText
from postgres_support import dsn, served

psycopg = pytest.importorskip("psycopg")
CONSTRAINTS = "SELECT oid, conname, conkey FROM pg_constraint ORDER BY conname"


@pytest.fixture
def server() -> Iterator[PostgresServer]:
    with nyala.connect(":memory:") as connection:
        connection.execute("CREATE TABLE t (k INT, j BIGINT, v VARCHAR(9) COMMENT 'words', PRIMARY KEY (k, j))")
        connection.execute("CREATE VIEW w AS SELECT v FROM t")
        connection.execute("INSERT INTO t SELECT n, n, 'v' FROM generate_series(1, 20) AS s (n)")
        with served(connection) as found:
            yield found


@pytest.mark.parametrize(
    ("text", "oid"),
    [
        ("{}", 23),
        ("{1,-2,NULL}", 23),
        ("{300}", 21),
        ("{4000000000}", 26),
        ('{a,"b c",NULL,""}', 25),
        ("{true,false}", 16),
    ],
)
def test_arrays_in_binary(text: str, oid: int) -> None:
    assert array_from_bytes(array_to_bytes(text, oid), oid) == text


def test_other_bytes_are_no_array() -> None:
    good = array_to_bytes("{1,2}", 23)
    for data in (b"", good[:-1], good[:20], good[:13], b"\0\0\0\2" + good[4:]):
        with pytest.raises(InvalidText):
            array_from_bytes(data, 23)
    with pytest.raises(InvalidText):
        array_from_bytes(good, 21)


@pytest.mark.parametrize("binary", [False, True])
def test_psycopg_reads_oids_and_arrays(server: PostgresServer, binary: bool) -> None:
    with psycopg.connect(dsn(server)) as connection, connection.cursor(binary=binary) as cursor:
        assert cursor.execute(CONSTRAINTS).fetchall() == [(16396, "t_pkey", [1, 2])]
        assert [column.type_code for column in cursor.description] == [26, 19, 1005]
        found = cursor.execute(
            "SELECT attname FROM pg_attribute WHERE attnum = ANY (%s) AND attrelid = %s", ([1, 3], 16392)
        )
        assert sorted(found.fetchall()) == [("k",), ("v",)]
        assert cursor.execute("SELECT current_user, pg_backend_pid()").fetchone()[1] == connection.info.backend_pid


def test_psycopg_reads_by_named_cursors(server: PostgresServer) -> None:
    with psycopg.connect(dsn(server)) as connection:
        with connection.cursor(name="forward") as cursor:
            cursor.itersize = 6
            cursor.execute("SELECT k FROM t ORDER BY k")
            assert [row[0] for row in cursor] == list(range(1, 21))
        with connection.cursor(name="any way", scrollable=True) as cursor:
            cursor.execute("SELECT k FROM t ORDER BY k")
            cursor.scroll(5)
            assert cursor.fetchmany(2) == [(6,), (7,)]
            cursor.scroll(-3)
            assert cursor.fetchone() == (5,)
        connection.execute("PREPARE one AS SELECT v FROM t WHERE k = $1 AND j = $1")
        assert connection.execute("EXECUTE one (3)").fetchall() == [("v",)]
        connection.execute("DEALLOCATE one")
        with pytest.raises(psycopg.errors.InvalidSqlStatementName):
            connection.execute("EXECUTE one (3)")


def test_asyncpg_introspects_types(server: PostgresServer) -> None:
    asyncpg = pytest.importorskip("asyncpg")

    async def talk() -> tuple[object, object]:
        connection = await asyncpg.connect(host="127.0.0.1", port=server.port, user="me")
        try:
            keys = [tuple(row) for row in await connection.fetch(CONSTRAINTS)]
            names = await connection.fetch("SELECT relname FROM pg_class WHERE oid = ANY ($1::oid[])", [16392, 1259])
            return keys, sorted(row["relname"] for row in names)
        finally:
            await connection.close()

    assert asyncio.run(talk()) == ([(16396, "t_pkey", [1, 2])], ["pg_class", "t"])


def test_sqlalchemy_reflects_with_its_own_dialect(server: PostgresServer) -> None:
    sqlalchemy = pytest.importorskip("sqlalchemy")
    engine = sqlalchemy.create_engine("postgresql+psycopg://", creator=lambda: psycopg.connect(dsn(server)))
    inspector = sqlalchemy.inspect(engine)
    assert inspector.get_table_names() == ["t"] and inspector.get_view_names() == ["w"]
    columns = [(c["name"], str(c["type"]), c["nullable"], c["comment"]) for c in inspector.get_columns("t")]
    assert columns == [
        ("k", "INTEGER", False, None), ("j", "BIGINT", False, None), ("v", "VARCHAR(9)", True, "words")
    ]  # fmt: skip
    assert inspector.get_pk_constraint("t")["constrained_columns"] == ["k", "j"]
    assert inspector.get_foreign_keys("t") == inspector.get_indexes("t") == []
    metadata = sqlalchemy.MetaData()
    metadata.reflect(engine, views=True)
    assert sorted(metadata.tables) == ["t", "w"]
    engine.dispose()


@pytest.mark.skipif(shutil.which("psql") is None, reason="psql is not installed")
def test_psql_describes(server: PostgresServer) -> None:
    def psql(command: str) -> list[str]:
        words = ["psql", "-X", "-At", "-F", "|", "-c", command, dsn(server)]
        return subprocess.run(words, capture_output=True, text=True, check=True, timeout=60).stdout.splitlines()

    assert [line.split("|")[:3] for line in psql("\\d")] == [["public", "t", "table"], ["public", "w", "view"]]
    assert psql("\\d t")[:3] == ["k|integer||not null|", "j|bigint||not null|", "v|character varying(9)|||"]
    assert psql("\\sv w") == ["CREATE OR REPLACE VIEW public.w AS", "SELECT v FROM t"]
    assert len(psql("\\l")) == len(psql("\\du")) == 1
    assert [line.split("|")[0] for line in psql("\\dn")] == ["nyala_catalog", "public"]
    assert psql("\\df") == []


# ---- schemas ---------------------------------------------------------------------------------------------------------

SCHEMAS = """
CREATE TABLE t (k INT PRIMARY KEY);
CREATE SCHEMA other;
CREATE TABLE other.t (k INT PRIMARY KEY, v VARCHAR(9));
INSERT INTO other.t VALUES (1, 'a');
CREATE TABLE other."Odd t" (k INT PRIMARY KEY);
CREATE VIEW other.w AS SELECT v FROM other.t
"""
needs_psql = pytest.mark.skipif(shutil.which("psql") is None, reason="psql is not installed")


@pytest.fixture
def schemas() -> Iterator[PostgresServer]:
    with nyala.connect(":memory:") as connection:
        connection.execute(SCHEMAS)
        with served(connection) as found:
            yield found


def said(server: PostgresServer, *commands: str) -> list[list[str]]:
    """The lines that psql prints for commands of one session, in fields."""
    words = ["psql", "-X", "-Atq", "-F", "|", *(word for command in commands for word in ("-c", command)), dsn(server)]
    out = subprocess.run(words, capture_output=True, text=True, check=True, timeout=120).stdout
    return [line.split("|") for line in out.splitlines()]


@needs_psql
def test_psql_shows_other_schemas(schemas: PostgresServer) -> None:
    found = said(schemas, "\\dn", "\\echo", "\\dt *.*", "\\echo", "\\dt other.*", "\\echo", "\\d other.t")
    names, all_tables, of_other, columns = "\n".join("|".join(line[:3]) for line in found).split("\n\n")
    assert [line.split("|")[0] for line in names.splitlines()] == ["nyala_catalog", "other", "public"]
    ours = [line for line in all_tables.splitlines() if not line.startswith("pg_catalog")]
    assert ours == ["other|Odd t|table", "other|t|table", "public|t|table"]
    assert of_other.splitlines() == ours[:2]
    assert columns.splitlines()[:2] == ["k|integer|", "v|character varying(9)|"]
    assert [line[:3] for line in said(schemas, "\\dv other.*")] == [["other", "w", "view"]]
    assert said(schemas, "\\sv other.w") == [["CREATE OR REPLACE VIEW other.w AS"], ["SELECT v FROM other.t"]]
    # What is not on the path is not listed without its schema; what is, is, and temporary tables come first.
    assert [line[:2] for line in said(schemas, "\\d")] == [["public", "t"]]
    path = "SET search_path TO other, public"
    shown = [line[:2] for line in said(schemas, path, "\\d", "\\dv", "SHOW search_path", "SELECT * FROM t")]
    assert shown == [["other", "Odd t"], ["other", "t"], ["other", "w"], ["other", "w"], ["other, public"], ["1", "a"]]
    temporary = said(schemas, "CREATE TEMPORARY TABLE t (own INT PRIMARY KEY)", "\\d", "\\d t", "\\d public.t")
    assert [line[:2] for line in temporary[:1]] == [["pg_temp", "t"]]
    assert [line[0] for line in temporary[1:] if line[1:2] == ["integer"]] == ["own", "k"]


@needs_psql
def test_psql_copies_tables_of_other_schemas_and_completes_their_names(schemas: PostgresServer, tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text("7,x\n")
    copied = f"\\copy other.t FROM '{tmp_path}/rows.csv' WITH (FORMAT csv)"
    assert said(schemas, copied, "\\copy other.t TO STDOUT", '\\copy other."Odd t" TO STDOUT') == [["1\ta"], ["7\tx"]]
    parent, child = pty.openpty()
    settings = {"TERM": "dumb", "PAGER": "", "LC_ALL": "C", "HOME": str(tmp_path), "PATH": "/usr/bin:/bin"}
    process = subprocess.Popen(
        ["psql", "-X", "-q", dsn(schemas)], stdin=child, stdout=child, stderr=child, env=settings
    )
    os.close(child)
    try:
        seen = ""
        for keys, expected in (
            (b"", "=[>#] "),
            (b"\\copy ot\t", r"other\."),
            (b"t\t", r"t "),
            (b"TO STDOUT\n", "x\r\n"),
        ):
            os.write(parent, keys)
            seen, since = "", seen
            while not re.search(expected, seen):
                ready, _, _ = select.select([parent], [], [], 60)
                assert ready, f"no {expected} behind {since + seen}"
                seen += os.read(parent, 4096).decode()
    finally:
        process.kill()
        process.wait()
        os.close(parent)


def test_copy_writes_into_the_schema_that_it_names(schemas: PostgresServer) -> None:
    with psycopg.connect(dsn(schemas)) as connection, connection.cursor() as cursor:
        with cursor.copy("COPY other.t (k, v) FROM STDIN") as copy:
            copy.write_row((2, "b"))
        with cursor.copy("COPY other.t FROM STDIN (FORMAT binary)") as copy:
            copy.set_types(["int4", "varchar"])
            copy.write_row((3, "c"))
        with cursor.copy('COPY other."Odd t" FROM STDIN') as copy:
            copy.write_row((9,))
        # Tables of the same name that come earlier on the path get nothing.
        cursor.execute("SET search_path TO other")
        with cursor.copy("COPY public.t FROM STDIN") as copy:
            copy.write_row((10,))
        cursor.execute("CREATE TEMPORARY TABLE t (k INT PRIMARY KEY, own INT)")
        for options in ("", "(FORMAT csv)"):
            with cursor.copy(f"COPY public.t FROM STDIN {options}") as copy:
                copy.write("11\n" if options else "12\n")
        with cursor.copy("COPY t (k) FROM STDIN") as copy:
            copy.write_row((13,))
        with cursor.copy("COPY other.t TO STDOUT") as copy:
            assert sorted(copy.rows()) == [("1", "a"), ("2", "b"), ("3", "c")]
        found = "SELECT k FROM {} ORDER BY k"
        for name, keys in (("public.t", [10, 11, 12]), ("t", [13]), ('other."Odd t"', [9])):
            assert [row[0] for row in cursor.execute(found.format(name))] == keys


def test_a_prepared_statement_follows_the_search_path(schemas: PostgresServer) -> None:
    with psycopg.connect(dsn(schemas), autocommit=True) as connection:
        text = "SELECT * FROM t WHERE k = %s"
        assert connection.execute(text, (1,), prepare=True).fetchall() == []
        connection.execute("SET search_path TO other, public")
        assert connection.execute("SELECT k, v FROM t WHERE k = %s", (1,), prepare=True).fetchall() == [(1, "a")]
