"""The tests of `make check` are within their budget, and there are some of every room."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from pathlib import Path

import module_seconds
import pytest
from module_seconds import BUDGET, LIMIT, TESTS, ModuleSeconds, chosen, processor_seconds, recorded, room, written

BURN = "import time\nwhile time.process_time() < 0.5: pass\nprint('burnt', flush=True)\ninput()"


def test_the_check_is_within_its_budget() -> None:
    seconds = sum(chosen(recorded()).values())
    assert seconds <= BUDGET, f"{seconds:.0f} s; make tests cheaper, or lower LIMIT in tests/module_seconds.py"


def test_the_check_has_most_modules_of_each_room() -> None:
    seconds = recorded()
    rooms = Counter(map(room, seconds))
    checked = Counter(map(room, chosen(seconds)))
    packages = [name for name in rooms if name and (TESTS.parent / name / "__init__.py").exists()]
    poor = {name: f"{checked[name]} of {rooms[name]}" for name in packages if 2 * checked[name] < rooms[name]}
    assert not poor, f"modules in make check: {poor}"


def test_a_record_is_written_without_modules_that_are_gone() -> None:
    assert written({"tests/test_docs.py": 1.26, "tests/test_gone.py": 9.0}) == '{\n"tests/test_docs.py": 1.3\n}\n'


@pytest.mark.parametrize("check", [True, False])
def test_the_check_leaves_out_what_takes_long(monkeypatch: pytest.MonkeyPatch, check: bool) -> None:
    record = {"tests/sql/test_long.py": LIMIT + 0.1, "tests/sql/test_short.py": LIMIT, "tests/test_rules.py": 99.0}
    monkeypatch.setattr(module_seconds, "recorded", lambda: record)
    plugin = ModuleSeconds(check, record=False)
    assert plugin.pytest_ignore_collect(TESTS / "sql" / "test_long.py") is (True if check else None)
    assert plugin.pytest_ignore_collect(TESTS / "test_rules.py") is None
    assert plugin.pytest_ignore_collect(TESTS / "sql" / "test_short.py") is None
    assert plugin.pytest_ignore_collect(TESTS / "test_new.py") is None


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="living children are found in /proc")
def test_the_time_of_living_and_ended_children_counts() -> None:
    before = processor_seconds()
    with subprocess.Popen([sys.executable, "-c", BURN], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None and child.stdin is not None
        assert child.stdout.readline() == b"burnt\n"
        alive = processor_seconds()
        child.communicate(b"\n")
    assert alive - before > 0.4
    assert processor_seconds() - before > 0.4
