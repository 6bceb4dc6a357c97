"""Physical values as msgpack has them, and back.

msgpack's integers end at 64 bits; DECIMAL(38) goes beyond. Such an integer is encoded as an extension with its two's
complement bytes, and so is an `Interval`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from msgspec.msgpack import Ext

from ... import errors
from ..types import Interval

_WIDE = 1
_INTERVAL = 2
_LOW, _HIGH = -(2**63), 2**64


def value_to_plain(value: Any) -> Any:
    """Encodes a physical value, or a tuple or list of such."""
    if type(value) in (str, bytes, float, bool, type(None)):
        return value
    if isinstance(value, Interval):
        return Ext(_INTERVAL, b"".join(_bytes_of(part, 8) for part in value))
    if isinstance(value, np.generic):
        return value_to_plain(value.item())
    if isinstance(value, int):
        return value if _LOW <= value < _HIGH else Ext(_WIDE, _bytes_of(value, (value.bit_length() + 8) // 8))
    if isinstance(value, tuple | list):
        return [value_to_plain(item) for item in value]
    raise errors.InternalError(f"{type(value).__name__} is no physical value and cannot travel")


def value_from_plain(data: Any) -> Any:
    """Decodes the value of `value_to_plain`; lists become tuples. Raises `ProtocolError` if it is invalid."""
    if isinstance(data, Ext):
        content = bytes(data.data)
        if data.code == _WIDE:
            return int.from_bytes(content, "little", signed=True)
        if data.code == _INTERVAL and len(content) == 24:
            return Interval(*(int.from_bytes(content[i : i + 8], "little", signed=True) for i in (0, 8, 16)))
        raise errors.ProtocolError(f"a value of an unknown sort ({data.code}, {len(content)} bytes)")
    if isinstance(data, list | tuple):
        return tuple(value_from_plain(item) for item in data)
    return data


def row_to_plain(row: Mapping[str, Any]) -> dict[str, Any]:
    """Encodes physical values by column name."""
    return {name: value_to_plain(value) for name, value in row.items()}


def row_from_plain(data: Mapping[str, Any]) -> dict[str, Any]:
    """The values of `row_to_plain`."""
    return {name: value_from_plain(value) for name, value in data.items()}


def key_to_plain(key: Iterable[Any]) -> tuple[Any, ...]:
    """Encodes a primary key's physical values."""
    return tuple(value_to_plain(value) for value in key)


def key_from_plain(data: Iterable[Any]) -> tuple[Any, ...]:
    """The values of `key_to_plain`."""
    return tuple(value_from_plain(value) for value in data)


def _bytes_of(value: int, length: int) -> bytes:
    return int(value).to_bytes(length, "little", signed=True)
