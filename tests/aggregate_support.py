"""Random tables, and the same aggregation by nyala and by DuckDB, row by row."""

from __future__ import annotations

import datetime
import decimal
import math
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
from executor_support import MemoryStore
from hypothesis import strategies as st
from nyala.executor import ExecutionContext
from nyala.executor.statements.statements import run
from nyala.planner import PlannerOptions, plan_query
from nyala.sql import bind, parse
from nyala.sql.bound import SelectStatement

Row = tuple[Any, ...]

ORACLE = duckdb.connect(config={"threads": 1})
ORACLE.execute("SET default_null_order = 'NULLS_LAST_ON_ASC_FIRST_ON_DESC'")


@st.composite
def tables(draw: st.DrawFn) -> pa.Table:
    """Rows with a unique id, few and many distinct values, NULLs; sometimes none at all."""
    count = draw(st.sampled_from([0, 1, 2, 7, 60, 150]))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    holes = draw(st.sampled_from([0.0, 0.25, 1.0]))
    few = draw(st.sampled_from([1, 3, 40]))

    def column(values: list[Any], type_: pa.DataType) -> pa.Array:
        return pa.array([None if rng.random() < holes else v for v in values], type_)

    money = [decimal.Decimal(int(v)).scaleb(-2) for v in rng.integers(-(10**6), 10**6, count)]
    return pa.table(
        {
            "id": pa.array(range(count), pa.int64()),
            "a": column(rng.integers(0, few, count).tolist(), pa.int32()),
            "b": column([("x", "y", "", "é")[i] for i in rng.integers(0, 4, count)], pa.string()),
            "c": pa.array([datetime.date(2024, 1, 1 + int(i)) for i in rng.integers(0, 2, count)], pa.date32()),
            "n": column(rng.integers(-100, 100, count).tolist(), pa.int64()),
            "m": column(money, pa.decimal128(15, 2)),
            "w": column([v * 10**8 for v in money], pa.decimal128(30, 2)),
            "t": column([f"u{i}" for i in rng.integers(0, 30, count)], pa.string()),
            "x": column((rng.normal(1e6, 3, count)).tolist(), pa.float64()),
            "y": column((rng.integers(-3, 3, count) / 2).tolist(), pa.float64()),
            "f": column((rng.random(count) < 0.8).tolist(), pa.bool_()),
        }
    )


def stores(data: pa.Table) -> list[tuple[MemoryStore, int]]:
    """The table in one tablet and in several, encoded and plain, and how many threads are to read it."""
    found = []
    for hashed, is_plain, threads in ((None, True, 1), ("id", False, 2)):
        store = MemoryStore(batch_rows=16)
        store.add("r", data, ["id"], hashed, is_plain)
        found.append((store, threads))
    return found


def query(store: MemoryStore, text: str, threads: int = 2) -> list[Row]:
    """The rows of a query."""
    statement = bind(parse(text)[0], store)
    assert isinstance(statement, SelectStatement)
    plan = plan_query(statement.query, store, PlannerOptions(check=True))  # type: ignore[arg-type]
    result = run(statement, ExecutionContext(store, threads=threads), plan)  # type: ignore[arg-type]
    rows: list[Row] = []
    for batch in result.batches:
        rows += zip(*(column.to_pylist() for column in batch.columns), strict=True)
    return rows


def compare(data: pa.Table, text: str, oracle: str | None = None) -> None:
    """Our rows are DuckDB's, in any order; floats to nine digits. `oracle` is DuckDB's way to write the query."""
    ORACLE.register("r", data)
    wanted = sorted(ORACLE.execute(oracle or text).fetchall(), key=_exact)
    for store, threads in stores(data):
        found = sorted(query(store, text, threads), key=_exact)
        assert len(found) == len(wanted), (found, wanted)
        for ours, theirs in zip(found, wanted, strict=True):
            assert all(map(same, ours, theirs)), (text, ours, theirs)


def _exact(row: Row) -> tuple[str, str]:
    """Sort key of a row: floats last, because their last digits differ."""
    exact = repr([_plain(value) for value in row if not isinstance(value, float)])
    return exact, repr([f"{value + 0.0:.9g}" for value in row if isinstance(value, float)])


def _plain(value: Any) -> Any:
    if isinstance(value, int | decimal.Decimal) and not isinstance(value, bool):
        return decimal.Decimal(value).normalize() + 0
    return value


def same(ours: Any, theirs: Any) -> bool:
    """Equal, numbers by value and floats nearly."""
    if isinstance(ours, float) or isinstance(theirs, float):
        if ours is None or theirs is None:
            return ours is theirs
        return math.isclose(ours, theirs, rel_tol=1e-8, abs_tol=1e-6) or (math.isnan(ours) and math.isnan(theirs))
    return bool(_plain(ours) == _plain(theirs))
