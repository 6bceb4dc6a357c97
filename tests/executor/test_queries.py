"""Whole queries against DuckDB on the same rows: aggregates, grouping of every kind, sorts, limits, set operations."""

from __future__ import annotations

import datetime
import decimal
import math
from collections import Counter
from typing import Any

import duckdb
import numpy as np
import nyala
import pyarrow as pa
import pytest
from examples import examples, few
from executor_support import MemoryStore
from hypothesis import given, settings
from hypothesis import strategies as st
from nyala.executor import ExecutionContext
from nyala.executor.statements.statements import run
from nyala.planner import plan_query
from nyala.sql import bind, parse
from nyala.sql.bound import SelectStatement

Row = tuple[Any, ...]

ORACLE = duckdb.connect(config={"threads": 1})
ORACLE.execute("SET default_null_order = 'NULLS_LAST_ON_ASC_FIRST_ON_DESC'")


def query(store: MemoryStore, text: str, threads: int = 2) -> list[Row]:
    statement = bind(parse(text)[0], store)
    assert isinstance(statement, SelectStatement)
    result = run(statement, ExecutionContext(store, threads=threads), plan_query(statement.query, store))  # type: ignore[arg-type]
    rows: list[Row] = []
    for batch in result.batches:
        rows += zip(*(column.to_pylist() for column in batch.columns), strict=True)
    return rows


def plain(value: Any) -> Any:
    """Convert values to a form comparable between both engines: exact numbers as Decimal, floats to nine digits, NaN
    equal to itself."""
    if isinstance(value, float):
        return "nan" if math.isnan(value) else f"{value + 0.0:.9g}"
    if isinstance(value, int | decimal.Decimal) and not isinstance(value, bool):
        return decimal.Decimal(value).normalize()
    return value


def simplified(rows: list[Row]) -> list[Row]:
    return [tuple(plain(value) for value in row) for row in rows]


@st.composite
def tables(draw: st.DrawFn) -> pa.Table:
    """Rows with a unique id, few and many distinct values, NULLs; sometimes none at all."""
    count = draw(st.sampled_from([0, 1, 5, 40, 120]))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    holes = draw(st.sampled_from([0.0, 0.2, 1.0]))

    def column(values: list[Any], type_: pa.DataType) -> pa.Array:
        return pa.array([None if rng.random() < holes else v for v in values], type_)

    few = draw(st.sampled_from([2, 30]))
    money = [decimal.Decimal(int(v)).scaleb(-2) for v in rng.integers(-(10**12), 10**12, count)]
    return pa.table(
        {
            "id": pa.array(range(count), pa.int64()),
            "g": column(rng.integers(0, few, count).tolist(), pa.int32()),
            "big": column((rng.integers(-3, 3, count) * (2**61) // 3).tolist(), pa.int64()),
            "t": column([("a", "b", "é", "")[i] for i in rng.integers(0, 4, count)], pa.string()),
            "u": column([f"u{i}" for i in rng.integers(0, 1000, count)], pa.string()),
            "m": column(money, pa.decimal128(15, 2)),
            "w": column([v * 10**8 for v in money], pa.decimal128(30, 2)),
            "f": column(rng.choice([0.5, -0.0, 0.0, math.nan, 3.25], count).tolist(), pa.float64()),
            "d": column([datetime.date(2024, 1, 1 + int(i)) for i in rng.integers(0, 20, count)], pa.date32()),
        }
    )


def compare(data: pa.Table, text: str, ordered: bool = False) -> None:
    """Check that the result equals DuckDB's, with one tablet or several, encoded or not, one thread or two."""
    ORACLE.register("r", data)
    wanted = simplified(ORACLE.execute(text).fetchall())
    for hashed, is_plain, threads in ((None, True, 1), ("id", False, 2)):
        store = MemoryStore(batch_rows=16)
        store.add("r", data, ["id"], hashed, is_plain)
        found = simplified(query(store, text, threads))
        if ordered:
            assert found == wanted
        else:
            assert Counter(found) == Counter(wanted)


AGGREGATES = (
    "count(*), count(g), sum(g), min(g), max(g), sum(m), min(m), max(m)",
    "min(t), max(t), min(u), max(u), count(DISTINCT t), count(DISTINCT u), count(DISTINCT g)",
    "min(d), max(d), count(DISTINCT d), min(f), max(f), count(f)",
    "sum(big), min(big), max(big), sum(w), min(w), max(w), count(DISTINCT w), sum(DISTINCT g), sum(DISTINCT m)",
    "sum(m) FILTER (WHERE g > 1), count(*) FILTER (WHERE g > 1), max(t) FILTER (WHERE g = 0)",
    "sum(m * 3), sum(m * (2 - g)), sum(m * (2 - g)) + 1, sum(CASE WHEN t = 'a' THEN m ELSE 0 END)",
)


@pytest.mark.parametrize("aggregates", AGGREGATES)
@given(tables())
@settings(max_examples=examples(6), deadline=None)
def test_aggregates_without_groups(aggregates: str, data: pa.Table) -> None:
    compare(data, f"SELECT {aggregates} FROM r")
    compare(data, f"SELECT {aggregates} FROM r WHERE g > 1000000")


GROUPS = (
    "t",
    "g",
    "u",
    "big",
    "d",
    "f",
    "w",
    "id",
    "t, g",
    "u, big, w",
    "id, t",
    "substring(u, 1, 2)",
    "g + 1, t",
    "m",
)


@pytest.mark.parametrize("groups", few(GROUPS))
@given(tables())
@settings(max_examples=examples(4), deadline=None)
def test_grouping(groups: str, data: pa.Table) -> None:
    shown = (
        groups if "f" not in groups.split(", ") else "f + 0.0"
    )  # -0.0 and 0.0 are one group; either may stand for it
    for aggregates in (AGGREGATES[0], AGGREGATES[1], AGGREGATES[3]):
        compare(data, f"SELECT {shown}, {aggregates} FROM r GROUP BY {groups}")
    compare(data, f"SELECT DISTINCT {shown} FROM r")


@given(tables())
@settings(max_examples=examples(12), deadline=None)
def test_averages_are_exact(data: pa.Table) -> None:
    """Compared with exact fractions, since DuckDB's averages are floats."""
    store = MemoryStore(batch_rows=16)
    store.add("r", data, ["id"])
    for column, scale in (("m", 2), ("w", 2), ("g", 0), ("big", 0)):
        values = [v for v in data[column].to_pylist() if v is not None]
        (row,) = query(store, f"SELECT avg({column}) FROM r")
        if not values:
            assert row == (None,)
            continue
        with decimal.localcontext() as context:
            context.prec = 80
            exact = sum(map(decimal.Decimal, values)) / len(values)
            assert row == (exact.quantize(decimal.Decimal(1).scaleb(-max(16, scale)), decimal.ROUND_HALF_UP),)


def test_sums_beyond_64_bits_are_exact() -> None:
    top = 10**18 - 1
    data = pa.table(
        {
            "id": range(60),
            "n": pa.array([2**63 - 1] * 60, pa.int64()),
            "m": pa.array([decimal.Decimal(top)] * 60, pa.decimal128(18, 0)),
        }
    )
    store = MemoryStore(batch_rows=7)
    store.add("r", data, ["id"], "id", plain=True)
    expected = [(60 * (2**63 - 1), 60 * top)]
    assert query(store, "SELECT sum(n), sum(m) FROM r") == expected
    total = query(
        store, "SELECT sum(c), sum(b) FROM (SELECT id % 3, sum(n) AS c, sum(m) AS b FROM r GROUP BY id % 3) s"
    )
    assert total == expected


ORDERS = (
    "g, id",
    "t DESC, id",
    "u DESC NULLS LAST, d, id",
    "d NULLS FIRST, t, id DESC",
    "w, id",
    "big DESC, m, id",
    "f, id DESC",
    "m DESC, id",
)


@pytest.mark.parametrize("order", ORDERS)
@given(tables(), st.integers(0, 12), st.integers(0, 12))
@settings(max_examples=examples(4), deadline=None)
def test_order(order: str, data: pa.Table, limit: int, offset: int) -> None:
    text = f"SELECT id, t, g, w FROM r ORDER BY {order}"
    compare(data, text, ordered=True)
    compare(data, f"{text} LIMIT {limit} OFFSET {offset}", ordered=True)
    compare(data, f"{text} LIMIT {limit}", ordered=True)


@given(tables(), st.integers(0, 50), st.integers(0, 50))
@settings(max_examples=examples(50), deadline=None)
def test_limit_without_order_counts(data: pa.Table, limit: int, offset: int) -> None:
    store = MemoryStore(batch_rows=16)
    store.add("r", data, ["id"], "id")
    found = query(store, f"SELECT id FROM r LIMIT {limit} OFFSET {offset}")
    assert len(found) == max(0, min(limit, data.num_rows - offset))
    assert len(set(found)) == len(found)


@pytest.mark.parametrize("operation", ["UNION", "UNION ALL", "INTERSECT", "INTERSECT ALL", "EXCEPT", "EXCEPT ALL"])
@given(tables())
@settings(max_examples=examples(6), deadline=None)
def test_set_operations(operation: str, data: pa.Table) -> None:
    compare(data, f"SELECT t, g FROM r WHERE id < 60 {operation} SELECT t, g FROM r WHERE id % 2 = 0")
    compare(data, f"SELECT w FROM r {operation} SELECT w FROM r WHERE g > 0")
    compare(data, f"(SELECT id FROM r ORDER BY id LIMIT 9) {operation} (SELECT id FROM r ORDER BY id DESC LIMIT 9)")


QUERIES = (
    "SELECT a.id, b.id FROM r a JOIN r b ON a.g = b.g AND a.id < b.id WHERE a.t = 'a'",
    "SELECT a.id, b.u FROM r a LEFT JOIN r b ON a.id = b.g AND b.t <> 'b'",
    "SELECT a.g, count(*) FROM r a JOIN r b ON a.t = b.t AND a.d = b.d GROUP BY a.g",
    "SELECT id FROM r WHERE g IN (SELECT g FROM r WHERE t = 'a') AND NOT EXISTS (SELECT 1 FROM r s WHERE s.g = r.id)",
    "SELECT id FROM r WHERE g NOT IN (SELECT g FROM r WHERE t = 'b')",
    "SELECT id, (SELECT max(s.m) FROM r s WHERE s.g = r.g) FROM r",
    "SELECT g, sum(m) AS s FROM r GROUP BY g HAVING sum(m) > (SELECT avg(m) FROM r)",
    "WITH c AS (SELECT g, count(*) AS n FROM r GROUP BY g) SELECT a.g FROM c a, c b WHERE a.n < b.n",
    "SELECT extract(month FROM d) * 100 + extract(day FROM d), upper(t) || u FROM r WHERE t LIKE '%' AND u LIKE 'u1%'",
    "SELECT id FROM r WHERE (g = 1 OR t = 'a') AND NOT (m < 0 AND d > DATE '2024-01-10')",
    "SELECT id, coalesce(t, u, 'none'), CASE g WHEN 1 THEN 'one' WHEN 2 THEN t ELSE u END FROM r",
    "SELECT x.v, r.id FROM (VALUES (1, 'one'), (2, 'two'), (NULL, 'none')) AS x(k, v) LEFT JOIN r ON r.g = x.k",
    "SELECT 1 + 1, 'a' || 'b', NULL",
)


@pytest.mark.parametrize("text", QUERIES)
@given(tables())
@settings(max_examples=examples(6), deadline=None)
def test_queries(text: str, data: pa.Table) -> None:
    compare(data, text)


@pytest.mark.parametrize(
    ("query", "wanted"),
    [
        ("SELECT x AS a FROM t ORDER BY -a", [3, 2, 1]),
        ("SELECT -x AS x FROM t ORDER BY x + 0", [-1, -2, -3]),  # a column of FROM comes first there
        ("SELECT sum(x) AS s FROM t GROUP BY y ORDER BY CASE WHEN s > 3 THEN 0 ELSE s END", [5, 1]),
        ("WITH one AS (SELECT 1 AS k) SELECT x AS a FROM t ORDER BY abs(a - (SELECT 2 * k FROM one)), a", [2, 1, 3]),
        ("SELECT rank() OVER (ORDER BY x DESC) AS r FROM t ORDER BY r % 2, r", [2, 1, 3]),
    ],
)
def test_expressions_of_order_by_may_name_output_columns(query: str, wanted: list[int]) -> None:
    with nyala.connect(":memory:") as connection:
        connection.execute("CREATE TABLE t (x INT PRIMARY KEY, y INT)")
        connection.execute("INSERT INTO t VALUES (1, 1), (2, 2), (3, 2)")
        assert [row[0] for row in connection.execute(query).fetchall()] == wanted
