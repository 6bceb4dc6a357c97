"""The golden runner, on scripts about adding."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from golden import rewrite

SCRIPT = """\
# Numbers add up,
1 2
3
---
6

# and what is no number is an error, which is an output too.
1 x
---
ValueError: invalid literal for int() with base 10: 'x'

0
---
"""


def add(command: str) -> str:
    total = sum(map(int, command.split()))
    return f"{total}\n\n" if total else ""


def test_a_script_that_is_right_stays_as_it_is() -> None:
    assert rewrite(SCRIPT, add) == SCRIPT


def test_output_is_replaced_and_the_story_kept() -> None:
    stale = SCRIPT.replace("\n6\n", "\n7\nmore\n").replace("0\n---\n", "0\n---\nold\n")
    assert stale.count("\n") == SCRIPT.count("\n") + 2
    assert rewrite(stale, add) == SCRIPT


def test_writing_twice_changes_nothing() -> None:
    once = rewrite(SCRIPT, str.upper)
    assert rewrite(once, str.upper) == once
    assert "1 2\n3\n---\n1 2\n3\n" in once


def test_the_fixture_tells_what_differs(
    golden: Callable[[Path, Callable[[str], str]], None], tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    path = tmp_path / "sums.txt"
    path.write_text(SCRIPT.replace("\n6\n", "\n5\n"), encoding="utf-8")
    if request.config.getoption("--golden") == "write":
        golden(path, add)
    else:
        with pytest.raises(AssertionError, match=r"sums.txt differs"):
            golden(path, add)
        path.write_text(SCRIPT, encoding="utf-8")
    golden(path, add)
    assert path.read_text(encoding="utf-8") == SCRIPT
