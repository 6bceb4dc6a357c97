"""Values as words: unsigned integers that compare as the values do, the first word first.

    integers, dates, booleans, dictionary codes     one word of any width
    floats                                          one: the bits in numeric order, NaN above all (PostgreSQL)
    decimals beyond 64 bits                         two: the high and the low half
    texts                                           their bytes, eight at a time; behind the fourth word a rank

A word is computed for given rows only: a selection by words computes the second one for the few rows that are equal in
the first. So texts are compared as integers, and as texts only if they agree in 32 bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from ...model import arrow_functions as pc
from ...model.arrow_arrays import arrow_array, fill_nulls, numpy_array
from ...model.vectors.vector import Array, Const, Dict, Flat, Narrow, Text, Vector, Wide, decimal_limbs, spread
from .groups.row_order import stable_order
from .times.intervals import sortable

Word: TypeAlias = Callable[[Array | None], Array]
"""Computes one word of the rows at an ndarray of intp (None: of all rows): unsigned integers, shape (n_rows,)."""

_TEXT_WORDS = 4
"""Words of a text before the rank; URLs of one site agree in about 24 bytes."""
_SIGN = np.uint64(1 << 63)


def words_of(vector: Vector) -> Sequence[Word]:
    """Return the words of a vector, most significant first; under NULLs anything. Words of two calls are comparable
    only if the vectors share their dictionary or their base, and never in the rank of texts."""
    vector = spread(sortable(vector))
    if isinstance(vector, Const):
        return (lambda rows: np.zeros(len(vector) if rows is None else len(rows), np.uint8),)
    if isinstance(vector, Narrow):
        return (_of_array(vector.codes),)
    if isinstance(vector, Dict):
        if not vector.ordered:
            return _text_words(vector.to_arrow())
        return (_of_array(vector.codes.view(f"u{vector.codes.dtype.itemsize}")),)
    if isinstance(vector, Text):
        return _text_words(vector.array)
    if isinstance(vector, Wide):
        high, low = decimal_limbs(vector.array)
        return (lambda rows: _at(high, rows).view(np.uint64) ^ _SIGN), _of_array(low)
    assert isinstance(vector, Flat)
    return _number_words(vector.values())


def _number_words(values: Array) -> Sequence[Word]:
    if values.dtype.kind == "f":
        return (lambda rows: float_codes(_at(values, rows)),)
    if values.dtype == np.bool_:
        return (_of_array(values.view(np.uint8)),)
    if values.dtype == object:
        return _object_words(values)
    return (lambda rows: _at(values, rows).astype(np.int64, copy=False).view(np.uint64) ^ _SIGN,)


def _object_words(values: Array) -> Sequence[Word]:
    """Words of Python ints of at most 128 bits."""
    most = (1 << 64) - 1
    high: Word = lambda rows: (_at(values, rows) >> 64).astype(np.int64).view(np.uint64) ^ _SIGN  # noqa: E731
    return high, lambda rows: (_at(values, rows) & most).astype(np.uint64)


def _at(values: Array, rows: Array | None) -> Array:
    return np.ascontiguousarray(values) if rows is None else values.take(rows)


def _of_array(values: Array) -> Word:
    return lambda rows: _at(values, rows)


def float_codes(values: Array) -> Array:
    """Return the bits of floats in numeric order, uint64: negative numbers mirrored, NaN above everything; -0.0 equals
    0.0."""
    plain = values.astype(np.float64) + 0.0
    plain[np.isnan(plain)] = np.nan
    bits = plain.view(np.int64)
    ascending = np.where(bits < 0, bits ^ np.int64(2**63 - 1), bits)
    return (ascending ^ np.int64(-(2**63))).view(np.uint64)


# ---- texts -----------------------------------------------------------------------------------------------------------


def _text_words(array: pa.Array) -> Sequence[Word]:
    parts: list[Word] = [_prefix_word(array, number) for number in range(_TEXT_WORDS)]
    return *parts, lambda rows: _rest_word(array, rows)


def _rest_word(array: pa.Array, rows: Array | None) -> Array:
    """The last word, for texts that are equal in the words before: if none is longer than these, their lengths, because
    they differ at most in zero bytes at the end."""
    lengths = np.diff(_offsets(array)) if rows is None else _lengths(_offsets(array), rows)
    if int(lengths.max(initial=0)) <= 8 * _TEXT_WORDS:
        return lengths.view(np.uint32)
    return text_ranks(array if rows is None else array.take(arrow_array(rows)))


def _offsets(array: pa.Array) -> Array:
    offsets: Array = np.frombuffer(array.buffers()[1] or bytes(4), np.int32)
    return offsets[array.offset : array.offset + len(array) + 1]


def _lengths(offsets: Array, rows: Array) -> Array:
    return offsets[1:].take(rows) - offsets[:-1].take(rows)


def _prefix_word(array: pa.Array, number: int) -> Word:
    return lambda rows: prefix_word(array, number, rows)


def prefix_word(array: pa.Array, number: int = 0, rows: Array | None = None) -> Array:
    """Return eight bytes of each text, from byte `8 * number` on, as big-endian uint64; bytes behind its end count as
    zeros. Under NULLs anything.

    >>> prefix_word(pa.array(["", "a", "abcdefghij"])).tolist() == [0, 0x61 << 56, 0x6162636465666768]
    True
    """
    data = array.buffers()[2]
    if not len(array) or data is None or data.size == 0:
        return np.zeros(len(array) if rows is None else len(rows), np.uint64)
    offsets = _offsets(array)
    begins, ends = (offsets[:-1], offsets[1:]) if rows is None else (offsets.take(rows), offsets[1:].take(rows))
    begins = begins + np.int64(8 * number)
    left = ends - begins
    size = data.size
    if size < 8:
        data, size = bytes(data) + bytes(8 - size), 8
    # One word begins at every byte. NumPy reads these unaligned words five times as fast as it shifts aligned ones.
    at_bytes = np.ndarray((size - 7,), "<u8", data, strides=(1,))
    places = np.minimum(begins, size - 8)
    words: Array = at_bytes[places].byteswap()
    if (late := np.flatnonzero(places != begins)).size:
        words[late] <<= _bits(np.minimum(begins[late] - places[late], 7))
    if (short := np.flatnonzero(left < 8)).size:
        missing = 8 - np.maximum(left[short], 0)
        kept = (~np.uint64(0) << _bits(np.minimum(missing, 7))) * (missing < 8)
        words[short] &= kept
    return words


def _bits(number_of_bytes: Array) -> Array:
    return number_of_bytes.astype(np.uint64) * np.uint64(8)


def text_ranks(array: pa.Array) -> Array:
    """Return dense ranks of texts, uint64, equal for equal texts; under NULLs anything."""
    encoded = pc.dictionary_encode(array)
    order = numpy_array(pc.sort_indices(encoded.dictionary))
    ranks = np.zeros(len(order) + 1, np.uint64)
    ranks[order] = np.arange(len(order), dtype=np.uint64)
    codes: Array = numpy_array(fill_nulls(encoded.indices, len(order)))
    return ranks.take(codes)


def sort_texts(array: pa.Array) -> Array:
    """Return the positions of texts, none NULL, in ascending order of their bytes (ndarray of intp). (131,072 texts of
    16 digits: 15 ms instead of 26 by `pc.sort_indices`.)"""
    return sort_by_words(_text_words(array), len(array))


# ---- order -------------------------------------------------------------------------------------------------------


def ordered_words(key: Vector, descending: bool, nulls_first: bool) -> list[Word]:
    """Return words that ascend in the requested order, NULLs included (equal to each other)."""
    words = mirrored(words_of(key)) if descending else words_of(key)
    validity = key.validity
    if validity is None:
        return list(words)
    is_value = validity if nulls_first else ~validity
    kind: Word = lambda rows: _at(is_value, rows).view(np.uint8)  # noqa: E731
    return [kind, *(_zeroed(word, validity) for word in words)]


def mirrored(words: Sequence[Word]) -> Sequence[Word]:
    """Return words that descend where the given ones ascend."""
    return [_mirrored(word) for word in words]


def _mirrored(word: Word) -> Word:
    return lambda rows: ~word(rows)


def _zeroed(word: Word, validity: Array) -> Word:
    def at(rows: Array | None) -> Array:
        codes = word(rows)
        return np.where(_at(validity, rows), codes, codes.dtype.type(0))

    return at


def first_rows(words: Sequence[Word], length: int, needed: int) -> tuple[Array, int]:
    """Select the first rows in the order of their words, without sorting them.

    Parameters
    ----------
    words : sequence of Word
        Of all keys, the leading one first. Those behind the first are computed for rows that are equal in all before.
    length : int
        Number of rows.
    needed : int
        Number of rows to select, at least 1 and at most `length`.

    Returns
    -------
    rows : ndarray of intp, shape (needed,)
        Ascending. Of rows that are equal in all words, the earliest.
    last : int
        One of them, which comes last in the order.
    """
    chosen: list[Array] = []
    tied: Array | None = None
    for word in words:
        codes = word(tied)
        last: Any = codes.max() if needed == len(codes) else np.partition(codes, needed - 1)[needed - 1]
        less, equal = np.flatnonzero(codes < last), np.flatnonzero(codes == last)
        if tied is not None:
            less, equal = tied.take(less), tied.take(equal)
        chosen.append(less)
        tied = equal
        needed -= len(less)
        if len(tied) == 1:
            break
    if tied is None:
        tied = np.arange(length)
    rows = np.concatenate([*chosen, tied[:needed]])
    rows.sort()
    return rows, int(tied[0])


def least_rows(words: Sequence[Word], starts: Array, validity: Array | None = None) -> Array:
    """Return one row of each group (ndarray of intp, shape (n_groups,)): the first of those whose words are least.

    Groups are runs of rows that begin at `starts` (ascending, the first 0). Rows whose `validity` is False are passed
    over; of a group of such rows alone, the first is returned.
    """
    candidates: Array | None = None
    groups: Array | None = None
    if validity is not None:
        candidates = np.flatnonzero(validity)
        begins = np.searchsorted(candidates, starts)
        has_some = np.diff(begins, append=len(candidates)) > 0
        groups, begins = np.flatnonzero(has_some), begins.compress(has_some)
    else:
        begins = starts
    found = begins if candidates is None else candidates.take(begins)
    for word in words if len(begins) else ():
        codes = word(candidates)
        if len(begins) == 1:
            places = np.flatnonzero(codes == codes.min())
        else:
            sizes = np.diff(begins, append=len(codes))
            places = np.flatnonzero(codes == np.repeat(np.minimum.reduceat(codes, begins), sizes))
        candidates = places if candidates is None else candidates.take(places)
        begins = np.searchsorted(places, begins)
        found = candidates.take(begins)
        if len(candidates) == len(begins):
            break
    if groups is None:
        return found
    rows = starts.copy()
    rows[groups] = found
    return rows


def sort_by_words(words: Sequence[Word], length: int) -> Array:
    """Return the row numbers (ndarray of intp) in the order of the rows' words; equal rows keep their order.

    Only the first word is computed for all rows: each further one for those that are equal in all before.
    """
    return _sorted_runs(words, length)[0]


def ranks_by_words(words: Sequence[Word], length: int) -> tuple[Array, int]:
    """Return dense ranks of the rows in the order of their words (uint64), equal for equal rows, and their number."""
    order, is_new = _sorted_runs(words, length)
    numbers = np.cumsum(is_new)
    ranks = np.empty(length, np.uint64)
    ranks[order] = numbers.view(np.uint64) - np.uint64(1)
    return ranks, int(numbers[-1]) if length else 0


def _sorted_runs(words: Sequence[Word], length: int) -> tuple[Array, Array]:
    """Return the row numbers in order, and True for each that differs from the row before."""
    codes = words[0](None)
    order = stable_order([codes])
    is_new = _is_new(codes.take(order))
    places = np.arange(length)
    """Positions in `order` of the rows that are not ordered completely,"""
    runs = np.cumsum(is_new)
    """and a number per run of equal rows, ascending."""
    for word in words[1:]:
        tied = _tied(runs)
        places, runs = places.compress(tied), runs.compress(tied)
        if not len(places):
            break
        rows = order.take(places)
        codes = word(rows)
        again = stable_order([runs.view(np.uint64), codes])
        order[places] = rows.take(again)
        codes = codes.take(again)
        begins = _is_new(runs) | _is_new(codes)
        is_new[places] = begins
        runs = np.cumsum(begins)
    return order, is_new


def _is_new(ordered: Array) -> Array:
    """True where a value differs from the one before; True for the first."""
    change = np.ones(len(ordered), np.bool_)
    np.not_equal(ordered[1:], ordered[:-1], out=change[1:])
    return change


def _tied(runs: Array) -> Array:
    """True for the members of runs of several rows."""
    is_new = _is_new(runs)
    result = ~is_new
    result[:-1] |= ~is_new[1:]
    return result
