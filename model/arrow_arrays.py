"""Arrow arrays and scalars from numpy arrays and short lists of Python values, without an import of pandas.

`pa.array` and `pa.scalar` import pandas, where it is installed, to see whether their argument is one of its objects.
That is 0.16 to 0.2 s of processor time at the first call in a process. `arrow_array` and `arrow_scalar` return the same
for the arguments that the engine has, and build them from buffers. Values of users may be objects of pandas, and go to
`pa.array`. `numpy_array` is the way back.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa

_LONGEST_LIST: Final = 4_096
"""Arrow converts longer lists several times as fast, which outweighs the import."""

_PYTHON_TYPES: Final = {
    **dict.fromkeys((pa.int8(), pa.int16(), pa.int32(), pa.int64()), int),
    **dict.fromkeys((pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()), int),
    pa.float64(): float,
    pa.bool_(): bool,
    pa.string(): str,
    pa.binary(): bytes,
}
"""The types of list items that are converted here, by the type of the array."""
_EXACT_IN_FLOATS: Final = 2**53
_INFERRED: Final = {int: pa.int64(), float: pa.float64(), bool: pa.bool_(), str: pa.string(), bytes: pa.binary()}

_DTYPES: Final = {
    # `to_pandas_dtype` imports pandas in PyArrow 23.
    type_: np.dtype(str(type_))
    for type_ in (pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64())
} | {pa.float32(): np.dtype(np.float32), pa.float64(): np.dtype(np.float64), pa.bool_(): np.dtype(np.bool_)}


def arrow_array(
    values: Sequence[Any] | np.ndarray[Any, Any], type_: pa.DataType | None = None, mask: Any = None
) -> pa.Array:
    """`pa.array(values, type_, mask=mask)`.

    Parameters
    ----------
    values : ndarray or sequence
        Not an object of pandas. An array of numbers in native byte order becomes an Arrow array without a copy.
    type_ : pyarrow.DataType, optional
        By default the type of the values.
    mask : ndarray of bool, optional
        True for NULL.

    Raises the errors of `pa.array`.
    """
    found = None
    if type(values) is np.ndarray:
        found = _from_numbers(values, mask)
        if found is not None and type_ is not None and found.type != type_:
            found = found.cast(type_)
    elif mask is None and isinstance(values, list | tuple) and len(values) <= _LONGEST_LIST:
        found = None if "pandas" in sys.modules else _from_items(values, type_)
    return pa.array(values, type_, mask=mask) if found is None else found


def arrow_scalar(value: Any, type_: pa.DataType | None = None) -> pa.Scalar:
    """`pa.scalar(value, type_)` for a Python value; raises its errors."""
    if "pandas" not in sys.modules:
        if value is None and type_ is not None:
            return pa.nulls(1, type_)[0]
        found = _from_items([value], type_)
        if found is not None:
            return found[0]
    return pa.scalar(value, type_)


def dtype_of(type_: pa.DataType) -> np.dtype[Any]:
    """The NumPy type of an Arrow array's values, for all types that have one."""
    found: np.dtype[Any] = _DTYPES[type_] if type_ in _DTYPES else np.dtype(type_.to_pandas_dtype())
    return found


def fill_nulls(array: pa.Array, value: Any) -> pa.Array:
    """`array.fill_null(value)` for a Python value."""
    return array.fill_null(arrow_scalar(value, array.type)) if array.null_count else array


def numpy_array(array: pa.Array) -> np.ndarray[Any, Any]:
    """`array.to_numpy(zero_copy_only=False)`: a read-only view of the buffer if numbers have no NULL, else a copy."""
    dtype = _DTYPES.get(array.type)
    if dtype is None or array.null_count or not len(array) or not isinstance(array, pa.Array):
        return array.to_numpy(zero_copy_only=False)  # type: ignore[no-any-return]
    start, end, values = array.offset, array.offset + len(array), array.buffers()[1]
    if dtype == np.bool_:
        whole = np.frombuffer(values, np.uint8)[start // 8 : (end + 7) // 8]
        return np.unpackbits(whole, bitorder="little")[start % 8 :][: end - start].view(np.bool_)
    return np.frombuffer(values, dtype)[start:end]


def _from_numbers(values: np.ndarray[Any, Any], mask: Any) -> pa.Array | None:
    """An array of numbers or booleans; None for other dtypes and shapes."""
    kind, size = values.dtype.kind, len(values) if values.ndim == 1 else -1
    if kind not in "iufb" or size < 0 or not values.dtype.isnative:
        return None
    validity = None if mask is None else _bits(~np.asarray(mask))
    if kind == "b":
        return pa.Array.from_buffers(pa.bool_(), size, [validity, _bits(values)])
    type_ = pa.from_numpy_dtype(values.dtype)
    return pa.Array.from_buffers(type_, size, [validity, pa.py_buffer(np.ascontiguousarray(values))])


def _from_items(values: Sequence[Any], type_: pa.DataType | None) -> pa.Array | None:
    """An array of the Python values, all of one type or None; None if it takes conversions."""
    kinds = set(map(type, values))
    has_nulls = type(None) in kinds
    kinds.discard(type(None))
    if type_ is None:
        type_ = _INFERRED.get(next(iter(kinds))) if len(kinds) == 1 else None
    kind = _PYTHON_TYPES.get(type_)
    if kind is float and all(abs(value) <= _EXACT_IN_FLOATS for value in values if type(value) is int):
        kinds.discard(int)
    if type_ is None or kind is None or not kinds <= {kind}:
        return None
    validity = _bits(np.array([value is not None for value in values], np.bool_)) if has_nulls else None
    if kind is str or kind is bytes:
        cells = [b"" if v is None else v for v in values] if kind is bytes else _encoded(values)
        offsets = np.zeros(len(cells) + 1, np.int64)
        np.cumsum([len(cell) for cell in cells], out=offsets[1:])
        if offsets[-1] > np.iinfo(np.int32).max:
            return None
        buffers = [pa.py_buffer(offsets.astype(np.int32)), pa.py_buffer(b"".join(cells))]
        return pa.Array.from_buffers(type_, len(cells), [validity, *buffers])
    items = [kind() if v is None else v for v in values] if has_nulls else values
    if kind is bool:
        return pa.Array.from_buffers(type_, len(items), [validity, _bits(np.array(items, np.bool_))])
    try:
        numbers = np.array(items, _DTYPES[type_])
    except OverflowError:
        return None  # Arrow raises its own error
    return pa.Array.from_buffers(type_, len(items), [validity, pa.py_buffer(numbers)])


def _encoded(values: Sequence[str | None]) -> list[bytes]:
    return [b"" if value is None else value.encode() for value in values]


def _bits(flags: np.ndarray[Any, Any]) -> pa.Buffer:
    return pa.py_buffer(np.packbits(flags, bitorder="little"))
