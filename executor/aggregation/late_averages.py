"""Exact averages that are divided when they are read, for the groups that are still needed then.

A top-N, a HAVING or a join above an aggregation drops most groups. Their averages, decimals of up to 38 digits, need a
long division each (130 ns); sums and counts are there already.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np

from ...model.vectors.vector import Array, LazyColumn, Vector

Divide: TypeAlias = Callable[[Array, Array], Vector]
"""From sums and counts, ndarrays of shape (n_groups,), to the averages. It raises no error."""


class _Averages:
    """Loader of the column. Rows that are requested repeatedly, as by a join, are divided once."""

    def __init__(self, divide: Divide, sums: Array, counts: Array):
        self._divide = divide
        self._sums = sums
        self._counts = counts
        self._served = 0
        self._whole: Vector | None = None  # Two threads may compute it, with equal results.

    def __call__(self, rows: Array | None) -> Vector:
        whole = self._whole
        if whole is None and rows is not None:
            self._served += len(rows)
            if self._served < len(self._sums):
                return self._divide(self._sums.take(rows), self._counts.take(rows))
        if whole is None:
            whole = self._whole = self._divide(self._sums, self._counts)
        return whole if rows is None else whole.take(rows)


def late_averages(divide: Divide, sums: Array, counts: Array) -> LazyColumn:
    """Return the averages of all groups, not divided yet."""
    return LazyColumn(_Averages(divide, sums, np.asarray(counts)))
