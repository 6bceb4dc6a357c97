"""Operators of PostgreSQL that sqlglot's base grammar lacks or parses differently.

| | |
|---|---|
| `~` `~*` `!~` `!~*` | a regular expression matches, without regard to case, does not match |
| `&` `\\|` `#` `~` `<<` `>>` | bits: and, or, exclusive or, complement, shifts |
| `^` | power; binds tighter than `*`, from left to right |
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sqlglot import exp, parser
from sqlglot.tokens import TokenType

NOT_MATCHES, NOT_IMATCHES = TokenType.CARET_AT, TokenType.DPIPE_SLASH
"""The tokens of `!~` and `!~*`: two of sqlglot's that nyala does not use otherwise."""

SINGLE_TOKENS = {
    "#": TokenType.HASH,
    "~": TokenType.TILDE,
    "^": TokenType.CARET,
    "&": TokenType.AMP,
    "|": TokenType.PIPE,
}
KEYWORDS = {"!~": NOT_MATCHES, "!~*": NOT_IMATCHES, "~*": TokenType.IRLIKE}
FOREIGN = ("~~~", "||/", "|/", "^@", "&&", "&<", "&>", "|>", "RLIKE", "REGEXP", "GLOB")
"""Tokens of other databases that would shadow one of these operators."""

BITWISE = {TokenType.AMP: exp.BitwiseAnd, TokenType.PIPE: exp.BitwiseOr, TokenType.HASH: exp.BitwiseXor}
EXPONENT = {TokenType.CARET: exp.Pow}
UNARY = {TokenType.TILDE: lambda self: self.expression(exp.BitwiseNot(this=self._parse_unary()))}
NO_PAREN_FUNCTIONS = {
    TokenType.CURRENT_DATE: exp.CurrentDate,
    TokenType.CURRENT_TIMESTAMP: exp.CurrentTimestamp,
    TokenType.LOCALTIMESTAMP: exp.Localtimestamp,
}


def _negated(kind: type[exp.Expression]) -> Callable[[Any, Any], Any]:
    matches = parser.binary_range_parser(kind)
    return lambda self, this: self.expression(exp.Not(this=matches(self, this)))


RANGE = {
    TokenType.TILDE: parser.binary_range_parser(exp.RegexpLike),
    TokenType.IRLIKE: parser.binary_range_parser(exp.RegexpILike),
    NOT_MATCHES: _negated(exp.RegexpLike),
    NOT_IMATCHES: _negated(exp.RegexpILike),
}

SYMBOLS = {exp.RegexpLike: "~", exp.RegexpILike: "~*", exp.BitwiseXor: "#", exp.Pow: "^"}
TRANSFORMS = dict.fromkeys(SYMBOLS, lambda self, node: self.binary(node, SYMBOLS[type(node)]))
"""The text of each operator for the generator."""
