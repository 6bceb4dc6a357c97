"""Texts and wide decimals of a build side, numbered by a hash table that is made once.

    array ── 64-bit hashes ── HashSlots ──► number of each distinct value      find: hash, look up, compare the values

Values whose hash another value has already are the `rest`, in which Arrow searches. There are none unless someone made
them: of 100 million texts, two share a hash once in 3,700 queries.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from ...model import arrow_functions as pc
from ...model.arrow_arrays import arrow_array, fill_nulls, numpy_array
from ...model.bloom_predicate import hash_wide
from ...model.vectors.vector import Array
from ..kernels.texts.text_hashes import text_hashes
from .join_index import HashSlots


class KnownValues:
    """Distinct values, numbered from 0: those in the table, then the rest."""

    def __init__(self, slots: HashSlots, values: pa.Array, rest: pa.Array):
        self._slots = slots
        self._values = values
        self._rest = rest
        self._positions: Array | None = None

    @classmethod
    def of_distinct(cls, values: pa.Array) -> KnownValues:
        """Number distinct values by their positions."""
        known, numbers = cls.learn(values)
        if len(known._rest):
            known._positions = np.argsort(numbers)
        return known

    @classmethod
    def learn(cls, values: pa.Array) -> tuple[KnownValues, Array]:
        """Number values, which may repeat.

        Parameters
        ----------
        values : pa.Array
            Strings, binaries or decimals of 128 bits, without NULLs.

        Returns
        -------
        KnownValues
        ndarray of int64, shape (len(values),)
            The number of each.
        """
        slots, rows, numbers = HashSlots.learn(_hashes(values))
        rest = values.slice(0, 0)
        if rows is None or numbers is None:
            return cls(slots, values, rest), np.arange(len(values))
        distinct = values.take(arrow_array(rows))
        other = np.flatnonzero(~_equal(values, distinct.take(arrow_array(numbers))))
        if len(other):
            others = values.take(arrow_array(other))
            rest = pc.unique(others)
            numbers[other] = _positions(others, rest) + len(distinct)
        return cls(slots, distinct, rest), numbers

    def __len__(self) -> int:
        return len(self._values) + len(self._rest)

    def find(self, values: pa.Array) -> Array:
        """Return the number of each value, -1 if it is unknown or NULL; ndarray of int64."""
        if values.type != self._values.type:
            values = values.cast(self._values.type)
        numbers = self._slots.find(_hashes(values)).astype(np.int64)
        rows = np.flatnonzero(numbers >= 0)
        if len(rows) == len(numbers):
            equal = _equal(values, self._values.take(arrow_array(numbers)))
        else:
            equal = _equal(values.take(arrow_array(rows)), self._values.take(arrow_array(numbers.take(rows))))
        if not equal.all():
            other = rows[~equal]
            numbers[other] = -1
            if len(self._rest):
                found = _positions(values.take(arrow_array(other)), self._rest)
                numbers[other] = np.where(found < 0, -1, found + len(self._values))
        if self._positions is not None:
            numbers = np.where(numbers < 0, -1, self._positions.take(numbers, mode="clip"))
        return numbers


def _hashes(values: pa.Array) -> Array:
    hashes = hash_wide(values) if pa.types.is_decimal(values.type) else text_hashes(values)
    codes: Array = hashes.view(np.int64)
    return codes


def _equal(left: pa.Array, right: pa.Array) -> Array:
    """Mask of equal values; NULL equals none."""
    equal = pc.equal(left, right)
    return numpy_array(fill_nulls(equal, False))


def _positions(values: pa.Array, among: pa.Array) -> Array:
    positions = fill_nulls(pc.index_in(values, value_set=among), -1)
    return np.array(numpy_array(positions), np.int64)
