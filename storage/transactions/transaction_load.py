"""Bulk loads inside a transaction: their rows become own rows, all or none."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import pyarrow as pa

from ..loads.loading import Loading, loadable, routes
from .own_rows import TableContext

GROUP_ROWS, GROUP_BYTES = 1 << 20, 256 << 20
"""Rows and bytes written together at most: each group costs a look-up of its keys in the store."""


class TransactionLoad(Loading):
    """A bulk load in a transaction; see `Loading`.

    Parameters
    ----------
    context : TableContext
    check_open : callable
        Raises where the transaction has ended.
    insert : callable
        Inserts batches, all or none; raises the first row's error.
    move : callable
        Moves a batch to a temporary file.
    limit : int
        Bytes of rows kept in memory.
    """

    def __init__(
        self,
        context: TableContext,
        check_open: Callable[[], object],
        insert: Callable[[Iterable[pa.RecordBatch]], None],
        move: Callable[[pa.RecordBatch], pa.RecordBatch],
        limit: int,
    ):
        super().__init__(context.table)
        self._context = context
        self._check = check_open
        self._insert = insert
        self._move = move
        self._limit = limit
        self._moved: list[pa.RecordBatch] = []
        self._batches: list[pa.RecordBatch] = []
        self._buffered = 0
        self._rows = 0

    def _check_open(self) -> None:
        self._check()

    def _take(self, rows: pa.RecordBatch | pa.Table) -> None:
        number = self._table.schema.auto_increment
        for batch in loadable(self._table, rows):
            if self._context.has_ranges:
                routes(self._table, self._context.partitioner, batch)
            self._batches.append(batch if number is None else batch.drop_columns([number.name]))
            self._buffered += batch.nbytes
            self._rows += batch.num_rows
            if self._buffered > self._limit:
                self._moved += map(self._move, _grouped(self._batches))
                self._batches, self._buffered = [], 0

    def _forget(self) -> None:
        self._moved, self._batches = [], []

    def finish(self) -> int:
        """Make all rows own rows of the transaction; how many there are. See `model.store.BulkLoader`."""
        with self._step():
            self._insert(_grouped([*self._moved, *self._batches]))
        self._end()
        return self._rows


def _grouped(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The rows in few batches."""
    group: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        if group and (rows + batch.num_rows > GROUP_ROWS or size + batch.nbytes > GROUP_BYTES):
            yield _joined(group)
            group, rows, size = [], 0, 0
        group.append(batch)
        rows, size = rows + batch.num_rows, size + batch.nbytes
    if group:
        yield _joined(group)


def _joined(group: list[pa.RecordBatch]) -> pa.RecordBatch:
    return group[0] if len(group) == 1 else pa.Table.from_batches(group).combine_chunks().to_batches()[0]
