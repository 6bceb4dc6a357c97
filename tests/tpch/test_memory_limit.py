"""All 22 queries at scale factor 1 with little memory for hash tables, groups and sorts: the official answers still."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import nyala
import pytest
from nyala.executor.run.memory import Memory
from nyala.storage.files.temporary import TEMPORARY_PREFIX
from nyala.tpch import check
from nyala.tpch.generate import generate
from nyala.tpch.load import load
from nyala.tpch.queries import QUERIES

pytestmark = pytest.mark.slow

LIMIT = 256 << 20

SPILL_AND_WAIT = """
import sys, time, nyala
connection = nyala.connect(sys.argv[1], threads=2, memory_limit="4MB")
rows = connection.execute("SELECT * FROM lineitem WHERE l_orderkey < 400000 ORDER BY l_comment").record_batches()
next(iter(rows))
print("spilled", flush=True)
time.sleep(600)
"""


def open_files() -> set[str]:
    """The files without a name that this process has open."""
    names = {str(entry.readlink()) for entry in Path("/proc/self/fd").iterdir() if entry.is_symlink()}
    return {name for name in names if "/#" in name or TEMPORARY_PREFIX in name}


def left_over(directory: Path) -> list[Path]:
    return [path for path in directory.rglob("*") if path.name.startswith(TEMPORARY_PREFIX)]


def test_all_queries_under_a_limit(tmp_path: Path, monkeypatch: Any) -> None:
    memories: list[Memory] = []

    made = Memory.__init__

    def watched(memory: Memory, *arguments: Any, **options: Any) -> None:
        made(memory, *arguments, **options)
        memories.append(memory)

    monkeypatch.setattr(Memory, "__init__", watched)
    directory = tmp_path / "database"
    load(directory, 1, data=generate(1, tmp_path / "parquet"))
    spilled = set()
    with nyala.connect(directory, threads=2, memory_limit=LIMIT) as connection:
        before = open_files()
        for query in QUERIES:
            for limit in ("256MB", "32MB"):
                connection.execute(f"SET memory_limit = '{limit}'")
                memories.clear()
                difference = check.official(query, connection.execute(query.text).arrow())
                assert difference is None, f"{limit}: {difference}"
                assert max(memory.peak for memory in memories) <= int(limit[:-2]) << 20
        connection.execute("SET memory_limit = '32MB'")
        for number in (9, 13, 18, 21):
            plan = connection.execute(f"EXPLAIN ANALYZE {QUERIES[number - 1].text}").fetchall()
            if any(" spilled" in line for (line,) in plan):
                spilled.add(number)
        assert open_files() == before
    assert spilled, "nothing spilled: the limit does not limit"
    assert not left_over(directory)
    _killed_while_it_spills(directory)


def _killed_while_it_spills(directory: Path) -> None:
    arguments = [sys.executable, "-c", SPILL_AND_WAIT, str(directory)]
    child = subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True)
    try:
        assert child.stdout is not None and child.stdout.readline() == "spilled\n"
        (directory / f"{TEMPORARY_PREFIX}of-another-system").write_bytes(b"left over")
    finally:
        os.kill(child.pid, signal.SIGKILL)
        child.communicate()
    with nyala.connect(directory) as connection:
        assert not left_over(directory)
        assert connection.execute("SELECT count(*) FROM lineitem").fetchall() == [(6_001_215,)]
