"""Errors belong to rows: values that a row does not need are not computed for it, subqueries included."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import nyala
import pytest
from nyala.errors import DataError


@pytest.fixture(scope="module", params=["memory", "compacted"])
def c(request: Any) -> Iterator[Any]:
    with nyala.connect(":memory:", threads=1) as connection:
        connection.execute("CREATE TABLE t (k INT PRIMARY KEY, n INT, o INT)")
        connection.execute("INSERT INTO t VALUES (1, 4, NULL), (2, 0, 5), (3, 2, NULL)")
        connection.execute("CREATE TABLE u (k INT PRIMARY KEY, x INT)")
        connection.execute("INSERT INTO u VALUES (1, 0), (2, 5), (3, 0), (4, 9)")
        if request.param == "compacted":
            connection.execute("COMPACT TABLE t")
            connection.execute("COMPACT TABLE u")
        yield connection


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("coalesce(CASE WHEN n = 0 THEN 0 END, 8 / n)", [2, 0, 4]),
        ("coalesce(o, 8 / n)", [2, 5, 4]),
        ("coalesce(o, 8 / n, 8 / (n - n))", [2, 5, 4]),
        ("coalesce(o, nullif(n, 2), round(ln(n)))", [4, 5, 1]),
        ("coalesce(1, 1 / 0)", [1, 1, 1]),
        ("nvl(o, 8 / n)", [2, 5, 4]),
        ("ifnull(CASE WHEN n = 0 THEN 0 END, 8 / n)", [2, 0, 4]),
        ("nvl2(o, 1, 8 / n)", [2, 1, 4]),
        ("if(n = 0, 0, 8 / n)", [2, 0, 4]),
        ("coalesce(try_cast('5' AS INT), CAST('x' || k AS INT))", [5, 5, 5]),
        ("0 IN (n, 8 / n)", [False, True, False]),
        ("0 NOT IN (8 / n, n)", [True, False, True]),
        ("n = 0 OR 8 / n > 2", [False, True, True]),
        ("n <> 0 AND 8 / n BETWEEN 1 AND 8 / n", [True, False, True]),
        ("sum(8 / n) FILTER (WHERE n <> 0) OVER (ORDER BY k)", [2, 2, 6]),
    ],
)
def test_arguments_behind_the_deciding_one(c: Any, value: str, expected: list[Any]) -> None:
    assert [row[0] for row in c.execute(f"SELECT {value} FROM t ORDER BY k").fetchall()] == expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("CASE WHEN n = 0 THEN 0 ELSE (SELECT 8 / n) END", [2, 0, 4]),
        ("CASE WHEN n = 0 THEN 0 ELSE (SELECT max(8 / n + x) FROM u) END", [11, 0, 13]),
        ("CASE WHEN n = 0 THEN (SELECT max(8 / x) FROM u WHERE u.k = t.k) END", [None, 1, None]),
        ("CASE WHEN n = 0 THEN (SELECT 8 / x FROM u WHERE u.k = t.k) ELSE -1 END", [-1, 1, -1]),
        ("CASE WHEN n > 99 THEN (SELECT x FROM u) ELSE -1 END", [-1, -1, -1]),
        ("CASE WHEN n > 99 THEN (SELECT 8 / 0) ELSE -1 END", [-1, -1, -1]),
        ("CASE WHEN k = 3 THEN (SELECT x FROM u WHERE u.k > t.k) ELSE -1 END", [-1, -1, 9]),
        ("coalesce(o, n, (SELECT x FROM u))", [4, 5, 2]),
        ("coalesce(o, (SELECT 8 / n))", [2, 5, 4]),
        ("if(n = 0, 0, (SELECT 8 / n))", [2, 0, 4]),
        ("n = 0 OR (SELECT 8 / n) > 2", [False, True, True]),
        ("n <> 0 AND EXISTS (SELECT 1 FROM u WHERE 8 / n > u.x)", [True, False, True]),
        ("CASE WHEN n = 0 THEN FALSE ELSE 4 IN (SELECT 8 / n + x FROM u) END", [False, False, True]),
        ("CASE WHEN n = 0 THEN FALSE ELSE 9 > ALL (SELECT 8 / n + x FROM u WHERE k < 3) END", [True, False, False]),
        ("CASE WHEN n = 0 THEN 1 WHEN (SELECT 8 / n) = 2 THEN 2 ELSE (SELECT 8 / (n - 4)) END", [2, 1, -4]),
        ("CASE WHEN n = 4 THEN 1 ELSE CASE WHEN n = 0 THEN 2 ELSE (SELECT 8 / n / (n - 4)) END END", [1, 2, -2]),
        ("(SELECT 8 / n WHERE n > 0)", [2, None, 4]),
    ],
)
def test_subqueries_in_branches(c: Any, value: str, expected: list[Any]) -> None:
    assert [row[0] for row in c.execute(f"SELECT {value} FROM t ORDER BY k").fetchall()] == expected


@pytest.mark.parametrize(
    "query",
    [
        "SELECT CASE WHEN n < 9 THEN (SELECT x FROM u) END FROM t",
        "SELECT CASE WHEN n = 0 THEN (SELECT 8 / n) END FROM t",
        "SELECT coalesce(o, (SELECT x FROM u WHERE u.k > t.k)) FROM t",
        "SELECT coalesce(NULL, 8 / n) FROM t",
        "SELECT greatest(1, 8 / n) FROM t",
    ],
)
def test_rows_that_need_a_value_get_its_error(c: Any, query: str) -> None:
    with pytest.raises(DataError):
        c.execute(query).fetchall()


def test_clauses_beside_the_select_list(c: Any) -> None:
    lazy = "CASE WHEN n = 0 THEN 0 ELSE (SELECT 8 / n) END"
    assert c.execute(f"SELECT k FROM t ORDER BY {lazy}, k").fetchall() == [(2,), (1,), (3,)]
    assert c.execute(f"SELECT k FROM t WHERE {lazy} > 2").fetchall() == [(3,)]
    assert c.execute(f"SELECT {lazy}, count(*) FROM t GROUP BY 1 ORDER BY 1").fetchall() == [(0, 1), (2, 1), (4, 1)]
    assert c.execute(f"SELECT sum({lazy}) FROM t").fetchall() == [(6,)]
    assert c.execute("SELECT CASE WHEN count(*) > 99 THEN (SELECT x FROM u) ELSE 0 END FROM t").fetchall() == [(0,)]
    assert c.execute("SELECT sum(8 / n) FILTER (WHERE n <> 0) FROM t").fetchall() == [(6,)]


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("SELECT k, (SELECT 8 / x FROM u WHERE u.k = t.k) FROM t WHERE k = 2", [(2, 1)]),
        ("SELECT k, (SELECT 8 / x FROM u WHERE u.k = t.k + t.n) FROM t ORDER BY k", [(1, None), (2, 1), (3, None)]),
        (
            "SELECT k, (SELECT max(8 / x) FROM u WHERE u.k = t.k * t.n - 2) FROM t ORDER BY k",
            [(1, 1), (2, None), (3, 0)],
        ),
        (
            "SELECT k, (SELECT sum(8 / x) FROM u WHERE u.k > t.k AND u.k > 3) FROM t ORDER BY k",
            [(1, 0), (2, 0), (3, 0)],
        ),
        ("SELECT k, (SELECT count(*) FROM u WHERE u.k = t.n + 1 - 3 AND 8 / x > 0) FROM t WHERE k = 1", [(1, 1)]),
        (
            "SELECT k, (SELECT count(*) FROM u WHERE 8 / x = t.k - 1 AND u.k = t.n - 2) FROM t WHERE k < 3 ORDER BY k",
            [(1, 0), (2, 0)],
        ),
        ("SELECT k, (SELECT count(*) FROM u WHERE u.k = t.k GROUP BY 8 / x) FROM t WHERE k = 2", [(2, 1)]),
        ("SELECT k, (SELECT sum(8 / x) OVER () FROM u WHERE u.k = t.k) FROM t WHERE k = 2", [(2, 1)]),
        ("SELECT k, (SELECT 8 / x FROM u WHERE u.k = t.k ORDER BY 8 / x LIMIT 1) FROM t WHERE k = 2", [(2, 1)]),
        ("SELECT k FROM t WHERE k = 2 AND 1 IN (SELECT 8 / x FROM u WHERE u.k = t.k)", [(2,)]),
        ("SELECT k FROM t WHERE k = 2 AND 1 NOT IN (SELECT 8 / x FROM u WHERE u.k = t.k)", []),
        ("SELECT k FROM t WHERE k = 2 AND 1 <= ALL (SELECT 8 / x FROM u WHERE u.k = t.k)", [(2,)]),
        ("SELECT k FROM t WHERE k = 2 AND 0 < ANY (SELECT 8 / x FROM u WHERE u.k = t.k)", [(2,)]),
        ("SELECT k FROM t WHERE k = 2 AND (k = 9 OR 1 IN (SELECT 8 / x FROM u WHERE u.k = t.k))", [(2,)]),
        ("SELECT k FROM t WHERE k = 2 AND EXISTS (SELECT 1 FROM u WHERE u.k = t.k AND 8 / x > 0)", [(2,)]),
        ("SELECT k FROM t WHERE k = 2 AND NOT EXISTS (SELECT 1 FROM u WHERE u.k = t.k AND 8 / x > 5)", [(2,)]),
        ("SELECT k, z FROM t, LATERAL (SELECT 8 / x AS z FROM u WHERE u.k = t.k) s WHERE k = 2", [(2, 1)]),
        (
            "SELECT k, z FROM t LEFT JOIN LATERAL (SELECT 8 / x AS z FROM u WHERE u.k = t.k) s ON TRUE WHERE k = 2",
            [(2, 1)],
        ),
    ],
)
def test_rows_that_no_outer_row_meets(c: Any, query: str, expected: list[Any]) -> None:
    """PostgreSQL's results: u.x is 0 where k is 1 or 3."""
    assert c.execute(query).fetchall() == expected


def test_rows_that_no_row_of_the_outermost_query_meets(c: Any) -> None:
    """The subquery of a subquery, whose NULLs count."""
    inner = (
        "CASE WHEN 5 IN (SELECT 60 / (q.k - 3) FROM u q WHERE q.k = CASE WHEN t.k = 3 THEN 4 ELSE t.k END) THEN a.k END"
    )
    query = (
        f"SELECT k, (SELECT count(*) FROM u a WHERE {inner} IN (SELECT b.x FROM u b WHERE b.x > a.x)) FROM t ORDER BY k"
    )
    assert c.execute(query).fetchall() == [(1, 0), (2, 0), (3, 0)]


def test_rows_that_an_outer_row_meets(c: Any) -> None:
    for query in (
        "SELECT (SELECT 8 / x FROM u WHERE u.k = t.k) FROM t",
        "SELECT (SELECT max(8 / x) FROM u WHERE u.k >= t.k) FROM t",
        "SELECT k FROM t WHERE 1 IN (SELECT 8 / x FROM u WHERE u.k = t.k)",
        "SELECT k FROM t WHERE EXISTS (SELECT 1 FROM u WHERE u.k = t.k AND 8 / x > 0)",
    ):
        with pytest.raises(DataError):
            c.execute(query).fetchall()


def test_a_guard_leaves_equalities_to_the_join(c: Any) -> None:
    query = "SELECT k FROM t WHERE EXISTS (SELECT 1 FROM u WHERE u.k = t.k AND 8 / x > 0)"
    plan = "\n".join(row[0] for row in c.execute(f"EXPLAIN {query}").fetchall())
    assert "HashJoin" in plan and "CASE WHEN guard THEN 8 / x > 0" in plan
    average = "SELECT k, (SELECT sum(x) / count(*) FROM u WHERE u.k = t.k) FROM t"
    assert "guard" not in str(c.execute(f"EXPLAIN {average}").fetchall())


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("WITH r AS (SELECT random() AS v FROM u) SELECT count(DISTINCT v) FROM r", 4),
        ("WITH r AS (SELECT random() AS v FROM u) SELECT count(*) FROM r WHERE v <> v OR v - v <> 0", 0),
        ("WITH r AS (SELECT random() AS v FROM u) SELECT count(*) FROM r WHERE v > 0.5 AND v < 0.5", 0),
        ("WITH r AS (SELECT random() AS v FROM u) SELECT count(*) FROM r a JOIN r b ON a.v = b.v", 4),
        ("WITH r AS (SELECT k, random() AS v FROM u) SELECT count(*) FROM r a JOIN r b USING (k) WHERE a.v = b.v", 4),
        ("WITH r AS (SELECT random() AS v FROM u) SELECT count(*) FROM r WHERE v = (SELECT max(v) FROM r)", 1),
        ("WITH r AS (SELECT random() AS v FROM u), s AS (SELECT * FROM r) SELECT count(*) FROM r JOIN s USING (v)", 4),
        ("SELECT count(*) FROM (SELECT random() AS v FROM u) a JOIN (SELECT random() AS v FROM u) b ON a.v = b.v", 0),
    ],
)
def test_a_query_of_with_gives_its_random_values_once(c: Any, query: str, expected: int) -> None:
    assert c.execute(query).fetchone() == (expected,)
