"""The two hash functions that stored data depends on. Neither may ever change: files and tablets outlive programs.

**Buckets** (`murmur3_32*`): MurmurHash3 x86 32-bit, exactly as in the `mmh3` package, over the *encoded* hash columns
(`model.keys.keys`) with the rule's seed. The bucket is the hash modulo the number of buckets.

**Bloom filters** (`hash64_*`): 64 bits over a key's physical *values*, never over the form that holds them.

    h = 0
    for each key column, in key order:
        for each 64-bit word x of the value:
            h = fmix64((h + 0x9E3779B97F4A7C15) ^ x)        modulo 2**64

| column | words x |
|---|---|
| integers, DATE, TIMESTAMP, DECIMAL(p <= 18) | the physical value as a two's complement 64-bit integer |
| DECIMAL(p > 18) | the high, then the low half of the 128-bit unscaled value |
| STRING, BINARY of at most 256 bytes | MurmurHash64A of the bytes, seed 0 |
| STRING, BINARY beyond | the first half, read as little-endian, of MurmurHash3 x64 128-bit of the bytes, seed 0 |

`fmix64` is the finaliser of MurmurHash3 (xor-shift 33, multiply, xor-shift 33, multiply, xor-shift 33). The numpy
twins work on all rows of a column at once, four or eight bytes of each row per step; rows drop out as they end.
Values too long for that to pay are hashed one by one in C.
"""

from __future__ import annotations

import struct

import mmh3
import numpy as np
import pyarrow as pa

from ..vectors.vector import Array

LONG_BYTES = 256
"""Text beyond this length is hashed by mmh3, row by row: a call costs less there than a step over few rows."""
_ROWS = 16_384  # per step of a loop over rows: the temporaries of all kernels then stay in the second-level cache

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_FMIX_1 = np.uint64(0xFF51AFD7ED558CCD)
_FMIX_2 = np.uint64(0xC4CEB9FE1A85EC53)
_M64 = np.uint64(0xC6A4A7935BD1E995)
_C1 = np.uint32(0xCC9E2D51)
_C2 = np.uint32(0x1B873593)
_C3 = np.uint32(0xE6546B64)
_S33, _S47 = np.uint64(33), np.uint64(47)

# The same for one value at a time: Python's own integers are faster there than numpy's scalars.
_GOLDEN_INT, _FMIX_1_INT, _FMIX_2_INT, _M64_INT = int(_GOLDEN), int(_FMIX_1), int(_FMIX_2), int(_M64)
_MASK = (1 << 64) - 1
_WORD = struct.Struct("<Q")


def murmur3_32(data: bytes, seed: int = 0) -> int:
    """MurmurHash3 x86 32-bit of one byte string, unsigned.

    >>> hex(murmur3_32(b"nyala", seed=7))
    '0x7d301355'
    """
    return int(mmh3.hash(data, seed, False))


def murmur3_32_fixed(matrix: Array, seed: int = 0) -> Array:
    """`murmur3_32` of every row of a matrix.

    Parameters
    ----------
    matrix : ndarray of uint8, shape (n_rows, n_bytes), C-contiguous

    Returns
    -------
    ndarray of uint32, shape (n_rows,)
    """
    rows, width = matrix.shape
    result = np.full(rows, seed, np.uint32)
    scratch = np.empty((2, min(_ROWS, rows)), np.uint32)
    for start in range(0, rows, _ROWS):
        chunk = matrix[start : start + _ROWS]
        h = result[start : start + _ROWS]
        block, shifted = scratch[:, : len(h)]
        for place in range(0, width - width % 4, 4):
            # Element i of this view is the little-endian integer at byte `place` of row i.
            block[:] = np.ndarray(len(h), "<u4", chunk.data, place, (width,))
            _scramble_32(block, shifted)
            _mix_32(h, block, shifted)
        if width % 4:
            _tail_32(chunk[:, width - width % 4 :], block, shifted)
            _scramble_32(block, shifted)
            h ^= block
        h ^= np.uint32(width)
        _fmix_32(h, shifted)
    return result


def murmur3_32_binary(array: pa.Array, seed: int = 0) -> Array:
    """`murmur3_32` of every value of an Arrow string or binary array without nulls; ndarray of uint32, (n_rows,)."""
    result = np.empty(len(array), np.uint32)
    starts, lengths, data = text_buffers(array)
    for row in np.flatnonzero(lengths > LONG_BYTES).tolist():
        result[row] = murmur3_32(array[row].as_buffer().to_pybytes(), seed)
    loads = unaligned(data, "<u4")
    for rows in _short_rows(lengths):
        h = np.full(len(rows), seed, np.uint32)
        start, length = starts[rows], lengths[rows]
        shifted = np.empty_like(h)
        for active, place in _steps(length, 4):
            part = h[active]
            block = loads[start[active] + place].astype(np.uint32, copy=False)
            _scramble_32(block, shifted[: len(part)])
            _mix_32(part, block, shifted[: len(part)])
            h[active] = part
        # A tail of no bytes is zero and scrambles to zero, so rows without a tail need no exception.
        tail = (loads[start + (length & ~3)] & low_bytes(length & 3, np.uint32)).astype(np.uint32, copy=False)
        _scramble_32(tail, shifted)
        h ^= tail
        h ^= length.astype(np.uint32)
        _fmix_32(h, shifted)
        result[rows] = h
    return result


def hash64_words(hashes: Array, words: Array) -> None:
    """Take one 64-bit word per row into the running hashes, in place (see the module's page).

    Parameters
    ----------
    hashes : ndarray of uint64, shape (n_rows,)
        Zeros before the first word; written to.
    words : ndarray of uint64 or int64, shape (n_rows,)
    """
    words = words.view(np.uint64)
    scratch = np.empty(min(_ROWS, len(hashes)), np.uint64)
    for start in range(0, len(hashes), _ROWS):
        h = hashes[start : start + _ROWS]
        shifted = scratch[: len(h)]
        h += _GOLDEN
        h ^= words[start : start + _ROWS]
        for factor in (_FMIX_1, _FMIX_2):
            np.right_shift(h, _S33, out=shifted)
            h ^= shifted
            h *= factor
        np.right_shift(h, _S33, out=shifted)
        h ^= shifted


def hash64_text(array: pa.Array) -> Array:
    """The word of every value of an Arrow string or binary array without nulls; ndarray of uint64, (n_rows,)."""
    result = np.empty(len(array), np.uint64)
    starts, lengths, data = text_buffers(array)
    for row in np.flatnonzero(lengths > LONG_BYTES).tolist():
        result[row] = mmh3.hash64(array[row].as_buffer().to_pybytes(), 0, signed=False)[0]
    for rows in _short_rows(lengths):
        start, length = starts[rows], lengths[rows]
        h = length.astype(np.uint64) * _M64
        loads = unaligned(data, "<u8")
        for active, place in _steps(length, 8):
            block = loads[start[active] + place].astype(np.uint64, copy=False)
            block *= _M64
            block ^= block >> _S47
            block *= _M64
            h[active] = (h[active] ^ block) * _M64
        rest = length & 7
        tail = (loads[start + (length & ~7)] & low_bytes(rest, np.uint64)).astype(np.uint64, copy=False)
        h = np.where(rest > 0, (h ^ tail) * _M64, h)
        h ^= h >> _S47
        h *= _M64
        h ^= h >> _S47
        result[rows] = h
    return result


def hash64_word(hash_: int, word: int) -> int:
    """`hash64_words` for one row: the running hash with one more 64-bit word, signed or unsigned."""
    h = ((hash_ + _GOLDEN_INT) ^ word) & _MASK
    h = ((h ^ (h >> 33)) * _FMIX_1_INT) & _MASK
    h = ((h ^ (h >> 33)) * _FMIX_2_INT) & _MASK
    return h ^ (h >> 33)


def hash64_text_one(data: bytes) -> int:
    """`hash64_text` of one value: about a microsecond and as much again per 16 bytes."""
    length = len(data)
    if length > LONG_BYTES:
        return int(mmh3.hash64(data, 0, signed=False)[0])
    h = length * _M64_INT & _MASK
    whole = length & ~7
    for (block,) in _WORD.iter_unpack(data[:whole]):
        block = block * _M64_INT & _MASK
        block = (block ^ (block >> 47)) * _M64_INT & _MASK
        h = (h ^ block) * _M64_INT & _MASK
    if whole < length:
        h = (h ^ int.from_bytes(data[whole:], "little")) * _M64_INT & _MASK
    h = (h ^ (h >> 47)) * _M64_INT & _MASK
    return h ^ (h >> 47)


def text_buffers(array: pa.Array) -> tuple[Array, Array, Array]:
    """Starts and lengths of the values of an Arrow string or binary array (two ndarrays of int64), and their bytes
    (ndarray of uint8), followed by eight zeros."""
    if len(array) == 0:
        return np.empty(0, np.int64), np.empty(0, np.int64), np.zeros(8, np.uint8)
    _, offset_buffer, data_buffer = array.buffers()
    offsets = np.frombuffer(offset_buffer, np.int32)[array.offset : array.offset + len(array) + 1].astype(np.int64)
    first, end = int(offsets[0]), int(offsets[-1])
    data = np.zeros(end - first + 8, np.uint8)
    if end > first:
        data[:-8] = np.frombuffer(data_buffer, np.uint8)[first:end]
    offsets -= first
    return offsets[:-1], np.diff(offsets), data


def _short_rows(lengths: Array) -> list[Array]:
    """The rows that are not long, in portions."""
    rows = np.flatnonzero(lengths <= LONG_BYTES)
    return [rows[i : i + _ROWS] for i in range(0, len(rows), _ROWS)]


def _steps(lengths: Array, width: int) -> list[tuple[Array, int]]:
    """For each whole block of `width` bytes: the rows that have it (all of them as a slice) and its place."""
    steps: list[tuple[Array, int]] = []
    blocks = lengths // width
    active = np.arange(len(lengths))
    for number in range(int(blocks.max(initial=0))):
        active = active[blocks[active] > number]
        steps.append((active, number * width))
    return steps


def unaligned(data: Array, dtype: str) -> Array:
    """A view of `data` whose element i is the integer that starts at byte i."""
    itemsize = np.dtype(dtype).itemsize
    return np.ndarray((len(data) - itemsize + 1,), dtype, buffer=data.data, strides=(1,))


def low_bytes(count: Array, dtype: type[np.unsignedinteger]) -> Array:
    """Masks that keep the lowest `count` bytes, fewer than the dtype has."""
    one = dtype(1)
    masks: Array = (one << (count.astype(dtype) * dtype(8))) - one
    return masks


def _tail_32(tail: Array, out: Array, shifted: Array) -> None:
    """One to three last bytes of each row as a little-endian integer."""
    out[:] = tail[:, 0]
    for place in range(1, tail.shape[1]):
        shifted[:] = tail[:, place]
        shifted <<= np.uint32(8 * place)
        out |= shifted


def _rotate_32(values: Array, bits: int, shifted: Array) -> None:
    np.right_shift(values, np.uint32(32 - bits), out=shifted)
    values <<= np.uint32(bits)
    values |= shifted


def _scramble_32(block: Array, shifted: Array) -> None:
    block *= _C1
    _rotate_32(block, 15, shifted)
    block *= _C2


def _mix_32(h: Array, scrambled: Array, shifted: Array) -> None:
    h ^= scrambled
    _rotate_32(h, 13, shifted)
    h *= np.uint32(5)
    h += _C3


def _fmix_32(h: Array, shifted: Array) -> None:
    for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35), (16, 1)):
        np.right_shift(h, np.uint32(shift), out=shifted)
        h ^= shifted
        if factor != 1:
            h *= np.uint32(factor)
