"""Aggregate calls and GROUP BY: their bound form, and the errors of wrong ones."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from nyala.sql import generate, parse

GOLDEN = Path(__file__).parent / "golden"
Play = Callable[[Path, Callable[[str], str]], None]


def test_wrong_calls_and_groups(golden: Play, explain_binding: Callable[[str], str]) -> None:
    golden(GOLDEN / "errors_aggregates.txt", explain_binding)


def test_bound_calls_and_groups(golden: Play, explain_binding: Callable[[str], str]) -> None:
    def run(text: str) -> str:
        (parsed,) = parse(text)
        once = generate(parsed.tree)
        (again,) = parse(once)
        assert again.tree == parsed.tree, once
        assert generate(again.tree) == once
        return f"{once}\n{explain_binding(text)}"

    golden(GOLDEN / "aggregates.txt", run)
