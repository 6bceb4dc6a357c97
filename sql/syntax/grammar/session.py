"""Parses the statements about what a session keeps by name: prepared statements and cursors.

PREPARE name [(type, ...)] AS statement    EXECUTE name [(value, ...)]    DEALLOCATE [PREPARE] name | ALL
DECLARE name [SCROLL] CURSOR [WITH HOLD] FOR query    FETCH | MOVE [direction] [FROM] name    CLOSE name | ALL
DISCARD ALL | PLANS | SEQUENCES | TEMP    UNLISTEN * | name
"""

from __future__ import annotations

from typing import Any, Final

from sqlglot import exp
from sqlglot.tokens import TokenType

from .. import nodes, not_supported
from .expressions import PlacedParser

_DISCARDED: Final = ("ALL", "PLANS", "SEQUENCES", "TEMP", "TEMPORARY")
_DIRECTIONS: Final = {
    "NEXT": ("FORWARD", 1),
    "PRIOR": ("BACKWARD", 1),
    "FIRST": ("ABSOLUTE", 1),
    "LAST": ("ABSOLUTE", -1),
}
_COUNTED: Final = ("ABSOLUTE", "RELATIVE", "FORWARD", "BACKWARD")


class SessionParser(PlacedParser):
    """The part of `grammar.statements.NyalaParser` for prepared statements and cursors."""

    def _prepare_statement(self) -> Any:
        if self._word() == "TRANSACTION":
            self.refuse("PREPARE TRANSACTION", self._prev, hint=not_supported.PREPARED)
        name = self._identifier()
        types = self._parse_wrapped_csv(self._parse_types) if self._match(TokenType.L_PAREN, advance=False) else None
        if not self._match(TokenType.ALIAS):
            self.raise_error("AS and a statement expected")
        return nodes.PrepareStatement(this=name, expressions=types, text=self._rest())

    def _execute_statement(self) -> Any:
        name = self._identifier()
        values = None
        if self._match(TokenType.L_PAREN, advance=False):
            values = self._parse_wrapped_csv(self._parse_expression, optional=True)
        return nodes.ExecuteStatement(this=name, expressions=values)

    def _deallocate(self) -> Any:
        self._match_text_seq("PREPARE")
        return nodes.DeallocateStatement(this=self._name_or_all())

    def _discard(self) -> Any:
        word = self._word()
        if word not in _DISCARDED:
            self.raise_error(f"{', '.join(_DISCARDED[:-1])} or {_DISCARDED[-1]} expected")
        self._advance()
        return nodes.DiscardSession(this=self.expression(exp.Var(this=word)))

    def _declare(self) -> Any:
        name = self._identifier()
        scroll = None
        while self._word() in ("BINARY", "ASENSITIVE", "INSENSITIVE", "NO", "SCROLL"):
            word = self._word()
            self._advance()
            if word == "NO":
                self._expect("SCROLL")
                scroll = False
            elif word == "SCROLL":
                scroll = True
        self._expect("CURSOR")
        hold = bool(self._match_text_seq("WITH", "HOLD"))
        if not hold:
            self._match_text_seq("WITHOUT", "HOLD")
        self._expect("FOR")
        return nodes.DeclareCursor(this=name, scroll=scroll, hold=hold, text=self._rest(query=True))

    def _fetch_rows(self) -> Any:
        return self._cursor_step(is_move=False)

    def _move(self) -> Any:
        return self._cursor_step(is_move=True)

    def _cursor_step(self, is_move: bool) -> Any:
        direction, count = self._direction()
        if not self._match(TokenType.FROM):
            self._match(TokenType.IN)
        return nodes.FetchCursor(this=self._identifier(), direction=direction, count=count, move=is_move)

    def _direction(self) -> tuple[str, int | None]:
        """The direction and the number of rows, None for all."""
        word = self._word()
        follows = self._next.token_type if self._next else None
        if word in _DIRECTIONS and follows is not None:
            self._advance()
            return _DIRECTIONS[word]
        direction = "FORWARD"
        if word in _COUNTED and follows is not None:
            direction = word
            self._advance()
        if self._match(TokenType.ALL):
            return direction, None
        sign = -1 if self._match(TokenType.DASH) else 1
        if self._match(TokenType.NUMBER):
            return direction, sign * int(self._prev.text)
        if direction in ("ABSOLUTE", "RELATIVE"):
            self.raise_error("a number expected")
        return direction, 1

    def _close(self) -> Any:
        return nodes.CloseCursor(this=self._name_or_all())

    def _unlisten(self) -> Any:
        if not self._match(TokenType.STAR):
            self._identifier()
        return nodes.Unlisten()

    # ---- parts -------------------------------------------------------------------------------------------------------

    def _name_or_all(self) -> Any:
        return None if self._match(TokenType.ALL) else self._identifier()

    def _rest(self, query: bool = False) -> str:
        """The text of the statement that follows, which is parsed, too, so that its errors are found now."""
        start = self._curr
        if not start:
            self.raise_error("a statement expected")
        self._query() if query else self._parse_statement()
        return str(self.sql[start.start : self._prev.end + 1])
