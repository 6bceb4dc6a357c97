"""Partial groups on their way out of a server, and a condition on them.

    source 1: batches ─► partials ─┐
                                   ├─► one partial of the tablet ─► HAVING ─► its groups
    source 2: batches ─► partials ─┘

Without a condition each source gives out its own partials. With one they are gathered, for a condition can be asked
only of a group whose rows are all there. Where they become too many, all are given out unasked.

A batch of partial groups: the layout ("2,1,3": how many vectors each state has, the same in all rows), the keys, the
states' vectors.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Final

import numpy as np
import pyarrow as pa

from ...model.types import STRING
from ...model.vectors.vector import Batch, Dict
from ..aggregation.aggregate import Aggregation
from ..aggregation.partials import Partial
from ..expressions.evaluate import Compiler
from .fragment import Having

_MERGED_GROUPS: Final = 1 << 16
"""Partials are merged when they have so many groups together."""
_KEPT_SHARE: Final = 2
"""Groups that merging does not make fewer by this factor are given out as they are."""
GATHERED_GROUPS: Final = 1 << 20
"""A server holds so many groups of a tablet at most, to ask a condition of them."""


def partials(aggregation: Aggregation, rows: Iterator[Batch]) -> Iterator[Partial]:
    """The groups of a source's batches; where there are many, they come in several partials before the end."""
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
        """Those that have not ended."""
        self._kept: list[Partial] = []
        self._groups = 0

    def source(self, rows: Iterator[Batch]) -> Iterator[Batch]:
        """What a source is to send: nothing, but for the last one of them, or where there are too many groups."""
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
        """Keep it; or what is to be given out, where there are too many groups."""
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
    """A partial as it travels; `partial_of` is the inverse."""
    vectors = [
        accumulator.to_vectors(state, partial.groups)
        for accumulator, state in zip(aggregation.states.accumulators, partial.states, strict=True)
    ]
    layout = ",".join(str(len(of_state)) for of_state in vectors)
    told = Dict(STRING, np.zeros(partial.groups, np.uint8), pa.array([layout]))
    return Batch([told, *partial.keys, *(v for of_state in vectors for v in of_state)], partial.groups)


def partial_of(aggregation: Aggregation, batch: Batch, keys: int) -> Partial:
    """The partial groups that a batch holds; `keys` is how many columns they have in front of the states."""
    columns = batch.columns()
    layout = columns[0].slice(0, 1).to_arrow()[0].as_py()
    states = []
    place = 1 + keys
    for accumulator, count in zip(aggregation.states.accumulators, layout.split(",") if layout else (), strict=True):
        states.append(accumulator.from_vectors(columns[place : place + int(count)], batch.length))
        place += int(count)
    return Partial(columns[1 : 1 + keys], states, batch.length)
