"""Candidates of a join with keys and bounds, searched among the probe rows where these come in order.

    probe batch, by key and time     a 1  a 3  a 4  a 7 | b 2  b 3  b 9        runs of rows with equal keys
    build row  a, 2 <= t <= 5             └─────┘                              two searches in the run of its key

A table that is stored by key and time is read in this order. Then the searches are one per bound and build row, instead
of one per probe row, or of a check of every pair; the bounds are computed once, of the build rows.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from itertools import pairwise

import numpy as np

from ...errors import DataError
from ...model.vectors.vector import Array, Batch
from ...sql.expressions import Expr, conjuncts
from ..expressions.evaluate import Compiler, Evaluation
from .join_index import PAIRS_AT_ONCE
from .join_shape import JoinShape
from .pairs import Part
from .range_index import BuildBounds, physical_values, present_rows

FEWEST = 2
"""Build rows per key from which a batch is inspected."""
_SHORTEST = 8
"""Rows per run, and per pair of a run and a build row, from which searching pays."""

_MOST_PAIRS = 4 * PAIRS_AT_ONCE
"""Pairs of a batch, which are in memory together."""


class ProbeRuns:
    """Build rows that are searched in probe batches. Threads share it.

    Attributes
    ----------
    is_exact : bool
        True if every candidate is a match.
    bytes : int
        Bytes of memory.
    searched : list of int
        Number of probe rows that were searched, and of all.
    """

    def __init__(self, shape: JoinShape, build: BuildBounds):
        compiler = Compiler(shape.probe)
        self._bounds = build.bounds
        self._probes: dict[Expr, Evaluation] = {bound.probe: compiler.compile(bound.probe) for bound in build.bounds}
        self.is_exact = len(build.bounds) == len(conjuncts(shape.residual))
        order = np.argsort(build.slots, kind="stable")
        self._slots = build.slots.take(order)
        self._rows = build.rows.take(order)
        self._values = [array.take(order) for array in build.values]
        self.searched = [0, 0]
        self._lock = threading.Lock()
        """Guards the counts."""
        self.bytes = (2 + len(build.bounds)) * 8 * len(build.rows)

    @classmethod
    def make(cls, shape: JoinShape, build: BuildBounds | None) -> ProbeRuns | None:
        """Return the build rows by key, or None if the condition has no bounds, or a value is NaN."""
        if build is None or any(array.dtype.kind == "f" and np.isnan(array).any() for array in build.values):
            return None
        return cls(shape, build)

    def pairs(self, probe: Batch, slots: Array) -> Iterator[Part] | None:
        """Yield the candidates, as `JoinIndex.pairs`; None if the probe rows are in no order that helps.

        `slots` are the probe rows' numbers, as those of the build rows.
        """
        found = self._pairs(probe, slots) if probe.length else None
        with self._lock:
            self.searched[0] += 0 if found is None else probe.length
            self.searched[1] += probe.length
        return found

    def _pairs(self, probe: Batch, slots: Array) -> Iterator[Part] | None:
        begins = np.flatnonzero(np.concatenate(([True], slots[1:] != slots[:-1])))
        low, high = (np.searchsorted(self._slots, slots.take(begins), side=side) for side in ("left", "right"))
        counts = high - low
        if max(len(begins), int(counts.sum())) * _SHORTEST > probe.length:
            return None
        known = self._ascending(probe, begins)
        if known is None:
            return None
        owners = np.repeat(np.arange(len(begins)), counts)
        build = low.take(owners) + _within(counts)
        starts, ends = begins.take(owners), np.append(begins[1:], probe.length).take(owners)
        first, last = starts, ends
        for bound, wanted in zip(self._bounds, self._values, strict=True):
            is_after = bound.is_upper == bound.is_strict
            found = _searched(known[bound.probe], wanted.take(build), first, last, is_after)
            if bound.is_upper:
                starts = np.maximum(starts, found)
            else:
                ends = np.minimum(ends, found)
        counts = np.maximum(ends - starts, 0)
        return self._expanded(build, starts, counts) if counts.sum() <= _MOST_PAIRS else None

    def _ascending(self, probe: Batch, begins: Array) -> dict[Expr, Array] | None:
        """Return the values of each bound, or None if they do not ascend in each run."""
        known = {}
        for expr, evaluate in self._probes.items():
            try:
                vector = evaluate(probe)
            except DataError:
                return None
            values = physical_values(vector)
            ascends = values[1:] >= values[:-1]
            ascends[begins[1:] - 1] = True
            if not (ascends.all() and present_rows([vector], probe.length).all()):
                return None
            known[expr] = values
        return known

    def _expanded(self, build: Array, starts: Array, counts: Array) -> Iterator[Part]:
        probe_rows = np.repeat(starts, counts) + _within(counts)
        build_rows = np.repeat(self._rows.take(build), counts)
        order = np.argsort(probe_rows, kind="stable")
        probe_rows, build_rows = probe_rows.take(order), build_rows.take(order)
        cuts = np.searchsorted(probe_rows, probe_rows[::PAIRS_AT_ONCE])
        edges = [*np.unique(cuts).tolist(), len(order)]
        for start, stop in pairwise(edges):
            yield probe_rows[start:stop], build_rows[start:stop]


def _within(counts: Array) -> Array:
    """Numbers from 0 for each count: [2, 3] gives [0, 1, 0, 1, 2]."""
    ends = np.cumsum(counts)
    numbers: Array = np.arange(ends[-1] if len(ends) else 0) - np.repeat(ends - counts, counts)
    return numbers


def _searched(values: Array, wanted: Array, starts: Array, ends: Array, is_after: bool) -> Array:
    """Return the first position in [start, end) with a value of at least `wanted` (`is_after`: above it), or the end;
    the values ascend there. One binary search for all."""
    low, high = starts.copy(), ends.copy()
    for _ in range(int((ends - starts).max(initial=0)).bit_length()):
        middle = (low + high) >> 1
        found = values.take(middle, mode="clip")
        is_before = (found <= wanted if is_after else found < wanted) & (low < high)
        low = np.where(is_before, middle + 1, low)
        high = np.where(is_before, high, np.maximum(middle, low))
    return low
