"""Results of queries: kept from GetFlightInfo until DoGet reads them, then streamed batch by batch.

    | state | event | next state |
    |---|---|---|
    | WAITING | DoGet | READING |
    | WAITING | it was not read for too long, was cancelled, or the session ends | CLOSED |
    | READING | the last batch, an error, the client has gone, or it does not read | CLOSED |

Batches are cut so that a message stays below the limit that ADBC's driver has by default, 16 MiB.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Generator, Iterator
from enum import Enum
from typing import Final

import pyarrow as pa

from ....driver.session.executions import Execution, Halt, raise_if
from ....errors import Cancelled, Error
from ....model.state_table import StateTable
from ...audited import AuditedStatement
from ..metadata.columns import schema_of
from .reports import Refused, sqlstate_of

_logger = logging.getLogger("nyala.doors.flight_sql")

MESSAGE_BYTES: Final = 6 << 20
"""Size that messages are cut to: as many rows as are surely smaller than the limit of clients, if rows are of about
the same size."""
NO_COLUMNS: Final = pa.schema([])


class State(Enum):
    """State of a result; the table is on the module's page."""

    WAITING = "waiting"
    READING = "reading"
    CLOSED = "closed"


_S = State
STATES = StateTable(
    _S.WAITING,
    {
        (_S.WAITING, "DoGet"): _S.READING,
        (_S.WAITING, "it was not read for too long, was cancelled, or the session ends"): _S.CLOSED,
        (_S.READING, "the last batch, an error, the client has gone, or it does not read"): _S.CLOSED,
    },
)


class Result:
    """The rows of a statement.

    Parameters
    ----------
    handle : bytes
        By which a ticket names it.
    run : iterator of Execution
        The executions whose rows follow each other, each begun when the one before has ended; several for a query
        with several rows of parameters. The first one is begun now. A generator is closed with the result.
    halt : Halt
        Stops them.
    forget : callable
        Called once, when it is closed.
    audited : AuditedStatement, optional
        Ends when the last row is out, at an error, or when the result is closed before that.
    ticket : bytes
        Of a part of a query, which several readers may read at the same time; empty for any other result.
    """

    def __init__(
        self,
        handle: bytes,
        run: Iterator[Execution],
        halt: Halt,
        forget: Callable[[Result], None],
        audited: AuditedStatement | None = None,
        ticket: bytes = b"",
    ):
        self.handle = handle
        self.ticket = ticket
        self.halt = halt
        self._run = run
        self._forget = forget
        self._audited = audited
        # Guards the state; held while a batch is made, since an execution has one reader.
        self._lock = threading.RLock()
        self._state = STATES.first
        self._execution: Execution | None = next(run)
        columns = self._execution.columns
        self.schema = NO_COLUMNS if columns is None else schema_of(columns)
        self.rowcount = self._execution.rowcount
        """Rows that the statement has changed; -1 for a query."""
        self._seen = -1 if columns is None else 0
        """Rows that were read, or changed by executions that have ended; -1 without any."""
        self.used = time.monotonic()
        self._parts: Iterator[pa.RecordBatch] = iter(())

    def _to(self, state: State) -> None:
        self._state = STATES.checked(self._state, state)

    def begin_reading(self) -> None:
        """DoGet. Raises `Refused` if the result has been read, or was closed."""
        with self._lock:
            if self._state is not State.WAITING:
                raise Refused("the result has been read already, or has ended", "24000")
            self._to(State.READING)
            self.used = time.monotonic()

    @property
    def is_waiting(self) -> bool:
        """True until DoGet."""
        return self._state is State.WAITING

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        return self

    def __next__(self) -> pa.RecordBatch:
        with self._lock:
            try:
                batch = self._next_part()
            except BaseException as error:
                self._end_audited(-1, sqlstate_of(error))
                raise
            if batch is None:
                self._end_audited(self._seen)
                raise StopIteration
            self._seen += batch.num_rows
            self.used = time.monotonic()
            return batch

    def _next_part(self) -> pa.RecordBatch | None:
        if self._state is State.CLOSED:
            raise Cancelled("the result was closed while it was read")
        raise_if(self.halt)  # also between the slices of one batch
        batch = next(self._parts, None)
        while batch is None:
            whole = self._next_batch()
            if whole is None:
                return None
            self._parts = parts_of(whole)
            batch = next(self._parts, None)
        return batch

    def end_changed(self) -> None:
        """Ends the line of the audit log if the statement has no rows: it is done, whether its result is read or not.

        Raises `DiskError` if the line cannot be written.
        """
        if self._execution is not None and self._execution.columns is None:
            self._end_audited(self.rowcount)

    def _end_audited(self, rows: int = -1, sqlstate: str = "") -> None:
        if self._audited is not None:
            self._audited.end(rows, sqlstate)

    def _next_batch(self) -> pa.RecordBatch | None:
        while self._execution is not None:
            batch = None if self._execution.columns is None else self._execution.next_batch()
            if batch is not None:
                return pa.RecordBatch.from_arrays(batch.columns, schema=self.schema) if self.schema else batch
            if self._execution.columns is None and self._execution.rowcount >= 0:
                self._seen = max(0, self._seen) + self._execution.rowcount
            self._execution.close()
            self._execution = next(self._run, None)
        return None

    def cancel(self) -> None:
        """Stops the statement; its reader gets `Cancelled`. From any thread."""
        self.halt.set()
        if self.is_waiting:
            self.close()

    def close(self) -> None:
        """Ends the statement. May be repeated, from any thread; waits for a batch that is being made."""
        self.halt.set()
        with self._lock:
            if self._state is State.CLOSED:
                return
            self._to(State.CLOSED)
            execution, self._execution = self._execution, None
            self._parts = iter(())
            try:
                if execution is not None:
                    execution.close()
            finally:
                if isinstance(self._run, Generator):
                    self._run.close()
                self._forget(self)
                self._end_early()

    def _end_early(self) -> None:
        """The line of a statement whose rows were not read to their end. The reader has gone: an error is logged."""
        try:
            self._end_audited(self._seen, Cancelled.sqlstate)
        except Error as error:
            _logger.error("a statement that was abandoned is missing in the audit log: %s", error)


def parts_of(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Slices of a batch, each of about `MESSAGE_BYTES` at most; none of a batch without rows."""
    pieces = -(-batch.nbytes // MESSAGE_BYTES)
    rows = -(-batch.num_rows // max(1, min(pieces, batch.num_rows)))
    for start in range(0, batch.num_rows, max(1, rows)):
        yield batch.slice(start, rows)
