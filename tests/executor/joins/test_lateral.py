"""LATERAL, table functions, and first rows with ties, compared with DuckDB."""

from __future__ import annotations

import datetime
from collections import Counter
from collections.abc import Iterator
from typing import Any

import duckdb
import nyala
import pytest
from engines_support import same_tables


@pytest.fixture(scope="module")
def databases() -> Iterator[tuple[Any, Any]]:
    columns = {"t": "k INT PRIMARY KEY, a INT", "u": "k INT PRIMARY KEY, a INT, b INT"}
    rows = {
        "t": [(1, 1), (2, 2), (3, None), (4, 1), (5, 7)],
        "u": [(k, (None, 1, 2, 2, 3)[k % 5], (k * 7) % 11) for k in range(40)],
    }
    with same_tables(columns, rows) as found:
        yield found


FIRST_THREE = "(SELECT u.k, u.b FROM u WHERE u.a = t.a ORDER BY u.b DESC, u.k LIMIT 3)"
QUERIES = {
    "top of each": f"SELECT t.k, s.k, s.b FROM t, LATERAL {FIRST_THREE} AS s",
    "top of each or nothing": f"SELECT t.k, s.k, s.b FROM t LEFT JOIN LATERAL {FIRST_THREE} AS s ON true",
    "with a condition": f"SELECT t.k, s.k FROM t LEFT JOIN LATERAL {FIRST_THREE} AS s ON s.b < t.k + 8",
    "not an equality": "SELECT t.k, s.n FROM t CROSS JOIN LATERAL (SELECT count(*) AS n FROM u WHERE u.a < t.a) AS s",
    "limit without equality": (
        "SELECT t.k, s.k FROM t, LATERAL (SELECT u.k FROM u WHERE u.a <> t.a ORDER BY u.b, u.k LIMIT 2 OFFSET 1) AS s"
    ),
    "one after the other": (
        "SELECT t.k, x.m, y.n FROM t, LATERAL (SELECT max(u.k) AS m FROM u WHERE u.a = t.a) AS x, "
        "LATERAL (SELECT count(*) AS n FROM u WHERE u.k < x.m AND u.a = t.a) AS y"
    ),
    "inside a parenthesis": (
        "SELECT t.k, v.k, s.x FROM t, (t AS v JOIN LATERAL (SELECT v.a + t.k AS x) AS s ON s.x > 3)"
    ),
    "a union": "SELECT t.k, s.x FROM t, LATERAL (SELECT t.a AS x UNION SELECT u.b FROM u WHERE u.k = t.k) AS s",
    "values": "SELECT t.k, s.x FROM t, LATERAL (VALUES (t.a), (t.k + 1)) AS s(x)",
    "groups": "SELECT t.k, s.* FROM t, LATERAL (SELECT u.b, count(*) FROM u WHERE u.a = t.a GROUP BY u.b) AS s(b, n)",
    "no outer column": "SELECT t.k, s.m FROM t, LATERAL (SELECT max(k) AS m FROM u) AS s",
    "series": "SELECT t.k, g FROM t, generate_series(t.k, 6, 2) AS g(g)",
    "series backwards": "SELECT t.k, g FROM t CROSS JOIN generate_series(t.a, 0, -1) AS g(g)",
    "series of series": "SELECT x, y FROM generate_series(1, 4) AS a(x), generate_series(x, 3) AS b(y)",
    "a long series": "SELECT count(*), sum(n), min(n), max(n) FROM generate_series(1, 400000, 3) AS s(n)",
    "series in a subquery": "SELECT k, (SELECT sum(n) FROM generate_series(1, t.a) AS s(n)) FROM t",
    "an alias over a join": "SELECT j.k, j.b FROM (t JOIN u USING (k, a)) AS j",
    "some outer rows": f"SELECT t.k, s.k, s.b FROM t, LATERAL {FIRST_THREE} AS s WHERE t.k < 3 AND s.b > 2",
    "some outer rows or nothing": (
        f"SELECT t.k, s.k FROM t LEFT JOIN LATERAL {FIRST_THREE} AS s ON t.k < 3 WHERE t.k > 1"
    ),
    "some outer rows of ON": f"SELECT t.k, s.k FROM t JOIN LATERAL {FIRST_THREE} AS s ON t.k < 3 AND s.b > t.k",
    "some rows of one after the other": (
        "SELECT t.k, x.m, y.n FROM t, LATERAL (SELECT max(u.k) AS m FROM u WHERE u.a = t.a) AS x, "
        "LATERAL (SELECT count(*) AS n FROM u WHERE u.k < x.m) AS y WHERE t.k > 1 AND x.m > 3 AND y.n > 2"
    ),
    "some outer rows by a subquery": (
        f"SELECT t.k, s.k FROM t, LATERAL {FIRST_THREE} AS s "
        "WHERE t.k <= (SELECT min(k) FROM u WHERE u.a = t.a) AND t.k < 4"
    ),
    "outer rows by a view": (
        "SELECT * FROM (SELECT t.k + 1 AS n, s.m FROM t, LATERAL (SELECT max(b) AS m FROM u WHERE u.a <> t.a) AS s) "
        "AS v WHERE n < 4 AND (m > 1 OR m IS NULL)"
    ),
    "natural and parenthesised": "SELECT * FROM (t NATURAL JOIN (SELECT k, b FROM u) AS x) JOIN t AS y USING (k)",
}


@pytest.mark.parametrize("name", QUERIES)
def test_lateral_beside_duckdb(databases: tuple[Any, Any], name: str) -> None:
    ours, theirs = (Counter(tuple(r) for r in d.execute(QUERIES[name]).fetchall()) for d in databases)
    assert ours == theirs


def test_only_the_wanted_outer_rows_enter_a_lateral_subquery(databases: tuple[Any, Any]) -> None:
    nearest = "(SELECT u.k FROM u WHERE u.a <= t.a ORDER BY u.b DESC LIMIT 1)"
    text = f"SELECT t.k, s.k FROM t JOIN LATERAL {nearest} AS s ON true WHERE t.k < 2"
    plan = "\n".join(row[0] for row in databases[0].execute("EXPLAIN " + text).fetchall())
    shared = plan[plan.index("Shared") :]
    assert "k < 2" in shared and "Filter k < 2" not in plan[: plan.index("Shared")], plan


def test_series_of_moments() -> None:
    connection = nyala.connect(":memory:")
    day = datetime.date
    text = "SELECT * FROM generate_series(DATE '2024-01-31', DATE '2024-04-30', INTERVAL '1' MONTH)"
    # Each month is computed from the previous one, as PostgreSQL does.
    expected = [day(2024, 1, 31), day(2024, 2, 29), day(2024, 3, 29), day(2024, 4, 29)]
    assert connection.execute(text).fetchall() == [(moment,) for moment in expected]
    series = "generate_series(TIMESTAMP '2024-01-01', TIMESTAMP '2024-01-03', '90 minutes')"
    text = f"SELECT count(*), max(n) FROM {series} AS s(n)"
    assert connection.execute(text).fetchall() == [(33, datetime.datetime(2024, 1, 3))]
    text = "SELECT count(*) FROM generate_series(DATE '2024-03-01', DATE '2024-01-01', INTERVAL '-1' DAY)"
    assert connection.execute(text).fetchall() == [(61,)]


def test_series_of_moments_end_with_the_calendar() -> None:
    connection = nyala.connect(":memory:")
    oracle = duckdb.connect()
    for kind in ("DATE", "TIMESTAMP"):
        for first, last, step in (
            ("9999-10-31", "9999-12-31", "1 month"),
            ("9999-10-31", "9999-12-31", "1 month 3 days"),
            ("9990-01-01", "9999-12-31", "5 years"),
            ("0001-03-31", "0001-01-01", "-1 month"),
            ("9999-12-31", "9999-12-31", "200000 months"),
        ):
            text = (
                f"SELECT n::TIMESTAMP FROM generate_series({kind} '{first}', {kind} '{last}', INTERVAL '{step}') s(n)"
            )
            assert connection.execute(text).fetchall() == oracle.execute(text).fetchall(), text
    text = (
        "SELECT k, n FROM (VALUES (1, DATE '9999-11-30'), (2, DATE '2020-01-01'), (3, DATE '9999-12-31')) t(k, d), "
        "generate_series(d, DATE '9999-12-31', INTERVAL '4000 years') s(n)"
    )
    assert sorted(k for k, _ in connection.execute(text).fetchall()) == [1, 2, 2, 3]


def test_a_series_may_be_longer_than_memory() -> None:
    connection = nyala.connect(":memory:")
    text = "SELECT n FROM generate_series(-9223372036854775807, 9223372036854775807) AS s(n) LIMIT 2"
    assert connection.execute(text).fetchall() == [(-9223372036854775807,), (-9223372036854775806,)]


@pytest.mark.parametrize("rows", [1, 2, 3, 7])
@pytest.mark.parametrize("offset", [0, 2])
def test_with_ties(databases: tuple[Any, Any], rows: int, offset: int) -> None:
    ours, theirs = databases
    every = theirs.execute("SELECT a, b FROM u ORDER BY a NULLS LAST, b DESC").fetchall()
    last = every[offset + rows - 1]
    expected = [row for i, row in enumerate(every) if i >= offset and (i < offset + rows or row == last)]
    text = f"SELECT a, b FROM u ORDER BY a NULLS LAST, b DESC OFFSET {offset} FETCH FIRST {rows} ROWS WITH TIES"
    assert ours.execute(text).fetchall() == expected
