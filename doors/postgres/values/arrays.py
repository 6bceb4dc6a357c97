"""Arrays, which are texts such as `{1,2}` in nyala, in the binary format: dimensions, element type, elements."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any, Final

import numpy as np
import pyarrow as pa

from ....errors import InvalidText
from ....sql.array_text import parse_array, write_array

_HEAD: Final = struct.Struct("!iii")
_DIMENSION: Final = struct.Struct("!ii")
_LENGTH: Final = struct.Struct("!i")
_NUMBERS: Final = {16: "!?", 21: "!h", 23: "!i", 20: "!q", 26: "!I", 700: "!f", 701: "!d"}
"""The binary formats of elements that are numbers, by the oid of their type; those of others are their texts."""
_FALSE: Final = ("f", "false", "0")


def array_to_bytes(text: str, element: int) -> bytes:
    """An array in the binary format; `element` is the oid of the elements' type.

    >>> array_to_bytes("{1,NULL}", 23).hex(" ", 4)
    '00000001 00000001 00000017 00000002 00000001 00000004 00000001 ffffffff'
    """
    values = parse_array(text)
    first = 1 if text.startswith("{") else 0  # the vectors of the catalogs are counted from 0
    parts = [_HEAD.pack(1 if values else 0, None in values, element)]
    if values:
        parts.append(_DIMENSION.pack(len(values), first))
    for value in values:
        if value is None:
            parts.append(_LENGTH.pack(-1))
        else:
            data = _element(value, element)
            parts += _LENGTH.pack(len(data)), data
    return b"".join(parts)


def _element(value: str, oid: int) -> bytes:
    form = _NUMBERS.get(oid)
    if form is None:
        return value.encode()
    number: Any = value not in _FALSE if oid == 16 else float(value) if oid in (700, 701) else int(value)
    return struct.pack(form, number)


def array_from_bytes(data: bytes, element: int) -> str:
    """The text of an array of one dimension; `element` is the oid that its elements must have.

    Raises `InvalidText` if the bytes are no such array.
    """
    try:
        return write_array(_elements(data, element))
    except (struct.error, UnicodeDecodeError, IndexError):
        raise InvalidText(f"{len(data)} bytes are not a binary array") from None


def _elements(data: bytes, element: int) -> list[str | None]:
    dimensions, _, oid = _HEAD.unpack_from(data)
    if dimensions not in (0, 1) or oid != element:
        raise InvalidText("an array parameter must have one dimension, and elements of the type that was described")
    if not dimensions:
        return []
    count, _ = _DIMENSION.unpack_from(data, _HEAD.size)
    place, found = _HEAD.size + _DIMENSION.size, list[str | None]()
    while len(found) < count:
        (length,) = _LENGTH.unpack_from(data, place)
        place += _LENGTH.size
        if length < 0:
            found.append(None)
            continue
        if place + length > len(data):
            raise InvalidText("an array parameter ends within an element")
        found.append(_shown(data[place : place + length], oid))
        place += length
    return found


def _shown(data: bytes, oid: int) -> str:
    form = _NUMBERS.get(oid)
    if form is None:
        return data.decode()
    (value,) = struct.unpack(form, data)
    return str(value).lower() if oid == 16 else str(value)


def binary_arrays(array: pa.Array, encode: Callable[[str], bytes]) -> tuple[Any, Any]:
    """Lengths and bytes of the values of a column of arrays; of a NULL none. A catalog has few."""
    values = [b"" if value is None else encode(value) for value in array.to_pylist()]
    lengths = np.array([len(value) for value in values], np.int32)
    return lengths, np.frombuffer(b"".join(values), np.uint8)
