"""The syntax of COPY with STDIN or STDOUT, as PostgreSQL has had it in all of its versions.

    COPY name [(column, ...)] FROM STDIN [[WITH] (FORMAT csv, HEADER, DELIMITER ';', NULL '', QUOTE '"', ESCAPE '"')]
    COPY name [(column, ...)] | (query) TO STDOUT [...]
    ... [WITH] [BINARY] [CSV [HEADER] [QUOTE [AS] '"']] [DELIMITER [AS] ','] [NULL [AS] '']       the older form

COPY with a file's name is a statement of nyala (`sql.bound.CopyFrom`), which a client of a server may not run.
"""

from __future__ import annotations

from typing import Any, Final

from sqlglot.tokens import Token, TokenType

from ....errors import NotSupportedError, SqlSyntaxError
from ....model.lazy_dataclass import dataclass
from ....sql.syntax.tokenizing import tokenize
from .reports import Refused

_FORMATS: Final = ("text", "csv", "binary")
_SERVER_FILE: Final = (
    "a client cannot read or write files of the server: COPY ... FROM STDIN and COPY ... TO STDOUT take the client's "
    "data; in psql, \\copy does"
)
_WITHOUT_EFFECT: Final = ("FREEZE", "ENCODING")


@dataclass(frozen=True, slots=True)
class CopyStatement:
    """A COPY of client data.

    Attributes
    ----------
    is_from : bool
        True: FROM STDIN.
    table : str
        As it is written; "" for a query.
    columns : tuple of str
        As they are written; empty for all of them.
    query : str
        "" for a table.
    format : {"text", "csv", "binary"}
    delimiter, null, quote, escape : str
    header : bool
    """

    is_from: bool
    table: str
    columns: tuple[str, ...]
    query: str
    format: str
    delimiter: str
    null: str
    quote: str
    escape: str
    header: bool

    @property
    def is_binary(self) -> bool:
        """True for the binary format."""
        return self.format == "binary"

    def source(self) -> str:
        """The query whose rows COPY TO writes."""
        return self.query or f"SELECT {', '.join(self.columns) or '*'} FROM {self.table}"


def parse_copy(text: str) -> CopyStatement:
    """Reads a COPY statement. Raises `SqlSyntaxError`, or `Refused` if it names a file of the server."""
    return _Parser(text).copy()


def folded(name: str) -> str:
    """The name that an identifier stands for, without a schema before it.

    >>> folded('public."My Table"'), folded("Hosts")
    ('My Table', 'hosts')
    """
    last = [token for token in tokenize(name) if token.token_type is not TokenType.DOT][-1]
    return str(last.text) if last.token_type is TokenType.IDENTIFIER else str(last.text).lower()


class _Parser:
    def __init__(self, text: str):
        self._text = text
        self._tokens: list[Token] = tokenize(text)
        self._place = 1  # behind COPY
        self._options: dict[str, Any] = {}

    # ---- tokens ----------------------------------------------------------------------------------------------------

    @property
    def _token(self) -> Token | None:
        return self._tokens[self._place] if self._place < len(self._tokens) else None

    def _word(self) -> str:
        """The present token in upper case; "" for a text, a quoted name or the end."""
        token = self._token
        if token is None or token.token_type in (TokenType.STRING, TokenType.IDENTIFIER):
            return ""
        return str(token.text).upper()

    def _skip(self, *words: str) -> bool:
        if self._word() not in words:
            return False
        self._place += 1
        return True

    def _expect(self, *words: str) -> str:
        word = self._word()
        if word not in words:
            raise self._error(f"{' or '.join(words)} expected")
        self._place += 1
        return word

    def _error(self, message: str) -> SqlSyntaxError:
        token = self._token
        start = len(self._text) if token is None else token.start
        return SqlSyntaxError(message, self._text, start)

    def _next(self) -> Token:
        token = self._token
        if token is None:
            raise self._error("the statement ends too early")
        self._place += 1
        return token

    def _string(self) -> str:
        token = self._next()
        if token.token_type is not TokenType.STRING:
            self._place -= 1
            raise self._error("a quoted text expected")
        return str(token.text)

    def _written(self, first: int) -> str:
        """The text from a token up to the one before the present."""
        return self._text[self._tokens[first].start : self._tokens[self._place - 1].end + 1]

    # ---- the statement ---------------------------------------------------------------------------------------------

    def copy(self) -> CopyStatement:
        table, query = "", ""
        columns: tuple[str, ...] = ()
        if self._word() == "(":
            query = self._parenthesized()
        else:
            if self._skip("BINARY"):
                self._options["FORMAT"] = "binary"
            first = self._place
            self._next()
            while self._skip("."):
                self._next()
            table = self._written(first)
            columns = self._columns() if self._word() == "(" else ()
        is_from = self._expect("FROM", "TO") == "FROM"
        if is_from and query:
            raise self._error("COPY FROM takes a table, not a query")
        stream = "STDIN" if is_from else "STDOUT"
        if self._token is not None and (self._token.token_type is TokenType.STRING or self._word() == "PROGRAM"):
            raise Refused(_SERVER_FILE, "42501")
        self._expect(stream)
        self._read_options()
        return self._made(is_from, table, columns, query)

    def _parenthesized(self) -> str:
        self._place += 1
        first, depth = self._place, 1
        while depth:
            word = self._word()
            depth += (word == "(") - (word == ")")
            self._next()
        return self._text[self._tokens[first].start : self._tokens[self._place - 1].start].rstrip()

    def _columns(self) -> tuple[str, ...]:
        found = []
        self._expect("(")
        while True:
            first = self._place
            self._next()
            found.append(self._written(first))
            if self._expect(",", ")") == ")":
                return tuple(found)

    def _read_options(self) -> None:
        self._skip("WITH")
        if self._skip("("):
            while True:
                name = self._word()
                self._next()
                self._options[name] = self._option_value()
                if self._expect(",", ")") == ")":
                    break
        while self._token is not None:
            self._older_option()

    def _option_value(self) -> Any:
        token = self._token
        if token is None or self._word() in (",", ")"):
            return True
        if self._word() in ("(", "*"):
            raise NotSupportedError("options of COPY for single columns are not supported")
        self._place += 1
        text = str(token.text)
        if token.token_type is TokenType.STRING:
            return text
        return {"TRUE": True, "ON": True, "FALSE": False, "OFF": False}.get(text.upper(), text)

    def _older_option(self) -> None:
        name = self._expect("BINARY", "CSV", "HEADER", "DELIMITER", "DELIMITERS", "NULL", "QUOTE", "ESCAPE", "ENCODING")
        if name in ("BINARY", "CSV"):
            self._options["FORMAT"] = name.lower()
        elif name == "HEADER":
            self._options[name] = True
        else:
            self._skip("AS")
            self._options[name.removesuffix("S") if name == "DELIMITERS" else name] = self._string()

    def _made(self, is_from: bool, table: str, columns: tuple[str, ...], query: str) -> CopyStatement:
        options = {name: value for name, value in self._options.items() if name not in _WITHOUT_EFFECT}
        format_ = str(options.pop("FORMAT", "text")).lower()
        if format_ not in _FORMATS:
            raise Refused(f"COPY format {format_!r} not recognized: there are {', '.join(_FORMATS)}", "22023")
        is_csv = format_ == "csv"
        delimiter = str(options.pop("DELIMITER", "," if is_csv else "\t"))
        null = str(options.pop("NULL", "" if is_csv else "\\N"))
        quote = str(options.pop("QUOTE", '"'))
        escape = str(options.pop("ESCAPE", quote))
        header = options.pop("HEADER", False)
        if options:
            raise NotSupportedError(f"COPY does not support the option {next(iter(options))}")
        for name, value in (("DELIMITER", delimiter), ("QUOTE", quote), ("ESCAPE", escape)):
            if len(value.encode()) != 1:
                raise Refused(f"COPY {name.lower()} must be a single one-byte character", "22023")
        is_headed = header is True or str(header).lower() in ("true", "on", "1", "match")
        return CopyStatement(is_from, table, columns, query, format_, delimiter, null, quote, escape, is_headed)
