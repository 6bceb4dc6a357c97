"""Sessions that gather rows of any tables and write them in batches (Kudu: `KuduSession`).

    insert, upsert, ... ─► active buffer ─ swap ─► buffer that is being written ─ Store.write ─► errors, row by row

| flush mode | the rows are written |
|---|---|
| AUTO_FLUSH_SYNC | before the call returns, which raises what was refused |
| AUTO_FLUSH_BACKGROUND | by a thread, when half the buffer is full or its oldest row is `flush_interval` old |
| MANUAL_FLUSH | by `flush`; rows that the buffer has no room for are refused |

In the background, callers wait while one buffer is being written and the other is full. Only one buffer is written at a
time, so the ops of one key take effect in the order in which they were applied (Kudu's do not always). A value that its
column does not take is refused at once; what the table refuses is known when it is written, and waits in the session as
a `PendingError`.

A row is durable when the flush that wrote it has returned; until then, the end of the process loses it.
"""

from __future__ import annotations

import contextlib
import threading
import time
import weakref
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import field
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
import pyarrow as pa

from ...errors import (
    Error,
    IntegrityError,
    InterfaceError,
    OperationalError,
    RefusedRow,
    RowsRefused,
    WriteBufferFull,
    did_you_mean,
)
from ...executor.run.interrupts import DeferInterrupts
from ...model.access.holders import RIGHTS_OF_OPS
from ...model.forks import stay_with_process
from ...model.lazy_dataclass import dataclass
from ...model.schema import Table
from ...model.store import Op, WriteBatch
from ...model.vectors.vector import Array
from ..session.identity import require
from .given_rows import CHUNK_ROWS, Cells, GivenRows, Rows, cells_of, from_arrow, rows_from_cells, runs
from .row_writes import SHOWN_ROWS, write_batch
from .table_handle import TableHandle

if TYPE_CHECKING:
    from ..open_connection import OpenConnection

FLUSH_MODES: Final = ("AUTO_FLUSH_SYNC", "AUTO_FLUSH_BACKGROUND", "MANUAL_FLUSH")
BUFFER_BYTES: Final = 7 << 20
"""Kudu's."""
FLUSH_INTERVAL: Final = 1.0
_LOOK_SECONDS = 1.0
"""An idle thread of a session notices after so long that the session is garbage."""
_ROW_BYTES, _CELL_BYTES = 32, 8


@dataclass(frozen=True, slots=True, eq=False)
class PendingError:
    """A row that a session could not write: the operation and its error.

    `possibly_written`: the write failed as a whole, perhaps after the row was written.
    """

    table: str
    op: Op
    row: Cells
    error: Exception
    possibly_written: bool = False


class PendingErrors(NamedTuple):
    """Errors since the last call, oldest first; `overflowed`: there were more than were kept."""

    errors: tuple[PendingError, ...]
    overflowed: bool


class WriteSession:
    """Buffers rows and writes them by its flush mode. Made by `Connection.new_session`.

    May be used by several threads; the order in which they apply rows is the order of the rows. A context manager:
    leaving it closes it, which flushes.
    """

    def __init__(
        self,
        connection: OpenConnection,
        flush_mode: str = "AUTO_FLUSH_SYNC",
        buffer_bytes: int = BUFFER_BYTES,
        flush_interval: float = FLUSH_INTERVAL,
        max_errors: int = 1000,
    ):
        if flush_mode not in FLUSH_MODES:
            raise InterfaceError(f"there is no flush mode {flush_mode}{did_you_mean(str(flush_mode), FLUSH_MODES)}")
        for name, value in {"buffer_bytes": buffer_bytes, "max_errors": max_errors}.items():
            if not isinstance(value, int) or isinstance(value, bool) or value < 1:
                raise InterfaceError(f"{name}={value!r}: a whole number of at least 1 is needed")
        if not flush_interval > 0:
            raise InterfaceError(f"flush_interval={flush_interval!r}: a number of seconds above 0 is needed")
        connection.session.refuse_writes("a session")
        self.flush_mode = flush_mode
        self._connection = connection
        self._buffer_bytes = buffer_bytes
        self._interval = flush_interval
        self._errors = _ErrorCollector(max_errors)
        self._changed = threading.Condition()
        """Guards the fields below, and signals their changes."""
        self._active = _Buffer()
        self._is_writing = False
        self._applied = 0
        """Rows that were taken so far."""
        self._written = 0
        """Number of the first rows that have been written, or have become errors."""
        self._wanted = 0
        """Number of the first rows that are to be written now."""
        self._closed = False
        self._thread: threading.Thread | None = None
        stay_with_process(self)

    # ---- rows ----------------------------------------------------------------------------------------------------

    def insert(self, table: TableHandle | str, rows: Rows) -> None:
        """Insert rows; rows with existing keys are refused."""
        self.apply(Op.INSERT, table, rows)

    def insert_ignore(self, table: TableHandle | str, rows: Rows) -> None:
        """Insert rows, ignoring those with existing keys."""
        self.apply(Op.INSERT_IGNORE, table, rows)

    def upsert(self, table: TableHandle | str, rows: Rows) -> None:
        """Insert rows, or update rows with existing keys."""
        self.apply(Op.UPSERT, table, rows)

    def update(self, table: TableHandle | str, rows: Rows) -> None:
        """Change rows; one whose key is not there is refused."""
        self.apply(Op.UPDATE, table, rows)

    def update_ignore(self, table: TableHandle | str, rows: Rows) -> None:
        """Update rows, ignoring those that do not exist."""
        self.apply(Op.UPDATE_IGNORE, table, rows)

    def delete(self, table: TableHandle | str, rows: Rows) -> None:
        """Delete rows by their keys; one that is not there is refused."""
        self.apply(Op.DELETE, table, rows)

    def delete_ignore(self, table: TableHandle | str, rows: Rows) -> None:
        """Delete rows, ignoring those that do not exist."""
        self.apply(Op.DELETE_IGNORE, table, rows)

    def apply(self, op: Op, table: TableHandle | str, rows: Rows) -> None:
        """Take rows in any form that `TableHandle.insert` takes.

        Raises
        ------
        WriteBufferFull
            MANUAL_FLUSH: the buffer has no room for the rows; none of them was taken. AUTO_FLUSH_BACKGROUND: one row
            alone is larger than the buffer.
        RowsRefused
            AUTO_FLUSH_SYNC: some rows were refused.
        UnknownTable, UnknownColumn, InvalidText, NumericOutOfRange, DataError, InterfaceError
            Something is no row of the table.
        """
        handle = table
        if isinstance(handle, str):
            handle = TableHandle(self._connection, self._connection.session.find_table(handle))
        if self._closed:
            raise InterfaceError("the session is closed")
        if self.flush_mode == "AUTO_FLUSH_SYNC":
            handle.write(op, rows)
        elif self.flush_mode == "MANUAL_FLUSH":
            entries = list(_entries(handle.definition, op, rows, self._buffer_bytes))
            with self._changed:
                self._check_open()
                needed = sum(entry.bytes for entry in entries)
                if self._active.bytes + needed > self._buffer_bytes:
                    self._refuse(needed, self._active.bytes)
                self._take(entries)
        else:
            self._apply_in_background(_entries(handle.definition, op, rows, self._buffer_bytes // 4))

    def _apply_in_background(self, entries: Iterator[_Entry]) -> None:
        for entry in entries:
            if entry.bytes > self._buffer_bytes:
                self._refuse(entry.bytes, 0)
            with self._changed:
                self._check_open()
                while self._active.rows and self._active.bytes + entry.bytes > self._buffer_bytes:
                    self._wanted = self._applied
                    self._changed.notify_all()
                    self._changed.wait()
                    self._check_open()
                self._take([entry])
                self._start_thread()

    def _take(self, entries: Sequence[_Entry]) -> None:
        is_first = not self._active.rows
        for entry in entries:
            self._active.add(entry)
            self._applied += entry.count
        if is_first or self._active.bytes >= self._buffer_bytes // 2:
            self._changed.notify_all()

    def _refuse(self, needed: int, used: int) -> None:
        raise WriteBufferFull(
            f"not enough mutation buffer space remaining for operation: required additional {needed} when {used} of "
            f"{self._buffer_bytes} already used"
        )

    # ---- flushing ------------------------------------------------------------------------------------------------

    @property
    def has_pending(self) -> bool:
        """True if there are rows that have not been written yet."""
        with self._changed:
            return self._written < self._applied

    def flush(self) -> None:
        """Write all rows that were applied before the call, and wait until they are durable.

        Raises `RowsRefused` while there are pending errors, or the error itself if rows failed for another reason than
        a rule of their table (`DiskError`, `UnknownTable`); `pending_errors` returns them one by one.
        """
        self._check_open()
        self._drain()
        self._raise_pending()

    def pending_errors(self) -> PendingErrors:
        """The errors that were gathered since the last call, and forgets them."""
        with self._changed:
            return self._errors.take()

    def close(self) -> None:
        """Flush, and take no more rows; raises as `flush` does. May be repeated."""
        if self._end():
            self._raise_pending()

    def __enter__(self) -> WriteSession:
        self._check_open()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if error is None:
            self.close()
        elif self._end() and self._errors.count:
            error.add_note(f"{_rows(self._errors.count)} not written: see pending_errors()")

    def _check_open(self) -> None:
        if self._closed:
            raise InterfaceError("the session is closed")

    def _end(self) -> bool:
        """Flush and close; False where that has been done before."""
        with self._changed:
            if self._closed:
                return False
            self._closed = True
            self._changed.notify_all()
        self._drain()
        return True

    def _drain(self) -> None:
        """Wait until all that has been applied is written, by the thread or by this one."""
        with self._changed:
            target = self._applied
            self._wanted = max(self._wanted, target)
            self._changed.notify_all()
            if self._thread is not None:
                self._changed.wait_for(lambda: self._written >= target)
                return
        # An interrupt must not come between the swap of the buffers and the write.
        with DeferInterrupts():
            while self._written < target:
                self._write_active()

    def _write_active(self) -> None:
        """Swap the buffers and write the buffered rows; one caller at a time."""
        # In a transaction the turn comes first: its COMMIT has it, and waits for the buffer that is being written.
        with self._turn():
            self._write_swapped()

    def _turn(self) -> AbstractContextManager[object]:
        """The context manager for writing a buffer, which is one statement of a transaction."""
        with contextlib.suppress(Error):  # otherwise it is the error of each row
            session = self._connection.session
            if session.is_transactional:
                return session.transactions.turn(None)
        return contextlib.nullcontext()

    def _write_swapped(self) -> None:
        with self._changed:
            self._changed.wait_for(lambda: not self._is_writing)
            buffer, self._active = self._active, _Buffer()
            self._is_writing = True
            self._changed.notify_all()
        errors: list[PendingError] = []
        try:
            if self._write(buffer, errors):
                with contextlib.suppress(Error):  # the rows are written, whatever becomes of the connection
                    self._connection.session.note_write()
        finally:
            with self._changed:
                for error in errors:
                    self._errors.add(error)
                self._written += buffer.rows
                self._is_writing = False
                self._changed.notify_all()

    def _write(self, buffer: _Buffer, errors: list[PendingError]) -> int:
        """Write a buffer, table by table; how many rows changed something. Adds to `errors` what went wrong."""
        applied = 0
        for part in buffer.tables.values():
            for run in part.runs:
                try:
                    for op in run.kinds():
                        require(self._connection.session, part.table, *RIGHTS_OF_OPS[op])
                    result = self._connection.store.write(part.table, run.batch(part.table))
                except Exception as error:  # whatever it is, the rows' owner must learn of it
                    unknown = isinstance(error, OperationalError)
                    errors += [
                        PendingError(part.table.name, *run.op_and_row(row), error, unknown) for row in range(len(run))
                    ]
                    continue
                applied += result.applied
                errors += [PendingError(part.table.name, *run.op_and_row(e.row), e.error) for e in result.errors]
        return applied

    def flush_here(self) -> None:
        """Write all rows in this thread, which may have the turn that the session's own thread waits for."""
        with self._changed:
            target = self._applied
        with DeferInterrupts():
            while self._written < target:
                self._write_active()

    def raise_pending(self) -> None:
        """Raise as `flush` does while there are pending errors."""
        self._raise_pending()

    def _raise_pending(self) -> None:
        with self._changed:
            errors, count = list(self._errors.kept), self._errors.count
        if not errors:
            return
        for pending in errors:
            if not isinstance(pending.error, IntegrityError):
                pending.error.add_note(f"{_rows(count)} not written: see pending_errors()")
                raise pending.error
        shown = "".join(f"\n  {e.op.name} {e.table} {e.row}: {e.error}" for e in errors[:SHOWN_ROWS])
        more = f"\n  ... and {count - SHOWN_ROWS} more" if count > SHOWN_ROWS else ""
        refused = [RefusedRow(n, e.row, e.error) for n, e in enumerate(errors) if isinstance(e.error, IntegrityError)]
        raise RowsRefused(f"{_rows(count)} refused, see pending_errors():{shown}{more}", refused)

    # ---- the thread ----------------------------------------------------------------------------------------------

    def _start_thread(self) -> None:
        if self._thread is None:
            work = (weakref.ref(self), self._changed)
            self._thread = threading.Thread(target=_write_often, args=work, name="nyala-session", daemon=True)
            self._thread.start()

    def _is_over(self) -> bool:
        return self._closed and not self._active.rows

    def _seconds_left(self) -> float:
        """Until the oldest row is to be written."""
        return max(0.0, self._interval - (time.monotonic() - self._active.since))

    def _is_due(self) -> bool:
        active = self._active
        if not active.rows:
            return False
        is_full = active.bytes >= self._buffer_bytes // 2
        is_old = time.monotonic() - active.since >= self._interval
        return self._closed or self._wanted > self._written or is_full or is_old


def _write_often(found: weakref.ref[WriteSession], changed: threading.Condition) -> None:
    """Write a session's rows whenever it is due, until it is closed and all is written.

    A session that has nothing to write is not kept alive: nor are its connection and its store, then.
    """
    while (session := found()) is not None:
        with changed:
            if session._is_over():
                return
            if not session._is_due():
                if session._active.rows:
                    changed.wait(session._seconds_left())
                else:
                    del session
                    changed.wait(_LOOK_SECONDS)
                continue
        session._write_active()
        del session


# ---- buffers ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class _Entry:
    """One row of Python values, or several in Arrow, and about how much memory they take."""

    table: Table
    op: Op
    rows: Cells | GivenRows
    count: int
    bytes: int


def _entries(table: Table, op: Op, source: Rows, most_bytes: int) -> Iterator[_Entry]:
    """The rows of a source; those in Arrow in pieces of about `most_bytes`."""
    for run in runs(source):
        if isinstance(run, pa.Table):
            rows = from_arrow(table, op, run).rows
            size = rows.nbytes + _ROW_BYTES * rows.num_rows
            step = min(CHUNK_ROWS, max(1, rows.num_rows * most_bytes // max(size, 1)))
            for start in range(0, rows.num_rows, step):
                piece = rows.slice(start, step)
                yield _Entry(table, op, GivenRows(piece), piece.num_rows, piece.nbytes + _ROW_BYTES * piece.num_rows)
            continue
        for row in run:
            cells = cells_of(table, op, row)
            yield _Entry(table, op, cells, 1, _size(cells))


def _size(cells: Cells) -> int:
    texts = sum(len(value) for value in cells.values() if isinstance(value, str | bytes))
    return _ROW_BYTES + _CELL_BYTES * len(cells) + texts


@dataclass(slots=True, eq=False)
class _RowRun:
    """Rows of Python values, each with its op."""

    ops: list[Op] = field(default_factory=list)
    rows: list[Cells] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.rows)

    def kinds(self) -> set[Op]:
        return set(self.ops)

    def batch(self, table: Table) -> WriteBatch:
        ops: Array = np.array(self.ops, np.uint8)
        return write_batch(rows_from_cells(table, self.rows), ops)

    def op_and_row(self, number: int) -> tuple[Op, Cells]:
        return self.ops[number], self.rows[number]


@dataclass(frozen=True, slots=True, eq=False)
class _ArrowRun:
    """Rows in Arrow of one op."""

    op: Op
    given: GivenRows

    def __len__(self) -> int:
        return int(self.given.rows.num_rows)

    def kinds(self) -> set[Op]:
        return {self.op}

    def batch(self, table: Table) -> WriteBatch:
        return write_batch(self.given, self.op)

    def op_and_row(self, number: int) -> tuple[Op, Cells]:
        row: dict[str, Any] = self.given.rows.slice(number, 1).to_pylist()[0]
        return self.op, row


@dataclass(slots=True, eq=False)
class _TableRows:
    """The rows of one table in the order in which they were applied."""

    table: Table
    runs: list[_RowRun | _ArrowRun] = field(default_factory=list)

    def add(self, entry: _Entry) -> None:
        if isinstance(entry.rows, GivenRows):
            self.runs.append(_ArrowRun(entry.op, entry.rows))
            return
        last = self.runs[-1] if self.runs else None
        if not isinstance(last, _RowRun) or len(last) >= CHUNK_ROWS:
            last = _RowRun()
            self.runs.append(last)
        last.ops.append(entry.op)
        last.rows.append(entry.rows)


class _Buffer:
    """Rows that wait to be written."""

    def __init__(self) -> None:
        self.tables: dict[tuple[str, int], _TableRows] = {}
        self.rows = 0
        self.bytes = 0
        self.since = 0.0

    def add(self, entry: _Entry) -> None:
        if not self.rows:
            self.since = time.monotonic()
        key = entry.table.id, entry.table.version
        self.tables.setdefault(key, _TableRows(entry.table)).add(entry)
        self.rows += entry.count
        self.bytes += entry.bytes


class _ErrorCollector:
    """The first `limit` errors, and how many there were."""

    def __init__(self, limit: int):
        self.limit = limit
        self.kept: list[PendingError] = []
        self.count = 0

    def add(self, error: PendingError) -> None:
        self.count += 1
        if len(self.kept) < self.limit:
            self.kept.append(error)

    def take(self) -> PendingErrors:
        errors = PendingErrors(tuple(self.kept), self.count > len(self.kept))
        self.kept, self.count = [], 0
        return errors


def _rows(count: int) -> str:
    return "1 row of the session was" if count == 1 else f"{count} rows of the session were"
