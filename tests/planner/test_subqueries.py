"""Random correlated subqueries, at all positions of an expression, with the results of DuckDB and SQLite.

The tables are small and full of NULLs and duplicates, so that a join that loses, doubles or mixes up rows is detected.
DuckDB decorrelates everything, as nyala does; SQLite executes each subquery again for each row and so cannot make the
same mistakes.
"""

from __future__ import annotations

import random
import sqlite3
from collections import Counter
from collections.abc import Iterator
from typing import Any

import duckdb
import nyala
import pytest
from engines_support import same_tables
from nyala.errors import CardinalityViolation, GroupingError

ROWS = {
    "t": [(k, (None, 1, 2, 2, 3)[k % 5], (4, None, 1, 0)[k % 4]) for k in range(9)],
    "u": [(k, (1, None, 2, 1, 5)[k % 5], (3, 1, None, 2)[k % 4]) for k in range(8)],
    "v": [(k, (2, 1, None)[k % 3], (None, 0, 4, 1)[k % 4]) for k in range(6)],
}
OPERATORS = ("=", "=", "=", "<", ">", "<>", "<=")
AGGREGATES = ("count(*)", "count({})", "sum({})", "min({})", "max({})", "count(DISTINCT {})")


@pytest.fixture(scope="module")
def databases() -> Iterator[tuple[Any, Any, Any]]:
    with same_tables(
        dict.fromkeys(ROWS, "k INT PRIMARY KEY, a INT, b INT"), ROWS, sqlite3.connect(":memory:")
    ) as found:
        yield found


class Queries:
    """Writes random queries. An alias is a table's name and a number; `outer` are the visible columns."""

    def __init__(self, seed: int):
        self._random = random.Random(seed)
        self._aliases = 0

    def query(self) -> str:
        """Write one query with a unique order, so that every column is in the multiset that is compared."""
        table, alias = self._table()
        own = self._columns(alias)
        kind = self._random.randrange(6)
        if kind == 0:
            return f"SELECT {alias}.k, {self._scalar(own, 2)} FROM {table} AS {alias}"
        if kind == 1:
            return f"SELECT {alias}.k FROM {table} AS {alias} WHERE {self._condition(own, 2)}"
        if kind == 2:
            other_table, other = self._table()
            side = self._random.choice(["LEFT", "INNER", "RIGHT"])
            on = self._condition(own + self._columns(other), 1)
            link = f"{alias}.a = {other}.{self._column()}"
            joined = f"{table} AS {alias} {side} JOIN {other_table} AS {other} ON {link} AND {on}"
            return f"SELECT {alias}.k, {other}.k FROM {joined}"
        if kind == 3:
            group = f"{alias}.a"
            having = f" HAVING {self._condition([group], 2)}" if self._random.random() < 0.5 else ""
            value = self._scalar([group], 2)
            return f"SELECT {group}, count(*), {value} FROM {table} AS {alias} GROUP BY {group}{having}"
        if kind == 4:
            return f"SELECT sum({self._scalar(own, 2)}) FROM {table} AS {alias} WHERE {self._condition(own, 1)}"
        return (
            f"SELECT {alias}.k, CASE WHEN {self._condition(own, 2)} THEN {self._scalar(own, 1)} ELSE {alias}.b END "
            f"FROM {table} AS {alias} ORDER BY {self._scalar(own, 1)}, {alias}.k"
        )

    def _table(self) -> tuple[str, str]:
        self._aliases += 1
        table = self._random.choice(list(ROWS))
        return table, f"{table}{self._aliases}"

    def _column(self) -> str:
        return self._random.choice("kab")

    def _columns(self, alias: str) -> list[str]:
        return [f"{alias}.{name}" for name in "kab"]

    def _value(self, seen: list[str]) -> str:
        column = self._random.choice(seen)
        return self._random.choice([column, column, column, f"{column} + 1", str(self._random.randrange(4))])

    def _condition(self, seen: list[str], depth: int) -> str:
        kind = self._random.randrange(10 if depth else 3)
        value = self._value(seen)
        word = self._random.choice(["", "NOT "])
        if kind == 0:
            return f"{value} {self._random.choice(OPERATORS)} {self._value(seen)}"
        if kind == 1:
            return f"{value} IS {word}NULL"
        if kind == 2:
            link = self._random.choice(["AND", "OR"])
            return f"({self._condition(seen, max(0, depth - 1))} {link} {self._condition(seen, max(0, depth - 1))})"
        if kind in (3, 4):
            return f"{word}EXISTS ({self._rows(seen, depth - 1, self._random.choice(['1', None]))})"
        if kind in (5, 6):
            return f"{value} {word}IN ({self._rows(seen, depth - 1)})"
        if kind == 7:
            return f"NOT ({value} IN ({self._rows(seen, depth - 1)}) AND {self._condition(seen, 0)})"
        if kind == 8:
            return f"{self._scalar(seen, depth - 1)} {word}BETWEEN {value} AND {self._value(seen)}"
        return f"{value} {self._random.choice(OPERATORS)} {self._scalar(seen, depth - 1)}"

    def _from(self, seen: list[str], depth: int) -> tuple[str, list[str]]:
        """FROM and WHERE of a subquery, and its own columns."""
        table, alias = self._table()
        own = self._columns(alias)
        source = f"{table} AS {alias}"
        kind = self._random.randrange(8)
        if kind == 0:
            other_table, other = self._table()
            side = self._random.choice(["LEFT", "INNER", "RIGHT", "FULL"])
            # DuckDB does not support an outer reference in the ON of a FULL join.
            left = self._random.choice([f"{alias}.a", *(seen if side in ("LEFT", "INNER") else [])])
            source += f" {side} JOIN {other_table} AS {other} ON {left} = {other}.{self._column()}"
            own += self._columns(other)
        elif kind == 1 and depth:
            inner, columns = self._from(seen, depth - 1)
            picked = self._random.sample(columns, 2)
            distinct = self._random.choice(["", "DISTINCT "])
            source = f"(SELECT {distinct}{picked[0]} AS k, {picked[1]} AS a, 1 AS b FROM {inner}) AS {alias}"
        elif kind == 2 and depth:
            sides = [self._from(seen, 0) for _ in range(2)]
            parts = [f"SELECT {c[0]} AS k, {c[1]} AS a, {c[2]} AS b FROM {text}" for text, c in sides]
            operation = self._random.choice(["UNION", "UNION ALL", "INTERSECT", "EXCEPT"])
            source = f"({parts[0]} {operation} {parts[1]}) AS {alias}"
        conditions = [f"{self._value(own)} {self._random.choice(OPERATORS)} {self._value(seen)}"]
        if self._random.random() < 0.5:
            conditions.append(self._condition(own + seen, depth))
        return f"{source} WHERE {' AND '.join(conditions)}", own

    def _rows(self, seen: list[str], depth: int, item: str | None = None) -> str:
        """A query of one column and any number of rows."""
        source, own = self._from(seen, depth)
        value = item or self._value(own)
        kind = self._random.randrange(6)
        if kind == 0:
            order = ", ".join(own)
            offset = self._random.choice(["", " OFFSET 1"])
            return f"SELECT {value} FROM {source} ORDER BY {order} LIMIT {self._random.randrange(1, 3)}{offset}"
        if kind == 1:
            return f"SELECT {self._aggregate(own)} FROM {source} GROUP BY {self._random.choice(own)}"
        return f"SELECT {self._random.choice(['', '', 'DISTINCT '])}{value} FROM {source}"

    def _scalar(self, seen: list[str], depth: int) -> str:
        """A query of one column and at most one row."""
        source, own = self._from(seen, depth)
        if self._random.random() < 0.3:
            order = ", ".join(f"{column}{self._random.choice(['', ' DESC'])} NULLS LAST" for column in own)
            return f"(SELECT {self._value(own)} FROM {source} ORDER BY {order} LIMIT 1)"
        return f"(SELECT {self._aggregate(own)} FROM {source})"

    def _aggregate(self, own: list[str]) -> str:
        return self._random.choice(AGGREGATES).format(self._random.choice(own))


def answer(connection: Any, text: str) -> Counter[tuple[Any, ...]] | None:
    try:
        return Counter(tuple(row) for row in connection.execute(text).fetchall())
    except (duckdb.Error, sqlite3.Error):
        return None


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(12))
def test_random_subqueries_are_answered_as_by_others(databases: tuple[Any, Any, Any], seed: int) -> None:
    ours, *others = databases
    compared = 0
    for number in range(25):
        text = Queries(1000 * seed + number).query()
        first, second = (answer(other, text) for other in others)
        # If the two differ (one of them has a bug, or an order leaves ties), the query is skipped.
        if (first is None and second is None) or (first is not None and second is not None and first != second):
            continue
        compared += 1
        assert answer(ours, text) == (second if first is None else first), text
    assert compared >= 12


MOST = "(SELECT max(u.b) FROM u WHERE u.a = t.a)"
CASES = {
    "a row compared with a query's row": "SELECT k FROM t WHERE (a, b) = (SELECT v.a, v.b FROM v WHERE v.k = t.k)",
    "rows in rows": "SELECT k FROM t WHERE (a, b) NOT IN (SELECT u.a, u.b FROM u WHERE u.k < t.k)",
    "a subquery over both sides in ON": (
        "SELECT t.k, u.k FROM t LEFT JOIN u ON EXISTS (SELECT 1 FROM v WHERE v.a = t.a + u.b)"
    ),
    "the outer side of a FULL JOIN": "SELECT t.k, u.k FROM t FULL JOIN u ON t.k = u.k AND t.b IN (SELECT v.a FROM v)",
    "two levels at once": (
        "SELECT k, (SELECT max((SELECT count(*) FROM v WHERE v.a = t.a AND v.k < u.k)) FROM u WHERE u.a = t.a) FROM t"
    ),
    "a window": (
        "SELECT k, (SELECT max(n) FROM (SELECT row_number() OVER (ORDER BY u.k) AS n FROM u WHERE u.a < t.a) AS s) "
        "FROM t"
    ),
    "a list of values": "SELECT k, (SELECT max(x) FROM (VALUES (t.a), (t.b), (1)) AS w(x)) FROM t",
    "a query with a name, used twice": (
        "SELECT k, (WITH c AS (SELECT u.k AS n FROM u WHERE u.a = t.a) SELECT count(*) FROM c AS x, c AS y) FROM t"
    ),
    "ANY": "SELECT k FROM t WHERE a > ANY (SELECT u.b FROM u WHERE u.k > t.k)",
    "ALL": "SELECT k FROM t WHERE a <= ALL (SELECT u.b FROM u WHERE u.k > t.k)",
    "rows of VALUES": "SELECT * FROM (VALUES ((SELECT max(k) FROM t)), (1)) AS w(x)",
    "GROUP BY an alias": f"SELECT {MOST} AS m, count(*) FROM t GROUP BY m",
    "GROUP BY a position": f"SELECT {MOST} + 1, count(*) FROM t GROUP BY 1",
    "GROUP BY ALL": f"SELECT {MOST} AS m, a, count(*) FROM t GROUP BY ALL",
    "GROUP BY the same text": f"SELECT {MOST} AS m, sum({MOST}) FROM t GROUP BY {MOST} HAVING {MOST} > 1",
    "GROUP BY EXISTS": "SELECT EXISTS (SELECT 1 FROM u WHERE u.a = t.a) AS e, count(*) FROM t GROUP BY e",
    "GROUP BY and ORDER BY": f"SELECT {MOST} AS m, {MOST} AS n FROM t GROUP BY m ORDER BY {MOST}",
    "GROUP BY ROLLUP": f"SELECT {MOST} AS m, a, count(*) FROM t GROUP BY ROLLUP (m, a)",
}


@pytest.mark.parametrize("name", CASES)
def test_rarer_places(databases: tuple[Any, Any, Any], name: str) -> None:
    ours, *others = databases
    expected = next(found for other in others if (found := answer(other, CASES[name])) is not None)
    assert answer(ours, CASES[name]) == expected


def test_equal_texts_with_parameters_are_two_groups(databases: tuple[Any, Any, Any]) -> None:
    ours = databases[0]
    least = "(SELECT max(u.b) FROM u WHERE u.a = t.a AND u.k > ?)"
    with pytest.raises(GroupingError):
        ours.execute(f"SELECT {least} AS m FROM t GROUP BY {least}", (0, 5))
    found = ours.execute(f"SELECT {least} AS m, count(*) FROM t GROUP BY m", (1,)).fetchall()
    assert Counter(found) == answer(databases[1], f"SELECT {least} AS m, count(*) FROM t GROUP BY 1".replace("?", "1"))


def test_a_scalar_subquery_of_two_rows_is_an_error(databases: tuple[Any, Any, Any]) -> None:
    with pytest.raises(nyala.Error, match="scalar subquery"):
        databases[0].execute("SELECT k, (SELECT u.k FROM u WHERE u.a = t.a) FROM t").fetchall()


def test_update_and_delete_take_correlated_subqueries() -> None:
    connection = nyala.connect(":memory:")
    connection.execute("CREATE TABLE t (k INT PRIMARY KEY, a INT)")
    connection.execute("INSERT INTO t VALUES (1, 1), (2, 1), (3, NULL)")
    connection.execute("UPDATE t SET a = (SELECT x.k FROM t AS x WHERE x.a = t.a ORDER BY x.k DESC LIMIT 1)")
    assert sorted(connection.execute("SELECT * FROM t").fetchall()) == [(1, 2), (2, 2), (3, None)]
    connection.execute("DELETE FROM t WHERE EXISTS (SELECT 1 FROM t AS x WHERE x.a = t.a AND x.k <> t.k OFFSET 0)")
    assert connection.execute("SELECT * FROM t").fetchall() == [(3, None)]


@pytest.mark.parametrize(
    "text",
    [
        "SELECT t.k, (SELECT u.k FROM u WHERE u.k = u.k - 1 + t.k) FROM t WHERE t.k = 1",
        "SELECT t.k, (SELECT x.b FROM u AS x JOIN t AS y ON y.k = y.a WHERE x.k = t.k) FROM t",
    ],
)
def test_a_key_that_equals_something_of_its_own_row_is_no_proof_of_one_row(
    databases: tuple[Any, ...], text: str
) -> None:
    with pytest.raises(CardinalityViolation):
        databases[0].execute(text).fetchall()
