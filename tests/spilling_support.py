"""Aggregations over many kinds of keys and states, with and without a memory limit."""

from __future__ import annotations

import datetime
import decimal
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from aggregate_support import Row
from executor_support import MemoryStore
from nyala.executor import ExecutionContext
from nyala.executor.statements.statements import run
from nyala.planner import PlannerOptions, plan_query
from nyala.sql import bind, parse
from nyala.sql.bound import SelectStatement

CALLS = (
    "count(*), count(a), sum(n), sum(m), sum(w), sum(x), min(t), max(t), min(c), max(m), max(w), avg(x), avg(w)",
    "sum(DISTINCT a), count(DISTINCT t), count(DISTINCT w), avg(DISTINCT y), product(y), count(DISTINCT x)",
    "bool_and(f), bool_or(a > 0), bit_and(a), bit_or(n), bit_xor(n), bit_xor(DISTINCT a), any_value(n) IS NULL",
    "var_pop(x), stddev(x), var_pop(DISTINCT y), covar_pop(x, y), regr_count(y, x), corr(x, n)",
    "string_agg(t, ',' ORDER BY id), string_agg(DISTINCT b, '-' ORDER BY b), string_agg(t, b ORDER BY id)",
    "median(x), percentile_cont(0.25) WITHIN GROUP (ORDER BY x), percentile_disc(0.5) WITHIN GROUP (ORDER BY n)",
    "mode() WITHIN GROUP (ORDER BY b), min_by(t, id), max_by(c, id), any_value(t ORDER BY id)",
    "sum(a) FILTER (WHERE b = 'x'), min(x), max(y), approx_count_distinct(w), count(*) FILTER (WHERE f)",
)
KEYS = ("k", "t", "w", "x", "y, b", "c", "i", "s, f", "a, b", "id")


def table(count: int, seed: int = 1, holes: float = 0.1) -> pa.Table:
    """Rows with various keys: `k` has many values, `x` NaN and -0.0, `i` is a number of days, `s` a long text."""
    rng = np.random.default_rng(seed)

    def column(values: Sequence[Any], type_: pa.DataType) -> pa.Array:
        return pa.array([None if rng.random() < holes else v for v in values], type_)

    money = [decimal.Decimal(int(v)).scaleb(-2) for v in rng.integers(-(10**6), 10**6, count)]
    special = [math.nan, -0.0, 0.0, math.inf, 1.5, -2.25]
    return pa.table(
        {
            "id": pa.array(range(count), pa.int64()),
            "k": column(rng.integers(0, max(1, count // 4), count).tolist(), pa.int32()),
            "a": column(rng.integers(0, 5, count).tolist(), pa.int32()),
            "b": column([("x", "y", "", "é")[i] for i in rng.integers(0, 4, count)], pa.string()),
            "c": pa.array(
                [datetime.date(2024, 1, 1) + datetime.timedelta(int(i) % 90) for i in range(count)], pa.date32()
            ),
            "n": column(rng.integers(-100, 100, count).tolist(), pa.int64()),
            "m": column(money, pa.decimal128(15, 2)),
            "w": column([v * 10**8 for v in money], pa.decimal128(30, 2)),
            "t": column([f"u{i}" for i in rng.integers(0, max(1, count // 3), count)], pa.string()),
            "x": column([special[i] if i < 6 else float(i) for i in rng.integers(0, 400, count)], pa.float64()),
            "y": column((rng.integers(-3, 3, count) / 2).tolist(), pa.float64()),
            "f": column((rng.random(count) < 0.8).tolist(), pa.bool_()),
            "i": column(rng.integers(0, 60, count).tolist(), pa.int32()),
            "s": column([f"{i:0100d}" for i in rng.integers(0, 40, count)], pa.string()),
        }
    )


def store_of(data: pa.Table, is_apart: bool = False) -> MemoryStore:
    store = MemoryStore(batch_rows=250)
    store.add("r", data, ["id"], "id" if is_apart else None)
    return store


def answer(
    store: MemoryStore, text: str, limit: int | None = None, threads: int = 2, **options: Any
) -> tuple[list[Row], int, ExecutionContext]:
    """Return the rows of a query, the number of spilled bytes, and its context."""
    statement = bind(parse(text)[0], store)  # type: ignore[arg-type]
    assert isinstance(statement, SelectStatement)
    plan = plan_query(statement.query, store, PlannerOptions(check=True))  # type: ignore[arg-type]
    context = ExecutionContext(store, threads=threads, memory_limit=limit, collect=True, **options)  # type: ignore[arg-type]
    rows: list[Row] = []
    for batch in run(statement, context, plan).batches:
        rows += zip(*(column.to_pylist() for column in batch.columns), strict=True)
    records = [context.actuals.get(node) for node in context.actuals.nodes()]
    return rows, sum(record.spilled for record in records if record is not None), context


def sorted_rows(rows: list[Row]) -> list[str]:
    return sorted(repr([f"{v + 0.0:.7g}" if isinstance(v, float) else v for v in row]) for row in rows)


def check(store: MemoryStore, text: str, limit: int, threads: int = 2, spills: bool = True) -> None:
    """Check that the rows are the same with a limit and without, and that the limit makes the query spill."""
    wanted, before, _ = answer(store, text, threads=threads)
    found, spilled, _ = answer(store, text, limit, threads)
    assert sorted_rows(found) == sorted_rows(wanted), text
    assert before == 0 and (spilled > 0) is spills, (text, spilled)
