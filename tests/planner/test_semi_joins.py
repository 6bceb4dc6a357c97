"""Joins under IN, EXISTS, DISTINCT and alike become semi-joins where that makes no difference."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import duckdb
import numpy as np
import nyala
import pyarrow as pa
import pytest

PAIRS = "WITH w AS (SELECT a.o, a.w AS w1, b.w AS w2 FROM s a, s b WHERE a.o = b.o AND a.w <> b.w) "

SEMI = (
    PAIRS + "SELECT count(DISTINCT o), sum(v) FROM s WHERE o IN (SELECT o FROM w)",
    PAIRS + "SELECT o FROM s WHERE o IN (SELECT o FROM w) AND o IN (SELECT r.o FROM r, w WHERE r.o = w.o)",
    PAIRS + "SELECT o FROM s WHERE o NOT IN (SELECT o FROM w WHERE o IS NOT NULL)",
    "SELECT DISTINCT a.o FROM s a JOIN s b ON a.o = b.o AND a.v < b.v",
    "SELECT DISTINCT b.w FROM s a JOIN s b ON a.o = b.o AND a.v < b.v",
    "SELECT a.o, max(a.v), count(DISTINCT a.w) FROM s a JOIN r ON a.o = r.o GROUP BY a.o",
    "SELECT v FROM s WHERE EXISTS (SELECT 1 FROM s a JOIN r ON a.w = r.w WHERE a.o = s.o)",
    "SELECT v FROM s WHERE NOT EXISTS (SELECT 1 FROM s a JOIN r ON a.w = r.w WHERE a.o = s.o)",
    "SELECT o FROM r UNION SELECT a.o FROM s a JOIN s b ON a.w = b.w AND a.v <> b.v",
    "SELECT o FROM r INTERSECT SELECT a.w FROM s a JOIN s b ON a.o = b.o",
    "SELECT v FROM s WHERE o IN (SELECT x.o FROM (SELECT a.o FROM s a JOIN r ON a.w = r.w ORDER BY 1) x)",
    "SELECT v FROM s WHERE o IN (SELECT a.o FROM s a JOIN r ON a.w = r.w UNION ALL SELECT w FROM r)",
)
INNER = (
    PAIRS + "SELECT count(*) FROM w WHERE o IN (SELECT o FROM w)",
    "SELECT a.o, count(*), max(a.v) FROM s a JOIN r ON a.o = r.o GROUP BY a.o",
    "SELECT v FROM s WHERE o IN (SELECT count(*) FROM s a JOIN r ON a.w = r.w GROUP BY a.o)",
    "SELECT a.v FROM s a JOIN r ON a.o = r.o",
    "SELECT DISTINCT a.o, r.w FROM s a JOIN r ON a.o = r.o",
    "SELECT o FROM r UNION ALL SELECT a.o FROM s a JOIN s b ON a.w = b.w",
    "SELECT o FROM r EXCEPT ALL SELECT a.o FROM s a JOIN s b ON a.w = b.w",
    "SELECT v FROM s WHERE o IN (SELECT a.o FROM s a JOIN r ON a.o = r.k)",
    "SELECT v FROM s WHERE o IN (SELECT a.o FROM s a JOIN r ON a.w = r.w ORDER BY a.k, r.k LIMIT 5)",
    "SELECT DISTINCT o, n FROM (SELECT a.o, count(*) OVER (PARTITION BY a.o) AS n FROM s a JOIN r ON a.w = r.w) x",
)


@pytest.fixture(scope="module")
def both() -> Iterator[tuple[nyala.Connection, duckdb.DuckDBPyConnection]]:
    rng = np.random.default_rng(5)

    def numbers(count: int, below: int) -> pa.Array:
        return pa.array(rng.integers(0, below, count), mask=rng.random(count) < 0.1)

    tables = {
        "s": {"k": np.arange(150), "o": numbers(150, 40), "w": numbers(150, 4), "v": rng.integers(0, 1000, 150)},
        "r": {"k": np.arange(30), "o": numbers(30, 60), "w": numbers(30, 6)},
    }
    with nyala.connect(":memory:", threads=1) as connection, duckdb.connect() as other:
        for name, columns in tables.items():
            data = pa.table(columns)
            rest = ", ".join(f"{column} BIGINT" for column in columns if column != "k")
            connection.execute(f"CREATE TABLE {name} (k BIGINT PRIMARY KEY, {rest})")
            connection.load(name, data)
            other.register("data", data)
            other.execute(f"CREATE TABLE {name} AS SELECT * FROM data")
        yield connection, other


@pytest.mark.parametrize("statement", SEMI + INNER)
def test_same_rows_as_duckdb(both: tuple[Any, Any], statement: str) -> None:
    found, expected = (Counter(connection.execute(statement).fetchall()) for connection in both)
    assert found == expected


@pytest.mark.parametrize("statement", SEMI)
def test_no_pairs_are_formed(both: tuple[Any, Any], statement: str) -> None:
    assert "Join inner" not in plan(both[0], statement)


@pytest.mark.parametrize("statement", INNER)
def test_pairs_are_formed_where_they_count(both: tuple[Any, Any], statement: str) -> None:
    assert "Join inner" in plan(both[0], statement)


def plan(connection: Any, statement: str) -> str:
    return "\n".join(row[0] for row in connection.execute("EXPLAIN " + statement).fetchall())


def test_each_pair_draws_its_own_number(both: tuple[Any, Any]) -> None:
    statement = "SELECT count(*) FROM (SELECT DISTINCT a.o, random() FROM s a JOIN s b ON a.w = b.w) x"
    pairs = both[0].execute("SELECT count(*) FROM s a JOIN s b ON a.w = b.w").fetchone()
    assert both[0].execute(statement).fetchone() == pairs
