"""HTML of a cursor's next rows, as Jupyter shows them under a cell."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Any

SHOWN_ROWS = 20
"""Rows of a table; the rest is for `df`, `arrow` or the fetch methods."""
SHOWN_CHARACTERS = 200
"""Characters of one value."""


def html_table(names: Sequence[str], types: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    """Return an HTML table with a head of column names and types, and a note below.

    Parameters
    ----------
    names, types : sequences of str, one per column
    rows : sequence of rows
        `SHOWN_ROWS` of them are shown, and the note says if there are more.
    """
    head = "".join(f'<th title="{escape(kind)}">{escape(name)}</th>' for name, kind in zip(names, types, strict=True))
    body = "".join(f"<tr>{''.join(map(_cell, row))}</tr>" for row in rows[:SHOWN_ROWS])
    if len(rows) > SHOWN_ROWS:
        note = f"the next {SHOWN_ROWS} rows; .df() returns all"
    else:
        note = "1 row" if len(rows) == 1 else f"{len(rows)} rows"
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table><p>{note}</p>"


def _cell(value: Any) -> str:
    if value is None:
        return "<td><i>NULL</i></td>"
    text = str(value)
    shown = text if len(text) <= SHOWN_CHARACTERS else text[:SHOWN_CHARACTERS] + "…"
    return f"<td>{escape(shown)}</td>"
