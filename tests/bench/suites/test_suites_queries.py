"""Every query of every suite, on small data: nyala's answers are DuckDB's."""

from __future__ import annotations

import pytest
from examples import few
from nyala.bench.suites.catalog import QUERY_SUITES
from nyala.bench.suites.queries.wide import OPERATIONS
from nyala.bench.suites.runner import Setting, run_suite

ROWS = {"clickbench": 6_000, "wide": 3_000, "cliff": 2_000, "functions": 2_000, "h2o": 3_000, "timeseries": 6_000}

GENERATED = [suite for suite in QUERY_SUITES if suite.name != "tpcds"]
"""`tests/tpcds` runs the queries of the other."""
KEYS = ("i64", "f", "dec30", "sutf", "ns")
"""Of the suite `cliff`, whose 135 queries differ in the operation and the key."""


@pytest.mark.parametrize("suite", few(GENERATED, 3), ids=lambda suite: suite.name)
def test_answers_equal_those_of_duckdb(suite, tmp_path):
    rows = ROWS.get(suite.name)
    names = [f"{operation}_{key}" for operation in OPERATIONS for key in KEYS] if suite.name == "cliff" else []
    found = run_suite(suite, Setting(["nyala", "duckdb"], runs=0, rows=rows, scale=0.02, queries=names, work=tmp_path))
    wrong = {
        (name, engine): timing.trouble
        for name, timings in found.queries.items()
        for engine, timing in timings.items()
        if timing.trouble
    }
    assert not wrong and not found.left_out
    empty = [name for name, timings in found.queries.items() if name != "load" and not timings["duckdb"].rows]
    assert not empty, "a query that finds nothing tests nothing"
    assert list(tmp_path.iterdir()) == []
