"""pgbench, with scripts of its own: all three ways of sending statements, eight clients."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import nyala
import pytest
from nyala.bench.postgres import binaries, is_installed
from nyala.doors.postgres.server.server import PostgresServer
from postgres_support import served

pytestmark = pytest.mark.slow
ROWS, CLIENTS, EACH = 1000, 8, 25
READ = r"""
\set aid random(1, 1000)
SELECT balance FROM accounts WHERE aid = :aid;
"""
WRITE = r"""
\set aid random(1, 1000)
\set delta random(-5000, 5000)
BEGIN;
UPDATE accounts SET balance = balance + :delta WHERE aid = :aid;
SELECT balance FROM accounts WHERE aid = :aid;
INSERT INTO history (aid, delta, seen) VALUES (:aid, :delta, CURRENT_TIMESTAMP);
END;
"""


@pytest.fixture(scope="module")
def store() -> Iterator[nyala.driver.connection.Connection]:
    with nyala.connect(":memory:") as connection:
        connection.execute("CREATE TABLE accounts (aid INT PRIMARY KEY, balance BIGINT NOT NULL)")
        connection.execute(f"INSERT INTO accounts SELECT n, 0 FROM generate_series(1, {ROWS}) AS g(n)")
        connection.execute("CREATE TABLE history (aid INT, delta INT, seen TIMESTAMP, NON UNIQUE PRIMARY KEY ())")
        yield connection


@pytest.fixture(scope="module")
def server(store: nyala.driver.connection.Connection) -> Iterator[PostgresServer]:
    with served(store) as found:
        yield found


def pgbench(server: PostgresServer, script: Path, mode: str) -> int:
    """Number of transactions; fails if one has failed."""
    if not is_installed() or not (binaries() / "pgbench").exists():
        pytest.skip("this machine has no pgbench")
    options = ["-n", "-M", mode, "-c", str(CLIENTS), "-t", str(EACH), "--max-tries=100", "-f", str(script)]
    address = ["-h", "127.0.0.1", "-p", str(server.port), "-U", "me", "store"]
    done = subprocess.run(
        [binaries() / "pgbench", *options, *address],
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
        env={**os.environ, "PGCONNECT_TIMEOUT": "60"},
    )
    assert done.returncode == 0, done.stderr
    assert "number of failed transactions: 0 " in done.stdout
    found = re.search(r"number of transactions actually processed: (\d+)/", done.stdout)
    assert found is not None, done.stdout
    return int(found[1])


@pytest.mark.parametrize("mode", ["simple", "extended", "prepared"])
def test_pgbench(server: PostgresServer, store: nyala.driver.connection.Connection, tmp_path: Path, mode: str) -> None:
    script = tmp_path / "script.sql"
    script.write_text(READ)
    assert pgbench(server, script, mode) == CLIENTS * EACH
    script.write_text(WRITE)
    before = store.execute("SELECT count(*) FROM history").fetchone()[0]
    assert pgbench(server, script, mode) == CLIENTS * EACH
    assert store.execute("SELECT count(*) FROM history").fetchone()[0] == before + CLIENTS * EACH
    (balances,) = store.execute("SELECT sum(balance) FROM accounts").fetchone()
    assert balances == store.execute("SELECT sum(delta) FROM history").fetchone()[0]
