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
        ("INSERT INTO t (k, v) VALUES (9999, 1), (9998, 2)", "Insert into t (k, v)"),
        ("INSERT IGNORE INTO t (k, v) VALUES (1, 1), (2, 1)", "Insert into t (k, v) where the key is new"),
        ("UPSERT INTO t (k, v) SELECT k, v + 1 FROM t", "Upsert into t (k, v)"),
        ("UPSERT INTO t (k, v) VALUES (1, 2) RETURNING k", "Upsert into t (k, v)"),
        ("UPDATE t SET v = 5 WHERE k < 3", "Update t set v"),
        ("DELETE FROM t WHERE k < 3", "Delete from t"),
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


ROW_PATH = [
    ("SELECT v, k FROM t WHERE k = 3", "Read v, k of t", ["where k = 3"]),
    ("INSERT INTO t (k, v) VALUES (9999, 1)", "Insert into t (k, v)", []),
    ("INSERT IGNORE INTO t VALUES (9999, 1)", "Insert into t (k, v) where the key is new", []),
    ("UPSERT INTO t VALUES (3, NULL)", "Upsert into t (k, v)", []),
    ("UPDATE t SET v = v + 1 WHERE k = 3", "Update t set v", ["where k = 3"]),
    ("DELETE FROM t WHERE v < 5 AND k = 3", "Delete from t", ["where v < 5 AND k = 3"]),
]


@pytest.mark.parametrize(("statement", "what", "details"), ROW_PATH)
def test_explain_names_the_row_path(
    connection: nyala.Connection, statement: str, what: str, details: list[str]
) -> None:
    head = f"{what} by primary key, without a plan"
    expected = [head, *(f"  · {detail}" for detail in details)]
    assert [line for (line,) in rows(connection, f"EXPLAIN {statement}")] == expected
    ((text,),) = rows(connection, f"EXPLAIN (FORMAT JSON) {statement}")
    assert json.loads(text) == {"operator": head.split()[0], "text": head, "details": details, "inputs": []}
    verbose = [line for (line,) in rows(connection, f"EXPLAIN VERBOSE {statement}")]
    assert verbose[: len(expected)] == expected and verbose[len(expected)] == "-- the plan that is not used"
    assert "-- physical plan" in verbose
    before = rows(connection, "SELECT * FROM t ORDER BY k")
    (line,), *below = rows(connection, f"EXPLAIN ANALYZE {statement}")
    assert line.startswith(f"{head}  (1 rows, ") and [detail for (detail,) in below] == expected[1:]
    assert (rows(connection, "SELECT * FROM t ORDER BY k") == before) == statement.startswith("SELECT")


def test_explain_names_the_row_path_only_where_it_is_taken(connection: nyala.Connection) -> None:
    connection.session.plans.short_ways = False
    for statement, what, _ in ROW_PATH:
        assert not any("without a plan" in line for (line,) in rows(connection, f"EXPLAIN {statement}")), what


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
