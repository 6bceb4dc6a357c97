"""Small build sides that several joins share, and those that they do not share."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import nyala
import pyarrow as pa
import pytest
from executor_support import MemoryStore
from nyala.executor import ExecutionContext
from nyala.executor.execute import execute
from nyala.planner import PlannerOptions, plan_query
from nyala.planner.algebra.physical import HashJoin, PhysicalNode, RuntimeFilter, Shared, TableScan, nodes
from nyala.planner.physical.shared_build_sides import independent_build_sides
from nyala.planner.testing import FixedCatalog, bound_query, plan_text

PATH = Path(nyala.__file__).parent / "tpch" / "query_texts"
CHEAPEST_OF_SOME = (PATH / "q2.sql").read_text().replace("\n    )", " and ps_availqty > 0)")
"""Query 2 with a subquery whose condition is stricter than the outer query's, so that it is joined."""


def shared(root: PhysicalNode) -> list[Shared]:
    return [node for node in nodes(root) if isinstance(node, Shared)]


TWICE = "SELECT x.k{} FROM t x JOIN v p ON x.a = p.d AND p.e {} JOIN t y ON x.k = y.a JOIN v q ON y.k = q.d AND q.e {}"


@pytest.mark.parametrize(
    ("text", "uses"),
    [
        (TWICE.format("", "= 3", "= 3"), 2),
        (TWICE.format(", q.e", "= 3", "= 3"), 2),
        (TWICE.format(", p.e, q.e", "% 2 = 1", "% 2 = 1"), 2),
        (TWICE.format("", "= 3", "= 4"), 0),
        (TWICE.format("", "< random() * 5", "< random() * 5"), 0),
        (TWICE.replace(" v ", " u ").replace(".d", ".b").replace(".e", ".c").format("", "> 3", "> 3"), 0),  # too large
        ("SELECT 1 FROM t JOIN (SELECT d FROM v LIMIT 2) ON a = d JOIN (SELECT d AS g FROM v LIMIT 2) ON k = g", 0),
    ],
)
def test_what_is_shared(text: str, uses: int) -> None:
    found = shared(plan_text(text).root)
    assert len(found) == uses
    assert len({node.key for node in found}) == len({id(node.source) for node in found}) == min(uses, 1)


def test_with_the_rule_it_goes() -> None:
    assert not shared(plan_text(TWICE.format("", "= 3", "= 3"), without=["share_common_subplans"]).root)


def test_what_is_shared_gives_the_columns_of_all_its_uses() -> None:
    text = TWICE.format(", q.e", "BETWEEN 3 AND 4", "BETWEEN 3 AND 4")
    first, second = shared(plan_text(text).root)
    assert [column.name for column in first.source.columns] == ["d", "e"]
    assert isinstance(first.source, TableScan) and first.source.names == ("d", "e")
    numbers = [column.id for use in (first, second) for column in use.columns]
    assert len(set(numbers)) == len(numbers)


def test_joins_of_small_tables_are_shared_whole(tpch: FixedCatalog) -> None:
    first, second = shared(plan_text(CHEAPEST_OF_SOME, tpch).root)
    assert first.source is second.source and isinstance(first.source, HashJoin)
    assert sorted(node.alias for node in nodes(first.source) if isinstance(node, TableScan)) == ["nation", "region"]


def test_build_sides_that_no_filter_from_above_reaches_are_independent(tpch: FixedCatalog) -> None:
    root = plan_text(CHEAPEST_OF_SOME, tpch).root
    expected = [
        ["part", "partsupp", "partsupp", "supplier"],  # and what these share, of which nothing is said
        ["part", "partsupp", "supplier"],
        ["part"],
        ["supplier"],
        [],
        [],
    ]
    assert [sorted(tables(build)) for build in independent_build_sides(root)] == expected


def test_a_build_side_that_a_filter_from_above_reaches_is_not_independent() -> None:
    root = plan_text("SELECT x.k FROM t x JOIN v p ON x.a = p.d AND p.e = 3 JOIN v q ON x.k = q.d AND q.e = 4").root
    outer = next(node for node in nodes(root) if isinstance(node, HashJoin))
    inner = next(node for node in nodes(outer.probe) if isinstance(node, HashJoin))
    without_filters = replace(outer, runtime_filters=())
    assert list(independent_build_sides(without_filters)) == [outer.build, inner.build]
    with_filter = replace(outer, runtime_filters=(RuntimeFilter(0, inner.build.columns[0].id),))
    assert list(independent_build_sides(with_filter)) == [outer.build]


def tables(node: PhysicalNode) -> list[str]:
    """The tables below, but for those of shared subplans."""
    below = [] if isinstance(node, Shared) else [name for child in node.children() for name in tables(child)]
    return [node.alias] if isinstance(node, TableScan) else below


QUERIES = [
    "SELECT x.k, y.k, p.e{} FROM f x JOIN v p ON x.a = p.d AND p.e {cond} JOIN f y ON x.k = y.a "
    "JOIN v q ON y.b = q.d AND q.e {cond}",
    "SELECT x.k, q.e FROM f x LEFT JOIN v p ON x.a = p.d AND p.e {cond} LEFT JOIN v q ON x.b = q.d AND q.e {cond}",
    "SELECT x.k, p.g FROM f x JOIN v p ON x.a = p.d AND p.e {cond} JOIN v q ON x.b = q.d AND q.e {cond} AND q.g > p.g",
    "SELECT x.k FROM f x JOIN v p ON x.a = p.d AND p.e {cond} AND p.g < 9 "
    "WHERE EXISTS (SELECT 1 FROM v q WHERE q.d = x.b AND q.e {cond} AND q.g < 9)",
    "SELECT x.k, p.e, r.g FROM f x JOIN v p ON x.a = p.d JOIN v q ON p.g = q.d AND q.e {cond} "
    "JOIN v r ON x.b = r.d JOIN v s ON r.g = s.d AND s.e {cond}",
    "SELECT x.k, p.e, q.g, r.d FROM f x JOIN v p ON x.a = p.d AND p.e {cond} JOIN v q ON x.b = q.d AND q.e {cond} "
    "JOIN v r ON x.c = r.d AND r.e {cond}",
    "SELECT x.k FROM f x JOIN v p ON x.a = p.d AND p.e {cond} UNION ALL "
    "SELECT y.k FROM f y JOIN v q ON y.b = q.d AND q.e {cond}",
]


@pytest.fixture(scope="module")
def store() -> MemoryStore:
    found = MemoryStore(tablets=2)
    rows = range(1000)
    columns = {"k": list(rows), "a": [i % 50 for i in rows], "b": [i % 37 for i in rows], "c": [i % 11 for i in rows]}
    found.add("f", pa.table(columns), ["k"], "k")
    few = range(60)
    found.add("v", pa.table({"d": list(few), "e": [i % 4 for i in few], "g": [i * 7 % 60 for i in few]}), ["d"])
    return found


def rows_of(store: MemoryStore, text: str, options: PlannerOptions) -> tuple[list[str], int]:
    plan = plan_query(bound_query(text, store), store, options)  # type: ignore[arg-type]
    batches = execute(plan.root, ExecutionContext(store, threads=2))  # type: ignore[arg-type]
    rows = [
        row
        for batch in batches
        for row in zip(*(column.to_arrow().to_pylist() for column in batch.columns()), strict=True)
    ]
    return sorted(map(repr, rows)), len(shared(plan.root))


@pytest.mark.parametrize("condition", ["= 3", "IN (1, 2)", "% 3 = 1", "= 77"])
@pytest.mark.parametrize("query", QUERIES)
def test_rows_are_the_same(store: MemoryStore, query: str, condition: str) -> None:
    text = query.format("", cond=condition)
    rows, uses = rows_of(store, text, PlannerOptions(check=True))
    without = PlannerOptions(frozenset(["share_common_subplans"]))
    assert (rows, 0) == rows_of(store, text, without)
    assert uses >= 2 or "LEFT" in query  # a side that is kept may be built
