"""Parses GROUP BY.

    GROUP BY ALL
    GROUP BY [DISTINCT] element, ...
    element = expression | (expression, ...) | () | ROLLUP (part, ...) | CUBE (part, ...) | GROUPING SETS (element, ...)
    part = expression | (expression, ...)

sqlglot's own parser puts plain expressions, ROLLUP and CUBE into separate lists and so loses their order; here all
elements are `expressions` of one `exp.Group`. Its `all` is True for GROUP BY ALL, False for GROUP BY DISTINCT.
"""

from __future__ import annotations

from typing import Any

from sqlglot import exp
from sqlglot.tokens import TokenType

from .expressions import PlacedParser


class GroupingParser(PlacedParser):
    """The part of the parser for GROUP BY."""

    def _parse_group(self, skip_group_by_token: bool = False) -> Any:
        if not skip_group_by_token and not self._match(TokenType.GROUP_BY):
            return None
        start = self._prev
        if self._match(TokenType.ALL):
            if self._match(TokenType.COMMA) or self._grouping_element() is not None:
                self.refuse("GROUP BY ALL with elements", start, "GROUP BY ALL alone")
            return self.expression(exp.Group(all=True), start)
        distinct = self._match(TokenType.DISTINCT)
        elements = self._parse_csv(self._grouping_element)
        if not elements:
            self.raise_error("an expression to group by expected")
        if self._match(TokenType.WITH):
            self.refuse(f"GROUP BY ... WITH {self._word()}", instead=f"GROUP BY {self._word()} (...)")
        return self.expression(exp.Group(expressions=elements, all=False if distinct else None), start)

    def _grouping_element(self) -> Any:
        token = self._curr
        if not token or self._match_set(self.QUERY_MODIFIER_TOKENS, advance=False):
            return None
        if self._match(TokenType.GROUPING_SETS):
            sets = self._parse_wrapped_csv(self._grouping_element)
            if not sets:
                self.raise_error("a grouping set expected", self._prev)
            return self.expression(exp.GroupingSets(expressions=sets), token)
        for kind, node in ((TokenType.ROLLUP, exp.Rollup), (TokenType.CUBE, exp.Cube)):
            if self._match(kind):
                parts = self._parse_wrapped_csv(lambda: self._part(token))
                if not parts:
                    self.raise_error("an expression expected", self._prev)
                return self.expression(node(expressions=parts), token)
        if self._match_pair(TokenType.L_PAREN, TokenType.R_PAREN):
            return self.expression(exp.Tuple(expressions=[]), token)
        return self._parse_disjunction()

    def _part(self, around: Any) -> Any:
        if self._curr.token_type in (TokenType.ROLLUP, TokenType.CUBE, TokenType.GROUPING_SETS):
            self.refuse(f"{self._word()} inside {around.text.upper()}", self._curr, "inside GROUPING SETS")
        return self._parse_disjunction()
