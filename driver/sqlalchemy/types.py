"""Types both ways: what SQLAlchemy's types are called in nyala, and which of them a reflected column has.

| SQLAlchemy | nyala | remarks |
|---|---|---|
| `TINYINT`, `SmallInteger`, `Integer`, `BigInteger` | `TINYINT`, `SMALLINT`, `INT`, `BIGINT` | |
| `Float`, `Double` | `DOUBLE` | `Float(precision)` of at most 24 bits is a `FLOAT` |
| `REAL` | `FLOAT` | 4 bytes |
| `Numeric(p, s)` | `DECIMAL(p,s)` | without digits `DECIMAL(38,10)` |
| `String(n)`, `String`, `Text`, `Enum` | `VARCHAR(n)`, `STRING` | |
| `LargeBinary` | `BINARY` | |
| `Boolean`, `Date` | `BOOLEAN`, `DATE` | |
| `DateTime` | `TIMESTAMP` | UTC; with `timezone=True` values come and go with a time zone |
| `Time` | `VARCHAR(15)` | as `HH:MM:SS.ffffff`, which sorts as the time does |
| `Interval` | `INTERVAL` | in expressions, `ts > now() - timedelta(hours=1)`; refused as a column |
| `JSON` | `STRING` | a text; nothing looks into it |
| `Uuid` | `VARCHAR(32)` | SQLAlchemy's own stand-in |
"""

from __future__ import annotations

import datetime
from collections.abc import Callable
from typing import Any, Final

from sqlalchemy.engine.interfaces import Dialect
from sqlalchemy.exc import CompileError
from sqlalchemy.schema import Column
from sqlalchemy.sql import compiler, sqltypes, type_api

DEFAULT_DIGITS: Final = (38, 10)
"""DECIMAL's digits for a `Numeric` that names none: the scale is the one that SQLAlchemy returns by default."""
SINGLE_BITS: Final = 24
"""The mantissa of a FLOAT of 4 bytes; a `Float` with more bits is a DOUBLE."""
TIME_LENGTH: Final = len("23:59:59.123456")


class TINYINT(sqltypes.Integer):
    """A whole number of one byte, with its sign."""

    __visit_name__ = "TINYINT"


class INTERVAL(type_api.NativeForEmulated, sqltypes._AbstractInterval):
    """A span of time, in expressions and results only: no column of a table can have it."""

    __visit_name__ = "INTERVAL"
    native = True

    @classmethod
    def adapt_emulated_to_native(cls, impl: Any, **kw: Any) -> INTERVAL:
        """Type in place of a generic `Interval`."""
        return INTERVAL()

    @property
    def python_type(self) -> type[datetime.timedelta]:
        return datetime.timedelta

    def literal_processor(self, dialect: Dialect) -> Callable[[Any], str]:
        return lambda value: f"INTERVAL '{value.days} days {value.seconds}.{value.microseconds:06d} seconds'"


class NyalaDateTime(sqltypes.DateTime):
    """TIMESTAMP is in UTC. A value with a time zone is converted to it; `timezone=True` gives it back with UTC."""

    def bind_processor(self, dialect: Dialect) -> Callable[[Any], Any]:
        return _to_utc

    def literal_processor(self, dialect: Dialect) -> Callable[[Any], str]:
        return lambda value: f"TIMESTAMP '{_to_utc(value).isoformat(' ')}'"

    def result_processor(self, dialect: Dialect, coltype: object) -> Callable[[Any], Any] | None:
        return _with_utc if self.timezone else None


def _to_utc(value: Any) -> Any:
    if isinstance(value, datetime.datetime) and value.tzinfo is not None:
        return value.astimezone(datetime.UTC).replace(tzinfo=None)
    return value


def _with_utc(value: Any) -> Any:
    return None if value is None else value.replace(tzinfo=datetime.UTC)


class NyalaDate(sqltypes.Date):
    """DATE; literals are written with the keyword, because a quoted text is a date only if its context requires one."""

    def literal_processor(self, dialect: Dialect) -> Callable[[Any], str]:
        return lambda value: f"DATE '{value:%Y-%m-%d}'"


class NyalaTime(sqltypes.Time):
    """A time of day as a text of fixed width, so that it sorts and compares as the time does."""

    def bind_processor(self, dialect: Dialect) -> Callable[[Any], Any]:
        return _time_text

    def literal_processor(self, dialect: Dialect) -> Callable[[Any], str]:
        return lambda value: f"'{_time_text(value)}'"

    def result_processor(self, dialect: Dialect, coltype: object) -> Callable[[Any], Any]:
        return lambda value: datetime.time.fromisoformat(value) if isinstance(value, str) else value


def _time_text(value: Any) -> Any:
    if not isinstance(value, datetime.time):
        return value
    if value.tzinfo is not None:
        raise ValueError(f"{value!r}: a time of day is stored without a time zone")
    return value.isoformat("microseconds")


class NyalaJSON(sqltypes.JSON):
    """JSON as a text. SQLAlchemy reads and writes it; nyala has no operators that look into it."""


class NyalaBinary(sqltypes.LargeBinary):
    """BINARY; a literal is written in hexadecimal digits."""

    def literal_processor(self, dialect: Dialect) -> Callable[[Any], str]:
        return lambda value: f"x'{bytes(value).hex()}'"

    def bind_processor(self, dialect: Dialect) -> Callable[[Any], Any]:
        return lambda value: None if value is None else bytes(value)


COLUMN_TYPES: Final[dict[type[sqltypes.TypeEngine[Any]], type[sqltypes.TypeEngine[Any]]]] = {
    sqltypes.DateTime: NyalaDateTime,
    sqltypes.Date: NyalaDate,
    sqltypes.Time: NyalaTime,
    sqltypes.JSON: NyalaJSON,
    sqltypes.LargeBinary: NyalaBinary,
    sqltypes.Interval: INTERVAL,
}
"""The dialect's types in place of SQLAlchemy's."""

REFLECTED: Final[dict[str, type[sqltypes.TypeEngine[Any]]]] = {
    "BOOLEAN": sqltypes.BOOLEAN,
    "TINYINT": TINYINT,
    "SMALLINT": sqltypes.SMALLINT,
    "INT": sqltypes.INTEGER,
    "BIGINT": sqltypes.BIGINT,
    "FLOAT": sqltypes.REAL,
    "DOUBLE": sqltypes.DOUBLE,
    "DECIMAL": sqltypes.DECIMAL,
    "DATE": sqltypes.DATE,
    "TIMESTAMP": sqltypes.TIMESTAMP,
    "STRING": sqltypes.TEXT,
    "BINARY": sqltypes.BINARY,
    "INTERVAL": INTERVAL,
}
"""SQLAlchemy's type of a column, by information_schema's column_type."""


def reflected_type(
    column_type: str, length: int | None, precision: int | None, scale: int | None
) -> sqltypes.TypeEngine[Any]:
    """The type of a column that information_schema describes so."""
    if column_type == "DECIMAL":
        return sqltypes.DECIMAL(precision, scale)
    if column_type == "STRING" and length is not None:
        return sqltypes.VARCHAR(length)
    return REFLECTED.get(column_type, sqltypes.NullType)()


class NyalaTypeCompiler(compiler.GenericTypeCompiler):
    """Writes types as nyala calls them."""

    def visit_TINYINT(self, type_: Any, **kw: Any) -> str:
        return "TINYINT"

    def visit_INTERVAL(self, type_: Any, type_expression: Any = None, **kw: Any) -> str:
        if isinstance(type_expression, Column):
            raise CompileError("no column can be an INTERVAL; a BIGINT of microseconds holds a span of time")
        return "INTERVAL"

    def visit_uuid(self, type_: Any, **kw: Any) -> str:
        return "VARCHAR(32)"

    visit_UUID = visit_uuid

    def visit_INTEGER(self, type_: Any, **kw: Any) -> str:
        return "INT"

    def visit_FLOAT(self, type_: Any, **kw: Any) -> str:
        return "FLOAT" if type_.precision is not None and type_.precision <= SINGLE_BITS else "DOUBLE"

    def visit_REAL(self, type_: Any, **kw: Any) -> str:
        return "FLOAT"

    def visit_DOUBLE(self, type_: Any, **kw: Any) -> str:
        return "DOUBLE"

    def visit_DOUBLE_PRECISION(self, type_: Any, **kw: Any) -> str:
        return "DOUBLE"

    def visit_NUMERIC(self, type_: Any, **kw: Any) -> str:
        return self.visit_DECIMAL(type_, **kw)

    def visit_DECIMAL(self, type_: Any, **kw: Any) -> str:
        precision, scale = type_.precision, type_.scale
        if precision is None:
            precision, scale = DEFAULT_DIGITS[0], DEFAULT_DIGITS[1] if scale is None else scale
        return f"DECIMAL({precision},{scale or 0})"

    def visit_DATETIME(self, type_: Any, **kw: Any) -> str:
        return "TIMESTAMP"

    def visit_TIMESTAMP(self, type_: Any, **kw: Any) -> str:
        return "TIMESTAMP"

    def visit_TIME(self, type_: Any, **kw: Any) -> str:
        return f"VARCHAR({TIME_LENGTH})"

    def visit_VARCHAR(self, type_: Any, **kw: Any) -> str:
        return "STRING" if type_.length is None else f"VARCHAR({type_.length})"

    visit_CHAR = visit_NCHAR = visit_NVARCHAR = visit_VARCHAR

    def visit_TEXT(self, type_: Any, **kw: Any) -> str:
        return "STRING"

    visit_CLOB = visit_TEXT

    def visit_JSON(self, type_: Any, **kw: Any) -> str:
        return "STRING"

    def visit_BINARY(self, type_: Any, **kw: Any) -> str:
        return "BINARY"

    visit_VARBINARY = visit_BLOB = visit_BINARY

    def visit_large_binary(self, type_: Any, **kw: Any) -> str:
        return "BINARY"

    def visit_ARRAY(self, type_: Any, **kw: Any) -> str:
        raise CompileError("nyala has no arrays: a table of its own holds the elements, or JSON as a text")
