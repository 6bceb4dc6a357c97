"""Keys to unsigned integers that are equal exactly for equal keys.

    key vectors ── column_codes ──► a column of integers each ── packed_codes ──► as few columns as hold them

Every column has codes without being decoded: a `Dict` or a `Narrow` its own, plain integers their distance from the
least, floats their bits; texts are numbered by hash (`hash_groups`). Several columns combine into one integer, most
significant first, up to 62 bits. The compiled hash table compares as many of these as there are; sorting needs one, so
the others are numbered by hash. NULL takes the code behind the last.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ....model import arrow_functions as pc
from ....model.arrow_arrays import fill_nulls, numpy_array
from ....model.vectors.vector import Array, Const, Dict, Narrow, Text, Vector, Wide
from ..numbers.bounded_integers import measured_bounds
from ..times.intervals import sortable
from .hash_groups import number_rows, number_texts
from .row_order import MOST_BITS, densely

_MOST_CODES = (1 << 64) - 1
"""Bound of the codes of a column, so that NULL also has a code of 64 bits."""
_FLOAT_CODES = 0xFFF0_0000_0000_0001
"""The greatest code of a float, that of negative infinity, plus one."""


def combined_codes(keys: Sequence[Vector]) -> tuple[Array, int]:
    """Return one unsigned integer per row, equal exactly for rows whose keys are all equal, and its upper bound
    (exclusive)."""
    columns = packed_codes(keys)
    return one_column(columns) if columns else (np.zeros(len(keys[0]), np.uint8), 1)


def packed_codes(keys: Sequence[Vector]) -> list[tuple[Array, int]]:
    """Return columns of unsigned integers, as few as hold the codes of all keys, with their upper bounds (exclusive).
    Rows are equal in all columns exactly if their keys are. Keys with one value are left out."""
    columns: list[tuple[Array, int]] = []
    for key in keys:
        more = column_codes(key)
        if more[1] <= 1:
            continue
        if columns and columns[-1][1] * more[1] <= 1 << MOST_BITS:
            columns[-1] = _combined(columns[-1], more)
        else:
            columns.append(more)
    return columns


def _combined(column: tuple[Array, int], other: tuple[Array, int]) -> tuple[Array, int]:
    """Put two columns into one integer of at most `MOST_BITS` bits, the first one in front."""
    if column[1] <= 1:
        return other
    size = column[1] * other[1]
    dtype = _dtype(size)
    return column[0].astype(dtype) * dtype.type(other[1]) + other[0].astype(dtype), size


def one_column(columns: Sequence[tuple[Array, int]]) -> tuple[Array, int]:
    """Put columns (at least one) into one, numbered by hash where they take more than `MOST_BITS` bits."""
    found, *rest = columns
    for more in rest:
        if found[1] * more[1] > 1 << MOST_BITS:
            found = number_rows(found[0])
        if found[1] * more[1] > 1 << MOST_BITS:
            more = number_rows(more[0])
        found = _combined(found, more)
    return found


def _dtype(size: int) -> np.dtype[Any]:
    for dtype in (np.uint8, np.uint16, np.uint32):
        if size <= int(np.iinfo(dtype).max) + 1:
            return np.dtype(dtype)
    return np.dtype(np.uint64)


def column_codes(key: Vector) -> tuple[Array, int]:
    """Return one unsigned integer per row, equal exactly for equal values; NULL has the greatest."""
    codes, size = _value_codes(sortable(key))
    if size > _MOST_CODES:
        codes, size = number_rows(codes)
    return (codes, size) if key.validity is None else with_nulls(codes, size, key.validity)


def with_room(codes: Array, size: int) -> tuple[Array, int]:
    """Return the codes, renumbered if they fill 64 bits: a bound of 2**64 leaves no code for NULL."""
    return densely(codes, size) if size > _MOST_CODES else (codes, size)


def with_nulls(codes: Array, size: int, validity: Array, first: bool = False) -> tuple[Array, int]:
    """Return the codes of `with_room` with one more code for rows whose `validity` is False, behind or before the
    others."""
    dtype = _dtype(size + 1)
    codes = codes.astype(dtype, copy=False)
    if first:
        return np.where(validity, codes + dtype.type(1), dtype.type(0)), size + 1
    return np.where(validity, codes, dtype.type(size)), size + 1


def _value_codes(key: Vector) -> tuple[Array, int]:
    if isinstance(key, Const):
        return np.zeros(len(key), np.uint8), 1
    if isinstance(key, Dict):
        return _unsigned(key.codes), max(1, len(key.dictionary))
    if isinstance(key, Narrow):
        low, high = key.bounds()
        return key.codes, high - low + 1
    if isinstance(key, Text):
        codes, size = number_texts(key.array)
        return codes, max(1, size)
    if isinstance(key, Wide):
        encoded = pc.dictionary_encode(key.array)
        codes = numpy_array(fill_nulls(encoded.indices, 0))
        return _unsigned(codes), max(1, len(encoded.dictionary))
    values = key.values()
    if values.dtype.kind == "f":
        return _float_codes(values)
    if values.dtype == np.bool_:
        return values.view(np.uint8), 2
    low, high = _bounds(key)
    distances = values.astype(np.int64, copy=False).view(np.uint64) - np.uint64(low % 2**64)
    if key.validity is not None:
        distances = np.where(key.validity, distances, np.uint64(0))
    size = high - low + 1
    return distances.astype(_dtype(size), copy=False), size


def _bounds(key: Vector) -> tuple[int, int]:
    """Return proven bounds if they allow codes of 32 bits anyway, else measured ones."""
    known = key.bounds()
    if known is not None and known[1] - known[0] < 1 << 32 and known[0] >= -(2**63):
        return known
    return measured_bounds(key)


def _unsigned(codes: Array) -> Array:
    return codes.view(np.dtype(f"u{codes.dtype.itemsize}"))


def _float_codes(values: Array) -> tuple[Array, int]:
    """Codes of floats: -0.0 equals 0.0, and all NaNs are equal."""
    plain = np.where(np.isnan(values), np.nan, values.astype(np.float64) + 0.0)
    return plain.view(np.uint64), _FLOAT_CODES
