"""Bitmaps over a text: one bit for each byte, 64 to a word, so a check of a megabyte is a few passes over 128 KB.

    text     a,"b,c",d⏎
    quotes   ..#....#....      `bits(text == '"')`
    inside   ..#####.....      `inside(quotes)`: from an opening quote up to its closing one, which is left out

Bit `i` of a text is bit `i % 64` of word `i // 64`. An odd number of quotes up to a position means that it is inside
them; the parity of all prefixes of a word takes six shifts (as in simdjson: G. Langdale and D. Lemire, "Parsing
Gigabytes of JSON per Second", section 3.1.1), that of the words before it one `accumulate`.
"""

from __future__ import annotations

import numpy as np

from ...model.vectors.vector import Array

_WORD = 64


def bits(mask: Array) -> Array:
    """Return the bitmap of a mask of bool; bits behind its end are 0."""
    packed = np.packbits(mask, bitorder="little")
    words = np.zeros(-(-len(mask) // _WORD) * 8, np.uint8)
    words[: len(packed)] = packed
    return words.view("<u8")


def inside(quotes: Array) -> Array:
    """Positions with an odd number of quotes up to and including them.

    >>> f"{inside(np.array([0b10000100], np.uint64))[0]:b}"
    '1111100'
    """
    parities = quotes.copy()
    for shift in (1, 2, 4, 8, 16, 32):
        parities ^= parities << np.uint64(shift)
    odd = np.bitwise_xor.accumulate(parities >> np.uint64(_WORD - 1))
    parities[1:] ^= np.uint64(0) - odd[:-1]
    return parities


def after(places: Array, first: bool = False) -> Array:
    """Positions directly behind others; with `first`, the first position of the text, too."""
    shifted = places << np.uint64(1)
    shifted[1:] |= places[:-1] >> np.uint64(_WORD - 1)
    if first:
        shifted[:1] |= np.uint64(1)
    return shifted


def before(places: Array) -> Array:
    """Positions directly before others."""
    shifted = places >> np.uint64(1)
    shifted[:-1] |= places[1:] << np.uint64(_WORD - 1)
    return shifted


def first(places: Array) -> int:
    """First position of a bitmap; -1 if it is empty."""
    words = np.flatnonzero(places)
    if not len(words):
        return -1
    word = int(places[words[0]])
    return int(words[0]) * _WORD + (word & -word).bit_length() - 1


def last(places: Array) -> int:
    """Last position of a bitmap; -1 if it is empty."""
    words = np.flatnonzero(places)
    return int(words[-1]) * _WORD + int(places[words[-1]]).bit_length() - 1 if len(words) else -1


def since(places: Array, begin: int) -> Array:
    """Positions of a bitmap from one on."""
    remaining = places.copy()
    remaining[: begin // _WORD] = 0
    remaining[begin // _WORD : begin // _WORD + 1] &= ~np.uint64((1 << begin % _WORD) - 1)
    return remaining


def count(places: Array) -> int:
    """Number of positions in a bitmap."""
    return int(np.bitwise_count(places).sum())


def without(places: Array, place: int) -> Array:
    """Remove one of a bitmap's positions."""
    remaining = places.copy()
    remaining[place // _WORD] &= ~np.uint64(1 << place % _WORD)
    return remaining
