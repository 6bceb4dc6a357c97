"""Generated statements that change tables; afterwards the tables hold the same as in a second engine.

NYALA_STATEMENTS=2000 runs more of them, NYALA_SEED=7 others.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import duckdb
import nyala
import pytest
from differential.query_generator import DUCKDB, SQLITE, Dialect
from differential.statement_generator import StatementGenerator
from differential.test_differential import SIZES, TABLES, answer, fill
from examples import cases

STATEMENTS = int(os.environ.get("NYALA_STATEMENTS", cases(200)))
SEED = int(os.environ.get("NYALA_SEED", "1"))
PER_TEST = 20
# SQLite has neither decimals nor days of its own, so their columns stay as they are there.
IN_SQLITE = tuple(replace(t, columns=tuple(c for c in t.columns if c[1] in ("int", "text"))) for t in TABLES)


def _compare(duck: bool, dialect: Dialect, tables: Any, start: int) -> None:
    other: Any = duckdb.connect(config={"threads": 1}) if duck else sqlite3.connect(":memory:")
    other.execute("SET integer_division = true" if duck else "PRAGMA case_sensitive_like = ON")
    accepted = 0
    with nyala.connect(":memory:", threads=1) as mine:
        fill(mine.execute)
        fill(other.execute)
        for seed in range(start, start + PER_TEST):
            text = StatementGenerator(SEED * 1_000_000 + seed, tables, dialect).statement()
            try:
                other.execute(text)
            except (duckdb.Error, sqlite3.Error):
                continue
            accepted += 1
            _alter(mine, seed)
            try:
                mine.execute(text)
            except nyala.Error as error:
                raise pytest.fail.Exception(f"{text}\n  {error}", pytrace=False) from None
            for name in SIZES:
                columns = ", ".join(column for column, _ in next(t for t in TABLES if t.name == name).columns)
                found, expected = _content(mine.execute, name, columns), _content(other.execute, name, columns)
                if found != expected:
                    missing = [row for row in expected if row not in found]
                    surplus = [row for row in found if row not in expected]
                    pytest.fail(f"{text}\n  {name}: missing {missing[:5]}, surplus {surplus[:5]}", pytrace=False)
    other.close()
    assert accepted >= PER_TEST * 0.7


def _alter(mine: Any, seed: int) -> None:
    """Every other time, a column comes or goes that no statement names; every fourth time between its binding and its
    write, as if by another connection."""
    store = mine.session.store
    vars(store).pop("write", None)  # of a statement that has written nothing
    if seed % 2:
        return
    table = TABLES[seed // 2 % len(TABLES)].name
    has = any(column.name == "more" for column in store.table(table).schema.columns)
    change = f"ALTER TABLE {table} {'DROP COLUMN more' if has else 'ADD COLUMN more INT DEFAULT 7'}"
    if seed % 4:
        mine.execute(change)
        return
    write = store.write

    def altered(*args: Any, **options: Any) -> Any:
        vars(store).pop("write")
        mine.execute(change)
        return write(*args, **options)

    store.write = altered


def _content(execute: Callable[[str], Any], table: str, columns: str) -> list[tuple[Any, ...]]:
    return answer(lambda text: execute(text).fetchall(), f"SELECT {columns} FROM {table} ORDER BY 1")


@pytest.mark.parametrize("start", range(0, STATEMENTS, PER_TEST))
def test_tables_as_in_duckdb(start: int) -> None:
    _compare(True, DUCKDB, TABLES, start)


@pytest.mark.parametrize("start", range(0, STATEMENTS, PER_TEST))
def test_tables_as_in_sqlite(start: int) -> None:
    _compare(False, SQLITE, IN_SQLITE, start)
