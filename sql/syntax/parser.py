"""Parsing: text to syntax trees; every mistake raises a `SqlSyntaxError` with its position."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from sqlglot import exp
from sqlglot.errors import ErrorLevel
from sqlglot.tokens import Token, TokenType

from ...errors import Error, NotSupportedError, SqlSyntaxError
from ...model.lazy_dataclass import dataclass
from ..deep_stack import deeply, on_deep_stack
from .complexity import too_complex
from .dialect import Nyala
from .grammar.expressions import PlacedParseError
from .not_supported import PLACEHOLDERS
from .token_depth import is_deep
from .tokenizing import tokenize

_DIALECT = Nyala()
_PLACEHOLDER = re.compile(r"%s\b|%\(\w+\)s\b")


@dataclass(frozen=True, slots=True)
class ParsedStatement:
    """One statement: `tree` is sqlglot's; the statement's text is `text[start:end]`.

    Positions in the tree count from the start of `text`, which is the whole text passed to `parse`.
    """

    tree: Any
    text: str
    start: int
    end: int
    deep: bool = False
    """True if the statement needs a deep stack: `token_depth`."""

    @property
    def sql(self) -> str:
        """The statement as it was written, without its semicolon."""
        return self.text[self.start : self.end]


def parse(text: str) -> list[ParsedStatement]:
    """Splits a text at its semicolons and parses each statement; empty ones are skipped.

    Raises `SqlSyntaxError`, `NotSupportedError` for a kind of statement that nyala does not have, or
    `StatementTooComplex`.

    >>> [statement.sql for statement in parse("select 1; select 2 ;")]
    ['select 1', 'select 2']
    """
    chunks = [chunk for chunk in _chunks(tokenize(text)) if chunk]
    deep = [is_deep(chunk) for chunk in chunks]

    def parsed() -> list[ParsedStatement]:
        return [replace(_parse_one(chunk, text), deep=found) for chunk, found in zip(chunks, deep, strict=True)]

    try:
        return on_deep_stack(parsed) if any(deep) else deeply(parsed)
    except RecursionError:
        raise too_complex(text) from None


def generate(tree: Any) -> str:
    """The tree as nyala's SQL; parsing it again gives an equal tree."""
    # Syntax of other dialects is rejected during binding; warnings here would be redundant.
    return str(deeply(lambda: _DIALECT.generate(tree, unsupported_level=ErrorLevel.IGNORE)))


def _parse_one(tokens: list[Token], text: str) -> ParsedStatement:
    try:
        trees = _DIALECT.parser().parse(tokens, text)
    except PlacedParseError as error:
        _refuse_placeholders(tokens, text)
        raise SqlSyntaxError(error.message, text, error.start, max(1, error.end - error.start)) from None
    except (Error, RecursionError):
        raise
    except Exception as error:
        # sqlglot's parser fails with unrelated exceptions on some malformed texts; they are syntax errors all the same.
        raise SqlSyntaxError("this statement cannot be read", text, tokens[0].start) from error
    return ParsedStatement(trees[0], text, tokens[0].start, tokens[-1].end + 1)


def _refuse_placeholders(tokens: list[Token], text: str) -> None:
    """Rejects the placeholders of other drivers in a statement that cannot be parsed."""
    for token in tokens:
        if token.token_type == TokenType.MOD and (found := _PLACEHOLDER.match(text, token.start)):
            message = f"{found[0]} is not supported as a placeholder; {PLACEHOLDERS}"
            raise NotSupportedError(str(SqlSyntaxError(message, text, token.start, len(found[0]))))


def _chunks(tokens: list[Token]) -> Iterator[list[Token]]:
    chunk: list[Token] = []
    for token in tokens:
        if token.token_type == TokenType.SEMICOLON:
            yield chunk
            chunk = []
        else:
            chunk.append(token)
    yield chunk


def place(node: Any) -> tuple[int | None, int]:
    """The position of a tree in its text: the offset of its first token and the width up to its last recorded one.

    A node without a position has that of its parts; (None, 1) if none is known.
    """
    start: int | None = None
    end = 0
    own = node.meta if isinstance(node, exp.Expression) else {}
    if "start" in own and not isinstance(node, exp.Column):
        return own["start"], own["end"] + 1 - own["start"]
    for part in node.walk() if isinstance(node, exp.Expression) else ():
        meta = part.meta
        if "start" in meta:
            start = meta["start"] if start is None else min(start, meta["start"])
            end = max(end, meta["end"] + 1)
    return start, max(1, end - (start or 0))
