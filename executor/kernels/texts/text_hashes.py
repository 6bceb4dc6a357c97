"""64-bit hashes of texts, for tables that live as long as a statement; stored data depends on `model.keys.hashing`.

Every byte counts, so texts that differ collide with probability 2**-64 each pair, unless they were made to: users of
these hashes compare the texts. A text of up to 16 bytes takes two loads, its first and its last 8 bytes; longer ones
one more for every 8 bytes. Half to a third of the time of the stored hash (8 ns a text of 8 bytes, 15 of 16).
"""

from __future__ import annotations

import mmh3
import numpy as np
import pyarrow as pa

from ....model.keys.hashing import LONG_BYTES, unaligned
from ....model.vectors.vector import Array

_ROWS = 16_384
"""Rows at a time, so that the temporaries stay in the second-level cache."""
_LENGTH = np.uint64(0x9E3779B97F4A7C15)
_MIX_1, _MIX_2 = np.uint64(0xFF51AFD7ED558CCD), np.uint64(0xC4CEB9FE1A85EC53)
_S29, _S32 = np.uint64(29), np.uint64(32)
_HEAD = np.array([(1 << 8 * n) - 1 for n in range(9)], np.uint64)
"""By length, up to 8: the bits of the first word that belong to the text."""
_TAIL = np.array([0] * 9 + [(1 << 64) - 1], np.uint64)
"""By length, up to 9: the bits of the last word that the first does not have."""


def text_hashes(array: pa.Array) -> Array:
    """Return the hash of every value of an Arrow string or binary array; arbitrary for NULLs.

    Returns
    -------
    ndarray of uint64, shape (len(array),)
    """
    rows = len(array)
    result = np.empty(rows, np.uint64)
    if not rows:
        return result
    _, offset_buffer, data_buffer = array.buffers()
    offsets = np.frombuffer(offset_buffer, np.int32)[array.offset : array.offset + rows + 1]
    data = np.empty(0, np.uint8) if data_buffer is None else np.frombuffer(data_buffer, np.uint8)
    for start in range(0, rows, _ROWS):
        _hash_part(offsets[start : start + _ROWS + 1], data, result[start : start + _ROWS])
    return result


def _hash_part(offsets: Array, data: Array, hashes: Array) -> None:
    """Hash the texts between `offsets` of `data` into `hashes`."""
    first, end = int(offsets[0]), int(offsets[-1])
    # Eight more bytes, so that a word may start at any byte.
    padded = np.zeros(end - first + 8, np.uint8)
    padded[:-8] = data[first:end]
    words = unaligned(padded, "<u8")
    starts = offsets[:-1] - np.int32(first)
    lengths = offsets[1:] - offsets[:-1]
    longest = int(lengths.max())
    word = words[starts]
    word &= _HEAD.take(lengths, mode="clip")
    np.multiply(lengths.astype(np.uint64), _LENGTH, out=hashes)
    _absorb(hashes, word)
    if longest > 8:
        word = words[starts + np.maximum(lengths - 8, 0)]
        word &= _TAIL.take(lengths, mode="clip")
        _absorb(hashes, word)
    else:
        hashes *= _MIX_1  # as a word of zeros: the hash does not depend on the other texts
    if longest > 16:
        _absorb_middle(hashes, words, starts, lengths)
    hashes ^= hashes >> _S29
    hashes *= _MIX_2
    hashes ^= hashes >> _S32
    if longest > LONG_BYTES:
        for row in np.flatnonzero(lengths > LONG_BYTES).tolist():
            text = padded[starts[row] : starts[row] + lengths[row]].tobytes()
            hashes[row] = mmh3.hash64(text, 0, signed=False)[0]


def _absorb_middle(hashes: Array, words: Array, starts: Array, lengths: Array) -> None:
    """Mix in the words between the first and the last of texts of more than 16 bytes, except long ones."""
    rows = np.flatnonzero((lengths > 16) & (lengths <= LONG_BYTES))
    if not len(rows):
        return
    # By descending number of words: those that have a word are the first ones.
    counts = ((lengths.take(rows) - 9) >> 3).astype(np.uint8)
    if int(counts.min()) != int(counts.max()):
        order = np.argsort(~counts, kind="stable")
        rows, counts = rows.take(order), counts.take(order)
    places = starts.take(rows)
    part = hashes.take(rows)
    for number in range(int(counts[0])):
        having = int(np.searchsorted(~counts, ~np.uint8(number)))
        places[:having] += 8
        _absorb(part[:having], words[places[:having]])
    hashes[rows] = part


def _absorb(hashes: Array, words: Array) -> None:
    """Mix one word per row into the running hashes, in place; `words` are overwritten.

    A word is scrambled first, as in MurmurHash64A: differences in its high bytes would otherwise stay there, and cancel
    those of the next word.
    """
    words *= _MIX_1
    words ^= words >> _S32
    words *= _MIX_2
    hashes ^= words
    hashes *= _MIX_1
