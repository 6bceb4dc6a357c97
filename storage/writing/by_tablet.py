"""Rows by the tablets that they belong to."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from ...model.arrow_arrays import arrow_array
from ...model.vectors.vector import Array


def spans(places: Array) -> tuple[Array, list[tuple[int, int, int]]]:
    """The numbers of rows, tablet by tablet and in their order within each; and of each tablet that has some its place,
    and from where to where (exclusive) its rows are there.

    Parameters
    ----------
    places : ndarray of integers, shape (n_rows,)
        Each row's tablet; -1: none, and the row is left out.

    Examples
    --------
    >>> order, found = spans(np.array([2, 0, -1, 2]))
    >>> order.tolist(), found
    ([2, 1, 0, 3], [(0, 1, 2), (2, 2, 4)])
    """
    high = int(places.max(initial=-1))
    # A stable sort of integers of two bytes is a radix sort.
    order = np.argsort(places.astype(np.int16 if high < 1 << 15 else np.int32), kind="stable")
    ends = np.searchsorted(places.take(order), np.arange(high + 2)).tolist()
    return order, [(place, *ends[place : place + 2]) for place in range(high + 1) if ends[place] < ends[place + 1]]


def by_tablet(rows: pa.RecordBatch, places: Array) -> Iterator[tuple[int, pa.RecordBatch]]:
    """The rows of each tablet, by its place, as `spans`: `rows` themselves where all belong to one, else slices of one
    copy."""
    if not len(places):
        return
    low = int(places.min())
    if low >= 0 and low == int(places.max()):
        yield low, rows
        return
    order, found = spans(places)
    routed = rows.take(arrow_array(order))
    for place, start, stop in found:
        yield place, routed.slice(start, stop - start)
