"""Rarer forms of standard SQL with PostgreSQL 15's results; DuckDB is compared too if it has the form with the same
meaning."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from typing import Any

import duckdb
import nyala
import pytest
from nyala.errors import CardinalityViolation, Error, GroupingError, SqlSyntaxError, UnknownColumn

TABLES = (
    "CREATE TABLE t (k INT PRIMARY KEY, a INT, b VARCHAR, d DATE, x BOOLEAN)",
    "INSERT INTO t VALUES (1, 1, 'a', DATE '0001-01-01', TRUE), (2, NULL, 'b', DATE '9999-12-31', FALSE), "
    "(3, 0, 'c', DATE '2020-01-01', NULL)",
    "CREATE TABLE u (k INT, g INT, y INT, PRIMARY KEY (k, g))",
    "INSERT INTO u VALUES (1, 1, 0), (1, 2, 4), (2, 1, 0)",
)
Rows = list[Any]


@pytest.fixture(scope="module", params=["memory", "compacted"])
def c(request: Any) -> Iterator[Any]:
    with nyala.connect(":memory:", threads=1) as connection:
        for statement in TABLES:
            connection.execute(statement)
        if request.param == "compacted":
            connection.execute("COMPACT TABLE t")
            connection.execute("COMPACT TABLE u")
        yield connection


@pytest.fixture(scope="module")
def duck() -> Iterator[Any]:
    connection = duckdb.connect(config={"threads": 1})
    for statement in TABLES:
        connection.execute(statement)
    yield connection
    connection.close()


def _first(rows: list[tuple[Any, ...]]) -> Rows:
    return [row[0] if len(row) == 1 else row for row in rows]


def _error(connection: Any, query: str, kind: type[Error]) -> str:
    with pytest.raises(kind) as caught:
        connection.execute(query).fetchall()
    return str(caught.value)


# ---- texts -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("SELECT 'a'\n 'b'", "ab"),
        ("SELECT 'a' -- one\n  'b'\r\n\n'c' || 'd'", "abcd"),
        ("SELECT 'it''s'\n'''x'", "it's'x"),
        ("SELECT DATE '2020'\n'-01-31'", datetime.date(2020, 1, 31)),
        ("SELECT 'bc' IN ('b'\n'c', 'd')", True),
        ("SELECT x'61'\n'62'", b"ab"),
        ("\ufeffSELECT 1", 1),
        ("\ufeff-- one\nSELECT '\ufeff'", "\ufeff"),
        ("SELECT 1;\n\ufeffSELECT 2", 2),
    ],
)
def test_texts_in_several_parts_and_byte_order_marks(c: Any, query: str, expected: Any) -> None:
    assert c.execute(query).fetchall() == [(expected,)]


@pytest.mark.parametrize(
    "query", ["SELECT 'a' 'b'", "SELECT 'a' /* \n */ 'b'", "SELECT 'a'\n/* */ 'b'", "SELECT x'61' '62'"]
)
def test_texts_side_by_side(c: Any, query: str) -> None:
    assert "|| joins them" in _error(c, query, SqlSyntaxError)
    assert "\ufeff" in _error(c, "SELECT \ufeffa", UnknownColumn)


# ---- rows ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("query", "expected", "as_in_duckdb"),
    [
        ("SELECT (a, b) IS DISTINCT FROM (1, 'a') FROM t ORDER BY k", [False, True, True], True),
        ("SELECT (a, b) IS NOT DISTINCT FROM (1, 'a') FROM t ORDER BY k", [True, False, False], True),
        ("SELECT k FROM t WHERE (a, b) IS NOT DISTINCT FROM (NULL, 'b')", [2], True),
        ("SELECT u.g FROM t JOIN u ON (t.k, t.a) IS NOT DISTINCT FROM (u.k, u.g)", [1], True),
        (
            "SELECT (a, x) IS NULL, (a, b) IS NOT NULL FROM t ORDER BY k",
            [(False, True), (False, False), (False, True)],
            False,
        ),
        ("SELECT (a, k) BETWEEN (0, 0) AND (1, 0) FROM t ORDER BY k", [False, None, True], False),
        ("SELECT (a, k) NOT BETWEEN SYMMETRIC (1, 0) AND (0, 0) FROM t ORDER BY k", [True, None, False], False),
        ("SELECT CASE (a, b) WHEN (1, 'a') THEN 1 WHEN (0, 'c') THEN 2 END FROM t ORDER BY k", [1, None, 2], True),
    ],
)
def test_rows_of_values(c: Any, duck: Any, query: str, expected: Rows, as_in_duckdb: bool) -> None:
    assert _first(c.execute(query).fetchall()) == expected
    if as_in_duckdb:
        assert _first(duck.execute(query).fetchall()) == expected


# ---- truths ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("SELECT min(x), max(x), min(x) FILTER (WHERE k > 1) FROM t", [(False, True, False)]),
        ("SELECT min(x), max(x) FROM t WHERE k = 3", [(None, None)]),
        (
            "SELECT b, min(x), max(x) FROM t GROUP BY b ORDER BY b",
            [("a", True, True), ("b", False, False), ("c", None, None)],
        ),
        (
            "SELECT max(x) OVER (ORDER BY k), min(x) OVER (ORDER BY k) FROM t ORDER BY k",
            [(True, True), (True, False), (True, False)],
        ),
        ("SELECT min(DISTINCT x), max(k > 2) FROM t", [(False, True)]),
        ("SELECT max_by(b, x), min_by(b, x) FROM t", [("a", "b")]),
    ],
)
def test_extremes_of_truths(c: Any, duck: Any, query: str, expected: Rows) -> None:
    """DuckDB and SQLite have them, PostgreSQL has only bool_and and bool_or."""
    assert c.execute(query).fetchall() == expected == duck.execute(query).fetchall()


# ---- (SELECT NULL) ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("3 = (SELECT NULL)", None),
        ("3 = ANY (SELECT NULL)", None),
        ("3 <> ALL (SELECT NULL)", None),
        ("3 IN (SELECT NULL)", None),
        ("(3, 4) IN (SELECT NULL, 4)", None),
        ("3 + (SELECT NULL)", None),
        ("DATE '2020-01-31' + (SELECT NULL)", None),
        ("- (SELECT NULL)", None),
        ("NOT (SELECT NULL)", None),
        ("3 BETWEEN (SELECT NULL) AND 5", None),
        ("3 = (VALUES (NULL))", None),
        ("3 = (SELECT NULL LIMIT 0)", None),
        ("coalesce((SELECT NULL), 3)", 3),
        ("CASE WHEN TRUE THEN (SELECT NULL) ELSE 3 END", None),
        ("(SELECT NULL) = (SELECT NULL)", None),
        ("(SELECT NULL) || 'a'", None),
        ("(SELECT NULL) IS NULL", True),
    ],
)
def test_a_subquery_that_says_null(c: Any, duck: Any, value: str, expected: Any) -> None:
    """As in DuckDB. PostgreSQL assigns the type text, which compares with nothing else."""
    assert c.execute(f"SELECT {value}").fetchall() == [(expected,)] == duck.execute(f"SELECT {value}").fetchall()


def test_nulls_of_more_rows_than_one(c: Any) -> None:
    _error(c, "SELECT 3 = (SELECT NULL FROM t)", CardinalityViolation)
    _error(c, "SELECT 3 + (SELECT NULL FROM t)", CardinalityViolation)


# ---- groups ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("SELECT k, a, b, count(*) FROM t GROUP BY k ORDER BY k", [(1, 1, "a", 1), (2, None, "b", 1), (3, 0, "c", 1)]),
        (
            "SELECT t.b, sum(y) FROM t LEFT JOIN u ON u.k = t.k GROUP BY t.k ORDER BY 1",
            [("a", 4), ("b", 0), ("c", None)],
        ),
        (
            "SELECT t.a, u.k, count(*) FROM u LEFT JOIN t ON t.k = u.k + 1 GROUP BY t.k, u.k ORDER BY 1, 2",
            [(0, 2, 1), (None, 1, 2)],
        ),
        ("SELECT y FROM u GROUP BY g, k ORDER BY 1", [0, 0, 4]),
        ("SELECT k, b FROM t GROUP BY k HAVING a IS NOT NULL ORDER BY d", [(1, "a"), (3, "c")]),
        (
            "SELECT k, y, count(*) FROM u GROUP BY k, g, ROLLUP (y % 2) ORDER BY 1, 2",
            [(1, 0, 1), (1, 0, 1), (1, 4, 1), (1, 4, 1), (2, 0, 1), (2, 0, 1)],
        ),
        ("SELECT k, (SELECT count(*) FROM u WHERE u.k = t.a) FROM t GROUP BY k ORDER BY 1", [(1, 2), (2, 0), (3, 0)]),
        ("SELECT k, row_number() OVER (ORDER BY a, k) FROM t GROUP BY k ORDER BY 1", [(1, 2), (2, 3), (3, 1)]),
        ("SELECT a + k AS s FROM t GROUP BY k ORDER BY a + k, k", [2, 3, None]),
        (
            "SELECT t.a, v.b FROM t JOIN t v ON t.k = v.k GROUP BY t.k, v.k ORDER BY 1",
            [(0, "c"), (1, "a"), (None, "b")],
        ),
        ("SELECT DISTINCT a FROM t GROUP BY k ORDER BY a", [0, 1, None]),
    ],
)
def test_a_primary_key_in_group_by_frees_the_other_columns(c: Any, query: str, expected: Rows) -> None:
    assert _first(c.execute(query).fetchall()) == expected


@pytest.mark.parametrize(
    "query",
    [
        "SELECT y FROM u GROUP BY k",
        "SELECT k, g, y FROM u GROUP BY GROUPING SETS ((k, g), (k))",
        "SELECT s.a FROM (SELECT * FROM t) s GROUP BY s.k",
        "SELECT a FROM t GROUP BY k + 1",
        "SELECT t.a, v.b FROM t JOIN t v ON t.k = v.k GROUP BY t.k",
        "SELECT a FROM t FOR SYSTEM_TIME BETWEEN TIMESTAMP '2020-01-01 00:00:00' AND now() GROUP BY k",
    ],
)
def test_a_part_of_a_primary_key_frees_none(c: Any, query: str) -> None:
    assert "must be in GROUP BY" in _error(c, query, GroupingError)


def test_the_key_of_a_table_that_numbers_its_rows(c: Any) -> None:
    c.execute("CREATE TABLE n (g INT NON UNIQUE PRIMARY KEY, v INT)")
    c.execute("INSERT INTO n VALUES (1, 5), (1, 6)")
    _error(c, "SELECT v FROM n GROUP BY g", GroupingError)
    assert _first(c.execute("SELECT v FROM n GROUP BY g, auto_incrementing_id ORDER BY 1").fetchall()) == [5, 6]
    c.execute("DROP TABLE n")


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("SELECT (SELECT sum(t.a)) FROM t", [1]),
        ("SELECT (SELECT sum(t.a) FROM u LIMIT 1) FROM t", [1]),
        (
            "SELECT b, (SELECT count(*) FROM u WHERE u.k <= max(t.k)) FROM t GROUP BY b ORDER BY 1",
            [("a", 2), ("b", 3), ("c", 3)],
        ),
        (
            "SELECT b, (SELECT sum(u.y + max(t.k)) FROM u) FROM t GROUP BY b ORDER BY 1",
            [("a", 7), ("b", 10), ("c", 13)],
        ),
        ("SELECT b, (SELECT sum(t.k) + count(*) FROM u) FROM t GROUP BY b ORDER BY 1", [("a", 4), ("b", 5), ("c", 6)]),
        ("SELECT b FROM t GROUP BY b HAVING EXISTS (SELECT 1 FROM u WHERE u.k = max(t.k)) ORDER BY b", ["a", "b"]),
        ("SELECT b FROM t GROUP BY b ORDER BY (SELECT -max(t.k))", ["c", "b", "a"]),
        ("SELECT (SELECT max(s.m) FROM (SELECT max(t.k) AS m) s) FROM t", [3]),
        ("SELECT (SELECT (SELECT max(t.k))) FROM t", [3]),
        ("SELECT (SELECT (SELECT max(u.y)) FROM u) FROM t", [4, 4, 4]),
        ("SELECT (SELECT max(u.y) FROM u WHERE u.k = (SELECT min(t.k))) FROM t", [4]),
        ("SELECT (SELECT string_agg(t.b, ',' ORDER BY t.k)) FROM t", ["a,b,c"]),
        ("SELECT (SELECT count(t.a) FILTER (WHERE t.k > 1)) FROM t", [1]),
        ("SELECT (SELECT count(t.a) FILTER (WHERE u.k > 1) FROM u) FROM t ORDER BY 1", [0, 1, 1]),
        ("SELECT (SELECT sum(t.a + u.y) FROM u) FROM t ORDER BY 1", [4, 7, None]),
        ("SELECT (SELECT count(DISTINCT t.a)), k % 2 FROM t GROUP BY k % 2 ORDER BY 2", [(0, 0), (2, 1)]),
        ("SELECT max(k), (SELECT max(t.k)) = max(k) FROM t", [(3, True)]),
    ],
)
def test_aggregates_of_the_outer_query(c: Any, duck: Any, query: str, expected: Rows) -> None:
    assert _first(c.execute(query).fetchall()) == expected
    assert _first(duck.execute(query).fetchall()) == expected


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("SELECT b FROM t WHERE (SELECT max(t.k)) > 1", "max is not allowed in WHERE"),
        ("SELECT sum((SELECT max(t.k))) FROM t", "max is inside sum"),
        ("SELECT 1 FROM t, LATERAL (SELECT max(t.k)) s (m)", "is not allowed in FROM"),
    ],
)
def test_aggregates_that_no_query_computes(c: Any, query: str, message: str) -> None:
    assert message in _error(c, query, GroupingError)


@pytest.mark.parametrize(
    "query",
    [
        "SELECT count(*) AS n FROM t HAVING n > 1",
        "SELECT k + 1 AS n FROM t GROUP BY k HAVING n > 1",
        "SELECT k AS n FROM t WHERE n > 1",
        "SELECT k AS n, n + 1 FROM t",
        "SELECT 1 AS n, n + 1",
    ],
)
def test_names_of_the_select_list_are_not_seen_before_it(c: Any, query: str) -> None:
    assert "n does not exist in FROM; it is a name of the select list" in _error(c, query, UnknownColumn)
    assert "select list" not in _error(c, "SELECT n AS n FROM t", UnknownColumn)
