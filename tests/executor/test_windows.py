"""Window calls against DuckDB (and SQLite) on the same rows: random tables, windows, frames and functions."""

from __future__ import annotations

import datetime
import decimal
import re
import sqlite3
from collections import Counter
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from executor_support import MemoryStore
from hypothesis import given, settings
from hypothesis import strategies as st
from nyala.errors import DataError, OperationalError
from nyala.executor import ExecutionContext, run
from nyala.planner import plan_query
from nyala.sql import bind, parse
from nyala.sql.bound import SelectStatement

Row = tuple[Any, ...]

ORACLE = duckdb.connect(config={"threads": 1})
ORACLE.execute("SET default_null_order = 'NULLS_LAST_ON_ASC_FIRST_ON_DESC'")
START = datetime.date(2024, 1, 1)


@st.composite
def tables(draw: st.DrawFn) -> pa.Table:
    """Rows with a unique id, ties, NULLs, numbers that add up beyond 64 bits; sometimes none at all."""
    count = draw(st.sampled_from([0, 1, 2, 7, 30, 90]))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    holes = draw(st.sampled_from([0.0, 0.2, 1.0]))

    def column(values: list[Any], type_: pa.DataType) -> pa.Array:
        return pa.array([None if rng.random() < holes else v for v in values], type_)

    spread = draw(st.sampled_from([2, 9, 40]))
    money = [decimal.Decimal(int(v)).scaleb(-2) for v in rng.integers(-500, 500, count)]
    return pa.table(
        {
            "id": pa.array(rng.permutation(count), pa.int64()),
            "g": column(rng.integers(0, 3, count).tolist(), pa.int32()),
            "n": column(rng.integers(-spread, spread, count).tolist(), pa.int32()),
            "big": column((rng.integers(-3, 4, count) * (2**61)).tolist(), pa.int64()),
            "t": column([("a", "b", "é", "")[i] for i in rng.integers(0, 4, count)], pa.string()),
            "m": column(money, pa.decimal128(15, 2)),
            "w": column([v * 10**20 for v in money], pa.decimal128(38, 2)),
            "f": column((rng.integers(-8, 8, count) / 4).tolist(), pa.float64()),
            "d": column([START + datetime.timedelta(int(i)) for i in rng.integers(0, 99, count)], pa.date32()),
        }
    )


KEYS = ("n", "m", "t", "d", "f", "big", "w", "g", "n % 3", "id")
OFFSETS = {"n": ("0", "1", "3"), "m": ("0.5", "2", "1.25"), "f": ("0.25", "1.5"), "id": ("2",), "big": ("5",)}
OFFSETS["d"] = ("INTERVAL '3' DAY", "INTERVAL '1' MONTH", "INTERVAL '0' DAY")
AGGREGATES = (
    "count(*)",
    "count({})",
    "min({})",
    "max({})",
    "first_value({})",
    "last_value({})",
    "nth_value({}, 2)",
)
NUMBERS = ("sum(n)", "sum(m)", "sum(big)", "sum(w)", "sum(f)", "avg(f)", "avg(n)", "sum(n * 2)", "stddev_samp(n)")
PLACES = ("row_number()", "ntile(3)", "lag({})", "lead({}, 2)", "lag({0}, -1, {0})", "lead({}, n)", "ntile(1 + id)")
RANKS = ("rank()", "dense_rank()", "percent_rank()", "cume_dist()")


def directed(draw: st.DrawFn, key: str) -> str:
    return key + draw(st.sampled_from(["", " DESC", " NULLS FIRST", " DESC NULLS LAST"]))


@st.composite
def bounds(draw: st.DrawFn, offsets: tuple[str, ...]) -> str:
    """Two bounds of which the first is not behind the second."""
    sides = ["UNBOUNDED PRECEDING", "{} PRECEDING", "CURRENT ROW", "{} FOLLOWING", "UNBOUNDED FOLLOWING"]
    start = draw(st.integers(0, 3))
    end = draw(st.integers(max(1, start), 4))
    found = [sides[i].format(draw(st.sampled_from(offsets))) for i in (start, end)]
    return f"BETWEEN {found[0]} AND {found[1]}"


@st.composite
def windows(draw: st.DrawFn) -> tuple[str, bool]:
    """What stands in OVER's parentheses, and whether the order in it is that of all rows."""
    parts = []
    if draw(st.booleans()):
        parts.append(f"PARTITION BY {draw(st.sampled_from(['g', 't', 'g, t', 'm', 'n % 2', 'd']))}")
    unit = draw(st.sampled_from(["", "ROWS", "GROUPS", "RANGE", "RANGE"]))
    keys = [draw(st.sampled_from(tuple(OFFSETS) if unit == "RANGE" else KEYS))]
    keys += draw(st.lists(st.sampled_from(KEYS), max_size=1)) if unit != "RANGE" else []
    total = unit != "RANGE" and (unit == "ROWS" or draw(st.booleans()))
    order = [directed(draw, key) for key in (*keys, "id")[: len(keys) + total]]
    if order and (unit or draw(st.booleans())):
        parts.append(f"ORDER BY {', '.join(order)}")
    else:
        total = False
    if unit:
        offsets = OFFSETS[keys[0]] if unit == "RANGE" else ("0", "1", "2", "1000")
        parts.append(f"{unit} {draw(bounds(offsets))}")
        parts.append(draw(st.sampled_from(["", "", "EXCLUDE CURRENT ROW", "EXCLUDE GROUP", "EXCLUDE TIES"])))
    return " ".join(part for part in parts if part), total or keys == ["id"]


@st.composite
def calls(draw: st.DrawFn) -> str:
    """A window call whose value does not depend on the order of peers."""
    window, total = draw(windows())
    column = draw(st.sampled_from(["n", "t", "m", "d", "id", "big", "w", "f"]))
    kinds = ["aggregate", "number", "rank"] + (["place", "value"] if total and "ORDER BY" in window else [])
    kind = draw(st.sampled_from(kinds))
    test = draw(st.sampled_from(["", "", " FILTER (WHERE n > 0)"]))
    if kind == "rank":
        bare = window.split(" ROWS")[0].split(" RANGE")[0].split(" GROUPS")[0]
        bare = "" if bare.startswith(("ROWS", "RANGE", "GROUPS")) else bare
        return f"{draw(st.sampled_from(RANKS))} OVER ({bare})"
    if kind == "number":
        return f"{draw(st.sampled_from(NUMBERS))}{test} OVER ({window})"
    if kind == "aggregate":
        return f"{draw(st.sampled_from(AGGREGATES[:4])).format(column)}{test} OVER ({window})"
    if kind == "place":
        bare = window.split(" ROWS")[0].split(" GROUPS")[0]
        return f"{draw(st.sampled_from(PLACES)).format(column)} OVER ({bare})"
    nulls = draw(st.sampled_from(["", " IGNORE NULLS"]))
    call = draw(st.sampled_from(AGGREGATES[4:])).format(column)
    return f"{call}{nulls} OVER ({window})"


def compare(data: pa.Table, text: str, wanted: list[Row] | None = None) -> None:
    """Our answer is DuckDB's, with one tablet or several, encoded or not, one thread or two."""
    ORACLE.register("r", data)
    theirs = re.sub(r"\) IGNORE NULLS OVER", " IGNORE NULLS) OVER", text)  # DuckDB wants it inside the call
    wanted = rounded(ORACLE.execute(theirs).fetchall()) if wanted is None else rounded(wanted)
    for hashed, is_plain, threads in ((None, True, 1), ("id", False, 2), ("g", False, 2)):
        if hashed == "g" and data["g"].null_count:
            continue
        store = MemoryStore(batch_rows=16)
        store.add("r", data, ["id"], hashed, is_plain)
        assert Counter(rounded(query(store, text, threads))) == Counter(wanted)


def query(store: MemoryStore, text: str, threads: int = 2) -> list[Row]:
    statement = bind(parse(text)[0], store)
    assert isinstance(statement, SelectStatement)
    result = run(statement, ExecutionContext(store, threads=threads), plan_query(statement.query, store))  # type: ignore[arg-type]
    rows: list[Row] = []
    for batch in result.batches:
        rows += zip(*(column.to_pylist() for column in batch.columns), strict=True)
    return rows


def rounded(rows: list[Row]) -> list[Row]:
    """Numbers to seven digits, as DuckDB's avg of exact numbers is a DOUBLE."""
    return [tuple(_rounded(value) for value in row) for row in rows]


def _rounded(value: Any) -> Any:
    return f"{float(value) + 0.0:.7g}" if isinstance(value, int | float | decimal.Decimal) else value


@given(tables(), st.lists(calls(), min_size=1, max_size=4))
@settings(max_examples=120, deadline=None)
def test_windows_are_duckdbs(data: pa.Table, found: list[str]) -> None:
    compare(data, f"SELECT id, {', '.join(found)} FROM r")
