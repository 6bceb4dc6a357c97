"""The groups of one grouping set in temporary files, heap by heap.

    keys and states, a row per group ──── by keys ──────────────────────────────────────────► heap 0, 1, ..., 15
    rows that string_agg & co. keep ───── by keys ──────────────────────────────────────────► heap 0, 1, ..., 15
    rows that DISTINCT keeps ── by keys and inputs ──► each once ──► the function's states,
                                                                     by keys ───────────────► heap 0, 1, ..., 15

A group has all its states and kept rows in one heap, and heaps are merged one at a time. States that keep rows are
written as rows with their keys, not as lists of rows. So one large group costs no more than many small ones. DISTINCT
first has its own heaps: one group may have more distinct values than fit in memory. The function's states from each of
these heaps are merged like any other states.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...model.vectors.vector import Batch, Vector, concat
from ...storage.files.spill_file import SpillFile
from ..kernels.groups.row_order import sort_rows
from ..kernels.groups.segments import Segments, one_group, segments, segments_of_codes
from ..lazy import empty_vector
from ..run.context import ExecutionContext
from ..run.stream import BATCH_ROWS
from ..spilling.heaps import Heap, HeapWork, heaps_of
from ..spilling.partitions import PartitionedRows, SpilledRows, partition_numbers
from .accumulators import Accumulator
from .accumulators_distinct import Distinct, Tuples
from .partials import Partial, States


class SpilledGroups:
    """Spilled partials. One thread adds at a time; several threads may merge heaps.

    Parameters
    ----------
    states : States
        States of the partials that are added.
    keys : int
        Number of their keys.
    work : HeapWork
    """

    def __init__(self, states: States, keys: int, work: HeapWork):
        self.states = states.without_distinct
        """States of the result of `merged`."""
        self._accumulators = states.accumulators
        self._keys = keys
        self._work = work
        self._groups = _Table(work.new_file())
        self._rows = {place: _Table(work.new_file()) for place, a in enumerate(self._accumulators) if a.keeps_rows}
        """For each state that keeps rows, by its position."""
        self._widths: dict[int, int] = {}
        """Number of columns of each of the other states."""

    # ---- writing ------------------------------------------------------------------------------------------------

    def add(self, partial: Partial) -> None:
        """Write a partial. Raises `OperationalError` if the disk is full or fails."""
        columns = list(partial.keys)
        for place, (accumulator, state) in enumerate(zip(self._accumulators, partial.states, strict=True)):
            if place in self._rows:
                self._add_rows(self._rows[place], partial.keys, state, isinstance(accumulator, Distinct))
            else:
                vectors = accumulator.to_vectors(state, partial.groups)
                self._widths[place] = len(vectors)
                columns += vectors
        self._groups.add(columns, partial.keys, partial.groups)

    def _add_rows(self, table: _Table, keys: Sequence[Vector], state: Tuples, is_distinct: bool) -> None:
        total = len(state.numbers)
        for start in range(0, max(1, total), BATCH_ROWS):
            stop = min(start + BATCH_ROWS, total)
            of_groups = [key.take(state.numbers[start:stop]) for key in keys]
            columns = [*of_groups, *(column.slice(start, stop) for column in state.columns)]
            table.add(columns, columns if is_distinct else of_groups, stop - start)

    # ---- what DISTINCT keeps ------------------------------------------------------------------------------------

    def heaps(self, context: ExecutionContext) -> list[Heap]:
        """Return the heaps to merge, after all was added. Removes the duplicates of rows kept for DISTINCT."""
        for place, accumulator in enumerate(self._accumulators):
            if isinstance(accumulator, Distinct):
                self._rows[place] = self._each_once(self._rows[place], accumulator.function, context)
        return heaps_of([self._groups.parted, *(table.parted for table in self._rows.values())], self._keys)

    def _each_once(self, table: _Table, function: Accumulator[Any], context: ExecutionContext) -> _Table:
        """Return the function's states by keys, or the rows that it keeps itself."""
        spilled = _Table(self._work.new_file())

        def once(heap: Heap) -> None:
            columns = _read(heap.inputs[0])
            rows = segments(columns, heap.rows).representatives
            columns = [column.take(rows) for column in columns]
            keys, inputs = columns[: self._keys], columns[self._keys :]
            if not function.keeps_rows:
                keys, inputs = _aggregated(keys, inputs, function)
            elif inputs[0].validity is not None:
                # NULL counts as a value for DISTINCT only.
                present = np.flatnonzero(inputs[0].validity)
                keys, inputs = ([column.take(present) for column in columns] for columns in (keys, inputs))
            spilled.add([*keys, *inputs], keys, len(inputs[0]))

        def task(heap: Heap) -> Callable[[], list[None]]:
            return lambda: list(self._work.each(heap, once))

        parted = table.parted
        context.parallel([task(heap) for heap in heaps_of([parted], len(parted.parts[0].types))])
        return spilled

    # ---- merging ------------------------------------------------------------------------------------------------

    def merged(self, heap: Heap) -> Partial:
        """Merge the groups of a heap, each once."""
        columns = [_read(rows) for rows in heap.inputs]
        keys = [concat([each[i] for each in columns]) for i in range(self._keys)]
        groups = segments(keys, heap.rows) if keys else one_group(heap.rows)
        lengths = [rows.rows for rows in heap.inputs]
        numbers = np.split(groups.group_of_row(), np.cumsum(lengths)[:-1])
        kept = dict(zip(self._rows, range(1, len(columns)), strict=True))
        flat = iter(columns[0][self._keys :])
        own = groups if not kept else segments_of_codes(numbers[0], len(groups))
        states: list[Any] = []
        for place, accumulator in enumerate(self.states.accumulators):
            if place not in kept:
                vectors = [next(flat) for _ in range(self._widths[place])]
                states.append(_merged(accumulator, vectors, own))
                continue
            inputs = columns[kept[place]][self._keys :]
            if accumulator.keeps_rows:
                order, ordered = sort_rows(numbers[kept[place]], len(groups))
                rows = [column.take(order) for column in inputs]
                states.append(Tuples(ordered.astype(np.intp), rows, len(groups)))
            else:
                states.append(_merged(accumulator, inputs, segments_of_codes(numbers[kept[place]], len(groups))))
        return Partial([key.take(groups.representatives) for key in keys], states, len(groups))


class _Table:
    """Rows by partition; their types are taken from the first ones."""

    def __init__(self, file: SpillFile):
        self._file = file
        self._lock = threading.Lock()
        self._parted: PartitionedRows | None = None

    def add(self, columns: Sequence[Vector], by: Sequence[Vector], length: int) -> None:
        """Append rows, partitioned by the hashes of `by`. Threads may add concurrently."""
        with self._lock:
            if self._parted is None:
                self._parted = PartitionedRows(self._file, [column.type for column in columns])
        self._parted.add(Batch(columns, length), partition_numbers(by, length, 0))

    @property
    def parted(self) -> PartitionedRows:
        """Return the added rows; something must have been added."""
        assert self._parted is not None
        return self._parted


def _read(rows: SpilledRows) -> list[Vector]:
    """Read all columns of spilled rows."""
    batches = list(rows.batches())
    if not batches:
        return [empty_vector(type_) for type_ in rows.types]
    return [concat([batch.column(i) for batch in batches]) for i in range(len(rows.types))]


def _merged(accumulator: Accumulator[Any], vectors: Sequence[Vector], groups: Segments) -> Any:
    return accumulator.merge([accumulator.from_vectors(vectors, groups.length)], groups)


def _aggregated(
    keys: list[Vector], inputs: list[Vector], function: Accumulator[Any]
) -> tuple[list[Vector], list[Vector]]:
    """Return the keys and the function's state of each group, as vectors."""
    length = len(inputs[0])
    groups = segments(keys, length) if keys else one_group(length)
    if groups.order is not None:
        inputs = [column.take(groups.order) for column in inputs]
    state = function.partial(inputs, groups)
    return [key.take(groups.representatives) for key in keys], function.to_vectors(state, len(groups))
