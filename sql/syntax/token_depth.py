"""Estimates from its tokens how deeply the work on a statement will recurse, before it does.

    SELECT ((a + b) * c) ...      a level of parentheses or CASE: some 20 calls of the parser
    a + b + c + d                 an operator of a chain: some 5 calls of the binder
    t JOIN u JOIN v, x UNION y    a join, a branch, a window or a name of WITH: some 5 calls of the planner

Lists of constants are not counted, whatever their length.
"""

from __future__ import annotations

from collections.abc import Iterable

from sqlglot.tokens import Token, TokenType

MOST_CALLS_HERE = 500
"""Calls that fit the caller's own stack: half of Python's default limit."""
_LEVEL, _STEP = 20, 5
_OPENING = frozenset((TokenType.L_PAREN, TokenType.CASE))
_CLOSING = frozenset((TokenType.R_PAREN, TokenType.END))
_CLAUSES = frozenset((TokenType.JOIN, TokenType.UNION, TokenType.INTERSECT, TokenType.EXCEPT, TokenType.OVER))
_OPERATORS = frozenset(
    (
        *(TokenType.PLUS, TokenType.DASH, TokenType.STAR, TokenType.SLASH, TokenType.MOD, TokenType.DPIPE),
        *(TokenType.AND, TokenType.OR, TokenType.NOT, TokenType.TILDE, TokenType.CARET, TokenType.AMP),
        *(TokenType.PIPE, TokenType.HASH, TokenType.LT, TokenType.GT),
        *(TokenType.DCOLON, TokenType.IS, TokenType.EQ, TokenType.ELSE),
    )
)


def is_deep(tokens: Iterable[Token]) -> bool:
    """True if a statement of these tokens needs a deep stack."""
    depth = operators = clauses = 0
    chained = 0  # operators of this list item and of those around it
    around: list[int] = []
    before: TokenType | None = None
    for token in tokens:
        kind = token.token_type
        if kind in _OPENING:
            depth += 1
            around.append(operators)
            operators = 0
            clauses += before is TokenType.ALIAS  # a name of WITH
        elif kind in _CLOSING:
            depth -= 1
            chained -= operators
            operators = around.pop() if around else 0
        elif kind is TokenType.COMMA:
            chained -= operators
            operators = 0
        elif kind in _OPERATORS:
            operators += 1
            chained += 1
        elif kind in _CLAUSES:
            clauses += 1
        before = kind
        if _LEVEL * depth + _STEP * (chained + clauses) > MOST_CALLS_HERE:
            return True
    return False
