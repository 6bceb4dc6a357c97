"""Texts that a top-N only passes through are read by key afterwards: results as DuckDB's, and only if the rule
applies."""

from __future__ import annotations

import importlib
import random
from collections.abc import Iterator
from typing import Any

import pytest
from engines_support import same_tables
from nyala.model.store import TableStatistics
from nyala.model.types import INT, STRING
from nyala.planner.algebra.logical import Scan
from nyala.planner.algebra.trees import nodes
from nyala.planner.plan import plan_query
from nyala.planner.query_plan import PlannerOptions
from nyala.planner.testing import WIDE, FixedCatalog, bound_query, make_table, show

ROWS = {
    "w": [(k, (3, None, 1, 3)[k % 4], (None, "ä", "", "long" * 5)[k * 7 % 4], f"z{k % 3}") for k in range(23)],
    "o": [(k // 3, k % 3, (k * 5 % 29) or None, (None, "p", "q")[k % 3]) for k in range(40)],
}
TABLES = {
    "w": "k INT, a INT, s VARCHAR(50), z VARCHAR(50), PRIMARY KEY (k)",
    "o": "x INT, y INT, w INT, c VARCHAR(50), PRIMARY KEY (x, y)",
}


@pytest.fixture
def databases(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Any, Any]]:
    """Small tables, with the cost comparison disabled."""
    rule = importlib.import_module("nyala.planner.rules.fetch_late")
    monkeypatch.setattr(rule, "LEAST_ROWS", 0)
    monkeypatch.setattr(rule, "LEAST_TIMES", 0)
    with same_tables(TABLES, ROWS) as found:
        found[1].execute("SET default_null_order = 'nulls_last_on_asc_first_on_desc'")
        yield found


SOURCES = {
    "w": ("w.k", "w.a, w.k"),
    "o": ("o.x, o.y", "o.w NULLS FIRST, o.x DESC, o.y"),
    "w JOIN o ON w.k = o.w": ("w.k, o.x, o.y", "o.y, w.a NULLS FIRST, w.k, o.x"),
    "w LEFT JOIN o ON w.k = o.w": ("w.k, o.x, o.y", "o.x NULLS LAST, w.k DESC, o.y"),
    "o LEFT JOIN w ON w.k = o.w AND w.a > 1": ("o.x, o.y, w.k", "w.a NULLS LAST, o.x DESC, o.y"),
    "w, o": ("w.k, o.x, o.y", "w.a NULLS LAST, o.w NULLS LAST, w.k, o.x, o.y"),
    "(SELECT k, max(a) AS a, s, z FROM w GROUP BY k, s, z) AS w": ("w.k", "w.a NULLS LAST, w.k"),
    "(SELECT DISTINCT k, a, s, z FROM w) AS w": ("w.k", "w.a NULLS LAST, w.k"),
    "(SELECT k, a, s, z FROM w UNION ALL SELECT x, y, c, c FROM o) AS w": ("w.k, w.a, w.s, w.z", "w.a, w.k, w.s, w.z"),
}


def query(chance: random.Random) -> str:
    """Write a query; four of five group by all columns, and so by the keys."""
    source = chance.choice(list(SOURCES))
    keys, order = SOURCES[source]
    order = chance.choice([order, keys])
    everything = [column for table in "wo" if f"{table}." in keys for column in _columns(table)]
    columns = chance.sample(everything, chance.randint(2, 4))
    texts = [column for column in columns if column[2:] in ("s", "z", "c")]
    shown = [f"upper({texts[0]})" if texts and chance.random() < 0.2 else columns[0], *columns[1:]]
    where = chance.choice(["", "", f" WHERE {columns[-1]} IS NOT NULL", f" WHERE {keys.split(',')[0]} > 3"])
    grouped = ""
    if chance.random() < 0.8:
        shown.append("count(*)")
        grouped = f" GROUP BY {', '.join(chance.sample(everything, len(everything)))}"
    limit = f" LIMIT {chance.choice([0, 1, 3, 5, 100])}" + chance.choice(["", "", " OFFSET 2"])
    text = f"SELECT {', '.join(shown)} FROM {source}{where}{grouped} ORDER BY {order}{limit}"
    return text if chance.random() < 0.7 else f"SELECT count(*) FROM ({text}) AS q"


def _columns(table: str) -> tuple[str, ...]:
    return tuple(f"{table}.{part.split()[0]}" for part in TABLES[table].split(", PRIMARY")[0].split(", "))


@pytest.mark.embedded_only("compares the planner's random plans, which are above the Store protocol")
@pytest.mark.slow
def test_random_queries_are_answered_as_by_another(databases: tuple[Any, Any]) -> None:
    ours, other = databases
    late = 0
    for seed in range(150):
        text = query(random.Random(seed))
        assert ours.execute(text).fetchall() == other.execute(text).fetchall(), text
        late += is_late(ours, text)
    assert 30 <= late <= 130, late


def is_late(connection: Any, text: str) -> bool:
    """True if the rule changed the plan."""
    return any("fetch_late" in line for (line,) in connection.execute(f"EXPLAIN VERBOSE {text}").fetchall())


def test_a_row_that_goes_while_the_statement_runs_is_still_shown(databases: tuple[Any, Any]) -> None:
    ours, _ = databases
    text = "SELECT k, s FROM w GROUP BY k, s, a ORDER BY a, k LIMIT 5"
    before = ours.execute(text).fetchall()
    assert is_late(ours, text)
    moment = ours.last_timestamp
    ours.execute("DELETE FROM w")
    assert ours.execute(text).fetchall() == []
    with ours.at(moment) as past:
        assert past.execute(text).fetchall() == before
    asked = text.replace("FROM w", "FROM w FOR SYSTEM_TIME AS OF ?")
    assert ours.execute(asked, [moment]).fetchall() == before


RULES = ("reduce_group_keys", "prune_columns", "push_limits", "fetch_late")
LATE = "SELECT k, s, count(*) FROM w GROUP BY k, s ORDER BY count(*) LIMIT 3"
NOT_LATE = {
    "no limit": LATE.replace("LIMIT 3", ""),
    "most of the rows": LATE.replace("LIMIT 3", "LIMIT 100000"),
    "no groups": "SELECT k, s FROM w ORDER BY a LIMIT 3",
    "no text": "SELECT k, a, count(*) FROM w GROUP BY k, a ORDER BY a LIMIT 3",
    "the text is asked for by the order": LATE.replace("count(*) LIMIT", "upper(s) LIMIT"),
    "the text is asked for by a condition": LATE.replace("GROUP", "WHERE length(s) > k GROUP"),
    "the text is asked for by an aggregate": LATE.replace("count(*)", "max(s)"),
    "groups of many rows": "SELECT a, any_value(s) FROM w GROUP BY a ORDER BY a LIMIT 3",
    "any row of a group": "SELECT a, any_value(k), any_value(s) FROM w GROUP BY a ORDER BY a LIMIT 3",
    "some rows of a group": "SELECT k, any_value(s) FILTER (WHERE a > 1) FROM w GROUP BY k ORDER BY k LIMIT 3",
    "several tables": LATE.replace("FROM w", "FROM (SELECT k, s FROM w UNION ALL SELECT a, s FROM w) AS w"),
    "several sets of groups": LATE.replace("GROUP BY k, s", "GROUP BY GROUPING SETS ((k, s), (k))"),
    "the side that may be missing": (
        "SELECT v.k, w.k, w.s FROM w AS v LEFT JOIN w ON v.a = w.a GROUP BY v.k, w.k, w.s ORDER BY v.k LIMIT 3"
    ),
    "changes": LATE.replace("FROM w", "FROM w FOR SYSTEM_TIME BETWEEN TIMESTAMP '1970-01-01' AND now()"),
}


@pytest.mark.parametrize("name", NOT_LATE)
def test_the_scan_reads_all_where_fetching_late_would_be_wrong_or_dear(name: str) -> None:
    assert show(NOT_LATE[name], RULES, WIDE) == show(NOT_LATE[name], RULES[:-1], WIDE)


def test_a_text_that_a_condition_reads_is_fetched_with_one_that_nothing_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    """The text does not pass through the groups, and the second scan exists anyway; the input is pruned once for
    both."""
    rule = importlib.import_module("nyala.planner.rules.fetch_late")
    pruned, calls = rule.pruned, []
    monkeypatch.setattr(rule, "pruned", lambda *arguments: calls.append(arguments) or pruned(*arguments))
    columns = [("k", INT, False), ("s", STRING, True), ("z", STRING, True)]
    two = FixedCatalog({"w": make_table("w", columns)}, {"w": TableStatistics(1_000_000, {})})
    query = "SELECT k, s, z, count(*) FROM w WHERE length(s) > k GROUP BY k, s, z ORDER BY count(*) LIMIT 3"
    plan = show(query, RULES, two).splitlines()
    assert [line.strip() for line in plan if "Scan" in line] == ["Scan w: k, s, z", "Scan w: k, s"]
    assert any(line.endswith("Project k, count") for line in plan)
    assert len(calls) == 1


def test_small_tables_are_read_at_once() -> None:
    small = FixedCatalog(WIDE.by_name, {"w": TableStatistics(4_000, {})})
    assert show(LATE, RULES, small) == show(LATE, RULES[:-1], small) != show(LATE, RULES, WIDE)


def test_scans_that_may_read_different_moments_read_a_row_once() -> None:
    query = bound_query(LATE, WIDE)
    once, twice = (plan_query(query, WIDE, PlannerOptions(fetch_late=late)).logical for late in (False, True))
    assert [sum(isinstance(node, Scan) for node in nodes(plan)) for plan in (once, twice)] == [1, 2]
