"""Order of rows by columns of codes: a compiled radix sort, or None where the installation found no C compiler.

It is stable, and its time depends on the bits that differ, not on the columns that these are in: codes need not be
packed or renumbered to fit into 64 bits. Processor time for 131,072 rows: 1.5 ms for doubles, 9.9 by NumPy's stable
`argsort`; 0.6 ms for 20 bits, 5.4 by NumPy's sort of packed integers. For a million rows 22 and 104, 11 and 55.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...model.vectors.vector import Array
from . import hash_groups

_FEWEST = 1024
"""Number of rows from which on the sort is worth its call."""


def stable_order(columns: Sequence[Array]) -> Array:
    """Return the rows in the order of their codes, equal rows in their own: `radix_order`, or by NumPy."""
    order = radix_order(columns)
    if order is None:
        order = np.argsort(columns[0], kind="stable") if len(columns) == 1 else np.lexsort(columns[::-1])
    return order


def radix_order(columns: Sequence[Array]) -> Array | None:
    """Return the rows in the order of their codes, equal rows in their own; None: let NumPy sort them.

    Parameters
    ----------
    columns : sequence of ndarray of unsigned integers, shape (n_rows,)
        At least one, the first one most significant.

    Returns
    -------
    ndarray of intp, shape (n_rows,), optional
    """
    if hash_groups.compiled is None or len(columns[0]) < _FEWEST:
        return None
    codes = tuple(np.ascontiguousarray(column, np.uint64) for column in columns)
    order = np.empty(len(codes[0]), np.intp)
    hash_groups.compiled.sort_rows(codes, order)
    return order
