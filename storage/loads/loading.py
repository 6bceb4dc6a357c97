"""Shared part of the bulk loads of all stores: valid rows, batch by batch, and the end of a load."""

from __future__ import annotations

import contextlib
from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any, Self

import numpy as np
import pyarrow as pa

from ...errors import IntegrityError, InterfaceError
from ...model.arrow_arrays import arrow_scalar
from ...model.partitions.partition import Partitioner
from ...model.schema import Table
from ...model.vectors.vector import Array
from ..writing.by_tablet import by_tablet
from ..writing.incoming_rows import conform, limit_errors, no_partition, null_errors

ROUTED_ROWS = 1 << 17
"""Rows that are routed at a time: the copies of a part stay in the cache, and memory is bounded."""

SMALL_ROWS = 10_000
SMALL_BYTES = 1 << 20
"""A load of at most this many rows and bytes of Arrow data makes no rowsets of its own: its rows stay in logs and
memory until the next flush. (Measured embedded with rows of 8 columns, milliseconds of a processor per load, through
the log with its share of a later flush, and as rowsets: 1 row 1.8 and 20, 1,000 rows 3.5 and 33, 8,000 rows 12 and 62,
32,000 rows 41 and 68. The limit is lower than that, since rowsets are not held in memory, nor replayed.)"""


class Loading(ABC):
    """A bulk load of one table; see `model.store.BulkLoader`. For one thread at a time.

    An error ends the load: nothing of it stays.
    """

    def __init__(self, table: Table):
        self._table = table
        self._is_over = False
        self.keeps: object = None
        """Kept for as long as the load: the client that it goes through."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self._end()

    def append(self, rows: pa.RecordBatch | pa.Table) -> None:
        """Add rows, in any order; columns by name.

        Raises what is wrong with the batch or with the first bad row: `UnknownColumn`, `TypeMismatch`,
        `NotNullViolation`, `NoPartition`, `AlreadyPresent`. The load has failed then.
        """
        with self._step():
            self._take(rows)

    @contextlib.contextmanager
    def _step(self) -> Iterator[None]:
        """A step of the load: `InterfaceError` where it has ended, and an error ends it."""
        if self._is_over:
            raise InterfaceError(f"this load of table {self._table.name} has ended; start another one")
        try:
            self._check_open()
            yield
        except BaseException:
            self._end()
            raise

    def _end(self) -> None:
        """End the load and discard its rows; again has no effect."""
        if not self._is_over:
            self._is_over = True
            self._forget()

    @abstractmethod
    def _check_open(self) -> None:
        """Raise where the store has been closed."""

    @abstractmethod
    def _take(self, rows: pa.RecordBatch | pa.Table) -> None:
        """`append`."""

    @abstractmethod
    def _forget(self) -> None:
        """Release all rows."""


def loadable(table: Table, rows: pa.RecordBatch | pa.Table) -> Iterator[pa.RecordBatch]:
    """The rows in batches, of the table's types, zeros in the AUTO_INCREMENT column. Raises the errors of rows that do
    not depend on the table's contents, at their batch."""
    for batch in batches_of(_numbered_later(table, rows, conform(table, rows))):
        errors = null_errors(table, batch) or limit_errors(table, batch)
        if errors:
            raise errors[0].error
        yield batch


def routed(table: Table, partitioner: Partitioner, batch: pa.RecordBatch) -> Iterator[tuple[int, pa.RecordBatch]]:
    """The rows of a batch by the places of their tablets; `NoPartition` where one has none."""
    return by_tablet(batch, routes(table, partitioner, batch))


def routes(table: Table, partitioner: Partitioner, batch: pa.RecordBatch) -> Array:
    """The place of each row's tablet; `NoPartition` where one has none."""
    places = partitioner.route(batch)
    first = int(np.argmin(places))
    if places[first] < 0:
        raise no_partition(table, partitioner, batch, first)
    return places


def batches_of(rows: pa.Table | pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """The rows in batches of at most `ROUTED_ROWS` rows; very small chunks are joined."""
    table = rows if isinstance(rows, pa.Table) else pa.Table.from_batches([rows])
    chunks = max((column.num_chunks for column in table.columns), default=1)
    if chunks > 1 and table.num_rows < chunks * 4096:
        table = table.combine_chunks()
    for batch in table.to_batches(max_chunksize=ROUTED_ROWS):
        if batch.num_rows:
            yield batch


def _numbered_later(table: Table, given: pa.RecordBatch | pa.Table, rows: Any) -> Any:
    """The rows with zeros in the AUTO_INCREMENT column; `IntegrityError` where some were given numbers."""
    column = table.schema.auto_increment
    if column is None:
        return rows
    place = table.schema.position(column.name)
    if column.name in given.schema.names and rows.column(place).null_count < rows.num_rows:
        raise IntegrityError(f"column {column.name} of table {table.name} is assigned by the store; leave it out")
    return rows.set_column(place, column.name, pa.repeat(arrow_scalar(0, pa.int64()), rows.num_rows))
