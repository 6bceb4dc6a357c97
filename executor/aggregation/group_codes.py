"""Grouping of rows: keys to integer codes, codes to segments of equal keys.

    key vectors ── codes ──► one unsigned integer per row ── segments ──► order, starts

Every column has codes without being decoded: a `Dict` or a `Narrow` its own, plain integers their distance from the
least, floats their bits; texts are numbered by hash (`hash_groups`). Several columns combine into one integer, most
significant first, up to 62 bits. The compiled hash table compares as many of these as there are; sorting needs one, so
the others are numbered by hash. NULLs form a group: they take the code behind the last.

Groups are *segments*, runs of rows in a given order, because `reduceat` over runs is exact for integers of any size and
releases the interpreter lock. Rows that lie in key order already (a scan by primary key) need no sorting. Codes of up
to 16 bits are sorted by radix. Above, a compiled hash table groups the rows if there is one. Else key and row number
are packed into one integer and sorted, or by `argsort` if they do not fit. Processor time for 131,072
rows: 0.5 to 1.2 ms by radix, 1.3 ms by compiled hash, 3 ms for packed integers of 32 bits, 5 ms for 64.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow.compute as pc

from ...model.arrow_arrays import fill_nulls, numpy_array
from ...model.lazy_dataclass import dataclass
from ...model.vectors.vector import Array, Const, Dict, Narrow, Text, Vector, Wide
from ..kernels.numbers.bounded_integers import measured_bounds
from ..kernels.times.intervals import sortable
from .hash_groups import group_rows, number_rows, number_texts
from .radix_sort import radix_order, stable_order

_MOST_BITS = 62
_MOST_CODES = (1 << 64) - 1
"""Bound of the codes of a column, so that NULL also has a code of 64 bits."""
_MOST_LAYERS = 8
_RADIX_CODES = 1 << 16
"""Number of codes up to which NumPy's stable sort is a radix sort."""
HASHED_ROWS = 1024
"""Number of rows from which on the hash table is worth its call."""
_FLOAT_CODES = 0xFFF0_0000_0000_0001
"""The greatest code of a float, that of negative infinity, plus one."""
_PROBED = 256
"""Number of rows whose comparison detects most unordered batches before the whole batch is compared."""


@dataclass(frozen=True)
class Segments:
    """Rows gathered by group.

    Parameters
    ----------
    order : ndarray of intp, shape (n_rows,), optional
        The rows, group by group; None: they are in this order already.
    starts : ndarray of intp, shape (n_groups,)
        Position at which each group begins in that order; ascending, the first 0.
    length : int
        Number of rows.
    """

    order: Array | None
    starts: Array
    length: int

    def __len__(self) -> int:
        return len(self.starts)

    @cached_property
    def sizes(self) -> Array:
        """Rows per group, int64."""
        # np.diff(append=) costs 50 microseconds, which is significant for a batch of one group.
        sizes = np.empty(len(self.starts), np.int64)
        np.subtract(self.starts[1:], self.starts[:-1], out=sizes[:-1])
        sizes[-1:] = self.length - self.starts[-1:]
        return sizes

    @cached_property
    def largest(self) -> int:
        """Rows of the largest group."""
        return int(self.sizes.max(initial=0))

    @cached_property
    def _layers(self) -> list[tuple[Array, Array]]:
        """For k = 1, 2, ...: the groups with more than k rows, and the position of their row k."""
        layers = []
        chosen = np.arange(len(self.starts))
        for k in range(1, self.largest):
            chosen = chosen.compress(self.sizes.take(chosen) > k)
            layers.append((chosen, self.starts.take(chosen) + k))
        return layers

    def sums(self, values: Array) -> Array:
        """Sums (int64) of integers in the groups' order; the caller has proven that they fit."""
        if self.largest > _MOST_LAYERS or len(self.starts) < _MOST_LAYERS:
            sums: Array = np.add.reduceat(values, self.starts, dtype=np.int64)
            return sums
        # `reduceat` costs 45 ns per run: many short runs are cheaper row by row of the run, all runs at once.
        sums = values.take(self.starts).astype(np.int64)
        for chosen, rows in self._layers:
            sums[chosen] += values.take(rows)
        return sums

    def float_sums(self, values: Array) -> Array:
        """Sums (float64) of doubles in the groups' order."""
        sums: Array = np.add.reduceat(values, self.starts)
        return sums

    def extremes(self, values: Array, greatest: bool) -> Array:
        """The least or greatest value of each group, of the values' type. NaN is above all; a least value is NaN if the
        group has no other."""
        if values.dtype.kind == "f" and not greatest:
            return np.fmin.reduceat(values, self.starts)
        found: Array = (np.maximum if greatest else np.minimum).reduceat(values, self.starts)
        return found

    def has_any(self, mask: Array) -> Array:
        """True for the groups with a row whose `mask` is True."""
        found: Array = np.logical_or.reduceat(mask, self.starts)
        return found

    def spread(self, values: Array) -> Array:
        """For each row in the groups' order, the value of its group."""
        return np.repeat(values, self.sizes)

    @property
    def firsts(self) -> Array:
        """One row of each group, as a position in the groups' order."""
        return self.starts

    @property
    def representatives(self) -> Array:
        """Return one row of each group."""
        return self.starts if self.order is None else self.order.take(self.starts)

    def group_of_row(self) -> Array:
        """Group number of each row, in the rows' own order."""
        numbers = np.repeat(np.arange(len(self.starts)), self.sizes)
        if self.order is None:
            return numbers
        result = np.empty(self.length, np.intp)
        result[self.order] = numbers
        return result


def one_group(length: int) -> Segments:
    """Put all rows in one group."""
    return Segments(None, np.zeros(1, np.intp), length)


def segments(keys: Sequence[Vector], length: int) -> Segments:
    """Group rows with equal keys; NULLs equal each other. `length` is at least 1. The groups come in no order, the
    rows of each in their own."""
    columns = packed_codes([key for key in keys if not isinstance(key, Const)])
    return segments_of_columns(columns, length) if columns else one_group(length)


def segments_of_columns(columns: Sequence[tuple[Array, int]], length: int) -> Segments:
    """Group rows with equal codes in all of `packed_codes`, at least one."""
    if (len(columns) == 1 and columns[0][1] <= _RADIX_CODES) or length < HASHED_ROWS:
        return segments_of_codes(*_one_column(columns))
    codes = [column for column, _ in columns]
    if are_ascending(codes):
        return Segments(None, run_starts(*codes), length)
    grouped = group_rows(codes)
    if grouped is not None:
        return Segments(*grouped, length)
    return segments_of_codes(*_one_column(columns))


def segments_of_codes(codes: Array, size: int) -> Segments:
    """Group rows with equal codes, all of them below `size`; ascending by code."""
    if are_ascending([codes]):
        return Segments(None, run_starts(codes), len(codes))
    order, ordered = sort_rows(codes, size)
    return Segments(order, run_starts(ordered), len(codes))


def is_ascending(codes: Array) -> bool:
    """True if no row's code is less than the one before."""
    return are_ascending([codes])


def are_ascending(columns: Sequence[Array]) -> bool:
    """True if no row's codes are less than those of the row before, the first column compared first."""
    return _ascend(columns, _PROBED) and _ascend(columns, len(columns[0]))


def _ascend(columns: Sequence[Array], rows: int) -> bool:
    """True if the first `rows` rows ascend."""
    last = columns[-1][:rows]
    in_order = last[1:] >= last[:-1]
    for column in columns[-2::-1]:
        before, after = column[:rows][:-1], column[:rows][1:]
        in_order = (after > before) | ((after == before) & in_order)
    return bool(in_order.all())


def run_starts(*ordered: Array) -> Array:
    """Positions at which runs of rows begin that are equal in all columns (at least one)."""
    change = np.empty(len(ordered[0]), np.bool_)
    change[:1] = True
    np.not_equal(ordered[0][1:], ordered[0][:-1], out=change[1:])
    for column in ordered[1:]:
        change[1:] |= column[1:] != column[:-1]
    return np.flatnonzero(change)


def sort_rows(codes: Array, size: int) -> tuple[Array, Array]:
    """Return the row numbers sorted by their codes (equal codes in row order), and the codes in that order."""
    if size <= _RADIX_CODES:
        order = np.argsort(codes.astype(np.uint16, copy=False), kind="stable")
        return order, codes.take(order)
    if (sorted_rows := radix_order([codes])) is not None:
        return sorted_rows, codes.take(sorted_rows)
    row_bits = max(1, (len(codes) - 1).bit_length())
    bits = max(1, (size - 1).bit_length()) + row_bits
    if bits > 64:
        order = np.argsort(codes, kind="stable")
        return order, codes.take(order)
    dtype = np.uint32 if bits <= 32 else np.uint64
    packed: Any = codes.astype(dtype)
    packed <<= dtype(row_bits)
    packed |= np.arange(len(codes), dtype=dtype)
    packed.sort()
    order = (packed & dtype((1 << row_bits) - 1)).astype(np.intp)
    packed >>= dtype(row_bits)
    return order, packed


# ---- codes -----------------------------------------------------------------------------------------------------------


def combined_codes(keys: Sequence[Vector]) -> tuple[Array, int]:
    """Return one unsigned integer per row, equal exactly for rows whose keys are all equal, and its upper bound
    (exclusive)."""
    columns = packed_codes(keys)
    return _one_column(columns) if columns else (np.zeros(len(keys[0]), np.uint8), 1)


def packed_codes(keys: Sequence[Vector]) -> list[tuple[Array, int]]:
    """Return columns of unsigned integers, as few as hold the codes of all keys, with their upper bounds (exclusive).
    Rows are equal in all columns exactly if their keys are. Keys with one value are left out."""
    columns: list[tuple[Array, int]] = []
    for key in keys:
        more = column_codes(key)
        if more[1] <= 1:
            continue
        if columns and columns[-1][1] * more[1] <= 1 << _MOST_BITS:
            columns[-1] = _combined(columns[-1], more)
        else:
            columns.append(more)
    return columns


def _combined(column: tuple[Array, int], other: tuple[Array, int]) -> tuple[Array, int]:
    """Put two columns into one integer of at most `_MOST_BITS` bits, the first one in front."""
    if column[1] <= 1:
        return other
    size = column[1] * other[1]
    dtype = _dtype(size)
    return column[0].astype(dtype) * dtype.type(other[1]) + other[0].astype(dtype), size


def _one_column(columns: Sequence[tuple[Array, int]]) -> tuple[Array, int]:
    """Put columns (at least one) into one, numbered by hash where they take more than `_MOST_BITS` bits."""
    found, *rest = columns
    for more in rest:
        if found[1] * more[1] > 1 << _MOST_BITS:
            found = number_rows(found[0])
        if found[1] * more[1] > 1 << _MOST_BITS:
            more = number_rows(more[0])
        found = _combined(found, more)
    return found


def sort_by_columns(columns: Sequence[tuple[Array, int]]) -> tuple[Array | None, list[Array]]:
    """Sort rows by the codes of columns, the first column first; equal rows keep their order.

    Parameters
    ----------
    columns : sequence of (ndarray, int)
        At least one: unsigned codes and an exclusive upper bound of them.

    Returns
    -------
    ndarray of intp, optional
        The row numbers in order; None: the rows are in order.
    list of ndarray
        Codes in that order. Rows are equal in all of them exactly if they are equal in all columns.
    """
    codes, size = columns[0]
    packed: list[Array] = []
    for more, count in columns[1:]:
        if size * count > 1 << _MOST_BITS:
            packed.append(codes)
            codes, size = more, count
        else:
            codes, size = codes.astype(np.uint64) * np.uint64(count) + more.astype(np.uint64), size * count
    packed.append(codes)
    if are_ascending(packed):
        return None, packed
    order = stable_order(packed) if len(packed) > 1 else sort_rows(codes, size)[0]
    return order, [column.take(order) for column in packed]


def _dtype(size: int) -> np.dtype[Any]:
    for dtype in (np.uint8, np.uint16, np.uint32):
        if size <= int(np.iinfo(dtype).max) + 1:
            return np.dtype(dtype)
    return np.dtype(np.uint64)


def densely(codes: Array, size: int) -> tuple[Array, int]:
    """Renumber the codes from 0 without gaps, in the same order."""
    order, ordered = sort_rows(codes, size)
    change = np.zeros(len(codes), np.int64)
    change[1:] = ordered[1:] != ordered[:-1]
    numbers = np.cumsum(change)
    result = np.empty(len(codes), np.uint64)
    result[order] = numbers.astype(np.uint64)
    return result, int(numbers[-1]) + 1 if len(codes) else 1


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
