"""Window calls against DuckDB (and SQLite) on the same rows: random tables, windows, frames and functions."""

from __future__ import annotations

import decimal
import math
import re
import sqlite3
from collections import Counter
from collections.abc import Iterable
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from examples import examples
from executor_support import MemoryStore
from hypothesis import given, settings
from hypothesis import strategies as st
from nyala.errors import DataError, OperationalError
from nyala.executor import ExecutionContext
from nyala.executor.statements.statements import run
from nyala.planner import PlannerOptions, plan_query
from nyala.planner.rules import RULE_NAMES
from nyala.sql import bind, parse
from nyala.sql.bound import SelectStatement
from window_calls import LARGE, QUERIES, calls, rounded, tables

Row = tuple[Any, ...]

ORACLE = duckdb.connect(config={"threads": 1})
ORACLE.execute("SET default_null_order = 'NULLS_LAST_ON_ASC_FIRST_ON_DESC'")


def compare(data: pa.Table, text: str, wanted: list[Row] | None = None) -> None:
    """Check that the result equals DuckDB's, with one tablet or several, encoded or not, one thread or two."""
    ORACLE.register("r", data)
    theirs = re.sub(r"\) IGNORE NULLS OVER", " IGNORE NULLS) OVER", text)  # DuckDB has it inside the call
    wanted = rounded(ORACLE.execute(theirs).fetchall()) if wanted is None else rounded(wanted)
    for hashed, is_plain, threads in ((None, True, 1), ("id", False, 2), ("g", False, 2)):
        if hashed == "g" and data["g"].null_count:
            continue
        store = MemoryStore(batch_rows=16)
        store.add("r", data, ["id"], hashed, is_plain)
        assert Counter(rounded(query(store, text, threads))) == Counter(wanted)


def query(store: MemoryStore, text: str, threads: int = 2, without: Iterable[str] = ()) -> list[Row]:
    statement = bind(parse(text)[0], store)
    assert isinstance(statement, SelectStatement)
    plan = plan_query(statement.query, store, PlannerOptions(frozenset(without), check=True))
    result = run(statement, ExecutionContext(store, threads=threads), plan)  # type: ignore[arg-type]
    rows: list[Row] = []
    for batch in result.batches:
        rows += zip(*(column.to_pylist() for column in batch.columns), strict=True)
    return rows


@given(tables(), st.lists(calls(), min_size=1, max_size=4))
@settings(max_examples=examples(120), deadline=None)
def test_windows_are_duckdbs(data: pa.Table, found: list[str]) -> None:
    compare(data, f"SELECT id, {', '.join(found)} FROM r")


@pytest.mark.parametrize("call", LARGE)
def test_large_frames(call: str) -> None:
    rng, count = np.random.default_rng(5), 700
    n = pa.array(rng.integers(-9, 9, count), pa.int32(), mask=rng.random(count) < 0.2)
    money = [decimal.Decimal(int(v)) * 10**20 for v in rng.integers(-500, 500, count)]
    columns = {
        "id": pa.array(rng.permutation(count)),
        "g": pa.array(rng.integers(0, 2, count), pa.int32()),
        "n": n,
        "t": pa.array(rng.integers(0, 40, count)).cast(pa.string()),
        "f": pa.array(rng.permutation(count) / 8),
        "w": pa.array(money, pa.decimal128(38, 2)),
    }
    compare(pa.table(columns), f"SELECT id, {call.replace('{n}', 'n')} FROM r")


@pytest.mark.parametrize("text", QUERIES)
@given(tables())
@settings(max_examples=examples(6), deadline=None)
def test_queries_with_windows_are_duckdbs(text: str, data: pa.Table) -> None:
    compare(data, text)


@pytest.mark.parametrize("text", QUERIES)
@given(tables())
@settings(max_examples=examples(3), deadline=None)
def test_no_rule_changes_an_answer(text: str, data: pa.Table) -> None:
    store = MemoryStore(batch_rows=16)
    store.add("r", data, ["id"])
    wanted = Counter(rounded(query(store, text)))
    assert Counter(rounded(query(store, text, without=RULE_NAMES))) == wanted


SQLITE = (
    "row_number() OVER (PARTITION BY g ORDER BY n, id)",
    "sum(n) OVER (ORDER BY n GROUPS BETWEEN 1 PRECEDING AND 1 FOLLOWING EXCLUDE TIES)",
    "nth_value(n, 2) OVER (ORDER BY id ROWS BETWEEN 2 PRECEDING AND 2 FOLLOWING EXCLUDE CURRENT ROW)",
    "count(n) OVER (PARTITION BY g ORDER BY n RANGE BETWEEN 2 PRECEDING AND 1 PRECEDING)",
    "ntile(4) OVER (ORDER BY id)",
    "cume_dist() OVER (PARTITION BY g ORDER BY n)",
)


@pytest.mark.parametrize("call", SQLITE)
@given(tables())
@settings(max_examples=examples(6), deadline=None)
def test_windows_are_sqlites(call: str, data: pa.Table) -> None:
    rows = list(zip(*(data[name].to_pylist() for name in ("id", "g", "n")), strict=True))
    with sqlite3.connect(":memory:") as other:
        other.execute("CREATE TABLE r (id, g, n)")
        other.executemany("INSERT INTO r VALUES (?, ?, ?)", rows)
        # SQLite sorts NULLs as the smallest.
        text = f"SELECT id, {call.replace('ORDER BY n', 'ORDER BY n NULLS LAST')} FROM r"
        wanted = other.execute(text).fetchall()
    other.close()
    compare(data, f"SELECT id, {call} FROM r", wanted)


# ---- what no oracle says ---------------------------------------------------------------------------------------------


def of_numbers(text: str, values: list[Any], **options: Any) -> list[Any]:
    """The second column of a query over `r (id, x)`."""
    store = MemoryStore()
    store.add("r", pa.table({"id": range(len(values)), "x": values}), ["id"])
    return [row[1] for row in sorted(query(store, text, **options))]


def test_infinity_and_nan_stay_in_their_frames() -> None:
    found = of_numbers(
        "SELECT id, sum(x) OVER (ORDER BY id ROWS 1 PRECEDING) FROM r", [1.0, math.inf, -math.inf, math.nan, 2.0, 3.0]
    )
    assert [str(value) for value in found] == ["1.0", "inf", "nan", "nan", "nan", "5.0"]


def test_running_sums_restart_with_their_partition() -> None:
    text = "SELECT id, sum(x) OVER (PARTITION BY id % 2 ORDER BY id) FROM r"
    assert of_numbers(text, [1e300, 0.5, 1.0, 0.25, 2.0, 0.125]) == [1e300, 0.5, 1e300, 0.75, 1e300, 0.875]


def test_range_reaches_beyond_64_bits() -> None:
    text = "SELECT id, count(*) OVER (ORDER BY x RANGE BETWEEN 1 PRECEDING AND 1 FOLLOWING) FROM r"
    top = 2**63 - 1
    assert of_numbers(text, [top, top - 1, -top - 1, 0]) == [2, 2, 1, 1]


def test_an_offset_is_looked_at_when_the_statement_runs() -> None:
    store = MemoryStore()
    store.add("r", pa.table({"id": [1, 2]}), ["id"])
    with pytest.raises(DataError, match="must not be negative"):
        query(store, "SELECT sum(id) OVER (ORDER BY id ROWS CAST(CAST(-1.5 AS DOUBLE) AS INT) PRECEDING) FROM r")
    with pytest.raises(DataError, match="must be greater than zero, not 0"):
        query(store, "SELECT ntile(id - 1) OVER (ORDER BY id) FROM r")
    with pytest.raises(DataError, match="must be greater than zero, not -1"):
        query(store, "SELECT nth_value(id, id - 2) OVER () FROM r")


def test_a_window_counts_against_the_memory_limit() -> None:
    store = MemoryStore()
    store.add("r", pa.table({"id": range(1000)}), ["id"])
    statement = bind(parse("SELECT sum(id) OVER (ORDER BY id) FROM r")[0], store)
    assert isinstance(statement, SelectStatement)
    context = ExecutionContext(store, threads=1, memory_limit=10_000)  # type: ignore[arg-type]
    with pytest.raises(OperationalError, match="a window function needs"):  # its only partition does not fit
        list(run(statement, context, plan_query(statement.query, store)).batches)
