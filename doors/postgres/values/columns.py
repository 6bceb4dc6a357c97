"""A column of a batch as fields of rows: the bytes of each value, in the text or the binary format.

    Fixed     all values have one width: a table of bytes, n rows by width
    Varying   values one after the other, and where each begins: the buffers of an Arrow array

Texts are written by the kernels of CAST, which follow PostgreSQL, except for booleans (`t`, `f`) and bytes (`\\x6162`).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ....executor.kernels.cast import cast
from ....model.arrow_arrays import fill_nulls, numpy_array
from ....model.lazy_dataclass import dataclass
from ....model.types import STRING, DataType, Kind
from ....model.vectors.vector import vector_from_arrow
from .arrays import array_to_bytes, binary_arrays
from .numerics import numeric_fields
from .types import TEXT, element_oid

POSTGRES_EPOCH_DAYS: Final = 10_957
"""Days from 1970-01-01 to 2000-01-01, from which PostgreSQL counts."""
POSTGRES_EPOCH_MICROSECONDS: Final = POSTGRES_EPOCH_DAYS * 86_400_000_000
_HEX: Final = np.frombuffer(b"".join(b"%02x" % byte for byte in range(256)), np.uint16)


@dataclass(frozen=True, slots=True)
class Fixed:
    """Values of one width; `nulls` is None, or true where a value is NULL."""

    data: Any
    nulls: Any

    @property
    def width(self) -> int:
        """Bytes of a value."""
        return int(self.data.shape[1])


@dataclass(frozen=True, slots=True)
class Varying:
    """Values of varying widths: an Arrow array of BINARY without offset, its `lengths` (int32), and `nulls` as above.
    Of a NULL the length is 0."""

    array: pa.Array
    lengths: Any
    nulls: Any


Fields: TypeAlias = Fixed | Varying


def binary_array(lengths: Any, data: Any) -> pa.Array:
    """An Arrow array of BINARY whose values have these lengths and lie one after the other."""
    offsets = np.zeros(len(lengths) + 1, np.int32)
    np.cumsum(lengths, out=offsets[1:])
    return pa.Array.from_buffers(pa.binary(), len(lengths), [None, pa.py_buffer(offsets), pa.py_buffer(data)])


def fields(type_: DataType, array: pa.Array, format_: int) -> Fields:
    """The fields of a column in a format."""
    nulls = None if not array.null_count else ~numpy_array(array.is_valid())
    if type_.kind is Kind.BOOLEAN and format_ == TEXT:
        flags = numpy_array(fill_nulls(array, False))
        return Fixed(np.where(flags, np.uint8(ord("t")), np.uint8(ord("f")))[:, None], nulls)
    if format_ == TEXT:
        return _varying(_texts(type_, array), nulls)
    if type_.alias is not None and (found := _of_catalogs(type_, array, nulls)) is not None:
        return found
    return _BINARY[type_.kind](type_, array, nulls)


# ---- text ------------------------------------------------------------------------------------------------------------


def texts(type_: DataType, array: pa.Array) -> pa.Array:
    """The values as texts, as the text format has them; NULL stays NULL."""
    if type_.kind is Kind.BOOLEAN:
        return pc.if_else(array, "t", "f")
    return _texts(type_, array)


def _texts(type_: DataType, array: pa.Array) -> pa.Array:
    if type_.kind is Kind.STRING or type_.kind is Kind.NULL:
        return array.cast(pa.string())
    if type_.kind is Kind.BINARY:
        return _hexadecimal(array)
    if type_.is_integer:
        return array.cast(pa.string())
    return cast_array(STRING, type_, array)


def cast_array(target: DataType, source: DataType, array: pa.Array) -> pa.Array:
    """Values of one type as those of another, by CAST, without a dictionary. Raises as CAST does."""
    found = cast(target, vector_from_arrow(source, array)).to_arrow()
    return found.dictionary_decode() if pa.types.is_dictionary(found.type) else found


def _hexadecimal(array: pa.Array) -> pa.Array:
    lengths, data = _bytes_of(array)
    digits = binary_array(2 * lengths, _HEX[data].view(np.uint8)).cast(pa.string())
    found = pc.binary_join_element_wise("\\x", digits, "")
    return pc.if_else(array.is_valid(), found, None) if array.null_count else found


def _bytes_of(array: pa.Array) -> tuple[Any, Any]:
    """Lengths and bytes of an array of STRING or BINARY; of a NULL none."""
    if array.null_count:
        array = fill_nulls(array, "" if pa.types.is_string(array.type) else b"")
    if not len(array):
        return np.zeros(0, np.int32), np.zeros(0, np.uint8)
    _, offsets, data = array.buffers()
    bounds = np.frombuffer(offsets, np.int32)[array.offset : array.offset + len(array) + 1]
    whole = np.zeros(0, np.uint8) if data is None else np.frombuffer(data, np.uint8)
    return np.diff(bounds), whole[bounds[0] : bounds[-1]]


def _varying(array: pa.Array, nulls: Any) -> Varying:
    lengths, data = _bytes_of(array)
    return Varying(binary_array(lengths, data), lengths, nulls)


# ---- binary ----------------------------------------------------------------------------------------------------------


def _table(values: Any, dtype: str) -> Any:
    """Numbers as a table of their bytes."""
    swapped = np.ascontiguousarray(values.astype(dtype))
    return swapped.view(np.uint8).reshape(len(swapped), swapped.dtype.itemsize)


def _numbers(dtype: str, shift: int = 0) -> Callable[[DataType, pa.Array, Any], Fields]:
    def make(type_: DataType, array: pa.Array, nulls: Any) -> Fields:
        if pa.types.is_temporal(array.type):
            array = array.view(pa.int32() if array.type.bit_width == 32 else pa.int64())
        values = numpy_array(fill_nulls(array, 0) if nulls is not None else array)
        return Fixed(_table(values - shift if shift else values, dtype), nulls)

    return make


def _of_catalogs(type_: DataType, array: pa.Array, nulls: Any) -> Fields | None:
    """Values of a type of the system catalogs that has a binary format of its own: an oid, an array."""
    if type_.alias in ("oid", "xid"):
        return _numbers(">u4")(type_, array, nulls)
    element = element_oid(type_)
    if element is None:
        return None
    lengths, data = binary_arrays(array, partial(array_to_bytes, element=element))
    return Varying(binary_array(lengths, data), lengths, nulls)


def _booleans(type_: DataType, array: pa.Array, nulls: Any) -> Fields:
    return Fixed(numpy_array(fill_nulls(array, False)).astype(np.uint8)[:, None], nulls)


def _intervals(type_: DataType, array: pa.Array, nulls: Any) -> Fields:
    source = np.dtype([("months", "<i4"), ("days", "<i4"), ("nanoseconds", "<i8")])
    given = np.frombuffer(array.buffers()[1], source)[array.offset : array.offset + len(array)]
    sent = np.empty(len(array), np.dtype([("microseconds", ">i8"), ("days", ">i4"), ("months", ">i4")]))
    sent["microseconds"] = given["nanoseconds"] // 1000
    sent["days"], sent["months"] = given["days"], given["months"]
    return Fixed(sent.view(np.uint8).reshape(len(sent), 16), nulls)


def _decimals(type_: DataType, array: pa.Array, nulls: Any) -> Fields:
    lengths, data = numeric_fields(type_, array, nulls)
    return Varying(binary_array(lengths, data), lengths, nulls)


_BINARY: Final[dict[Kind, Callable[[DataType, pa.Array, Any], Fields]]] = {
    Kind.BOOLEAN: _booleans,
    Kind.TINYINT: _numbers(">i2"),
    Kind.SMALLINT: _numbers(">i2"),
    Kind.INT: _numbers(">i4"),
    Kind.BIGINT: _numbers(">i8"),
    Kind.FLOAT: _numbers(">f4"),
    Kind.DOUBLE: _numbers(">f8"),
    Kind.DATE: _numbers(">i4", POSTGRES_EPOCH_DAYS),
    Kind.TIMESTAMP: _numbers(">i8", POSTGRES_EPOCH_MICROSECONDS),
    Kind.INTERVAL: _intervals,
    Kind.DECIMAL: _decimals,
    Kind.STRING: lambda type_, array, nulls: _varying(array, nulls),
    Kind.BINARY: lambda type_, array, nulls: _varying(array, nulls),
    Kind.NULL: lambda type_, array, nulls: _varying(array.cast(pa.string()), nulls),
}
