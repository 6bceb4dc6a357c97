"""Texts of whole columns built from bytes: one row of a matrix per text.

digits   2 0 2 4 - 0 7        every text has the width of the matrix: its bytes are the buffer
kept     . . 7 f              texts of different widths: a mask says which bytes belong to them
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from ...errors import DataError
from ...model.vectors.vector import Array

MOST_BYTES = 2**31 - 1
"""Size of the buffer of an Arrow array of texts."""
_PAIRS = np.frombuffer(b"".join(b"%02d" % n for n in range(100)), np.uint16)
"""The two digits of 0 to 99."""
_HEX_PAIRS = np.frombuffer(b"".join(b"%02x" % n for n in range(256)), np.uint16)


def texts_of(data: Array, offsets: Array, validity: Array | None, type_: pa.DataType | None = None) -> pa.Array:
    """Make an Arrow array of texts.

    Parameters
    ----------
    data : ndarray of uint8
    offsets : ndarray of integers, shape (n_rows + 1,)
        From 0, ascending.
    validity : ndarray of bool, shape (n_rows,), optional
    type_ : pa.DataType
        `string` by default.
    """
    refuse_size(int(offsets[-1]))
    bits = None if validity is None else pa.py_buffer(np.packbits(validity, bitorder="little"))
    buffers = [bits, pa.py_buffer(offsets.astype(np.int32)), pa.py_buffer(np.ascontiguousarray(data))]
    return pa.Array.from_buffers(type_ or pa.string(), len(offsets) - 1, buffers)


def masked(array: pa.Array, present: Array | None) -> pa.Array:
    """Return an Arrow array of texts with NULL where `present` (ndarray of bool) is False; it shares the bytes."""
    if present is None or bool(present.all()):
        return array
    if array.null_count:
        present = present & array.is_valid().to_numpy(zero_copy_only=False)
    _, offsets, data = array.buffers()
    begins = np.frombuffer(offsets, np.int32)[array.offset : array.offset + len(array) + 1]
    bits = pa.py_buffer(np.packbits(present, bitorder="little"))
    return pa.Array.from_buffers(array.type, len(array), [bits, pa.py_buffer(begins), data])


def refuse_size(size: int) -> None:
    """Raise `DataError` if the texts of one batch take more than 2 GB."""
    if size > MOST_BYTES:
        raise DataError(f"the texts of a batch would take {size} bytes; the limit is {MOST_BYTES}")


def texts_of_matrix(matrix: Array, kept: Array | None = None, validity: Array | None = None) -> pa.Array:
    """Make a text of each row: all of its bytes, or those that `kept` (bool, of the matrix's shape) selects."""
    rows, width = matrix.shape
    if kept is None:
        return texts_of(matrix.reshape(-1), np.arange(rows + 1, dtype=np.int64) * width, validity)
    offsets = np.zeros(rows + 1, np.int64)
    np.cumsum(np.count_nonzero(kept, axis=1), out=offsets[1:])
    return texts_of(matrix[kept], offsets, validity)


def digits(numbers: Array, width: int) -> Array:
    """Return the last `width` decimal digits of numbers that are not negative, with leading zeros.

    ndarray of uint8, shape (n_rows, width).
    """
    pairs = np.empty((len(numbers), (width + 1) // 2), np.uint16)
    rest = numbers.astype(np.uint32) if width <= 9 else numbers.astype(np.uint64)
    for column in range(pairs.shape[1] - 1, 0, -1):
        quotient = rest // 100
        pairs[:, column] = _PAIRS.take((rest - quotient * 100).astype(np.uint8), mode="clip")
        rest = quotient
    pairs[:, 0] = _PAIRS.take((rest % 100).astype(np.uint8), mode="clip")
    return pairs.view(np.uint8)[:, width % 2 :]


def significant(shown: Array) -> Array:
    """Mask of the digits from the first that is not 0 on; of zeros only the last digit."""
    kept = np.logical_or.accumulate(shown != ord("0"), axis=1)
    kept[:, -1] = True
    return kept


def hex_digits(numbers: Array) -> Array:
    """Return the digits of unsigned integers to base 16, with leading zeros; shape (n_rows, 2 * itemsize)."""
    size = numbers.dtype.itemsize
    ordered = np.ascontiguousarray(numbers.astype(numbers.dtype.newbyteorder(">"))).view(np.uint8)
    return _HEX_PAIRS.take(ordered).view(np.uint8).reshape(len(numbers), 2 * size)


def hex_of_bytes(data: Array) -> Array:
    """Return the two hexadecimal digits of each byte, uint8."""
    return _HEX_PAIRS.take(data).view(np.uint8)


def table_of(words: Sequence[str]) -> tuple[Array, Array]:
    """Return words as a matrix of bytes, padded with blanks, and a mask of the bytes that belong to them."""
    encoded = [word.encode() for word in words]
    width = max(len(word) for word in encoded)
    matrix = np.frombuffer(b"".join(word.ljust(width) for word in encoded), np.uint8).reshape(len(words), width)
    return matrix, np.arange(width) < np.array([[len(word)] for word in encoded])
