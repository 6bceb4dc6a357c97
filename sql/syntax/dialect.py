"""The `Nyala` dialect on sqlglot: PostgreSQL's expressions, Kudu and Impala's table DDL.

    CREATE TABLE [IF NOT EXISTS] name (
        column type [NULL | NOT NULL] [DEFAULT value] [[NON UNIQUE] PRIMARY KEY] [IMMUTABLE]
                    [ENCODING e] [COMPRESSION c] [BLOCK_SIZE n] [COMMENT 'text'], ...
        [, [NON UNIQUE] PRIMARY KEY (column, ...)])
      [DISTRIBUTE BY HASH [(column, ...)] INTO n BUCKETS [, HASH ...]
                     [, RANGE (column, ...) (PARTITION VALUES < x [HASH ...], PARTITION x <= VALUES < y, ...
                                             | [RANGE BOUND ((x, ...), (y, ...)), ...] [SPLIT ROWS ((x, ...), ...)])]]
      [REPLICAS n] [STORED AS KUDU] [TBLPROPERTIES ('name' = 'value', ...)] [COMMENT 'text']
    CREATE TABLE [IF NOT EXISTS] name ([NON UNIQUE] PRIMARY KEY (column, ...)) clauses AS query
    CREATE TABLE [IF NOT EXISTS] name LIKE name
    CREATE [OR REPLACE] VIEW [IF NOT EXISTS] name [(column, ...)] AS query
    ALTER TABLE name ADD [COLUMN] [IF NOT EXISTS] column type ... | DROP [COLUMN] [IF EXISTS] column
                   | RENAME [COLUMN] column TO column | RENAME TO name
                   | ALTER [COLUMN] column SET DEFAULT value | DROP DEFAULT | SET ENCODING e | SET COMPRESSION c
                                         | SET BLOCK_SIZE n | SET COMMENT 'text'
                   | ADD [RANGE] PARTITION x <= VALUES < y | DROP [RANGE] PARTITION VALUE = x | COMMENT 'text'
                   | SET REPLICAS n | SET TBLPROPERTIES ('name' = 'value', ...), ...
    DROP TABLE | VIEW [IF EXISTS] name [CASCADE | RESTRICT]
    TRUNCATE [TABLE] [ONLY] name    COMPACT TABLE name    ANALYZE [[TABLE] name]
    INSERT INTO name [(column, ...)] VALUES (...), ... | query    UPSERT INTO ...
    UPDATE name SET column = value, ... [FROM ...] [WHERE ...]    DELETE FROM name [USING ...] [WHERE ...]
    COPY name [(column, ...)] FROM 'path' [(FORMAT parquet | csv, option value, ...)]
    SHOW TABLES | VIEWS [LIKE 'pattern']    SHOW CREATE TABLE | VIEW name    SHOW PARTITIONS name
    SHOW STATS [FOR] name    SHOW COLUMNS FROM name    DESCRIBE name
    EXPLAIN [ANALYZE] [VERBOSE] statement
    BEGIN [mode, ...]    COMMIT    ROLLBACK [TO name]    SAVEPOINT name    RELEASE name    SET TRANSACTION mode, ...
    query, its tables as name [FOR SYSTEM_TIME AS OF t | BETWEEN a AND b | FROM a TO b]
    query FOR UPDATE | SHARE [OF name, ...]

The tokenizer is here; `grammar` parses tokens into trees, `generator.py` writes trees as text. Writing a tree and
parsing the text again gives the same tree.

Departures from sqlglot's habits: a function call stays a name with arguments (`exp.Anonymous`), so that only the
registry in `functions` decides which exist; no statement falls back to an opaque `Command`; an error has the position
of its token.
"""

from __future__ import annotations

from sqlglot import exp, parser, tokens
from sqlglot.dialects.dialect import Dialect
from sqlglot.tokens import TokenType

from ...errors import OperationalError
from .generator import NyalaGenerator
from .grammar import operators as grammar_operators
from .grammar.statements import NyalaParser

_FOREIGN_KEYWORDS = (
    *grammar_operators.FOREIGN,
    *("?::", "/*+", "DIV", "XOR", "{%", "{%+", "{%-", "%}", "+%}", "-%}", "{{+", "{{-", "+}}", "-}}"),
)
PARAMETER_MARK = "\x01"
"""Stands for the `$` of a parameter in texts that `tokenizing` passes to sqlglot."""


def check_build(parser_file: str) -> None:
    """Raise `OperationalError` if sqlglot's parser is compiled: its classes cannot be extended then."""
    if not parser_file.endswith(".py"):
        raise OperationalError(
            "nyala extends the parser of sqlglot, which its compiled build does not allow: uninstall sqlglotc"
        )


check_build(parser.__file__)


class NyalaTokenizer(tokens.Tokenizer):
    """PostgreSQL's tokens, plus those of the table clauses."""

    QUOTES = ["'"]
    IDENTIFIERS = ['"']
    HEX_STRINGS = [("x'", "'"), ("X'", "'")]
    BYTE_STRINGS = [("e'", "'"), ("E'", "'")]
    BYTE_STRING_ESCAPES = ["'", "\\"]
    HEREDOC_STRINGS = ["$"]
    HEREDOC_TAG_IS_IDENTIFIER = True
    HEREDOC_STRING_ALTERNATIVE = TokenType.PARAMETER
    SINGLE_TOKENS = {
        **{k: v for k, v in tokens.Tokenizer.SINGLE_TOKENS.items() if k not in "@#~^&"},
        **grammar_operators.SINGLE_TOKENS,
        "$": TokenType.PARAMETER,
        PARAMETER_MARK: TokenType.PARAMETER,
    }
    # Statements that sqlglot would consume whole as commands; the grammar names them in its errors.
    COMMANDS: set[TokenType] = set()
    KEYWORDS = {
        **{k: v for k, v in tokens.Tokenizer.KEYWORDS.items() if k not in _FOREIGN_KEYWORDS},
        **grammar_operators.KEYWORDS,
        "INT2": TokenType.SMALLINT,
        "INT8": TokenType.BIGINT,
        "FLOAT4": TokenType.FLOAT,
        "FLOAT8": TokenType.DOUBLE,
        "BYTEA": TokenType.BINARY,
        "BLOB": TokenType.BINARY,
        "VARBINARY": TokenType.BINARY,
    }


class Nyala(Dialect):
    """Registers the dialect under the name `nyala`."""

    TYPED_DIVISION = True
    NORMALIZE_NOT_NULL = False
    NULL_ORDERING = "nulls_are_large"
    SUPPORTS_LIMIT_ALL = True
    CONCAT_COALESCE = True
    STRICT_STRING_CONCAT = True
    INTERSECT_BINDS_TIGHTER_THAN_UNION_AND_EXCEPT = True

    Tokenizer = NyalaTokenizer
    Parser = NyalaParser
    Generator = NyalaGenerator


def fold(identifier: exp.Identifier) -> str:
    """The name of an identifier: in lower case unless it is quoted."""
    name = str(identifier.this)
    return name if identifier.args.get("quoted") else name.lower()
