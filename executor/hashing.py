"""Hashes of rows: equal for equal rows, independent of their vectors' encodings."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..model.bloom_predicate import hash_floats, hash_integers, hash_wide
from ..model.vectors.vector import Array, Const, Dict, Text, Vector, Wide, vector_from_arrow
from .kernels.texts.text_hashes import text_hashes
from .kernels.times.intervals import sortable

_SPREAD = np.uint64(0x9E3779B97F4A7C15)


def row_hashes(columns: Sequence[Vector], length: int) -> Array:
    """Return a hash for each row (ndarray of uint64, shape (length,)).

    All NULLs have one hash; so have equal integers of any width, 0.0 and -0.0, and all NaNs.
    """
    total = np.zeros(length, np.uint64)
    for column in columns:
        total *= _SPREAD
        total ^= total >> np.uint64(29)
        total += _column_hashes(column)
    return total


def _column_hashes(column: Vector) -> Array:
    if isinstance(column, Const):
        if column.value is None or not len(column):
            return np.zeros(len(column), np.uint64)
        once = vector_from_arrow(column.type, column.slice(0, 1).to_arrow())
        return np.broadcast_to(_value_hashes(sortable(once)), (len(column),))
    hashes = _value_hashes(sortable(column))
    return hashes if column.validity is None else np.where(column.validity, hashes, np.uint64(0))


def _value_hashes(column: Vector) -> Array:
    """Hashes of the values; arbitrary for NULLs."""
    if isinstance(column, Dict) and 0 < len(column.dictionary) <= len(column):
        hashes: Array = text_hashes(column.dictionary).take(column.codes)
        return hashes
    if isinstance(column, Dict | Text):
        return text_hashes(column.to_arrow())
    if isinstance(column, Wide):
        return hash_wide(column.array)
    values = column.values()
    return hash_floats(values) if column.type.is_float else hash_integers(values)
