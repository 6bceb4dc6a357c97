"""The nested loop join: every pair is tried, in blocks. For conditions without an equality, and for one-row sides."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from ...planner.physical import NestedLoopJoin, PhysicalNode
from ...storage.vector import Array, Batch, Const
from ..context import ExecutionContext
from ..evaluate import Compiler, physical
from ..lazy import joined
from ..stream import Stream, stream_of
from .join_index import PAIRS_AT_ONCE
from .pairs import MARKS_BUILD, Matches, Part
from .runtime_filters import RuntimeFilters

_SAME_KIND = frozenset(("inner", "cross"))


def all_pairs(probe_rows: Array, build_rows: Array) -> Iterator[Part]:
    """Every pair, probe row by probe row, in parts of about `PAIRS_AT_ONCE`; the whole of one probe row in one part."""
    if not len(probe_rows) or not len(build_rows):
        return
    step = max(1, PAIRS_AT_ONCE // len(build_rows))
    for start in range(0, len(probe_rows), step):
        block = probe_rows[start : start + step]
        yield np.repeat(block, len(build_rows)), np.tile(build_rows, len(block))


def open_nested_loop(
    node: NestedLoopJoin,
    context: ExecutionContext,
    filters: RuntimeFilters,
    open_node: Callable[[PhysicalNode, ExecutionContext, RuntimeFilters], Stream],
) -> Stream:
    """Read the right side whole, then stream the left side past it."""
    right = joined(node.right.columns, context.collect_batches(open_node(node.right, context, filters)))
    context.reserve(right.length * 8 * len(node.right.columns), "a nested loop join")
    if not right.length and node.kind in ("inner", "cross", "semi", "right"):
        return stream_of(node.columns, [])
    left = open_node(node.left, context, filters)
    if right.length == 1 and node.kind in _SAME_KIND:
        return left.through(node.columns, _beside_one_row(node, right))
    matches = Matches(node.kind, node.columns, node.left.columns, node.right.columns, right, node.condition)
    run = _loop(matches, np.arange(right.length), context)
    if node.kind not in MARKS_BUILD:
        return left.through(node.columns, run)
    outputs = context.run_all(left, lambda batches, _: list(run(batches)))
    found = [batch for part in outputs for batch in part]
    return stream_of(node.columns, [*found, matches.rest(node.left.columns)])


def _loop(
    matches: Matches, build_rows: Array, context: ExecutionContext
) -> Callable[[Iterator[Batch]], Iterator[Batch]]:
    def run(batches: Iterator[Batch]) -> Iterator[Batch]:
        for batch in batches:
            parts = all_pairs(np.arange(batch.length), build_rows)
            yield from context.checked(matches.emit(batch, _watched(parts, context)))

    return run


def _watched(parts: Iterator[Part], context: ExecutionContext) -> Iterator[Part]:
    """A cancel must not wait for all pairs of a batch."""
    for part in parts:
        context.check()
        yield part


def _beside_one_row(node: NestedLoopJoin, right: Batch) -> Callable[[Iterator[Batch]], Iterator[Batch]]:
    """A one-row right side becomes constants: nothing is paired, conditions compare with a constant."""
    columns = (*node.left.columns, *node.right.columns)
    values = [(column.type, physical(column)) for column in right.columns()]
    positions = {column.id: i for i, column in enumerate(columns)}
    output = [positions[column.id] for column in node.columns]
    condition = None if node.condition is None else Compiler(columns).condition(node.condition)

    def run(batches: Iterator[Batch]) -> Iterator[Batch]:
        for batch in batches:
            both = batch.append([Const(type_, value, batch.length) for type_, value in values])
            if condition is not None:
                both = condition.select(both)
            if both.length:
                yield both.project(output)

    return run
