"""Writes of rows into one table, without SQL: for `TableHandle` and `WriteSession`.

Kudu's semantics: a refused row (an existing key, a NULL in a NOT NULL column, ...) does not prevent the others from
being written, unless `all_or_none` is set. Each piece of rows is durable when it is written.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from ...errors import Cancelled, RefusedRow, RowsRefused
from ...executor.run.interrupts import DeferInterrupts
from ...model.lazy_dataclass import dataclass
from ...model.schema import Table
from ...model.store import Op, RowError, Store, Timestamp, WriteBatch, WriteResult
from ...model.vectors.vector import Array
from .given_rows import CHUNK_ROWS, Cells, GivenRows, Rows, cells_of, given_rows

SHOWN_ROWS = 5
"""Limit of refused rows in a message."""


@dataclass(frozen=True, slots=True)
class Written:
    """Result of a write: `applied` rows changed the table, `ignored` rows were skipped by an IGNORE op (INSERT_IGNORE
    of an existing key). Every scan at or above `timestamp` sees the written rows."""

    applied: int
    ignored: int
    timestamp: Timestamp


def write_one_row(store: Store, table: Table, op: Op, row: Any, all_or_none: bool = False) -> Written:
    """Write one row of Python values; raises `RowsRefused` where it was refused."""
    cells = cells_of(table, op, row)
    with DeferInterrupts():
        result = store.write_row(table, op, cells)
    return written_row(table, cells, result, all_or_none)


def written_row(table: Table, cells: Cells, result: WriteResult, all_or_none: bool = False) -> Written:
    """The result of a write of one row; raises `RowsRefused` where it was refused."""
    if result.errors:
        refused = [RefusedRow(error.row, key_of_cells(table, cells), error.error) for error in result.errors]
        raise rows_refused(table.name, refused, 1, 0, all_or_none)
    return Written(result.applied, 1 - result.applied, result.timestamp)


def write_rows(
    store: Store, table: Table, op: Op, rows: Rows, all_or_none: bool = False, cancel: threading.Event | None = None
) -> Written:
    """Write rows in any form of `tables.given_rows`, but for one row of Python values: `write_one_row`.

    Raises `RowsRefused` where some were refused, after all others were written (with `all_or_none`: none);
    `Cancelled` once `cancel` is set, between two pieces of rows.
    """
    refused: list[RefusedRow] = []
    count = applied = 0
    timestamp = Timestamp(0)
    for size, errors, changed, at in _results(store, table, op, rows, all_or_none, cancel):
        refused += [replace(error, row=count + error.row) for error in errors]
        count, applied, timestamp = count + size, applied + changed, at
    if refused:
        raise rows_refused(table.name, refused, count, 0 if all_or_none else applied, all_or_none)
    return Written(applied, count - applied, timestamp)


def _results(
    store: Store, table: Table, op: Op, rows: Rows, all_or_none: bool, cancel: threading.Event | None
) -> Iterator[tuple[int, Sequence[RefusedRow], int, Timestamp]]:
    """(rows, those refused, how many changed the table, when) of each piece."""
    for piece in given_rows(table, op, rows, None if all_or_none else CHUNK_ROWS):
        if cancel is not None and cancel.is_set():
            raise Cancelled("the write was cancelled; the rows before stay written")
        with DeferInterrupts(cancel):
            result = store.write(table, write_batch(piece, op, all_or_none))
        yield piece.rows.num_rows, refused_rows(table, piece, result.errors), result.applied, result.timestamp


def write_batch(piece: GivenRows, ops: Op | Array, all_or_none: bool = False) -> WriteBatch:
    """The batch of some rows."""
    return WriteBatch(piece.rows, ops, all_or_none, piece.isset)


def refused_rows(table: Table, piece: GivenRows, errors: Sequence[RowError]) -> list[RefusedRow]:
    """The errors of a batch with the keys of their rows."""
    if not errors:
        return []
    names = [column.name for column in table.schema.key if column.name in piece.rows.schema.names]
    keys = piece.rows.select(names).take([error.row for error in errors]).to_pylist()
    return [RefusedRow(error.row, key, error.error) for error, key in zip(errors, keys)]


def key_of_cells(table: Table, cells: Cells) -> dict[str, Any]:
    """The primary key of a row, as far as it was given."""
    return {column.name: cells[column.name] for column in table.schema.key if column.name in cells}


def rows_refused(table: str, refused: Sequence[RefusedRow], count: int, applied: int, all_or_none: bool) -> RowsRefused:
    """The error for refused rows; each of them is in `RowsRefused.refused`."""
    shown = [str(row) for row in refused[:SHOWN_ROWS]]
    shown += [f"... and {len(refused) - SHOWN_ROWS} more"] * (len(refused) > SHOWN_ROWS)
    others = "none was written" if all_or_none else f"{applied} changed the table"
    lines = "".join(f"\n  {line}" for line in shown)
    return RowsRefused(
        f"{len(refused)} of {count} rows for table {table} were refused, {others}:{lines}", refused, applied
    )
