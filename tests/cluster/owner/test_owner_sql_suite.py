"""SQL tests, written for an embedded store, repeated with their stores behind an embedded server."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[2]
MODULES = (
    "driver/tables/test_tables.py",
    "driver/statements/test_time_travel.py",
    "driver/statements/test_range_hash.py",
    "executor/statements/test_statements.py",
)


@pytest.mark.slow
def test_sql_is_the_same_behind_an_owner() -> None:
    # The plugin replaces all embedded stores: a separate process.
    command = [sys.executable, "-m", "pytest", "-n", "0", "-p", "owner_store", "-p", "no:randomly", "-q"]
    run = subprocess.run(
        [*command, *(str(TESTS / module) for module in MODULES)], capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stdout[-8000:] + run.stderr[-2000:]
    stores = re.search(r"(\d+) stores behind an owner", run.stdout)
    assert stores is not None and int(stores[1]) > 50, "the tests did use owners"
