"""Splits texts into tokens, with sqlglot's tokenizer and the rules that it lacks.

'for'          two texts with a line break between them are one, 'foreign'
  'eign'
'a' 'b'        side by side they are an error
\ufeffSELECT   a byte order mark before a statement counts as a space
$1,$2          two parameters, where sqlglot reads the begin of a text with the tag `1,`
"""

from __future__ import annotations

import re
from itertools import pairwise

from sqlglot.errors import SqlglotError
from sqlglot.tokens import Token, TokenType

from ...errors import SqlSyntaxError
from .dialect import PARAMETER_MARK, Nyala

_DIALECT = Nyala()
_QUOTES = {"'": "a text", '"': "a quoted name", "/*": "a comment"}
_SURROGATE = re.compile("[\ud800-\udfff]")
"""Halves of UTF-16 pairs: Python's texts can contain single ones, UTF-8 and so the store cannot."""
_MARK = "\ufeff"
"""The byte order mark, with which some editors begin a file; concatenated files have another in the middle."""
_PARAMETER = re.compile(r"(?<![\w$])\$(?=\d)")
_CONTINUED = re.compile(r"(?:[^\S\r\n]|--[^\r\n]*)*[\r\n](?:\s|--[^\r\n]*[\r\n])*")
"""The text allowed between two parts of a string: space and comments to the end of the line, with a line break."""
_TEXTS = frozenset((TokenType.STRING, TokenType.HEX_STRING))


def tokenize(text: str) -> list[Token]:
    """The tokens of a text; raises `SqlSyntaxError` if it cannot be tokenized."""
    if not text.isascii() and (half := _SURROGATE.search(text)):
        raise SqlSyntaxError(f"U+{ord(half[0]):04X} is half a character", text, half.start())
    try:
        tokens = _tokens(text)
        if _MARK in text and (marks := _marks(tokens, text)):
            for mark in marks:
                text = f"{text[:mark]} {text[mark + 1 :]}"
            tokens = _tokens(text)
        for token in tokens:
            if token.token_type == TokenType.IDENTIFIER and not token.text:
                raise SqlSyntaxError("a quoted name is empty", text, token.start, 2)
        return _with_joined_texts(tokens, text)
    except SqlglotError as error:
        quote, position = _unclosed(text)
        if quote is None:
            raise SqlSyntaxError("this text cannot be split into words", text, position) from error
        end = "*/" if quote == "/*" else quote
        raise SqlSyntaxError(f"{_QUOTES[quote]} is not closed: {end} is missing", text, position) from None


def _tokens(text: str) -> list[Token]:
    """sqlglot's tokens. Another character stands for the `$` of parameters meanwhile: up to the next `$` it would be
    the tag of a text."""
    if "$" not in text or PARAMETER_MARK in text:
        return list(_DIALECT.tokenize(text))
    return [
        token
        if PARAMETER_MARK not in token.text
        else Token(
            token.token_type, token.text.replace(PARAMETER_MARK, "$"), token.line, token.col, token.start, token.end, []
        )
        for token in _DIALECT.tokenize(_PARAMETER.sub(PARAMETER_MARK, text))
    ]


def _unclosed(text: str) -> tuple[str | None, int]:
    """The quote that is never closed and its position, or None and the position of the first invalid character."""
    position = 0
    while position < len(text):
        if text.startswith("--", position):
            position = _after(text, "\n", position)
        elif text.startswith("/*", position):
            if text.find("*/", position + 2) < 0:
                return "/*", position
            position = _after(text, "*/", position + 2)
        elif text[position] in _QUOTES:
            end = text.find(text[position], position + 1)
            if end < 0:
                return text[position], position
            position = end + 1
        else:
            position += 1
    return None, 0


def _after(text: str, mark: str, position: int) -> int:
    end = text.find(mark, position)
    return len(text) if end < 0 else end + len(mark)


def _marks(tokens: list[Token], text: str) -> list[int]:
    """The positions of the byte order marks with which statements begin."""
    first = [token.start for before, token in pairwise((None, *tokens)) if token and _ends(before)]
    return [start for start in first if text[start] == _MARK]


def _ends(token: Token | None) -> bool:
    return token is None or token.token_type == TokenType.SEMICOLON


def _with_joined_texts(tokens: list[Token], text: str) -> list[Token]:
    """Merges texts that continue on another line into one token; raises `SqlSyntaxError` for two texts on one line."""
    if not any(
        after.token_type is TokenType.STRING and before.token_type in _TEXTS for before, after in pairwise(tokens)
    ):
        return tokens
    joined = tokens[:1]
    for token in tokens[1:]:
        first = joined[-1]
        if token.token_type is not TokenType.STRING or first.token_type not in _TEXTS:
            joined.append(token)
        elif _CONTINUED.fullmatch(text, first.end + 1, token.start):
            kind, whole = first.token_type, first.text + token.text
            joined[-1] = Token(kind, whole, first.line, first.col, first.start, token.end, [])
        else:
            message = "two texts side by side; || joins them, and so does a line break between them"
            raise SqlSyntaxError(message, text, token.start, token.end + 1 - token.start)
    return joined
