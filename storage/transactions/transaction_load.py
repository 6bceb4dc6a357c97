"""Bulk loads inside a transaction: their rows become own rows, all or none."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pyarrow as pa

from ...model.schema import Table
from ..loads.loading import Loading, loadable

GROUP_ROWS, GROUP_BYTES = 1 << 20, 256 << 20
"""Rows and bytes written together at most: each group costs a look-up of its keys in the store."""


class TransactionLoad(Loading):
    """A bulk load in a transaction; see `Loading`.

    Parameters
    ----------
    table : Table
    check_open : callable
        Raises where the transaction has ended.
    insert : callable
        Inserts batches, all or none; raises the first row's error.
    """

    def __init__(
        self, table: Table, check_open: Callable[[], object], insert: Callable[[Sequence[pa.RecordBatch]], None]
    ):
        super().__init__(table)
        self._check = check_open
        self._insert = insert
        self._batches: list[pa.RecordBatch] = []

    def _check_open(self) -> None:
        self._check()

    def _take(self, rows: pa.RecordBatch | pa.Table) -> None:
        number = self._table.schema.auto_increment
        for batch in loadable(self._table, rows):
            self._batches.append(batch if number is None else batch.drop_columns([number.name]))

    def _forget(self) -> None:
        self._batches = []

    def finish(self) -> int:
        """Make all rows own rows of the transaction; how many there are. See `model.store.BulkLoader`."""
        with self._step():
            self._insert(_grouped(self._batches))
        count = int(sum(batch.num_rows for batch in self._batches))
        self._end()
        return count


def _grouped(batches: Sequence[pa.RecordBatch]) -> list[pa.RecordBatch]:
    """The rows in few batches."""
    groups: list[list[pa.RecordBatch]] = []
    rows = size = 0
    for batch in batches:
        if not groups or rows + batch.num_rows > GROUP_ROWS or size + batch.nbytes > GROUP_BYTES:
            groups.append([])
            rows = size = 0
        groups[-1].append(batch)
        rows, size = rows + batch.num_rows, size + batch.nbytes
    return [pa.Table.from_batches(group).combine_chunks().to_batches()[0] for group in groups]
