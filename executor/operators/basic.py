"""The smaller operators: filter, projection, UNION ALL, single rows, shared subplans."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from ...errors import CardinalityViolation
from ...model.vectors.vector import Array, Batch, Const, LazyColumn, Vector
from ...planner.algebra.physical import Filter, Project, Shared, SingleRow, UnionAll
from ...sql.expressions import Column, Expr, Literal
from ..expressions.evaluate import Compiler, SharedWork
from ..run.context import ExecutionContext
from ..run.stream import Morsel, Operator, Stream, stream_of
from .shared_rows import kept_rows


def open_filter(node: Filter, source: Stream) -> Stream:
    """Open a filter: the rows for which the predicate is true."""
    return source.through(node.columns, compile_filter(source.columns, node.predicate, node.columns))


def compile_filter(given: tuple[Column, ...], predicate: Expr, kept: tuple[Column, ...]) -> Operator:
    """Compile a filter of batches of the columns `given` to their columns `kept`, of the rows for which the predicate
    is true. Threads may share it."""
    condition = Compiler(given).condition(predicate)
    positions = {column.id: i for i, column in enumerate(given)}
    output = [positions[column.id] for column in kept]
    everything = output == list(range(len(given)))

    def run(batches: Iterator[Batch]) -> Iterator[Batch]:
        for batch in batches:
            if batch.length:
                passing = condition.select(batch)
                if passing.length:
                    yield passing if everything else passing.project(output)

    return run


def open_project(node: Project, source: Stream) -> Stream:
    """Open a projection: one expression per column."""
    stream = source.through(node.columns, compile_project(source.columns, node.expressions))
    renamed = {e.id: c.id for e, c in zip(node.expressions, node.columns) if isinstance(e, Column)}
    if source.partitioned_by and source.partitioned_by <= renamed.keys():
        kept = frozenset(renamed[number] for number in source.partitioned_by)
        return Stream(stream.columns, stream.morsels, kept, stream.serial)
    return stream


def compile_project(given: tuple[Column, ...], expressions: Sequence[Expr]) -> Operator:
    """Compile a projection of batches of the columns `given`. Computed columns are computed at first access, for the
    rows left by then. Threads may share it."""
    positions = {column.id: i for i, column in enumerate(given)}
    if all(isinstance(expr, Column) for expr in expressions):
        places = [positions[expr.id] for expr in expressions if isinstance(expr, Column)]
        return lambda batches: (batch.project(places) for batch in batches)
    work = SharedWork(given, expressions)

    def project(batch: Batch) -> Batch:
        prepared = work.prepare(batch)
        passing = batch.slots()
        slots: list[Vector | LazyColumn] = []
        for expr, evaluation in zip(expressions, work.evaluations, strict=True):
            if isinstance(expr, Column):
                slots.append(passing[positions[expr.id]])
            elif isinstance(expr, Literal):
                slots.append(Const(expr.type, expr.value, batch.length))
            else:
                slots.append(LazyColumn(_Deferred(evaluation, prepared)))
        return Batch(slots, batch.length)

    return lambda batches: (project(batch) for batch in batches)


class _Deferred:
    """Loads a computed column: over the whole batch, or over the remaining rows."""

    def __init__(self, evaluation: Callable[[Batch], Vector], batch: Batch):
        self._evaluation = evaluation
        self._batch = batch

    def __call__(self, rows: Array | None) -> Vector:
        return self._evaluation(self._batch if rows is None else self._batch.select(rows))


def open_union_all(node: UnionAll, sources: Sequence[Stream], context: ExecutionContext) -> Stream:
    """Open UNION ALL: the rows of all sources, one source after the other."""
    morsels: list[Morsel] = []
    for source in sources:
        if source.serial:
            source = stream_of(source.columns, context.collect_batches(source))
        morsels.extend(Morsel(morsel.run, rows=morsel.rows) for morsel in source.morsels)
    return Stream(node.columns, tuple(morsels))


def open_single_row(node: SingleRow, source: Stream, context: ExecutionContext) -> Stream:
    """Open a node that produces exactly one row."""

    def counted(batches: Iterator[Batch], morsel: Morsel) -> tuple[int, Batch | None]:
        rows, first = 0, None
        for batch in batches:
            first = batch if first is None else first
            rows += batch.length
        return rows, first

    found = context.run_all(source, counted)
    total = sum(rows for rows, _ in found)
    if total > 1:
        raise CardinalityViolation(
            f"a scalar subquery returned {total} rows; aggregate it, or add LIMIT 1 if any row will do"
        )
    first = next((batch for _, batch in found if batch is not None), None)
    if first is None:
        first = Batch([Const(column.type, None, 1) for column in node.columns], 1)
    return stream_of(node.columns, [first])


def open_shared(node: Shared, open_source: Callable[[], Stream], context: ExecutionContext) -> Stream:
    """Open a subplan that runs at the first of its uses. Its rows are kept until the statement ends."""
    if node.key not in context.shared:
        context.shared[node.key] = kept_rows(open_source(), context)
    return Stream(node.columns, context.shared[node.key])
