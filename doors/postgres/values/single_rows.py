"""One row of Python values as a message: a statement about one row by its key makes no Arrow data.

The bytes are those of `rows.encode_rows`; a test compares both for every type.
"""

from __future__ import annotations

import datetime
import struct
from collections.abc import Callable, Sequence
from typing import Any, Final

from ....executor.kernels.cast import spelt_value
from ....model.types import EPOCH_DATE, EPOCH_TIMESTAMP, DataType, Kind
from .columns import POSTGRES_EPOCH_DAYS, POSTGRES_EPOCH_MICROSECONDS
from .numerics import numeric_to_bytes
from .rows import DATA_ROW
from .types import TEXT

_LENGTH: Final = struct.Struct("!i")
_HEAD: Final = struct.Struct("!cIH")
_NULL: Final = _LENGTH.pack(-1)
_MICROSECOND: Final = datetime.timedelta(microseconds=1)
_MIDNIGHT: Final = EPOCH_DATE.toordinal() + POSTGRES_EPOCH_DAYS


def encode_row(values: Sequence[Any], types: Sequence[DataType], formats: Sequence[int]) -> bytes:
    """The DataRow message of one row; see `rows.encode_rows` for the parameters."""
    parts: list[bytes] = []
    size = 6
    for value, type_, format_ in zip(values, types, formats):
        if value is None:
            parts.append(_NULL)
            size += 4
            continue
        if format_ != TEXT:
            data = _BINARY[type_.kind](value)
        elif type_.kind in _TEXTS:
            data = _TEXTS[type_.kind](value)
        else:
            data = spelt_value(type_, value).encode()
        parts += _LENGTH.pack(len(data)), data
        size += 4 + len(data)
    return b"".join((_HEAD.pack(DATA_ROW, size, len(types)), *parts))


def _packed(form: str) -> Callable[[Any], bytes]:
    return struct.Struct(form).pack


def _microseconds(value: datetime.datetime) -> bytes:
    return _INT64((value - EPOCH_TIMESTAMP) // _MICROSECOND - POSTGRES_EPOCH_MICROSECONDS)


_INT64: Final = _packed("!q")
_INTEGERS: Final = (Kind.TINYINT, Kind.SMALLINT, Kind.INT, Kind.BIGINT)
_TEXTS: Final[dict[Kind, Callable[[Any], bytes]]] = {
    Kind.BOOLEAN: lambda value: b"t" if value else b"f",
    **dict.fromkeys(_INTEGERS, lambda value: b"%d" % value),
    Kind.STRING: str.encode,
    Kind.BINARY: lambda value: b"\\x" + value.hex().encode(),
}
_BINARY: Final[dict[Kind, Callable[[Any], bytes]]] = {
    Kind.BOOLEAN: _packed("!?"),
    Kind.TINYINT: _packed("!h"),
    Kind.SMALLINT: _packed("!h"),
    Kind.INT: _packed("!i"),
    Kind.BIGINT: _INT64,
    Kind.FLOAT: _packed("!f"),
    Kind.DOUBLE: _packed("!d"),
    Kind.DECIMAL: numeric_to_bytes,
    Kind.DATE: lambda value: _LENGTH.pack(value.toordinal() - _MIDNIGHT),
    Kind.TIMESTAMP: _microseconds,
    Kind.STRING: str.encode,
    Kind.BINARY: bytes,
}
