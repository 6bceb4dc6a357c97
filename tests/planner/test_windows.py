"""Golden plans with windows: the operators, their order, and the predicates that pass them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from nyala.planner import explain
from nyala.planner.testing import plan_text

HERE = Path(__file__).parent / "golden"


def test_plans_with_windows(golden: Callable[[Path, Callable[[str], str]], None]) -> None:
    golden(HERE / "windows.txt", lambda query: explain(plan_text(query)))
