"""Partial groups that a server sends, and a condition on them.

    source 1: batches ─► partials ─┐
                                   ├─► one partial of the tablet ─► HAVING ─► its groups
    source 2: batches ─► partials ─┘

Without a condition each source sends its own partials. With one they are gathered, since a condition can be checked
only for a group whose rows are complete. If they become too many, all are sent unchecked.

A batch of partial groups holds the layout ("2,1,3": the number of vectors of each state, the same in all rows), the
keys, and the states' vectors.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Final

import numpy as np

from ...model.arrow_arrays import arrow_array
from ...model.types import STRING
from ...model.vectors.vector import Batch, Dict
from ..aggregation.aggregate import Aggregation
from ..aggregation.partials import Partial
from ..expressions.evaluate import Compiler
from .fragment import Having

_MERGED_GROUPS: Final = 1 << 16
"""Total number of groups at which partials are merged."""
_KEPT_SHARE: Final = 2
"""Least factor by which merging must reduce the groups; otherwise they are sent as they are."""
GATHERED_GROUPS: Final = 1 << 20
"""Largest number of groups of a tablet that a server holds in order to check a condition on them."""


def partials(aggregation: Aggregation, rows: Iterator[Batch]) -> Iterator[Partial]:
    """Yield the groups of a source's batches; large numbers are yielded as several partials before the end."""
    (root,) = aggregation.roots
    kept: list[Partial] = []
    groups = 0
    for batch in rows:
        if not batch.length:
            continue
        partial = aggregation.partial(aggregation.prepare(batch), root)
        kept.append(partial)
        groups += partial.groups
        if groups >= _MERGED_GROUPS and len(kept) > 1:
            merged = aggregation.states.merge(kept)
            if merged.groups * _KEPT_SHARE > groups:
                yield merged
                kept, groups = [], 0
            else:
                kept, groups = [merged], merged.groups
    if kept:
        yield aggregation.states.merge(kept)


class Gathered:
    """The groups of all sources of a scan of a tablet. Each source calls `source` before any of them is read."""

    def __init__(self, aggregation: Aggregation, having: Having):
        self._aggregation = aggregation
        self._condition = Compiler(having.columns).condition(having.condition)
        self._lock = threading.Lock()
        """Guards everything below."""
        self._sources = 0
        """Number of sources that have not ended."""
        self._kept: list[Partial] = []
        self._groups = 0

    def source(self, rows: Iterator[Batch]) -> Iterator[Batch]:
        """Yield the batches that a source sends: none, except for the last source, or if there are too many groups."""
        with self._lock:
            self._sources += 1
        return self._read(rows)

    def _read(self, rows: Iterator[Batch]) -> Iterator[Batch]:
        for partial in partials(self._aggregation, rows):
            for given in self._add(partial):
                yield to_batch(self._aggregation, given)
        with self._lock:
            self._sources -= 1
            kept: list[Partial] = []
            if not self._sources:
                kept, self._kept = self._kept, kept
        if kept:
            yield self._passing(self._aggregation.states.merge(kept))

    def _add(self, partial: Partial) -> list[Partial]:
        """Add a partial; return the partials to be sent if there are too many groups."""
        with self._lock:
            self._kept.append(partial)
            self._groups += partial.groups
            if self._groups <= GATHERED_GROUPS:
                return []
            given, self._kept = self._kept, []
        return given

    def _passing(self, whole: Partial) -> Batch:
        (root,) = self._aggregation.roots
        groups = self._aggregation.batch(whole, self._aggregation.states, root, 0)
        return to_batch(self._aggregation, whole).select(self._condition.rows(groups))


def to_batch(aggregation: Aggregation, partial: Partial) -> Batch:
    """Encode a partial as a batch; `partial_of` is the inverse."""
    vectors = [
        accumulator.to_vectors(state, partial.groups)
        for accumulator, state in zip(aggregation.states.accumulators, partial.states, strict=True)
    ]
    layout = ",".join(str(len(of_state)) for of_state in vectors)
    told = Dict(STRING, np.zeros(partial.groups, np.uint8), arrow_array([layout]))
    return Batch([told, *partial.keys, *(v for of_state in vectors for v in of_state)], partial.groups)


def partial_of(aggregation: Aggregation, batch: Batch, keys: int) -> Partial:
    """Decode the partial groups of a batch; `keys` is the number of key columns in front of the states."""
    columns = batch.columns()
    layout = columns[0].slice(0, 1).to_arrow()[0].as_py()
    states = []
    place = 1 + keys
    for accumulator, count in zip(aggregation.states.accumulators, layout.split(",") if layout else (), strict=True):
        states.append(accumulator.from_vectors(columns[place : place + int(count)], batch.length))
        place += int(count)
    return Partial(columns[1 : 1 + keys], states, batch.length)
