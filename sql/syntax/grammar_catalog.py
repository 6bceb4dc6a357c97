"""Reads the statements about what there is: views, ANALYZE, SHOW, DESCRIBE."""

from __future__ import annotations

from typing import Any

from sqlglot.tokens import TokenType

from . import nodes
from .grammar_expressions import PlacedParser

SHOWN = "TABLES, VIEWS, FUNCTIONS, CREATE TABLE, CREATE VIEW, COLUMNS, PARTITIONS and STATS"
"""What SHOW knows."""


class CatalogParser(PlacedParser):
    """The part of `grammar.NyalaParser` that reads statements about the catalog."""

    def _create_view(self, replace: bool = False) -> Any:
        """What follows CREATE [OR REPLACE] VIEW."""
        exists = self._parse_exists(not_=True)
        if replace and exists:
            self.raise_error("CREATE VIEW is written with OR REPLACE or with IF NOT EXISTS", self._prev)
        name = self._parse_table_parts(schema=True)
        columns = self._parse_wrapped_csv(self._identifier) if self._match(TokenType.L_PAREN, advance=False) else None
        if not self._match(TokenType.ALIAS):
            self.raise_error("AS and a query expected")
        return nodes.CreateView(this=name, expressions=columns, query=self._query(), exists=exists, replace=replace)

    def _drop_view(self) -> Any:
        """What follows DROP VIEW."""
        exists = self._parse_exists()
        name = self._parse_table_parts(schema=True)
        return nodes.DropView(this=name, exists=exists, cascade=self._cascade())

    def _cascade(self) -> bool:
        """`CASCADE`; RESTRICT is what holds without a word too. What is dropped is one thing."""
        if self._curr and self._curr.token_type == TokenType.COMMA:
            self.refuse("DROP of several at once", self._curr, hint="drop them one by one")
        if self._match_text_seq("RESTRICT"):
            return False
        return bool(self._match_text_seq("CASCADE"))

    def _analyze(self) -> Any:
        self._match(TokenType.TABLE)
        return nodes.AnalyzeTable(this=self._parse_table_parts(schema=True) if self._curr else None)

    def _show(self) -> Any:
        if self._match_text_seq("TABLES"):
            return nodes.ShowTables(this=self._pattern())
        if self._match_text_seq("FUNCTIONS"):
            return nodes.ShowFunctions(this=self._pattern())
        if self._match_text_seq("VIEWS"):
            return nodes.ShowViews(this=self._pattern())
        if self._match_text_seq("CREATE"):
            return self._show_create()
        if self._match_text_seq("COLUMNS"):
            if not self._match_set((TokenType.FROM, TokenType.IN)):
                self.raise_error("FROM and a table expected")
            return nodes.DescribeTable(this=self._parse_table_parts(schema=True))
        if self._match_text_seq("PARTITIONS"):
            return nodes.ShowPartitions(this=self._parse_table_parts(schema=True))
        if self._match_text_seq("STATS"):
            self._match_text_seq("FOR")
            return nodes.ShowStats(this=self._parse_table_parts(schema=True))
        if (setting := self._shown_setting()) is not None:
            return setting
        if self._curr:
            return self.refuse(f"SHOW {self._curr.text.upper()}", self._curr, f"SHOW {SHOWN}")
        return self.raise_error(f"{SHOWN.replace(' and ', ' or ')} expected")

    def _pattern(self) -> Any:
        return self._text() if self._match(TokenType.LIKE) else None

    def _show_create(self) -> Any:
        if self._match(TokenType.VIEW):
            return nodes.ShowCreateTable(this=self._parse_table_parts(schema=True), view=True)
        if not self._match(TokenType.TABLE):
            self.raise_error("TABLE or VIEW expected")
        return nodes.ShowCreateTable(this=self._parse_table_parts(schema=True))

    def _describe(self) -> Any:
        self._match(TokenType.TABLE)
        return nodes.DescribeTable(this=self._parse_table_parts(schema=True))
