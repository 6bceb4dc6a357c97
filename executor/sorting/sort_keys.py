"""Sort keys: the order of rows.

Every sort key becomes unsigned codes in the requested order (descending ones mirrored, NULLs before or behind the
rest). All keys of a row become one integer if they fit, and rows are sorted as packed integers
(`aggregation.group_codes.sort_rows`): equal rows keep their order.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow.compute as pc

from ...model.vectors.vector import Array, Const, Narrow, Vector, Wide
from ...sql.expressions import OrderItem
from ..aggregation.accumulators import ordered_dictionary
from ..aggregation.group_codes import sort_rows, with_nulls, with_room
from ..kernels.numbers.bounded_integers import measured_bounds
from ..kernels.times.intervals import sortable

_MOST_BITS = 62
_FLOAT_CODES = 0xFFF8_0000_0000_0001
"""The code of NaN, the greatest, plus one."""
WORTH_CUTTING = 4
"""Factor: a batch is cut to its first n rows if it has at least this many times n rows."""


def ordered_codes(key: Vector, descending: bool, nulls_first: bool) -> tuple[Array, int]:
    """Return unsigned codes that ascend in the requested order, and an exclusive upper bound."""
    codes, size = with_room(*_ascending_codes(key))
    if descending:
        codes = codes.dtype.type(size - 1) - codes
    return (codes, size) if key.validity is None else with_nulls(codes, size, key.validity, nulls_first)


def _ascending_codes(key: Vector) -> tuple[Array, int]:
    if isinstance(key, Const):
        return np.zeros(len(key), np.uint8), 1
    key = sortable(key)
    if key.type.is_text:
        ranked = ordered_dictionary(key)
        return ranked.codes.view(f"u{ranked.codes.dtype.itemsize}"), max(1, len(ranked.dictionary))
    if isinstance(key, Wide):
        ranks = pc.rank(key.array, sort_keys="ascending", tiebreaker="dense").to_numpy()
        return ranks.astype(np.uint64), len(key) + 1
    if isinstance(key, Narrow):
        low, high = key.bounds()
        return key.codes, high - low + 1
    values = key.values()
    if values.dtype.kind == "f":
        return _float_codes(values), _FLOAT_CODES
    if values.dtype == np.bool_:
        return values.view(np.uint8), 2
    low, high = measured_bounds(key)
    codes = values.astype(np.int64).view(np.uint64) - np.uint64(low % 2**64)
    if key.validity is not None:
        codes = np.where(key.validity, codes, np.uint64(0))
    return codes, high - low + 1


def _float_codes(values: Array) -> Array:
    """Return the bits in numeric order: negative numbers mirrored, NaN above everything (PostgreSQL)."""
    plain = values.astype(np.float64) + 0.0
    plain[np.isnan(plain)] = np.nan
    bits = plain.view(np.int64)
    ascending = np.where(bits < 0, bits ^ np.int64(2**63 - 1), bits)
    return (ascending ^ np.int64(-(2**63))).view(np.uint64)


def order_of(keys: Sequence[Vector], items: Sequence[OrderItem], length: int, first: int | None = None) -> Array:
    """Return the row numbers in the requested order; with `first`, only the first `first`."""
    columns = [ordered_codes(k, item.descending, item.nulls_first) for k, item in zip(keys, items, strict=True)]
    size = 1
    for _, more in columns:
        size *= more
    if size > 1 << _MOST_BITS:
        order = np.lexsort([codes for codes, _ in reversed(columns)])
        return order if first is None else order[:first]
    codes = np.zeros(length, np.uint64)
    for part, count in columns:
        codes = codes * np.uint64(count) + part.astype(np.uint64)
    if first is not None and first < length // WORTH_CUTTING:
        chosen = np.argpartition(codes, first)[: first + 1]
        # Ties at the boundary: any of the equal rows will do.
        order, _ = sort_rows(codes.take(chosen), size)
        return chosen.take(order[:first])
    order, _ = sort_rows(codes, size)
    return order if first is None else order[:first]
