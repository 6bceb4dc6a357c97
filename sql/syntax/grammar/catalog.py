"""Parses the statements about the catalog: schemas, views, ANALYZE, SHOW, DESCRIBE."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sqlglot import exp
from sqlglot.tokens import TokenType

from .. import nodes
from .access import AccessParser


class CatalogParser(AccessParser):
    """The part of `grammar.statements.NyalaParser` that parses statements about the catalog."""

    def _create_schema(self) -> Any:
        """Parses the rest of CREATE SCHEMA. With AUTHORIZATION alone, the schema has the name of the role."""
        exists = self._parse_exists(not_=True)
        name = None if self._word() == "AUTHORIZATION" else self._identifier("the name of a schema expected")
        role = None
        if self._match_text_seq("AUTHORIZATION"):
            role = self._identifier("the name of a role expected")
            name = name or role.copy()
        if self._curr and self._word() in ("CREATE", "GRANT"):
            self.refuse("CREATE SCHEMA with objects", self._curr, hint="create them by statements of their own")
        return nodes.CreateSchema(this=name, exists=exists, owner=role)

    def _drop_schema(self) -> Any:
        """Parses the rest of DROP SCHEMA."""
        exists = self._parse_exists()
        name = self._identifier("the name of a schema expected")
        return nodes.DropSchema(this=name, exists=exists, cascade=self._cascade())

    def _alter_schema(self) -> Any:
        """Parses the rest of ALTER SCHEMA."""
        name = self._identifier("the name of a schema expected")
        action: Any = None
        if self._match_text_seq("RENAME", "TO"):
            action = nodes.RenameTable(this=self._identifier("the new name of the schema expected"))
        elif self._match_text_seq("OWNER", "TO"):
            action = nodes.SetTableOwner(this=self._identifier("the name of a role expected"))
        else:
            self.raise_error("RENAME TO or OWNER TO expected")
        return nodes.AlterSchema(this=name, expressions=[action])

    def _create_view(self, replace: bool = False, temporary: bool = False) -> Any:
        """Parses the rest of CREATE [OR REPLACE] [TEMPORARY] VIEW."""
        exists = self._parse_exists(not_=True)
        if replace and exists:
            self.raise_error("CREATE VIEW is written with OR REPLACE or with IF NOT EXISTS", self._prev)
        name = self._parse_table_parts(schema=True)
        columns = self._parse_wrapped_csv(self._identifier) if self._match(TokenType.L_PAREN, advance=False) else None
        if not self._match(TokenType.ALIAS):
            self.raise_error("AS and a query expected")
        return nodes.CreateView(
            this=name, expressions=columns, query=self._query(), exists=exists, replace=replace, temporary=temporary
        )

    def _drop_view(self) -> Any:
        """Parses the rest of DROP VIEW."""
        exists = self._parse_exists()
        name = self._parse_table_parts(schema=True)
        return nodes.DropView(this=name, exists=exists, cascade=self._cascade())

    def _alter_view(self) -> Any:
        """Parses the rest of ALTER VIEW."""
        exists = self._parse_exists()
        name = self._parse_table_parts(schema=True)
        action: Any = None
        if self._match_text_seq("RENAME", "TO"):
            action = nodes.RenameTable(this=self._identifier("the new name of the view expected"))
        elif self._match_text_seq("SET", "SCHEMA"):
            action = nodes.SetSchema(this=self._identifier("the name of a schema expected"))
        elif self._match_text_seq("OWNER", "TO"):
            action = nodes.SetTableOwner(this=self._identifier("the name of a role expected"))
        else:
            if self._word() in ("ALTER", "AS", "RENAME"):
                self.refuse(
                    f"ALTER VIEW ... {self._word()}",
                    self._curr,
                    "RENAME TO, SET SCHEMA and OWNER TO",
                    "CREATE OR REPLACE VIEW changes a view's query and its columns",
                )
            self.raise_error("RENAME TO, SET SCHEMA or OWNER TO expected")
        return nodes.AlterView(this=name, expressions=[action], exists=exists)

    def _cascade(self) -> bool:
        """True for `CASCADE`; RESTRICT is the default. Rejects a list of several objects."""
        if self._curr and self._curr.token_type == TokenType.COMMA:
            self.refuse("DROP of several at once", self._curr, hint="drop them one by one")
        if self._match_text_seq("RESTRICT"):
            return False
        return bool(self._match_text_seq("CASCADE"))

    def _analyze(self) -> Any:
        self._match(TokenType.TABLE)
        return nodes.AnalyzeTable(this=self._parse_table_parts(schema=True) if self._curr else None)

    def _show(self) -> Any:
        for phrase, method in SHOWN.items():
            if self._match_text_seq(*phrase.split()):
                return method(self)
        if self._match_text_seq("CREATE"):
            self.raise_error("TABLE or VIEW expected")
        if self._match_text_seq("COLUMNS"):
            self.raise_error("FROM and a table expected")
        if self._match_text_seq("STATS"):
            return self._show_stats()
        if (setting := self._shown_setting()) is not None:
            return setting
        if self._curr:
            return self.refuse(f"SHOW {self._curr.text.upper()}", self._curr, f"SHOW {_enumerated('and')}")
        return self.raise_error(f"{_enumerated('or')} expected")

    def _show_tables(self) -> Any:
        return nodes.ShowTables(this=self._pattern())

    def _show_schemas(self) -> Any:
        return nodes.ShowSchemas(this=self._pattern())

    def _show_views(self) -> Any:
        return nodes.ShowViews(this=self._pattern())

    def _show_functions(self) -> Any:
        return nodes.ShowFunctions(this=self._pattern())

    def _show_metrics(self) -> Any:
        """SHOW METRICS [LIKE pattern] is a query of `nyala_catalog.metrics`."""
        table = exp.Table(this=exp.to_identifier("metrics"), db=exp.to_identifier("nyala_catalog"))
        query = exp.select("*").from_(table).order_by("name", "labels")
        pattern = self._pattern()
        return query if pattern is None else query.where(exp.Like(this=exp.column("name"), expression=pattern))

    def _show_columns(self) -> Any:
        return nodes.DescribeTable(this=self._parse_table_parts(schema=True))

    def _show_partitions(self) -> Any:
        return nodes.ShowPartitions(this=self._parse_table_parts(schema=True))

    def _show_stats(self) -> Any:
        return nodes.ShowStats(this=self._parse_table_parts(schema=True))

    def _show_create_table(self) -> Any:
        return nodes.ShowCreateTable(this=self._parse_table_parts(schema=True))

    def _show_create_view(self) -> Any:
        return nodes.ShowCreateTable(this=self._parse_table_parts(schema=True), view=True)

    def _pattern(self) -> Any:
        return self._text() if self._match(TokenType.LIKE) else None

    def _describe(self) -> Any:
        self._match(TokenType.TABLE)
        return nodes.DescribeTable(this=self._parse_table_parts(schema=True))


SHOWN: dict[str, Callable[[CatalogParser], Any]] = {
    "TABLES": CatalogParser._show_tables,
    "VIEWS": CatalogParser._show_views,
    "SCHEMAS": CatalogParser._show_schemas,
    "FUNCTIONS": CatalogParser._show_functions,
    "METRICS": CatalogParser._show_metrics,
    "CREATE TABLE": CatalogParser._show_create_table,
    "CREATE VIEW": CatalogParser._show_create_view,
    "COLUMNS FROM": CatalogParser._show_columns,
    "COLUMNS IN": CatalogParser._show_columns,
    "PARTITIONS": CatalogParser._show_partitions,
    "STATS FOR": CatalogParser._show_stats,
    "GRANTS": CatalogParser._show_grants,
    "ROLES": CatalogParser._show_roles,
}
"""The objects that SHOW accepts besides settings, by the words after it."""


def _enumerated(last: str) -> str:
    """The objects that SHOW accepts, enumerated in words."""
    shown = list(
        dict.fromkeys(phrase.removesuffix(" FROM").removesuffix(" IN").removesuffix(" FOR") for phrase in SHOWN)
    )
    return f"{', '.join(shown[:-1])} {last} {shown[-1]}"
