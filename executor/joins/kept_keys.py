"""The build side's keys for runtime filters, including those of rows that are already in a file."""

from __future__ import annotations

import threading
from collections.abc import Sequence

from ...model.predicates import BitmapFilter, BloomFilter, Range
from ...model.vectors.vector import Vector, concat, spread
from ...planner.algebra.physical import HashJoin, RuntimeFilter
from ..kernels.numbers.bounded_integers import known_bounds, measured_bounds
from ..run.memory import Account
from ..spilling.sizes import vector_bytes
from .join_shape import DROPS_UNMATCHED_PROBE
from .runtime_filters import CHEAP_BITS, MOST_BITS, SPARSEST, FilterFactory, RuntimeFilters, filters_for


class KeptKeys:
    """Keeps the keys that filters need while they fit; of integers that do not fit, their range. Threads share it."""

    def __init__(self, node: HashJoin, account: Account):
        self._wanted: Sequence[RuntimeFilter] = node.runtime_filters if node.kind in DROPS_UNMATCHED_PROBE else ()
        self._account = account
        self._lock = threading.Lock()
        self._kept: list[list[Vector]] | None = [[] for _ in self._wanted]
        self._held = 0
        self._ranges: list[tuple[int, int] | None] = [None] * len(self._wanted)

    def add(self, keys: Sequence[Vector], counted: bool = False) -> None:
        """Add some rows' keys; `counted`: the account holds them already."""
        chosen = [spread(keys[wanted.key]) for wanted in self._wanted]
        if not chosen or not len(chosen[0]):
            return
        size = 0 if counted else sum(vector_bytes(key, len(key)) for key in chosen)
        with self._lock:
            if self._kept is not None and self._account.grow(size):
                self._held += size
                for kept, key in zip(self._kept, chosen, strict=True):
                    kept.append(key)
                return
            if self._kept is not None:
                before, self._kept = self._kept, None
                for number, vectors in enumerate(before):
                    for vector in vectors:
                        self._widen(number, vector)
                self._account.shrink(self._held)
                self._held = 0
            for number, key in enumerate(chosen):
                self._widen(number, key)

    def _widen(self, number: int, key: Vector) -> None:
        if key.type.is_integer_like and key.bounds() is not None:
            low, high = measured_bounds(key)
            known = self._ranges[number] or (low, high)
            self._ranges[number] = min(low, known[0]), max(high, known[1])

    def filters(self, filters: RuntimeFilters) -> RuntimeFilters:
        """Return these filters with those that the keys allow; the account continues to hold the bitmaps."""
        for number, wanted in enumerate(self._wanted):
            for factory in self._factories(number, wanted.bloom_keys):
                filters = filters.with_filter(wanted.column, factory)
        self._account.shrink(self._held)
        self._kept, self._held = None, 0
        return filters

    def _factories(self, number: int, bloom_keys: int) -> Sequence[FilterFactory]:
        if self._kept is None:
            range_ = self._ranges[number]
            return () if range_ is None else (_range_filter(*range_),)
        if not self._kept[number]:
            return ()
        keys = concat(self._kept[number])
        # The account must hold a bitmap's bytes before it is created, and then no more than its size.
        most = 0
        if keys.type.is_integer_like and known_bounds(keys) is not None:
            most = min(MOST_BITS, max(CHEAP_BITS, SPARSEST * len(keys)))
            if not self._account.grow(most):
                low, high = measured_bounds(keys)
                most = high - low + 1 if high - low < most else 0
                if not self._account.grow(most):
                    return (_range_filter(low, high),)
        factories = filters_for(keys, bloom_keys)
        size = sum(map(_filter_bytes, factories))
        self._account.shrink(most)
        return factories if self._account.grow(size) else ()


def _range_filter(low: int, high: int) -> FilterFactory:
    return lambda column: Range(column, low, high)


def _filter_bytes(factory: FilterFactory) -> int:
    predicate = factory("")
    if isinstance(predicate, BitmapFilter):
        return int(predicate.bits.nbytes)
    return int(predicate.words.nbytes) if isinstance(predicate, BloomFilter) else 0
