"""Texts without the values in them: statements, plans, lines of logs."""

from __future__ import annotations

import re

from sqlglot.errors import SqlglotError
from sqlglot.tokens import TokenType

from ...sql.syntax.dialect import Nyala

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
_SECRET = re.compile(
    r"(?i)\b([\w-]*(?:password|passwd|secret|token|api[_-]?key|credential)[\w-]*)(\"?\s*[=:]\s*)(\"[^\"]*\"|'[^']*'|\S+)"
)
_LOGIN = re.compile(r"(\w+://)[^/@\s]*@")
_PEM = re.compile(r"-----BEGIN [^-]+-----.*?(-----END [^-]+-----|$)", re.DOTALL)
_QUOTED = re.compile(r"(?<!\w)[bBrRxX]?'(?:[^'\\\n]|\\.|'')*(?:'|$)", re.MULTILINE)
"""A quotation mark behind a letter is an apostrophe; a text that was cut ends with its line."""
_DOUBLE = re.compile(r'"(?:[^"\\\n]|\\.)*(?:"|$)', re.MULTILINE)
_ESCAPED = re.compile(r'\\"(?:(?!\\").)*(?:\\"|$)', re.MULTILINE)
"""Double quotation marks, as Python shows texts with an apostrophe; in a line of JSON only those within its strings."""
_DOLLARS = re.compile(r"\$(\w*)\$.*?\$\1\$", re.DOTALL)
_KEY = re.compile(r"(?i)\b((?:keys?|values?|rows?|bounds?) )\([^)]*\)")
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
    text = _QUOTED.sub(MASK, text)
    kept = [(m.start(), m.end()) for m in _COUNT.finditer(text)]
    return _NUMBER.sub(lambda m: m[0] if any(a <= m.start() < b for a, b in kept) else MASK, text)


def mask_text(text: str) -> str:
    """Lines of a log or an error: without quoted texts, keys of rows, passwords and private keys.

    >>> mask_text("user ann password=hunter2 : key (7, 'x') exists already in nyala://ann:pw@host:1/")
    'user ann password=? : key (?) exists already in nyala://?@host:1/'
    >>> mask_text("the store's value 'it''s mine' is cut: 'any")
    "the store's value ? is cut: ?"
    """
    return "\n".join(map(_mask_line, _PEM.sub("(a PEM block)", text).split("\n")))


def _mask_line(line: str) -> str:
    # Quoted texts first: they may hold what the other patterns look for, a bracket for instance.
    line = _QUOTED.sub(MASK, _DOLLARS.sub(MASK, line))
    line = (_ESCAPED if line.startswith("{") else _DOUBLE).sub(MASK, line)
    line = _LOGIN.sub(rf"\1{MASK}@", line)
    line = _SECRET.sub(rf"\1\2{MASK}", line)
    return _KEY.sub(rf"\1({MASK})", line)
