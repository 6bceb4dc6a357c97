"""Sort keys: the order of rows.

Every sort key becomes unsigned codes in the requested order (descending ones mirrored, NULLs before or behind the
rest). All keys of a row become one integer if they fit, and rows are sorted as packed integers
(`kernels.groups.row_order`). Otherwise the rows are sorted by the first word of the leading key, and only rows that are
equal in it by the next one (`kernels.order_words`). Equal rows keep their order.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from ...model import arrow_functions as pc
from ...model.arrow_arrays import numpy_array
from ...model.types import Kind
from ...model.vectors.vector import Array, Const, Dict, Narrow, Text, Vector, Wide
from ...sql.expressions import OrderItem
from ..aggregation.accumulators import ordered_dictionary
from ..kernels.groups.key_codes import with_nulls, with_room
from ..kernels.groups.row_order import sort_rows
from ..kernels.numbers.bounded_integers import measured_bounds
from ..kernels.order_words import (
    Word,
    first_rows,
    float_codes,
    ordered_words,
    ranks_by_words,
    sort_by_words,
    words_of,
)
from ..kernels.times.intervals import sortable

_MOST_BITS = 62
_FLOAT_CODES = 0xFFF8_0000_0000_0001
"""The code of NaN, the greatest, plus one."""
_SAMPLED = 1024
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
    if isinstance(key, Text) and _has_many_values(key):
        return ranks_by_words(words_of(key), len(key))
    if key.type.is_text:
        ranked = ordered_dictionary(key)
        return ranked.codes.view(f"u{ranked.codes.dtype.itemsize}"), max(1, len(ranked.dictionary))
    if isinstance(key, Wide):
        ranks = numpy_array(pc.rank(key.array, sort_keys="ascending", tiebreaker="dense"))
        return ranks.astype(np.uint64), len(key) + 1
    if isinstance(key, Narrow):
        low, high = key.bounds()
        return key.codes, high - low + 1
    values = key.values()
    if values.dtype.kind == "f":
        return float_codes(values), _FLOAT_CODES
    if values.dtype == np.bool_:
        return values.view(np.uint8), 2
    low, high = measured_bounds(key)
    codes = values.astype(np.int64).view(np.uint64) - np.uint64(low % 2**64)
    if key.validity is not None:
        codes = np.where(key.validity, codes, np.uint64(0))
    return codes, high - low + 1


def _has_many_values(key: Text) -> bool:
    """True if most texts differ, in a sample: then sorting them costs less than finding the distinct ones first."""
    sample = key.array.slice(0, _SAMPLED)
    return len(sample) == _SAMPLED and 2 * len(pc.unique(sample)) > _SAMPLED


def order_of(keys: Sequence[Vector], items: Sequence[OrderItem], length: int, first: int | None = None) -> Array:
    """Return the row numbers in the requested order; with `first`, only the first `first`."""
    pairs = list(zip(keys, items, strict=True))
    if first is not None and 0 < first < length // WORTH_CUTTING:
        chosen, _ = first_rows(_words(pairs), length, first)
        return chosen.take(order_of([key.take(chosen) for key in keys], items, first))
    if math.prod(_most_codes(key) for key, _ in pairs) > 1 << _MOST_BITS:
        order = sort_by_words(_words(pairs), length)
    else:
        codes, size = np.zeros(length, np.uint64), 1
        for key, item in pairs:
            part, count = ordered_codes(key, item.descending, item.nulls_first)
            codes, size = codes * np.uint64(count) + part.astype(np.uint64), size * count
        order, _ = sort_rows(codes, size)
    return order if first is None else order[:first]


def _words(pairs: Sequence[tuple[Vector, OrderItem]]) -> list[Word]:
    return [word for key, item in pairs for word in ordered_words(key, item.descending, item.nulls_first)]


def _most_codes(key: Vector) -> int:
    """Upper bound of the number of codes of a key, NULL included."""
    extra = key.validity is not None
    if isinstance(key, Const):
        return 1 + extra
    if key.type.is_text:
        # Without a dictionary, ranks of all texts cost more than words.
        return len(key.dictionary) + 1 + extra if isinstance(key, Dict) and key.ordered else 1 << 64
    if isinstance(key, Wide) or key.type.is_float:
        return 1 << 64
    if key.type.kind is Kind.INTERVAL:
        return 1 << 64
    if key.type.kind is Kind.BOOLEAN:
        return 2 + extra  # also where only one of them occurs
    low, high = key.bounds() if isinstance(key, Narrow) else measured_bounds(key)
    return high - low + 1 + extra
