"""Physical values as msgpack has them, and back: the one place that packs integers wider than 64 bits.

msgpack's integers end at 64 bits; DECIMAL(38) goes beyond. Such an integer is encoded as an extension with its two's
complement bytes, and so is an `Interval`. If a format says that a value is a decimal, it has 16 bytes
(`decimal_to_bytes`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import wraps
from typing import Any, TypeVar

import numpy as np
from msgspec.msgpack import Ext

from ... import errors
from ..types import Interval

T = TypeVar("T")
_WIDE = 1
_INTERVAL = 2
_LOW, _HIGH = -(2**63), 2**64
_DECIMAL_BYTES = 16
_PACKED = frozenset((str, bytes, float, bool, type(None)))
"""Types whose values are packed as they are."""
_UNPACKED = _PACKED | {int}
"""Types of values that need no decoding."""
_EXACT: dict[type, Callable[[Any], Any]] = {str: str.__str__, bytes: bytes.__bytes__, float: float.__float__}


def value_to_plain(value: Any) -> Any:
    """Encodes a physical value, or a tuple, list or map of such."""
    if type(value) in _PACKED:
        return value
    if type(value) is int and _LOW <= value < _HIGH:
        return value
    if isinstance(value, Interval):
        return Ext(_INTERVAL, b"".join(_bytes_of(part, 8) for part in value))
    if isinstance(value, np.generic):
        return value_to_plain(value.item())
    if isinstance(value, int):
        return int(value) if _LOW <= value < _HIGH else Ext(_WIDE, _bytes_of(value, value.bit_length() // 8 + 1))
    if isinstance(value, tuple | list):
        return [value_to_plain(item) for item in value]
    if isinstance(value, dict):
        return {name: value_to_plain(item) for name, item in value.items()}
    for base, exact in _EXACT.items():
        if isinstance(value, base):  # of a class of the caller's
            return exact(value)
    raise errors.InternalError(f"{type(value).__name__} is no physical value and cannot be packed")


def value_from_plain(data: Any) -> Any:
    """Decodes the value of `value_to_plain`; lists become tuples. Raises `ProtocolError` if it is invalid."""
    if isinstance(data, Ext):
        return value_from_extension(data.code, bytes(data.data))
    if isinstance(data, list | tuple):
        return tuple([value_from_plain(item) for item in data])
    if isinstance(data, dict):
        return {name: value_from_plain(item) for name, item in data.items()}
    return data


def value_from_extension(code: int, content: bytes) -> Any:
    """Decodes the value in an extension of msgpack. Raises `ProtocolError` if it is invalid."""
    if code == _WIDE:
        return int.from_bytes(content, "little", signed=True)
    if code == _INTERVAL and len(content) == 24:
        return Interval(*(int.from_bytes(content[i : i + 8], "little", signed=True) for i in (0, 8, 16)))
    raise errors.ProtocolError(f"a value of an unknown sort ({code}, {len(content)} bytes)")


def row_to_plain(row: tuple[Any, ...]) -> tuple[Any, ...]:
    """Encodes the physical values of a row: itself, if msgpack has all of its values."""
    if _PACKED.issuperset(map(type, row)):
        return row
    return tuple([value_to_plain(value) for value in row])


def row_from_plain(data: tuple[Any, ...]) -> tuple[Any, ...]:
    """The values of `row_to_plain`."""
    if _UNPACKED.issuperset(map(type, data)):
        return data
    return tuple([value_from_plain(value) for value in data])


def map_to_plain(row: Mapping[str, Any]) -> dict[str, Any]:
    """Encodes values by name, as those of a row by column or of a table by field."""
    return {name: value_to_plain(value) for name, value in row.items()}


def map_from_plain(data: Mapping[str, Any]) -> dict[str, Any]:
    """The values of `map_to_plain`."""
    return {name: value_from_plain(value) for name, value in data.items()}


def key_to_plain(key: Iterable[Any]) -> tuple[Any, ...]:
    """Encodes a primary key's physical values."""
    return row_to_plain(tuple(key))


def key_from_plain(data: Iterable[Any]) -> tuple[Any, ...]:
    """The values of `key_to_plain`."""
    return row_from_plain(tuple(data))


def decimal_to_bytes(value: int | None) -> bytes | None:
    """Encodes a decimal's physical value in 16 bytes, as Arrow has it: two's complement, little-endian."""
    return None if value is None else int(value).to_bytes(_DECIMAL_BYTES, "little", signed=True)


def decimal_from_bytes(data: bytes | None) -> int | None:
    """Decodes the value of `decimal_to_bytes`."""
    return None if data is None else int.from_bytes(data, "little", signed=True)


def reads(what: str) -> Callable[[Callable[[Any], T]], Callable[[Mapping[str, Any]], T]]:
    """Decorates a function that reads plain data: malformed data is a `ProtocolError` that calls it `what`."""

    def decorate(function: Callable[[Any], T]) -> Callable[[Mapping[str, Any]], T]:
        @wraps(function)
        def read(data: Mapping[str, Any]) -> T:
            try:
                return function(data)
            except errors.Error:
                raise
            except KeyError as error:
                raise errors.ProtocolError(f"malformed {what}: there is no {error}") from None
            except (TypeError, ValueError, IndexError, AttributeError, OverflowError) as error:
                raise errors.ProtocolError(f"malformed {what}: {error}") from None

        return read

    return decorate


def _bytes_of(value: int, length: int) -> bytes:
    return int(value).to_bytes(length, "little", signed=True)
