"""Runtime filters: what a join's build side knows, told to the scans below its probe side before they start.

Integer-like keys of moderate range become an exact bitmap, so that the scan drops every row without a partner; texts
become a list while they are few; other keys at least their range.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np
import pyarrow.compute as pc

from ..planner.physical import TableScan
from ..storage.predicates import BitmapFilter, ColumnPredicate, InList, Range
from ..storage.vector import Array, Dict, Text, Vector
from .kernels.numbers import integers, known_bounds, measured_bounds

MOST_BITS = 1 << 26
"""Values that a bitmap may span: 64 MB, for keys of tables of that many rows."""
SPARSEST = 256
"""A larger bitmap may span so many values per key before its range alone is sent."""
CHEAP_BITS = 1 << 23
"""A bitmap of this span is worth making for any number of keys: zeroing 8 MB takes less than reading one column."""
MOST_LISTED = 4096
"""Far-flung integer keys in a list: pages without any of them are never read."""
MOST_TEXTS = 256
"""Distinct texts in a list; with more, most dictionaries match anyway."""

FilterFactory = Callable[[str], ColumnPredicate]
"""Makes the predicate for a column, given its name in the table."""


@dataclass(frozen=True, slots=True)
class RuntimeFilters:
    """Filters on their way down, by the number of the column they apply to."""

    by_column: Mapping[int, tuple[FilterFactory, ...]] = field(default_factory=dict)

    def with_filter(self, column: int, factory: FilterFactory) -> RuntimeFilters:
        """These and one more."""
        return RuntimeFilters({**self.by_column, column: (*self.by_column.get(column, ()), factory)})

    def predicates(self, node: TableScan) -> tuple[ColumnPredicate, ...]:
        """Those for the columns that a scan fetches."""
        if not self.by_column:
            return ()
        return tuple(
            factory(name)
            for column, name in zip(node.fetched, node.names)
            for factory in self.by_column.get(column.id, ())
        )


def filter_for(keys: Vector) -> FilterFactory | None:
    """The filter that the build side's values of one key allow; None where it would drop nothing worth the look-up."""
    if keys.type.is_text:
        return _text_filter(keys)
    if not keys.type.is_integer_like or known_bounds(keys) is None:
        return None
    low, high = measured_bounds(keys)
    span = high - low + 1
    if span > MOST_BITS or span > max(CHEAP_BITS, SPARSEST * len(keys)):
        return _list_filter(keys) if len(keys) <= MOST_LISTED else lambda column: Range(column, low, high)
    bits = bitmap(keys, low, span)
    if int(np.count_nonzero(bits)) == span:
        return lambda column: Range(column, low, high)
    return lambda column: BitmapFilter(column, low, bits)


def bitmap(keys: Vector, low: int, span: int) -> Array:
    """One bool per value from `low` on: is it among the keys?"""
    bits = np.zeros(span, np.bool_)
    bits[_present(keys) - low] = True
    return bits


def _present(keys: Vector) -> Array:
    values = np.broadcast_to(integers(keys), (len(keys),))
    return values if keys.validity is None else values[keys.validity]


def _list_filter(keys: Vector) -> FilterFactory:
    values = tuple(np.unique(_present(keys)).tolist())
    return lambda column: InList(column, values)


def _text_filter(keys: Vector) -> FilterFactory | None:
    if isinstance(keys, Dict) and keys.validity is None:
        # Entries that no row has any more do no harm: the filter only has to let every key pass.
        distinct = keys.dictionary.take(np.flatnonzero(np.bincount(keys.codes, minlength=1)))
    elif isinstance(keys, Text) and len(keys) <= 64 * MOST_TEXTS:
        distinct = pc.unique(keys.array).drop_null()
    else:
        return None
    if len(distinct) > MOST_TEXTS:
        return None
    values = tuple(sorted(distinct.to_pylist(), key=lambda v: v.encode() if isinstance(v, str) else v))
    return lambda column: InList(column, values)
