"""Parameters of statements: bytes in either format to the Python values that a statement is run with.

A parameter of a named type, or of the type that its context requires, becomes a value of that type: plans are kept for
values of a type. Without either it stays a text, as a quoted constant would.
"""

from __future__ import annotations

import datetime
import decimal
import re
import struct
from collections.abc import Callable
from typing import Any, Final

from ....errors import InvalidText, NotSupportedError
from ....model.types import EPOCH_DATE, EPOCH_TIMESTAMP, DataType, Interval, Kind
from .arrays import array_from_bytes
from .columns import POSTGRES_EPOCH_DAYS, POSTGRES_EPOCH_MICROSECONDS
from .numerics import numeric_from_bytes
from .types import BINARY_FORMAT, TEXT, element_oid, type_of

_DATE_WITH_OFFSET: Final = re.compile(r"\s*(\d{4,}-\d\d-\d\d)\s*(?:[+-]\d\d(?::?\d\d)?|Z)\s*")
"""A date as the JDBC driver writes it: with the offset of its time zone, which PostgreSQL ignores."""


def parameter_value(data: bytes, oid: int, format_: int, inferred: DataType | None = None) -> Any:
    """A parameter's value.

    Parameters
    ----------
    data : bytes
    oid : int
        The one that the client gave; 0 for none.
    format_ : int
        `types.TEXT` or `types.BINARY_FORMAT`.
    inferred : DataType, optional
        The one reported by Describe, for a parameter without `oid`.

    Raises `InvalidText` if the bytes are no value of the type.
    """
    type_ = type_of(oid) if oid else inferred
    if format_ == TEXT:
        text = _text(data)
        return text if type_ is None or type_.alias is not None else _from_text(text, type_)
    if format_ != BINARY_FORMAT:
        raise InvalidText(f"there is no format {format_}: 0 is text, 1 is binary")
    if type_ is None:
        if oid:
            raise NotSupportedError(f"a parameter of the type with the oid {oid} is not supported in the binary format")
        return _text(data)
    return from_binary(data, type_)


def _text(data: bytes) -> str:
    try:
        text = data.decode()
    except UnicodeDecodeError:
        raise InvalidText("a parameter is not UTF-8") from None
    if "\0" in text:
        raise InvalidText("a parameter has a zero byte, which no text may have")
    return text


def _from_text(text: str, type_: DataType) -> Any:
    if type_.kind in (Kind.STRING, Kind.INTERVAL):
        return text  # an INTERVAL takes its value from the context
    if type_.kind is Kind.DECIMAL:
        return _decimal(text)
    if type_.kind is Kind.DATE and (dated := _DATE_WITH_OFFSET.fullmatch(text)):
        text = dated[1]
    return type_.to_python(type_.to_physical(text.strip() if type_.is_numeric else text))


def _decimal(text: str) -> decimal.Decimal:
    try:
        return decimal.Decimal(text.strip())
    except decimal.InvalidOperation:
        raise InvalidText(f"{text!r} is not a number") from None


def from_binary(data: bytes, type_: DataType) -> Any:
    """The value of a type in the binary format. Raises `InvalidText` if the bytes are no value of it."""
    if type_.alias is not None and (element := element_oid(type_)) is not None:
        return array_from_bytes(data, element)
    try:
        return _READERS[type_.kind](data)
    except (struct.error, OverflowError, ValueError):
        raise InvalidText(f"{len(data)} bytes are not a binary value of type {type_.kind.value}") from None


def _unpacked(form: str) -> Callable[[bytes], Any]:
    unpack = struct.Struct(form).unpack

    def read(data: bytes) -> Any:
        return unpack(data)[0]

    return read


_INTEGER_SIZES: Final = {1: "!b", 2: "!h", 4: "!i", 8: "!q"}


def _integer(data: bytes) -> int:
    """An integer of any width: a driver may send a narrower one than the reported type."""
    return int(struct.unpack(_INTEGER_SIZES.get(len(data), "!q"), data)[0])


def _float(data: bytes) -> float:
    return float(struct.unpack("!f" if len(data) == 4 else "!d", data)[0])


def _date(data: bytes) -> datetime.date:
    (days,) = struct.unpack("!i", data)
    return EPOCH_DATE + datetime.timedelta(days=days + POSTGRES_EPOCH_DAYS)


def _timestamp(data: bytes) -> datetime.datetime:
    (microseconds,) = struct.unpack("!q", data)
    return EPOCH_TIMESTAMP + datetime.timedelta(microseconds=microseconds + POSTGRES_EPOCH_MICROSECONDS)


def _interval(data: bytes) -> Any:
    microseconds, days, months = struct.unpack("!qii", data)
    if months:
        return str(Interval(months, days, microseconds))  # a timedelta has no months
    return datetime.timedelta(days=days, microseconds=microseconds)


_READERS: Final[dict[Kind, Callable[[bytes], Any]]] = {
    Kind.BOOLEAN: _unpacked("!?"),
    **dict.fromkeys((Kind.TINYINT, Kind.SMALLINT, Kind.INT, Kind.BIGINT), _integer),
    Kind.FLOAT: _float,
    Kind.DOUBLE: _float,
    Kind.DECIMAL: numeric_from_bytes,
    Kind.DATE: _date,
    Kind.TIMESTAMP: _timestamp,
    Kind.INTERVAL: _interval,
    Kind.STRING: _text,
    Kind.BINARY: bytes,
}
