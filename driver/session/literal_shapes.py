"""Statements that differ in literals alone: one prepared statement for all of them.

Programs that write values into the text send a new text each time. A literal that is compared, assigned or inserted is
taken out of the text, which leaves a *shape* with `?` in its place. The shape is prepared as a statement with
parameters, under the same check as those: with the values in place, it must equal the statement as it was written.

Other literals stay in the shape, because plans depend on them: patterns, numbers of LIMIT, operands of arithmetic,
fields of date functions, ordinals of ORDER BY.
"""

from __future__ import annotations

import re
from datetime import date, datetime
from decimal import Decimal
from typing import Any

from ...model.lazy_dataclass import dataclass

LONGEST_TEXT = 1 << 12
"""In characters. A longer text takes longer to run than to plan, or is generated from many rows."""
MOST_LITERALS = 64

_SKIPPED = r"""
    "(?:[^"]|"")*"                            # a quoted name
  | --[^\n]* | /\*.*?\*/                      # a comment
  | [eE]'(?:[^'\\]|''|\\.)*'                # a string with escapes
  | [A-Za-z_]\w*'(?:[^']|'')*'                # a string with a prefix, such as X'00'
"""
_LITERAL = r"""
    (?P<type>\b(?:DATE|TIMESTAMP)\s+)?'(?P<text>(?:[^']|'')*)'
  | (?P<number>-?\d{1,18}(?:\.\d{1,18})?)
"""
# Behind it: neither more of the same token nor an operator that takes it as an operand.
_END = r"(?![\w.'])(?!\s*(?:[+*%|&^#~:\[]|-(?!-)|/(?!\*)))"


def _pattern(before: str) -> re.Pattern[str]:
    return re.compile(
        rf"(?:{_SKIPPED}) | (?P<before>(?:{before})\s*)(?:{_LITERAL}){_END} | '(?:[^']|'')*'", re.X | re.I | re.S
    )


_COMPARED = _pattern(r"(?<![-+*/%|&^#~])[=<>] | \bBETWEEN\b | \bAND\b")
_INSERTED = _pattern(r"[=<>(,] | \bBETWEEN\b | \bAND\b")
_INSERTS = re.compile(r"\s*(?:INSERT|UPSERT)\b", re.I)
_TIMESTAMP = re.compile(r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(?:\.\d{1,6})?")


@dataclass(frozen=True, slots=True)
class Shape:
    """A statement without its literals.

    Attributes
    ----------
    text : str
        With `?` where a literal was.
    values : tuple
        The literals in order: int, Decimal, str, date or datetime.
    """

    text: str
    values: tuple[Any, ...]


def shape_of(text: str) -> Shape | None:
    """The shape of a statement; None if no literal can be taken out, if there are too many, or if it has placeholders.

    >>> shape_of("SELECT v FROM t WHERE k = 5 AND name <> 'it''s' LIMIT 10")
    Shape(text='SELECT v FROM t WHERE k = ? AND name <> ? LIMIT 10', values=(5, "it's"))
    >>> shape_of("SELECT v FROM t WHERE k = 5 + 1") is None
    True
    """
    if len(text) > LONGEST_TEXT or "?" in text or "$" in text:
        return None
    pieces: list[str] = []
    values: list[Any] = []
    start = 0
    for match in (_INSERTED if _INSERTS.match(text) else _COMPARED).finditer(text):
        if match["before"] is None:
            continue
        value = _value(match)
        if value is None:
            continue
        pieces.append(text[start : match.end("before")])
        values.append(value)
        start = match.end()
    if not 0 < len(values) <= MOST_LITERALS:
        return None
    return Shape("?".join((*pieces, text[start:])), tuple(values))


def _value(match: re.Match[str]) -> Any:
    """The value of a literal; None if it stays in the text."""
    if (number := match["number"]) is not None:
        return Decimal(number) if "." in number else int(number)
    text = match["text"].replace("''", "'")
    if match["type"] is None:
        return text
    try:
        if match["type"].strip().upper() == "DATE":
            return date.fromisoformat(text) if len(text) == 10 else None
        return datetime.fromisoformat(text) if _TIMESTAMP.fullmatch(text) else None
    except ValueError:
        return None  # the statement will say what is wrong with it
