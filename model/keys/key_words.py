"""Columns of keys as plain unsigned integers: what hashing, encoding, comparing and sorting of many keys work on.

A column becomes one word per row (wide decimals two, texts one per eight bytes). *Ordered* words have the encoded
width and read as the encoded bytes do. *Ranks* need only order and equal as the values of these very rows do: they
start at zero and carry a bound, so that the ranks of several columns pack into few 64-bit words.
"""

from __future__ import annotations

import numpy as np

from .. import arrow_functions as pc
from ..arrow_arrays import numpy_array
from ..types import DataType
from ..vectors.vector import Array, Const, Dict, Narrow, Text, Vector, decimal_limbs
from .hashing import low_bytes, text_buffers, unaligned
from .key_encoding import key_width

_WORDS_BYTES = 64  # texts up to this length are ordered as words of 8 bytes, several times faster than as strings


def signed_words(type_: DataType, column: Vector) -> list[Array]:
    """The values of a fixed-width column as int64; wide decimals as (high, low)."""
    if key_width(type_) == 16:
        high, low = decimal_limbs(column.to_arrow())
        return [high, low]
    return [column.values().astype(np.int64, copy=False)]


def ordered_words(type_: DataType, column: Vector) -> list[Array]:
    """The encoded values as unsigned integers of the encoded width (two of 8 bytes for wide decimals)."""
    words = signed_words(type_, column)
    if len(words) == 2:
        return [words[0].view(np.uint64) ^ np.uint64(1 << 63), words[1]]
    width = key_width(type_)
    dtype = np.dtype(f"u{width}")
    narrow = words[0].view(np.uint64).astype(dtype, copy=False)
    return [narrow ^ dtype.type(1 << (8 * dtype.itemsize - 1))]


def neighbours(type_: DataType, column: Vector) -> list[tuple[Array, Array]]:
    """Per word of a column: is row i below row i + 1, is it equal? Two ndarrays of bool, shape (n_rows - 1,)."""
    if isinstance(column, Text):
        before, after = column.array[:-1], column.array[1:]
        compared = [pc.less(before, after), pc.equal(before, after)]
        below, same = (numpy_array(c) for c in compared)
        return [(below, same)]
    if type_.is_text or isinstance(column, Narrow):
        words = [word for word, _ in rank_pieces(type_, column)]
    else:
        words = signed_words(type_, column)
    return [(w[:-1] < w[1:], w[:-1] == w[1:]) for w in words]


def rank_pieces(type_: DataType, column: Vector) -> list[tuple[Array, int]]:
    """Unsigned integers that order as the column's values do, each with an exclusive upper bound."""
    if len(column) == 0 or isinstance(column, Const):
        return [(np.zeros(len(column), np.uint8), 1)]
    if type_.is_text:
        return _text_pieces(column)
    if isinstance(column, Narrow):
        return [(column.codes, int(column.codes.max()) + 1)]
    words = signed_words(type_, column)
    low = int(words[0].min())
    # Differences modulo 2**64 are the true ones: they lie between 0 and 2**64 - 1.
    pieces = [(words[0].view(np.uint64) - np.uint64(low % 2**64), int(words[0].max()) - low + 1)]
    return pieces + [(word, 2**64) for word in words[1:]]


def _text_pieces(column: Vector) -> list[tuple[Array, int]]:
    if isinstance(column, Dict):
        return [_dictionary_ranks(column)]
    array = column.to_arrow()
    starts, lengths, data = text_buffers(array)
    longest = int(lengths.max())
    if longest > _WORDS_BYTES:
        encoded = array.dictionary_encode()
        return [_dictionary_ranks(Dict(column.type, numpy_array(encoded.indices), encoded.dictionary, ordered=False))]
    # Eight bytes at a time, zeros behind the end; between texts equal so far the shorter one comes first.
    pieces = [_offsets(_text_word(starts, lengths, data, place, longest)) for place in range(0, longest, 8)]
    return [*pieces, _offsets(lengths.astype(np.uint64))]


def _text_word(starts: Array, lengths: Array, data: Array, place: int, longest: int) -> Array:
    """Bytes `place` to `place + 8` of each text (fewer at the end of the longest) as a big-endian integer."""
    here = np.minimum(lengths, place)
    word = unaligned(data, "<u8")[starts + here].astype(np.uint64, copy=False)
    left = lengths - here
    word &= np.where(left >= 8, ~np.uint64(0), low_bytes(np.minimum(left, 7), np.uint64))
    swapped: Array = word.byteswap()
    # Bytes that no text has would be trailing zeros; without them the word packs with its neighbours.
    swapped >>= np.uint64(8 * max(8 - (longest - place), 0))
    return swapped


def _offsets(words: Array) -> tuple[Array, int]:
    """Unsigned integers less their minimum, and the bound."""
    low = words.min()
    return words - low, int(words.max()) - int(low) + 1


def _dictionary_ranks(column: Dict) -> tuple[Array, int]:
    entries = len(column.dictionary)
    if column.ordered:
        return column.codes, max(entries, 1)
    ranks = np.empty(max(entries, 1), np.uint32)
    ranks[numpy_array(pc.sort_indices(column.dictionary))] = np.arange(entries, dtype=np.uint32)
    return ranks.take(column.codes), max(entries, 1)


def pack(pieces: list[tuple[Array, int]]) -> list[Array]:
    """As few 64-bit words as the pieces fit into, order kept."""
    words: list[Array] = []
    free = 0
    for piece, bound in pieces:
        bits = (bound - 1).bit_length()
        if bits == 0 and words:
            continue
        if not words or bits > free:
            words.append(piece.astype(np.uint64))
            free = 64 - bits
        else:
            words[-1] = (words[-1] << np.uint64(bits)) | piece.astype(np.uint64, copy=False)
            free -= bits
    return words


def argsort(words: list[Array]) -> Array:
    """A stable argsort by several uint64 words, most significant first.

    numpy sorts plain integers an order of magnitude faster than it argsorts them. So the row's place rides in the low
    bits of the integers sorted, under as many of the key's bits as there is room for. Rows left tied by those go
    through further passes over the next bits, led by the number of their group of ties.
    """
    rows = len(words[0])
    order: Array | None = None
    tied = np.arange(rows, dtype=np.intp)  # places in `order` whose rows are not distinguished yet
    groups = np.zeros(rows, np.uint64)
    last = len(words) - 1
    for number, word in enumerate(words):
        left = int(word.max()).bit_length()
        while left:
            row_bits = max(len(tied) - 1, 1).bit_length()
            taken = min(left, 64 - row_bits - int(groups[-1]).bit_length())
            left -= taken
            members = None if order is None else order[tied]
            ranked = (word if members is None else word[members]) >> np.uint64(left)
            ranked &= np.uint64((1 << taken) - 1)
            ranked |= groups << np.uint64(taken)
            ranked <<= np.uint64(row_bits)
            ranked |= np.arange(len(tied), dtype=np.uint64)
            ranked.sort()
            places = (ranked & np.uint64((1 << row_bits) - 1)).astype(np.intp)
            if order is None or members is None:
                order = places
            else:
                order[tied] = members[places]
            if number == last and not left:
                return order
            tied, groups = _ties(tied, ranked >> np.uint64(row_bits))
            if not len(tied):
                return order
    return tied if order is None else order


def _ties(places: Array, ascending: Array) -> tuple[Array, Array]:
    """The places whose value has an equal neighbour, and the number of each one's group (ndarray of uint64)."""
    starts = np.ones(len(ascending) + 1, np.bool_)
    np.not_equal(ascending[1:], ascending[:-1], out=starts[1:-1])
    tied = np.flatnonzero(~(starts[1:] & starts[:-1]))
    return places[tied], np.cumsum(starts[tied], dtype=np.uint64)
