"""Functions of single characters in whole columns: translation, case of words, code points, hexadecimal digits.

    bytes of all texts  ── table of 256 entries ──►  bytes of the results      if only ASCII characters change
    code points         ── table of characters  ──►  code points               else

A byte below 0x80 is a character of its own in UTF-8, wherever it stands.
"""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np
import pyarrow as pa

from ....errors import DataError
from ....model import arrow_functions as pc
from ....model.arrow_arrays import arrow_array, fill_nulls, numpy_array
from ....model.types import DataType
from ....model.vectors.vector import Array, Flat, Text, Vector
from ..byte_rows import hex_digits, significant, texts_of, texts_of_matrix
from ..numbers.bounded_integers import integers
from .like_search import bytes_of
from .regex_matches import is_ascii
from .text_pieces import over_entries

_WORD = re.compile(r"[^\W_]+")
_DROPPED = 0xFFFFFFFF
_FIRST_OF_WIDTH = (0x80, 0x800, 0x10000)
"""Code points from which on a character takes two, three and four bytes."""


def _cleaned(texts: pa.Array) -> tuple[Array, Array]:
    """Return the bytes of texts, and the offsets (int64) of the rows in them; NULLs have no bytes."""
    data, begins = bytes_of(fill_nulls(texts, ""))
    return data, begins.astype(np.int64)


def translate(type_: DataType, value: Vector, old: Vector, new: Vector) -> Vector:
    """Replace each character of `old` with that of `new` at the same position, or drop it if `new` is shorter."""
    return over_entries(_translated, type_, value, (), (old, new), translated)


def translated(text: str, old: str, new: str) -> str:
    """`translate` of one text."""
    table: dict[int, str | None] = {}
    for index, character in enumerate(old):
        table.setdefault(ord(character), new[index] if index < len(new) else None)
    return text.translate(table)


def _translated(type_: DataType, value: Vector, old: str, new: str) -> Vector:
    texts = value.to_arrow()
    data, begins = _cleaned(texts)
    table: dict[int, int] = {}
    for index, character in enumerate(old):
        table.setdefault(ord(character), ord(new[index]) if index < len(new) else _DROPPED)
    if all(code < 0x80 and (to < 0x80 or to == _DROPPED) for code, to in table.items()):
        characters, bounds = data, begins
    else:
        characters = np.frombuffer(data.tobytes().decode().encode("utf-32-le"), np.uint32)
        lengths = numpy_array(fill_nulls(pc.utf8_length(texts), 0))
        bounds = np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])
    result, dropped = _mapped(characters, table)
    if dropped.any():
        kept = np.concatenate([[0], np.cumsum(~dropped, dtype=np.int64)])
        result, bounds = result[~dropped], kept[bounds]
    return Text(type_, _of_characters(result, bounds, value.validity))


def _mapped(characters: Array, table: dict[int, int]) -> tuple[Array, Array]:
    """Return the characters by the table, and a mask of those that it drops."""
    if characters.dtype == np.uint8:
        codes = np.arange(256, dtype=np.uint8)
        out = np.zeros(256, np.bool_)
        for code, to in table.items():
            out[code] = to == _DROPPED
            codes[code] = code if to == _DROPPED else to
        return codes.take(characters), out.take(characters)
    known = np.array(sorted(table), np.uint32)
    targets = np.array([table[code] for code in known.tolist()], np.uint32)
    places = np.minimum(np.searchsorted(known, characters), len(known) - 1)
    result = np.where(known.take(places) == characters, targets.take(places), characters)
    return result, result == _DROPPED


def _of_characters(characters: Array, bounds: Array, validity: Array | None) -> pa.Array:
    """Make texts of characters: bytes of ASCII and parts of UTF-8, or code points (uint32)."""
    if characters.dtype == np.uint8:
        return texts_of(characters, bounds, validity)
    widths = np.ones(len(characters), np.uint8)
    for first in _FIRST_OF_WIDTH:
        widths += characters >= first
    offsets = np.concatenate([[0], np.cumsum(widths, dtype=np.int64)])[bounds]
    data = np.frombuffer(characters.tobytes().decode("utf-32-le").encode(), np.uint8)
    return texts_of(data, offsets, validity)


def initcap(type_: DataType, value: Vector) -> Vector:
    """Capitalize the first letter of each word, the others in lower case; words consist of letters and digits."""
    return over_entries(_capitalized, type_, value, ())


def _capitalized(type_: DataType, value: Vector) -> Vector:
    texts = value.to_arrow()
    data, begins = _cleaned(texts)
    lower = _LOWER.take(data)
    in_word = _IN_WORD.take(data)
    starts = in_word.copy()
    starts[1:] &= ~in_word[:-1]
    first = begins[:-1][begins[:-1] < begins[1:]]
    starts[first] = in_word[first]
    found = texts_of(np.where(starts, _UPPER.take(data), lower), begins, value.validity)
    if is_ascii(data):
        return Text(type_, found)
    # Case beyond ASCII: a letter may become two, so these rows alone go through Python's tables of Unicode.
    rows = np.flatnonzero(~numpy_array(fill_nulls(pc.string_is_ascii(texts), True)))
    changed = [_capitalized_text(text) for text in texts.take(arrow_array(rows)).to_pylist()]
    mask = np.zeros(len(texts), np.bool_)
    mask[rows] = True
    return Text(type_, pc.replace_with_mask(found, arrow_array(mask), arrow_array(changed, pa.string())))


def _capitalized_text(text: str) -> str:
    return _WORD.sub(lambda word: word[0][0].upper() + word[0][1:].lower(), text)


_LOWER = np.frombuffer(bytes(range(256)).lower(), np.uint8)
_UPPER = np.frombuffer(bytes(range(256)).upper(), np.uint8)
_IN_WORD = np.array([chr(code).isalnum() and code < 0x80 for code in range(256)])


def code_point(type_: DataType, value: Vector) -> Vector:
    """`ascii`: the code point of the first character; 0 for ''."""
    data, begins = _cleaned(value.to_arrow())
    padded = np.concatenate([data, np.zeros(4, np.uint8)])
    first = np.where(begins[:-1] < begins[1:], padded.take(begins[:-1]), 0).astype(np.int64)
    found = first.copy()
    wide = np.flatnonzero(first >= 0x80)
    if len(wide):
        lead, start = first[wide], begins[wide]
        size = 2 + (lead >= 0xE0) + (lead >= 0xF0)
        code = lead & (0x7F >> size)
        for index in range(1, 4):
            more = index < size
            code = np.where(more, code << 6 | padded.take(start + index) & 0x3F, code)
        found[wide] = code
    return Flat(type_, found.astype(type_.dtype), value.validity)


def character(type_: DataType, code: Vector) -> Vector:
    """`chr`: the character of a code point."""
    validity = code.validity
    codes = np.broadcast_to(integers(code), len(code)).astype(np.int64)
    if validity is not None:
        codes = np.where(validity, codes, 1)
    bad = (codes <= 0) | (codes >= 0x110000) | ((codes >= 0xD800) & (codes < 0xE000))
    if bool(bad.any()):
        first = int(codes[np.argmax(bad)])
        if first == 0:
            raise DataError("chr(0): no text can hold the character 0")
        raise DataError(f"chr({first}): there is no such character")
    bounds = np.arange(len(codes) + 1, dtype=np.int64)
    dtype = np.uint8 if int(codes.max(initial=0)) < 0x80 else np.uint32
    return Text(type_, _of_characters(codes.astype(dtype), bounds, validity))


def _to_hex(dtype: type[np.unsignedinteger]) -> Callable[..., Vector]:
    """`to_hex`: the number in hexadecimal; a negative one as its two's complement in the bits of `dtype`."""

    def kernel(type_: DataType, number: Vector) -> Vector:
        values = np.broadcast_to(integers(number), len(number)).astype(np.int64)
        unsigned = values.astype(dtype)
        shown = hex_digits(unsigned)[:, -max(1, (int(unsigned.max(initial=0)).bit_length() + 3) // 4) :]
        return Text(type_, texts_of_matrix(shown, significant(shown), number.validity))

    return kernel


KERNELS: dict[str, Callable[..., Vector]] = {
    "translate": translate,
    "initcap": initcap,
    "ascii": code_point,
    "chr": character,
    "to_hex": _to_hex(np.uint64),
    "to_hex_int": _to_hex(np.uint32),
}
