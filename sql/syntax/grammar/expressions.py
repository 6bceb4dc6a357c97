"""Parses expressions: sqlglot's parser, configured to keep the position of every token and to know no function by
itself.

Every node that an error could point at keeps the position of its token in `meta["start"]` and `meta["end"]` (0-based,
inclusive); `parser.place` reads them.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, ClassVar

from sqlglot import exp, parser
from sqlglot.errors import ParseError
from sqlglot.tokens import Token, TokenType

from ....errors import NotSupportedError, StatementError
from ...literals import unit_name
from .. import nodes
from . import operators as grammar_operators


class PlacedParseError(ParseError):
    """A syntax error with the offsets of its token: `start` inclusive, `end` exclusive."""

    def __init__(self, message: str, start: int, end: int) -> None:
        super().__init__(message, errors=[{"description": message}])
        self.message = message
        self.start = start
        self.end = end


def _placed(build: Callable[[], exp.Expression]) -> Callable[[Any, Token], exp.Expression]:
    return lambda self, token: self.expression(build(), token)


_SCHEMAS = ("pg_catalog", "information_schema")


def _in_schema(node: exp.Dot) -> Any:
    """The call of `pg_catalog.f(...)`, whose schema says nothing; None for any other node."""
    schema, called = node.this, node.expression
    if isinstance(schema, exp.Identifier | exp.Column) and schema.name.lower() in _SCHEMAS:
        return called if isinstance(called, exp.Func | exp.Cast | exp.Filter | exp.Window) else None
    return None


class PlacedParser(parser.Parser):
    """sqlglot's parser without the syntax of other dialects, and with a position for every node."""

    hides_texts = False
    """True in a statement that may have a password, which errors must not show."""
    IS_PREDICATE_PRECEDENCE = parser.IsPredicatePrecedence.LOW
    STRICT_CAST = True
    # The grammar knows no function, so `f(...)` keeps its name, its arguments and its position.
    FUNCTIONS: ClassVar[dict[str, Any]] = {}
    FUNCTION_PARSERS: ClassVar[dict[str, Any]] = {
        "CAST": lambda self: self._parse_cast_call(safe=False),
        "TRY_CAST": lambda self: self._parse_cast_call(safe=True),
        "EXTRACT": lambda self: self._parse_extract(),
        "OVERLAY": lambda self: self._parse_overlay_call(),
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
        TokenType.HEX_STRING: lambda self, token: self._hex_string(token),
        TokenType.BYTE_STRING: lambda self, token: self._escape_string(token),
        TokenType.HEREDOC_STRING: lambda self, token: self.expression(exp.Literal.string(token.text), token),
    }
    PLACEHOLDER_PARSERS: ClassVar[dict[Any, Any]] = {
        TokenType.PLACEHOLDER: lambda self: self.expression(exp.Placeholder(), self._prev),
        TokenType.PARAMETER: lambda self: self._parse_numbered_parameter(),
        TokenType.COLON: lambda self: self._parse_named_parameter(),
    }
    UNARY_PARSERS: ClassVar[dict[Any, Any]] = {
        k: v for k, v in parser.Parser.UNARY_PARSERS.items() if k in (TokenType.PLUS, TokenType.DASH, TokenType.NOT)
    } | grammar_operators.UNARY
    BITWISE: ClassVar[dict[Any, Any]] = grammar_operators.BITWISE
    EXPONENT: ClassVar[dict[Any, Any]] = grammar_operators.EXPONENT
    RANGE_PARSERS: ClassVar[dict[Any, Any]] = {**parser.Parser.RANGE_PARSERS, **grammar_operators.RANGE}
    NO_PAREN_FUNCTIONS: ClassVar[dict[Any, Any]] = grammar_operators.NO_PAREN_FUNCTIONS
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

    def raise_error(self, message: str, token: Any = None) -> Any:
        """Raises `PlacedParseError` at a token, by default the one that could not be parsed."""
        if message.startswith("Expected END"):
            message, token = "END expected", None  # sqlglot points at the token before
        found = token or self._curr
        if found:
            shown = "..." if self.hides_texts else self.sql[found.start : found.end + 1]
            raise PlacedParseError(_sentence(f'unexpected "{shown}"', message), found.start, found.end + 1)
        end = self._prev.end + 1 if self._prev else len(self.sql)
        raise PlacedParseError(_sentence("unexpected end of the statement", message), end, end)

    def refuse(self, what: str, token: Any = None, instead: str = "", hint: str = "") -> Any:
        """Raises `NotSupportedError` for known but unsupported syntax, at a token (by default the last one read)."""
        found = token or self._prev
        message = f"{what} is not supported" + (f", only {instead}" if instead else "") + (f"; {hint}" if hint else "")
        raise NotSupportedError(str(StatementError(message, self.sql, found.start, found.end + 1 - found.start)))

    def expression(self, instance: Any, token: Any = None, comments: Any = None) -> Any:
        """Validates a new node and sets its position; a leaf has the position of the last token read."""
        if isinstance(instance, exp.Dot) and (called := _in_schema(instance)) is not None:
            return called
        if token is None and self._prev and "start" not in instance.meta and not any(instance.iter_expressions()):
            token = self._prev
        return super().expression(instance, token, comments)

    def _parse_csv(self, parse_method: Callable[[], Any], sep: Any = TokenType.COMMA) -> list[Any]:
        """As in sqlglot, but a comma requires an element before and after it."""
        first = parse_method()
        if first is None and self._match(sep, advance=False):
            self.raise_error("")
        found = [first] if first is not None else []
        while self._match(sep):
            following = parse_method()
            found.append(following if following is not None else self.raise_error(""))
        return found

    def _parse_select_or_expression(self, alias: bool = False) -> Any:
        constant = self._list_constant()
        return constant if constant is not None else super()._parse_select_or_expression(alias)

    def _parse_expression(self) -> Any:
        constant = self._list_constant()
        return constant if constant is not None else super()._parse_expression()

    def _list_constant(self) -> Any:
        """A constant or parameter that a comma or a parenthesis follows; None for anything else, nothing consumed.

        Such tokens are unambiguous, so the 12 levels of operators need not be tried. Lists of 10,000 values are parsed
        in a third of the time.
        """
        first, second = self._curr.token_type, self._next.token_type
        if second in _LIST_SEPARATORS:
            build = _LIST_CONSTANTS.get(first)
            if build is None:
                return None
            self._advance()
            return self.expression(build(self._prev), self._prev)
        if (first, second) not in _TWO_TOKENS or not self._is_list_end(self._index + 2):
            return None
        self._advance()
        if first == TokenType.DASH:
            self._advance()
            number = self.expression(exp.Literal(this=self._prev.text, is_string=False), self._prev)
            return self.expression(exp.Neg(this=number))
        found = self.PLACEHOLDER_PARSERS[first](self)
        if found is None:
            self._advance(-1)
        return found

    def _is_list_end(self, index: int) -> bool:
        return index < self._tokens_size and self._tokens[index].token_type in _LIST_SEPARATORS

    def _parse_alias(self, *args: Any, **kwargs: Any) -> Any:
        # sqlglot would read `1_000` as the number 1 with an alias.
        if (
            self._prev
            and self._prev.token_type == TokenType.NUMBER
            and self._curr.token_type == TokenType.VAR
            and self._is_connected()
        ):
            self.raise_error("a space after a number expected")
        return super()._parse_alias(*args, **kwargs)

    def _parse_id_var(self, any_token: bool = True, tokens: Any = None) -> Any:
        # `AS` allows any word as a name, but not a number.
        return None if self._curr.token_type == TokenType.NUMBER else super()._parse_id_var(any_token, tokens)

    def _parse_function_call(self, *args: Any, **kwargs: Any) -> Any:
        token = self._curr
        found = super()._parse_function_call(*args, **kwargs)
        if isinstance(found, exp.Anonymous | exp.Extract | exp.Cast | exp.TryCast) and token:
            found.update_positions(token)
        return found

    def _parse_interval(self, *args: Any, **kwargs: Any) -> Any:
        """Parses INTERVAL with its text or parameter, and an optional unit.

        Examples are `INTERVAL '90' DAY`, `INTERVAL '1 year 2 months'` and `INTERVAL ? DAY`. A following word that is
        not a unit is an alias.
        """
        start, index = self._curr, self._index
        if not self._match(TokenType.INTERVAL):
            return None
        text = self._parse_placeholder()
        if text is None and self._match_set((TokenType.STRING, TokenType.NUMBER)):
            text = self.expression(exp.Literal.string(self._prev.text), self._prev)
        if text is None:
            self._retreat(index)  # a column of that name
            return None
        unit = None
        if unit_name(self._word()) is not None:
            self._advance()
            unit = self.expression(exp.Var(this=self._prev.text.upper()), self._prev)
            # In `FOR SYSTEM_TIME FROM now() - INTERVAL '1' DAY TO now()`, TO does not belong to the interval.
            if self._word() == "TO" and self._next and unit_name(self._next.text.upper()) is not None:
                self._advance()
                unit = self._interval_span(unit)
        return self.expression(exp.Interval(this=text, unit=unit), start)

    def _interval_span(self, first: Any) -> Any:
        """Parses the unit after `first TO`: the last unit of a qualifier such as YEAR TO MONTH."""
        known = {"YEAR": ("MONTH",), "DAY": ("HOUR", "MINUTE", "SECOND"), "HOUR": ("MINUTE", "SECOND")}
        known["MINUTE"] = ("SECOND",)
        last = self._word()
        if last not in known.get(first.name, ()):
            self.raise_error("YEAR TO MONTH, DAY TO HOUR, DAY TO SECOND or the like expected")
        self._advance()
        unit = exp.Var(this=last).update_positions(self._prev)
        return self.expression(exp.IntervalSpan(this=first, expression=unit))

    def _query(self) -> Any:
        query = self._parse_select(nested=True, parse_subquery_alias=False)
        query = self._parse_query_modifiers(self._parse_set_operations(query))
        return query if query is not None else self.raise_error("a query expected")

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

    def _parse_join(self, *args: Any, **kwargs: Any) -> Any:
        """As in sqlglot, but a comma is recorded as one (it binds weaker than JOIN) and requires a table after it."""
        start = self._curr
        if self._match(TokenType.COMMA):
            table = self._parse_table(alias_tokens=kwargs.get("alias_tokens"))
            join = self.expression(exp.Join(this=table)) if table else self.raise_error("a table expected")
            join.meta["comma"] = True
            return join
        join = super()._parse_join(*args, **kwargs)
        return join.update_positions(start) if isinstance(join, exp.Join) else join

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
        # The needle is parsed as an operand above IN; otherwise `'a' IN (...)` would be parsed as a predicate.
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

    def _parse_overlay_call(self) -> Any:
        args = self._parse_csv(self._parse_bitwise)
        if len(args) == 1:
            for word in ("PLACING", "FROM"):
                self._expect(word)
                args.append(self._parse_bitwise())
            if self._match_text_seq("FOR"):
                args.append(self._parse_bitwise())
        return self.expression(exp.Anonymous(this="overlay", expressions=args))

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
        """The current word in upper case; empty for a string, a quoted name or the end."""
        if not self._curr or self._curr.token_type in (TokenType.STRING, TokenType.IDENTIFIER):
            return ""
        return str(self._curr.text).upper()

    def _expect(self, word: str) -> None:
        if not self._match_text_seq(word):
            self.raise_error(f"{word} expected")

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

    def _hex_string(self, token: Token) -> Any:
        if self.sql[token.start] == "0":
            self.refuse("a hexadecimal number", token)  # `0x1F`, which is not a BINARY
        return self.expression(exp.HexString(this=token.text), token)

    def _escape_string(self, token: Token) -> Any:
        """`E'a\\n'`: its escapes are read from the statement, as the tokenizer drops some of them."""
        written = self.sql[token.start + 2 : token.end]
        text = _ESCAPE.sub(lambda match: _unescaped(match[0]), written.replace("''", "'"))
        return self.expression(exp.Literal.string(text), token)

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


_ESCAPE = re.compile(r"\\(?:[0-7]{1,3}|x[0-9a-fA-F]{1,2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|.)", re.DOTALL)
_ESCAPED = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}


def _unescaped(escape: str) -> str:
    """The character of an escape such as `\\n` or `\\x41`; any other character stands for itself."""
    kind = escape[1]
    if kind in "01234567":
        return chr(int(escape[1:], 8))
    if kind in "xuU" and len(escape) > 2:
        return chr(int(escape[2:], 16))
    return _ESCAPED.get(kind, kind)


_LIST_SEPARATORS = frozenset((TokenType.COMMA, TokenType.R_PAREN))
_LIST_CONSTANTS: dict[Any, Callable[[Token], exp.Expression]] = {
    TokenType.NUMBER: lambda token: exp.Literal(this=token.text, is_string=False),
    TokenType.STRING: lambda token: exp.Literal(this=token.text, is_string=True),
    TokenType.PLACEHOLDER: lambda token: exp.Placeholder(),
    TokenType.NULL: lambda token: exp.Null(),
    TokenType.TRUE: lambda token: exp.Boolean(this=True),
    TokenType.FALSE: lambda token: exp.Boolean(this=False),
}
_TWO_TOKENS = frozenset(
    (
        (TokenType.COLON, TokenType.VAR),
        (TokenType.PARAMETER, TokenType.NUMBER),
        (TokenType.DASH, TokenType.NUMBER),
    )
)
OUR_WORDS = (" is written ", " starts with ", "did you mean ")


def _sentence(what: str, message: str) -> str:
    if message.startswith("Expecting "):
        return f"{what}; {message.removeprefix('Expecting ')} expected"
    # sqlglot's own messages describe its parser and are replaced; all of nyala's contain one of these phrases.
    ours = message.endswith(" expected") or any(words in message for words in OUR_WORDS)
    return f"{what}; {message}" if ours else what
