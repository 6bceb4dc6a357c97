"""Plans in which a condition on one table filters another over a join by a key that both have."""

from __future__ import annotations

import pytest
from nyala.model.store import ColumnStatistics, TableStatistics
from nyala.model.types import INT
from nyala.planner import explain
from nyala.planner.testing import FixedCatalog, make_table, plan_text

QUERY = """
    SELECT count(*) FROM sales JOIN stock ON sales.item = stock.item {more}
    JOIN days AS s ON sold = s.day JOIN days AS c ON counted = c.day WHERE s.week = c.week AND {condition}
"""


def catalog(sales: int, stock: int = 12_000_000) -> FixedCatalog:
    """Sales and stock by item and day; 200 years of days, of which sales have five and stock one day of each week."""
    distinct = {
        "days": {"day": 73_049, "week": 10_436, "year": 200},
        "sales": {"n": sales, "item": min(sales, 18_000), "sold": 1_800, "q": 100},
        "stock": {"m": stock, "item": 18_000, "counted": 261, "q": 1_000},
    }
    rows = {"days": 73_049, "sales": sales, "stock": stock}
    tables = {
        name: make_table(name, [(c, INT, i > 0) for i, c in enumerate(known)]) for name, known in distinct.items()
    }
    statistics = {
        name: TableStatistics(rows[name], {c: ColumnStatistics(0, n - 1, 0, float(n)) for c, n in known.items()})
        for name, known in distinct.items()
    }
    return FixedCatalog(tables, statistics)


def plan(more: str, condition: str, known: FixedCatalog) -> str:
    return explain(plan_text(QUERY.format(more=more, condition=condition), known))


def test_keys_of_a_join_above_reach_a_build_side_below() -> None:
    text = plan("", "s.year = 100", catalog(50_000))
    assert "HashJoin inner on stock.item = sales.item AND c.week = s.week" in text
    assert "runtime filter on c.week" in text and "runtime filter on stock.counted" in text
    assert "semi" not in text


@pytest.mark.parametrize("condition", ["s.year = 100", "(s.year + s.day) % 3 < 9 AND s.year = 100"])
def test_a_build_side_is_reduced_by_the_table_with_the_condition(condition: str) -> None:
    text = plan("AND stock.q < sales.q", condition, catalog(50_000))
    assert "HashJoin semi on c.week = s.week" in text and "runtime filter on stock.counted" in text
    assert "Shared 1 (drawn above)" in text, "the table with the condition is read once"


@pytest.mark.parametrize(
    ("condition", "stock"),
    [
        ("TRUE", 12_000_000),
        ("s.year >= 0", 12_000_000),
        ("s.year = 100", 200_000),  # not large beside the days
    ],
)
def test_conditions_that_do_not_pass(condition: str, stock: int) -> None:
    text = plan("AND stock.q < sales.q", condition, catalog(50_000, stock))
    assert "semi" not in text and "runtime filter on stock.counted" not in text, text
