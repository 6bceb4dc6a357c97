"""Runtime filters: summaries of a join's build keys, passed to the scans below its probe side before they start.

    integers, dates, ... of moderate range    an exact bitmap: the scan drops every row without a partner
    few texts; few integers far apart         a list, exact too
    many of them; floats, wide decimals       a Bloom filter, if the planner finds it worth its look-ups
    integers far apart, however many          their range

A Bloom filter lets some rows pass that have no partner, so the join above still checks every row.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field, replace

import numpy as np

from ...model import arrow_functions as pc
from ...model.bloom_predicate import bloom_predicate
from ...model.lazy_dataclass import dataclass
from ...model.predicates import BitmapFilter, BloomFilter, ColumnPredicate, InList, Range
from ...model.vectors.vector import Array, Dict, Text, Vector, spread
from ...planner.algebra.physical import TableScan
from ...planner.estimates.cost import MOST_TEXTS
from ...sql.expressions import Column
from ..kernels.numbers.bounded_integers import integers, known_bounds, measured_bounds
from ..sorting.running_bound import ScanBound

MOST_BITS = 1 << 26
"""Largest range of values of a bitmap: 64 MB, for keys of tables of that many rows."""
SPARSEST = 256
"""Range of values per key up to which a larger bitmap is made; beyond, only the range is sent."""
CHEAP_BITS = 1 << 23
"""Range of values up to which a bitmap is worth making for any number of keys: zeroing 8 MB takes less than reading one
column."""
MOST_LISTED = 4096
"""Number of widely spread integer keys up to which a list is sent: pages without any of them are never read."""
MOST_REPEATED = 8
"""Build rows per key above which no Bloom filter is made: finding the distinct keys would cost more than it saves."""

FilterFactory = Callable[[str], ColumnPredicate]
"""Makes the predicate for a column, given its name in the table."""


@dataclass(frozen=True, slots=True)
class RuntimeFilters:
    """Filters passed down a plan, by the number of the column they apply to; and the bounds of the sorts above, which
    become known while the scans run."""

    by_column: Mapping[int, tuple[FilterFactory, ...]] = field(default_factory=dict)
    bounds: Mapping[int, ScanBound] = field(default_factory=dict)

    def with_filter(self, column: int, factory: FilterFactory) -> RuntimeFilters:
        """Return these filters and one more."""
        return RuntimeFilters({**self.by_column, column: (*self.by_column.get(column, ()), factory)}, self.bounds)

    def with_bound(self, column: int, bound: ScanBound) -> RuntimeFilters:
        """Return these filters and the bound of a sort."""
        return replace(self, bounds={**self.bounds, column: bound})

    def bound_of(self, node: TableScan) -> tuple[str, Column, ScanBound] | None:
        """Return the name of a column that a scan fetches, the column, and the bound of a sort by it."""
        for column, name in zip(node.fetched, node.names) if self.bounds else ():
            if column.id in self.bounds:
                return name, column, self.bounds[column.id]
        return None

    def predicates(self, node: TableScan) -> tuple[ColumnPredicate, ...]:
        """Return the predicates for the columns that a scan fetches."""
        if not self.by_column:
            return ()
        return tuple(
            factory(name)
            for column, name in zip(node.fetched, node.names)
            for factory in self.by_column.get(column.id, ())
        )


NO_FILTERS = RuntimeFilters()


def filters_for(keys: Vector, bloom_keys: int = 0) -> tuple[FilterFactory, ...]:
    """Return the filters that the build side's values of one key allow; none if they would not drop enough rows.

    `bloom_keys` is the number of distinct keys up to which a Bloom filter is worth its cost.
    """
    keys = spread(keys)
    if keys.type.is_text:
        return _text_list(keys) or _bloom(keys, bloom_keys)
    if not keys.type.is_integer_like or known_bounds(keys) is None:
        return _bloom(keys, bloom_keys)
    low, high = measured_bounds(keys)
    span = high - low + 1
    if span > MOST_BITS or span > max(CHEAP_BITS, SPARSEST * len(keys)):
        if len(keys) <= MOST_LISTED:
            return (_list_filter(keys),)
        return lambda column: Range(column, low, high), *_bloom(keys, bloom_keys)
    bits = bitmap(keys, low, span)
    if len(keys) >= span and int(np.count_nonzero(bits)) == span:
        return (lambda column: Range(column, low, high),)
    return (lambda column: BitmapFilter(column, low, bits),)


def described(predicate: ColumnPredicate) -> str:
    """Name the kind of a filter, for EXPLAIN ANALYZE."""
    return f"{_KINDS.get(type(predicate), 'filter')} on {predicate.column}"


_KINDS: dict[type, str] = {BitmapFilter: "bitmap", BloomFilter: "Bloom filter", InList: "list", Range: "range"}


def bitmap(keys: Vector, low: int, span: int) -> Array:
    """Return one bool per value from `low` on: True if it is among the keys."""
    bits = np.zeros(span, np.bool_)
    bits[_present(keys) - low] = True
    return bits


def _present(keys: Vector) -> Array:
    values = np.broadcast_to(integers(keys), (len(keys),))
    return values if keys.validity is None else values[keys.validity]


def _list_filter(keys: Vector) -> FilterFactory:
    values = tuple(np.unique(_present(keys)).tolist())
    return lambda column: InList(column, values)


def _text_list(keys: Vector) -> tuple[FilterFactory, ...]:
    if isinstance(keys, Dict) and keys.validity is None:
        # Entries that no row uses any more do no harm: the filter only has to pass every key.
        distinct = keys.dictionary.take(np.flatnonzero(np.bincount(keys.codes, minlength=1)))
    elif isinstance(keys, Text) and len(keys) <= 64 * MOST_TEXTS:
        distinct = pc.unique(keys.array).drop_null()
    else:
        return ()
    if len(distinct) > MOST_TEXTS:
        return ()
    values = tuple(sorted(distinct.to_pylist(), key=lambda v: v.encode() if isinstance(v, str) else v))
    return (lambda column: InList(column, values),)


def _bloom(keys: Vector, most: int) -> tuple[FilterFactory, ...]:
    if not most or len(keys) > MOST_REPEATED * most:
        return ()
    distinct = pc.unique(keys.to_arrow()).drop_null()
    if len(distinct) > most:
        return ()
    words = bloom_predicate("", distinct).words
    return (lambda column: BloomFilter(column, words),)
