"""ORDER BY: all rows in order, or the first `limit` of them.

With a limit, each batch is cut before it is kept, to the rows that beat the n-th best so far (`running_bound`); rows of
one tablet that arrive sorted are not sorted again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial

from ...model.vectors.vector import Batch
from ...planner.algebra.physical import Sort
from ...sql.expressions import Column
from ..expressions.evaluate import Compiler
from ..operators.limit import constant, open_limit
from ..run.context import ExecutionContext
from ..run.memory import Account
from ..run.stream import Morsel, Stream, sliced, stream_of
from .running_bound import RunningBound
from .sort_keys import order_of
from .sorter import Sorter, between


def bound_of_sort(node: Sort) -> RunningBound | None:
    """Return the running bound of a top-N; None for a sort of all rows, or of none."""
    wanted = _wanted(node)
    return RunningBound(node.order, wanted) if wanted else None


def _wanted(node: Sort) -> int | None:
    limit, offset = constant(node.limit, "LIMIT"), constant(node.offset, "OFFSET") or 0
    return None if limit is None else limit and limit + offset


def open_sort(node: Sort, source: Stream, context: ExecutionContext, bound: RunningBound | None = None) -> Stream:
    """Read the whole source and produce its rows in order. `bound` is that of the sort, which scans of the source may
    have."""
    if node.presorted and len(source.morsels) <= 1:
        return open_limit(node, source, context)
    wanted, offset = _wanted(node), constant(node.offset, "OFFSET") or 0
    if wanted == 0:
        return stream_of(node.columns, [])
    positions = {column.id: i for i, column in enumerate(source.columns)}
    kept = [positions[column.id] for column in node.columns]
    account = context.account("a sort")
    sorter = Sorter(source.columns, kept, node.order, context, account, first=wanted)
    if bound is None:
        sorter.collect(source)
    else:
        sorter.collect(source, _cut(node, source, bound))
        if context.collect:
            context.actuals.of(node).bound_rows = bound.dropped, bound.considered
    if sorter.spilled:
        return _spilled(node, sorter.merged(), offset, wanted)
    rows = sorter.rows()
    if not rows.length:
        return stream_of(node.columns, [])
    order = order_of(sorter.keys(rows), node.order, rows.length, wanted)
    return held_stream(node.columns, rows.select(order[offset:]).project(kept), account)


def _spilled(node: Sort, run: Callable[[], Iterator[Batch]], offset: int, wanted: int | None) -> Stream:
    places = range(len(node.columns))

    def rows() -> Iterator[Batch]:
        return between((batch.project(places) for batch in run()), offset, wanted)

    return Stream(node.columns, (Morsel(rows),))


def _cut(node: Sort, source: Stream, bound: RunningBound) -> Callable[[Batch], Batch]:
    """Return the function that cuts a batch before it is kept."""
    keys = Compiler(source.columns).compile_all([item.expr for item in node.order])

    def cut(batch: Batch) -> Batch:
        kept = bound.cut(batch, keys)
        return kept if kept is batch else let_go(batch, kept)

    return cut


def let_go(batch: Batch, kept: Batch) -> Batch:
    """Return `kept`, rows of `batch`, detached from columns that were read before: else the few rows would keep all of
    them."""
    for place in range(batch.width):
        if batch.is_loaded(place):
            kept.column(place)
    return kept


def held_stream(columns: Sequence[Column], rows: Batch, account: Account) -> Stream:
    """Make a stream of rows in memory: the account holds them as long as the stream exists."""
    return Stream(tuple(columns), tuple(Morsel(partial(_given, piece, account)) for piece in sliced(rows)))


def _given(batch: Batch, _: Account) -> Iterator[Batch]:
    return iter((batch,))
