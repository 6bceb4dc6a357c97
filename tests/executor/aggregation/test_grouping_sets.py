"""GROUPING SETS, ROLLUP and CUBE against DuckDB, in random combinations."""

from __future__ import annotations

from typing import Any

import nyala
import pyarrow as pa
import pytest
from aggregate_support import compare, query, stores, tables
from examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st

KEYS = ("a", "b", "c", "a + 1", "id % 3", "id")
AGGREGATES = (
    "count(*), sum(m), avg(x), min(t), max(n), sum(w)",
    "count(DISTINCT t), string_agg(DISTINCT t, ',' ORDER BY t), median(x), max_by(t, id), sum(DISTINCT n)",
    "var_pop(x), bool_and(f), bit_or(n), coalesce(count_if(f), 0), covar_samp(x, y), any_value(c ORDER BY id)",
)


def part() -> st.SearchStrategy[str]:
    several = st.lists(st.sampled_from(KEYS), min_size=1, max_size=3, unique=True)
    return st.one_of(st.sampled_from(KEYS), several.map(lambda keys: f"({', '.join(keys)})"))


def element() -> st.SearchStrategy[str]:
    parts = st.lists(part(), min_size=1, max_size=3).map(", ".join)
    plain = st.one_of(part(), parts.map("ROLLUP ({})".format), parts.map("CUBE ({})".format))
    inner = st.one_of(plain, st.just("()"))
    sets = st.recursive(
        inner,
        lambda of: st.lists(of, min_size=1, max_size=3).map(lambda found: f"GROUPING SETS ({', '.join(found)})"),
        max_leaves=4,
    )
    return st.one_of(plain, sets)


def clause() -> st.SearchStrategy[str]:
    return st.lists(element(), min_size=1, max_size=2).map(", ".join)


@given(tables(), clause(), st.sampled_from(AGGREGATES))
@settings(max_examples=examples(80), deadline=None)
def test_any_combination(data: pa.Table, by: str, aggregates: str) -> None:
    if by.replace("(", "").replace(")", "").strip() == "":
        by = "a"
    compare(data, f"SELECT {aggregates} FROM r GROUP BY {by}")


@given(tables(), st.sampled_from(AGGREGATES))
@settings(max_examples=examples(63), deadline=None)
def test_keys_and_grouping(data: pa.Table, aggregates: str) -> None:
    for by in ("ROLLUP (a, b)", "CUBE (a, b, c)", "a, GROUPING SETS ((b), (c), (b, c), ())", "ROLLUP ((a, b), c)"):
        bits = "a, b, c" if "c" in by else "a, b"
        compare(data, f"SELECT {bits}, grouping({bits}), {aggregates} FROM r GROUP BY {by}")


@pytest.mark.slow
@given(tables())
@settings(max_examples=examples(63), deadline=None)
def test_having_reads_groups_that_sets_lack(data: pa.Table) -> None:
    """A condition on a group may be pushed down only if every set has the group."""
    conditions = ("a = 1", "a IS NULL", "b = 'x' AND a > 0", "grouping(b) = 1", "coalesce(b, 'none') = 'none'")
    for by in ("ROLLUP (a, b)", "GROUPING SETS ((a, b), (a))", "CUBE (b, a)"):
        for condition in conditions:
            compare(data, f"SELECT a, b, count(*), sum(n) FROM r GROUP BY {by} HAVING {condition}")
        compare(data, f"SELECT * FROM (SELECT a, b, count(*) AS k FROM r GROUP BY {by}) s WHERE a = 1 OR b IS NULL")


@given(tables())
@settings(max_examples=examples(15), deadline=None)
def test_as_a_derived_table(data: pa.Table) -> None:
    """Proofs about the groups' keys, equalities and NULLs do not hold above sets."""
    rolled = "(SELECT a, b, count(*) AS k FROM r GROUP BY ROLLUP (a, b))"
    compare(data, f"SELECT r.id, s.k FROM r JOIN {rolled} s ON r.a = s.a AND s.b IS NULL")
    compare(data, f"SELECT r.id, s.k FROM r LEFT JOIN {rolled} s ON r.a = s.a")
    compare(data, f"SELECT a, count(*) FROM {rolled} s GROUP BY a")
    compare(data, f"SELECT DISTINCT a FROM {rolled} s")
    compare(data, f"SELECT id FROM r WHERE NOT EXISTS (SELECT 1 FROM {rolled} s WHERE s.a = r.n)")
    compare(data, "SELECT l.id, count(r.id), sum(r.m) FROM r l LEFT JOIN r ON r.n = l.id GROUP BY ROLLUP (l.id)")
    compare(data, "SELECT l.id, l.a, l.b, max(r.t) FROM r l LEFT JOIN r ON r.n = l.id GROUP BY CUBE (l.id, (l.a, l.b))")
    compare(data, f"SELECT id FROM r WHERE a IN (SELECT a FROM {rolled} s WHERE k > 1)")


@given(tables())
@settings(max_examples=examples(15), deadline=None)
def test_sets_within_correlated_subqueries(data: pa.Table) -> None:
    inner = "SELECT count(*) FROM r i WHERE i.a = r.a GROUP BY GROUPING SETS ((i.b), (i.a, i.c))"
    compare(data, f"SELECT id FROM r WHERE 2 IN ({inner})")


@given(tables())
@settings(max_examples=examples(15), deadline=None)
def test_group_by_all(data: pa.Table) -> None:
    compare(data, "SELECT a, b, count(*) FROM r GROUP BY ALL")
    compare(data, "SELECT a + 1, sum(n) + 1, b FROM r GROUP BY ALL")
    compare(data, "SELECT sum(n) FROM r GROUP BY ALL", "SELECT sum(n) FROM r")
    compare(data, "SELECT * FROM r GROUP BY ALL")
    compare(data, "SELECT a, a % 2 AS k FROM r GROUP BY ALL HAVING count(*) > 1")


@given(tables())
@settings(max_examples=examples(15), deadline=None)
def test_order_and_windows_over_sets(data: pa.Table) -> None:
    text = """SELECT a, b, grouping(a, b), sum(n), rank() OVER (PARTITION BY grouping(a, b) ORDER BY count(*), a, b)
              FROM r GROUP BY CUBE (a, b) ORDER BY grouping(a, b), a, b"""
    compare(data, text)
    for store, threads in stores(data):
        levels = [row[2] for row in query(store, text, threads)]
        assert levels == sorted(levels)


@pytest.fixture
def connection() -> Any:
    with nyala.connect(":memory:") as found:
        found.execute("CREATE TABLE t (id INT PRIMARY KEY, a INT NOT NULL, b STRING NOT NULL)")
        found.execute("INSERT INTO t VALUES (1, 1, 'x'), (2, 1, 'y'), (3, 2, 'x')")
        yield found


def test_columns_that_a_set_lacks_are_null_whatever_was_known(connection: Any) -> None:
    text = """SELECT a, a + 1, a IS NULL, concat(b, '!'), coalesce(a, -1), CASE WHEN a IS NULL THEN 'all' ELSE b END
              FROM t GROUP BY ROLLUP (a, b) HAVING grouping(a) = 1"""
    cursor = connection.execute(text)
    assert cursor.fetchall() == [(None, None, True, "!", -1, "all")]
    table = connection.execute(text).arrow()
    assert table.schema.field(0).nullable and table.schema.field(1).nullable


def test_the_empty_set_has_a_row_over_no_rows(connection: Any) -> None:
    for by, wanted in (
        ("ROLLUP (a)", [(None, 0, None)]),
        ("GROUPING SETS ((), (a), ())", [(None, 0, None)] * 2),
        ("a", []),
        ("GROUPING SETS ((a), (b))", []),
    ):
        assert connection.execute(f"SELECT a, count(*), max(id) FROM t WHERE id > 9 GROUP BY {by}").fetchall() == wanted
    assert connection.execute("SELECT count(*) FROM t WHERE id > 9 GROUP BY ()").fetchall() == [(0,)]


def test_duplicate_sets_stay_unless_distinct(connection: Any) -> None:
    count = "SELECT count(*) FROM (SELECT a FROM t GROUP BY {}) s"
    assert connection.execute(count.format("ROLLUP (a), ROLLUP (a)")).fetchone() == (7,)
    assert connection.execute(count.format("DISTINCT ROLLUP (a), ROLLUP (a)")).fetchone() == (3,)


def test_grouping_is_a_bit_mask(connection: Any) -> None:
    text = "SELECT grouping(a, b), grouping(b), grouping(b, a), count(*) FROM t GROUP BY GROUPING SETS ((a), (b), ())"
    assert sorted(set(connection.execute(text).fetchall())) == [
        (1, 1, 2, 1),
        (1, 1, 2, 2),
        (2, 0, 1, 1),
        (2, 0, 1, 2),
        (3, 1, 3, 3),
    ]
    assert connection.execute("SELECT DISTINCT grouping(a) FROM t GROUP BY a").fetchall() == [(0,)]


def test_ordinals_and_aliases_in_sets(connection: Any) -> None:
    text = "SELECT a % 2 AS odd, b, count(*) FROM t GROUP BY ROLLUP (odd, 2) ORDER BY 1, 2"
    assert connection.execute(text).fetchall() == [
        (0, "x", 1), (0, None, 1), (1, "x", 1), (1, "y", 1), (1, None, 2), (None, None, 3),
    ]  # fmt: skip


def test_the_plan_shows_the_sets(connection: Any) -> None:
    plan = "\n".join(
        line for (line,) in connection.execute("EXPLAIN SELECT a, b, count(*) FROM t GROUP BY CUBE (a, b)")
    )
    assert "HashAggregate by GROUPING SETS ((a, b), (a), (b), ()): count(*)" in plan
