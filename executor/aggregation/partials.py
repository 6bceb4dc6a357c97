"""Groups with their states, of one batch or of many: merging, measuring, and conversion to rows of vectors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...model.lazy_dataclass import dataclass
from ...model.vectors.vector import Array, Vector, concat
from ..kernels.groups.numbered_groups import groups_by
from ..kernels.groups.segments import Segments
from ..spilling.sizes import vectors_bytes
from .accumulators import Accumulator
from .accumulators_distinct import Distinct


@dataclass(frozen=True, slots=True)
class Partial:
    """Groups with their states: a row of `keys` and of each state per group."""

    keys: list[Vector]
    states: list[Any]
    groups: int


class States:
    """The accumulators of an aggregation, one per state of its partials."""

    def __init__(self, accumulators: Sequence[Accumulator[Any]]):
        self.accumulators = list(accumulators)
        self.by_number = all(accumulator.by_number for accumulator in accumulators)
        """True if rows and states may be numbered by group instead of gathered (`numbered_groups`)."""

    def merge(self, partials: Sequence[Partial]) -> Partial:
        """Merge many partials (at least one) into one, in which every group occurs once."""
        return partials[0] if len(partials) == 1 else self._merge(partials)

    def coarsen(self, partials: Sequence[Partial], places: Sequence[int]) -> Partial:
        """Group by the keys at `places` only."""
        return self._merge([Partial([p.keys[i] for i in places], p.states, p.groups) for p in partials])

    def _merge(self, partials: Sequence[Partial]) -> Partial:
        keys, groups = self.grouped(partials)
        states = [a.merge([p.states[i] for p in partials], groups) for i, a in enumerate(self.accumulators)]
        return Partial(keys, states, len(groups))

    def grouped(self, partials: Sequence[Partial]) -> tuple[list[Vector], Segments]:
        """Group the concatenated rows of partials by their keys; return the keys of each group, and the rows."""
        total = sum(p.groups for p in partials)
        keys = [concat([p.keys[i] for p in partials]) for i in range(len(partials[0].keys))]
        groups = groups_by(keys, total, self.by_number)
        rows = groups.representatives
        return [key.take(rows) for key in keys], groups

    def take(self, partial: Partial, rows: Array) -> Partial:
        """Return some of the groups of a partial."""
        states = zip(self.accumulators, partial.states, strict=True)
        taken = [a.take(state, rows, partial.groups) for a, state in states]
        return Partial([key.take(rows) for key in partial.keys], taken, len(rows))

    def size(self, partial: Partial) -> int:
        """Approximate size of a partial in bytes."""
        states = zip(self.accumulators, partial.states, strict=True)
        return vectors_bytes(partial.keys, partial.groups) + sum(a.size(s, partial.groups) for a, s in states)

    def most_distinct(self, partials: Sequence[Partial]) -> int:
        """Largest number of values that an accumulator holds for DISTINCT, if its function keeps none itself."""
        places = [
            place for place, a in enumerate(self.accumulators) if isinstance(a, Distinct) and not a.function.keeps_rows
        ]
        return max((sum(len(p.states[place].numbers) for p in partials) for place in places), default=0)

    def finish(self, partial: Partial) -> list[Any]:
        """Return the finished states, from which results are computed."""
        return [a.finish(state) for a, state in zip(self.accumulators, partial.states, strict=True)]

    @property
    def without_distinct(self) -> States:
        """Return the same functions, for rows whose duplicates are removed already."""
        return States([a.function if isinstance(a, Distinct) else a for a in self.accumulators])
