"""The SQL tests, written for an embedded store, run once more with their stores on a cluster of three servers."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
PARTS = {
    "tables": (
        "driver/test_range_hash.py",
        "driver/test_hidden_key.py",
        "driver/test_tables.py",
        "driver/test_tables_sessions.py",
        "driver/test_alter.py",
    ),
    "changes": (
        "driver/test_changes.py",
        "driver/test_returning.py",
        "driver/test_on_conflict.py",
        "driver/test_time_travel.py",
        "driver/test_copy.py",
    ),
    "driver": ("driver/test_dbapi.py", "driver/test_values.py", "driver/test_views.py"),
    "executor": (
        "executor/test_queries.py",
        "executor/test_statements.py",
        "executor/test_lateral.py",
        "executor/test_recursive.py",
    ),
    "shell": ("shell/test_golden.py",),
}


@pytest.mark.slow
@pytest.mark.parametrize("part", PARTS)
def test_sql_is_the_same_on_a_cluster(part: str) -> None:
    # No second level of workers, and one cluster for all: a process of its own.
    command = [sys.executable, "-m", "pytest", "-n", "0", "-p", "cluster_store", "-p", "no:randomly", "-q"]
    run = subprocess.run(
        [*command, *(str(TESTS / module) for module in PARTS[part])], capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stdout[-8000:] + run.stderr[-2000:]
    stores = re.search(r"(\d+) stores on the cluster", run.stdout)
    assert stores is not None and int(stores[1]) > 0, "the tests did use the cluster"
