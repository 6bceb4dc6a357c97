"""Encodings of bytes as texts, in whole columns: hex and base64; rows of an unusual shape, and escape, one by one.

base64    three bytes  ──►  two numbers of 12 bits  ──►  two look-ups of two characters
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable
from typing import Final

import numpy as np
import pyarrow as pa

from ....errors import InvalidText
from ....model import arrow_functions as pc
from ....model.types import DataType
from ....model.vectors.vector import Array, Const, Text, Vector
from ..byte_rows import hex_of_bytes, texts_of
from ..distinct import per_distinct
from .like_search import bytes_of
from .text_pieces import over_entries

_LINE: Final = 76
"""Characters of a line of base64."""
_ALPHABET: Final = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
_PAD: Final = ord("=")
_INVALID: Final = 0xFF


def _table(digits: dict[int, int]) -> Array:
    """Return the value of each byte as a digit; `_INVALID` for others."""
    values = np.full(256, _INVALID, np.uint8)
    values[list(digits)] = list(digits.values())
    return values


_PAIRS: Final = np.frombuffer(b"".join(bytes([a, b]) for a in _ALPHABET for b in _ALPHABET), np.uint16)
"""The two characters of base64 for 12 bits."""
_OF_BASE64: Final = _table({byte: value for value, byte in enumerate(_ALPHABET)} | {_PAD: 0})
_OF_HEX: Final = _table({ord(digit): int(digit, 16) for digit in "0123456789abcdefABCDEF"})


# ---- one value -------------------------------------------------------------------------------------------------------


def encode(value: str | bytes, form: str) -> str:
    """Encode bytes as text: hex, base64 (lines of 76 characters) or escape."""
    data = value.encode() if isinstance(value, str) else value
    form = form.lower()
    if form == "hex":
        return data.hex()
    if form == "base64":
        whole = base64.b64encode(data).decode()
        return "\n".join(whole[i : i + _LINE] for i in range(0, len(whole), _LINE))
    if form == "escape":
        return "".join("\\\\" if b == 92 else chr(b) if 0 < b < 128 else f"\\{b:03o}" for b in data)
    raise InvalidText(f"there is no encoding '{form}'; there are hex, base64 and escape")


def decode(text: str, form: str) -> bytes:
    """The inverse of `encode`."""
    form = form.lower()
    try:
        if form == "hex":
            return bytes.fromhex(text)
        if form == "base64":
            return base64.b64decode("".join(text.split()), validate=True)
    except (ValueError, binascii.Error):
        raise InvalidText(f"'{text}' is not {form}") from None
    if form == "escape":
        return re.sub(rb"\\(\\|[0-3][0-7]{2})", _unescaped, text.encode())
    raise InvalidText(f"there is no encoding '{form}'; there are hex, base64 and escape")


def _unescaped(match: re.Match[bytes]) -> bytes:
    return b"\\" if match[1] == b"\\" else bytes([int(match[1], 8)])


# ---- columns ---------------------------------------------------------------------------------------------------------


def _cleaned(array: pa.Array) -> tuple[Array, Array]:
    """Return the bytes of texts or binaries, and the offsets (int64) of the rows in them; NULLs have no bytes."""
    empty = b"" if pa.types.is_binary(array.type) else ""
    data, begins = bytes_of(array.fill_null(empty) if array.null_count else array)
    return data, begins.astype(np.int64)


def _hex(type_: DataType, value: Vector) -> Vector:
    data, begins = _cleaned(value.to_arrow())
    return Text(type_, texts_of(hex_of_bytes(data), begins * 2, value.validity))


def _base64(type_: DataType, value: Vector) -> Vector:
    array = value.to_arrow()
    long = pc.greater(pc.binary_length(array), _LINE // 4 * 3).fill_null(False)
    if not pc.any(long).as_py():
        return Text(type_, _one_line(array, value.validity))
    whole = _one_line(pc.if_else(long, pa.scalar("", array.type), array), value.validity)
    lines = [encode(data, "base64") for data in array.filter(long).to_pylist()]
    return Text(type_, pc.replace_with_mask(whole, long, pa.array(lines, pa.string())))


def _one_line(array: pa.Array, validity: Array | None) -> pa.Array:
    data, begins = _cleaned(array)
    lengths = np.diff(begins)
    groups = np.concatenate([[0], np.cumsum((lengths + 2) // 3)])
    padded = np.zeros(3 * int(groups[-1]), np.uint8)
    padded[np.arange(len(data)) + np.repeat(3 * groups[:-1] - begins[:-1], lengths)] = data
    first, second, third = (padded[place::3].astype(np.uint16) for place in range(3))
    shown = np.empty((int(groups[-1]), 2), np.uint16)
    shown[:, 0] = _PAIRS.take(first << 4 | second >> 4)
    shown[:, 1] = _PAIRS.take((second & 15) << 8 | third)
    characters = shown.view(np.uint8).reshape(-1)
    ends = 4 * groups[1:]
    characters[ends[lengths % 3 > 0] - 1] = _PAD
    characters[ends[lengths % 3 == 1] - 2] = _PAD
    return texts_of(characters, 4 * groups, validity)


def _of_hex(data: Array, begins: Array) -> tuple[pa.Array, Array]:
    """Decode rows of digits; also return a mask of those that are such, all others are empty."""
    digits = _OF_HEX.take(data)
    regular = (np.diff(begins) & 1 == 0) & ~_holds(digits == _INVALID, begins)
    digits, begins = _kept(digits, begins, regular)
    return texts_of(digits[0::2] << 4 | digits[1::2], begins // 2, None, pa.binary()), regular


def _of_base64(data: Array, begins: Array) -> tuple[pa.Array, Array]:
    """The same for base64 without blanks, padded to multiples of four characters."""
    digits = _OF_BASE64.take(data)
    is_pad = data == _PAD
    ends = begins[1:]
    lengths = np.diff(begins)
    padded = np.concatenate([[False, False], is_pad])  # a row's last bytes, also where it has none
    last, before = padded[ends + 1] & (lengths > 0), padded[ends] & (lengths > 1)
    pads = last.astype(np.int64) + (last & before)
    found = np.concatenate([[0], np.cumsum(is_pad)])
    regular = (lengths & 3 == 0) & (found[ends] - found[begins[:-1]] == pads)
    regular &= ~_holds(digits == _INVALID, begins)
    digits, kept = _kept(digits, begins, regular)
    parts = digits.reshape(-1, 4).astype(np.uint32)
    words = parts[:, 0] << 18 | parts[:, 1] << 12 | parts[:, 2] << 6 | parts[:, 3]
    decoded = np.ascontiguousarray(words.astype(">u4")).view(np.uint8).reshape(-1, 4)[:, 1:].reshape(-1)
    sizes = np.diff(kept) // 4 * 3
    pads = np.where(regular, pads, 0)
    if pads.any():
        present = np.ones(len(decoded), np.bool_)
        stops = np.cumsum(sizes)
        present[stops[pads > 0] - 1] = False
        present[stops[pads > 1] - 2] = False
        decoded = decoded[present]
    offsets = np.concatenate([[0], np.cumsum(sizes - pads)])
    return texts_of(decoded, offsets, None, pa.binary()), regular


def _holds(flags: Array, begins: Array) -> Array:
    """Mask of the rows in which a flag is set."""
    found = np.zeros(len(begins) - 1, np.bool_)
    places = np.flatnonzero(flags)
    if len(places):
        found[np.searchsorted(begins, places, side="right") - 1] = True
    return found


def _kept(digits: Array, begins: Array, rows: Array) -> tuple[Array, Array]:
    """Return the digits of the rows of a mask, and the offsets of all rows in them."""
    if rows.all():
        return digits, begins
    lengths = np.diff(begins)
    offsets = np.concatenate([[0], np.cumsum(np.where(rows, lengths, 0))])
    return digits[np.repeat(rows, lengths)], offsets


_DECODERS: Final = {"hex": _of_hex, "base64": _of_base64}
_ENCODERS: Final = {"hex": _hex, "base64": _base64}


def _encoded(type_: DataType, value: Vector, form: Vector) -> Vector:
    kernel = _ENCODERS.get(str(form.value).lower()) if isinstance(form, Const) else None
    if kernel is None:
        return per_distinct(encode, type_, (value, form))
    return over_entries(kernel, type_, value, ())


def _decoded(type_: DataType, value: Vector, form: Vector) -> Vector:
    if not isinstance(form, Const) or (decoder := _DECODERS.get(str(form.value).lower())) is None:
        return per_distinct(decode, type_, (value, form))

    def kernel(type_: DataType, texts: Vector) -> Vector:
        found, regular = decoder(*_cleaned(texts.to_arrow()))
        validity = texts.validity
        others = np.flatnonzero(~regular if validity is None else ~regular & validity)
        if len(others):
            same = Const(form.type, form.value, len(others))
            single = per_distinct(decode, type_, (texts.take(others), same))
            mask = np.zeros(len(regular), np.bool_)
            mask[others] = True
            found = pc.replace_with_mask(found, pa.array(mask), single.to_arrow())
        return Text(type_, found if validity is None else pc.if_else(pa.array(validity), found, None))

    return over_entries(kernel, type_, value, ())


KERNELS: dict[str, Callable[..., Vector]] = {"encode": _encoded, "decode": _decoded}
