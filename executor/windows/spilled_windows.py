"""Window calls over more rows than fit in memory.

    sorted rows from disk   a a a b b c c c c c c c c c c c d d
                            └───┬───┘ └─────────┬─────────┘ └ ...
                   whole partitions        a partition larger than memory: its rows go to disk once more,
                   as many as fit          only what the calls read of them stays

The rows arrive sorted by PARTITION BY and ORDER BY. As many whole partitions as fit in memory are computed at a time.
Of a larger partition, the keys and the columns that the calls read must fit; its values are added to its rows while
these are read again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

import numpy as np

from ...model.vectors.vector import Array, Batch, Const, Vector, concat
from ...planner.algebra.physical import Window
from ..kernels.groups.segments import segments
from ..lazy import concat_batches
from ..run.context import ExecutionContext
from ..run.memory import Account
from ..run.stream import sliced
from ..sorting.sorter import Sorter
from ..spilling.partitions import SpilledRows
from ..spilling.sizes import vector_bytes

MERGE_SHARE = 3
"""A third of the operator's memory is for merging, the rest for partitions."""
_COPIES = 2
_KEY_BYTES = 16


class Calls(Protocol):
    """The compiled calls of a node (`window.Windows`)."""

    @property
    def bytes_per_row(self) -> int: ...

    @property
    def read(self) -> set[int]: ...

    def results(
        self, rows: Batch, partition: Sequence[Vector], order: Sequence[Vector]
    ) -> tuple[Batch, list[Vector]]: ...

    def kept(self, rows: Batch) -> Batch: ...


class SpilledWindows:
    """The rows of a sorter that has spilled, with the values of the calls."""

    def __init__(self, node: Window, calls: Calls, sorter: Sorter, account: Account, context: ExecutionContext):
        self._node = node
        self._calls = calls
        self._sorter = sorter
        self._account = account
        self._context = context
        self._sorted = sorter.merged()
        self._partition_keys = len(node.calls[0].partition)
        self._per_row = calls.bytes_per_row + _KEY_BYTES * (1 + self._partition_keys + len(node.calls[0].order))

    def batches(self) -> Iterator[Batch]:
        """Yield the rows in window order."""
        waiting = _Waiting(self._account, self._per_row)
        large: _LargePartition | None = None
        for batch in self._sorted():
            rows = Batch(batch.columns(), batch.length)
            if large is not None:
                own = self._same_partition(large.last, rows)
                large.add(rows.slice(0, own))
                if own == rows.length:
                    continue
                yield from large.batches()
                large, rows = None, _read(rows.slice(own, rows.length))
            if waiting.add(rows):
                continue
            rows = waiting.taken()
            start = int(self._starts(rows)[-1])
            if start:
                yield from self._computed(rows.slice(0, start))
            rest = _read(rows.slice(start, rows.length))
            if not waiting.add(rest):
                large = self._large()
                large.add(waiting.taken())
        if large is not None:
            yield from large.batches()
        if waiting.rows:
            yield from self._computed(waiting.taken())

    def _computed(self, rows: Batch) -> Iterator[Batch]:
        """Compute the values of whole partitions."""
        keys = self._sorter.spilled_keys(rows)
        ordered, results = self._calls.results(rows, keys[: self._partition_keys], keys[self._partition_keys :])
        yield from sliced(self._calls.kept(ordered).append(results))

    def _starts(self, rows: Batch) -> Array:
        """Positions at which partitions begin."""
        keys = self._sorter.spilled_keys(rows)[: self._partition_keys]
        if not keys:
            return np.zeros(1, np.intp)
        numbers = segments(keys, rows.length).group_of_row()
        return np.flatnonzero(np.diff(numbers, prepend=-1))

    def _same_partition(self, last: Batch, rows: Batch) -> int:
        """Number of rows from the first on that are of the partition of `last`, one row."""
        pairs = zip(last.columns(), rows.columns(), strict=True)
        starts = self._starts(Batch([concat([before, own]) for before, own in pairs], 1 + rows.length))
        return rows.length if len(starts) == 1 else int(starts[1]) - 1

    def _large(self) -> _LargePartition:
        order = self._sorter.places[self._partition_keys :]
        spilled = SpilledRows(self._context.spill_file(self._node), self._sorter.types)
        return _LargePartition(self._calls, order, spilled, self._account, self._per_row)


class _Waiting:
    """Rows that wait for the end of their partition, under the account."""

    def __init__(self, account: Account, per_row: int):
        self._account = account
        self._per_row = per_row
        self._held = 0
        self.rows: list[Batch] = []

    def add(self, rows: Batch) -> bool:
        """Add rows; False if memory is full."""
        self.rows.append(rows)
        size = _size(rows.columns(), rows.length, self._per_row)
        if not self._account.grow(size):
            return False
        self._held += size
        return True

    def taken(self) -> Batch:
        """Return all waiting rows and remove them."""
        rows, self.rows = concat_batches(self.rows), []
        self._account.shrink(self._held)
        self._held = 0
        return rows


class _LargePartition:
    """One partition on disk, with the columns that the calls read in memory."""

    def __init__(self, calls: Calls, order: Sequence[int], spilled: SpilledRows, account: Account, per_row: int):
        self._calls = calls
        self._order = order
        self._spilled = spilled
        self._account = account
        self._per_row = per_row
        self._places = sorted({*calls.read, *order})
        self._pieces: list[list[Vector]] = []
        self._held = 0
        self.last = Batch([], 0)
        """Its last row."""

    def add(self, rows: Batch) -> None:
        """Add the next rows."""
        if not rows.length:
            return
        for piece in sliced(rows):
            self._spilled.add(piece)
        kept = [rows.column(place) for place in self._places]
        size = _size(kept, rows.length, self._per_row)
        self._account.hold(size)
        self._held += size
        self._pieces.append(kept)
        self.last = _read(rows.slice(rows.length - 1, rows.length))

    def batches(self) -> Iterator[Batch]:
        """Yield its rows with their values."""
        length = self._spilled.rows
        read = {place: concat([piece[i] for piece in self._pieces]) for i, place in enumerate(self._places)}
        self._pieces = []
        columns = [read.get(i, Const(type_, None, length)) for i, type_ in enumerate(self._spilled.types)]
        rows = Batch(columns, length)
        _, results = self._calls.results(rows, [], [rows.column(place) for place in self._order])
        values = Batch(results, length)
        start = 0
        for batch in self._spilled.batches():
            own = values.slice(start, start + batch.length)
            yield self._calls.kept(batch).append(own.slots())
            start += batch.length
        self._account.shrink(self._held)


def _size(columns: Sequence[Vector], length: int, per_row: int) -> int:
    return _COPIES * sum(vector_bytes(column, length) for column in columns) + per_row * length


def _read(rows: Batch) -> Batch:
    return Batch(rows.columns(), rows.length)
