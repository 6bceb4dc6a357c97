"""Statements and plans without the values in them: for logs and reports that others may read."""

from __future__ import annotations

import re

from sqlglot.errors import SqlglotError
from sqlglot.tokens import TokenType

from .syntax.dialect import Nyala

MASK = "?"
_LITERALS = frozenset(
    kind
    for name in (
        "STRING",
        "NUMBER",
        "HEX_STRING",
        "BYTE_STRING",
        "BIT_STRING",
        "NATIONAL_STRING",
        "RAW_STRING",
        "HEREDOC_STRING",
    )
    if (kind := getattr(TokenType, name, None)) is not None
)
QUOTED = re.compile(r"(?<!\w)[bBrRxX]?'(?:[^'\\\n]|\\.|'')*(?:'|$)", re.MULTILINE)
"""A quotation mark behind a letter is an apostrophe; a text that was cut ends with its line."""
_NUMBER = re.compile(r"(?<![\w~.#@:-])-?\d[\d_]*(?:\.\d+)?(?:[eE][+-]?\d+)?(?![\w:]|\.\d)")
_COUNT = re.compile(r"(?:~\d[\d,.]*[kMGT]?\b)|\b\d[\d,]* (?:rows?|bytes?|kB|MB|GB|ms|s|us|%)(?!\w)")


def mask_statement(text: str) -> str:
    """A statement with `?` in the place of each literal, without comments.

    >>> mask_statement("SELECT * FROM t WHERE a = 'x' AND b > 1.5 -- Ann")
    'SELECT * FROM t WHERE a = ? AND b > ?'
    >>> mask_statement("SELECT 'open")
    '(a statement that cannot be read)'
    """
    try:
        tokens = Nyala().tokenize(text)
    except SqlglotError:
        return "(a statement that cannot be read)"
    words: list[str] = []
    end = -1
    for token in tokens:
        if words and token.start > end + 1:
            words.append(" ")
        words.append(MASK if token.token_type in _LITERALS else text[token.start : token.end + 1])
        end = token.end
    return "".join(words)


def mask_plan(text: str) -> str:
    """A plan without literals: quoted texts and numbers, but for estimates.

    >>> mask_plan("Filter t.a = 'x' AND t.b > 15  (~20 rows)")
    'Filter t.a = ? AND t.b > ?  (~20 rows)'
    """
    text = QUOTED.sub(MASK, text)
    kept = [(m.start(), m.end()) for m in _COUNT.finditer(text)]
    return _NUMBER.sub(lambda m: m[0] if any(a <= m.start() < b for a, b in kept) else MASK, text)
