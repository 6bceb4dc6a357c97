"""Digests of texts: MD5 of whole columns, SHA-2 by calls.

The 64 steps of MD5 (RFC 1321) run over a block of texts at once, each text a column of words.

A call of `hashlib` for each text holds the interpreter's lock and costs more than the digest of a short text. SHA-2 has
four times as many operations per byte, and processors have instructions for it: there `hashlib` is faster.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pyarrow as pa

from ....model.arrow_arrays import arrow_array
from ....model.types import DataType
from ....model.vectors.vector import Array, Text, Vector
from ..byte_rows import hex_of_bytes, texts_of
from .like_search import bytes_of
from .text_pieces import over_entries

_BLOCK = 64
"""Bytes that MD5 processes at a time."""
_TEXTS_AT_A_TIME = 8192
"""Their words and the intermediate results stay in the processor's second cache."""
_MOST_BLOCKS = 8
"""Longer texts are left to `hashlib`: its cost per call no longer matters."""
_FEWEST = 64
"""Number of texts from which on the steps over columns are faster than calls."""
_SHIFTS = ((7, 12, 17, 22), (5, 9, 14, 20), (4, 11, 16, 23), (6, 10, 15, 21))
_SINES = np.array([int(abs(math.sin(i + 1)) * 2**32) for i in range(64)], np.uint32)
_START = np.array([0x67452301, 0xEFCDAB89, 0x98BADCFE, 0x10325476], np.uint32)


def md5(type_: DataType, value: Vector) -> Vector:
    """MD5 digests in hexadecimal of texts or binaries."""
    return over_entries(_md5, type_, value, ())


def _md5(type_: DataType, value: Vector) -> Vector:
    array = value.to_arrow()
    digests = md5_digests(*bytes_of(array))
    bounds = np.arange(len(array) + 1, dtype=np.int64) * 32
    return Text(type_, texts_of(hex_of_bytes(digests.reshape(-1)), bounds, value.validity))


def md5_digests(data: Array, begins: Array) -> Array:
    """Return the digest of the bytes between successive offsets.

    Parameters
    ----------
    data : ndarray of uint8
    begins : ndarray of integers, shape (n_rows + 1,)

    Returns
    -------
    ndarray of uint8, shape (n_rows, 16)
    """
    begins = begins.astype(np.int64)
    lengths = np.diff(begins)
    # A byte 0x80 and the length in eight bytes follow the text.
    blocks = (lengths + 8) // _BLOCK + 1
    digests = np.empty((len(lengths), 16), np.uint8)
    import hashlib  # with OpenSSL, which few statements need

    for count in np.unique(blocks).tolist():
        rows = np.flatnonzero(blocks == count)
        if count > _MOST_BLOCKS or len(rows) < _FEWEST:
            for row in rows.tolist():
                text = data[begins[row] : begins[row + 1]].tobytes()
                digests[row] = np.frombuffer(hashlib.md5(text, usedforsecurity=False).digest(), np.uint8)
            continue
        for first in range(0, len(rows), _TEXTS_AT_A_TIME):
            some = rows[first : first + _TEXTS_AT_A_TIME]
            digests[some] = _of_equal_blocks(data, begins[some], lengths[some], count)
    return digests


def _of_equal_blocks(data: Array, starts: Array, lengths: Array, count: int) -> Array:
    """Return the digests of texts that all take `count` blocks."""
    rows = len(starts)
    padded = np.zeros((rows, count * _BLOCK), np.uint8)
    places = np.arange(int(lengths.sum())) + np.repeat(starts - np.cumsum(lengths) + lengths, lengths)
    padded[np.arange(count * _BLOCK) < lengths[:, None]] = data[places]
    padded[np.arange(rows), lengths] = 0x80
    padded[:, -8:] = (lengths * 8).astype("<u8").view(np.uint8).reshape(rows, 8)
    words = np.ascontiguousarray(padded.view("<u4").astype(np.uint32, copy=False).T)
    state = np.repeat(_START[:, None], rows, axis=1)
    for block in range(count):
        state = state + _mixed(state, words[16 * block : 16 * block + 16])
    return np.ascontiguousarray(state.T).astype("<u4", copy=False).view(np.uint8)


def _mixed(state: Array, words: Array) -> Array:
    """Return the four words of the state after the 64 steps over one block of 16 words."""
    a, b, c, d = (word.copy() for word in state)
    mixed, shifted = np.empty_like(a), np.empty_like(a)
    for step in range(64):
        turn, place = divmod(step, 16)
        if turn == 0:  # (b & c) | (~b & d)
            np.bitwise_xor(c, d, out=mixed)
            np.bitwise_and(mixed, b, out=mixed)
            np.bitwise_xor(mixed, d, out=mixed)
            word = place
        elif turn == 1:  # (d & b) | (~d & c)
            np.bitwise_xor(b, c, out=mixed)
            np.bitwise_and(mixed, d, out=mixed)
            np.bitwise_xor(mixed, c, out=mixed)
            word = (5 * place + 1) % 16
        elif turn == 2:
            np.bitwise_xor(b, c, out=mixed)
            np.bitwise_xor(mixed, d, out=mixed)
            word = (3 * place + 5) % 16
        else:
            np.bitwise_not(d, out=mixed)
            np.bitwise_or(mixed, b, out=mixed)
            np.bitwise_xor(mixed, c, out=mixed)
            word = 7 * place % 16
        np.add(a, mixed, out=a)
        np.add(a, words[word], out=a)
        np.add(a, _SINES[step], out=a)
        shift = _SHIFTS[turn][step % 4]
        np.left_shift(a, shift, out=shifted)
        np.right_shift(a, 32 - shift, out=a)
        np.bitwise_or(a, shifted, out=a)
        np.add(a, b, out=a)
        a, b, c, d = d, a, b, c
    return np.stack([a, b, c, d])


# ---- SHA-2 ---------------------------------------------------------------------------------------------------------


def _sha(name: str) -> Callable[..., Vector]:
    def kernel(type_: DataType, value: Vector) -> Vector:
        import hashlib  # with OpenSSL, which few statements need

        compute = getattr(hashlib, name)
        array = value.to_arrow().cast(pa.binary())
        # Grouping equal texts costs as much as half of the calls.
        digests = [None if text is None else compute(text).digest() for text in array.to_pylist()]
        return Text(type_, arrow_array(digests, type_.arrow))

    return lambda type_, value: over_entries(kernel, type_, value, ())


KERNELS: dict[str, Callable[..., Vector]] = {
    "md5": md5,
    **{name: _sha(name) for name in ("sha224", "sha256", "sha384", "sha512")},
}
