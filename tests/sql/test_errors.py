"""Wrong statements: each message, its place and its caret are golden text."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

GOLDEN = Path(__file__).parent / "golden"


def test_wrong_statements_say_what_is_wrong_and_where(
    golden: Callable[[Path, Callable[[str], str]], None], explain_binding: Callable[[str], str]
) -> None:
    golden(GOLDEN / "errors.txt", explain_binding)
    golden(GOLDEN / "errors_transactions.txt", explain_binding)


def test_no_wrong_statement_is_accepted(explain_binding: Callable[[str], str]) -> None:
    blocks = (GOLDEN / "errors.txt").read_text(encoding="utf-8").split("\n---\n")
    outputs = [block.splitlines()[0] for block in blocks[1:] if block.strip()]
    assert len(outputs) > 150
    raw = [
        line
        for line in outputs
        if not line.split(":")[0].endswith(
            (
                "Error",
                "Column",
                "Table",
                "Schema",
                "Function",
                "Mismatch",
                "Text",
                "OutOfRange",
                "TooLong",
                "Definition",
                "Violation",
                "Syntax",
            )
        )
    ]
    assert raw == []
