"""One row of Python values as a message: a statement about one row by its key makes no Arrow data.

    row_encoder(types, formats) ─► one encoder per column, chosen once ─► row ─► DataRow

The bytes are those of `rows.encode_rows`; a test compares both for every type.
"""

from __future__ import annotations

import datetime
import struct
from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from typing import Any, Final, TypeAlias

from ....executor.kernels.cast import spelt_value
from ....model.types import EPOCH_DATE, EPOCH_TIMESTAMP, DataType, Kind
from .columns import POSTGRES_EPOCH_DAYS, POSTGRES_EPOCH_MICROSECONDS
from .numerics import numeric_to_bytes
from .rows import DATA_ROW
from .types import TEXT

RowEncoder: TypeAlias = Callable[[Sequence[Any]], bytes]
_Field: TypeAlias = Callable[[Any], bytes]
"""A value that is not NULL to its field: the length, then the bytes."""

_LENGTH: Final = struct.Struct("!i")
_HEAD: Final = struct.Struct("!cIH")
_HEAD_BYTES: Final = 6
"""Of the head, without the kind, which the length leaves out."""
_NULL: Final = _LENGTH.pack(-1)
_MICROSECOND: Final = datetime.timedelta(microseconds=1)
_MIDNIGHT: Final = EPOCH_DATE.toordinal() + POSTGRES_EPOCH_DAYS


def encode_row(values: Sequence[Any], types: Sequence[DataType], formats: Sequence[int]) -> bytes:
    """The DataRow message of one row; see `rows.encode_rows` for the parameters."""
    return row_encoder(tuple(types), tuple(formats))(values)


@lru_cache(maxsize=1000)
def row_encoder(types: tuple[DataType, ...], formats: tuple[int, ...]) -> RowEncoder:
    """The function from a row of values to its DataRow message; see `rows.encode_rows` for the parameters."""
    fields = [_field(type_, format_) for type_, format_ in zip(types, formats, strict=True)]
    width, head = len(fields), _HEAD.pack

    def encode(row: Sequence[Any]) -> bytes:
        body = b"".join([_NULL if value is None else field(value) for value, field in zip(row, fields)])
        return head(DATA_ROW, _HEAD_BYTES + len(body), width) + body

    return encode


def _field(type_: DataType, format_: int) -> _Field:
    if format_ != TEXT:
        form = _FIXED.get(type_.kind)
        if form is not None:
            layout = struct.Struct("!i" + form)
            return partial(layout.pack, layout.size - _LENGTH.size)
        return _prefixed(_BINARY[type_.kind])
    return _prefixed(_TEXTS.get(type_.kind) or partial(_spelt, type_))


def _prefixed(encode: Callable[[Any], bytes]) -> _Field:
    pack = _LENGTH.pack

    def field(value: Any) -> bytes:
        data = encode(value)
        return pack(len(data)) + data

    return field


def _spelt(type_: DataType, value: Any) -> bytes:
    return spelt_value(type_, value).encode()


def _microseconds(value: datetime.datetime) -> bytes:
    return _INT64.pack((value - EPOCH_TIMESTAMP) // _MICROSECOND - POSTGRES_EPOCH_MICROSECONDS)


_INT64: Final = struct.Struct("!q")
_INTEGERS: Final = (Kind.TINYINT, Kind.SMALLINT, Kind.INT, Kind.BIGINT)
_TEXTS: Final[dict[Kind, Callable[[Any], bytes]]] = {
    Kind.BOOLEAN: lambda value: b"t" if value else b"f",
    **dict.fromkeys(_INTEGERS, lambda value: b"%d" % value),
    Kind.STRING: str.encode,
    Kind.BINARY: lambda value: b"\\x" + value.hex().encode(),
}
_FIXED: Final = {
    Kind.BOOLEAN: "?",
    Kind.TINYINT: "h",
    Kind.SMALLINT: "h",
    Kind.INT: "i",
    Kind.BIGINT: "q",
    Kind.FLOAT: "f",
    Kind.DOUBLE: "d",
}
"""Binary values of one width, by the form that `struct` packs them in."""
_BINARY: Final[dict[Kind, Callable[[Any], bytes]]] = {
    Kind.DECIMAL: numeric_to_bytes,
    Kind.DATE: lambda value: _LENGTH.pack(value.toordinal() - _MIDNIGHT),
    Kind.TIMESTAMP: _microseconds,
    Kind.STRING: str.encode,
    Kind.BINARY: bytes,
}
