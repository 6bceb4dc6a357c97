"""The binary form of DECIMAL: digits of base 10,000, for whole columns and single values.

    digits (int16)   weight (int16)   sign (uint16: 0, 0x4000 negative, 0xC000 not a number)   scale (int16)   digit ...

The value is the sum of digit[i] * 10,000 ** (weight - i). Leading and trailing digits that are zero are left out, so
zero has none. 12345.678 is 4 digits, weight 1: 1, 2345, 6780.
"""

from __future__ import annotations

import decimal
import struct
from typing import Any, Final

import numpy as np
import pyarrow as pa

from ....errors import InvalidText
from ....model.arrow_arrays import fill_nulls
from ....model.types import DataType
from . import kernels

_BASE: Final = 10_000
_NEGATIVE: Final = 0x4000
_PADDING: Final = ("", "000", "00", "0")
"""Zeros behind a fraction whose length has this remainder by 4."""
_HEAD: Final = struct.Struct("!hhHh")
_SPECIAL: Final = {0xC000: "NaN", 0xD000: "Infinity", 0xF000: "-Infinity"}


_MOST_BYTES: Final = 32
"""Of a numeric with the 38 digits that a DECIMAL may have."""


def numeric_fields(type_: DataType, array: pa.Array, nulls: Any = None) -> tuple[Any, Any]:
    """The binary form of a column of DECIMAL.

    Parameters
    ----------
    type_ : DataType
    array : pa.Array
    nulls : ndarray of bool, optional
        True where a value is NULL; None: nowhere.

    Returns
    -------
    lengths : ndarray of int32, shape (n_rows,)
        0 for a NULL.
    data : ndarray of uint8
        The values one after the other.
    """
    if kernels.compiled is None:
        return _fields_by_numpy(type_, array, nulls)
    rows = len(array)
    words = np.frombuffer(array.buffers()[1], np.uint8)[16 * array.offset : 16 * (array.offset + rows)]
    lengths, data = np.empty(rows, np.int32), np.empty(_MOST_BYTES * rows, np.uint8)
    size = kernels.compiled.write_numerics(words, type_.scale or 0, nulls, lengths, data)
    return lengths, data[:size]


def _fields_by_numpy(type_: DataType, array: pa.Array, nulls: Any) -> tuple[Any, Any]:
    lengths, data = _all_fields(type_, array if nulls is None else fill_nulls(array, 0))
    if nulls is None:
        return lengths, data
    kept = ~np.repeat(nulls, lengths)
    return np.where(nulls, 0, lengths).astype(np.int32), data[kept]


def _all_fields(type_: DataType, array: pa.Array) -> tuple[Any, Any]:
    scale = type_.scale or 0
    sign, digits = _digits(array, type_.precision or 0, scale)
    groups = digits.shape[1]
    is_set = digits != 0
    is_zero = ~is_set.any(axis=1)
    first = np.where(is_zero, 0, is_set.argmax(axis=1))
    last = np.where(is_zero, 0, groups - is_set[:, ::-1].argmax(axis=1))
    counts = last - first
    head = np.empty((len(array), 4), ">i2")
    head[:, 0] = counts
    whole = groups - -(-scale // 4)  # groups before the point
    head[:, 1] = np.where(is_zero, 0, whole - 1 - first)
    head[:, 2] = np.where(sign & ~is_zero, _NEGATIVE, 0)
    head[:, 3] = scale
    words = np.empty((len(array), 4 + groups), ">i2")
    words[:, :4] = head
    words[:, 4:] = digits
    places = np.arange(groups)
    kept = np.empty(words.shape, np.bool_)
    kept[:, :4] = True
    kept[:, 4:] = (places >= first[:, None]) & (places < last[:, None])
    return (8 + 2 * counts).astype(np.int32), words[kept].view(np.uint8)


def _digits(array: pa.Array, precision: int, scale: int) -> tuple[Any, Any]:
    """Signs, and digits of base 10,000 from the highest, of which those behind the point are aligned to it."""
    words = np.frombuffer(array.buffers()[1], np.uint64)[2 * array.offset : 2 * (array.offset + len(array))]
    low, high = words[0::2], words[1::2]
    sign = high.view(np.int64) < 0
    padding = -scale % 4
    groups = -(-max(precision - scale, 0) // 4) + -(-scale // 4)
    if precision + padding <= 18:
        rest = np.abs(low.view(np.int64)) * 10**padding
        digits = np.empty((len(array), groups), np.int16)
        for group in range(groups - 1, -1, -1):
            above = rest // _BASE
            digits[:, group] = rest - above * _BASE
            rest = above
        return sign, digits
    # 160 bits in limbs of 32, the lowest first: room for the padding.
    low, high = np.where(sign, ~low + np.uint64(1), low), np.where(sign, ~high + (low == 0), high)
    mask = np.uint64(0xFFFFFFFF)
    limbs = [low & mask, low >> np.uint64(32), high & mask, high >> np.uint64(32)]
    carry = np.zeros(len(array), np.uint64)
    for place, limb in enumerate(limbs):
        product = limb * np.uint64(10**padding) + carry
        limbs[place], carry = product & mask, product >> np.uint64(32)
    limbs.append(carry)
    digits = np.empty((len(array), groups), np.int16)
    base, shift = np.uint64(_BASE), np.uint64(32)
    for group in range(groups - 1, -1, -1):
        remainder = np.zeros(len(array), np.uint64)
        for place in range(4, -1, -1):
            value = remainder << shift | limbs[place]
            limbs[place] = value // base
            remainder = value - limbs[place] * base
        digits[:, group] = remainder
    return sign, digits


def numeric_from_bytes(data: bytes) -> decimal.Decimal:
    """The value of one binary numeric. Raises `InvalidText` if it is malformed."""
    if len(data) < 8:
        raise InvalidText("a binary numeric is too short")
    count, weight, sign, scale = _HEAD.unpack_from(data)
    if sign in _SPECIAL:
        return decimal.Decimal(_SPECIAL[sign])
    if sign not in (0, _NEGATIVE) or count < 0 or len(data) != 8 + 2 * count or scale < 0:
        raise InvalidText("a binary numeric is malformed")
    digits = struct.unpack_from(f"!{count}h", data, 8)
    if any(not 0 <= digit < _BASE for digit in digits):
        raise InvalidText("a binary numeric has an invalid digit")
    unscaled = 0
    for digit in digits:
        unscaled = unscaled * _BASE + digit
    # Exact: the context of a thread may have less than the 38 digits of a DECIMAL.
    value = decimal.Decimal((int(sign == _NEGATIVE), tuple(map(int, str(unscaled))), 4 * (weight - count + 1)))
    exponent = value.as_tuple().exponent
    assert isinstance(exponent, int)
    if exponent > -scale:
        value = decimal.Decimal((int(sign == _NEGATIVE), (*value.as_tuple().digits, *[0] * (exponent + scale)), -scale))
    elif exponent < -scale:
        value = value.quantize(decimal.Decimal(1).scaleb(-scale), context=_EXACT)
    return value


_EXACT: Final = decimal.Context(prec=200_000)


def numeric_to_bytes(value: decimal.Decimal) -> bytes:
    """The binary form of one finite value."""
    text = str(value)  # its digits as a tuple would take four times as long
    if "E" in text:
        text = f"{value:f}"
    is_negative = text[0] == "-"
    whole, _, fraction = text[is_negative:].partition(".")
    scale = len(fraction)
    unscaled = int(whole + fraction + _PADDING[scale % 4])
    groups: list[int] = []
    while unscaled:
        unscaled, digit = divmod(unscaled, _BASE)
        groups.append(digit)
    weight = len(groups) - 1 - -(-scale // 4)
    groups.reverse()
    while groups and not groups[-1]:
        groups.pop()
    head = _HEAD.pack(len(groups), weight if groups else 0, _NEGATIVE if is_negative and groups else 0, scale)
    return head + struct.pack(f"!{len(groups)}h", *groups)
