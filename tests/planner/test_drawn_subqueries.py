"""Correlated subqueries with random() are evaluated for each row of the outer query, uncorrelated ones once."""

from __future__ import annotations

from typing import Any

import nyala
import pytest

ROWS = 300


@pytest.fixture(scope="module")
def c() -> Any:
    with nyala.connect(":memory:", threads=1) as connection:
        connection.execute("CREATE TABLE t (k INT PRIMARY KEY, g INT); CREATE TABLE u (k INT PRIMARY KEY, x INT)")
        connection.execute(f"INSERT INTO t SELECT value, value % 3 FROM generate_series(1, {ROWS}) AS s (value)")
        connection.execute("INSERT INTO u SELECT value, value % 3 FROM generate_series(1, 900) AS s (value)")
        yield connection


@pytest.mark.parametrize(
    "query",
    [
        "(SELECT random() WHERE g >= 0)",
        "(SELECT random() + t.g)",
        "(SELECT random() FROM u WHERE u.k = t.g + 1)",
        "(SELECT max(random()) FROM u WHERE u.x = t.g)",
        "(SELECT max(u.x + random()) FROM u WHERE u.k > t.g)",
        "(SELECT random() + u.x FROM u WHERE u.k > t.g ORDER BY u.k LIMIT 1)",
        "(SELECT r FROM (SELECT random() AS r, k FROM u) x WHERE x.k = t.g + 1)",
        "(SELECT gen_random_uuid() WHERE g >= 0)",
        "CASE WHEN g >= 0 THEN (SELECT 1 / (g + 1 + random()) WHERE g >= 0) END",
        "coalesce((SELECT random() WHERE g > 0), (SELECT random() WHERE g <= 0))",
    ],
)
def test_a_value_for_each_row(c: Any, query: str) -> None:
    assert c.execute(f"SELECT count(*), count(DISTINCT v) FROM (SELECT {query} AS v FROM t) x").fetchone() == (
        ROWS,
        ROWS,
    )
    lateral = f"SELECT count(DISTINCT x.v) FROM t, LATERAL (SELECT {query} AS v) x"
    assert c.execute(lateral).fetchone() == (ROWS,)


@pytest.mark.parametrize(
    "query",
    [
        "(SELECT random())",
        "(SELECT max(random()) FROM u)",
        "(SELECT (SELECT random()) + 0 * t.g)",
        "CASE WHEN g >= 0 THEN (SELECT 1 / (1 + random())) END",
    ],
)
def test_one_value_for_all_rows(c: Any, query: str) -> None:
    assert c.execute(f"SELECT count(v), count(DISTINCT v) FROM (SELECT {query} AS v FROM t) x").fetchone() == (ROWS, 1)


@pytest.mark.parametrize(
    "condition",
    [
        "(SELECT random() WHERE g >= 0) < 0.5",
        "EXISTS (SELECT 1 WHERE g >= 0 AND random() < 0.5)",
        "NOT EXISTS (SELECT 1 FROM u WHERE u.k = t.g + 1 AND random() < 0.5)",
        "k IN (SELECT t.k WHERE random() < 0.5)",
        "k NOT IN (SELECT t.k WHERE random() < 0.5)",
        "0.5 > ANY (SELECT random() WHERE g >= 0)",
        "EXISTS (SELECT 1 WHERE g >= 0 AND random() < 0.5) IS TRUE",
    ],
)
def test_conditions_are_drawn_for_each_row(c: Any, condition: str) -> None:
    """Of 300 rows in three groups, 0, 100, 200 or 300 would pass if random() were evaluated per group."""
    counts = {c.execute(f"SELECT count(*) FROM t WHERE {condition}").fetchone()[0] for _ in range(4)}
    assert counts - {0, 100, 200, 300}


def test_rows_without_a_value_keep_their_place(c: Any) -> None:
    rows = c.execute("SELECT g, (SELECT random() WHERE g > 0) IS NULL FROM t").fetchall()
    assert len(rows) == ROWS
    assert all(missing == (g == 0) for g, missing in rows)
    c.execute("CREATE TABLE w (k INT PRIMARY KEY, v DOUBLE); INSERT INTO w SELECT k, 0 FROM t")
    c.execute("UPDATE w SET v = (SELECT random() WHERE w.k > 0)")
    assert c.execute("SELECT count(DISTINCT v) FROM w").fetchone() == (ROWS,)
