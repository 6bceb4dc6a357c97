"""The first rows of each group in order: LIMIT for every row of an outer query at once, and FETCH ... WITH TIES.

Group and order become integers per row (`sorting.sort_keys.ordered_codes`). Sorting by these once separates
the groups and orders their rows; a row's position within its group is then a subtraction. If only one row of a group is
needed, those behind the least first key of their group are dropped beforehand, which takes no sort. Rows that cannot be
among the first of their group are dropped from each batch before it is kept. Rows that do not fit in memory are sorted
on disk by group and order.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator

import numpy as np

from ...model.vectors.vector import Array, Batch
from ...planner.algebra.physical import TopRows
from ...sql.expressions import OrderItem
from ..expressions.evaluate import Compiler, Evaluation
from ..kernels.groups.key_codes import combined_codes
from ..kernels.groups.row_order import run_starts, sort_by_columns
from ..lazy import concat_batches
from ..run.context import ExecutionContext
from ..run.stream import Morsel, Stream, stream_of
from ..sorting.running_bound import RunningBound
from ..sorting.sort_keys import ordered_codes
from ..sorting.sorted_rows import held_stream, let_go
from ..sorting.sorter import Sorter
from .limit import constant

_FEWEST = 4096
"""Rows of a batch from which the least first keys are compared before the sort (9 ns a row, beside 60 for a sort),"""
_WORTH_SELECTING = 4
"""and factor: the rows that are left are at most this part of the batch."""


class _Ranking:
    """The compiled node: selects the rows of a batch that are among the first `wanted` of their group."""

    def __init__(self, node: TopRows):
        positions = {column.id: i for i, column in enumerate(node.source.columns)}
        self._groups = [positions[column.id] for column in node.groups]
        self.keys: list[Evaluation] = Compiler(node.source.columns).compile_all([item.expr for item in node.order])
        self._order = node.order
        self._ties = node.ties
        self._lock = threading.Lock()
        """Guards the counts of rows compared with the least of their group, and of those dropped."""
        self.considered = 0
        self.dropped = 0

    def last_group(self, rows: Batch) -> int:
        """Position at which the last group begins, in rows ordered by group."""
        groups, _ = combined_codes([rows.column(i) for i in self._groups]) if self._groups else _one(rows.length)
        return int(run_starts(groups)[-1])

    def rows(self, batch: Batch, skipped: int, wanted: int | None) -> Array:
        """Numbers of the rows behind the first `skipped` of their group and among its first `wanted`, in order."""
        if wanted == 1 and self.keys and batch.length >= _FEWEST:
            least = self._least(batch)
            if least is not None:
                return least.take(self._ranked(batch.select(least), skipped, wanted))
        return self._ranked(batch, skipped, wanted)

    def _least(self, batch: Batch) -> Array | None:
        """Ascending numbers of the rows with the least first key of their group, which come before all others; None if
        that needs a sort, or leaves too many."""
        groups, size = combined_codes([batch.column(i) for i in self._groups]) if self._groups else _one(batch.length)
        if size > batch.length:
            return None
        first = self._order[0]
        codes, _ = ordered_codes(self.keys[0](batch), first.descending, first.nulls_first)
        if groups.dtype != np.intp:
            groups = groups.astype(np.intp)
        least = np.full(size, np.iinfo(codes.dtype).max, codes.dtype)
        np.minimum.at(least, groups, codes)
        rows = np.flatnonzero(codes == least.take(groups))
        if len(rows) * _WORTH_SELECTING > batch.length:
            return None
        with self._lock:
            self.considered += batch.length
            self.dropped += batch.length - len(rows)
        return rows

    def _ranked(self, batch: Batch, skipped: int, wanted: int | None) -> Array:
        groups, size = combined_codes([batch.column(i) for i in self._groups]) if self._groups else _one(batch.length)
        by = zip(self.keys, self._order, strict=True)
        columns = [ordered_codes(key(batch), item.descending, item.nulls_first) for key, item in by]
        sequence, ordered = sort_by_columns([(groups, size), *columns])
        order = np.arange(batch.length) if sequence is None else sequence
        place = _place_within(run_starts(groups.take(order)), batch.length)
        kept = place >= skipped
        if wanted is not None:
            peers = run_starts(*ordered)
            rank = np.repeat(place.take(peers), np.diff(peers, append=batch.length)) if self._ties else place
            kept &= rank < wanted
        return order.compress(kept)


def _one(length: int) -> tuple[Array, int]:
    return np.zeros(length, np.uint8), 1


def _place_within(starts: Array, length: int) -> Array:
    """Distance of each row from the start of its run."""
    place: Array = np.arange(length) - np.repeat(starts, np.diff(starts, append=length))
    return place


def bound_of_top_rows(node: TopRows) -> RunningBound | None:
    """Return the running bound of the first rows with ties; None if there are groups, or all rows are needed."""
    limit, offset = constant(node.limit, "LIMIT"), constant(node.offset, "OFFSET") or 0
    return RunningBound(node.order, limit + offset, node.ties) if limit and not node.groups and node.order else None


def open_top_rows(
    node: TopRows, source: Stream, context: ExecutionContext, bound: RunningBound | None = None
) -> Stream:
    """Read the whole source and produce the first rows of each group, in order of group and key. `bound` is that of
    `bound_of_top_rows`, which scans of the source may have."""
    limit, offset = constant(node.limit, "LIMIT"), constant(node.offset, "OFFSET") or 0
    wanted = None if limit is None else limit + offset
    if limit == 0:
        return stream_of(node.columns, [])
    ranking = _Ranking(node)

    account = context.account("a limit for each row of an outer query")
    positions = {column.id: i for i, column in enumerate(source.columns)}
    kept = [positions[column.id] for column in node.columns]
    by = [*map(OrderItem, node.groups), *node.order]
    sorter = Sorter(source.columns, range(len(source.columns)), by, context, account)

    def cut(batch: Batch) -> Batch:
        if wanted is None:
            return batch
        if bound is not None:
            return let_go(batch, bound.cut(batch, ranking.keys))
        return let_go(batch, batch.select(np.sort(ranking.rows(batch, 0, wanted))))

    sorter.collect(source, cut)
    if context.collect:
        counts = ranking if bound is None else bound
        context.actuals.of(node).bound_rows = counts.dropped, counts.considered
    if sorter.spilled:
        run = sorter.merged()
        return Stream(node.columns, (Morsel(lambda: _spilled(run(), ranking, kept, offset, wanted)),))
    rows = sorter.rows()
    if not rows.length:
        return stream_of(node.columns, [])
    return held_stream(node.columns, rows.select(ranking.rows(rows, offset, wanted)).project(kept), account)


def _spilled(
    batches: Iterator[Batch], ranking: _Ranking, kept: list[int], skipped: int, wanted: int | None
) -> Iterator[Batch]:
    """Yield the first rows of groups that arrive one after the other, each in order. The last group may continue, so
    its first rows wait for the next batch."""
    waiting: Batch | None = None
    for batch in batches:
        rows = batch if waiting is None else concat_batches([waiting, batch])
        start = ranking.last_group(rows)
        if start:
            done = rows.slice(0, start)
            yield done.select(ranking.rows(done, skipped, wanted)).project(kept)
        last = rows.slice(start, rows.length)
        last = last.select(np.sort(ranking.rows(last, 0, wanted)))
        waiting = Batch(last.columns(), last.length)
    if waiting is not None:
        yield waiting.select(ranking.rows(waiting, skipped, wanted)).project(kept)
