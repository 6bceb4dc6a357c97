"""The first rows of each group in order: LIMIT for every row of an outer query at once, and FETCH ... WITH TIES.

Group and order become one integer per row (`sort.ordered_codes`), so that sorting these integers once puts groups apart
and their rows in order; a row's place within its group is then a subtraction. Each batch gives up what cannot be among
its groups' first rows before anything is merged.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ..planner.physical import TopRows
from ..storage.vector import Array, Batch
from .context import ExecutionContext
from .evaluate import Compiler, Evaluation
from .grouping import combined_codes, combined_order, densely, run_starts, sort_rows
from .lazy import joined
from .sort import constant, ordered_codes
from .stream import Morsel, Stream, sliced, stream_of

_MOST_BITS = 62


class _Ranking:
    """The compiled node: which rows of a batch are among the first `wanted` of their group."""

    def __init__(self, node: TopRows):
        positions = {column.id: i for i, column in enumerate(node.source.columns)}
        self._groups = [positions[column.id] for column in node.groups]
        self._keys: list[Evaluation] = Compiler(node.source.columns).compile_all([item.expr for item in node.order])
        self._order = node.order
        self._ties = node.ties

    def rows(self, batch: Batch, skipped: int, wanted: int | None) -> Array:
        """The numbers of the rows behind the first `skipped` of their group and among its first `wanted`, in order."""
        groups, size = combined_codes([batch.column(i) for i in self._groups]) if self._groups else _one(batch.length)
        by = zip(self._keys, self._order, strict=True)
        columns = [ordered_codes(key(batch), item.descending, item.nulls_first) for key, item in by]
        keys, key_size = combined_order(columns, batch.length)
        if size * key_size > 1 << _MOST_BITS:
            groups, size = densely(groups, size)
        if size * key_size > 1 << _MOST_BITS:
            keys, key_size = densely(keys, key_size)
        codes = groups.astype(np.uint64) * np.uint64(key_size) + keys.astype(np.uint64)
        order, ordered = sort_rows(codes, size * key_size)
        place = _place_within(run_starts(ordered // np.uint64(key_size)), batch.length)
        kept = place >= skipped
        if wanted is not None:
            peers = run_starts(ordered)
            rank = np.repeat(place.take(peers), np.diff(peers, append=batch.length)) if self._ties else place
            kept &= rank < wanted
        return order.compress(kept)


def _one(length: int) -> tuple[Array, int]:
    return np.zeros(length, np.uint8), 1


def _place_within(starts: Array, length: int) -> Array:
    """Each row's distance from the start of its run."""
    place: Array = np.arange(length) - np.repeat(starts, np.diff(starts, append=length))
    return place


def open_top_rows(node: TopRows, source: Stream, context: ExecutionContext) -> Stream:
    """Read the source whole and give the first rows of each group, in order of group and key."""
    limit, offset = constant(node.limit, "LIMIT"), constant(node.offset, "OFFSET") or 0
    wanted = None if limit is None else limit + offset
    if limit == 0:
        return stream_of(node.columns, [])
    ranking = _Ranking(node)

    def work(batches: Iterator[Batch], _: Morsel) -> list[Batch]:
        if wanted is None:
            return list(batches)
        return [batch.select(np.sort(ranking.rows(batch, 0, wanted))) for batch in batches]

    rows = joined(source.columns, [batch for found in context.run_all(source, work) for batch in found])
    context.reserve(rows.length * 16 * (1 + len(node.order)), "a limit for each row of an outer query")
    if not rows.length:
        return stream_of(node.columns, [])
    positions = {column.id: i for i, column in enumerate(source.columns)}
    result = rows.select(ranking.rows(rows, offset, wanted)).project([positions[c.id] for c in node.columns])
    return stream_of(node.columns, sliced(result))
