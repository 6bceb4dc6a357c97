"""Grouping of codes by hash: compiled where the installation found a C compiler, else in Arrow and NumPy.

    codes ── hash table ──► number of each row's group ── counting sort ──► order, starts

Both give the same groups, each with its rows in the order of the input. The order of the groups differs, and means
nothing. Processor time for 131,072 rows of 64 bits in 26,000 groups: 1.2 ms compiled, 4 ms in Arrow and NumPy, 9 ms by
`argsort`; where most codes differ, and for a million rows, `argsort` is as fast as Arrow. For as many texts of 50 bytes
in 73,000 groups: 4 ms compiled, 14 ms in Arrow.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from importlib import import_module
from typing import Any

import numpy as np
import pyarrow as pa

from ....model import arrow_functions as pc
from ....model.arrow_arrays import arrow_array, numpy_array
from ....model.keys.hashing import hash64_words
from ....model.vectors.vector import Array

_VERSION = 2
"""Version of the kernels' functions; those of an older build are not used."""


def _installed() -> Any:
    try:
        found = import_module("..compiled", __package__)
    except ImportError:
        return None
    return found if getattr(found, "VERSION", 1) == _VERSION else None


compiled: Any = _installed()
"""The compiled kernels; None: not installed."""


class _Hashed(threading.local):
    rows = 0


_hashed = _Hashed()


def hashed_rows() -> int:
    """Number of rows that the compiled kernels have grouped or numbered in the calling thread, for EXPLAIN ANALYZE."""
    return _hashed.rows


def partition_rows(columns: Sequence[Array], bits: int) -> list[Array]:
    """Return the rows (intp, ascending) of each of the 2**bits partitions by the hash of all columns (uint64).
    `bits` is 1 to 12."""
    codes = tuple(np.ascontiguousarray(column, np.uint64) for column in columns)
    if compiled is not None:
        order, ends = np.empty(len(codes[0]), np.intp), np.empty(1 << bits, np.intp)
        compiled.partition_rows(codes, bits, order, ends)
        return np.split(order, ends[:-1])
    hashes = np.zeros(len(codes[0]), np.uint64)
    for column in codes:
        hash64_words(hashes, column)
    numbers = (hashes >> np.uint64(64 - bits)).astype(np.uint16)
    order = np.argsort(numbers, kind="stable")
    return np.split(order, np.searchsorted(numbers.take(order), np.arange(1, 1 << bits)))


def count_hashed(rows: int) -> None:
    """Count rows for `hashed_rows`."""
    _hashed.rows += rows


def number_rows(codes: Array) -> tuple[Array, int]:
    """Number equal codes (uint64) alike, by first occurrence: a number per row (uint32), and their count."""
    if compiled is not None:
        return number_columns([codes])
    encoded = pc.dictionary_encode(arrow_array(np.ascontiguousarray(codes, np.uint64)))
    return numpy_array(encoded.indices).view(np.uint32), len(encoded.dictionary)


def number_columns(columns: Sequence[Array]) -> tuple[Array, int]:
    """Number rows with equal codes (uint64) in all columns alike, by first occurrence: a number per row (uint32), and
    their count. The compiled kernels are needed."""
    codes = tuple(np.ascontiguousarray(column, np.uint64) for column in columns)
    rows = len(codes[0])
    count_hashed(rows)
    numbers = np.empty(rows, np.uint32)
    return numbers, compiled.number_rows(codes, numbers, np.empty(rows, np.uint32))


def number_texts(array: pa.Array) -> tuple[Array, int]:
    """Number equal texts of an Arrow string array alike: a number per row (uint32), and their count; arbitrary for
    NULLs."""
    rows = len(array)
    if compiled is None or not rows or array.type not in (pa.string(), pa.binary()):
        encoded = pc.dictionary_encode(array)
        return encoded.indices.fill_null(0).to_numpy(zero_copy_only=False).view(np.uint32), len(encoded.dictionary)
    count_hashed(rows)
    _, offset_buffer, data_buffer = array.buffers()
    offsets = np.frombuffer(offset_buffer, np.int32)
    data = np.zeros(0, np.uint8) if data_buffer is None else np.frombuffer(data_buffer, np.uint8)
    numbers = np.empty(rows, np.uint32)
    return numbers, compiled.number_texts(offsets[array.offset : array.offset + rows + 1], data, numbers)


def group_rows(columns: Sequence[Array]) -> tuple[Array, Array] | None:
    """Return the rows (intp) group by group, and where each group of rows with equal codes (uint64) in all columns
    begins; None without the compiled kernel: sorting is as fast then."""
    if compiled is None:
        return None
    count_hashed(len(columns[0]))
    codes = tuple(np.ascontiguousarray(column, np.uint64) for column in columns)
    order, starts = np.empty(len(codes[0]), np.intp), np.empty(len(codes[0]), np.intp)
    count = compiled.group_rows(codes, order, starts)
    return order, starts[:count].copy()  # memory of the rest is returned
