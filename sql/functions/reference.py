"""Generates the page of all functions, docs/functions.md, from the registry."""

from __future__ import annotations

from collections.abc import Iterator

from .function import Function
from .registry import FUNCTIONS

_HEADINGS = {
    "text": "Texts",
    "number": "Numbers",
    "date and time": "Dates and times",
    "formatting": "Formatting",
    "conditional": "Conditional functions",
    "other": "Other functions",
    "aggregate": "Aggregates",
    "window": "Window functions",
    "table": "Table functions",
    "array": "Arrays",
    "system": "System functions",
}
_INTRODUCTION = """# Functions

Generated from the function registry by `python -m nyala.sql.functions`; the tests run every example. `SHOW FUNCTIONS`
lists the same in SQL. Unless the description says otherwise, a function returns NULL if any argument is NULL. Positions
in texts start at 1. Operators are listed in [sql.md](sql.md#expressions).
"""


def page() -> str:
    """The whole page, in Markdown."""
    return "\n".join([_INTRODUCTION, *_sections()])


def _sections() -> Iterator[str]:
    categories = [*_HEADINGS, *sorted({f.category for f in FUNCTIONS} - {*_HEADINGS})]
    for category in categories:
        found = sorted((f for f in FUNCTIONS if f.category == category), key=lambda f: f.name)
        if not found:
            continue
        yield f"## {_HEADINGS.get(category, category.capitalize())}\n"
        yield "| function | | example | result |\n|---|---|---|---|"
        yield from map(_row, found)
        yield ""


def _row(function: Function) -> str:
    others = f"; the same as {', '.join(f'`{name}`' for name in function.aliases)}" if function.aliases else ""
    cells = [_code(function.signature), function.description + others, _code(function.example), _code(function.result)]
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"


def _code(text: str) -> str:
    return f"`` {text} ``" if "`" in text else f"`{text}`"
