"""Random aggregations over joins, aggregated early whenever possible: the results equal those without the rule, and
DuckDB's.

The tables are small and full of NULLs, duplicates and rows without a partner. Exact values have the same type and all
digits, averages included; doubles may differ in their last digits.
"""

from __future__ import annotations

import importlib
import math
import random
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pytest
from engines_support import same_tables
from examples import cases

RULE = importlib.import_module("nyala.planner.rules.aggregate_early")

COLUMNS = "k INT PRIMARY KEY, a INT, b INT, m DECIMAL(9, 2), x DOUBLE, n BIGINT, s VARCHAR"
ROWS = {
    "t": [
        (k, (None, 1, 2, 2, 3)[k % 5], k % 3, (None, "1.25", "-0.50")[k % 3], k * 0.1, 10**15 * (k % 4), "pqr"[k % 3])
        for k in range(40)
    ],
    "u": [
        (k, (1, None, 2, 1, 5)[k % 5], (None, 1, 0)[k % 3], ("3.10", None)[k % 2], k * 1.5, None, (None, "p")[k % 2])
        for k in range(9)
    ],
    "v": [(k, (2, 1, None)[k % 3], k % 2, "0.01", 0.5, k, "r") for k in range(5)],
}
FUNCTIONS = ("sum", "sum", "avg", "avg", "count", "min", "max")


@pytest.fixture(scope="module")
def databases() -> Iterator[tuple[Any, Any]]:
    with same_tables(dict.fromkeys(ROWS, COLUMNS), ROWS) as found:
        yield found


class Queries:
    """Writes random aggregations over two or three joined tables."""

    def __init__(self, seed: int):
        self._random = random.Random(seed)

    def query(self) -> str:
        tables = self._random.sample(list(ROWS), self._random.choice((2, 2, 3)))
        source, seen = tables[0], tables[:1]
        for table in tables[1:]:
            kind = self._random.choice(("JOIN", "JOIN", "LEFT JOIN"))
            link = f"{self._random.choice(seen)}.{self._pick('ab')} = {table}.{self._pick('kab')}"
            extra = self._random.choice(("", "", f" AND {table}.b > 0", f" AND {seen[0]}.k < 30"))
            source += f" {kind} {table} ON {link}{extra}"
            seen.append(table)
        groups = [self._group(tables) for _ in range(self._random.choice((0, 1, 1, 2, 3)))]
        calls = [self._call(tables) for _ in range(self._random.choice((1, 2, 3)))]
        if not groups or self._random.random() < 0.8:
            where = f" WHERE {self._condition(tables)}" if self._random.random() < 0.4 else ""
        else:
            where, calls = "", []
        listed = ", ".join(str(i + 1) for i in range(len(groups)))
        if len(groups) > 1 and self._random.random() < 0.2:
            listed = f"ROLLUP ({', '.join(groups)})"
        having = " HAVING count(*) > 1" if groups and self._random.random() < 0.2 else ""
        by = f" GROUP BY {listed}" if groups else ""
        return f"SELECT {', '.join((*groups, *calls))} FROM {source}{where}{by}{having}"

    def _pick(self, names: str) -> str:
        return self._random.choice(names)

    def _group(self, tables: list[str]) -> str:
        table = self._random.choice(tables)
        return self._random.choice((f"{table}.a", f"{table}.b", f"{table}.s", f"{table}.a + {tables[0]}.b"))

    def _condition(self, tables: list[str]) -> str:
        table = self._random.choice(tables)
        if self._random.random() < 0.2:
            return f"{table}.a IN (SELECT b FROM v WHERE k > 1)"
        return self._random.choice((f"{table}.b = 1", f"{table}.s = 'p'", f"{table}.k < 0", f"{table}.a IS NOT NULL"))

    def _call(self, tables: list[str]) -> str:
        if self._random.random() < 0.2:
            return "count(*)"
        table = self._random.choice(tables)
        function, value = self._random.choice(FUNCTIONS), f"{table}.{self._pick('kabmxn')}"
        if self._random.random() < 0.2:
            value = f"{value} * 2 - {table}.k"
        if self._random.random() < 0.3:
            default = self._random.choice(("", " ELSE 0", " ELSE NULL", f" ELSE {table}.k"))
            value = f"CASE WHEN {self._random.choice(tables)}.b = 1 THEN {value}{default} END"
        chosen = f" FILTER (WHERE {self._random.choice(tables)}.b = 1)" if self._random.random() < 0.2 else ""
        return f"{function}({value}){chosen}"


def _sorted(rows: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    return sorted(rows, key=lambda row: [(c is None, round(float(c), 5) if _is_number(c) else str(c)) for c in row])


def _is_number(cell: Any) -> bool:
    return isinstance(cell, (int, float, Decimal))


def _same(first: Any, second: Any) -> bool:
    if isinstance(first, float) or isinstance(second, float):
        return first is not None and second is not None and math.isclose(first, second, rel_tol=1e-9, abs_tol=1e-9)
    return bool(first == second)


@pytest.mark.embedded_only("compares the planner's random plans, which are above the Store protocol")
@pytest.mark.parametrize("seed", range(cases(12)))
def test_random_aggregations(databases: tuple[Any, Any], seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    ours, theirs = databases
    queries = Queries(seed)
    moved = 0
    for _ in range(25):
        query = queries.query()
        expected = ours.execute(f"{query} -- late")
        types, rows = expected.description, _sorted(expected.fetchall())
        peer = _sorted(theirs.execute(query).fetchall())
        with monkeypatch.context() as patch:
            for name in ("LEAST_ROWS", "LEAST_REDUCTION", "LEAST_GAIN"):
                patch.setattr(RULE, name, 1e-9)
            drawn = "\n".join(row[0] for row in ours.execute(f"EXPLAIN VERBOSE {query} -- early").fetchall())
            moved += "-- aggregate_early" in drawn
            early = ours.execute(f"{query} -- early")
            assert early.description == types, query
            found = _sorted(early.fetchall())
        assert len(found) == len(rows) == len(peer), query
        for a, b, c in zip(found, rows, peer, strict=True):
            assert all(map(_same, a, b)), f"{query}\n{a}\n{b}\n{drawn}"
            assert all(map(_same, a, c)), f"{query}\n{a}\n{c}\n{drawn}"
    assert moved > 5
