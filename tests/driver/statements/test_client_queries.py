"""Queries on the system catalogs, as PostgreSQL's clients send them, with the rows that they get.

The scripts have the queries that the tools send when they connect and when they list tables, in our own layout. Rows
that PostgreSQL 15 gives for the same tables differ only in the numbers of objects, in texts of defaults and views, and
in objects that every PostgreSQL has and nyala has not (template databases, the schema `public`).
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import nyala
import pytest

CLIENTS = Path(__file__).parent / "golden" / "clients"
TABLES = (
    "CREATE TABLE orders (k INT, line SMALLINT, name VARCHAR(20) DEFAULT 'none' COMMENT 'of the customer', "
    "price DECIMAL(12,2) NOT NULL, day DATE, at TIMESTAMP, ok BOOLEAN, x DOUBLE, r FLOAT, b BINARY, big BIGINT, "
    "note TEXT, PRIMARY KEY (k, line)) COMMENT 'what was ordered'",
    "CREATE TABLE items (id BIGINT PRIMARY KEY, label TEXT NOT NULL)",
    "CREATE VIEW cheap AS SELECT k, price FROM orders WHERE price < 10",
)
MOST_ROWS = 12


@pytest.fixture
def play(connection: nyala.Connection) -> Callable[[str], str]:
    for statement in TABLES:
        connection.execute(statement)

    def run(command: str) -> str:
        cursor = connection.execute(command)
        if cursor.description is None:
            return "OK"
        rows = cursor.fetchall()
        shown = [" | ".join("" if value is None else str(value) for value in row) for row in rows[:MOST_ROWS]]
        more = [f"... {len(rows)} rows"] if len(rows) > MOST_ROWS else []
        names = " | ".join(column[0] for column in cursor.description)
        # A golden script has no empty lines within an output.
        return "\n".join([names, *(row.replace("\n", "\\n") or "(empty)" for row in shown), *more])

    return run


@pytest.mark.embedded_only("its scripts have the numbers of the first tables of a store", "cluster")
@pytest.mark.parametrize("client", sorted(path.stem for path in CLIENTS.glob("*.txt")))
def test_queries_of_a_client(
    client: str, golden: Callable[[Path, Callable[[str], str]], None], play: Callable[[str], str]
) -> None:
    golden(CLIENTS / f"{client}.txt", play)
