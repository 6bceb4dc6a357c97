"""Between physical values in numpy arrays and Arrow arrays: the functions that vectors are built on."""

from __future__ import annotations

from bisect import bisect_left
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from ...errors import NumericOutOfRange
from ..arrow_arrays import arrow_array
from ..types import INTERVAL_DTYPE, DataType, Kind

Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]
"""Any numpy array; docstrings state dtype and shape."""


def decimal_limbs(array: pa.Array) -> tuple[Array, Array]:
    """The two 64-bit halves of an Arrow decimal128 array's unscaled values.

    Returns
    -------
    high : ndarray of int64, shape (n_rows,)
    low : ndarray of uint64, shape (n_rows,)
        value = high * 2**64 + low. Views of the array's buffer; under NULLs anything.
    """
    if len(array) == 0:
        return np.empty(0, np.int64), np.empty(0, np.uint64)
    words = np.frombuffer(array.buffers()[1], np.uint64)[2 * array.offset : 2 * (array.offset + len(array))]
    return words[1::2].view(np.int64), words[0::2]


def decimal_from_limbs(type_: DataType, high: Array, low: Array, validity: Array | None = None) -> pa.Array:
    """The Arrow decimal128 array whose unscaled values are high * 2**64 + low; the inverse of `decimal_limbs`."""
    words = np.empty((len(high), 2), np.uint64)
    words[:, 0] = low
    words[:, 1] = high.view(np.uint64)
    return pa.Array.from_buffers(type_.arrow, len(high), [_bitmap(validity), pa.py_buffer(words)])


def decimal_scalar(type_: DataType, value: int) -> pa.Scalar:
    """An unscaled value as an Arrow scalar, also 10**38, which represents values beyond DECIMAL(38)."""
    return decimal_from_limbs(type_, np.array([value >> 64]), np.array([value % 2**64], np.uint64))[0]


def _bitmap(validity: Array | None) -> pa.Buffer | None:
    return None if validity is None else pa.py_buffer(np.packbits(validity, bitorder="little"))


def _intervals_to_arrow(type_: DataType, values: Array, validity: Array | None) -> pa.Array:
    """The record's third field in nanoseconds, the others unchanged."""
    micros = values["microseconds"] if validity is None else np.where(validity, values["microseconds"], 0)
    if len(micros) and (int(micros.max()) > _MOST_MICROSECONDS or int(micros.min()) < -_MOST_MICROSECONDS):
        raise NumericOutOfRange("an INTERVAL of more than 292 years in hours cannot be returned as nanoseconds")
    words = np.array(values, INTERVAL_DTYPE)
    words["microseconds"] = micros * 1000
    return pa.Array.from_buffers(type_.arrow, len(words), [_bitmap(validity), pa.py_buffer(words)])


_MOST_MICROSECONDS = (1 << 63) // 1000


def intervals_from_arrow(array: pa.Array) -> Array:
    """Records of `INTERVAL_DTYPE` from a month_day_nano array, cut to microseconds; under NULLs anything."""
    if len(array) == 0:
        return np.empty(0, INTERVAL_DTYPE)
    rows = slice(array.offset, array.offset + len(array))
    words = np.frombuffer(array.buffers()[1], INTERVAL_DTYPE)[rows].copy()
    words["microseconds"] //= 1000
    return words


def physical_to_arrow(type_: DataType, values: Array, validity: Array | None = None) -> pa.Array:
    """An Arrow array of `type_.arrow` from physical values; `validity` marks the present ones."""
    if type_.is_decimal:
        if values.dtype == object:
            converted = [type_.to_python(v) for v in values]
            return arrow_array(converted, type_.arrow, mask=None if validity is None else ~validity)
        wide = values.astype(np.int64, copy=False)
        return decimal_from_limbs(type_, wide >> 63, wide.view(np.uint64), validity)
    if type_.kind is Kind.INTERVAL:
        return _intervals_to_arrow(type_, values, validity)
    mask = None if validity is None else ~validity
    if values.dtype == object:
        return arrow_array(values.tolist(), type_.arrow, mask=mask)
    values = values.astype(type_.dtype, copy=False)
    if type_.kind is Kind.DATE:
        return arrow_array(values, pa.int32(), mask=mask).cast(pa.date32())
    if type_.kind is Kind.TIMESTAMP:
        return arrow_array(values, pa.int64(), mask=mask).cast(pa.timestamp("us"))
    return arrow_array(values, type_.arrow, mask=mask)


_SAMPLED_VALUES = 64


class TextCells:
    """Single values of an Arrow array of strings or bytes (offsets of 32 bits), in a third of the time that Arrow
    itself takes for one. Immutable; to be made once for an array.

    >>> TextCells(pa.array(["a", None, "é"])).get(2)
    'é'
    """

    __slots__ = ("_array", "_binary", "_data", "_has_nulls", "_is_string", "_offsets", "_samples")

    def __init__(self, array: pa.Array):
        _, offsets, data = array.buffers()
        start, count = array.offset, len(array)
        self._array = array
        self._has_nulls = array.null_count > 0
        self._is_string = array.type == pa.string()
        self._offsets = memoryview(offsets or bytes(4))[4 * start : 4 * (start + count + 1)].cast("i")
        self._data = memoryview(data or b"")
        self._binary: pa.Array | None = None
        """The same as bytes, made at the first use."""
        self._samples: list[bytes] | None = None
        """Every 64th value, made at the first search: half of the comparisons then run in C."""

    def get(self, place: int) -> Any:
        """The value at `place` (0 or more) as str or bytes; None for NULL."""
        if self._has_nulls and not self._array[place].is_valid:
            return None
        offsets = self._offsets
        cell = self._data[offsets[place] : offsets[place + 1]]
        return str(cell, "utf-8") if self._is_string else cell.tobytes()

    @property
    def strings(self) -> tuple[memoryview, memoryview] | None:
        """Offsets and UTF-8 bytes of the values, if they are strings without NULL. For callers to which a call of `get`
        is expensive."""
        return (self._offsets, self._data) if self._is_string and not self._has_nulls else None

    def search(self, value: bytes, start: int, stop: int) -> tuple[int, int]:
        """Range of values equal to `value` among the ascending values, none NULL, from `start` to `stop` (exclusive):
        its begin and end; both are the insertion position if there is none."""
        low = self._search(value, start, stop, after=False)
        # As a rule there is one.
        if low == stop or self.bytes_at(low) != value:
            return low, low
        if low + 1 == stop or self.bytes_at(low + 1) != value:
            return low, low + 1
        return low, self._search(value, low + 2, stop, after=True)

    def bytes_at(self, place: int) -> bytes:
        """The value at `place`, which is not NULL, as bytes."""
        return self._data[self._offsets[place] : self._offsets[place + 1]].tobytes()

    def bytes_between(self, start: int, stop: int) -> list[bytes]:
        """The values from `start` to `stop` (exclusive), none NULL, as bytes."""
        if self._binary is None:
            array = self._array
            self._binary = pa.Array.from_buffers(
                pa.binary(), len(array), [None, *array.buffers()[1:]], offset=array.offset
            )
        values: list[bytes] = self._binary.slice(start, stop - start).to_pylist()
        return values

    def _search(self, value: bytes, start: int, stop: int, after: bool) -> int:
        offsets, data = self._offsets, self._data
        if stop - start > 4 * _SAMPLED_VALUES and not after:
            samples = self._samples
            if samples is None:
                places = range(0, len(offsets) - 1, _SAMPLED_VALUES)
                samples = self._samples = [self.bytes_at(place) for place in places]
            # Only those within the range ascend.
            first, last = -(-start // _SAMPLED_VALUES), (stop - 1) // _SAMPLED_VALUES + 1
            place = bisect_left(samples, value, first, last)
            if place > first:
                start = (place - 1) * _SAMPLED_VALUES + 1
            if place < last:
                stop = place * _SAMPLED_VALUES
        while start < stop:
            middle = (start + stop) >> 1
            candidate = data[offsets[middle] : offsets[middle + 1]].tobytes()
            if candidate < value or (after and candidate == value):
                start = middle + 1
            else:
                stop = middle
        return start
