"""A column of binary COPY data from the places of its fields: compiled where possible, else by NumPy.

Numbers are copied into one array, texts are placed one behind the other, and DECIMALs become integers of 16 bytes. A
column with a DECIMAL that must be rounded, or is not one, is read value by value, which also finds the row for the
error. There are no columns of INTERVAL.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pyarrow as pa

from ....errors import DataError
from ....model.arrow_arrays import arrow_array
from ....model.types import DataType, Kind
from . import kernels
from .columns import POSTGRES_EPOCH_DAYS, POSTGRES_EPOCH_MICROSECONDS
from .copy_rows import numbers_at
from .numerics import numeric_from_bytes
from .parameters import from_binary

_DTYPES: Final = {
    Kind.BOOLEAN: ">i1", Kind.TINYINT: ">i2", Kind.SMALLINT: ">i2", Kind.INT: ">i4", Kind.BIGINT: ">i8",
    Kind.FLOAT: ">f4", Kind.DOUBLE: ">f8", Kind.DATE: ">i4", Kind.TIMESTAMP: ">i8",
}  # fmt: skip


def width_of(type_: DataType) -> int:
    """Bytes of a value of a type; 0 if values differ."""
    return np.dtype(_DTYPES[type_.kind]).itemsize if type_.kind in _DTYPES else 0


def column(block: memoryview, starts: Any, lengths: Any, type_: DataType, name: str, row: int) -> pa.Array:
    """The values of a column.

    Parameters
    ----------
    block : memoryview
    starts, lengths : ndarray of int32, shape (n_rows,)
        Of `copy_rows.FoundRows`: of the type's width, if it has one.
    type_ : DataType
    name : str
        For errors.
    row : int
        Number of the first row, for errors.

    Raises `DataError` if the bytes of a field are not a value of the type.
    """
    nulls = lengths < 0
    try:
        if type_.kind in _DTYPES:
            return _numbers(block, starts, lengths, nulls, type_)
        if type_.is_text:
            return _texts(block, starts, lengths, nulls, type_)
        if type_.is_decimal and (found := _decimals(block, starts, lengths, nulls, type_)) is not None:
            return found
        return _one_by_one(block, starts, lengths, type_)
    except _BadValue as bad:
        raise type(bad.error)(f"COPY data, row {row + bad.place}, column {name}: {bad.error}") from None


class _BadValue(Exception):
    """The value at a place of the column is refused."""

    def __init__(self, place: int, error: DataError):
        self.place = place
        self.error = error


def _one_by_one(block: memoryview, starts: Any, lengths: Any, type_: DataType) -> pa.Array:
    values: list[Any] = []
    for start, length in zip(starts.tolist(), lengths.tolist()):
        if length < 0:
            values.append(None)
            continue
        data = bytes(block[start : start + length])
        try:
            value = numeric_from_bytes(data) if type_.is_decimal else from_binary(data, type_)
            values.append(type_.to_python(type_.to_physical(value)))
        except DataError as error:
            raise _BadValue(len(values), error) from None
    return arrow_array(values, type_.arrow)


def _validity(nulls: Any) -> pa.Buffer | None:
    return pa.py_buffer(np.packbits(~nulls, bitorder="little")) if nulls.any() else None


# ---- numbers ---------------------------------------------------------------------------------------------------------


def _numbers(block: memoryview, starts: Any, lengths: Any, nulls: Any, type_: DataType) -> pa.Array:
    values = _plain_numbers(block, starts, lengths, nulls, _DTYPES[type_.kind])
    mask = nulls if nulls.any() else None
    if type_.kind is Kind.DATE:
        return _shifted(values, POSTGRES_EPOCH_DAYS, mask, type_).view(pa.date32())
    if type_.kind is Kind.TIMESTAMP:
        return _shifted(values, POSTGRES_EPOCH_MICROSECONDS, mask, type_).view(pa.timestamp("us"))
    if type_.kind is Kind.TINYINT:
        _refuse(((values < -128) | (values > 127)) & ~nulls, "the value is out of range for TINYINT")
    return arrow_array(values.astype(type_.dtype, copy=False), type_.arrow, mask=mask)


def _plain_numbers(block: memoryview, starts: Any, lengths: Any, nulls: Any, dtype: str) -> Any:
    """The numbers, native; 0 for NULL."""
    if kernels.compiled is None:
        found = numbers_at(block, np.where(nulls, 0, starts), dtype)
        return np.where(nulls, 0, found).astype(found.dtype)
    values = np.empty(len(starts), dtype[1:])
    kernels.compiled.read_numbers(block, starts, lengths, values)
    return values


def _shifted(values: Any, distance: int, mask: Any, type_: DataType) -> pa.Array:
    """Days or microseconds since 2000, counted from 1970."""
    most = np.iinfo(values.dtype).max - distance
    # The greatest and the least number are PostgreSQL's infinity and -infinity.
    _refuse((values > most) | (values == np.iinfo(values.dtype).min), f"the value is out of range for {type_}")
    return arrow_array(values + values.dtype.type(distance), mask=mask)


def _refuse(is_bad: Any, message: str) -> None:
    if is_bad.any():
        raise _BadValue(int(is_bad.argmax()), DataError(message))


# ---- texts -----------------------------------------------------------------------------------------------------------


def _copied(block: memoryview, starts: Any, lengths: Any) -> tuple[Any, Any]:
    """Offsets and bytes of the fields, one after the other."""
    offsets = np.zeros(len(starts) + 1, np.int32)
    known = np.maximum(lengths, 0)
    np.cumsum(known, out=offsets[1:])
    if kernels.compiled is None:
        places = np.repeat(starts - offsets[:-1], known) + np.arange(offsets[-1])
        return offsets, np.frombuffer(block, np.uint8)[places]
    data = np.empty(int(offsets[-1]), np.uint8)
    kernels.compiled.read_texts(block, starts, lengths, offsets, data)
    return offsets, data


def _texts(block: memoryview, starts: Any, lengths: Any, nulls: Any, type_: DataType) -> pa.Array:
    offsets, data = _copied(block, starts, lengths)
    buffers = [_validity(nulls), pa.py_buffer(offsets), pa.py_buffer(data)]
    found = pa.Array.from_buffers(pa.binary(), len(starts), buffers)
    if type_.kind is Kind.BINARY:
        return found
    try:
        return found.cast(pa.string())
    except pa.ArrowInvalid:
        raise _BadValue(_first_bad_text(found), DataError("the text is not UTF-8")) from None


def _first_bad_text(array: pa.Array) -> int:
    for place, value in enumerate(array.to_pylist()):
        try:
            _ = None if value is None else value.decode()
        except UnicodeDecodeError:
            return place
    raise AssertionError("all texts are UTF-8")


# ---- DECIMAL ---------------------------------------------------------------------------------------------------------


def _decimals(block: memoryview, starts: Any, lengths: Any, nulls: Any, type_: DataType) -> pa.Array | None:
    """DECIMALs, if all values are plain; else None."""
    if kernels.compiled is None:
        words = None if type_.is_wide else _words_by_numpy(block, starts, lengths, nulls, type_)
    else:
        words = np.empty(16 * len(starts), np.uint8)
        if not kernels.compiled.read_numerics(block, starts, lengths, type_.precision, type_.scale or 0, words):
            return None
    if words is None:
        return None
    return pa.Array.from_buffers(type_.arrow, len(starts), [_validity(nulls), pa.py_buffer(words)])


def _words_by_numpy(block: memoryview, starts: Any, lengths: Any, nulls: Any, type_: DataType) -> Any:
    """DECIMALs of up to 18 digits, two integers of 8 bytes each; None if one is not plain."""
    scale = type_.scale or 0
    at = np.where(nulls, 0, starts)
    if ((lengths < 8) & ~nulls).any() or len(block) < 8:
        return None
    head = numbers_at(block, at, ">i8")
    counts = np.where(nulls, 0, head >> 48)
    weights = head << 16 >> 48
    signs = head >> 16 & 0xFFFF
    most = int(counts.max(initial=0))
    if ((counts < 0) | ((lengths != 8 + 2 * counts) & ~nulls) | ((signs != 0) & (signs != 0x4000) & ~nulls)).any():
        return None
    if most and int(np.where(counts > 0, weights, -1).max()) * 4 + 4 + scale > 18 + 3:
        return None
    total = np.zeros(len(starts), np.int64)
    for number in range(most):
        has = counts > number
        digit = np.where(has, numbers_at(block, np.where(has, at + 8 + 2 * number, 0), ">i2").astype(np.int64), 0)
        exponent = 4 * (weights - number) + scale
        if ((digit < 0) | (digit > 9999)).any() or (has & (exponent < -3) & (digit != 0)).any():
            return None
        down = np.where(exponent < 0, 10 ** np.clip(-exponent, 0, 3), 1)
        if (digit % down != 0).any():
            return None  # digits behind those of the column, which are rounded
        limit = np.where(has & (digit != 0), exponent, 0)
        if int(limit.max(initial=0)) > 18 or (digit * 10.0 ** np.clip(limit, 0, 18) >= 9e18).any():
            return None
        total += digit // down * 10 ** np.clip(exponent, 0, 18)
    assert type_.precision is not None
    if (total >= 10**type_.precision).any():
        return None  # the error shows the value
    total = np.where((signs == 0x4000) & ~nulls, -total, total)
    words = np.empty((len(total), 2), np.int64)
    words[:, 0], words[:, 1] = total, total >> 63
    return words
