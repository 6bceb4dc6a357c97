"""Texts without the values in them: lines of logs and errors, besides statements and plans (`sql.masked_text`)."""

from __future__ import annotations

import re

from ...sql.masked_text import MASK, QUOTED

_SECRET = re.compile(
    r"(?i)\b([\w-]*(?:password|passwd|secret|token|api[_-]?key|credential)[\w-]*)(\"?\s*[=:]\s*)(\"[^\"]*\"|'[^']*'|\S+)"
)
_LOGIN = re.compile(r"(\w+://)[^/@\s]*@")
_PEM = re.compile(r"-----BEGIN [^-]+-----.*?(-----END [^-]+-----|$)", re.DOTALL)
_DOUBLE = re.compile(r'"(?:[^"\\\n]|\\.)*(?:"|$)', re.MULTILINE)
_ESCAPED = re.compile(r'\\"(?:(?!\\").)*(?:\\"|$)', re.MULTILINE)
"""Double quotation marks, as Python shows texts with an apostrophe; in a line of JSON only those within its strings."""
_DOLLARS = re.compile(r"\$(\w*)\$.*?\$\1\$", re.DOTALL)
_KEY = re.compile(r"(?i)\b((?:keys?|values?|rows?|bounds?) )\([^)]*\)")


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
    line = QUOTED.sub(MASK, _DOLLARS.sub(MASK, line))
    line = (_ESCAPED if line.startswith("{") else _DOUBLE).sub(MASK, line)
    line = _LOGIN.sub(rf"\1{MASK}@", line)
    line = _SECRET.sub(rf"\1\2{MASK}", line)
    return _KEY.sub(rf"\1({MASK})", line)
