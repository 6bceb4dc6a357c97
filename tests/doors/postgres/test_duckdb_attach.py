"""DuckDB's extension `postgres`: a store as an attached database.

The extension exists for some versions of DuckDB only, so a process of its own imports that version.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nyala
import pytest
from nyala.doors.postgres.server.server import PostgresServer
from pip_support import packages
from postgres_support import dsn, served

pytestmark = pytest.mark.slow
VERSION = "1.5.5"
PROGRAM = """
import glob, json, sys
import duckdb

folder, address = sys.argv[1:]
client = duckdb.connect(config={"allow_unsigned_extensions": "true"})
(extension,) = glob.glob(f"{folder}/duckdb_extension_postgres_scanner/extensions/*/*.duckdb_extension")
client.execute(f"LOAD '{extension}'")
client.execute("SET pg_use_ctid_scan = false")
client.execute(f"ATTACH '{address}' AS p (TYPE postgres)")
for statement in sys.stdin.read().split(";"):
    try:
        print(json.dumps(client.execute(statement).fetchall(), default=str))
    except Exception as error:
        print(json.dumps(str(error)))
"""


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    with nyala.connect(":memory:") as connection:
        connection.execute("CREATE TABLE acc (aid INT PRIMARY KEY, bid INT NOT NULL, balance BIGINT, filler STRING)")
        connection.execute("INSERT INTO acc SELECT n, n % 10, n * 2, 'x' FROM generate_series(1, 10000) AS g(n)")
        with served(connection) as found:
            yield found


def run(server: PostgresServer, *statements: str) -> list[Any]:
    """The rows of each statement in DuckDB, or the text of its error."""
    folder = packages(f"duckdb=={VERSION}", f"duckdb-extension-postgres-scanner=={VERSION}")
    command = [sys.executable, "-c", PROGRAM, str(folder), dsn(server)]
    environment = {**os.environ, "PYTHONPATH": str(Path(folder))}
    done = subprocess.run(
        command, input=";".join(statements), capture_output=True, text=True, env=environment, timeout=240, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_duckdb_reads(server: PostgresServer) -> None:
    assert run(
        server,
        "SELECT table_name FROM duckdb_tables() WHERE database_name = 'p' AND schema_name = 'public'",
        "SELECT count(*), sum(balance)::BIGINT FROM p.acc",
        "SELECT * FROM p.public.acc WHERE aid = 7 AND filler = 'x'",
        "SELECT a.bid, count(*) FROM p.acc AS a JOIN range(3) AS r(n) ON a.bid = r.n GROUP BY a.bid ORDER BY a.bid",
        "SELECT * FROM postgres_query('p', 'SELECT max(aid) FROM acc')",
    ) == [
        [["acc"]],
        [[10000, 100010000]],
        [[7, 7, 14, "x"]],
        [[0, 1000], [1, 1000], [2, 1000]],
        [[10000]],
    ]


def test_duckdb_writes(server: PostgresServer) -> None:
    found = run(
        server,
        "CREATE TABLE p.made AS SELECT n AS k, n * 1.5 AS d, 'x' || n AS s, DATE '2024-01-01' AS day, "
        "TIMESTAMP '2024-01-01 00:00:01' AS seen, n % 2 = 0 AS even FROM range(1000) AS t(n)",
        "SELECT count(*), sum(d), max(day), max(seen), count(*) FILTER (even) FROM p.made",
        "INSERT INTO p.made VALUES (5000, 1.5, 'y', NULL, NULL, NULL)",
        "SELECT * FROM p.made WHERE k = 5000",
        "BEGIN",
        "INSERT INTO p.acc VALUES (20000, 1, 5, 'duck')",
        "ROLLBACK",
        "SELECT count(*) FROM p.acc WHERE aid = 20000",
        "CREATE SCHEMA p.other",
        "CREATE TABLE p.other.t (i INTEGER PRIMARY KEY, j DECIMAL(5, 2))",
        "INSERT INTO p.other.t SELECT i, i FROM range(5) AS r(i)",
        "SELECT sum(j) FROM p.other.t",
        "CREATE VIEW p.other.w AS SELECT 1 AS a",
        "SELECT * FROM p.other.w",
        "DROP SCHEMA p.other CASCADE",
        "DROP TABLE p.made",
        "CALL postgres_execute('p', 'UPDATE acc SET balance = 0 WHERE aid = 1')",
        "SELECT balance FROM p.acc WHERE aid = 1",
        "CALL postgres_execute('p', 'UPDATE acc SET balance = 2 WHERE aid = 1')",
    )
    assert [rows for rows in found if rows] == [
        [[1000]],
        [[1000, "749250.0", "2024-01-01", "2024-01-01 00:00:01", 500]],
        [[1]],
        [[5000, "1.5", "y", None, None, None]],
        [[1]],
        [[0]],
        [[5]],
        [["10.00"]],
        [[1]],
        [[0]],
    ]


def test_rows_have_no_place(server: PostgresServer) -> None:
    (error,) = run(server, "UPDATE p.acc SET balance = 1 WHERE aid = 2")
    assert "column ctid does not exist" in error
