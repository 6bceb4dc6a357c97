"""Reads statements: tokens into syntax trees; the grammar is drawn in `dialect.py`.

Each statement has its own method; those about tables are in `grammar_tables`, expressions in `grammar_expressions`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sqlglot import exp
from sqlglot.tokens import TokenType

from . import nodes
from .grammar_tables import TableParser

UNSUPPORTED = {
    "ANALYZE": "ANALYZE as a statement",
    "BEGIN": "BEGIN",
    "CALL": "CALL",
    "COMMENT": "COMMENT ON",
    "COMMIT": "COMMIT",
    "EXECUTE": "EXECUTE",
    "GRANT": "GRANT",
    "MERGE": "MERGE",
    "PRAGMA": "PRAGMA",
    "PREPARE": "PREPARE",
    "RENAME": "RENAME",
    "REPLACE": "REPLACE",
    "REVOKE": "REVOKE",
    "ROLLBACK": "ROLLBACK",
    "SET": "SET",
    "START": "START TRANSACTION",
    "USE": "USE",
    "VACUUM": "VACUUM",
}
"""Statements that other databases have: their first word and what to call them."""


class NyalaParser(TableParser):
    """sqlglot's parser with nyala's statements."""

    # ---- queries: what sqlglot reads too freely ----------------------------------------------------------------------

    def _parse_limit(self, this: Any = None, top: bool = False, skip_limit_token: bool = False) -> Any:
        """`LIMIT n`, `LIMIT ALL`, or `FETCH FIRST n ROWS ONLY`, which means the same and is kept as LIMIT."""
        if not top and self._match(TokenType.FETCH):
            return self._fetch()
        if top or not self._match(TokenType.LIMIT):
            return this
        count = self.expression(exp.Var(this="ALL")) if self._match(TokenType.ALL) else self._parse_term()
        if count is None:
            self.raise_error("a number of rows expected")
        return self.expression(exp.Limit(expression=count))

    def _fetch(self) -> Any:
        self._match_set((TokenType.FIRST, TokenType.NEXT))
        words = (TokenType.ROW, TokenType.ROWS)
        count = exp.Literal.number(1) if self._curr.token_type in words else self._parse_term()
        if count is None or not self._match_set(words):
            self.raise_error("FETCH is written FETCH FIRST n ROWS ONLY")
        if self._match(TokenType.WITH):
            self.refuse("FETCH ... WITH TIES", instead="ROWS ONLY")
        self._expect("ONLY")
        return self.expression(exp.Limit(expression=count))

    def _parse_version(self) -> Any:
        """`FOR SYSTEM_TIME` behind a table's name."""
        start = self._curr
        if not self._match_text_seq("FOR", "SYSTEM_TIME"):
            return None
        if self._match_text_seq("AS", "OF"):
            kind, words = "AS OF", []
        elif self._match(TokenType.BETWEEN):
            kind, words = "BETWEEN", ["AND"]
        elif self._match(TokenType.FROM):
            kind, words = "FROM", ["TO"]
        else:
            return self.raise_error("AS OF, BETWEEN or FROM expected")
        times = [self._moment()]
        for word in words:
            self._expect(word)
            times.append(self._moment())
        time = exp.Tuple(expressions=times) if words else times[0]
        return self.expression(exp.Version(this="SYSTEM_TIME", kind=kind, expression=time), start)

    def _moment(self) -> Any:
        return self._parse_bitwise() or self.raise_error("a point in time expected")

    def _parse_table_alias(self, *args: Any, **kwargs: Any) -> Any:
        alias = super()._parse_table_alias(*args, **kwargs)
        if alias is not None and alias.this is None:
            self.raise_error("a name after AS expected")
        return alias

    def _parse_function_parameter(self) -> Any:
        # sqlglot reads the names in `AS alias (names)` as if they were parameters with types.
        return self._parse_id_var(any_token=False)

    # ---- statements --------------------------------------------------------------------------------------------------

    def _parse_batch_statements(self, parse_method: Any, sep_first_statement: bool = True) -> list[Any]:
        self._advance_chunk()
        tree = parse_method(self)
        if self._index < self._tokens_size:
            self.raise_error("")
        return [tree]

    def _parse_statement(self) -> Any:
        if not self._curr:
            return None
        word = self._word()
        method = STATEMENTS.get(word)
        if method is not None:
            self._advance()
            return method(self)
        if self._curr.token_type in (TokenType.SELECT, TokenType.WITH, TokenType.VALUES, TokenType.L_PAREN):
            return self._query()
        if word in UNSUPPORTED:
            return self.refuse(UNSUPPORTED[word], self._curr)
        known = "SELECT, WITH, VALUES, " + ", ".join(sorted(STATEMENTS))
        return self.raise_error(f"a statement starts with {known}")

    def _insert(self) -> Any:
        ignore = self._match(TokenType.IGNORE) or self._match_text_seq("IGNORE")
        if self._match(TokenType.OVERWRITE):
            self.refuse("INSERT OVERWRITE")
        target, source = self._rows_into("INSERT")
        if self._match(TokenType.ON) or self._match_text_seq("ON"):
            self._on_conflict()
            ignore = True
        self._refuse_returning("INSERT")
        return exp.Insert(this=target, expression=source, ignore=bool(ignore))

    def _upsert(self) -> Any:
        target, source = self._rows_into("UPSERT")
        self._refuse_returning("UPSERT")
        return nodes.Upsert(this=target, expression=source)

    def _rows_into(self, verb: str) -> tuple[Any, Any]:
        """`INTO table [(columns)] query`."""
        self._expect("INTO")
        table = self._parse_table_parts(schema=True)
        target = table
        if self._match(TokenType.L_PAREN, advance=False) and self._next.token_type not in (
            TokenType.SELECT,
            TokenType.WITH,
            TokenType.VALUES,
            TokenType.L_PAREN,
        ):
            target = exp.Schema(this=table, expressions=self._parse_wrapped_csv(self._identifier))
        if self._match_text_seq("DEFAULT", "VALUES"):
            self.refuse(f"{verb} ... DEFAULT VALUES")
        return target, self._query()

    def _on_conflict(self) -> None:
        """`CONFLICT [(columns)] DO NOTHING`: the only key that can conflict is the primary key."""
        self._expect("CONFLICT")
        if self._match(TokenType.L_PAREN, advance=False):
            self._parse_wrapped_csv(self._identifier)
        self._expect("DO")
        if not self._match_text_seq("NOTHING"):
            self.refuse("INSERT ... ON CONFLICT DO UPDATE", instead="UPSERT INTO")

    def _refuse_returning(self, verb: str) -> None:
        if self._match_text_seq("RETURNING"):
            self.refuse(f"{verb} ... RETURNING")

    def _update(self) -> Any:
        table = self._parse_table(alias_tokens=self.UPDATE_ALIAS_TOKENS)
        self._expect("SET")
        changes = self._parse_csv(self._assignment)
        source = self._parse_from(joins=True)
        where = self._parse_where()
        self._refuse_returning("UPDATE")
        return exp.Update(this=table, expressions=changes, from_=source, where=where)

    def _assignment(self) -> Any:
        if self._match(TokenType.L_PAREN, advance=False):
            self.refuse("SET (columns) = (values)", self._curr, "SET column = value, ...")
        name = self._identifier("a column name expected")
        if not self._match(TokenType.EQ):
            self.raise_error("column = value expected")
        value = exp.Var(this="DEFAULT") if self._match(TokenType.DEFAULT) else self._parse_disjunction()
        if value is None:
            self.raise_error("a value expected")
        return self.expression(exp.EQ(this=name, expression=value))

    def _delete(self) -> Any:
        self._expect("FROM")
        table = self._parse_table()
        using = self._parse_csv(lambda: self._parse_table(joins=True)) if self._match(TokenType.USING) else None
        where = self._parse_where()
        self._refuse_returning("DELETE")
        return exp.Delete(this=table, using=using, where=where)

    def _compact(self) -> Any:
        if not self._match(TokenType.TABLE):
            self.raise_error("TABLE expected")
        return nodes.CompactTable(this=self._parse_table_parts(schema=True))

    def _copy(self) -> Any:
        table = self._parse_table_parts(schema=True)
        columns = self._parse_wrapped_csv(self._identifier) if self._match(TokenType.L_PAREN, advance=False) else None
        if self._match_text_seq("TO"):
            self.refuse("COPY ... TO", instead="COPY ... FROM")
        self._expect("FROM")
        path = self._text()
        self._match(TokenType.WITH)
        options = self._parse_wrapped_csv(self._copy_option) if self._match(TokenType.L_PAREN, advance=False) else None
        return nodes.CopyFrom(this=table, expressions=columns, path=path, options=options)

    def _copy_option(self) -> Any:
        name = self._name()
        self._match(TokenType.EQ)
        value = None
        if self._curr and self._curr.token_type not in (TokenType.COMMA, TokenType.R_PAREN):
            value = self._parse_primary() or self._name()
        return nodes.CopyOption(this=name, expression=value)

    def _show(self) -> Any:
        if self._match_text_seq("TABLES"):
            return nodes.ShowTables()
        if self._match_text_seq("CREATE"):
            self._expect_table("SHOW CREATE")
            return nodes.ShowCreateTable(this=self._parse_table_parts(schema=True))
        if self._match_text_seq("PARTITIONS"):
            return nodes.ShowPartitions(this=self._parse_table_parts(schema=True))
        if self._curr:
            known = "SHOW TABLES, SHOW CREATE TABLE and SHOW PARTITIONS"
            return self.refuse(f"SHOW {self._curr.text.upper()}", self._curr, known)
        return self.raise_error("TABLES, CREATE TABLE or PARTITIONS expected")

    def _describe(self) -> Any:
        self._match(TokenType.TABLE)
        return nodes.DescribeTable(this=self._parse_table_parts(schema=True))

    def _explain(self) -> Any:
        words: set[str] = set()
        wrapped = self._curr.token_type == TokenType.L_PAREN and self._next.text.upper() in ("ANALYZE", "VERBOSE")
        if wrapped:
            self._advance()
        while self._word() in ("ANALYZE", "VERBOSE"):
            words.add(self._word())
            self._advance()
            if wrapped:
                self._match(TokenType.COMMA)
        if wrapped:
            self._match_r_paren()
        if not self._curr:
            self.raise_error("a statement to explain expected")
        statement = self._parse_statement()
        return nodes.Explain(this=statement, analyze="ANALYZE" in words, verbose="VERBOSE" in words)


STATEMENTS: dict[str, Callable[[NyalaParser], Any]] = {
    "ALTER": NyalaParser._alter_table,
    "COMPACT": NyalaParser._compact,
    "COPY": NyalaParser._copy,
    "CREATE": NyalaParser._create_table,
    "DELETE": NyalaParser._delete,
    "DESC": NyalaParser._describe,
    "DESCRIBE": NyalaParser._describe,
    "DROP": NyalaParser._drop_table,
    "EXPLAIN": NyalaParser._explain,
    "INSERT": NyalaParser._insert,
    "SHOW": NyalaParser._show,
    "TRUNCATE": NyalaParser._truncate_table,
    "UPDATE": NyalaParser._update,
    "UPSERT": NyalaParser._upsert,
}
"""The statements other than queries, by their first word."""
