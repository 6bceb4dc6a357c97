"""INTERSECT and EXCEPT: the distinct rows of both sides, counted by side.

An aggregation by all columns, with two states: the number of occurrences of a row on the left, and on the right. Its
partials are collected, merged and spilled like any other's (`aggregation.partial_collector`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from ...model.vectors.vector import Array, Batch
from ...planner.algebra.physical import SetDifference
from ..aggregation.accumulators import Rows
from ..aggregation.partial_collector import PartialCollector
from ..aggregation.partials import Partial, States
from ..aggregation.partitioned_merge import merge_groups
from ..aggregation.spilled_groups import SpilledGroups
from ..kernels.groups.segments import one_group, segments
from ..run.context import ExecutionContext
from ..run.stream import Morsel, Stream, sliced, stream_of
from ..spilling.heaps import Heap, HeapWork


def open_set_difference(node: SetDifference, left: Stream, right: Stream, context: ExecutionContext) -> Stream:
    """Open INTERSECT or EXCEPT."""
    by = tuple(range(len(node.columns)))
    states = States([Rows(), Rows()])
    collector = PartialCollector(states, [by], context, f"an {node.kind.upper()}")

    def collect(side: Stream, place: int) -> None:
        orders = {id(morsel): place * len(left.morsels) + number for number, morsel in enumerate(side.morsels)}

        def work(batches: Iterator[Batch], morsel: Morsel) -> None:
            for batch in batches:
                collector.add(by, _counted(batch, place), orders[id(morsel)])

        context.run_all(side, work)

    collect(left, 0)
    if collector.is_empty:
        return stream_of(node.columns, [])
    collect(right, 1)
    spilled = collector.finish().get(by)
    if spilled is not None:
        heaps = spilled.heaps(context)
        return Stream(node.columns, tuple(Morsel(_of_heap(node, spilled, collector.work, heap)) for heap in heaps))
    merged = merge_groups(states, collector.take(by)[None], context)
    collector.hold_merged(by, sum(map(states.size, merged)))
    rows = [piece for partial in merged for piece in sliced(_rows(node, partial))]
    return Stream(node.columns, tuple(Morsel(_piece(piece, collector)) for piece in rows))


def _piece(rows: Batch, collector: PartialCollector) -> Callable[[], Iterator[Batch]]:
    """Return a morsel over rows in memory; the collector holds that memory as long as such morsels exist."""

    def run(holder: PartialCollector = collector) -> Iterator[Batch]:
        yield rows

    return run


def _of_heap(node: SetDifference, groups: SpilledGroups, work: HeapWork, heap: Heap) -> Callable[[], Iterator[Batch]]:
    def run() -> Iterator[Batch]:
        for rows in work.each(heap, lambda smaller: _rows(node, groups.merged(smaller))):
            yield from sliced(rows)

    return run


def _counted(batch: Batch, place: int) -> Partial:
    """Count the distinct rows of a batch of one side."""
    columns = batch.columns()
    groups = segments(columns, batch.length) if columns else one_group(batch.length)
    counts = [np.zeros(len(groups), np.int64), np.zeros(len(groups), np.int64)]
    counts[place] = groups.sizes
    return Partial([column.take(groups.representatives) for column in columns], counts, len(groups))


def _rows(node: SetDifference, counted: Partial) -> Batch:
    """Select the output from distinct rows and their counts."""
    times = _times(node, counted.states[0], counted.states[1])
    return Batch(counted.keys, counted.groups).select(np.repeat(np.arange(counted.groups), times))


def _times(node: SetDifference, on_left: Array, on_right: Array) -> Array:
    """Number of times that each distinct row is produced."""
    if node.kind == "intersect":
        times = np.minimum(on_left, on_right)
    elif node.all:
        times = np.maximum(on_left - on_right, 0)
    else:
        times = np.where(on_right == 0, on_left, 0)
    return times if node.all else np.minimum(times, 1)
