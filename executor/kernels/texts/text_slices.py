"""Slices of texts by positions of characters: substring, left, right, repeat; positions count from 1.

    offsets of a column       0        5           11
    cut at two places         0 . 2 . 4 5 . 6 . 8  11       three texts for each, over the same bytes
    the middle ones           taken: one copy of the bytes that remain

A character's place in the bytes is its number if the column is ASCII alone; else the bytes at which characters begin
are located once.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from ....errors import DataError
from ....model import arrow_functions as pc
from ....model.types import DataType
from ....model.vectors.vector import Array, Const, Text, Vector
from ..byte_rows import masked
from ..numbers.bounded_integers import integers, joined_validity
from .like_search import bytes_of
from .regex_matches import is_ascii

_LONGEST = 2**31 - 1
"""Upper bound of the number of characters of a text."""
_MOST_REPEATED = 1 << 28
"""Largest result of `repeat`: 256 MB."""
_UPPER_BITS = 0xC0
"""Mask of a byte's two upper bits, which are 10 in a byte that continues a character."""


def lengths_of(texts: pa.Array) -> Array:
    """Number of characters of each text, int64, shape (n_rows,); arbitrary for NULLs."""
    data, begins = bytes_of(texts)
    if is_ascii(data):
        return np.diff(begins).astype(np.int64)
    # Without the bitmap, so that the bytes below a NULL are counted too: the lengths add up to positions.
    _, offsets, raw = texts.buffers()
    plain = pa.Array.from_buffers(pa.string(), len(texts), [None, offsets, raw], offset=texts.offset)
    lengths: Array = pc.utf8_length(plain).to_numpy(zero_copy_only=False).astype(np.int64)
    return lengths


def cut_out(texts: pa.Array, starts: Array, ends: Array, validity: Array | None = None) -> pa.Array:
    """Return the bytes between two positions of each text.

    Parameters
    ----------
    starts, ends : ndarray of integers, shape (n_rows,)
        In bytes from the text's beginning, ascending and within the text.
    validity : ndarray of bool, optional
        NULL where it is False.
    """
    rows = len(texts)
    data, begins = bytes_of(texts)
    bounds = np.empty(3 * rows + 1, np.int32)
    bounds[0::3] = begins
    bounds[1::3] = begins[:-1] + starts
    bounds[2::3] = begins[:-1] + ends
    pieces = pa.Array.from_buffers(texts.type, 3 * rows, [None, pa.py_buffer(bounds), pa.py_buffer(data)])
    return masked(pieces.take(pa.array(np.arange(1, 3 * rows, 3, dtype=np.uint32))), validity)


def prefixes(texts: pa.Array, rows: Array, ends: Array) -> Array:
    """Number of characters before a position (in bytes) of each of these rows, int64.

    Parameters
    ----------
    rows, ends : ndarray of integers, shape (n,)
        Rows, and positions from the beginning of each, within its text.
    """
    data, begins = bytes_of(texts)
    if is_ascii(data):
        return ends.astype(np.int64)
    bounds = np.empty(2 * len(rows) + 1, np.int32)
    bounds[0:-1:2] = begins.take(rows)
    bounds[1::2] = bounds[0:-1:2] + ends
    bounds[-1] = bounds[-2] if len(rows) else 0
    pieces = pa.Array.from_buffers(pa.string(), 2 * len(rows), [None, pa.py_buffer(bounds), pa.py_buffer(data)])
    counts: Array = pc.utf8_length(pieces).to_numpy(zero_copy_only=False)[::2].astype(np.int64)
    return counts


def substring(type_: DataType, value: Vector, start: Vector, length: Vector | None = None) -> Vector:
    """Return `length` characters from position `start`; positions before the text count, but have no characters."""
    validity = joined_validity(value, start) if length is None else joined_validity(value, start, length)
    if length is not None:
        _refuse_negative(length, validity)
    if isinstance(start, Const) and (length is None or isinstance(length, Const)):
        if start.value is None or (isinstance(length, Const) and length.value is None):
            return Const(type_, None, len(value))
        begin = int(start.value) - 1
        end = None if length is None else max(0, begin + int(length.value))
        return Text(type_, _sliced(value.to_arrow(), max(0, begin), end))
    starts = np.broadcast_to(integers(start), len(value))
    begins = np.clip(starts, 1, _LONGEST) - 1
    ends = np.full(len(value), _LONGEST) if length is None else _slice_ends(starts, begins, integers(length))
    return _each_slice(type_, value.to_arrow(), begins, ends, validity)


def _slice_ends(starts: Array, begins: Array, lengths: Array) -> Array:
    """Position at which each substring ends, for any two 64-bit numbers."""
    inside = begins + np.minimum(lengths, _LONGEST)
    before = np.clip(starts, -(2**63) + 1, 0) + lengths - 1  # exact: the two have different signs
    ends: Array = np.maximum(np.where(starts > 0, inside, before), 0)
    return ends


def _sliced(texts: pa.Array, begin: int, end: int | None) -> pa.Array:
    """Return the characters from `begin` to `end` (exclusive), which may exceed Arrow's limits."""
    begin, end = min(begin, _LONGEST), None if end is None else min(end, _LONGEST)
    if end is not None and end <= begin:
        return pc.utf8_slice_codeunits(texts, 0, 0)
    return pc.utf8_slice_codeunits(texts, begin, end)


def _refuse_negative(length: Vector, validity: Array | None) -> None:
    negative = np.broadcast_to(integers(length), len(length)) < 0
    if bool((negative if validity is None else negative & validity).any()):
        raise DataError("a negative length of a substring is not possible")


def _each_slice(type_: DataType, texts: pa.Array, begins: Array, ends: Array, validity: Array | None) -> Vector:
    """Cut one slice per row, between two positions in characters from 0 that are not negative; NULL where `validity` is
    False."""
    lengths = lengths_of(texts)
    starts = np.minimum(begins, lengths)
    stops = np.maximum(np.minimum(ends, lengths), starts)
    data, bounds = bytes_of(texts)
    if not is_ascii(data):
        leads = np.append(np.flatnonzero((data & _UPPER_BITS) != 0x80), len(data))
        before = np.cumsum(lengths) - lengths
        starts, stops = (leads.take(before + places) - bounds[:-1] for places in (starts, stops))
    return Text(type_, cut_out(texts, starts, stops, validity))


def left(type_: DataType, value: Vector, count: Vector) -> Vector:
    """Return the first `count` characters; a negative count leaves out that many at the end."""
    texts = value.to_arrow()
    counts = np.broadcast_to(integers(count), len(value))
    if isinstance(count, Const):
        if count.value is None:
            return Const(type_, None, len(value))
        if count.value >= 0:
            return Text(type_, _sliced(texts, 0, int(count.value)))
    ends = counts if bool((counts >= 0).all()) else np.where(counts >= 0, counts, lengths_of(texts) + counts)
    return _each_slice(type_, texts, np.zeros(len(value), np.int64), np.maximum(ends, 0), joined_validity(value, count))


def right(type_: DataType, value: Vector, count: Vector) -> Vector:
    """Return the last `count` characters; a negative count leaves out that many at the front."""
    if isinstance(count, Const) and count.value is None:
        return Const(type_, None, len(value))
    texts = value.to_arrow()
    counts = np.maximum(np.broadcast_to(integers(count), len(value)), -_LONGEST)
    begins = np.where(counts >= 0, np.maximum(0, lengths_of(texts) - counts), -counts)
    return _each_slice(type_, texts, begins, np.full(len(value), _LONGEST), joined_validity(value, count))


def repeat(type_: DataType, value: Vector, times: Vector) -> Vector:
    """Repeat the text `times` times; "" for none or fewer."""
    if isinstance(times, Const) and times.value is None:
        return Const(type_, None, len(value))
    counts = np.maximum(0, np.broadcast_to(integers(times), len(value)))
    texts = value.to_arrow()
    size = int(lengths_of(texts).max(initial=0)) * int(counts.max(initial=0))
    if size > _MOST_REPEATED:
        raise DataError(f"a repeated text of {size} characters is longer than the limit of {_MOST_REPEATED}")
    return Text(type_, masked(pc.binary_repeat(texts, pa.array(counts)), joined_validity(value, times)))
