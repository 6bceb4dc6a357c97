"""Window calls: the rows are sorted once by PARTITION BY and ORDER BY, then every call is computed for all rows.

    rows ── keys ──► order, Layout ──► frames ──► window_values      numbers, values of other rows
      └── sorted, columns still unread ──┴──────► window_aggregates  aggregates over frames

Rows are produced in window order. If no partition spans two tablets, tablets are processed in parallel, else the calls
are. Rows that do not fit in memory are sorted on disk first (`spilled_windows`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from ...model.vectors.vector import Array, Batch, Const, Vector
from ...planner.algebra.physical import Window
from ...sql.expressions import Case, Column, Expr, Literal, OrderItem, columns_of
from ...sql.expressions import Window as WindowCall
from ..expressions.evaluate import Compiler, SharedWork
from ..expressions.expression_costs import is_fallible
from ..kernels.boolean import truths
from ..lazy import joined
from ..run.context import ExecutionContext
from ..run.stream import Morsel, Stream, stream_of
from ..sorting.sorted_rows import held_stream
from ..sorting.sorter import Sorter
from .spilled_windows import MERGE_SHARE, SpilledWindows
from .window_aggregates import aggregate
from .window_frames import Frames, Layout, frames_of, laid_out
from .window_values import NUMBERING, framed, neighbour

_BYTES_PER_ROW = 16
"""Bytes per row of frames, and of each call's values."""


class Windows:
    """The compiled node."""

    def __init__(self, node: Window, context: ExecutionContext):
        node = replace(node, calls=tuple(map(_filtered, node.calls)))
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

    @property
    def order(self) -> list[OrderItem]:
        """Sort order of the window."""
        return [*map(OrderItem, self._node.calls[0].partition), *self._items]

    @property
    def bytes_per_row(self) -> int:
        """Bytes per row that the calls take in addition to the rows."""
        return _BYTES_PER_ROW * (2 + len(self._node.calls))

    @property
    def read(self) -> set[int]:
        """Positions of the source's columns that the calls read, except the keys."""
        positions = {column.id: i for i, column in enumerate(self._node.source.columns)}
        return {positions[number] for expr in self._exprs for number in columns_of(expr)}

    def compute(self, batches: list[Batch]) -> Batch:
        """Compute the rows of some batches (at least one row), which hold whole partitions."""
        rows = joined(self._node.source.columns, batches)
        partition = [evaluate(rows) for evaluate in self._partition]
        order = [evaluate(rows) for evaluate in self._order]
        rows, results = self.results(rows, partition, order)
        return self.kept(rows).append(results)

    def results(self, rows: Batch, partition: Sequence[Vector], order: Sequence[Vector]) -> tuple[Batch, list[Vector]]:
        """Return the rows in window order, and the values of the calls.

        The rows, at least one, hold whole partitions and have the keys `partition` and `order`.
        """
        sequence, layout = laid_out(partition, order, self._items, rows.length)
        if sequence is not None:
            rows = rows.select(sequence)
        prepared = self._work.prepare(rows)
        known = {e: evaluate(prepared) for e, evaluate in zip(self._exprs, self._work.evaluations, strict=True)}
        return rows, self._results(layout, known)

    def kept(self, rows: Batch) -> Batch:
        """Return the source's columns that are produced."""
        return rows.project(self._kept)

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


def _filtered(call: WindowCall) -> WindowCall:
    """Return the call with arguments that may fail for a row computed only for the rows of its FILTER."""
    if call.filter is None or not any(map(is_fallible, call.args)):
        return call
    test = call.filter
    args = (Case(arg.type, True, ((test, arg),), Literal(arg.type, True, None)) for arg in call.args)
    return replace(call, args=tuple(args))


def _read(call: WindowCall) -> Iterator[Expr]:
    """Yield the expressions that a call reads of every row."""
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
    """Read the whole source and produce its rows with the values of the calls."""
    windows = Windows(node, context)
    apart = _keeps_apart(node, source)
    account = context.account("a window function")
    everything = range(len(source.columns))
    extra = windows.bytes_per_row
    sorter = Sorter(source.columns, everything, windows.order, context, account, MERGE_SHARE, extra)
    tags: dict[int, str | None] = {}
    sorter.collect(_tagged(source, tags) if apart else source)
    if sorter.spilled:
        spilled = SpilledWindows(node, windows, sorter, account, context)
        return Stream(node.columns, (Morsel(spilled.batches),))
    by_partition: dict[str | None, list[Batch]] = {}
    for batch in sorter.held():
        by_partition.setdefault(tags.get(id(batch)), []).append(batch)
    if not by_partition:
        return stream_of(node.columns, [])
    done = context.parallel([partial(windows.compute, batches) for batches in by_partition.values()])
    morsels = tuple(
        replace(morsel, partition=tag)
        for tag, batch in zip(by_partition, done, strict=True)
        for morsel in held_stream(node.columns, batch, account).morsels
    )
    present = {column.id for column in node.columns}
    kept = source.partitioned_by if apart and source.partitioned_by <= present else frozenset[int]()
    return Stream(node.columns, morsels, kept)


def _tagged(source: Stream, tags: dict[int, str | None]) -> Stream:
    """Return the same stream, recording the tablet of each batch by the batch's `id`."""

    def noting(morsel: Morsel) -> Iterator[Batch]:
        for batch in morsel.run():
            tags[id(batch)] = morsel.partition
            yield batch

    return replace(source, morsels=tuple(replace(m, run=partial(noting, m)) for m in source.morsels))


def _keeps_apart(node: Window, source: Stream) -> bool:
    """True if rows of two tablets can never be of one partition."""
    keys = {expr.id for expr in node.calls[0].partition if isinstance(expr, Column)}
    return bool(source.partitioned_by) and source.partitioned_by <= keys
