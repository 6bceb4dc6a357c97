"""Reads tokens into syntax trees; the grammar is drawn in `dialect.py`.

Each statement has its own method, and every node that an error could point at keeps the place of its first token in
`meta["start"]` and `meta["end"]` (0-based, inclusive); `parser.place` reads them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from sqlglot import exp, parser
from sqlglot.errors import ParseError
from sqlglot.tokens import Token, TokenType

from ..errors import NotSupportedError
from . import nodes

UNSUPPORTED = {
    "ALTER": "ALTER",
    "ANALYZE": "ANALYZE as a statement",
    "BEGIN": "BEGIN",
    "CALL": "CALL",
    "COMMENT": "COMMENT ON",
    "COMMIT": "COMMIT",
    "DELETE": "DELETE",
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
    "TRUNCATE": "TRUNCATE",
    "UPDATE": "UPDATE",
    "UPSERT": "UPSERT",
    "USE": "USE",
    "VACUUM": "VACUUM",
}
"""Statements that other databases have: their first word and what to call them."""


class PlacedParseError(ParseError):
    """A syntax error with the offsets of its token: `start` inclusive, `end` exclusive."""

    def __init__(self, message: str, start: int, end: int) -> None:
        super().__init__(message, errors=[{"description": message}])
        self.message = message
        self.start = start
        self.end = end


def _placed(build: Callable[[], exp.Expression]) -> Callable[[Any, Token], exp.Expression]:
    return lambda self, token: self.expression(build(), token)


class NyalaParser(parser.Parser):
    """sqlglot's parser with nyala's statements, and without what only other dialects know."""

    IS_PREDICATE_PRECEDENCE = parser.IsPredicatePrecedence.LOW
    STRICT_CAST = True
    # No function is known to the grammar, so `f(...)` keeps its name, its arguments and its place.
    FUNCTIONS: ClassVar[dict[str, Any]] = {}
    FUNCTION_PARSERS: ClassVar[dict[str, Any]] = {
        "CAST": lambda self: self._parse_cast_call(safe=False),
        "TRY_CAST": lambda self: self._parse_cast_call(safe=True),
        "EXTRACT": lambda self: self._parse_extract(),
        "POSITION": lambda self: self._parse_position_call(),
        "SUBSTRING": lambda self: self._parse_substring_call(),
        "TRIM": lambda self: self._parse_trim_call(),
    }
    NO_PAREN_FUNCTION_PARSERS: ClassVar[dict[str, Any]] = {"CASE": lambda self: self._parse_case()}
    PROPERTY_PARSERS: ClassVar[dict[str, Any]] = {}
    PRIMARY_PARSERS: ClassVar[dict[Any, Any]] = {
        **parser.Parser.PRIMARY_PARSERS,
        TokenType.NULL: _placed(lambda: exp.Null()),
        TokenType.TRUE: _placed(lambda: exp.Boolean(this=True)),
        TokenType.FALSE: _placed(lambda: exp.Boolean(this=False)),
        TokenType.STAR: _placed(lambda: exp.Star()),
    }
    PLACEHOLDER_PARSERS: ClassVar[dict[Any, Any]] = {
        TokenType.PLACEHOLDER: lambda self: self.expression(exp.Placeholder(), self._prev),
        TokenType.PARAMETER: lambda self: self._parse_numbered_parameter(),
        TokenType.COLON: lambda self: self._parse_named_parameter(),
    }
    UNARY_PARSERS: ClassVar[dict[Any, Any]] = {
        k: v for k, v in parser.Parser.UNARY_PARSERS.items() if k in (TokenType.PLUS, TokenType.DASH, TokenType.NOT)
    }
    CONSTRAINT_PARSERS: ClassVar[dict[str, Any]] = {
        **{
            word: parser.Parser.CONSTRAINT_PARSERS[word]
            for word in (
                "CHECK",
                "COMMENT",
                "DEFAULT",
                "FOREIGN KEY",
                "GENERATED",
                "NOT",
                "NULL",
                "REFERENCES",
                "UNIQUE",
            )
        },
        "PRIMARY KEY": lambda self: self._parse_primary_key(),
        "ENCODING": lambda self: self.expression(nodes.EncodingConstraint(this=self._name())),
        "COMPRESSION": lambda self: self.expression(nodes.CompressionConstraint(this=self._name())),
    }
    SCHEMA_UNNAMED_CONSTRAINTS: ClassVar[set[str]] = {"CHECK", "FOREIGN KEY", "PRIMARY KEY", "UNIQUE"}

    # ---- errors and places -------------------------------------------------------------------------------------------

    def raise_error(self, message: str, token: Any = None) -> None:
        """Raise `PlacedParseError` at a token, by default the one that could not be read."""
        found = token or self._curr
        if found:
            shown = self.sql[found.start : found.end + 1]
            raise PlacedParseError(_sentence(f'unexpected "{shown}"', message), found.start, found.end + 1)
        end = self._prev.end + 1 if self._prev else len(self.sql)
        raise PlacedParseError(_sentence("unexpected end of the statement", message), end, end)

    def _parse_as_command(self, start: Token) -> Any:
        self.raise_error("")

    def _parse_command(self) -> Any:
        self.raise_error("")

    def _parse_types(self, *args: Any, **kwargs: Any) -> Any:
        token = self._curr
        found = super()._parse_types(*args, **kwargs)
        if isinstance(found, exp.DataType) and token:
            found.update_positions(token)
        return found

    def _parse_var(self, *args: Any, **kwargs: Any) -> Any:
        token = self._curr
        found = super()._parse_var(*args, **kwargs)
        return found.update_positions(token) if isinstance(found, exp.Var) and token else found

    def _parse_case(self) -> Any:
        return super()._parse_case().update_positions(self._tokens[self._index - 1])

    # ---- statements --------------------------------------------------------------------------------------------------

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
            raise NotSupportedError(f"{UNSUPPORTED[word]} is not supported")
        known = "SELECT, WITH, VALUES, " + ", ".join(sorted(STATEMENTS))
        return self.raise_error(f"a statement starts with {known}")

    def _query(self) -> Any:
        query = self._parse_select(nested=True, parse_subquery_alias=False)
        query = self._parse_query_modifiers(self._parse_set_operations(query))
        return query if query is not None else self.raise_error("a query expected")

    def _parse_join(self, *args: Any, **kwargs: Any) -> Any:
        """As sqlglot does, but a comma is remembered as one (it binds weaker than JOIN) and must have a table after it."""
        start = self._curr
        if self._match(TokenType.COMMA):
            table = self._parse_table(alias_tokens=kwargs.get("alias_tokens"))
            join = self.expression(exp.Join(this=table)) if table else self.raise_error("a table expected")
            join.meta["comma"] = True
            return join
        join = super()._parse_join(*args, **kwargs)
        return join.update_positions(start) if isinstance(join, exp.Join) else join

    def _create_table(self) -> Any:
        self._expect_table("CREATE")
        exists = self._parse_exists(not_=True)
        name = self._parse_table_parts(schema=True)
        columns: list[Any] = []
        if self._match(TokenType.L_PAREN):
            columns = self._parse_csv(lambda: self._parse_constraint() or self._column_definition())
            self._match_r_paren()
        clauses = []
        while (clause := self._table_clause()) is not None:
            clauses.append(clause)
        query = self._query() if self._match(TokenType.ALIAS) else None
        if not columns and query is None:
            self.raise_error("the table's columns in parentheses expected")
        return nodes.CreateTable(this=name, expressions=columns, exists=exists, clauses=clauses, query=query)

    def _column_definition(self) -> Any:
        name = self._identifier("a column name expected")
        kind = self._parse_types(schema=True)
        if kind is None:
            self.raise_error("a column type expected")
        constraints = []
        while (constraint := self._parse_column_constraint()) is not None:
            constraints.append(constraint)
        return self.expression(exp.ColumnDef(this=name, kind=kind, constraints=constraints))

    def _table_clause(self) -> Any:
        if self._match(TokenType.DISTRIBUTE_BY) or self._match_text_seq("DISTRIBUTE", "BY"):
            return nodes.DistributeBy(expressions=self._parse_csv(self._partition_rule))
        if self._match(TokenType.PARTITION_BY):
            return nodes.DistributeBy(expressions=self._parse_csv(self._partition_rule))
        if self._match_text_seq("REPLICAS"):
            return nodes.Replicas(this=self._number())
        if self._match_text_seq("COMMENT"):
            return nodes.TableComment(this=self._text())
        return None

    def _partition_rule(self) -> Any:
        if self._match_text_seq("HASH"):
            return self._hash_partition()
        if self._match_text_seq("RANGE"):
            return self._range_partition()
        return self.raise_error("HASH or RANGE expected")

    def _hash_partition(self) -> Any:
        columns = self._parse_wrapped_csv(self._identifier) if self._match(TokenType.L_PAREN, advance=False) else None
        if self._match_text_seq("PARTITIONS"):
            return nodes.HashPartition(expressions=columns, buckets=self._number())
        self._expect("INTO")
        buckets = self._number()
        self._expect("BUCKETS")
        return nodes.HashPartition(expressions=columns, buckets=buckets)

    def _range_partition(self) -> Any:
        columns = self._parse_wrapped_csv(self._identifier)
        if self._match_text_seq("SPLIT", "ROWS"):
            return nodes.RangePartition(expressions=columns, splits=self._parse_wrapped_csv(self._bound))
        if not self._match(TokenType.L_PAREN):
            self.raise_error("the partitions in parentheses expected")
        if self._match_text_seq("SPLIT", "ROWS"):
            rule = nodes.RangePartition(expressions=columns, splits=self._parse_wrapped_csv(self._bound))
        else:
            rule = nodes.RangePartition(expressions=columns, partitions=self._parse_csv(self._range_bounds))
        self._match_r_paren()
        return rule

    def _range_bounds(self) -> Any:
        self._expect("PARTITION")
        lower = upper = None
        if not self._match(TokenType.VALUES):
            lower = self._bound()
            if not self._match(TokenType.LTE):
                self.raise_error("a range partition is written lower <= VALUES < upper")
            self._expect("VALUES")
        if self._match(TokenType.LT):
            upper = self._bound()
        elif lower is None:
            self.raise_error("a range partition is written lower <= VALUES < upper")
        return nodes.RangeBounds(lower=lower, upper=upper)

    def _bound(self) -> Any:
        return self._parse_bitwise() or self.raise_error("a value expected")

    def _drop_table(self) -> Any:
        self._expect_table("DROP")
        exists = self._parse_exists()
        return nodes.DropTable(this=self._parse_table_parts(schema=True), exists=exists)

    def _insert(self) -> Any:
        if self._match_set((TokenType.IGNORE, TokenType.OVERWRITE)):
            raise NotSupportedError(f"INSERT {self._prev.text.upper()} is not supported")
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
            raise NotSupportedError("INSERT ... DEFAULT VALUES is not supported: the primary key needs values")
        source = self._query()
        for word in ("RETURNING", "ON"):
            if self._match_text_seq(word):
                raise NotSupportedError(f"INSERT ... {'ON CONFLICT' if word == 'ON' else word} is not supported")
        return exp.Insert(this=target, expression=source)

    def _copy(self) -> Any:
        table = self._parse_table_parts(schema=True)
        columns = self._parse_wrapped_csv(self._identifier) if self._match(TokenType.L_PAREN, advance=False) else None
        if self._match_text_seq("TO"):
            raise NotSupportedError("COPY ... TO is not supported, only COPY ... FROM")
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
        if self._curr:
            raise NotSupportedError(f"SHOW {self._curr.text.upper()} is not supported, only SHOW TABLES")
        return self.raise_error("SHOW TABLES expected")

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

    # ---- function calls of their own syntax --------------------------------------------------------------------------

    def _parse_cast_call(self, safe: bool) -> Any:
        value = self._parse_disjunction()
        if value is None or not self._match(TokenType.ALIAS):
            self.raise_error("CAST is written CAST(value AS type)")
        type_ = self._parse_types()
        if type_ is None:
            self.raise_error("a type expected")
        return self.expression((exp.TryCast if safe else exp.Cast)(this=value, to=type_))

    def _parse_extract(self) -> Any:
        field = self._parse_string() or self._name()
        if not self._match(TokenType.FROM):
            self.raise_error("EXTRACT is written EXTRACT(field FROM value)")
        value = self._parse_bitwise()
        if isinstance(field, exp.Literal):
            field = exp.Var(this=field.name).update_positions(field)
        return self.expression(exp.Extract(this=field, expression=value))

    def _parse_position_call(self) -> Any:
        # The needle is read as an operand above IN, or `'a' IN (...)` would be taken for a predicate.
        needle = self._parse_bitwise()
        if not self._match(TokenType.IN):
            self.raise_error("POSITION is written POSITION(text IN text)")
        return self.expression(exp.Anonymous(this="strpos", expressions=[self._parse_bitwise(), needle]))

    def _parse_substring_call(self) -> Any:
        args = self._parse_csv(self._parse_bitwise)
        if self._match(TokenType.FROM):
            args.append(self._parse_bitwise())
        if self._match(TokenType.FOR):
            if len(args) == 1:
                args.append(exp.Literal.number(1))
            args.append(self._parse_bitwise())
        return self.expression(exp.Anonymous(this="substring", expressions=[a for a in args if a is not None]))

    def _parse_trim_call(self) -> Any:
        side = self._word() if self._word() in ("BOTH", "LEADING", "TRAILING") else None
        if side:
            self._advance()
        args = self._parse_csv(self._parse_bitwise)
        if self._match(TokenType.FROM):
            args = [self._parse_bitwise(), *args]
        name = {"LEADING": "ltrim", "TRAILING": "rtrim"}.get(side or "", "trim")
        return self.expression(exp.Anonymous(this=name, expressions=[a for a in args if a is not None]))

    # ---- small parts -------------------------------------------------------------------------------------------------

    def _word(self) -> str:
        """The current word in upper case; empty where a string, a quoted name or nothing stands there."""
        if not self._curr or self._curr.token_type in (TokenType.STRING, TokenType.IDENTIFIER):
            return ""
        return str(self._curr.text).upper()

    def _expect(self, word: str) -> None:
        if not self._match_text_seq(word):
            self.raise_error(f"{word} expected")

    def _expect_table(self, verb: str) -> None:
        if not self._match(TokenType.TABLE):
            if self._curr and self._word():
                raise NotSupportedError(f"{verb} {self._word()} is not supported, only {verb} TABLE")
            self.raise_error(f"{verb} TABLE expected")

    def _identifier(self, message: str = "a name expected") -> Any:
        found = self._parse_id_var(any_token=False)
        return found if isinstance(found, exp.Identifier) else self.raise_error(message)

    def _name(self) -> Any:
        found = self._parse_var(any_token=True)
        return found if isinstance(found, exp.Var) else self.raise_error("a name expected")

    def _number(self) -> Any:
        if not self._match(TokenType.NUMBER):
            self.raise_error("a number expected")
        return self.expression(exp.Literal.number(self._prev.text), self._prev)

    def _text(self) -> Any:
        if not self._match(TokenType.STRING):
            self.raise_error("a quoted text expected")
        return self.expression(exp.Literal.string(self._prev.text), self._prev)

    def _parse_numbered_parameter(self) -> Any:
        start = self._prev
        if not self._match(TokenType.NUMBER):
            self.raise_error("a parameter is written ?, $1 or :name")
        number = self.expression(exp.Literal.number(self._prev.text), start)
        return self.expression(exp.Parameter(this=number), start)

    def _parse_named_parameter(self) -> Any:
        start = self._prev
        if not self._curr or not self._is_connected() or not self._advance_any():
            return None
        return self.expression(exp.Placeholder(this=self._prev.text), start)


def _sentence(what: str, message: str) -> str:
    if message.startswith("Expecting "):
        return f"{what}; {message.removeprefix('Expecting ')} expected"
    # What sqlglot says in its own words describes its parser; all that is ours says "expected", "is written" or
    # "starts with".
    ours = message.endswith(" expected") or " is written " in message or " starts with " in message
    return f"{what}; {message}" if ours else what


STATEMENTS: dict[str, Callable[[NyalaParser], Any]] = {
    "COPY": NyalaParser._copy,
    "CREATE": NyalaParser._create_table,
    "DESC": NyalaParser._describe,
    "DESCRIBE": NyalaParser._describe,
    "DROP": NyalaParser._drop_table,
    "EXPLAIN": NyalaParser._explain,
    "INSERT": NyalaParser._insert,
    "SHOW": NyalaParser._show,
}
"""The statements other than queries, by their first word."""
