"""The SQL tests, written for an embedded store, repeated with their stores behind a server and on a cluster."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from store_option import CLUSTER, ROOMS, SERVED, TESTS

PARTS = [(SERVED, 1, 1), *((CLUSTER, part, 4) for part in range(1, 5))]
REPLICATED_PART = 4
"""The only part of a cluster whose tablets have three replicas, for which the servers work twice as much. The plans,
scans, fragments, writes and transactions of a client are the same for one; tests/cluster itself tests more replicas."""
ON_CLUSTERS = {"sql", "planner", "executor"}
"""Rooms whose tests are run on a cluster alone. Clients and the scans and fragments at servers are the same code for
both kinds of stores; what differs, the tests of the other rooms run."""


def modules(store: str, part: int, parts: int) -> list[Path]:
    """The modules of one of several parts, which are about equally large."""
    size = [0] * parts
    chosen = []
    rooms = [room for room in ROOMS if store == CLUSTER or room not in ON_CLUSTERS]
    every = (path for room in rooms for path in (TESTS / room).rglob("test_*.py"))
    for path in sorted(every, key=lambda path: (-path.stat().st_size, path)):
        smallest = size.index(min(size))
        size[smallest] += path.stat().st_size
        if smallest == part - 1:
            chosen.append(path)
    return chosen


@pytest.mark.slow
@pytest.mark.parametrize(("store", "part", "parts"), PARTS)
def test_sql_is_the_same_on_another_store(store: str, part: int, parts: int) -> None:
    # No second level of workers, and one cluster for all: a process of its own.
    command = [sys.executable, "-m", "pytest", f"--store={store}", "-n", "0", "-p", "no:randomly", "-q"]
    command += [f"--store-replicas={3 if part == REPLICATED_PART else 1}"]
    run = subprocess.run(
        # What is slow starts processes and servers of its own.
        [*command, "-m", "not slow", *map(str, modules(store, part, parts))],
        env={**os.environ, "NYALA_EXAMPLES": "0.05"},
        capture_output=True,
        text=True,
        check=False,
        cwd=TESTS.parent,
    )
    assert run.returncode == 0, run.stdout[-8000:] + run.stderr[-2000:]
    stores = re.search(rf"^(\d+) stores: {store}$", run.stdout, re.MULTILINE)
    assert stores is not None and int(stores[1]) > 40, run.stdout[-8000:]
