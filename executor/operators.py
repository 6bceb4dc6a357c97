"""The smaller operators: filter, projection, set operations, single rows, shared subplans."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from ..errors import CardinalityViolation
from ..planner.physical import Filter, Project, SetDifference, Shared, SingleRow, UnionAll
from ..sql.expressions import Column, Literal
from ..storage.vector import Array, Batch, Const, LazyColumn, Vector, concat
from .context import ExecutionContext
from .evaluate import Compiler, SharedWork
from .grouping import segments
from .lazy import joined
from .stream import Morsel, Stream, sliced, stream_of


def open_filter(node: Filter, source: Stream) -> Stream:
    """The rows for which the predicate is true."""
    condition = Compiler(source.columns).condition(node.predicate)
    positions = {column.id: i for i, column in enumerate(source.columns)}
    output = [positions[column.id] for column in node.columns]
    everything = output == list(range(len(source.columns)))

    def run(batches: Iterator[Batch]) -> Iterator[Batch]:
        for batch in batches:
            if batch.length:
                kept = condition.select(batch)
                if kept.length:
                    yield kept if everything else kept.project(output)

    return source.through(node.columns, run)


def open_project(node: Project, source: Stream) -> Stream:
    """One expression per column. Computed columns are computed at first touch, for the rows still there by then."""
    positions = {column.id: i for i, column in enumerate(source.columns)}
    work = SharedWork(source.columns, node.expressions)

    def project(batch: Batch) -> Batch:
        prepared = work.prepare(batch)
        passing = batch.slots()
        slots: list[Vector | LazyColumn] = []
        for expr, evaluation in zip(node.expressions, work.evaluations, strict=True):
            if isinstance(expr, Column):
                slots.append(passing[positions[expr.id]])
            elif isinstance(expr, Literal):
                slots.append(Const(expr.type, expr.value, batch.length))
            else:
                slots.append(LazyColumn(_Deferred(evaluation, prepared)))
        return Batch(slots, batch.length)

    stream = source.through(node.columns, lambda batches: (project(batch) for batch in batches))
    renamed = {e.id: c.id for e, c in zip(node.expressions, node.columns) if isinstance(e, Column)}
    if source.partitioned_by and source.partitioned_by <= renamed.keys():
        kept = frozenset(renamed[number] for number in source.partitioned_by)
        return Stream(stream.columns, stream.morsels, kept, stream.serial)
    return stream


class _Deferred:
    """Loads a computed column: over the whole batch, or over the rows that are left."""

    def __init__(self, evaluation: Callable[[Batch], Vector], batch: Batch):
        self._evaluation = evaluation
        self._batch = batch

    def __call__(self, rows: Array | None) -> Vector:
        return self._evaluation(self._batch if rows is None else self._batch.select(rows))


def open_union_all(node: UnionAll, sources: Sequence[Stream], context: ExecutionContext) -> Stream:
    """The rows of all sources, one source after the other."""
    morsels: list[Morsel] = []
    for source in sources:
        if source.serial:
            source = stream_of(source.columns, context.collect_batches(source))
        morsels.extend(Morsel(morsel.run) for morsel in source.morsels)
    return Stream(node.columns, tuple(morsels))


def open_set_difference(node: SetDifference, left: Stream, right: Stream, context: ExecutionContext) -> Stream:
    """INTERSECT and EXCEPT: rows of both sides are grouped together and counted by side."""
    sides = [joined(side.columns, context.collect_batches(side)) for side in (left, right)]
    total = sides[0].length + sides[1].length
    if not sides[0].length:
        return stream_of(node.columns, [])
    columns = [concat([sides[0].column(i), sides[1].column(i)]) for i in range(len(node.columns))]
    context.reserve(total * 16 * len(columns), f"an {node.kind.upper()}")
    groups = segments(columns, total)
    from_left = np.arange(total) < sides[0].length
    if groups.order is not None:
        from_left = from_left.take(groups.order)
    on_left = np.add.reduceat(from_left, groups.starts, dtype=np.int64)
    times = _times(node, on_left, groups.sizes - on_left)
    rows = np.repeat(groups.representatives, times)
    return stream_of(node.columns, sliced(Batch(columns, total).select(rows)))


def _times(node: SetDifference, on_left: Array, on_right: Array) -> Array:
    """How often each distinct row comes out."""
    if node.kind == "intersect":
        found = np.minimum(on_left, on_right)
    elif node.all:
        found = np.maximum(on_left - on_right, 0)
    else:
        found = np.where(on_right == 0, on_left, 0)
    return found if node.all else np.minimum(found, 1)


def open_single_row(node: SingleRow, source: Stream, context: ExecutionContext) -> Stream:
    """Exactly one row."""
    rows = joined(source.columns, context.collect_batches(source))
    if rows.length > 1:
        raise CardinalityViolation(
            f"a scalar subquery gave {rows.length} rows; aggregate it, or add a LIMIT 1 if any row will do"
        )
    if rows.length == 0:
        rows = Batch([Const(column.type, None, 1) for column in node.columns], 1)
    return stream_of(node.columns, [rows])


def open_shared(node: Shared, open_source: Callable[[], Stream], context: ExecutionContext) -> Stream:
    """The rows of a subplan that runs at the first of its uses."""
    if node.key not in context.shared:
        source = open_source()
        rows = joined(source.columns, context.collect_batches(source))
        context.reserve(rows.length * 8 * len(node.columns), "a shared subplan")
        context.shared[node.key] = list(sliced(rows))
    return stream_of(node.columns, context.shared[node.key])
