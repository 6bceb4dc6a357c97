"""Data types: what SQL calls them, what Arrow calls them, how their values lie in memory and on disk.

One class, `DataType`, serves every room. A *physical value* is how a value is computed with and stored:

| kind | physical value | numpy dtype of an array |
|---|---|---|
| BOOLEAN | bool | bool |
| TINYINT SMALLINT INT BIGINT | int | int8 int16 int32 int64 |
| FLOAT DOUBLE | float | float32 float64 |
| DECIMAL(p, s) | int, the value times 10**s | int32 (p <= 9), int64 (p <= 18), else Python ints / Arrow decimal128 |
| DATE | int, days since 1970-01-01 | int32 |
| TIMESTAMP | int, microseconds since 1970-01-01 UTC | int64 |
| STRING / BINARY | str / bytes | Arrow string / binary |
| INTERVAL (expressions only) | `Interval(months, days, microseconds)` | `INTERVAL_DTYPE`, a record of the three |
| NULL (the type of a bare NULL, expressions only) | None | - |
"""

from __future__ import annotations

import datetime
import decimal
import enum
import math
import re
from dataclasses import field
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from ..errors import InvalidText, NotSupportedError, NumericOutOfRange, TextTooLong
from .lazy_dataclass import dataclass

MAX_PRECISION = 38


class Kind(enum.Enum):
    """The family of a type; the value is its SQL name."""

    BOOLEAN = "BOOLEAN"
    TINYINT = "TINYINT"
    SMALLINT = "SMALLINT"
    INT = "INT"
    BIGINT = "BIGINT"
    FLOAT = "FLOAT"
    DOUBLE = "DOUBLE"
    DECIMAL = "DECIMAL"
    DATE = "DATE"
    TIMESTAMP = "TIMESTAMP"
    STRING = "STRING"
    BINARY = "BINARY"
    INTERVAL = "INTERVAL"
    NULL = "NULL"

    # There is one object of each kind; enum's own hash is computed in Python, and types are hashed everywhere.
    __hash__ = object.__hash__


class Interval(NamedTuple):
    """A span of time as PostgreSQL keeps it: months and days have no fixed length, so the three stay apart."""

    months: int = 0
    days: int = 0
    microseconds: int = 0

    def __str__(self) -> str:
        """As PostgreSQL writes it: `1 year 2 mons -3 days +04:05:06.7`."""
        years = int(self.months / 12)
        parts: list[str] = []
        for amount, unit in ((years, "year"), (self.months - 12 * years, "mon"), (self.days, "day")):
            if amount:
                plus = "+" if amount > 0 and parts and parts[-1].startswith("-") else ""
                parts.append(f"{plus}{amount} {unit}{'' if amount == 1 else 's'}")
        if self.microseconds or not parts:
            sign = "-" if self.microseconds < 0 else "+" if parts and parts[-1].startswith("-") else ""
            seconds, fraction = divmod(abs(self.microseconds), 1_000_000)
            clock = f"{sign}{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"
            parts.append(clock + (f".{fraction:06d}".rstrip("0") if fraction else ""))
        return " ".join(parts)

    def to_timedelta(self) -> datetime.timedelta:
        """The span in days and less, a year counted as 365 days and a month as 30."""
        years = int(self.months / 12)
        days = 365 * years + 30 * (self.months - 12 * years) + self.days
        return datetime.timedelta(days=days, microseconds=self.microseconds)


INTERVAL_DTYPE = np.dtype([("months", np.int32), ("days", np.int32), ("microseconds", np.int64)])
"""16 bytes per value, laid out as Arrow's month_day_nano."""
INTEGER_WIDTHS = {Kind.TINYINT: 1, Kind.SMALLINT: 2, Kind.INT: 4, Kind.BIGINT: 8}
_DTYPES: dict[Kind, Any] = {
    Kind.BOOLEAN: np.bool_,
    Kind.TINYINT: np.int8,
    Kind.SMALLINT: np.int16,
    Kind.INT: np.int32,
    Kind.BIGINT: np.int64,
    Kind.FLOAT: np.float32,
    Kind.DOUBLE: np.float64,
    Kind.DATE: np.int32,
    Kind.TIMESTAMP: np.int64,
    Kind.INTERVAL: INTERVAL_DTYPE,
}
_ARROW: dict[Kind, Any] = {
    Kind.BOOLEAN: pa.bool_(),
    Kind.TINYINT: pa.int8(),
    Kind.SMALLINT: pa.int16(),
    Kind.INT: pa.int32(),
    Kind.BIGINT: pa.int64(),
    Kind.FLOAT: pa.float32(),
    Kind.DOUBLE: pa.float64(),
    Kind.DATE: pa.date32(),
    Kind.TIMESTAMP: pa.timestamp("us"),
    Kind.STRING: pa.string(),
    Kind.BINARY: pa.binary(),
    Kind.INTERVAL: pa.month_day_nano_interval(),
    Kind.NULL: pa.null(),
}
EPOCH_DATE = datetime.date(1970, 1, 1)
EPOCH_TIMESTAMP = datetime.datetime(1970, 1, 1)
FIRST_DAY, LAST_DAY = ((day - EPOCH_DATE).days for day in (datetime.date.min, datetime.date.max))
"""The years 1 to 9999, as physical values of DATE."""


@dataclass(frozen=True, slots=True)
class DataType:
    """A type with its parameters; equal types are equal values.

    `precision` and `scale` are set for DECIMAL only; `length` is the declared limit of VARCHAR(n) or CHAR(n),
    in characters, None where there is none. `alias` is the name of the type that PostgreSQL has for such values in its
    system catalogs: `oid` and `regclass` are numbers, `name` and `int2[]` texts. It is no part of the type: types that
    differ in it are equal.
    """

    kind: Kind
    precision: int | None = None
    scale: int | None = None
    length: int | None = None
    alias: str | None = field(default=None, compare=False, repr=False)

    def __post_init__(self) -> None:
        if self.kind is Kind.DECIMAL:
            if self.precision is None or self.scale is None:
                raise ValueError("DECIMAL needs precision and scale")
            if not (1 <= self.precision <= MAX_PRECISION and 0 <= self.scale <= self.precision):
                raise NumericOutOfRange(
                    f"DECIMAL({self.precision},{self.scale}): precision is 1 to {MAX_PRECISION}, "
                    "scale 0 to the precision"
                )

    def __str__(self) -> str:
        if self.kind is Kind.DECIMAL:
            return f"DECIMAL({self.precision},{self.scale})"
        if self.length is not None:
            return f"VARCHAR({self.length})"
        return str(self.kind.value)

    @property
    def is_integer(self) -> bool:
        """TINYINT to BIGINT."""
        return self.kind in INTEGER_WIDTHS

    @property
    def is_decimal(self) -> bool:
        return self.kind is Kind.DECIMAL

    @property
    def is_float(self) -> bool:
        return self.kind in (Kind.FLOAT, Kind.DOUBLE)

    @property
    def is_numeric(self) -> bool:
        return self.is_integer or self.is_decimal or self.is_float

    @property
    def is_text(self) -> bool:
        """STRING or BINARY: values of variable length."""
        return self.kind in (Kind.STRING, Kind.BINARY)

    @property
    def is_integer_like(self) -> bool:
        """Physical values are integers (BOOLEAN as 0 and 1 included): what codes over a base can hold."""
        return self.kind in (Kind.BOOLEAN, Kind.DATE, Kind.TIMESTAMP) or self.is_integer or self.is_decimal

    @property
    def is_wide(self) -> bool:
        """True for a DECIMAL of more than 18 digits, whose physical values need 128 bits."""
        return self.precision is not None and self.precision > 18

    @property
    def is_code_like(self) -> bool:
        """True where physical values are integers of at most 64 bits."""
        return self.is_integer_like and not self.is_wide

    @property
    def is_storable(self) -> bool:
        """True if a table column may have this type."""
        return self.kind not in (Kind.INTERVAL, Kind.NULL)

    @property
    def dtype(self) -> np.dtype[Any]:
        """The numpy dtype of an array of physical values; text and wide decimals have none (TypeError)."""
        if self.kind is Kind.DECIMAL:
            assert self.precision is not None
            if self.precision <= 9:
                return np.dtype(np.int32)
            if self.precision <= 18:
                return np.dtype(np.int64)
        elif self.kind in _DTYPES:
            dtype: np.dtype[Any] = np.dtype(_DTYPES[self.kind])
            return dtype
        raise TypeError(f"{self} has no numpy dtype")

    @property
    def arrow(self) -> pa.DataType:
        """The Arrow type of this type's values outside nyala."""
        if self.kind is Kind.DECIMAL:
            return pa.decimal128(self.precision, self.scale)
        return _ARROW[self.kind]

    def to_physical(self, value: Any) -> Any:
        """Turn a Python value (int, Decimal, date, datetime, str, ...) into this type's physical value.

        Raises `InvalidText` where the value is of the wrong sort, `NumericOutOfRange` where it does not fit.

        >>> DECIMAL(15, 2).to_physical(decimal.Decimal("1.25"))
        125
        >>> DATE.to_physical(datetime.date(1970, 1, 11))
        10
        """
        if value is None:
            return None
        converter = _TO_PHYSICAL[self.kind]
        try:
            return converter(self, value)
        except (TypeError, ValueError, ArithmeticError) as error:
            raise InvalidText(f"{value!r} is not a value of type {self}") from error

    def to_python(self, value: Any) -> Any:
        """Turn a physical value into what PEP 249 users expect: int, float, Decimal, date, datetime, timedelta, str,
        bytes."""
        if value is None:
            return None
        if self.kind is Kind.DECIMAL:
            assert self.scale is not None
            return decimal_value(int(value), self.scale)
        if self.kind is Kind.DATE:
            return EPOCH_DATE + datetime.timedelta(days=int(value))
        if self.kind is Kind.TIMESTAMP:
            return EPOCH_TIMESTAMP + datetime.timedelta(microseconds=int(value))
        if self.kind is Kind.INTERVAL:
            return Interval(*value).to_timedelta()
        return value


_WIDE = decimal.Context(prec=MAX_PRECISION + 2)


def decimal_value(unscaled: int, scale: int) -> decimal.Decimal:
    """The value of a DECIMAL from its physical value.

    >>> decimal_value(1250, 2)
    Decimal('12.50')
    """
    return decimal.Decimal(unscaled).scaleb(-scale, _WIDE)


def _to_integer(type_: DataType, value: Any) -> int:
    number = int(value)
    if number != value and not isinstance(value, str):
        raise ValueError(value)
    bits = 8 * INTEGER_WIDTHS[type_.kind] - 1
    if not -(1 << bits) <= number < (1 << bits):
        raise NumericOutOfRange(f"{value} is out of range for {type_}")
    return number


def _to_decimal(type_: DataType, value: Any) -> int:
    assert type_.precision is not None and type_.scale is not None
    exact = decimal.Decimal(str(value) if isinstance(value, float) else value)
    if not exact.is_finite():
        raise ValueError(value)
    unscaled = int(exact.scaleb(type_.scale, _WIDE).to_integral_value(decimal.ROUND_HALF_UP))
    if abs(unscaled) >= 10**type_.precision:
        raise NumericOutOfRange(f"{value} is out of range for {type_}")
    return unscaled


WHITE_SPACE = " \t\n\v\f\r"
"""White space that is allowed around a value written as text; Python's own `strip` removes more."""


def trimmed(text: str) -> str:
    """A value's text without the white space around it; `InvalidText` where Python would pass over more than that."""
    plain = text.strip(WHITE_SPACE)
    if plain != plain.strip():
        raise InvalidText(f"{text!r} begins or ends with a character that is neither white space nor part of a value")
    return plain


_LOOSE = re.compile(r"(\d{1,4})-(\d{1,2})-(\d{1,2})(?:([ T]+)(\d{1,2})(:.*))?\Z")


def _iso(text: str, name: str) -> str:
    """A date or timestamp with its numbers padded to the digits of ISO 8601: `2026-1-31 9:00`."""
    plain = text.strip()
    if plain.lower().lstrip("+-") in ("infinity", "inf"):
        raise InvalidText(f"{name} has no infinity; its values go from the year 1 to 9999")
    match = _LOOSE.match(plain)
    if match is None:
        return plain
    year, month, day, _, hour, rest = match.groups()
    date = f"{year:0>4}-{month:0>2}-{day:0>2}"
    return date if hour is None else f"{date} {hour:0>2}{rest.replace(' ', '')}"


def _to_date(_: DataType, value: Any) -> int:
    if isinstance(value, str):
        value = datetime.date.fromisoformat(_iso(value, "DATE"))
    if isinstance(value, datetime.datetime):
        value = value.date()
    return int((value - EPOCH_DATE).days)


def _to_timestamp(_: DataType, value: Any) -> int:
    if isinstance(value, str):
        value = datetime.datetime.fromisoformat(_iso(value, "TIMESTAMP"))
    if not isinstance(value, datetime.datetime):
        value = datetime.datetime.combine(value, datetime.time())
    if value.tzinfo is not None:
        value = value.astimezone(datetime.UTC).replace(tzinfo=None)
    return int((value - EPOCH_TIMESTAMP) // datetime.timedelta(microseconds=1))


def _to_boolean(_: DataType, value: Any) -> bool:
    if isinstance(value, str):
        text = value.strip().lower()
        if text in ("true", "t", "yes", "on", "1"):
            return True
        if text in ("false", "f", "no", "off", "0"):
            return False
        raise ValueError(value)
    if value not in (0, 1):
        raise ValueError(value)
    return bool(value)


def _to_string(type_: DataType, value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(value)
    if type_.length is not None and len(value) > type_.length:
        raise TextTooLong(f"a text of {len(value)} characters is too long for {type_}")
    return value


def _to_binary(_: DataType, value: Any) -> bytes:
    return bytes_of(value) if isinstance(value, str) else bytes(memoryview(value))


_ESCAPES = re.compile(rb"\\(?:(\\)|([0-3][0-7]{2})|)")


def bytes_of(text: str) -> bytes:
    r"""The bytes that a text spells, in PostgreSQL's forms: `\x6162` by hexadecimal digits, else the text's UTF-8 with
    `\\` for a backslash and `\ooo` for the byte of an octal number. `InvalidText` for any other backslash.

    >>> bytes_of(r"\x6162"), bytes_of(r"a\000\\"), bytes_of("é")
    (b'ab', b'a\x00\\', b'\xc3\xa9')
    """
    if "\\" not in text:
        return text.encode()
    if text[:2] in ("\\x", "\\X"):
        try:
            return bytes.fromhex(text[2:])
        except ValueError:
            raise InvalidText(f"{text!r} is not a BINARY: after \\x it needs two hexadecimal digits per byte") from None

    def byte(found: re.Match[bytes]) -> bytes:
        if found[1]:
            return found[1]
        if not found[2]:
            raise InvalidText(
                f"{text!r} is not a BINARY: a backslash is written twice; \\ooo is the byte of an octal number, \\x in "
                "front of all means hexadecimal digits"
            )
        return bytes([int(found[2], 8)])

    return _ESCAPES.sub(byte, text.encode())


_FLOAT_END = 2.0**128 - 2.0**103
"""From here on a finite number rounds to no FLOAT."""


def _to_double(type_: DataType, value: Any) -> float:
    number = float(value)
    if math.isinf(number) and not _is_infinite(value):
        raise NumericOutOfRange(f"{value} is out of range for {type_}")
    return number


def _is_infinite(value: Any) -> bool:
    """True if a value is infinity itself, and no finite number that is too large."""
    if isinstance(value, str):
        return "inf" in value.lower()
    return math.isinf(value) and not (isinstance(value, decimal.Decimal) and value.is_finite())


def _to_float(type_: DataType, value: Any) -> float:
    number = _to_double(type_, value)
    if _FLOAT_END <= abs(number) < math.inf:
        raise NumericOutOfRange(f"{number!r} is out of range for {type_}")
    return float(np.float32(number))


_TO_PHYSICAL: dict[Kind, Any] = {
    Kind.BOOLEAN: _to_boolean,
    **dict.fromkeys(INTEGER_WIDTHS, _to_integer),
    Kind.FLOAT: _to_float,
    Kind.DOUBLE: _to_double,
    Kind.DECIMAL: _to_decimal,
    Kind.DATE: _to_date,
    Kind.TIMESTAMP: _to_timestamp,
    Kind.STRING: _to_string,
    Kind.BINARY: _to_binary,
    Kind.INTERVAL: lambda _, value: Interval(*value),
    Kind.NULL: lambda _, value: None,
}

BOOLEAN = DataType(Kind.BOOLEAN)
TINYINT = DataType(Kind.TINYINT)
SMALLINT = DataType(Kind.SMALLINT)
INT = DataType(Kind.INT)
BIGINT = DataType(Kind.BIGINT)
FLOAT = DataType(Kind.FLOAT)
DOUBLE = DataType(Kind.DOUBLE)
DATE = DataType(Kind.DATE)
TIMESTAMP = DataType(Kind.TIMESTAMP)
STRING = DataType(Kind.STRING)
BINARY = DataType(Kind.BINARY)
INTERVAL = DataType(Kind.INTERVAL)
NULL = DataType(Kind.NULL)


def DECIMAL(precision: int, scale: int = 0) -> DataType:
    """DECIMAL(precision, scale): exact numbers of up to 38 digits, `scale` of them after the point."""
    return DataType(Kind.DECIMAL, precision, scale)


def type_from_arrow(type_: pa.DataType) -> DataType:
    """The nyala type that holds every value of an Arrow type; `NotSupportedError` names one that has none.

    Unsigned integers go to the next wider signed type (uint64 to DECIMAL(20,0)); any timestamp unit to microseconds.
    """
    for kind, arrow in _ARROW.items():
        if arrow == type_:
            return DataType(kind)
    if pa.types.is_dictionary(type_):
        return type_from_arrow(type_.value_type)
    if pa.types.is_decimal(type_) and type_.precision <= MAX_PRECISION and 0 <= type_.scale <= type_.precision:
        return DECIMAL(type_.precision, type_.scale)
    if pa.types.is_large_string(type_) or pa.types.is_string_view(type_):
        return STRING
    if pa.types.is_large_binary(type_) or pa.types.is_binary_view(type_) or pa.types.is_fixed_size_binary(type_):
        return BINARY
    if pa.types.is_timestamp(type_) or pa.types.is_date64(type_):
        return TIMESTAMP
    unsigned = {8: SMALLINT, 16: INT, 32: BIGINT, 64: DECIMAL(20, 0)}
    if pa.types.is_unsigned_integer(type_):
        return unsigned[type_.bit_width]
    raise NotSupportedError(f"Arrow type {type_} has no counterpart among nyala's types")


@cache
def integer_bounds(dtype: np.dtype[Any]) -> tuple[int, int] | None:
    """The least and the greatest integer of a numpy dtype; None for other types. (numpy's own call takes
    microseconds.)"""
    if dtype.kind not in "iu":
        return None
    info = np.iinfo(dtype)
    return int(info.min), int(info.max)
