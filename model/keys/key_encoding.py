"""Encoded keys: one key as bytes that compare (memcmp) exactly as the values compare, one after the other.

| column | bytes |
|---|---|
| TINYINT, SMALLINT, INT, BIGINT | 1, 2, 4, 8: big-endian, sign bit flipped |
| DATE, TIMESTAMP | 4, 8: the same, of days and microseconds |
| DECIMAL(p, s) | 4 (p <= 9), 8 (p <= 18) or 16: the same, of the unscaled value |
| STRING, BINARY in the last place | its bytes (UTF-8) as they are |
| STRING, BINARY elsewhere | its bytes with 0x00 written as 0x00 0x01, then 0x00 0x00 |

The key (INT 1, STRING "a\\0b", STRING "c") is

    80 00 00 01 │ 61 00 01 62 00 00 │ 63
    sign flipped  escaped, ended      last: raw

No encoded value but the last is a prefix of another one, so the encoding of a key's first values is a prefix of the
whole key's encoding and `prefix_end` bounds all keys that start with them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from ...errors import DataError
from .. import arrow_functions as pc
from ..arrow_arrays import arrow_array, numpy_array
from ..types import DataType, Kind
from ..vectors.vector import Array

END = b"\0\0"
"""Ends a STRING or BINARY that is not the key's last value."""


def key_width(type_: DataType) -> int | None:
    """Bytes that a value of the type takes in an encoded key; None for STRING and BINARY."""
    if type_.is_text:
        return None
    if type_.kind is Kind.DECIMAL and type_.precision is not None and type_.precision > 18:
        return 16
    return type_.dtype.itemsize


def encode_key(types: Sequence[DataType], values: Sequence[Any]) -> bytes:
    """The encoded key of one row, or of its first values.

    Parameters
    ----------
    types : sequence of DataType
        All columns of the key: the last one is encoded without terminator.
    values : sequence
        Physical values; fewer than the types encode a prefix.

    Examples
    --------
    >>> from nyala.model.types import INT, STRING
    >>> encode_key((INT, STRING), (1, "a")).hex(" ")
    '80 00 00 01 61'
    >>> encode_key((STRING, INT), ("a",)).hex(" ")
    '61 00 00'
    """
    last = len(types) - 1
    return b"".join([_encode_value(types[i], value, i == last) for i, value in enumerate(values)])


def _encode_value(type_: DataType, value: Any, last: bool) -> bytes:
    width = key_width(type_)
    if width is None:
        data = value.encode() if isinstance(value, str) else bytes(value)
        return data if last else data.replace(b"\0", b"\0\1") + END
    try:
        return (int(value) + (1 << (8 * width - 1))).to_bytes(width, "big")
    except OverflowError:
        raise DataError(f"{value} does not fit a key column of type {type_}") from None


def decode_key(types: Sequence[DataType], data: bytes) -> tuple[Any, ...]:
    """The physical values of an encoded key; `DataError` where the bytes are not a key of these types.

    >>> from nyala.model.types import INT, STRING
    >>> decode_key((INT, STRING), bytes.fromhex("80000001 61"))
    (1, 'a')
    """
    values: list[Any] = []
    place = 0
    for i, type_ in enumerate(types):
        width = key_width(type_)
        if width is not None:
            end = place + width
            if end > len(data):
                raise _not_a_key(types, data)
            values.append(int.from_bytes(data[place:end], "big") - (1 << (8 * width - 1)))
        else:
            end, raw = _decode_text(types, data, place, last=i == len(types) - 1)
            values.append(raw.decode() if type_.kind is Kind.STRING else raw)
        place = end
    if place != len(data):
        raise _not_a_key(types, data)
    return tuple(values)


def _decode_text(types: Sequence[DataType], data: bytes, place: int, last: bool) -> tuple[int, bytes]:
    if last:
        return len(data), data[place:]
    # Inside a value every zero is followed by 0x01, so the first pair of zeros is the terminator.
    end = data.find(END, place)
    if end < 0:
        raise _not_a_key(types, data)
    return end + 2, data[place:end].replace(b"\0\1", b"\0")


def _not_a_key(types: Sequence[DataType], data: bytes) -> DataError:
    return DataError(f"{data.hex(' ') or 'no bytes'} is not an encoded key of ({', '.join(map(str, types))})")


def prefix_end(prefix: bytes) -> bytes | None:
    """The smallest byte string above everything that starts with `prefix`; None where there is none.

    >>> prefix_end(b"ab"), prefix_end(b"a" + bytes([255])), prefix_end(b"")
    (b'ac', b'b', None)
    """
    stripped = prefix.rstrip(b"\xff")
    return stripped[:-1] + bytes([stripped[-1] + 1]) if stripped else None


def search_encoded(ascending: pa.Array, probes: pa.Array, right: bool = False) -> Array:
    """Positions of probes among ascending encoded keys: `numpy.searchsorted` over bytes.

    Parameters
    ----------
    ascending, probes : Arrow binary arrays without nulls
    right : bool
        After equal keys instead of before them.

    Returns
    -------
    ndarray of intp, shape (n_probes,)
        By binary search of all probes together: about log2(len(ascending)) Arrow kernels.
    """
    compare = pc.less_equal if right else pc.less
    low = np.zeros(len(probes), np.intp)
    high = np.full(len(probes), len(ascending), np.intp)
    while True:
        open_ = np.flatnonzero(low < high)
        if not len(open_):
            return low
        middle = (low[open_] + high[open_]) >> 1
        before = compare(ascending.take(arrow_array(middle)), probes.take(arrow_array(open_)))
        goes_up = numpy_array(before)
        low[open_] = np.where(goes_up, middle + 1, low[open_])
        high[open_] = np.where(goes_up, high[open_], middle)
