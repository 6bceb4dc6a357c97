"""Arrow arrays made of cells of several others."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from ...model.arrow_arrays import arrow_array
from ...model.vectors.vector import Array


def gathered(arrays: Sequence[pa.Array], which: Array, row: Array, type_: pa.DataType) -> pa.Array:
    """An array of cells of several arrays.

    Parameters
    ----------
    arrays : sequence of pa.Array
        All of `type_`.
    which : ndarray of integers, shape (n_cells,)
        The array that each cell is taken from; -1: NULL.
    row : ndarray of integers, shape (n_cells,)
        Its row there.

    Examples
    --------
    >>> gathered([pa.array([1, 2]), pa.array([3])], np.array([1, -1, 0]), np.array([0, 0, 1]), pa.int64()).to_pylist()
    [3, None, 2]
    """
    if not len(which):
        return pa.nulls(0, type_)
    low, high = int(which.min()), int(which.max())
    if low == high:
        return pa.nulls(len(which), type_) if low < 0 else arrays[low].take(arrow_array(row))
    order = np.argsort(which, kind="stable")
    ends = np.searchsorted(which[order], np.arange(-1, len(arrays) + 1))
    pieces = [pa.nulls(int(ends[1]), type_)]
    for number, array in enumerate(arrays):
        mine = order[ends[number + 1] : ends[number + 2]]
        if len(mine):
            pieces.append(array.take(arrow_array(row[mine])))
    back = np.empty(len(order), np.int64)
    back[order] = np.arange(len(order))
    return pa.concat_arrays(pieces).take(arrow_array(back))
