"""Window calls against DuckDB (and SQLite) on the same rows: random tables, windows, frames and functions."""

from __future__ import annotations

import datetime
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
from executor_support import MemoryStore
from hypothesis import given, settings
from hypothesis import strategies as st
from nyala.errors import DataError, OperationalError
from nyala.executor import ExecutionContext, run
from nyala.planner import PlannerOptions, plan_query
from nyala.planner.rules import RULE_NAMES
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
PLACES = ("row_number()", "ntile(3)", "lag({})", "lead({}, 2)", "lag({0}, -1, {0})", "lead({}, n)")
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


def query(store: MemoryStore, text: str, threads: int = 2, without: Iterable[str] = ()) -> list[Row]:
    statement = bind(parse(text)[0], store)
    assert isinstance(statement, SelectStatement)
    plan = plan_query(statement.query, store, PlannerOptions(frozenset(without), check=True))
    result = run(statement, ExecutionContext(store, threads=threads), plan)  # type: ignore[arg-type]
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


LARGE = (
    "stddev_samp({n}) OVER (ORDER BY id)",
    "var_pop(f) OVER (PARTITION BY g ORDER BY id ROWS BETWEEN 90 PRECEDING AND 200 FOLLOWING EXCLUDE CURRENT ROW)",
    "corr(n, f) OVER (ORDER BY id ROWS BETWEEN 90 PRECEDING AND UNBOUNDED FOLLOWING)",
    "bit_and({n}) FILTER (WHERE n > 0) OVER (ORDER BY id DESC)",
    "bool_or(n > 3) OVER (ORDER BY id ROWS BETWEEN 100 PRECEDING AND 70 PRECEDING)",
    "max_by(t, f) OVER (ORDER BY id ROWS BETWEEN 2 PRECEDING AND 70 FOLLOWING)",
    "string_agg(t, '-') OVER (PARTITION BY g ORDER BY id ROWS 20 PRECEDING)",
    "string_agg(t, '-') FILTER (WHERE n > 0) OVER (ORDER BY id)",
    "sum(f) OVER (ORDER BY id ROWS BETWEEN 77 PRECEDING AND 5 FOLLOWING EXCLUDE GROUP)",
    "max(w) OVER (ORDER BY id ROWS BETWEEN 77 PRECEDING AND 5 FOLLOWING EXCLUDE GROUP)",
    "min(t) OVER (PARTITION BY g ORDER BY id ROWS BETWEEN 300 FOLLOWING AND UNBOUNDED FOLLOWING)",
)


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


QUERIES = (
    "SELECT t, sum(n), sum(sum(n)) OVER (ORDER BY t), rank() OVER (ORDER BY count(*) DESC) FROM r GROUP BY t",
    "SELECT g, avg(count(*)) OVER (), max(g) OVER (ORDER BY g ROWS 1 PRECEDING) FROM r GROUP BY g HAVING count(*) > 1",
    "SELECT id, t FROM r QUALIFY row_number() OVER (PARTITION BY t ORDER BY id) <= 2",
    "SELECT id, sum(n) OVER w AS s FROM r WINDOW w AS (PARTITION BY g ORDER BY id) QUALIFY s > 2 OR id % 3 = 0",
    "SELECT g, max(id) FROM r GROUP BY g QUALIFY dense_rank() OVER (ORDER BY g) = 2",
    "SELECT DISTINCT ON (g) g, id, n FROM r ORDER BY g, n DESC, id",
    "SELECT DISTINCT ON (t, g) id FROM r ORDER BY g DESC, t, id DESC",
    "SELECT DISTINCT count(*) OVER (PARTITION BY g), rank() OVER (ORDER BY g) FROM r",
    "SELECT id FROM r ORDER BY row_number() OVER (ORDER BY n, id DESC), id LIMIT 3",
    "SELECT * FROM (SELECT id, g, t, sum(n) OVER (PARTITION BY g, t ORDER BY id) FROM r) AS q WHERE g = 1 AND t > 'a'",
    "SELECT * FROM (SELECT id, g, sum(n) OVER (PARTITION BY g) AS s, lag(n) OVER (ORDER BY id) FROM r) "
    "AS q WHERE s > 0",
    "SELECT a.id, (SELECT max(p) FROM (SELECT rank() OVER (ORDER BY b.n) AS p FROM r AS b WHERE b.g = "
    "a.g) AS q) FROM r AS a",
    "SELECT a.id, (SELECT sum(s) FROM (SELECT sum(b.n) OVER (ORDER BY b.id) AS s FROM r AS b WHERE b.id "
    "< a.id) AS q) FROM r AS a",
    "SELECT id FROM r AS a WHERE EXISTS (SELECT 1 FROM (SELECT row_number() OVER (ORDER BY b.id) AS p "
    "FROM r AS b WHERE b.t = a.t) AS q WHERE p = 3)",
    "SELECT id, sum((SELECT count(*) FROM r AS b WHERE b.g = a.g)) OVER (ORDER BY id) FROM r AS a",
    "WITH c AS (SELECT id, n, sum(n) OVER (ORDER BY id) AS s, lag(n) OVER (ORDER BY id) FROM r) SELECT "
    "a.id, b.s FROM c AS a JOIN c AS b ON a.id = b.n",
    "SELECT count(*) OVER (), id FROM r WHERE n > 0 UNION ALL SELECT row_number() OVER (ORDER BY id), 0 FROM r",
    "SELECT id, CASE WHEN n > 0 THEN lag(n, 1, 0) OVER (PARTITION BY g ORDER BY id) ELSE rank() OVER "
    "(ORDER BY g) END FROM r",
)


@pytest.mark.parametrize("text", QUERIES)
@given(tables())
@settings(max_examples=6, deadline=None)
def test_queries_with_windows_are_duckdbs(text: str, data: pa.Table) -> None:
    compare(data, text)


@pytest.mark.parametrize("text", QUERIES)
@given(tables())
@settings(max_examples=3, deadline=None)
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
@settings(max_examples=6, deadline=None)
def test_windows_are_sqlites(call: str, data: pa.Table) -> None:
    rows = list(zip(*(data[name].to_pylist() for name in ("id", "g", "n")), strict=True))
    with sqlite3.connect(":memory:") as other:
        other.execute("CREATE TABLE r (id, g, n)")
        other.executemany("INSERT INTO r VALUES (?, ?, ?)", rows)
        # SQLite takes NULLs for the smallest.
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
    with pytest.raises(DataError, match="must be greater than zero, and is 0"):
        query(store, "SELECT ntile(id - 1) OVER (ORDER BY id) FROM r")
    with pytest.raises(DataError, match="must be greater than zero, and is -1"):
        query(store, "SELECT nth_value(id, id - 2) OVER () FROM r")


def test_a_window_counts_against_the_memory_limit() -> None:
    store = MemoryStore()
    store.add("r", pa.table({"id": range(1000)}), ["id"])
    statement = bind(parse("SELECT sum(id) OVER (ORDER BY id) FROM r")[0], store)
    assert isinstance(statement, SelectStatement)
    context = ExecutionContext(store, threads=1, memory_limit=10_000)  # type: ignore[arg-type]
    with pytest.raises(OperationalError, match="a window function needs"):
        list(run(statement, context, plan_query(statement.query, store)).batches)
