"""Columns whose rows are lists of values, for the rows that some aggregates keep of each group."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from ...model.arrow_arrays import arrow_array
from ...model.types import DataType
from ...model.vectors.vector import Array, Vector


class Lists(Vector):
    """Row i holds the items `offsets[i]` to `offsets[i + 1]` (exclusive).

    Parameters
    ----------
    items : Vector
        Items of all rows, one after the other. Their type is the column's `type`.
    offsets : ndarray of int64, shape (n_rows + 1,)
        Ascending; the first 0, the last the number of items.
    """

    __slots__ = ("items", "offsets", "type", "validity")

    def __init__(self, items: Vector, offsets: Array):
        self.type: DataType = items.type
        self.validity = None
        self.items = items
        self.offsets = offsets

    @classmethod
    def of_sizes(cls, items: Vector, sizes: Array) -> Lists:
        """Make lists of the given numbers of items."""
        offsets = np.zeros(len(sizes) + 1, np.int64)
        np.cumsum(sizes, out=offsets[1:])
        return cls(items, offsets)

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @property
    def sizes(self) -> Array:
        """Items per row, int64."""
        return np.diff(self.offsets)

    def take(self, indices: Array) -> Lists:
        sizes = self.sizes.take(indices)
        taken = Lists.of_sizes(self.items, sizes)
        shifts = np.repeat(self.offsets.take(indices) - taken.offsets[:-1], sizes)
        return Lists(self.items.take(np.arange(taken.offsets[-1]) + shifts), taken.offsets)

    def slice(self, start: int, stop: int) -> Lists:
        return self.take(np.arange(start, min(stop, len(self))))

    def values(self) -> Array:
        """Return lists of physical values, for small results and tests only."""
        result = np.empty(len(self), object)
        result[:] = [part.tolist() for part in np.split(self.items.values(), self.offsets[1:-1])][: len(self)]
        return result

    def to_arrow(self) -> pa.Array:
        return pa.LargeListArray.from_arrays(arrow_array(self.offsets), self.items.to_arrow())
