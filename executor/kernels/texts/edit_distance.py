"""Edit distances of texts in whole columns (Levenshtein's), by the bit-parallel algorithm of Myers (1999) and Hyyrö.

A column of the matrix of distances is held as two words of bits: where the distance grows by one from a row to the
next, and where it falls. A character of the longer text turns a column into the next by some fifteen operations on
words, so the shorter text may have as many characters as a word has bits. Words of 8 to 64 bits hold one pair of texts
each and are computed for a block of pairs at once, those with longer texts first: pairs whose text has ended are at the
end.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np
import pyarrow as pa

from ....model.types import DataType
from ....model.vectors.vector import Array, Flat, Vector
from ..numbers.bounded_integers import joined_validity
from .like_search import bytes_of
from .regex_matches import is_ascii
from .text_slices import lengths_of

_BLOCK: Final = 1 << 15
"""Pairs computed at a time: their words stay in the processor's second cache."""
_WORDS: Final = (np.uint8, np.uint16, np.uint32, np.uint64)


def levenshtein(left: str, right: str) -> int:
    """Number of characters that must be inserted, deleted or replaced to change one text to the other; any length."""
    short, long = sorted((left, right), key=len)
    if not short:
        return len(long)
    masks: dict[str, int] = {}
    for place, character in enumerate(short):
        masks[character] = masks.get(character, 0) | 1 << place
    full, last = (1 << len(short)) - 1, 1 << len(short) - 1
    grows, falls, distance = full, 0, len(short)
    for character in long:
        equal = masks.get(character, 0)
        diagonal = (((equal & grows) + grows) ^ grows) | equal
        above, below = falls | full & ~(diagonal | grows), grows & diagonal
        distance += bool(above & last) - bool(below & last)
        above, below = above << 1 & full | 1, below << 1 & full
        grows, falls = below | full & ~(equal | falls | above), above & (equal | falls)
    return distance


def distances(type_: DataType, left: Vector, right: Vector) -> Vector:
    """`levenshtein` of two columns."""
    characters, begins, lengths = _characters([left.to_arrow(), right.to_arrow()])
    swapped = lengths[0] > lengths[1]
    short, long = (np.where(swapped, lengths[a], lengths[b]) for a, b in ((1, 0), (0, 1)))
    starts = np.where(swapped, begins[1], begins[0]), np.where(swapped, begins[0], begins[1])
    found = long.copy()
    # Bits that a word has: 8, 16, 32, 64; none for no characters.
    sizes = np.searchsorted([1, 9, 17, 33, 65], short, side="right")
    for number, word in enumerate(_WORDS, 1):
        rows = np.flatnonzero(sizes == number)
        rows = rows[np.argsort(-long[rows], kind="stable")]
        for first in range(0, len(rows), _BLOCK):
            some = rows[first : first + _BLOCK]
            found[some] = _of_block(characters, starts[0][some], short[some], starts[1][some], long[some], word)
    for row in np.flatnonzero(sizes > len(_WORDS)).tolist():
        pair = (characters[start[row] : start[row] + size[row]] for start, size in zip(starts, (short, long)))
        found[row] = levenshtein(*("".join(map(chr, one.tolist())) for one in pair))
    return Flat(type_, found.astype(type_.dtype, copy=False), joined_validity(left, right))


def _characters(columns: list[pa.Array]) -> tuple[Array, list[Array], list[Array]]:
    """Return the characters of all columns, and each row's first place in them and number of characters (int64).

    Bytes (uint8) if all are ASCII, else code points (uint32).
    """
    parts, begins, lengths = [], [], []
    filled = [column.fill_null("") if column.null_count else column for column in columns]
    is_plain = all(is_ascii(bytes_of(column)[0]) for column in filled)
    total = 0
    for column in filled:
        data, _ = bytes_of(column)
        part = data if is_plain else np.frombuffer(data.tobytes().decode().encode("utf-32-le"), np.uint32)
        sizes = lengths_of(column)
        begins.append(total + np.cumsum(sizes) - sizes)
        lengths.append(sizes)
        parts.append(part)
        total += len(part)
    return np.concatenate(parts), begins, lengths


def _of_block(characters: Array, first: Array, short: Array, second: Array, long: Array, word: Any) -> Array:
    """Return the distances of pairs in descending order of `long`; `short` is from 1 to the bits of `word`.

    Parameters
    ----------
    first, second : ndarray of int64, shape (n_pairs,)
        The places of the shorter and of the longer texts in `characters`.
    short, long : ndarray of int64, shape (n_pairs,)
        Their numbers of characters.
    """
    none = np.iinfo(characters.dtype).max  # equals no character
    pattern = [
        np.where(place < short, characters.take(first + place, mode="clip"), none).astype(characters.dtype)
        for place in range(int(short.max()))
    ]
    one = word(1)
    last = np.left_shift(one, (short - 1).astype(word))
    grows, falls = np.full(len(short), ~word(0)), np.zeros(len(short), word)
    distance = short.copy()
    ends = np.searchsorted(-long, -np.arange(int(long[0])), side="left")
    for place, active in enumerate(ends.tolist()):
        if active < len(grows):
            grows, falls, last = grows[:active], falls[:active], last[:active]
        letters = characters.take(second[:active] + place)
        equal = np.zeros(active, word)
        for bit, other in enumerate(pattern):
            equal |= (other[:active] == letters).astype(word) << word(bit)
        diagonal = (((equal & grows) + grows) ^ grows) | equal
        above, below = falls | ~(diagonal | grows), grows & diagonal
        distance[:active] += (above & last) != 0
        distance[:active] -= (below & last) != 0
        above, below = (above << one) | one, below << one
        equal |= falls
        grows, falls = below | ~(equal | above), above & equal
    return distance


KERNELS: dict[str, Callable[..., Vector]] = {"levenshtein": distances}
