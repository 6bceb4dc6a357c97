"""Parses the statements that change rows, COPY, and the settings of a session.

[WITH ...] INSERT [IGNORE] INTO t [AS a] [(columns)] query | DEFAULT VALUES
    [ON CONFLICT [(columns)] DO NOTHING | DO UPDATE SET ... [WHERE ...]] [RETURNING ...]
[WITH ...] UPSERT INTO t [(columns)] query [RETURNING ...]
    [WITH ...] UPDATE t [AS a] SET c = value, (c, d) = (values) | (query), ... [FROM ...] [WHERE ...] [RETURNING ...]
[WITH ...] DELETE FROM t [AS a] [USING ...] [WHERE ...] [RETURNING ...]
COPY t [(columns)] FROM 'path' [[WITH] (options)]      COPY t [(columns)] | (query) TO 'path' [[WITH] (options)]
SET name = | TO value      RESET name | ALL      SHOW name | ALL
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable
from typing import Any

from sqlglot import exp
from sqlglot.tokens import TokenType

from ...settings import SETTINGS
from .. import nodes, not_supported
from .tables import TableParser

_QUERY_STARTS = (TokenType.SELECT, TokenType.WITH, TokenType.VALUES, TokenType.L_PAREN)


class WriteParser(TableParser):
    """The part of `grammar.statements.NyalaParser` for INSERT, UPSERT, UPDATE, DELETE, COPY, SET and RESET."""

    def _with_statement(self) -> Any:
        """A statement that starts with WITH: a query, or a change of rows with CTEs before it."""
        start = self._index
        with_ = self._parse_with()
        method = _AFTER_WITH.get(self._word())
        if method is None:
            if self._word() not in ("SELECT", "VALUES", "TABLE") and not self._match(TokenType.L_PAREN, advance=False):
                self.raise_error("SELECT, VALUES, INSERT, UPSERT, UPDATE or DELETE expected")
            self._retreat(start)
            return self._query()
        self._advance()
        tree = method(self)
        tree.set("with_", with_)
        return tree

    # ---- INSERT, UPSERT ----------------------------------------------------------------------------------------------

    def _insert(self) -> Any:
        ignore = self._match(TokenType.IGNORE) or self._match_text_seq("IGNORE")
        if self._match(TokenType.OVERWRITE):
            self.refuse("INSERT OVERWRITE")
        target = self._target()
        default = bool(self._match_text_seq("DEFAULT", "VALUES"))
        source = None if default else self._query()
        conflict = None
        if self._match(TokenType.ON) or self._match_text_seq("ON"):
            if ignore:
                self.raise_error("INSERT is written with IGNORE or with ON CONFLICT", self._prev)
            conflict = self._on_conflict(self._prev)
        returning = self._returning()
        return exp.Insert(
            this=target,
            expression=source,
            ignore=bool(ignore),
            default=default,
            conflict=conflict,
            returning=returning,
        )

    def _upsert(self) -> Any:
        target = self._target()
        if self._match_text_seq("DEFAULT", "VALUES"):
            self.refuse("UPSERT ... DEFAULT VALUES", instead="INSERT ... DEFAULT VALUES")
        source = self._query()
        return nodes.Upsert(this=target, expression=source, returning=self._returning())

    def _target(self) -> Any:
        """`INTO table [AS alias] [(columns)]`."""
        self._expect("INTO")
        table = self._parse_table_parts(schema=True)
        if self._match(TokenType.ALIAS):
            name = self._identifier("a name after AS expected")
            table.set("alias", self.expression(exp.TableAlias(this=name)))
        if self._match(TokenType.L_PAREN, advance=False) and self._next.token_type not in _QUERY_STARTS:
            return exp.Schema(this=table, expressions=self._parse_wrapped_csv(self._identifier))
        return table

    def _on_conflict(self, start: Any) -> Any:
        """`CONFLICT [(columns)] DO NOTHING | DO UPDATE SET ...`: only the primary key can conflict."""
        self._expect("CONFLICT")
        if self._match(TokenType.ON, advance=False):
            self.refuse("ON CONFLICT ON CONSTRAINT", self._curr, "ON CONFLICT (the primary key's columns)")
        keys = self._parse_wrapped_csv(self._identifier) if self._match(TokenType.L_PAREN, advance=False) else None
        if keys and self._match(TokenType.WHERE, advance=False):
            self.refuse("ON CONFLICT (...) WHERE", self._curr)
        self._expect("DO")
        if self._match_text_seq("NOTHING"):
            node = exp.OnConflict(conflict_keys=keys, action=exp.Var(this="DO NOTHING"))
            return self.expression(node, start)
        if not self._match(TokenType.UPDATE):
            self.raise_error("NOTHING or UPDATE expected")
        self._expect("SET")
        changes = self._parse_csv(self._assignment)
        node = exp.OnConflict(
            conflict_keys=keys, action=exp.Var(this="DO UPDATE"), expressions=changes, where=self._parse_where()
        )
        return self.expression(node, start)

    def _returning(self) -> Any:
        if not self._match(TokenType.RETURNING):
            return None
        start = self._prev
        items = self._parse_csv(self._parse_expression)
        if not items:
            self.raise_error("* or an expression expected")
        return self.expression(exp.Returning(expressions=items), start)

    # ---- UPDATE, DELETE ----------------------------------------------------------------------------------------------

    def _update(self) -> Any:
        table = self._parse_table(alias_tokens=self.UPDATE_ALIAS_TOKENS)
        self._expect("SET")
        changes = self._parse_csv(self._assignment)
        source = self._parse_from(joins=True)
        where = self._parse_where()
        self._refuse_limit("UPDATE")
        return exp.Update(this=table, expressions=changes, from_=source, where=where, returning=self._returning())

    def _refuse_limit(self, verb: str) -> None:
        if self._word() in ("LIMIT", "ORDER BY"):
            self.refuse(f"{verb} ... {self._word()}", self._curr, hint=not_supported.LIMITED_CHANGE)

    def _assignment(self) -> Any:
        """`column = value`, `(columns) = (values)` or `(columns) = (query)`."""
        if self._match(TokenType.L_PAREN, advance=False):
            names = self.expression(exp.Tuple(expressions=self._parse_wrapped_csv(self._identifier)))
            self._expect_equals()
            return self.expression(exp.EQ(this=names, expression=self._row()))
        name = self._identifier("a column name expected")
        if self._match(TokenType.DOT, advance=False):
            self.raise_error("SET is written with plain names of columns")
        self._expect_equals()
        return self.expression(exp.EQ(this=name, expression=self._value()))

    def _expect_equals(self) -> None:
        if not self._match(TokenType.EQ):
            self.raise_error("column = value expected")

    def _value(self) -> Any:
        value = exp.Var(this="DEFAULT") if self._match(TokenType.DEFAULT) else self._parse_disjunction()
        return self.raise_error("a value expected") if value is None else value

    def _row(self) -> Any:
        """Parses the new values of several columns: a query or a row of values, in parentheses."""
        is_row = self._match_text_seq("ROW")
        if not self._match(TokenType.L_PAREN, advance=False):
            self.raise_error("(values) or (query) expected")
        if not is_row and self._next.token_type in (TokenType.SELECT, TokenType.WITH):
            return self._parse_disjunction()
        return self.expression(exp.Tuple(expressions=self._parse_wrapped_csv(self._value)))

    def _delete(self) -> Any:
        self._expect("FROM")
        table = self._parse_table()
        using = self._parse_csv(lambda: self._parse_table(joins=True)) if self._match(TokenType.USING) else None
        where = self._parse_where()
        self._refuse_limit("DELETE")
        return exp.Delete(this=table, using=using, where=where, returning=self._returning())

    # ---- COPY --------------------------------------------------------------------------------------------------------

    def _copy(self) -> Any:
        if self._match(TokenType.L_PAREN, advance=False):
            source, columns = self._parse_wrapped(self._query), None
            self._expect("TO")
            return self._copy_to(source, columns)
        table = self._parse_table_parts(schema=True)
        columns = self._parse_wrapped_csv(self._identifier) if self._match(TokenType.L_PAREN, advance=False) else None
        if self._match_text_seq("TO"):
            return self._copy_to(table, columns)
        if not self._match(TokenType.FROM):
            self.raise_error("FROM or TO expected")
        return nodes.CopyFrom(this=table, expressions=columns, path=self._path(), options=self._copy_options())

    def _copy_to(self, source: Any, columns: Any) -> Any:
        return nodes.CopyTo(this=source, expressions=columns, path=self._path(), options=self._copy_options())

    def _path(self) -> Any:
        if self._word() in ("STDIN", "STDOUT", "PROGRAM"):
            self.refuse(f"COPY with {self._word()}", self._curr, "'the path of a file'")
        return self._local(self._text())

    def _local(self, path: Any) -> Any:
        """Checks that a path is on the file system."""
        if "://" in str(path.this):
            self.refuse(f"reading and writing {str(path.this).partition('://')[0]}:// files", hint=not_supported.FILES)
        return path

    def _copy_options(self) -> Any:
        """`[WITH] (NAME value, ...)`, or the same without parentheses and commas."""
        has_with = self._match(TokenType.WITH)
        if self._match(TokenType.L_PAREN, advance=False):
            return self._parse_wrapped_csv(lambda: self._copy_option(is_wrapped=True))
        options = []
        while self._curr and self._curr.token_type != TokenType.SEMICOLON:
            options.append(self._copy_option())
        if has_with and not options:
            self.raise_error("options after WITH expected")
        return options or None

    def _copy_option(self, is_wrapped: bool = False) -> Any:
        name = self._name()
        if name.name.upper() in ("CSV", "PARQUET"):
            return nodes.CopyOption(this=exp.Var(this="FORMAT"), expression=name)
        if not self._match(TokenType.EQ):
            self._match(TokenType.ALIAS)
        value = None
        if self._curr and (is_wrapped or self._is_option_value()):
            value = None if self._ends_option() else self._parse_primary() or self._name()
        return nodes.CopyOption(this=name, expression=value)

    def _ends_option(self) -> bool:
        return bool(self._curr) and self._curr.token_type in (TokenType.COMMA, TokenType.R_PAREN)

    def _is_option_value(self) -> bool:
        """True if a value follows; outside parentheses only HEADER may lack one, and the next word may be the next
        option."""
        bare_header = self._prev.text.upper() == "HEADER"
        return not bare_header or self._word() in _SWITCHES or self._curr.token_type == TokenType.NUMBER

    def _parse_table_part(self, schema: bool = False) -> Any:
        """Parses a quoted text in FROM as the path of a file."""
        if not schema and self._match(TokenType.STRING):
            return self._local(self.expression(nodes.FileName(this=self._prev.text), self._prev))
        return super()._parse_table_part(schema=schema)

    # ---- settings ----------------------------------------------------------------------------------------------------

    def _set(self) -> Any:
        self._match_text_seq("SESSION")
        if self._match_text_seq("LOCAL"):
            self.refuse("SET LOCAL", self._prev, "SET")
        if self._match_text_seq("TIME", "ZONE"):
            name = exp.Var(this="timezone")
            name.update_positions(self._prev)
        elif self._match_text_seq("NAMES"):
            name = self.expression(exp.Var(this="client_encoding"))
        else:
            name = self._setting_name()
            if not self._match(TokenType.EQ) and not self._match_text_seq("TO"):
                self.raise_error("SET is written SET name = value")
        if name.name == "search_path" and not self._match_set(_NOT_NAMES, advance=False):
            return nodes.SetSetting(this=name, expression=self._search_path())
        value = self._setting_value()
        if self._curr and self._curr.token_type == TokenType.COMMA:
            value = self._list_of_words(value)
        return nodes.SetSetting(this=name, expression=value)

    def _search_path(self) -> Any:
        """Parses names and texts, each of which is the name of a schema, as one text of names."""
        entries = []
        while True:
            if self._match(TokenType.STRING):
                text = self._prev.text
                entries.append(text if _PLAIN_NAME.fullmatch(text) else '"{}"'.format(text.replace('"', '""')))
            else:
                name = self._identifier("the name of a schema expected")
                entries.append(name.sql(dialect="postgres") if name.args.get("quoted") else name.name.lower())
            if not self._match(TokenType.COMMA):
                return self.expression(exp.Literal.string(", ".join(entries)))

    def _list_of_words(self, first: Any) -> Any:
        """Parses the rest of a list of words, as one text."""
        words = [first]
        while self._match(TokenType.COMMA):
            words.append(self._setting_value())
        text = ", ".join(f'"{word.name}"' if word.name.startswith("$") else word.name for word in words)
        return self.expression(exp.Literal.string(text))

    def _setting_name(self) -> Any:
        if not self._curr or self._curr.token_type in (TokenType.STRING, TokenType.NUMBER, TokenType.EQ):
            self.raise_error("the name of a setting expected")
        self._advance()
        name = exp.Var(this=self._prev.text.lower())
        name.update_positions(self._prev)
        return name

    def _setting_value(self) -> Any:
        if self._match(TokenType.DEFAULT):
            return exp.Var(this="DEFAULT")
        value = self._parse_unary()
        if value is None and self._curr:
            self._advance()  # a word of the language, such as ON
            value = exp.Var(this=self._prev.text)
            value.update_positions(self._prev)
        return self.raise_error("a value expected") if value is None else value

    def _shown_setting(self) -> Any:
        """Parses the rest of SHOW, if it is ALL, SETTINGS, or close to the name of a setting."""
        if self._match(TokenType.ALL) or self._match_text_seq("SETTINGS"):
            return nodes.ShowSettings()
        if self._match_text_seq("TIME", "ZONE"):
            return nodes.ShowSettings(this=self.expression(exp.Var(this="timezone")))
        if self._match_text_seq("TRANSACTION", "ISOLATION"):
            self._expect("LEVEL")
            return nodes.ShowSettings(this=self.expression(exp.Var(this="transaction_isolation")))
        if difflib.get_close_matches(self._word().lower(), list(SETTINGS), 1, 0.7):
            return nodes.ShowSettings(this=self._setting_name())
        return None

    def _reset(self) -> Any:
        if self._match(TokenType.ALL):
            return nodes.ResetSetting()
        if self._match_text_seq("ROLE"):
            return nodes.SetRole()
        return nodes.ResetSetting(this=self._setting_name())


_PLAIN_NAME = re.compile(r"[a-z_][a-z0-9_]*")
_NOT_NAMES = (TokenType.DEFAULT, TokenType.PLACEHOLDER, TokenType.PARAMETER, TokenType.COLON)
_SWITCHES = ("TRUE", "FALSE", "ON", "OFF")
_AFTER_WITH: dict[str, Callable[[Any], Any]] = {
    "DELETE": WriteParser._delete,
    "INSERT": WriteParser._insert,
    "UPDATE": WriteParser._update,
    "UPSERT": WriteParser._upsert,
}
