"""Buckets of HASH partitions, as the partitioner computes them (`model.partitions.hash_schema`)."""

from __future__ import annotations

import numpy as np

from ...model.keys.keys import Keys
from ...model.types import DataType
from ...model.vectors.vector import Array, Const, Dict, Flat, Text, Vector
from .numbers.bounded_integers import joined_validity

_ROWS = 16_384
"""Hashed at a time: encoded bytes and hashes then stay in the cache."""


def hash_bucket(type_: DataType, buckets: Vector, seed: Vector, *values: Vector) -> Vector:
    """The bucket of each row; NULL if one of its values is.

    Parameters
    ----------
    type_ : DataType
        INT.
    buckets, seed : Const
        Of the hash rule.
    *values : Vector
        The columns of the rule, of its types.
    """
    assert isinstance(buckets, Const) and isinstance(seed, Const)
    only = values[0]
    if len(values) == 1 and isinstance(only, Dict) and 0 < len(only.dictionary) < len(only):
        entries = Flat(type_, _buckets((Text(only.type, only.dictionary),), seed.value, buckets.value))
        taken = np.asarray(entries.values()).take(only.codes)
        return Flat(type_, taken, only.validity)
    validity = joined_validity(*values)
    if validity is None:
        return Flat(type_, _buckets(values, seed.value, buckets.value))
    rows = np.flatnonzero(validity)
    result = np.zeros(len(only), np.int32)
    result[rows] = _buckets(tuple(value.take(rows) for value in values), seed.value, buckets.value)
    return Flat(type_, result, validity)


def _buckets(values: tuple[Vector, ...], seed: int, buckets: int) -> Array:
    """The bucket of rows without NULLs: ndarray of int32, shape (n_rows,)."""
    keys = Keys(tuple(value.type for value in values), values)
    result = np.empty(len(keys), np.int32)
    for start in range(0, len(keys), _ROWS):
        portion = keys.slice(start, start + _ROWS)
        result[start : start + len(portion)] = portion.hashes_32(seed) % np.uint32(buckets)
    return result
