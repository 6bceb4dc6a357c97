"""Golden plans: each rule separately, and all of TPC-H with the statistics of scale factor 1."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import nyala
import pytest
from nyala.planner import explain
from nyala.planner.explaining.plan_text import draw_logical
from nyala.planner.rules import RULE_NAMES
from nyala.planner.testing import SMALL, WIDE, FixedCatalog, plan_text, show

HERE = Path(__file__).parent / "golden"
QUERIES = Path(nyala.__file__).parent / "tpch" / "query_texts"
Golden = Callable[[Path, Callable[[str], str]], None]

BEFORE = {
    "infer_predicates": ("simplify_joins",),
    "order_joins": ("pushdown_predicates",),
    "merge_projections": (),
    "filter_shared": ("pushdown_predicates",),
    "aggregate_early": ("pushdown_predicates", "prune_columns"),
    "fetch_late": ("reduce_group_keys", "merge_projections", "prune_columns", "push_limits"),
}
"""Other rules that must run before a rule's examples show its effect."""
CATALOGS = {"fetch_late": WIDE}
"""Catalogs other than `SMALL`, for rules that need many rows or texts."""


@pytest.mark.parametrize("number", range(1, 23))
def test_tpch_plan(golden: Golden, tpch: FixedCatalog, number: int) -> None:
    def run(command: str) -> str:
        return explain(plan_text((QUERIES / f"{command}.sql").read_text(), tpch))

    golden(HERE / "tpch" / f"q{number}.txt", run)


def test_scans(golden: Golden) -> None:
    golden(HERE / "scans.txt", lambda query: explain(plan_text(query)))


@pytest.mark.parametrize("rule", RULE_NAMES)
def test_rule(golden: Golden, rule: str) -> None:
    golden(HERE / "rules" / f"{rule}.txt", lambda query: shown(query, rule))


def shown(query: str, rule: str) -> str:
    return show(query, (*BEFORE.get(rule, ()), rule), CATALOGS.get(rule, SMALL))


@pytest.mark.parametrize("number", range(1, 23))
def test_every_rule_keeps_the_invariants_and_is_traced(tpch: FixedCatalog, number: int) -> None:
    plan = plan_text((QUERIES / f"q{number}.sql").read_text(), tpch, trace=True)
    names = [name for name, _ in plan.trace]
    assert names[0] == "build"
    assert names[1:] == [name for name in RULE_NAMES if name in names], "rules run once each, in order"
    assert plan.trace[-1][1] == plan.logical
    for (_, before), (name, after) in zip(plan.trace, plan.trace[1:], strict=False):
        assert draw_logical(before) != draw_logical(after), f"{name} changed nothing"


def test_verbose_explain_shows_each_step(tpch: FixedCatalog) -> None:
    text = explain(plan_text((QUERIES / "q3.sql").read_text(), tpch, trace=True), verbose=True)
    steps = [line[3:] for line in text.splitlines() if line.startswith("-- ")]
    assert steps[0] == "build"
    assert "pushdown_predicates" in steps
    assert steps[-1] == "physical plan"
