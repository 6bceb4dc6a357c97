"""Window calls: the rows are sorted once by PARTITION BY and ORDER BY, then every call is computed for all rows.

    rows ── keys ──► order, Layout ──► frames ──► window_values      numbers, values of other rows
      └── sorted, columns still unread ──┴──────► window_aggregates  aggregates over frames

Rows come out in window order. Where each tablet has its partitions to itself, tablets are worked on in parallel, else
the calls are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from ...planner.physical import Window
from ...sql.expressions import Column, Expr, Literal
from ...sql.expressions import Window as WindowCall
from ...storage.vector import Array, Batch, Const, Vector
from ..context import ExecutionContext
from ..evaluate import Compiler, SharedWork
from ..kernels.boolean import truths
from ..lazy import joined
from ..stream import Morsel, Stream, sliced, stream_of
from .window_aggregates import aggregate
from .window_frames import Frames, Layout, frames_of, laid_out
from .window_values import NUMBERING, framed, neighbour


class _Windows:
    """The compiled node."""

    def __init__(self, node: Window, context: ExecutionContext):
        self._node = node
        self._context = context
        columns = node.source.columns
        first = node.calls[0]
        self._items = first.order
        self._partition = Compiler(columns).compile_all(first.partition)
        self._order = Compiler(columns).compile_all([item.expr for item in first.order])
        self._exprs = list(dict.fromkeys(expr for call in node.calls for expr in _read(call)))
        self._work = SharedWork(columns, self._exprs)
        positions = {column.id: i for i, column in enumerate(columns)}
        self._kept = [positions[column.id] for column in node.columns[: len(node.columns) - len(node.calls)]]

    def run(self, batches: list[Batch]) -> Batch:
        """The rows of some batches (at least one row), which hold whole partitions."""
        rows = joined(self._node.source.columns, batches)
        keys = len(self._partition) + len(self._order)
        self._context.reserve(rows.length * 16 * (keys + 2 + len(self._node.calls)), "a window function")
        partition = [evaluate(rows) for evaluate in self._partition]
        order = [evaluate(rows) for evaluate in self._order]
        sequence, layout = laid_out(partition, order, self._items, rows.length)
        if sequence is not None:
            rows = rows.select(sequence)
        prepared = self._work.prepare(rows)
        known = {e: evaluate(prepared) for e, evaluate in zip(self._exprs, self._work.evaluations, strict=True)}
        return rows.project(self._kept).append(self._results(layout, known))

    def _results(self, layout: Layout, known: dict[Expr, Vector]) -> list[Vector]:
        frames: dict[Any, Frames] = {}
        for call in self._node.calls:
            if call.frame is not None and _frame_key(call) not in frames:
                frames[_frame_key(call)] = frames_of(call, layout, known.__getitem__)

        def task(call: WindowCall) -> Callable[[], Vector]:
            return lambda: self._value(call, layout, frames.get(_frame_key(call)), known)

        return self._context.parallel([task(call) for call in self._node.calls])

    def _value(self, call: WindowCall, layout: Layout, frames: Frames | None, known: dict[Expr, Vector]) -> Vector:
        self._context.check()
        args = [known[arg] if arg in known else _constant(arg, layout) for arg in call.args]
        if call.function in NUMBERING:
            return NUMBERING[call.function](call, layout, args)
        if call.function in ("lag", "lead"):
            return neighbour(call, layout, args)
        assert frames is not None
        if call.function in ("first_value", "last_value", "nth_value"):
            return framed(call, frames, args)
        chosen: Array | None = None
        if call.filter is not None:
            chosen = np.broadcast_to(np.asarray(truths(known[call.filter])), (layout.length,))
        return aggregate(call, layout, frames, known.__getitem__, chosen, self._context.check)


def _read(call: WindowCall) -> Iterator[Expr]:
    """What a call reads of every row."""
    yield from call.args
    for expr in (call.filter, call.range_key, call.range_start, call.range_end):
        if expr is not None:
            yield expr


def _frame_key(call: WindowCall) -> Any:
    return call.frame, call.start, call.end, call.range_key, call.range_start, call.range_end


def _constant(arg: Expr, layout: Layout) -> Vector:
    assert isinstance(arg, Literal)
    return Const(arg.type, arg.value, layout.length)


def open_window(node: Window, source: Stream, context: ExecutionContext) -> Stream:
    """Read the source whole and give its rows with the values of the calls."""
    windows = _Windows(node, context)
    found = context.run_all(source, lambda batches, _: list(batches))
    apart = _keeps_apart(node, source)
    by_partition: dict[str | None, list[Batch]] = {}
    for morsel, batches in zip(source.morsels, found, strict=True):
        if batches:
            by_partition.setdefault(morsel.partition if apart else None, []).extend(batches)
    if not by_partition:
        return stream_of(node.columns, [])

    def task(batches: list[Batch]) -> Callable[[], Batch]:
        return lambda: windows.run(batches)

    done = context.parallel([task(batches) for batches in by_partition.values()])
    morsels = [
        Morsel(_just(piece), tag) for tag, batch in zip(by_partition, done, strict=True) for piece in sliced(batch)
    ]
    present = {column.id for column in node.columns}
    kept = source.partitioned_by if apart and source.partitioned_by <= present else frozenset[int]()
    return Stream(node.columns, tuple(morsels), kept)


def _just(batch: Batch) -> Callable[[], Iterator[Batch]]:
    return lambda: iter((batch,))


def _keeps_apart(node: Window, source: Stream) -> bool:
    """Can rows of two tablets never be of one partition?"""
    keys = {expr.id for expr in node.calls[0].partition if isinstance(expr, Column)}
    return bool(source.partitioned_by) and source.partitioned_by <= keys
