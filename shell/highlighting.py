"""Colours of the typed text: PostgreSQL's lexer, extended by nyala's own words."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar, Final

from pygments.lexers.sql import PostgresLexer
from pygments.token import Keyword, Name

from .keywords import FROM_FUNCTIONS, FUNCTIONS, KEYWORDS, TYPES

_KEYWORDS: Final = frozenset(KEYWORDS)
_TYPES: Final = frozenset(TYPES)
_FUNCTIONS: Final = frozenset([*FUNCTIONS, *FROM_FUNCTIONS])


class NyalaLexer(PostgresLexer):
    """Keywords and types in capitals or not; a function's name where a parenthesis follows."""

    name = "nyala"
    aliases: ClassVar[list[str]] = ["nyala"]

    def get_tokens_unprocessed(self, text: str, *args: Any) -> Iterator[tuple[int, Any, str]]:
        """The tokens of `text`: place, kind, characters."""
        for place, kind, word in super().get_tokens_unprocessed(text, *args):  # type: ignore[no-untyped-call]
            if kind in Name or kind in Keyword:
                called = text[place + len(word) :].lstrip().startswith("(")
                yield place, _kind(word, called, kind), word
            else:
                yield place, kind, word


def _kind(word: str, called: bool, kind: Any) -> Any:
    if called and word.lower() in _FUNCTIONS and word.upper() not in _KEYWORDS:
        return Name.Function
    if word.upper() in _TYPES:
        return Name.Builtin
    return Keyword if word.upper() in _KEYWORDS else kind
