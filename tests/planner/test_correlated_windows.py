"""Correlated aggregates over tables that the outer query joins too, compared with DuckDB and SQLite; only eligible ones
become windows."""

from __future__ import annotations

import random
import sqlite3
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from engines_support import same_tables
from nyala.planner.decorrelation import correlated_windows
from nyala.planner.testing import show

ROWS = {
    "t": [(k, (None, 1, 2, 2, 3)[k % 5], (4, None, 1, 0)[k % 4]) for k in range(9)],
    "u": [(k, (1, None, 2, 1, 5)[k % 5], (3, 1, None, 2)[k % 4]) for k in range(14)],
    "v": [(k, (2, 1, None)[k % 3], (None, 0, 4, 1)[k % 4]) for k in range(8)],
}
AGGREGATES = ("min({r}.b)", "max({r}.k)", "sum({r}.b)", "avg({r}.b)", "count(*)", "count({r}.b)")
AGGREGATES += ("sum({r}.k + {o}.k)", "sum({r}.k) + count(*)", "max({r}.k) FILTER (WHERE {r}.b > 1)")
OPERATORS = ("=", "<", ">=", "<>")


@pytest.fixture
def databases(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Any, Any, Any]]:
    """Small tables, with the cost comparison disabled."""
    monkeypatch.setattr(correlated_windows, "LEAST_SHARE", 0.0)
    with same_tables(
        dict.fromkeys(ROWS, "k INT PRIMARY KEY, a INT, b INT"), ROWS, sqlite3.connect(":memory:")
    ) as found:
        yield found


def conditions(chance: random.Random) -> list[str]:
    """Conditions that join the repeated tables {r} and {w} with each other and with the own table {o}."""
    some = ["{r}.a = {o}." + chance.choice("kab"), "{w}.k = {r}." + chance.choice("kab")]
    more = ["{r}.b > 0", "{r}.b <= {o}.b", "{w}.a <> 2", "{w}.b = {o}.k", "{r}.k + {w}.k < 12", "{r}.b IS NOT NULL"]
    return some + chance.sample(more, chance.randrange(3))


def written_otherwise(chance: random.Random, parts: list[str]) -> list[str]:
    """Return the same conditions in another order, with the sides of equalities exchanged."""
    turned = [" = ".join(reversed(part.split(" = "))) if chance.random() < 0.5 else part for part in parts]
    return chance.sample(turned, len(turned))


def query(chance: random.Random) -> str:
    """Write a query: one subquery in three differs from the outer query, one in five has the own table's name."""
    own, first, second = chance.choice(["t", "t", "t", "t", "u"]), "u", chance.choice(["v", "v", "u"])
    parts = conditions(chance)
    inner = written_otherwise(chance, parts)
    change = chance.random()
    if change < 0.15:
        inner.append(chance.choice(["{r}.k > 2", "{w}.b = 1", "{r}.a = {w}.b"]))
    elif change < 0.3:
        inner.pop()
    if chance.random() < 0.3:
        # The outer query's r.a equals a column of the own table; a subquery may name either.
        inner = [part.replace("{o}." + parts[0][-1], "r.a") for part in inner]
    outer = " AND ".join(parts + chance.sample(["o.b = 1", "o.k <> 3", "w.k < 7"], chance.randrange(2)))
    value = chance.choice(AGGREGATES).format(o="o", r="x")
    subquery = (
        f"SELECT {value} FROM {first} AS x, {second} AS y WHERE {' AND '.join(inner).format(o='o', r='x', w='y')}"
    )
    tables = f"{own} AS o, {first} AS r, {second} AS w"
    if chance.random() < 0.3:
        return f"SELECT o.k, r.k, w.k, ({subquery}) FROM {tables} WHERE {outer.format(o='o', r='r', w='w')}"
    compared = f"r.k {chance.choice(OPERATORS)} ({subquery})"
    return f"SELECT o.k, r.k, w.k FROM {tables} WHERE {outer.format(o='o', r='r', w='w')} AND {compared}"


def rows(connection: Any, text: str) -> Counter[tuple[Any, ...]]:
    return Counter(
        tuple(round(float(value), 9) if value is not None else None for value in row)
        for row in connection.execute(text).fetchall()
    )


@pytest.mark.embedded_only("compares the planner's random plans, which are above the Store protocol")
@pytest.mark.slow
def test_random_queries_are_answered_as_by_others(databases: tuple[Any, Any, Any]) -> None:
    ours, *others = databases
    windows = 0
    for seed in range(300):
        text = query(random.Random(seed))
        first, second = (rows(other, text) for other in others)
        assert first == second, text
        assert rows(ours, text) == first, text
        windows += "Window" in "".join(line for (line,) in ours.execute(f"EXPLAIN {text}").fetchall())
    assert 90 <= windows <= 270, windows


OUTER = "SELECT t.k FROM t, v WHERE t.a = v.d AND v.e = 3 AND t.k > "
NO_WINDOW = {
    "another condition of the subquery": OUTER + "(SELECT avg(s.k) FROM t AS s WHERE s.a = v.d AND s.k > 5)",
    "another condition of the outer query": (
        OUTER.replace("v.e = 3", "v.e = 3 AND t.k > 5") + "(SELECT avg(s.k) FROM t AS s WHERE s.a = v.d)"
    ),
    "another column": OUTER + "(SELECT avg(s.k) FROM t AS s WHERE s.k = v.d)",
    "another table": OUTER + "(SELECT avg(s.b) FROM u AS s WHERE s.c = v.d)",
    "different values": OUTER + "(SELECT count(DISTINCT s.k) FROM t AS s WHERE s.a = v.d)",
    "a row compared with its own kind": "SELECT k FROM t WHERE k > (SELECT avg(s.k) FROM t AS s WHERE s.a = t.a)",
    "one table for two": (
        "SELECT t.k FROM t, v WHERE t.a = v.d AND v.e = 3 "
        "AND t.k > (SELECT avg(s.k) FROM t AS s, t AS w WHERE s.a = v.d AND w.a = v.d)"
    ),
    "a row compared with all others": (
        OUTER.replace("v.e = 3", "v.e = 3 AND t.k < t.k * 2")
        + "(SELECT avg(s.k) FROM t AS s WHERE s.a = v.d AND s.k < t.k * 2)"
    ),
    "own rows without a key": (
        "SELECT t.k FROM t, (SELECT e FROM v UNION ALL SELECT d FROM v) AS w WHERE t.a = w.e "
        "AND t.k > (SELECT avg(s.k) FROM t AS s WHERE s.a = w.e)"
    ),
    "an outer join": (
        "SELECT t.k FROM v LEFT JOIN t ON t.a = v.d WHERE v.e = 3 AND v.d > "
        "(SELECT count(s.k) FROM t AS s WHERE s.a = v.d)"
    ),
    "more rows than the subquery reads": (
        "SELECT t.k FROM t, u WHERE t.a = u.b AND t.k > (SELECT avg(s.k) FROM t AS s WHERE s.a = u.b)"
    ),
}


@pytest.mark.parametrize("name", NO_WINDOW)
def test_it_is_joined_where_a_window_would_be_wrong_or_dear(name: str) -> None:
    assert "Window" not in show(NO_WINDOW[name], ["pushdown_predicates"])
