"""Parses the clauses after a function call, and windows: FILTER, IGNORE NULLS, OVER, and the WINDOW clause.

    function(...) [WITHIN GROUP (ORDER BY ...)] [FILTER (WHERE condition)] [IGNORE NULLS | RESPECT NULLS]
        [OVER name | OVER (window)]
    WINDOW name AS (window), ...

    window  [name] [PARTITION BY expression, ...] [ORDER BY ...] [frame]
    frame   ROWS | RANGE | GROUPS  bound | BETWEEN bound AND bound
            [EXCLUDE CURRENT ROW | EXCLUDE GROUP | EXCLUDE TIES | EXCLUDE NO OTHERS]
    bound   UNBOUNDED PRECEDING | n PRECEDING | CURRENT ROW | n FOLLOWING | UNBOUNDED FOLLOWING

A frame of one bound is represented as the equivalent frame from there to CURRENT ROW.
"""

from __future__ import annotations

from typing import Any

from sqlglot import exp
from sqlglot.tokens import TokenType

from .expressions import PlacedParser

_KEYWORDS = ("PARTITION", "ORDER", "ROWS", "RANGE", "GROUPS")
"""Words that begin a part of a window, so that they cannot name a window there."""
_EXCLUSIONS = (("CURRENT", "ROW"), ("GROUP",), ("TIES",), ("NO", "OTHERS"))


class WindowParser(PlacedParser):
    """The part of the grammar for windows."""

    def _parse_window(self, this: Any, alias: bool = False) -> Any:
        """Parses a call with the clauses after it; with `alias`, one definition of the WINDOW clause, whose name is
        `this`."""
        if alias:
            if this is None or not self._match(TokenType.ALIAS):
                self.raise_error("WINDOW is written WINDOW name AS (...)")
            return self._window_of(this, None)
        call = this
        if self._match_text_seq("WITHIN", "GROUP"):
            call = self.expression(exp.WithinGroup(this=call, expression=self._parse_wrapped(self._parse_order)))
        if self._match_pair(TokenType.FILTER, TokenType.L_PAREN):
            self._match(TokenType.WHERE)
            call = self.expression(exp.Filter(this=call, expression=self._parse_where(skip_where_token=True)))
            self._match_r_paren()
        call = self._nulls_treatment(call)
        if call is not this and this is not None:
            call.update_positions(this)
        if not self._match(TokenType.OVER):
            return call
        if not self._match(TokenType.L_PAREN, advance=False):
            name = self._identifier("a window's name or its definition in parentheses expected")
            return self._placed_window(exp.Window(this=call, alias=name, over="OVER"), call)
        return self._window_of(call, "OVER")

    def _nulls_treatment(self, call: Any) -> Any:
        if self._match_text_seq("IGNORE", "NULLS"):
            return self.expression(exp.IgnoreNulls(this=call))
        return self.expression(exp.RespectNulls(this=call)) if self._match_text_seq("RESPECT", "NULLS") else call

    def _window_of(self, this: Any, over: str | None) -> Any:
        """Parses `(window)`, of a call or of a name."""
        if not self._match(TokenType.L_PAREN):
            self.raise_error("( expected")
        name = None
        if self._word() in ("PARTITION", "ORDER"):
            self.raise_error(f"{self._word()} BY expected")
        first = self._word().partition(" ")[0]  # PARTITION BY and ORDER BY are one token each
        if first not in _KEYWORDS and not self._match(TokenType.R_PAREN, advance=False):
            name = self._identifier("PARTITION BY, ORDER BY, ROWS, RANGE, GROUPS or the name of a window expected")
        partition = self._window_partition() if self._match(TokenType.PARTITION_BY) else []
        order = self._parse_order()
        spec = self._window_frame() if self._word() in ("ROWS", "RANGE", "GROUPS") else None
        self._match_r_paren()
        window = exp.Window(this=this, partition_by=partition, order=order, spec=spec, alias=name, over=over)
        return self._placed_window(window, this)

    def _window_partition(self) -> Any:
        return self._parse_csv(self._parse_disjunction) or self.raise_error("an expression to partition by expected")

    def _placed_window(self, window: exp.Window, this: Any) -> Any:
        return self.expression(window).update_positions(this)

    def _window_frame(self) -> Any:
        start = self._curr
        kind = self._word()
        self._advance()
        both = self._match(TokenType.BETWEEN)
        parts = dict(zip(("start", "start_side"), self._frame_bound()))
        if both:
            if not self._match(TokenType.AND):
                self.raise_error("AND expected")
            parts.update(zip(("end", "end_side"), self._frame_bound()))
        else:
            parts["end"] = "CURRENT ROW"
        spec = exp.WindowSpec(kind=kind, exclude=self._frame_exclusion(), **parts)
        return self.expression(spec).update_positions(start)

    def _frame_bound(self) -> tuple[Any, str | None]:
        """Parses the bound of a frame, and its side."""
        if self._match_text_seq("CURRENT"):
            self._expect("ROW")
            return "CURRENT ROW", None
        value = "UNBOUNDED" if self._match_text_seq("UNBOUNDED") else self._parse_bitwise()
        side = self._word()
        if value is None:
            self.raise_error("UNBOUNDED, CURRENT ROW or a number of rows expected")
        if side not in ("PRECEDING", "FOLLOWING"):
            self.raise_error("PRECEDING or FOLLOWING expected")
        self._advance()
        return value, side

    def _frame_exclusion(self) -> Any:
        if not self._match_text_seq("EXCLUDE"):
            return None
        for words in _EXCLUSIONS:
            if self._match_text_seq(*words):
                return exp.Var(this=" ".join(words))
        return self.raise_error("CURRENT ROW, GROUP, TIES or NO OTHERS expected")
