"""Pieces of texts put together or cut out in whole columns: padding, splitting, overlaying.

Arrow joins, slices and counts characters; the positions of separators are found in the bytes of all texts at once.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa

from ....errors import DataError
from ....model import arrow_functions as pc
from ....model.arrow_arrays import arrow_array, arrow_scalar, fill_nulls, numpy_array
from ....model.types import BIGINT, DataType
from ....model.vectors.vector import Array, Const, Dict, Flat, Text, Vector
from ..byte_rows import masked, refuse_size
from ..distinct import per_combination
from ..numbers.bounded_integers import integers, joined_validity
from .like_search import bytes_of, places
from .text_slices import cut_out, left, lengths_of, substring
from .text_vectorized import entries_in_use

_LONGEST = 1 << 28
"""Most characters by which a text is filled up."""

_COUNTED = 1 << 16
"""Numbers of missing characters below this are numbered by a table, others by sorting."""


def _padded(at_left: bool) -> Callable[..., Vector]:
    def kernel(type_: DataType, value: Vector, length: Vector, fill: Vector | None = None) -> Vector:
        options = (fill if fill is not None else Const(type_, " ", len(value)),)
        single = lpad if at_left else rpad
        return over_entries(lambda *args: _pad(at_left, *args), type_, value, (length,), options, single)

    return kernel


def over_entries(
    kernel: Callable[..., Vector],
    type_: DataType,
    value: Vector,
    numbers: tuple[Vector, ...],
    options: tuple[Vector, ...] = (),
    single: Callable[..., str] | None = None,
) -> Vector:
    """Apply `kernel(type, value, *numbers, *option values)`: over a dictionary's entries that rows use, if all other
    arguments are constants, else over the rows; `single` as for `per_combination`."""
    if isinstance(value, Dict) and len(value.dictionary) and all(isinstance(a, Const) for a in (*numbers, *options)):
        entries, rows = entries_in_use(value)
        if len(entries) < len(value):
            few = tuple(number.slice(0, len(entries)) for number in numbers)
            text = Text(value.type, entries)
            return per_combination(kernel, type_, (text, *few), options).take(rows)
    return per_combination(kernel, type_, (value, *numbers), options, single)


def _pad(at_left: bool, type_: DataType, value: Vector, length: Vector, fill: str) -> Vector:
    """Fill to `length` characters with repetitions of `fill`, or truncate on the right."""
    rows, validity = len(value), joined_validity(value, length)
    if isinstance(length, Const) and length.value is None:
        return Const(type_, None, rows)
    texts = value.to_arrow()
    characters = lengths_of(texts)
    wanted = np.maximum(np.broadcast_to(integers(length), rows), 0).astype(np.int64)
    missing = wanted - characters
    if validity is not None:
        missing = np.where(validity, missing, 0)
    if bool((missing < 0).any()):
        count = Const(BIGINT, int(wanted[0]), rows) if isinstance(length, Const) else Flat(BIGINT, wanted)
        texts = left(type_, Text(type_, texts), count).to_arrow()
    missing = np.maximum(missing, 0)
    most = int(missing.max(initial=0))
    if most > _LONGEST:
        raise DataError(f"a text cannot be filled up by {most} characters")
    if most and fill:
        pads = _pads(missing, fill)
        texts = pc.binary_join_element_wise(
            *((pads, texts) if at_left else (texts, pads)), arrow_scalar("", pa.string())
        )
    return Text(type_, masked(texts, validity))


def lpad(text: str, length: int, fill: str = " ") -> str:
    """Fill one text on the left to `length` characters, or truncate it on the right."""
    return _filling(length - len(text), fill) + text if len(text) < length else text[: max(0, length)]


def rpad(text: str, length: int, fill: str = " ") -> str:
    """Fill one text on the right to `length` characters, or truncate it there."""
    return text + _filling(length - len(text), fill) if len(text) < length else text[: max(0, length)]


def _filling(missing: int, fill: str) -> str:
    if missing > _LONGEST:
        raise DataError(f"a text cannot be filled up by {missing} characters")
    return (fill * (missing // len(fill) + 1))[:missing] if fill else ""


def _pads(missing: Array, fill: str) -> pa.Array:
    """Return the first `missing` characters of repetitions of `fill`, for each row."""
    refuse_size(int(missing.sum()) * len(fill.encode()) // len(fill))
    if int(missing.max()) < _COUNTED:
        occurs = np.bincount(missing) > 0
        lengths, numbers = np.flatnonzero(occurs), (np.cumsum(occurs) - 1).take(missing)
    else:
        lengths, numbers = np.unique(missing, return_inverse=True)
    whole = fill * (int(lengths[-1]) // len(fill) + 1)
    return arrow_array([whole[:size] for size in lengths.tolist()], pa.string()).take(arrow_array(numbers))


def split_part(type_: DataType, value: Vector, separator: Vector, n: Vector) -> Vector:
    """Return the nth part between separators, from the end if n is negative; '' if there is none."""
    if isinstance(n, Const) and n.value is None:
        return Const(type_, None, len(value))
    validity = joined_validity(value, separator, n)
    zero = np.broadcast_to(integers(n), len(value)) == 0
    if bool((zero if validity is None else zero & validity).any()):
        raise DataError("the part number of split_part must not be 0; parts count from 1, or backwards from -1")
    return over_entries(_part, type_, value, (n,), (separator,), _part_of_one)


def _part_of_one(text: str, n: int, separator: str) -> str:
    pieces = text.split(separator) if separator else [text]
    index = n - 1 if n > 0 else len(pieces) + n
    return pieces[index] if 0 <= index < len(pieces) else ""


def _part(type_: DataType, value: Vector, n: Vector, separator: str) -> Vector:
    texts = value.to_arrow()
    number = np.broadcast_to(integers(n), len(value)).astype(np.int64)
    data, begins = bytes_of(texts)
    begins = begins.astype(np.int64)
    size = len(separator.encode())
    found, first = _separators(data, begins, separator.encode())
    count = np.diff(first)
    part = np.where(number > 0, number - 1, count + 1 + number)
    exists = (part >= 0) & (part <= count)
    # A sentinel on both sides: the position of a separator that is not there is not used.
    padded = np.concatenate([[0], found, [0]])
    before = first[:-1] + np.where(exists, part, 0)
    starts = np.where(part == 0, begins[:-1], padded[before] + size)
    ends = np.where(part == count, begins[1:], padded[before + 1])
    starts, ends = np.where(exists, starts, begins[:-1]), np.where(exists, ends, begins[:-1])
    cut = cut_out(texts, starts - begins[:-1], ends - begins[:-1])
    return Text(type_, masked(cut, joined_validity(value, n)))


def _separators(data: Array, begins: Array, separator: bytes) -> tuple[Array, Array]:
    """Positions of the separators within the rows, ascending, and the number of the first of each row (one more than
    rows)."""
    if not separator:
        return np.empty(0, np.int64), np.zeros(len(begins), np.int64)
    if len(separator) == 1:
        found = np.flatnonzero(data == separator[0])
        return found, np.searchsorted(found, begins)
    found = places(data, separator)
    rows = np.searchsorted(begins, found, side="right") - 1
    found = found[found + len(separator) <= begins[rows + 1]]
    if any(separator.startswith(separator[shift:]) for shift in range(1, len(separator))):
        found = _disjoint(found, len(separator))
    return found, np.searchsorted(found, begins)


def _disjoint(found: Array, size: int) -> Array:
    """Drop occurrences that overlap with the one before that is kept: 'aa' occurs once in 'aaa'."""
    kept = np.ones(len(found), np.bool_)
    close = np.flatnonzero(np.diff(found) < size) + 1
    end = -1
    for index in close.tolist():
        if kept[index - 1]:
            end = int(found[index - 1]) + size
        kept[index] = int(found[index]) >= end
    return found[kept]


def overlay(type_: DataType, value: Vector, new: Vector, start: Vector, length: Vector | None = None) -> Vector:
    """Replace characters from a position on with another text, by default as many as it has."""
    rows = len(value)
    parts = (value, new, start) if length is None else (value, new, start, length)
    if any(isinstance(part, Const) and part.value is None for part in parts):
        return Const(type_, None, rows)
    validity = joined_validity(*parts)
    first = np.broadcast_to(integers(start), rows).astype(np.int64)
    before = first < 1 if validity is None else (first < 1) & validity
    if bool(before.any()):
        raise DataError(f"OVERLAY cannot start at position {first[np.argmax(before)]}; the first is 1")
    first = np.maximum(first, 1)
    inserted = new.to_arrow()
    if length is None:
        count = numpy_array(fill_nulls(pc.utf8_length(inserted), 0)).astype(np.int64)
    else:
        count = np.broadcast_to(integers(length), rows).astype(np.int64)
    # Positions before the text and beyond any text are those of its ends; sums of two 64-bit numbers would overflow.
    rest = np.maximum(np.minimum(first, _LONGEST * 8) + np.clip(count, -_LONGEST * 8, _LONGEST * 8), 1)
    constant = isinstance(start, Const) and isinstance(new if length is None else length, Const) and rows > 0

    def positions(numbers: Array) -> Vector:
        return Const(BIGINT, int(numbers[0]), rows) if constant else Flat(BIGINT, numbers)

    head = substring(type_, value, Const(BIGINT, 1, rows), positions(first - 1)).to_arrow()
    tail = substring(type_, value, positions(rest)).to_arrow()
    joined = pc.binary_join_element_wise(head, inserted, tail, arrow_scalar("", pa.string()))
    return Text(type_, masked(joined, validity))


KERNELS: dict[str, Callable[..., Vector]] = {
    "lpad": _padded(at_left=True),
    "rpad": _padded(at_left=False),
    "split_part": split_part,
    "overlay": overlay,
}
