"""Locates the deepest nesting of a statement for `StatementTooComplex`."""

from __future__ import annotations

from sqlglot.tokens import TokenType

from ...errors import Error, StatementError, StatementTooComplex
from .tokenizing import tokenize

_OPENING = (TokenType.L_PAREN, TokenType.CASE)
_CLOSING = (TokenType.R_PAREN, TokenType.END)
_NESTED = 100
"""Depth of parentheses below which the error does not blame them."""


def too_complex(text: str) -> StatementTooComplex:
    """The error for a statement whose tree is deeper than `sql.deep_stack` supports."""
    try:
        depth, place = _deepest(text)
    except Error:
        depth, place = 0, 0
    if depth < _NESTED:
        return StatementTooComplex(
            "the statement is nested too deeply: split long chains of operators, subqueries or views that use "
            "each other, for instance by a temporary table"
        )
    message = (
        f"the statement is nested too deeply: {depth:,} parentheses and CASEs are open here; move inner parts into a "
        "WITH query, a view or a temporary table"
    )
    return StatementTooComplex(str(StatementError(message, text, place, 1)))


def _deepest(text: str) -> tuple[int, int]:
    """The largest number of parentheses and CASEs that are open at once, and the position of the last of them."""
    depth = most = place = 0
    for token in tokenize(text):
        if token.token_type in _OPENING:
            depth += 1
            if depth > most:
                most, place = depth, token.start
        elif token.token_type in _CLOSING:
            depth -= 1
    return most, place
