"""One row of Python values as a message: a statement about one row by its key makes no Arrow data.

    row_encoder(types, formats) ─► one encoder and one form per column, chosen once ─► row ─► DataRow

The compiled kernel encodes the values of a form itself, and calls the encoders of the others. The bytes are those of
`rows.encode_rows`; a test compares both for every type.
"""

from __future__ import annotations

import datetime
import struct
from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from typing import Any, Final, TypeAlias

from ....executor.kernels.cast import spelt_value
from ....model.types import EPOCH_DATE, EPOCH_TIMESTAMP, DataType, Kind
from . import kernels
from .columns import POSTGRES_EPOCH_DAYS, POSTGRES_EPOCH_MICROSECONDS
from .numerics import numeric_to_bytes
from .rows import DATA_ROW
from .types import TEXT

RowEncoder: TypeAlias = Callable[[Sequence[Any]], bytes]
_Encoder: TypeAlias = Callable[[Any], bytes]
"""A value that is not NULL to the bytes of its field, without the length."""

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
    pairs = list(zip(types, formats, strict=True))
    encoders = tuple(_encoder(type_, format_) for type_, format_ in pairs)
    if kernels.compiled is not None:
        forms = b"".join(_FORMS[format_ == TEXT].get(type_.kind, _NO_FORM) for type_, format_ in pairs)
        return partial(kernels.compiled.data_row, forms, encoders)
    return partial(_encoded, encoders)


def _encoded(encoders: Sequence[_Encoder], row: Sequence[Any]) -> bytes:
    parts = []
    for value, encode in zip(row, encoders, strict=True):
        if value is None:
            parts.append(_NULL)
        else:
            field = encode(value)
            parts += _LENGTH.pack(len(field)), field
    body = b"".join(parts)
    return _HEAD.pack(DATA_ROW, _HEAD_BYTES + len(body), len(encoders)) + body


def _encoder(type_: DataType, format_: int) -> _Encoder:
    if format_ != TEXT:
        return _BINARY[type_.kind]
    return _TEXTS.get(type_.kind) or partial(_spelt, type_)


def _spelt(type_: DataType, value: Any) -> bytes:
    return spelt_value(type_, value).encode()


def _microseconds(value: datetime.datetime) -> bytes:
    return _INT64.pack((value - EPOCH_TIMESTAMP) // _MICROSECOND - POSTGRES_EPOCH_MICROSECONDS)


_INT64: Final = struct.Struct("!q")
_INTEGERS: Final = (Kind.TINYINT, Kind.SMALLINT, Kind.INT, Kind.BIGINT)
_TEXTS: Final[dict[Kind, _Encoder]] = {
    Kind.BOOLEAN: lambda value: b"t" if value else b"f",
    **dict.fromkeys(_INTEGERS, lambda value: b"%d" % value),
    Kind.STRING: str.encode,
    Kind.BINARY: lambda value: b"\\x" + value.hex().encode(),
}
_BINARY: Final[dict[Kind, _Encoder]] = {
    Kind.BOOLEAN: struct.Struct("?").pack,
    Kind.TINYINT: struct.Struct("!h").pack,
    Kind.SMALLINT: struct.Struct("!h").pack,
    Kind.INT: _LENGTH.pack,
    Kind.BIGINT: _INT64.pack,
    Kind.FLOAT: struct.Struct("!f").pack,
    Kind.DOUBLE: struct.Struct("!d").pack,
    Kind.DECIMAL: numeric_to_bytes,
    Kind.DATE: lambda value: _LENGTH.pack(value.toordinal() - _MIDNIGHT),
    Kind.TIMESTAMP: _microseconds,
    Kind.STRING: str.encode,
    Kind.BINARY: bytes,
}
_NO_FORM: Final = b"-"
_FORMS: Final[tuple[dict[Kind, bytes], dict[Kind, bytes]]] = (
    {
        **dict.fromkeys((Kind.TINYINT, Kind.SMALLINT), b"2"),
        Kind.INT: b"4",
        Kind.BIGINT: b"8",
        Kind.DOUBLE: b"d",
        Kind.STRING: b"t",
    },
    {**dict.fromkeys(_INTEGERS, b"n"), Kind.STRING: b"t", Kind.DECIMAL: b"f", Kind.DATE: b"s"},
)
"""Of binary values and of texts: what the compiled kernel encodes itself (`data_row`)."""
