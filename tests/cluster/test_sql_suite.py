"""The SQL tests, written for an embedded store, repeated with their stores on a cluster of three servers."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
PARTS = {
    "tables": (
        "driver/statements/test_hidden_key.py",
        "driver/tables/test_tables.py",
        "driver/tables/test_tables_changes.py",
        "driver/tables/test_tables_sessions.py",
        "driver/tables/test_tables_tokens.py",
    ),
    "changes": (
        "driver/statements/test_alter.py",
        "driver/statements/test_analyze.py",
        "driver/statements/test_changes.py",
        "driver/session/test_executemany.py",
        "driver/statements/test_on_conflict.py",
        "driver/statements/test_returning.py",
        "driver/statements/test_time_travel.py",
    ),
    "results": (
        "driver/test_arrow_results.py",
        "driver/test_cancel.py",
        "driver/files/test_copy.py",
        "driver/test_dbapi.py",
        "driver/statements/test_explain_writes.py",
        "driver/statements/test_information_schema.py",
        "driver/statements/test_views.py",
    ),
    "queries": (
        "executor/joins/test_lateral.py",
        "executor/test_recursive.py",
        "executor/test_queries.py::test_expressions_of_order_by_may_name_output_columns",
        "executor/aggregation/test_aggregates.py::test_variances_are_stable",
        "executor/aggregation/test_aggregates.py::test_approximate_counts_of_nothing_are_zero",
        "executor/aggregation/test_aggregates.py::test_a_fraction_is_checked_row_by_row_too",
        "executor/aggregation/test_aggregates.py::test_counts_of_a_subquery_without_rows_are_zero",
        "executor/aggregation/test_aggregates.py::test_intervals_have_an_order",
        "executor/aggregation/test_aggregates.py::test_an_argument_is_computed_only_for_rows_that_pass_the_filter",
        "executor/aggregation/test_grouping_sets.py::test_columns_that_a_set_lacks_are_null_whatever_was_known",
        "executor/aggregation/test_grouping_sets.py::test_the_empty_set_has_a_row_over_no_rows",
        "executor/aggregation/test_grouping_sets.py::test_duplicate_sets_stay_unless_distinct",
        "executor/aggregation/test_grouping_sets.py::test_grouping_is_a_bit_mask",
        "executor/aggregation/test_grouping_sets.py::test_ordinals_and_aliases_in_sets",
        "executor/aggregation/test_grouping_sets.py::test_the_plan_shows_the_sets",
        "shell/test_golden.py",
    ),
}
"""Of modules whose other tests have their own tables without a store, those that have one."""
LEFT_OUT = ("driver/statements/test_hidden_key.py::test_it_holds_a_bag_of_rows",)
"""Long, and about a directory."""


@pytest.mark.slow
@pytest.mark.parametrize("part", PARTS)
def test_sql_is_the_same_on_a_cluster(part: str) -> None:
    # No second level of workers, and one cluster for all: a process of its own.
    command = [sys.executable, "-m", "pytest", "-n", "0", "-p", "cluster_store", "-p", "no:randomly", "-q"]
    # pytest takes names of tests to leave out from its root.
    command += [f"--deselect={(TESTS / test).relative_to(TESTS.parent)}" for test in LEFT_OUT]
    run = subprocess.run(
        [*command, *(str(TESTS / test) for test in PARTS[part])],
        capture_output=True,
        text=True,
        check=False,
        cwd=TESTS.parent,
    )
    assert run.returncode == 0, run.stdout[-8000:] + run.stderr[-2000:]
    stores = re.search(r"(\d+) stores on the cluster, none for (.*)", run.stdout)
    assert stores is not None and stores[2] == "nobody", "all modules did use the cluster"
