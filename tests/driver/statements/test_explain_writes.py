"""EXPLAIN of statements that write: what becomes of the rows, above the plan that makes them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import nyala
import pytest


@pytest.fixture
def connection() -> Iterator[nyala.Connection]:
    with nyala.connect(":memory:") as connection:
        connection.execute("CREATE TABLE t (k INT PRIMARY KEY, v INT) DISTRIBUTE BY HASH INTO 2 BUCKETS")
        connection.execute("INSERT INTO t SELECT i, i % 7 FROM generate_series(1, 50) AS s (i)")
        yield connection


def rows(connection: nyala.Connection, text: str) -> list[tuple[Any, ...]]:
    return connection.execute(text).fetchall()


@pytest.mark.parametrize(
    ("statement", "head"),
    [
        ("INSERT INTO t (k, v) VALUES (9999, 1)", "Insert into t (k, v)"),
        ("INSERT IGNORE INTO t (k, v) VALUES (1, 1)", "Insert into t (k, v) where the key is new"),
        ("UPSERT INTO t (k, v) SELECT k, v + 1 FROM t", "Upsert into t (k, v)"),
        ("UPSERT INTO t (k, v) VALUES (1, 2) RETURNING k", "Upsert into t (k, v)"),
        ("UPDATE t SET v = 5 WHERE k = 3", "Update t set v"),
        ("DELETE FROM t WHERE k = 3", "Delete from t"),
        ("INSERT INTO t VALUES (1, 2) ON CONFLICT (k) DO UPDATE SET v = 1", "Insert into t (k, v), or update v"),
        ("CREATE TABLE u (PRIMARY KEY (k)) AS SELECT * FROM t", "Create table u (k, v)"),
        ("COPY t TO 'rows.csv'", "Copy to rows.csv"),
    ],
)
def test_explain_of_a_writing_statement_says_what_becomes_of_the_rows(
    connection: nyala.Connection, statement: str, head: str
) -> None:
    (first,), (second,), *_ = rows(connection, f"EXPLAIN {statement}")
    assert first == head
    assert second.startswith("  ")
    ((text,),) = rows(connection, f"EXPLAIN (FORMAT JSON) {statement}")
    outline = json.loads(text)
    assert outline["text"] == head
    assert len(outline["inputs"]) == 1


def test_explain_analyze_of_a_writing_statement_writes(connection: nyala.Connection) -> None:
    (first,), *below = rows(connection, "EXPLAIN ANALYZE DELETE FROM t WHERE k < 3")
    gone = int(first.removeprefix("Delete from t  (").removesuffix(" rows)"))
    assert gone > 0
    assert any(f"({gone} rows" in line for (line,) in below)
    assert rows(connection, "SELECT count(*) FROM t WHERE k < 3") == [(0,)]
    assert rows(connection, "SELECT count(*) FROM t") == [(50 - gone,)]


def test_explain_verbose_draws_the_statement_above_the_physical_plan_only(connection: nyala.Connection) -> None:
    lines = [line for (line,) in rows(connection, "EXPLAIN VERBOSE DELETE FROM t WHERE v + 1 = 3")]
    assert lines[0] == "-- build"
    assert lines[lines.index("-- physical plan") + 1] == "Delete from t"
    assert lines.count("Delete from t") == 1


def test_verbose_json_tells_the_rules(connection):
    query = "SELECT a.k FROM t AS a JOIN t AS b ON a.k = b.k WHERE b.v > 1"
    ((text,),) = rows(connection, f"EXPLAIN (VERBOSE, FORMAT JSON) {query}")
    steps = json.loads(text)["rules"]
    assert steps[0]["rule"] == "build"
    assert "pushdown_predicates" in [step["rule"] for step in steps]
    assert any("Scan t" in line for line in steps[-1]["plan"])
