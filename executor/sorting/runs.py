"""Sorted runs in temporary files, and one order of many of them.

    run 0   ▇▇▇▇▇ ▇▇▇▇▇ ▇▇▇▇▇         chunks, each sorted, each behind the one before it
    run 1   ▇▇▇▇▇ ▇▇▇▇▇ ▇▇▇▇▇
    run 2   ▇▇▇▇▇ ▇▇▇▇▇
              └─────└── the last keys of all chunks are known: a chunk is needed once its predecessor is consumed

So the order in which the chunks are read is known in advance (`_Forecast`). So is the *bound* for any number of chunks
read: the last key in memory of the run whose next chunk comes first. Rows up to the bound are complete, however many
runs there are. Each round reads as many chunks as memory allows, sorts all rows in memory once, and yields the rows up
to the bound. Of each run, at most one chunk is left for the next round. Equal rows keep the order of their runs, and
their order within them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

import numpy as np

from ...model.lazy_dataclass import dataclass
from ...model.types import DataType
from ...model.vectors.vector import Array, Batch, Dict, Text, Vector, concat
from ...sql.expressions import OrderItem
from ...storage.files.spill_file import Extent, SpillFile
from ..run.context import ExecutionContext
from ..run.stream import BATCH_ROWS
from ..spilling.encoded import to_record_batch
from ..spilling.partitions import SpilledRows
from .sort_keys import order_of

_COPIES = 3
"""Copies of a chunk during a merge: as read, joined with others, and in merged order."""
_PER_ROW = 48
"""Bytes that a row takes in a merge in addition to its columns: codes, packed codes, row numbers."""


@dataclass(frozen=True)
class Ordering:
    """Sort keys of spilled rows: their columns and directions."""

    keys: Sequence[int]
    items: Sequence[OrderItem]

    def of(self, vectors: Sequence[Vector], length: int) -> Array:
        """Sort rows with these keys; equal ones keep their order."""
        return order_of(vectors, self.items, length)

    def keys_of(self, batch: Batch) -> list[Vector]:
        """Return the keys of spilled rows."""
        return [batch.column(place) for place in self.keys]


@dataclass(frozen=True)
class Run:
    """Sorted rows on disk; `ends` are the keys of the last row of each chunk, one vector per key."""

    rows: SpilledRows
    ends: Sequence[Vector]

    @property
    def chunks(self) -> Sequence[Extent]:
        """Extents of the chunks."""
        return self.rows.extents

    @property
    def cost(self) -> int:
        """Bytes that its largest chunk takes in a merge."""
        return max(cost(chunk) for chunk in self.chunks)


def cost(chunk: Extent) -> int:
    """Bytes that a chunk takes in a merge."""
    return cost_of(chunk.length, chunk.rows)


def cost_of(size: float, rows: int) -> int:
    """Bytes that `rows` rows, of `size` bytes together, take in a merge."""
    return int(_COPIES * size) + _PER_ROW * rows


def write_run(
    batch: Batch, order: Array | None, by: Ordering, file: SpillFile, chunk_rows: int, context: ExecutionContext
) -> Run:
    """Write the rows of a batch (every column read, at least one row) as a run: in `order`; None: they are sorted
    already."""
    rows = np.arange(batch.length) if order is None else order
    starts = range(0, len(rows), chunk_rows)

    def task(start: int) -> Extent:
        context.check()
        return file.write(to_record_batch(batch.select(rows[start : start + chunk_rows])))

    extents = context.parallel([partial(task, start) for start in starts])
    lasts = rows.take([min(start + chunk_rows, len(rows)) - 1 for start in starts])
    types = [column.type for column in batch.columns()]
    return _run(file, types, extents, [_freed(key.take(lasts)) for key in by.keys_of(batch)])


def _run(file: SpillFile, types: Sequence[DataType], extents: list[Extent], ends: Sequence[Vector]) -> Run:
    size, rows = sum(extent.length for extent in extents), sum(extent.rows for extent in extents)
    return Run(SpilledRows(file, types, extents, bytes=size, rows=rows), ends)


def _freed(vector: Vector) -> Vector:
    """Return the same few values, without a reference to the dictionary of many."""
    return Text(vector.type, vector.to_arrow()) if isinstance(vector, Dict) else vector


def rewritten(
    batches: Iterator[Batch], by: Ordering, file: SpillFile, chunk_rows: int, context: ExecutionContext
) -> Run:
    """Write batches that arrive in order as one run."""
    parts = []
    for batch in batches:
        read = Batch(batch.columns(), batch.length)
        parts.append(write_run(read, None, by, file, chunk_rows, context))
    extents = [extent for part in parts for extent in part.chunks]
    ends = [concat([part.ends[key] for part in parts]) for key in range(len(by.keys))]
    return _run(file, parts[0].rows.types, extents, ends)


# ---- merging ---------------------------------------------------------------------------------------------------------


class _Forecast:
    """The order in which the chunks of some runs are needed: the first of each run, then by the predecessor's end."""

    def __init__(self, runs: Sequence[Run], by: Ordering):
        later = [np.arange(1, len(run.chunks)) for run in runs]
        owners = np.repeat(np.arange(len(runs)), [len(chunks) for chunks in later])
        self._ends = [
            concat([run.ends[key].slice(0, len(run.chunks) - 1) for run in runs]) for key in range(len(by.keys))
        ]
        self._order = by.of(self._ends, len(owners)) if len(owners) else np.empty(0, np.intp)
        self._firsts = len(runs)
        runs_in_order = np.concatenate([np.arange(len(runs)), owners.take(self._order)])
        chunks_in_order = np.concatenate([np.zeros(len(runs), np.intp), np.concatenate(later).take(self._order)])
        self.chunks = list(zip(runs_in_order.tolist(), chunks_in_order.tolist(), strict=True))

    @property
    def least(self) -> int:
        """Number of chunks that must be read before any row is complete."""
        return self._firsts

    def bound(self, read: int) -> tuple[int, list[Vector]] | None:
        """Return, for a number of chunks read, the run whose last row bounds the complete rows, and that row's keys;
        None: all rows are complete."""
        if read >= len(self.chunks):
            return None
        row = self._order[read - self._firsts : read - self._firsts + 1]
        return self.chunks[read][0], [end.take(row) for end in self._ends]


class _Merge:
    """Rows of some runs that were read and not yet produced: pieces, in the order of their runs."""

    def __init__(self, runs: Sequence[Run], by: Ordering):
        self._runs = runs
        self._by = by
        self._pieces: list[tuple[int, Batch]] = []
        self._fresh: list[tuple[int, Batch]] = []
        self._per_row = sum(cost(c) for run in runs for c in run.chunks) / sum(run.rows.rows for run in runs)

    @property
    def held(self) -> int:
        """Bytes in use."""
        rows = sum(piece.length for pieces in (self._pieces, self._fresh) for _, piece in pieces)
        return int(rows * self._per_row)

    def read(self, run: int, chunk: int) -> None:
        """Add a chunk: the next of its run."""
        rows = self._runs[run].rows
        self._fresh.append((run, rows.read(rows.extents[chunk])))

    def pop_up_to(self, bound: tuple[int, list[Vector]] | None, width: int) -> Iterator[Batch]:
        """Yield the first `width` columns of the rows up to the bound, and remove these rows."""
        pieces = sorted([*self._pieces, *self._fresh], key=lambda piece: piece[0])
        order = self._up_to(bound, pieces)
        offsets = np.cumsum([0, *(piece.length for _, piece in pieces)])
        owners = np.searchsorted(offsets, order, side="right") - 1
        counts = np.bincount(owners, minlength=len(pieces))
        left = zip(counts.tolist(), pieces, strict=True)
        self._fresh = []
        self._pieces = [(run, piece.slice(n, piece.length)) for n, (run, piece) in left if n < piece.length]
        for _, piece in self._pieces:
            piece.columns()  # else it would keep the whole chunk
        # Complete rows are the beginning of each piece, so they are sorted again among those alone.
        order -= (offsets[:-1] - (np.cumsum(counts) - counts)).take(owners)
        chosen = [(n, piece) for n, (_, piece) in zip(counts.tolist(), pieces, strict=True) if n]
        if chosen:
            columns = [concat([piece.column(i).slice(0, n) for n, piece in chosen]) for i in range(width)]
            rows = Batch(columns, len(order))
            for start in range(0, len(order), BATCH_ROWS):
                yield rows.select(order[start : start + BATCH_ROWS])

    def _up_to(self, bound: tuple[int, list[Vector]] | None, pieces: Sequence[tuple[int, Batch]]) -> Array:
        """Return the rows up to the bound, in order, as numbers among those of all pieces."""
        keys = [self._by.keys_of(piece) for _, piece in pieces]
        total = sum(piece.length for _, piece in pieces)
        if bound is None:
            return self._by.of([concat(parts) for parts in zip(*keys, strict=True)], total)
        # The bound takes part in the sort, as a row behind all those of its run.
        place = sum(run <= bound[0] for run, _ in pieces)
        marker = sum(piece.length for _, piece in pieces[:place])
        keys.insert(place, bound[1])
        order = self._by.of([concat(parts) for parts in zip(*keys, strict=True)], total + 1)
        complete = order[: int(np.flatnonzero(order == marker)[0])]
        return complete - (complete > marker)


def merged(runs: Sequence[Run], by: Ordering, width: int, memory: int, context: ExecutionContext) -> Iterator[Batch]:
    """Yield the rows of all runs in order, their first `width` columns, in batches of at most `BATCH_ROWS`.

    `memory` bytes may be in use at a time; more only if one chunk of each run needs more (`Run.cost`).
    """
    forecast, merge = _Forecast(runs, by), _Merge(runs, by)
    chunks = forecast.chunks
    read = 0
    while read < len(chunks):
        held, first = merge.held, read
        while read < len(chunks):
            run, number = chunks[read]
            held += cost(runs[run].chunks[number])
            if held > memory and read > first and read >= forecast.least:
                break
            context.check()
            merge.read(run, number)
            read += 1
        yield from merge.pop_up_to(forecast.bound(read), width)
