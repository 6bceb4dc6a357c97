"""Layouts of numbers and texts in a page other than plain sequences. `column_file` draws them.

    bits     one plane per bit that occurs     decodes at about 1 to 2 ns per value and byte (measured)
    runs     one code per run, and lengths     0.1 ns per row in long runs, 5 ns where each run has three rows
    texts    lengths instead of offsets        2 ns per row, the bytes are a view
    fronts   and bytes shared with a row above 2 to 3 ns per byte of text

All of it works on whole pages with kernels that release the GIL, but for `np.repeat` in `unpack_runs`, which is done
after 0.1 ms.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from ...model.vectors.vector import Array

RUN_LENGTH = np.dtype("<u2")
"""Holds the length of a run minus 1."""
MOST_RUN_ROWS = 1 << 16
"""A longer run is stored as several."""
RESTART_ROWS = 16
"""Every how many rows a text is stored whole; the rows up to the next one name how much they share with it."""
MOST_SHARED = 255


# ---- bits ------------------------------------------------------------------------------------------------------------


def pack_bits(codes: Array, bits: int) -> bytes:
    """The lowest `bits` bits of unsigned codes as planes of ceil(rows / 8) bytes, lowest bit first.

    >>> pack_bits(np.array([1, 2, 3], np.uint8), 2).hex(" ")
    '05 06'
    """
    columns = codes.view(np.uint8).reshape(len(codes), codes.dtype.itemsize)
    planes = []
    for first in range(0, bits, 8):
        column = np.ascontiguousarray(columns[:, first // 8])
        planes += [np.packbits(column & (1 << bit), bitorder="little") for bit in range(min(8, bits - first))]
    return b"".join(plane.tobytes() for plane in planes)


def unpack_bits(planes: Array, rows: int, bits: int, dtype: np.dtype[Any]) -> Array:
    """The inverse of `pack_bits`: a new ndarray of `dtype`, shape (rows,). `ValueError` where the bytes do not fit."""
    size = -(-rows // 8)
    if len(planes) != bits * size:
        raise ValueError(f"{len(planes)} bytes of planes instead of {bits * size}")
    codes = np.zeros(rows, dtype)
    for first in range(0, bits if rows else 0, 8):
        byte = _merged(planes[first * size : min(first + 8, bits) * size], size)[:rows].astype(dtype, copy=False)
        if first:
            byte = np.left_shift(byte, first)
        np.bitwise_or(codes, byte, out=codes)
    return codes


def _merged(planes: Array, size: int) -> Array:
    """Up to eight planes as one byte per row, shape (8 * size,).

    `unpackbits` makes a byte of each bit; eight rows at a time then lie in a word, in which a shift cannot run over:
    each byte takes as many shifts as there are planes.
    """
    words: Array = np.unpackbits(planes, bitorder="little").view(np.uint64).reshape(-1, size)
    merged: Array = words[-1]
    for plane in words[-2::-1]:
        np.left_shift(merged, 1, out=merged)
        np.bitwise_or(merged, plane, out=merged)
    rows: Array = merged.view(np.uint8)
    return rows


# ---- runs ------------------------------------------------------------------------------------------------------------


def run_starts(codes: Array) -> Array:
    """Starts of runs of equal codes: ndarray of intp, ascending, the first is 0 (none of no codes).

    Runs also end at every multiple of 65,536 rows, so that their lengths fit.
    """
    if not len(codes):
        return np.empty(0, np.intp)
    ends = codes[1:] != codes[:-1]
    ends[MOST_RUN_ROWS - 1 :: MOST_RUN_ROWS] = True
    return np.concatenate(([0], np.flatnonzero(ends) + 1))


def pack_runs(codes: Array, starts: Array) -> bytes:
    """One code per run, then the length of each run minus 1; `starts` as of `run_starts`.

    >>> pack_runs(codes := np.array([7, 7, 7, 9], np.uint8), run_starts(codes)).hex(" ")
    '07 09 02 00 00 00'
    """
    lengths = np.diff(starts, append=len(codes)) - 1
    return codes.take(starts).tobytes() + lengths.astype(RUN_LENGTH).tobytes()


def unpack_runs(page: pa.Buffer, start: int, rows: int, dtype: np.dtype[Any]) -> Array:
    """The inverse of `pack_runs` from byte `start` of a page: a new ndarray, shape (rows,). `ValueError` where the
    lengths do not add up to `rows`."""
    runs, rest = divmod(page.size - start, dtype.itemsize + RUN_LENGTH.itemsize)
    codes = np.frombuffer(page, dtype, runs, start)
    lengths = np.frombuffer(page, RUN_LENGTH, runs, start + codes.nbytes).astype(np.intp) + 1
    if rest or (total := int(lengths.sum())) != rows:
        raise ValueError(f"runs of {rest or total} rows instead of {rows}" if not rest else f"{rest} bytes are over")
    return np.repeat(codes, lengths)


# ---- texts -----------------------------------------------------------------------------------------------------------


def offsets_of(lengths: Array) -> Array:
    """Offsets of texts that are stored back to back, with the end of the last: ndarray of int32, shape (rows + 1,)."""
    offsets = np.zeros(len(lengths) + 1, np.int32)
    np.cumsum(lengths, dtype=np.int32, out=offsets[1:])
    return offsets


def shared_lengths(data: Array, offsets: Array) -> Array:
    """Number of leading bytes that each text shares with the restart row above it, at most 255: ndarray of uint8.

    0 for restart rows. One pass per byte position, over the rows that still agree.
    """
    rows = len(offsets) - 1
    starts, lengths = offsets[:-1].astype(np.intp), np.diff(offsets)
    restarts = np.arange(rows) // RESTART_ROWS * RESTART_ROWS
    limits = np.minimum(np.minimum(lengths, lengths.take(restarts)), MOST_SHARED)
    limits[::RESTART_ROWS] = 0
    shared = np.zeros(rows, np.uint8)
    alive = np.flatnonzero(limits)
    place = 0
    while len(alive):
        same = data.take(starts.take(alive) + place) == data.take(starts.take(restarts.take(alive)) + place)
        alive = alive[same]
        place += 1
        shared[alive] = place
        alive = alive[limits.take(alive) > place]
    return shared


def without_fronts(data: Array, offsets: Array, shared: Array) -> Array:
    """The bytes of all texts but those that each row shares with its restart row: ndarray of uint8."""
    starts = offsets[:-1].astype(np.intp) + shared
    return data.take(_ranges(starts, offsets[1:] - starts))


def with_fronts(data: Array, lengths: Array, shared: Array) -> tuple[Array, Array]:
    """(bytes, offsets) of whole texts: the inverse of `without_fronts`; `lengths` are those of the suffixes.
    `ValueError` if a row would share more bytes than its restart row has."""
    starts = offsets_of(lengths)[:-1].astype(np.intp)
    restarts = np.arange(len(lengths)) // RESTART_ROWS * RESTART_ROWS
    # Restart rows share nothing, so that their bytes lie here as a whole.
    if len(lengths) and (bool(shared[::RESTART_ROWS].any()) or bool((shared > lengths.take(restarts)).any())):
        raise ValueError("a text shares more than there is")
    pieces, sizes = np.empty((2, 2 * len(lengths)), np.intp)
    pieces[0::2], pieces[1::2] = starts.take(restarts), starts
    sizes[0::2], sizes[1::2] = shared, lengths
    return data.take(_ranges(pieces, sizes)), offsets_of(lengths.astype(np.int32) + shared)


def _ranges(starts: Array, sizes: Array) -> Array:
    """The positions start, start + 1, ... of every range, one after the other: ndarray of intp.

    >>> _ranges(np.array([5, 0, 9]), np.array([2, 0, 3])).tolist()
    [5, 6, 9, 10, 11]
    """
    held = np.flatnonzero(sizes)
    if not len(held):
        return np.empty(0, np.intp)
    starts, sizes = starts.take(held), sizes.take(held)
    steps = np.ones(int(sizes.sum()), np.intp)
    steps[0] = starts[0]
    # At the first position of a range, the step from the last one of the range before.
    steps[np.cumsum(sizes[:-1])] = starts[1:] - (starts[:-1] + sizes[:-1] - 1)
    return np.cumsum(steps, out=steps)
