"""Estimates, parameters, EXPLAIN, invariants, and the choices that golden plans do not cover."""

from __future__ import annotations

from pathlib import Path

import nyala
import pytest
from nyala.errors import InterfaceError, InternalError, InvalidText, ProgrammingError
from nyala.model.predicates import InList, Range
from nyala.model.store import ColumnStatistics, TableStatistics
from nyala.model.types import BIGINT, DECIMAL, DOUBLE, INT, STRING, DataType
from nyala.planner import Actual, PlannerOptions, bind_parameters, explain, plan_query
from nyala.planner.algebra import physical
from nyala.planner.algebra.invariants import check_plan
from nyala.planner.algebra.logical import Filter, Join, Project, Scan
from nyala.planner.algebra.physical import PhysicalNode
from nyala.planner.algebra.trees import call, nodes, rewrite
from nyala.planner.estimates.statistics import distinct_among
from nyala.planner.fold import fold, shift_months
from nyala.planner.query_plan import Plan
from nyala.planner.testing import SMALL, FixedCatalog, bound_query, make_table, plan_text
from nyala.sql.bound import Query
from nyala.sql.expressions import Column, Expr, Literal, Parameter

QUERIES = Path(nyala.__file__).parent / "tpch" / "query_texts"


def every(node: PhysicalNode) -> list[PhysicalNode]:
    return [node, *(below for child in node.children() for below in every(child))]


def scans(plan: Plan) -> dict[str, physical.TableScan]:
    return {node.alias: node for node in every(plan.root) if isinstance(node, physical.TableScan)}


# ---- estimates -------------------------------------------------------------------------------------------------------

TRUE_ROWS = [
    # Counted in TPC-H at scale factor 1.
    ("SELECT 1 FROM lineitem WHERE l_shipdate <= date '1998-09-02'", 5_916_591),
    ("SELECT 1 FROM orders WHERE o_orderdate >= date '1993-07-01' AND o_orderdate < date '1993-10-01'", 57_218),
    ("SELECT 1 FROM part WHERE p_brand = 'Brand#23' AND p_container = 'MED BOX'", 204),
    ("SELECT 1 FROM lineitem, orders WHERE l_orderkey = o_orderkey AND o_orderdate < date '1992-02-01'", 77_000),
    ("SELECT 1 FROM partsupp, lineitem WHERE ps_partkey = l_partkey AND ps_suppkey = l_suppkey", 6_001_215),
    ("SELECT 1 FROM supplier, nation, region WHERE s_nationkey = n_nationkey AND n_regionkey = r_regionkey "
     "AND r_name = 'ASIA'", 2_003),
    ("SELECT l_orderkey FROM lineitem GROUP BY l_orderkey", 1_500_000),
    ("SELECT 1 FROM orders WHERE EXISTS (SELECT 1 FROM lineitem WHERE l_orderkey = o_orderkey)", 1_500_000),
]  # fmt: skip


@pytest.mark.parametrize(("query", "rows"), TRUE_ROWS)
def test_estimates_are_within_a_factor_of_two(tpch: FixedCatalog, query: str, rows: int) -> None:
    estimate = plan_text(query, tpch).root.estimate
    assert rows / 2 <= estimate <= rows * 2


def test_groups_of_a_rare_sum_are_few(tpch: FixedCatalog) -> None:
    text = "SELECT l_orderkey FROM lineitem GROUP BY l_orderkey HAVING sum(l_quantity) > {}"
    rare, usual = (plan_text(text.format(n), tpch).root.estimate for n in (300, 100))
    assert rare < 5_000
    assert 300_000 < usual < 1_200_000


def test_a_few_rows_of_many_values_are_all_different() -> None:
    assert distinct_among(1e6, 10) == pytest.approx(10, rel=1e-3)
    assert distinct_among(10, 1e6) == pytest.approx(10)


# ---- physical choices ------------------------------------------------------------------------------------------------


def test_the_small_side_of_an_exists_is_built(tpch: FixedCatalog) -> None:
    text = "SELECT o_orderkey FROM orders WHERE {} EXISTS (SELECT 1 FROM lineitem WHERE l_orderkey = o_orderkey{})"
    few = text.format("o_orderkey = 7 AND", "")
    many = text.format("", " AND l_quantity = 1 AND l_shipdate = date '1995-01-01'")
    kinds = [
        next(n.kind for n in every(plan_text(q, tpch).root) if isinstance(n, physical.HashJoin)) for q in (few, many)
    ]
    assert kinds == ["right_semi", "semi"]


def test_a_runtime_filter_reaches_the_scan_below_an_aggregate(tpch: FixedCatalog) -> None:
    other_rows = (QUERIES / "q17.sql").read_text().replace("\n    )", " and l_tax > 0)")
    plan = plan_text(other_rows, tpch)
    joins = [node for node in every(plan.root) if isinstance(node, physical.HashJoin)]
    below = next(join for join in joins if isinstance(join.probe, physical.HashAggregate))
    scan = below.probe.children()[0]
    assert isinstance(scan, physical.TableScan)
    assert [f.column for f in below.runtime_filters] == [scan.fetched[0].id]
    assert scan.names[0] == "l_partkey"


def test_no_runtime_filter_where_unmatched_rows_come_out() -> None:
    plan = plan_text("SELECT t.k, u.c FROM t LEFT JOIN u ON t.a = u.b AND u.c = 1")
    join = next(node for node in every(plan.root) if isinstance(node, physical.HashJoin))
    assert join.kind in ("left", "full")
    assert join.runtime_filters == ()


def test_a_shared_subplan_is_one_object() -> None:
    plan = plan_text(
        "WITH g AS (SELECT a, count(*) AS n FROM t GROUP BY a) SELECT x.n FROM g AS x, g AS y WHERE x.n = y.a"
    )
    uses = [node for node in every(plan.root) if isinstance(node, physical.Shared)]
    assert len(uses) == 2
    assert uses[0].source is uses[1].source


def test_null_safe_equality_is_a_hash_join() -> None:
    plan = plan_text("SELECT k, (SELECT count(*) FROM u WHERE u.c > t.a) AS n FROM t")
    assert any(isinstance(node, physical.HashJoin) for node in every(plan.root))


def test_what_only_the_condition_reads_is_fetched_last() -> None:
    scan = scans(plan_text("SELECT k FROM t WHERE a + k > 3"))["t"]
    assert [c.name for c in scan.columns] == ["k"]
    assert scan.names == ("k", "a")


def test_a_disabled_rule_must_exist() -> None:
    with pytest.raises(ProgrammingError, match="there is no rule order_join; did you mean order_joins"):
        plan_query(bound_query("SELECT k FROM t"), SMALL, PlannerOptions(frozenset({"order_join"})))


def test_many_relations_are_joined_greedily() -> None:
    tables = ", ".join(f"t AS t{i}" for i in range(13))
    links = " AND ".join(f"t{i}.a = t{i + 1}.k" for i in range(12))
    plan = plan_text(f"SELECT t0.k FROM {tables} WHERE {links} AND t12.a = 1")
    joins = [node for node in every(plan.root) if isinstance(node, physical.HashJoin)]
    assert len(joins) == 12
    assert not any(isinstance(node, physical.NestedLoopJoin) for node in every(plan.root))


def test_a_correlated_limit_is_one_per_group() -> None:
    plan = plan_text("SELECT k FROM t WHERE a = (SELECT c FROM u WHERE u.b < t.k ORDER BY c LIMIT 1)")
    (first,) = {node.number: node for node in every(plan.root) if isinstance(node, physical.TopRows)}.values()
    assert len(first.groups) == 1 and not first.ties
    # An equality needs no execution per outer value: the first rows of all groups are found at once.
    plan = plan_text("SELECT k FROM t WHERE a = (SELECT c FROM u WHERE u.c = t.k ORDER BY b LIMIT 1)")
    assert not any(isinstance(node, physical.Shared) for node in every(plan.root))


# ---- parameters ------------------------------------------------------------------------------------------------------


def with_parameter(query: Query, name: str | None = None) -> Plan:
    """Return the plan of a query in which the literal 99 is a parameter."""
    body = query.body
    parameter = Parameter(INT, True, 0, name)

    def change(expr: Expr) -> Expr:
        return parameter if isinstance(expr, Literal) and expr.value == 99 else expr

    where = rewrite(body.where, change)  # type: ignore[union-attr, arg-type]
    from dataclasses import replace

    return plan_query(replace(query, body=replace(body, where=where)), SMALL)  # type: ignore[arg-type]


def test_bound_parameters_go_down_into_the_scan() -> None:
    plan = with_parameter(bound_query("SELECT a FROM t WHERE k = 99"))
    assert scans(plan)["t"].residual is not None
    bound = scans(bind_parameters(plan, [5]))["t"]
    assert bound.predicates == (Range.equal("k", 5),)
    assert bound.residual is None
    assert scans(plan)["t"].predicates == (), "the cached plan is as it was"


def test_parameters_by_name_and_what_may_be_wrong() -> None:
    plan = with_parameter(bound_query("SELECT a FROM t WHERE k = 99"), "key")
    assert scans(bind_parameters(plan, {"key": 7}))["t"].predicates == (Range.equal("k", 7),)
    with pytest.raises(InterfaceError, match="no value for parameter :key; values were given for other"):
        bind_parameters(plan, {"other": 7})
    with pytest.raises(InterfaceError, match="no value for parameter 1; the statement was given 0"):
        bind_parameters(plan, [])
    with pytest.raises(InvalidText, match="not a value of type INT"):
        bind_parameters(plan, ["seven"])


def test_a_plan_without_parameters_is_bound_already() -> None:
    plan = plan_text("SELECT a FROM t WHERE k IN (1, 2)")
    assert bind_parameters(plan, []) is plan
    assert scans(plan)["t"].predicates == (InList("k", (1, 2)),)


# ---- explain, check, fold --------------------------------------------------------------------------------------------


def test_explain_shows_what_happened_beside_what_was_expected() -> None:
    plan = plan_text("SELECT a FROM t WHERE k = 3")
    scan = scans(plan)["t"]
    text = explain(plan, {scan.number: Actual(1, 0.0021, ("pages read 1, skipped 14",))})
    assert "TableScan t  (1 rows, ~1 rows expected, 2.1 ms)" in text
    assert "· pages read 1, skipped 14" in text


def test_the_checker_names_the_rule_that_broke_a_plan() -> None:
    plan = plan_text("SELECT t.k FROM t, u WHERE t.a = u.b").logical
    scan = next(node for node in nodes(plan) if isinstance(node, Scan))
    stranger = Column(INT, True, 999, "stranger")
    with pytest.raises(InternalError, match=r"after shuffle: Filter: no input provides stranger \(999\)"):
        check_plan(Filter(scan, call("eq", stranger, stranger)), "shuffle")
    with pytest.raises(InternalError, match="is made twice"):
        check_plan(Join("cross", scan, scan), "shuffle")
    text = Literal(STRING, False, "1")
    with pytest.raises(InternalError, match="eq compares INT with STRING"):
        check_plan(Filter(scan, call("eq", scan.output[0], text)), "shuffle")
    with pytest.raises(InternalError, match="its predicate is of type INT"):
        check_plan(Filter(scan, scan.output[0]), "shuffle")
    check_plan(Project(scan, ((stranger, scan.output[0]),)), "shuffle")


def test_folding_leaves_what_would_fail_to_whoever_needs_it() -> None:
    one, zero = Literal(INT, False, 1), Literal(INT, False, 0)
    quotient = call("div", one, zero, type_=INT)
    assert fold(quotient) == quotient
    top = Literal(INT, False, 2**31 - 1)
    too_much = call("add", top, one, type_=INT)
    assert fold(too_much) == too_much


def test_months_end_where_they_end() -> None:
    assert shift_months(30, 1) == 58  # 31 January 1970 and one month is 28 February
    assert shift_months(0, -1) == -31


# ---- Bloom filters ---------------------------------------------------------------------------------------------------


def joined(type_: DataType, large: int, distinct: int, small: int) -> physical.HashJoin:
    """Return the join of a large table with a small one on columns of a type."""
    tables = {name: make_table(name, [("k", INT, False), ("x", type_, True)]) for name in ("large", "small")}
    known = {
        name: TableStatistics(rows, {"x": ColumnStatistics(None, None, 0, float(values))})
        for name, rows, values in (("large", large, distinct), ("small", small, small))
    }
    plan = plan_text("SELECT l.k FROM large AS l, small AS s WHERE l.x = s.x", FixedCatalog(tables, known))
    return next(node for node in every(plan.root) if isinstance(node, physical.HashJoin))


@pytest.mark.parametrize("type_", [DOUBLE, DECIMAL(30, 2), BIGINT], ids=str)
def test_a_bloom_filter_may_have_as_many_keys_as_it_pays_for(type_: DataType) -> None:
    (offered,) = joined(type_, 1_000_000, 500_000, 10_000).runtime_filters
    assert 10_000 < offered.bloom_keys < 200_000
    (narrower,) = joined(type_, 200_000, 100_000, 5_000).runtime_filters
    assert narrower.bloom_keys < offered.bloom_keys


def test_no_bloom_filter_that_drops_too_little() -> None:
    assert joined(DOUBLE, 1_000_000, 500_000, 300_000).runtime_filters == ()
    (exact_at_best,) = joined(BIGINT, 1_000_000, 500_000, 300_000).runtime_filters
    assert exact_at_best.bloom_keys < 300_000


def test_texts_get_a_bloom_filter_only_over_a_dictionary() -> None:
    (few,) = joined(STRING, 1_000_000, 500_000, 100).runtime_filters
    assert few.bloom_keys == 0
    assert joined(STRING, 1_000_000, 500_000, 1_000).runtime_filters == ()
    (over_entries,) = joined(STRING, 1_000_000, 5_000, 1_000).runtime_filters
    assert over_entries.bloom_keys > 1_000


def test_keys_that_are_kept_in_different_widths_are_not_offered() -> None:
    tables = {
        "large": make_table("large", [("k", INT, False), ("x", DECIMAL(12, 2), True)]),
        "small": make_table("small", [("k", INT, False), ("x", DECIMAL(30, 2), True)]),
    }
    known = {"large": TableStatistics(1_000_000), "small": TableStatistics(10)}
    plan = plan_text("SELECT l.k FROM large AS l, small AS s WHERE l.x = s.x", FixedCatalog(tables, known))
    (join,) = (node for node in every(plan.root) if isinstance(node, physical.HashJoin))
    assert join.runtime_filters == ()
