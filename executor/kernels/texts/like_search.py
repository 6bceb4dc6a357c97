"""Search for pieces of text in whole columns: LIKE patterns of plain pieces between `%`.

The bytes of all rows lie in one buffer. The two rarest bytes of a piece are searched in that buffer (two SIMD
comparisons). The few candidate positions are checked byte by byte, all together. Only then a binary search finds each
position's row. This is several times as fast as Arrow's row-by-row search on comments of 50 bytes.

Pieces are whole characters of UTF-8, so matching bytes is matching characters.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from ....model.vectors.vector import Array

_SAMPLED = 1 << 16
"""Number of bytes from which the rarest bytes are estimated."""
_BLOCK = 1 << 18
"""Bytes searched at a time; they and their masks stay in the processor's cache."""


def places(data: Array, piece: bytes) -> Array:
    """Positions at which `piece` (not empty) begins in `data` (ndarray of uint8), ascending."""
    wanted = np.frombuffer(piece, np.uint8)
    length = len(data) - len(piece) + 1
    if length <= 0:
        return np.empty(0, np.intp)
    counts = np.bincount(data[:_SAMPLED], minlength=256)
    order = np.argsort(counts[wanted], kind="stable")
    rarest = [(int(index), wanted[index]) for index in order[:2]]
    # Scratch space is allocated once: fresh pages for every comparison cost more than the comparison.
    masks = np.empty((2, _BLOCK), np.bool_)
    blocks = [
        _candidates(data, rarest, begin, min(_BLOCK, length - begin), masks) for begin in range(0, length, _BLOCK)
    ]
    candidates = np.concatenate(blocks)
    for index in order[2:]:
        if not len(candidates):
            break
        candidates = candidates.compress(data.take(candidates + index) == wanted[index])
    return candidates


def _candidates(data: Array, rarest: list[tuple[int, Any]], begin: int, size: int, masks: Array) -> Array:
    """Positions of a block at which the rarest bytes of the piece have their places."""
    mask, other = masks
    index, byte = rarest[0]
    np.equal(data[begin + index : begin + index + size], byte, out=mask[:size])
    for index, byte in rarest[1:]:
        np.equal(data[begin + index : begin + index + size], byte, out=other[:size])
        np.logical_and(mask[:size], other[:size], out=mask[:size])
    mask[size:] = False
    # Hits are rare, so eight bytes are tested at a time.
    words = np.flatnonzero(mask.view(np.uint64) != 0)
    inside = np.flatnonzero(mask.reshape(-1, 8).take(words, axis=0))
    return words.take(inside >> 3) * 8 + (inside & 7) + begin


def bytes_of(texts: pa.Array) -> tuple[Array, Array]:
    """Return a string array's bytes (uint8), and the offsets of its rows in them (one more than rows)."""
    _, offsets, data = texts.buffers()
    begins = np.frombuffer(offsets, np.int32)[texts.offset : texts.offset + len(texts) + 1]
    raw = np.empty(0, np.uint8) if data is None else np.frombuffer(data, np.uint8)
    # A slice's rows lie somewhere in the buffer of the whole array.
    return raw[begins[0] : begins[-1]], begins - begins[0]


def contain_in_order(texts: pa.Array, pieces: Sequence[str], prefix: str = "", suffix: str = "") -> Array:
    """Return a mask of rows that begin with `prefix`, end with `suffix` and hold the pieces between, in order and
    disjoint.

    ndarray of bool, shape (n_rows,); arbitrary for NULLs.
    """
    data, begins = bytes_of(texts)
    position = begins[:-1].astype(np.int64)
    ends = begins[1:].astype(np.int64)
    start, stop = prefix.encode(), suffix.encode()
    matches = ends - position >= len(start) + len(stop)
    for anchored, at in ((start, position), (stop, ends - len(stop))):
        for index, byte in enumerate(anchored):
            rows = np.flatnonzero(matches)
            matches[rows] = data.take(at.take(rows) + index) == byte
    position += len(start)
    ends -= len(stop)
    for piece in pieces:
        matches = _advance(places(data, piece.encode()), len(piece.encode()), begins, position, ends, matches)
    return matches


def _advance(occurrences: Array, length: int, begins: Array, position: Array, ends: Array, matches: Array) -> Array:
    """Return a mask of matching rows with an occurrence at or behind their position; `position` moves behind the
    first."""
    rows = np.searchsorted(begins, occurrences, side="right") - 1
    # Empty rows begin where the next one does; none of them can hold a piece, and `right` skips them.
    fits = matches.take(rows) & (occurrences >= position.take(rows)) & (occurrences + length <= ends.take(rows))
    occurrences, rows = occurrences.compress(fits), rows.compress(fits)
    first = np.ones(len(rows), np.bool_)
    np.not_equal(rows[1:], rows[:-1], out=first[1:])
    occurrences, rows = occurrences.compress(first), rows.compress(first)
    position[rows] = occurrences + length
    result = np.zeros(len(matches), np.bool_)
    result[rows] = True
    return result
