"""Parses statements: tokens into syntax trees; the grammar is described in `dialect.py`.

Each statement has its own method; those about tables are in `grammar.tables`, expressions in `grammar.expressions`.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable
from typing import Any

from sqlglot import exp
from sqlglot.tokens import TokenType

from .. import nodes, not_supported
from .grouping import GroupingParser
from .session import SessionParser
from .transactions import TransactionParser
from .windows import WindowParser
from .writes import WriteParser

UNSUPPORTED = {
    "CALL": "CALL",
    "COMMENT": "COMMENT ON",
    "COMPUTE": "COMPUTE STATS",
    "INVALIDATE": "INVALIDATE METADATA",
    "LISTEN": "LISTEN",
    "LOAD": "LOAD DATA",
    "LOCK": "LOCK",
    "MERGE": "MERGE",
    "PRAGMA": "PRAGMA",
    "PIVOT": "PIVOT",
    "REFRESH": "REFRESH",
    "RENAME": "RENAME",
    "REPLACE": "REPLACE",
    "UNPIVOT": "UNPIVOT",
    "USE": "USE",
    "VACUUM": "VACUUM",
}
"""Statements of other databases: their first word and their name."""
HINTS = {
    "LOCK": not_supported.LOCKS,
    "PIVOT": not_supported.PIVOTS,
    "UNPIVOT": "UNION ALL of a SELECT for each column makes rows of columns",
    "USE": "SET search_path = schema chooses a schema; connect to another directory for another store",
    "COMMENT": "ALTER TABLE has COMMENT",
    "LISTEN": "Connection.table(name).changes() returns the changes of a table to a program",
    "COMPUTE": "ANALYZE does that here",
    "LOAD": "COPY ... FROM does that here",
    "MERGE": "INSERT ... ON CONFLICT, UPDATE ... FROM and DELETE ... USING do most of it",
    "REPLACE": "UPSERT does that here",
    "VACUUM": "COMPACT TABLE does that here",
}
"""Alternatives to these statements."""
QUERY_WORDS = ("SELECT", "WITH", "VALUES", "TABLE")

EXPLAIN_OPTIONS = ("ANALYZE", "VERBOSE", "FORMAT")
QUERY_STARTS = (TokenType.SELECT, TokenType.VALUES, TokenType.TABLE, TokenType.WITH, TokenType.L_PAREN)


class NyalaParser(GroupingParser, WindowParser, WriteParser, TransactionParser, SessionParser):
    """sqlglot's parser with nyala's statements."""

    SUPPORTS_TABLE_QUERY = True

    # ---- queries: what sqlglot reads too freely ----------------------------------------------------------------------

    def _parse_limit(self, this: Any = None, top: bool = False, skip_limit_token: bool = False) -> Any:
        """Parses `LIMIT n`, `LIMIT ALL`, or `FETCH FIRST n ROWS ONLY`, which is represented as LIMIT."""
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
            self._expect("TIES")
            options = exp.LimitOptions(rows=True, with_ties=True)
            return self.expression(exp.Fetch(direction="FIRST", count=count, limit_options=options))
        self._expect("ONLY")
        return self.expression(exp.Limit(expression=count))

    def _parse_version(self) -> Any:
        """Parses `FOR SYSTEM_TIME` after a table's name."""
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

    def _parse_table_hints(self) -> Any:
        """Parses the clauses after a table's alias: `FOR SYSTEM_TIME`, which SQL:2011 has before it."""
        return self._parse_version()

    def _parse_table(self, *args: Any, **kwargs: Any) -> Any:
        table = super()._parse_table(*args, **kwargs)
        name = getattr(table, "alias", "") or getattr(table, "name", "")
        if name.upper() == "MATCH_RECOGNIZE" and self._match(TokenType.L_PAREN, advance=False):
            self.refuse("MATCH_RECOGNIZE", self._prev, hint=not_supported.PATTERNS)
        time = table.args.get("hints") if isinstance(table, exp.Table) else None
        if time is not None:
            if table.args.get("version") is not None:
                self.raise_error("FOR SYSTEM_TIME is written once", self._prev)
            table.set("hints", None)
            table.set("version", time)
        return table

    def _moment(self) -> Any:
        return self._parse_bitwise() or self.raise_error("a point in time expected")

    def _parse_table_alias(self, *args: Any, **kwargs: Any) -> Any:
        alias = super()._parse_table_alias(*args, **kwargs)
        if alias is not None and alias.this is None:
            self.raise_error("a name after AS expected")
        return alias

    def _parse_function_parameter(self) -> Any:
        # sqlglot parses the names in `AS alias (names)` as if they were parameters with types.
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
        if self._curr.token_type == TokenType.WITH:
            return self._with_statement()
        if self._curr.token_type in (TokenType.SELECT, TokenType.VALUES, TokenType.TABLE, TokenType.L_PAREN):
            return self._query()
        if word in UNSUPPORTED:
            return self.refuse(UNSUPPORTED[word], self._curr, hint=HINTS.get(word, ""))
        known = [*QUERY_WORDS, *sorted(STATEMENTS)]
        near = difflib.get_close_matches(word, known, 1, 0.75)
        hint = f"did you mean {near[0]}?" if near else f"a statement starts with {', '.join(known)}"
        return self.raise_error(hint)

    def _set_statement(self) -> Any:
        return self._set_transaction() or self._set_role() or self._set()

    def _compact(self) -> Any:
        if not self._match(TokenType.TABLE):
            self.raise_error("TABLE expected")
        return nodes.CompactTable(this=self._parse_table_parts(schema=True))

    def _explain(self) -> Any:
        options: dict[str, Any] = {}
        if self._match(TokenType.L_PAREN, advance=False) and self._next and self._next.token_type not in QUERY_STARTS:
            self._advance()
            options.update([self._explain_option()])
            while self._match(TokenType.COMMA):
                options.update([self._explain_option()])
            self._match_r_paren()
        while self._word() in ("ANALYZE", "VERBOSE"):
            options[self._word().lower()] = True
            self._advance()
        if not self._curr:
            self.raise_error("a statement to explain expected")
        return nodes.Explain(this=self._parse_statement(), **options)

    def _explain_option(self) -> tuple[str, Any]:
        """`ANALYZE [TRUE | FALSE]`, `VERBOSE [TRUE | FALSE]`, `FORMAT TEXT | JSON`."""
        name = self._word()
        if name not in EXPLAIN_OPTIONS:
            self.raise_error("ANALYZE, VERBOSE or FORMAT expected")
        self._advance()
        known = ("TEXT", "JSON") if name == "FORMAT" else ("TRUE", "FALSE", "ON", "OFF")
        value = self._word()
        if value in known:
            self._advance()
        elif name == "FORMAT":
            self.raise_error("TEXT or JSON expected")
        return name.lower(), (value == "JSON" and "json") if name == "FORMAT" else value not in ("FALSE", "OFF")


STATEMENTS: dict[str, Callable[[NyalaParser], Any]] = {
    "ABORT": NyalaParser._rollback_transaction,
    "ALTER": NyalaParser._alter_table,
    "ANALYZE": NyalaParser._analyze,
    "BEGIN": NyalaParser._begin_transaction,
    "CLOSE": NyalaParser._close,
    "COMMIT": NyalaParser._commit_transaction,
    "COMPACT": NyalaParser._compact,
    "COPY": NyalaParser._copy,
    "CREATE": NyalaParser._create,
    "DEALLOCATE": NyalaParser._deallocate,
    "DECLARE": NyalaParser._declare,
    "DELETE": NyalaParser._delete,
    "DESC": NyalaParser._describe,
    "DESCRIBE": NyalaParser._describe,
    "DISCARD": NyalaParser._discard,
    "DROP": NyalaParser._drop_object,
    "END": NyalaParser._commit_transaction,
    "EXECUTE": NyalaParser._execute_statement,
    "EXPLAIN": NyalaParser._explain,
    "FETCH": NyalaParser._fetch_rows,
    "GRANT": NyalaParser._grant,
    "INSERT": NyalaParser._insert,
    "MOVE": NyalaParser._move,
    "PREPARE": NyalaParser._prepare_statement,
    "RELEASE": NyalaParser._release_savepoint,
    "RESET": NyalaParser._reset,
    "REVOKE": NyalaParser._revoke,
    "ROLLBACK": NyalaParser._rollback_transaction,
    "SAVEPOINT": NyalaParser._savepoint,
    "SET": NyalaParser._set_statement,
    "SHOW": NyalaParser._show,
    "START": NyalaParser._start_transaction,
    "TRUNCATE": NyalaParser._truncate_table,
    "UNLISTEN": NyalaParser._unlisten,
    "UPDATE": NyalaParser._update,
    "UPSERT": NyalaParser._upsert,
}
"""The statements other than queries, by their first word."""
