"""Aggregate functions against DuckDB on the same rows, or against Python where the two differ."""

from __future__ import annotations

import math
import statistics
from collections import Counter, defaultdict
from typing import Any

import numpy as np
import nyala
import pyarrow as pa
import pytest
from aggregate_support import compare, query, stores, tables
from examples import examples, few
from hypothesis import given, settings
from nyala.errors import DataError

SHARED = (
    "count(*), count(a), sum(n), sum(m), sum(w), sum(x), min(t), max(t), min(c), max(m), avg(x)",
    "sum(DISTINCT a), count(DISTINCT t), count(DISTINCT w), avg(DISTINCT y), product(y), product(DISTINCT y)",
    "bool_and(f), bool_or(f), bool_and(a > 0), bool_or(a > 0) FILTER (WHERE b = 'x'), coalesce(count_if(a > 1), 0)",
    "bit_and(a), bit_or(n), bit_xor(n), bit_xor(DISTINCT a), bit_or(a) FILTER (WHERE f)",
    "var_pop(x), var_samp(x), stddev_pop(x), stddev(x), variance(y), stddev_samp(n), var_pop(DISTINCT y)",
    "var_samp(m::DOUBLE), stddev_pop(x) FILTER (WHERE f), var_pop(a), var_samp(a + 1e9)",
    "covar_pop(x, y), covar_samp(y, n), regr_count(y, x), regr_avgx(y, n), regr_avgy(y, n), regr_sxx(y, x)",
    "regr_syy(y, x), regr_sxy(y, x), covar_pop(x, y) FILTER (WHERE f)",
    "string_agg(t, ',' ORDER BY id), string_agg(t, ', ' ORDER BY t DESC, id), string_agg(DISTINCT b, '-' ORDER BY b)",
    "string_agg(t, '' ORDER BY n DESC NULLS LAST, id) FILTER (WHERE f), string_agg(b, '|' ORDER BY x, id)",
    "median(x), median(y), percentile_cont(0.25) WITHIN GROUP (ORDER BY x), quantile_cont(y, 0.9)",
    "percentile_cont(0.1) WITHIN GROUP (ORDER BY y DESC), percentile_cont(0.7) WITHIN GROUP (ORDER BY n)",
    "percentile_disc(0.5) WITHIN GROUP (ORDER BY n), percentile_disc(0) WITHIN GROUP (ORDER BY t)",
    "percentile_disc(1) WITHIN GROUP (ORDER BY c), percentile_disc(0.3) WITHIN GROUP (ORDER BY m) FILTER (WHERE f)",
    "min_by(t, id), max_by(n, id), max_by(c, id) FILTER (WHERE f), arg_min(m, id), min_by(id, -id)",
    "any_value(t ORDER BY id), any_value(n ORDER BY id DESC), any_value(m ORDER BY x, id)",
)


@pytest.mark.parametrize("aggregates", SHARED)
@given(tables())
@settings(max_examples=examples(8), deadline=None)
def test_functions(aggregates: str, data: pa.Table) -> None:
    compare(data, f"SELECT {aggregates} FROM r")
    compare(data, f"SELECT b, {aggregates} FROM r GROUP BY b")
    compare(data, f"SELECT a, c, {aggregates} FROM r WHERE id % 7 > 0 GROUP BY a, c")


@given(tables())
@settings(max_examples=examples(50), deadline=None)
def test_correlation_and_lines(data: pa.Table) -> None:
    """Compared with their definitions; they are NULL if a variance they divide by is 0."""
    rows = [(x, y) for x, y in zip(data["x"].to_pylist(), data["y"].to_pylist()) if x is not None and y is not None]
    xs, ys = [x for x, _ in rows], [y for _, y in rows]
    wanted: list[float | None] = [None] * 4
    if len(set(ys)) > 1:
        slope, intercept = statistics.linear_regression(ys, xs)
        wanted[:2] = slope, intercept
        wanted[2] = 1.0 if len(set(xs)) == 1 else statistics.correlation(xs, ys) ** 2
        wanted[3] = None if len(set(xs)) == 1 else statistics.correlation(xs, ys)
    for store, threads in stores(data):
        ((*found,),) = query(
            store, "SELECT regr_slope(x, y), regr_intercept(x, y), regr_r2(x, y), corr(x, y) FROM r", threads
        )
        for ours, theirs in zip(found, wanted, strict=True):
            assert (ours is None) == (theirs is None)
            assert ours is None or math.isclose(ours, theirs, rel_tol=1e-7, abs_tol=1e-7)


def test_variances_are_stable() -> None:
    with nyala.connect(":memory:") as connection:
        calls = "var_pop(x + {0}), corr(x + {0}, 3 * x - {0}), var_pop({0} + 0 * x)"
        text = f"SELECT {calls} FROM (VALUES (1), (2), (4)) v (x)"
        for shift in ("0.1e0", "1e9", "-1e12"):
            variance, correlation, nothing = connection.execute(text.format(shift)).fetchone()
            assert math.isclose(variance, 14 / 9, rel_tol=1e-3 if shift == "-1e12" else 1e-9)
            assert math.isclose(correlation, 1.0, rel_tol=1e-6)
            assert nothing == 0.0


@given(tables())
@settings(max_examples=examples(50), deadline=None)
def test_mode_is_the_first_of_the_most_frequent(data: pa.Table) -> None:
    groups: dict[Any, list[str]] = defaultdict(list)
    for key, value in zip(data["a"].to_pylist(), data["b"].to_pylist()):
        groups[key] += [value] if value is not None else []
    for descending in (False, True):

        def first(values: list[str], descending: bool = descending) -> str | None:
            counts = Counter(values)
            most = [value for value in counts if counts[value] == max(counts.values())]
            return sorted(most, reverse=descending)[0] if most else None

        order = "b DESC" if descending else "b"
        text = f"SELECT a, mode() WITHIN GROUP (ORDER BY {order}) FROM r GROUP BY a"
        for store, threads in stores(data):
            assert dict(query(store, text, threads)) == {key: first(values) for key, values in groups.items()}


@given(tables())
@settings(max_examples=examples(10), deadline=None)
def test_joined_distinct_texts_are_in_order(data: pa.Table) -> None:
    found = sorted({t for t in data["t"].to_pylist() if t is not None})
    for store, threads in stores(data):
        assert query(store, "SELECT string_agg(DISTINCT t, ',') FROM r", threads) == [(",".join(found) or None,)]


@given(tables())
@settings(max_examples=examples(10), deadline=None)
def test_separators_may_differ_by_row(data: pa.Table) -> None:
    text = ""
    for number, (t, b) in enumerate(
        (t, b) for t, b in zip(data["t"].to_pylist(), data["b"].to_pylist()) if t is not None
    ):
        text += (b or "" if number else "") + t
    for store, threads in stores(data):
        assert query(store, "SELECT string_agg(t, b ORDER BY id) FROM r", threads) == [(text or None,)]


@pytest.mark.parametrize("values", few(["n", "n::STRING", "n::DOUBLE / 7", "n::DECIMAL(30,2)", "n % 200"], 2))
def test_approximate_counts_are_close_and_add_up(values: str) -> None:
    rng = np.random.default_rng(7)
    data = pa.table(
        {
            "id": pa.array(range(40_000), pa.int64()),
            "a": pa.array(rng.integers(0, 3, 40_000), pa.int32()),
            "n": pa.array(rng.integers(0, 20_000, 40_000), pa.int64()),
        }
    )
    for store, threads in stores(data):
        text = f"SELECT a, approx_count_distinct({values}), count(DISTINCT {values}) FROM r GROUP BY ROLLUP (a)"
        for _, about, exact in query(store, text, threads):
            assert abs(about - exact) <= 0.06 * exact + 1


def test_approximate_counts_of_nothing_are_zero() -> None:
    with nyala.connect(":memory:") as connection:
        text = "SELECT approx_count_distinct(x), regr_count(x, x) FROM (VALUES (1), (NULL)) v (x) WHERE x IS NULL"
        assert connection.execute(text).fetchall() == [(0, 0)]
        assert connection.execute(f"{text} AND FALSE").fetchall() == [(0, 0)]


def test_a_fraction_is_checked_row_by_row_too() -> None:
    with nyala.connect(":memory:") as connection:
        text = (
            "SELECT percentile_disc(y) WITHIN GROUP (ORDER BY x) FROM (VALUES (1, {0}), (2, {0})) v (x, y) GROUP BY y"
        )
        assert connection.execute(text.format("0.75")).fetchall() == [(2,)]
        assert connection.execute(text.format("NULL::DOUBLE")).fetchall() == [(None,)]
        with pytest.raises(DataError, match=r"from 0 to 1, and is 1\.5"):
            connection.execute(text.format("1.5")).fetchall()


def test_counts_of_a_subquery_without_rows_are_zero() -> None:
    """Decorrelated, the outer join leaves NULL if nothing was counted."""
    with nyala.connect(":memory:") as connection:
        connection.execute("CREATE TABLE o (k INT PRIMARY KEY)")
        connection.execute("CREATE TABLE i (k INT PRIMARY KEY, o INT, x INT)")
        connection.execute("INSERT INTO o VALUES (1), (2)")
        connection.execute("INSERT INTO i VALUES (1, 1, 5), (2, 1, 6)")
        text = "SELECT k, (SELECT {} FROM i WHERE i.o = o.k) FROM o ORDER BY k"
        for call, wanted in (
            ("approx_count_distinct(x)", [2, 0]),
            ("regr_count(x, x)", [2, 0]),
            ("count_if(x > 5)", [1, 0]),
            ("string_agg(x::STRING, ',' ORDER BY x DESC)", ["6,5", None]),
            ("median(x)", [5.5, None]),
        ):
            assert [row[1] for row in connection.execute(text.format(call)).fetchall()] == wanted


def test_intervals_have_an_order() -> None:
    """For comparisons a month counts as 30 days, a day as 24 hours."""
    with nyala.connect(":memory:") as connection:
        calls = "min(x), max(x), mode(x), percentile_disc(0.5) WITHIN GROUP (ORDER BY x), any_value(x ORDER BY x DESC)"
        rows = "('31 days'::INTERVAL, 1), ('1 month', 1), ('40 hours', 1), ('40 hours', 1), (NULL, 1), (NULL, 2)"
        ((_, *found), nothing) = connection.execute(
            f"SELECT y, {', '.join(f'({call})::STRING' for call in calls.split(', ', 4))}"
            f" FROM (VALUES {rows}) v (x, y) GROUP BY y ORDER BY y"
        ).fetchall()
        assert found == ["40:00:00", "31 days", "40:00:00", "40:00:00", "31 days"]
        assert nothing == (2, None, None, None, None, None)


def test_an_argument_is_computed_only_for_rows_that_pass_the_filter() -> None:
    with nyala.connect(":memory:") as connection:
        rows = "(VALUES (0), (4), (NULL)) v (x)"
        found = connection.execute(
            f"SELECT sum(8 / x) FILTER (WHERE x <> 0), count(8 / x) FILTER (WHERE x > 0),"
            f" min_by(x, 8 / x) FILTER (WHERE x > 0), avg(8 / nullif(x, 0)) FROM {rows}"
        )
        assert found.fetchall() == [(2, 1, 4, 2)]
