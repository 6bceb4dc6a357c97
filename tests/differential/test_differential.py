"""Some thousands of generated queries, the same in nyala and in a second engine.

NYALA_QUERIES=20000 runs more of them, NYALA_SEED=7 others. A query that differs is made small before it is shown.
"""

from __future__ import annotations

import datetime
import decimal
import os
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import Any

import duckdb
import nyala
import pytest
from differential.oracles import Refused
from differential.query_generator import DUCKDB, SQLITE, QueryGenerator, Table
from differential.reducer import reduce
from examples import cases
from nyala.executor import ExecutionContext
from nyala.executor.statements.statements import run
from nyala.planner import PlannerOptions, plan_query
from nyala.planner.rules import RULES
from nyala.sql import bind, parse

QUERIES = int(os.environ.get("NYALA_QUERIES", cases(1000)))
SEED = int(os.environ.get("NYALA_SEED", "1"))
OTHER_ORDER = "another order"
PER_TEST = 50

TABLES = (
    Table("r", (("k", "int"), ("a", "int"), ("b", "int"), ("s", "text"), ("d", "dec"), ("day", "date"), ("f", "bool"))),
    Table("u", (("k", "int"), ("a", "int"), ("s", "text"), ("day", "date"))),
    Table("v", (("k", "int"), ("s", "text"), ("d", "dec"))),
)
TYPES = {"int": "INT", "text": "VARCHAR", "dec": "DECIMAL(9,2)", "date": "DATE", "bool": "BOOLEAN"}
DAYS = (None, "2024-01-31", "2024-02-29", "2023-12-31", "2024-03-01")
TEXTS = (None, "a", "b", "abc", "", "B c", "zz", "a")
NUMBERS = (None, 0, 1, 2, 2, 3, -1, 5)
DECIMALS = (None, "0.50", "-1.25", "10.00", "3.33")


def _rows(table: Table, count: int) -> list[tuple[Any, ...]]:
    """Few distinct values, many NULLs; the key is the row's number."""

    def cell(name: str, kind: str, row: int, column: int) -> Any:
        if name == "k":
            return row
        place = row * (2 * column + 3) + row // 3 + column
        values = {"int": NUMBERS, "text": TEXTS, "dec": DECIMALS, "date": DAYS, "bool": (True, False, None)}[kind]
        return values[place % len(values)]

    return [tuple(cell(name, kind, row, i) for i, (name, kind) in enumerate(table.columns)) for row in range(count)]


SIZES = {"r": 23, "u": 11, "v": 6}


def fill(execute: Callable[[str], object]) -> None:
    for table in TABLES:
        columns = ", ".join(
            f"{name} {TYPES[kind]}{' PRIMARY KEY' if name == 'k' else ''}" for name, kind in table.columns
        )
        execute(f"CREATE TABLE {table.name} ({columns})")
        rows = [f"({', '.join(_literal(v) for v in row)})" for row in _rows(table, SIZES[table.name])]
        execute(f"INSERT INTO {table.name} VALUES {', '.join(rows)}")


def _literal(value: Any) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    return f"'{value}'" if isinstance(value, str) else str(value)


@pytest.fixture(scope="module", params=["memory", "compacted"])
def ours(request: Any) -> Iterator[Callable[[str], list[tuple[Any, ...]]]]:
    with nyala.connect(":memory:", threads=1) as connection:
        fill(connection.execute)
        if request.param == "compacted":
            for table in TABLES:
                connection.execute(f"COMPACT TABLE {table.name}")
        yield lambda text: connection.execute(text).fetchall()


@pytest.fixture
def seeds(ours: Any, start: int, request: pytest.FixtureRequest) -> range:
    """Other queries for each state of the tables."""
    first = SEED * 1_000_000 + start + (250_000 if "compacted" in request.node.name else 0)
    return range(first, first + PER_TEST // 2)


@pytest.fixture(scope="module")
def duck() -> Iterator[Callable[[str], list[tuple[Any, ...]]]]:
    connection = duckdb.connect(config={"threads": 1})
    connection.execute("SET integer_division = true")
    fill(connection.execute)
    yield lambda text: connection.execute(text).fetchall()
    connection.close()


@pytest.fixture(scope="module")
def lite() -> Iterator[Callable[[str], list[tuple[Any, ...]]]]:
    connection = sqlite3.connect(":memory:")
    connection.execute("PRAGMA case_sensitive_like = ON")
    fill(connection.execute)
    yield lambda text: connection.execute(text).fetchall()
    connection.close()


def _plain(value: Any) -> Any:
    """A value as all engines can give it: numbers by what they are worth, days as text."""
    if isinstance(value, bool):
        return int(value)
    if isinstance(value, decimal.Decimal | float):
        return round(float(value), 9)
    return value.isoformat() if isinstance(value, datetime.date) else value


def answer(run: Callable[[str], Sequence[tuple[Any, ...]]], text: str) -> list[tuple[Any, ...]]:
    rows = [tuple(_plain(value) for value in row) for row in run(text)]
    # The order of the whole, behind all parentheses, is total where there is one; elsewhere any order is right.
    return rows if " ORDER BY 1" in text.rpartition(")")[2] else sorted(rows, key=repr)


def _differs(mine: Callable[[str], Any], other: Callable[[str], Any], text: str) -> str | None:
    """Description of the difference; None if there is none or the other engine refuses the query."""
    try:
        expected = answer(other, text)
    except (duckdb.Error, sqlite3.Error, nyala.Error, Refused):
        return None
    try:
        found = answer(mine, text)
    except nyala.Error as error:
        return f"{type(error).__name__}: {error}"
    if found == expected:
        return None
    missing, surplus = Counter(expected) - Counter(found), Counter(found) - Counter(expected)
    return f"missing {list(missing)[:5]}, surplus {list(surplus)[:5]}" if missing or surplus else OTHER_ORDER


def compare(mine: Callable[[str], Any], other: Callable[[str], Any], queries: Sequence[str]) -> None:
    for text in queries:
        found = _differs(mine, other, text)
        if found is not None:
            # The same sort of failure: with a part less, a query may be refused for being wrong.
            sort = found.partition(" ")[0]
            # With an item of ORDER BY less, any order of equal rows is right.
            small = (
                text
                if found == OTHER_ORDER
                else reduce(text, lambda candidate: (_differs(mine, other, candidate) or "").startswith(sort))
            )
            pytest.fail(f"{small}\n  {_differs(mine, other, small)}\nof\n{text}", pytrace=False)


@pytest.mark.parametrize("start", range(0, QUERIES, PER_TEST))
def test_queries_as_in_duckdb(ours: Any, duck: Any, start: int, seeds: range) -> None:
    compare(ours, duck, [QueryGenerator(seed, TABLES, DUCKDB).query() for seed in seeds])


@pytest.mark.parametrize("start", range(0, QUERIES, PER_TEST))
def test_queries_as_in_sqlite(ours: Any, lite: Any, start: int, seeds: range) -> None:
    compare(ours, lite, [QueryGenerator(seed, TABLES, SQLITE).query() for seed in seeds])


def test_few_queries_are_refused(duck: Any, lite: Any) -> None:
    """The generator would prove nothing with queries that the second engines refuse."""
    for dialect, second in ((DUCKDB, duck), (SQLITE, lite)):
        refused = 0
        for seed in range(200):
            try:
                second(QueryGenerator(seed, TABLES, dialect).query())
            except (duckdb.Error, sqlite3.Error):
                refused += 1
        assert refused <= 10


@pytest.fixture(scope="module")
def planned() -> Iterator[Any]:
    """A store, and for each query its statement, its plan by all rules, and what that gives."""
    with nyala.connect(":memory:", threads=1) as connection:
        fill(connection.execute)
        store, found = connection.session.store, {}
        for seed in range(60):
            text = QueryGenerator(SEED * 1_000_000 + 500_000 + seed, TABLES, DUCKDB).query()
            with suppress(nyala.Error):
                statement = bind(parse(text)[0], store)
                rows = connection.execute(text).fetchall()
                found[text] = statement, plan_query(statement.query, store), rows
        yield connection, found


@pytest.mark.slow
@pytest.mark.parametrize("rule", [rule.name for rule in RULES if not rule.mandatory])
def test_each_rule_is_harmless(planned: Any, rule: str) -> None:
    """The same answers with and without it. Plans that it leaves alone are not executed again."""
    options = PlannerOptions(disabled_rules=frozenset({rule}))
    connection, found = planned
    store = connection.session.store

    def without(text: str) -> list[tuple[Any, ...]]:
        # While a failure is reduced, there are other texts.
        statement, whole, rows = found[text] if text in found else (bind(parse(text)[0], store), None, [])
        plan = plan_query(statement.query, store, options)
        if whole is not None and plan.root == whole.root:
            return list(rows)
        batches = run(statement, ExecutionContext(store, threads=1, snapshot=store.now()), plan).batches
        return [row for batch in batches for row in zip(*(column.to_pylist() for column in batch.columns))]

    def with_all(text: str) -> list[tuple[Any, ...]]:
        rows: list[tuple[Any, ...]] = found[text][2] if text in found else connection.execute(text).fetchall()
        return list(rows)

    compare(without, with_all, list(found))
