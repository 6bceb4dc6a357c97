"""The task's side of a read: parts to Arrow batches with exactly Spark's schema.

Spark checks only the first batch of a partition, so every batch is converted to the schema here, or is an error.
Batches are neither tiny (each costs Spark a fixed time) nor larger than requested.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import closing
from dataclasses import replace

import pyarrow as pa

from ...driver.connection import Connection
from ...driver.tables.scan_tokens import ScanToken
from ...errors import HistoryGone, StaleScanToken, TabletGone, UnknownTable
from ...model.schema import Table
from ...model.store import ScanSpec
from ..types import to_spark
from .partitions import ChangesPart, Part, QueryPart

FEW_ROWS = 8_192
"""Minimum number of rows: smaller batches are combined."""


def read(connection: Connection, part: Part, schema: pa.Schema, batch_rows: int) -> Iterator[pa.RecordBatch]:
    """The rows of a part, in batches of at most `batch_rows` with exactly this schema.

    Raises
    ------
    StaleScanToken
        If the table, a column or a tablet was dropped since the relation was planned.
    HistoryGone
        If the relation's time is before the ancient history mark.
    ServerUnavailable
        If a server failed during a part of which rows have been returned; Spark retries the task.
    """
    rows = (to_spark(batch, schema) for batch in _batches(connection, part) if batch.num_rows)
    return rebatched(rows, batch_rows)


def _batches(connection: Connection, part: Part) -> Generator[pa.RecordBatch, None, None]:
    if isinstance(part, QueryPart):
        with connection.at(part.snapshot) as then, then.execute(part.text) as cursor:
            yield from cursor.record_batches()
    elif isinstance(part, ChangesPart):
        yield from _changed(connection, part)
    else:
        for data in part.tokens:
            token = ScanToken.deserialize(data)
            table, spec = token.resolved(connection.store)
            yield from _scanned(connection, table, replace(spec, fragment=part.fragment))


def _changed(connection: Connection, part: ChangesPart) -> Iterator[pa.RecordBatch]:
    try:
        yield from _scanned(connection, part.table, part.spec)
    except HistoryGone as error:
        raise HistoryGone(
            f"{error}; earlier changes are no longer available. Start again from the table's current rows: a new "
            "checkpoint, and startingTimestamp=earliest"
        ) from error


def has_rows(connection: Connection, part: Part) -> bool:
    """True if the part has a row; a diff scan stops at the first one."""
    if isinstance(part, ChangesPart):
        part = replace(part, spec=replace(part.spec, limit=1))
    with closing(_batches(connection, part)) as batches:
        return any(batch.num_rows for batch in batches)


def _scanned(connection: Connection, table: Table, spec: ScanSpec) -> Iterator[pa.RecordBatch]:
    try:
        tokens = connection.store.scan_tokens(table, spec)
        for token in tokens:
            for batch in connection.store.scan(token):
                columns = [column.to_arrow() for column in batch.columns()]
                yield pa.RecordBatch.from_arrays(columns, names=[str(number) for number in range(len(columns))])
    except TabletGone as error:
        raise StaleScanToken(f"{error}; load the relation again") from error
    except UnknownTable as error:  # this process's catalog may be a second old
        raise StaleScanToken(f"table {table.name} ({table.id}) has been dropped; load the relation again") from error


def rebatched(batches: Iterator[pa.RecordBatch], most: int) -> Iterator[pa.RecordBatch]:
    """The same rows in the same order, in batches of at most `most` rows, with small ones combined."""
    least = min(FEW_ROWS, most)
    waiting: list[pa.RecordBatch] = []
    held = 0
    for batch in batches:
        for start in range(0, batch.num_rows, most):
            piece = batch.slice(start, most)
            if held and held + piece.num_rows > most:
                yield _together(waiting)
                waiting, held = [], 0
            waiting.append(piece)
            held += piece.num_rows
            if held >= least:
                yield _together(waiting)
                waiting, held = [], 0
    if waiting:
        yield _together(waiting)


def _together(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    return batches[0] if len(batches) == 1 else pa.concat_batches(batches)
