"""Real clients that read the system catalogs: arrays and oids in both formats, named cursors, reflection, psql."""

from __future__ import annotations

import asyncio
import shutil
import subprocess
from collections.abc import Iterator

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
