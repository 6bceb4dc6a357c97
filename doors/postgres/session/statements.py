"""A text cut into statements, and the kind of each by its first words, without parsing it."""

from __future__ import annotations

import re
from enum import Enum
from functools import lru_cache
from typing import Final

from sqlglot.tokens import TokenType

from ....model.lazy_dataclass import dataclass
from ....sql.syntax.tokenizing import tokenize

_SPACE: Final = r"(?:\s|--[^\n]*(?:\n|$)|/\*(?:[^*]|\*(?!/))*\*/)"
"""One space or comment. Each text matches in one way alone: with another, a failing match would try all of them."""
_MORE: Final = rf"(?:{_SPACE}+([A-Za-z_]+))?"
_WORDS: Final = re.compile(rf"(?:{_SPACE}|\()*([A-Za-z_]+)?{_MORE}{_MORE}{_MORE}", re.S)
_BLANK: Final = re.compile(rf"(?:{_SPACE}|;)*", re.S)
_LONGEST_KEPT: Final = 1 << 14


class Kind(Enum):
    """Kinds of statements, by what the protocol does with them."""

    QUERY = "returns rows, and changes nothing"
    CHANGE = "changes rows"
    CATALOG = "changes tables or how they are stored"
    BEGIN = "begins a transaction"
    COMMIT = "commits it"
    ROLLBACK = "rolls it back"
    ROLLBACK_TO = "rolls back to a savepoint"
    SAVEPOINT = "sets or releases a savepoint"
    SETTING = "sets or shows a setting"
    COPY = "COPY"
    SESSION = "is about the connection: DEALLOCATE, DISCARD, LISTEN, CLOSE"
    OTHER = "anything else"


@dataclass(frozen=True, slots=True)
class StatementText:
    """One statement of a text.

    Attributes
    ----------
    text : str
    start : int
        Its place in the whole text, in characters.
    kind : Kind
    words : tuple of str
        Its first words in upper case, at most four.
    """

    text: str
    start: int
    kind: Kind
    words: tuple[str, ...]


_KINDS: Final = {
    **dict.fromkeys(("SELECT", "VALUES", "TABLE", "WITH", "EXPLAIN", "DESCRIBE", "DESC", "FETCH"), Kind.QUERY),
    **dict.fromkeys(("INSERT", "UPSERT", "UPDATE", "DELETE", "MERGE", "TRUNCATE"), Kind.CHANGE),
    **dict.fromkeys(("CREATE", "ALTER", "DROP", "COMPACT", "ANALYZE", "COMMENT", "GRANT", "REVOKE"), Kind.CATALOG),
    **dict.fromkeys(("BEGIN", "START"), Kind.BEGIN),
    **dict.fromkeys(("COMMIT", "END"), Kind.COMMIT),
    **dict.fromkeys(("ROLLBACK", "ABORT"), Kind.ROLLBACK),
    **dict.fromkeys(("SAVEPOINT", "RELEASE"), Kind.SAVEPOINT),
    **dict.fromkeys(("SET", "RESET", "SHOW"), Kind.SETTING),
    **dict.fromkeys(("DEALLOCATE", "DISCARD", "LISTEN", "UNLISTEN", "NOTIFY", "CLOSE"), Kind.SESSION),
    "COPY": Kind.COPY,
}


def _classified(text: str, start: int) -> StatementText:
    match = _WORDS.match(text)
    words = tuple(word.upper() for word in match.groups() if word) if match else ()
    kind = _KINDS.get(words[0], Kind.OTHER) if words else Kind.OTHER
    if kind is Kind.ROLLBACK and "TO" in words[1:3]:
        kind = Kind.ROLLBACK_TO
    return StatementText(text, start, kind, words)


def split(text: str) -> tuple[StatementText, ...]:
    """The statements of a text, without its empty ones. Raises `SqlSyntaxError` if it cannot be cut into words.

    >>> [(found.text, found.start) for found in split("BEGIN; SELECT ';' ;")]
    [('BEGIN', 0), ("SELECT ';'", 7)]
    """
    return _split(text) if len(text) > _LONGEST_KEPT else _split_kept(text)


def _split(text: str) -> tuple[StatementText, ...]:
    end = len(text.rstrip("; \t\r\n"))
    if _BLANK.fullmatch(text):
        return ()
    if ";" not in text[:end]:
        return (_classified(text[:end], 0),)
    found: list[StatementText] = []
    first = last = None
    for token in (*tokenize(text), None):
        if token is not None and token.token_type is not TokenType.SEMICOLON:
            first = token.start if first is None else first
            last = token.end
        elif first is not None and last is not None:
            found.append(_classified(text[first : last + 1], first))
            first = None
    return tuple(found)


_split_kept = lru_cache(maxsize=2000)(_split)
