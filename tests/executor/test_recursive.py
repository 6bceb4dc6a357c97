"""WITH RECURSIVE, compared with DuckDB: graphs, hierarchies, termination, and the tables that a round may read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import nyala
import pytest
from engines_support import same_tables
from examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from nyala.executor.operators import recursive

EDGES = [(1, 2), (2, 3), (3, 1), (3, 4), (4, 5), (5, None), (7, 8), (8, 8)]


@pytest.fixture(scope="module")
def databases() -> Iterator[tuple[Any, Any]]:
    rows = [(i, *edge) for i, edge in enumerate(EDGES)]
    with same_tables({"e": "i INT PRIMARY KEY, a INT, b INT"}, {"e": rows}) as found:
        yield found


QUERIES = {
    "reachable": "WITH RECURSIVE r(n) AS (SELECT 1 UNION SELECT e.b FROM e JOIN r ON e.a = r.n) SELECT * FROM r",
    "with the number of steps": (
        "WITH RECURSIVE r(n, d) AS (SELECT 1, 0 UNION ALL SELECT e.b, r.d + 1 FROM r, e WHERE e.a = r.n AND r.d < 7) "
        "SELECT n, min(d), count(*) FROM r GROUP BY n"
    ),
    "texts": (
        "WITH RECURSIVE r(s) AS (SELECT CAST('a' AS VARCHAR) UNION SELECT s || 'b' FROM r WHERE length(s) < 9) "
        "SELECT * FROM r"
    ),
    "used twice": (
        "WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r WHERE n < 20) "
        "SELECT x.n, y.n FROM r AS x JOIN r AS y ON x.n = y.n * y.n"
    ),
    "read by a later one": (
        "WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r WHERE n < 6), "
        "s(n, m) AS (SELECT n, 0 FROM r UNION ALL SELECT n, m + 1 FROM s WHERE m < n) "
        "SELECT n, count(*) FROM s GROUP BY n"
    ),
    "a correlated subquery in the step": (
        "WITH RECURSIVE r(n) AS (SELECT 1 UNION SELECT (SELECT min(e.b) FROM e WHERE e.a = r.n) FROM r "
        "WHERE EXISTS (SELECT 1 FROM e WHERE e.a >= r.n)) SELECT * FROM r"
    ),
    "a derived table over the last round": (
        "WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT m + 2 FROM (SELECT n + 1 AS m FROM r WHERE n < 30) AS s) "
        "SELECT sum(n), count(*) FROM r"
    ),
    "rows that are NULL": (
        "WITH RECURSIVE r(n, m) AS (SELECT 4, 4 UNION SELECT e.b, NULL FROM e JOIN r ON e.a = n) SELECT * FROM r"
    ),
    "rounds of many rows, then few": (
        "WITH RECURSIVE r(n, d) AS (SELECT n, 0 FROM generate_series(1, 150000) AS g(n) UNION ALL "
        "SELECT n, d + 1 FROM r WHERE n > 40000 * (d + 1)) SELECT d, count(*), sum(n) FROM r GROUP BY d"
    ),
    "few rows, then many, then few": (
        "WITH RECURSIVE r(n, d) AS (SELECT 1, 0 UNION ALL "
        "SELECT r.n * 40 + x.i, d + 1 FROM r, (SELECT a.i * 8 + b.i AS i FROM e AS a, e AS b) AS x "
        "WHERE d < 3 AND x.i < 54) SELECT d, count(*), sum(n) FROM r GROUP BY d"
    ),
    "a union of columns in the step": (
        "WITH RECURSIVE r(n, d) AS (SELECT 3, 0 UNION ALL SELECT n + i, d + 1 FROM (SELECT n, d, 1 AS i FROM r) AS s "
        "WHERE d < 40 AND n % 7 <> 0) SELECT n, d FROM r"
    ),
    "no first row": "WITH RECURSIVE r(n) AS (SELECT 1 WHERE 1 = 2 UNION ALL SELECT n + 1 FROM r) SELECT * FROM r",
    "not recursive after all": "WITH RECURSIVE r AS (SELECT a FROM e) SELECT count(*) FROM r",
}


@pytest.mark.parametrize("name", QUERIES)
def test_recursion_beside_duckdb(databases: tuple[Any, Any], name: str) -> None:
    ours, theirs = (Counter(tuple(r) for r in d.execute(QUERIES[name]).fetchall()) for d in databases)
    assert ours == theirs


@settings(max_examples=examples(15), deadline=None)
@given(st.lists(st.tuples(st.integers(0, 12), st.integers(0, 12)), max_size=30))
def test_the_transitive_closure_of_a_graph(edges: list[tuple[int, int]]) -> None:
    connection = nyala.connect(":memory:")
    connection.execute("CREATE TABLE g (i INT PRIMARY KEY, a INT, b INT)")
    for i, (a, b) in enumerate(edges):
        connection.execute(f"INSERT INTO g VALUES ({i}, {a}, {b})")
    closure = set(edges)
    while more := {(a, d) for a, b in closure for c, d in edges if b == c} - closure:
        closure |= more
    found = connection.execute(
        "WITH RECURSIVE r(a, b) AS (SELECT a, b FROM g UNION SELECT r.a, g.b FROM r JOIN g ON r.b = g.a) "
        "SELECT * FROM r"
    ).fetchall()
    assert sorted(found) == sorted(closure)


def test_a_limit_ends_what_would_never_end() -> None:
    connection = nyala.connect(":memory:")
    text = "WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r) SELECT n FROM r LIMIT 5"
    assert connection.execute(text).fetchall() == [(1,), (2,), (3,), (4,), (5,)]


def test_a_step_without_state_is_opened_once(monkeypatch: pytest.MonkeyPatch) -> None:
    opened, original = [], recursive.open_working_table
    monkeypatch.setattr(recursive, "open_working_table", lambda *given: (opened.append(1), original(*given))[1])
    text = "WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r WHERE n < 50) SELECT count(*), sum(n) FROM r"
    assert nyala.connect(":memory:").execute(text).fetchall() == [(50, 1275)]
    assert len(opened) == 1


def test_each_row_of_the_outer_query_has_a_recursion_of_its_own(databases: tuple[Any, Any]) -> None:
    text = (
        "SELECT i, (WITH RECURSIVE r(n) AS (SELECT e.i UNION ALL SELECT n + e.a FROM r WHERE n < 20) "
        "SELECT count(*) FROM r) FROM e"
    )
    expected = [(i, 1 + max(0, -(-(20 - i) // a))) for i, (a, _) in enumerate(EDGES)]
    assert sorted(databases[0].execute(text).fetchall()) == expected


def test_union_tells_rows_apart_by_all_their_columns() -> None:
    connection = nyala.connect(":memory:")
    text = (
        "WITH RECURSIVE r(n, s) AS (SELECT 0, 'x' UNION "
        "SELECT (n + 1) % 400, CASE WHEN n % 2 = 0 THEN 'x' ELSE 'y' END FROM r) "
        "SELECT count(*), count(DISTINCT n) FROM r"
    )
    assert connection.execute(text).fetchall() == [(401, 400)]


def test_a_round_may_be_null_where_the_first_part_is_not() -> None:
    connection = nyala.connect(":memory:")
    connection.execute("CREATE TABLE solid (k INT PRIMARY KEY, b INT NOT NULL)")
    connection.execute("INSERT INTO solid VALUES (1, 100)")
    text = (
        "WITH RECURSIVE r(n, p) AS (SELECT 1, 1 UNION ALL "
        "SELECT n + 1, CAST(NULL AS INT) FROM r WHERE n < 4 AND p NOT IN (SELECT b FROM solid)) SELECT n, p FROM r"
    )
    assert sorted(connection.execute(text).fetchall()) == [(1, 1), (2, None)]
