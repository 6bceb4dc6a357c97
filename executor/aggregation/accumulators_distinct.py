"""DISTINCT inside aggregates: each group's distinct inputs are kept, and the function is applied to them at the end.

    inputs ── partial ──► Tuples ── merge ──► Tuples ── finish ──► the function's own state

Duplicates are dropped in every batch and again when states are merged. NULL is kept as a value, so every group keeps a
row and the function never gets an empty group.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from ...model.lazy_dataclass import dataclass
from ...model.types import BIGINT
from ...model.vectors.vector import Array, Flat, Vector, concat
from ..kernels.groups.row_order import is_ascending, run_starts, sort_rows
from ..kernels.groups.segments import Segments, segments
from ..spilling.lists import Lists
from ..spilling.sizes import unpinned, vectors_bytes
from .accumulators import Accumulator


@dataclass(frozen=True, slots=True)
class Tuples:
    """Inputs by group: row i of every column belongs to group `numbers[i]`, which ascends, of `groups`."""

    numbers: Array
    columns: list[Vector]
    groups: int

    @property
    def sizes(self) -> Array:
        """Rows per group, int64, shape (groups,)."""
        return np.bincount(self.numbers, minlength=self.groups)

    @property
    def bytes(self) -> int:
        """Approximate size in bytes."""
        return self.numbers.nbytes + vectors_bytes(self.columns, len(self.numbers))

    def take(self, rows: Array) -> Tuples:
        """Select some of the rows, which must be in their groups' order, for the same groups."""
        return self.pick(rows)

    def pick(self, rows: Array) -> Tuples:
        """Select some of the rows in any order."""
        return Tuples(self.numbers.take(rows), [column.take(rows) for column in self.columns], self.groups)


def numbered(inputs: Sequence[Vector], groups: Segments) -> Tuples:
    """Number all rows of a batch by group; the inputs lie in the groups' order."""
    return Tuples(np.repeat(np.arange(len(groups)), groups.sizes), list(map(unpinned, inputs)), len(groups))


def joined_tuples(states: Sequence[Tuples], groups: Segments) -> Tuples:
    """Concatenate the rows of many states under the numbers of the merged groups; not in their order yet."""
    number_of = groups.group_of_row()
    offsets = np.cumsum([0, *(state.groups for state in states)])
    numbers = np.concatenate([number_of.take(s.numbers + offset) for s, offset in zip(states, offsets, strict=False)])
    width = len(states[0].columns)
    return Tuples(numbers, [concat([state.columns[i] for state in states]) for i in range(width)], len(groups))


class Keeping(Accumulator[Tuples]):
    """Accumulator that keeps rows of each group. As vectors: for each input a column of lists (`Lists`), a group's
    values each; the lists of a group are equally long."""

    keeps_rows: ClassVar[bool] = True

    def size(self, state: Tuples, groups: int) -> int:
        return state.bytes

    def to_vectors(self, state: Tuples, groups: int) -> list[Vector]:
        return [Lists.of_sizes(column, state.sizes) for column in state.columns]

    def from_vectors(self, vectors: Sequence[Vector], groups: int) -> Tuples:
        lists = [vector for vector in vectors if isinstance(vector, Lists)]
        return Tuples(np.repeat(np.arange(groups), lists[0].sizes), [each.items for each in lists], groups)


class Distinct(Keeping):
    """Aggregate of each group's distinct inputs."""

    def __init__(self, function: Accumulator[Any]):
        self.function = function

    def partial(self, inputs: Sequence[Vector], groups: Segments) -> Tuples:
        return deduplicated(numbered(inputs, groups))

    def merge(self, states: Sequence[Tuples], groups: Segments) -> Tuples:
        return deduplicated(joined_tuples(states, groups))

    def finish(self, state: Tuples) -> Any:
        groups = Segments(None, run_starts(state.numbers), len(state.numbers))
        return self.function.finish(self.function.partial(state.columns, groups))


def deduplicated(rows: Tuples) -> Tuples:
    """Keep each row once, ascending by group."""
    numbers = Flat(BIGINT, rows.numbers, None, 0, rows.groups - 1)
    chosen = segments([numbers, *rows.columns], len(rows.numbers)).representatives
    of_chosen = rows.numbers.take(chosen)
    if not is_ascending(of_chosen):
        chosen = chosen.take(sort_rows(of_chosen, rows.groups)[0])
    return rows.take(chosen)
