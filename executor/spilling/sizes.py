"""Memory of rows that an operator keeps, as charged to its account.

A vector that shares its dictionary with others is charged for as many entries as it has rows. A column that has not
been read is charged for the values that will be read.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import numpy as np

from ...model.arrow_arrays import arrow_array
from ...model.types import DataType, Kind
from ...model.vectors.sizes import text_bytes
from ...model.vectors.vector import Array, Batch, Const, Dict, Flat, LazyColumn, Narrow, Text, Vector, Wide

_OBJECT: Final = 48
"""A Python integer beyond 64 bits and the pointer to it."""
_UNREAD: Final = 16
"""Bytes of a value of a column that has not been read, and its row number."""
_TEXT: Final = 24
"""A text: a code or an offset, and some characters."""
_PINNED: Final = 2
"""Bytes above which a view is copied: the difference between the memory that it keeps alive and its own size."""


def expected_width(type_: DataType) -> int:
    """Bytes of one value of a type, for a column that has not been read."""
    if type_.is_text:
        return _TEXT
    if type_.kind is Kind.NULL:
        return 0
    if type_.kind is Kind.INTERVAL or (type_.is_decimal and (type_.precision or 0) > 18):
        return 16
    return type_.dtype.itemsize


def vector_bytes(vector: Vector | LazyColumn, rows: int) -> int:
    """Approximate size in bytes of a column of `rows` rows."""
    if isinstance(vector, LazyColumn):
        return vector_bytes(vector.get(), rows) if vector.loaded else _UNREAD * rows
    if isinstance(vector, Const):
        return _OBJECT
    if isinstance(vector, Text | Wide):
        return text_bytes(vector.array)
    validity = 0 if vector.validity is None else vector.validity.nbytes
    if isinstance(vector, Dict):
        entries = max(1, len(vector.dictionary))
        return vector.codes.nbytes + validity + text_bytes(vector.dictionary) * min(rows, entries) // entries
    return array_bytes(vector.codes if isinstance(vector, Narrow) else vector.values()) + validity


def array_bytes(values: Array) -> int:
    """Size of an array in bytes, with the Python integers that it points to."""
    return values.nbytes + (_OBJECT * len(values) if values.dtype == object else 0)


def vectors_bytes(vectors: Iterable[Vector | LazyColumn], rows: int) -> int:
    """Approximate size in bytes of columns of `rows` rows."""
    return sum(vector_bytes(vector, rows) for vector in vectors)


def batch_bytes(batch: Batch) -> int:
    """Approximate size in bytes of a batch once it is read."""
    return vectors_bytes(batch.slots(), batch.length)


def unpinned(vector: Vector) -> Vector:
    """Return the vector, copied if it is a small view of something large, which it would keep alive."""
    if isinstance(vector, Text | Wide):
        pins = vector.array.get_total_buffer_size() > _PINNED * vector.array.nbytes
        return type(vector)(vector.type, vector.array.take(arrow_array(np.arange(len(vector))))) if pins else vector
    if isinstance(vector, Narrow | Dict):
        pins = _pins(vector.codes)
    else:
        pins = isinstance(vector, Flat) and _pins(vector.values())
    return vector.take(np.arange(len(vector))) if pins else vector


def _pins(values: Array) -> bool:
    base = values.base
    return isinstance(base, np.ndarray) and base.nbytes > _PINNED * values.nbytes
