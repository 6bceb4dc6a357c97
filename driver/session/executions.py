"""Statements that run: what a cursor pulls rows from, and what stops them.

    Halt ───► event of each statement that one cursor's text holds ───► executor: `Cancelled` at its next batch
    Execution        any statement: Arrow batches, made while they are pulled
    RowExecution     a statement about one row, done when it is made

Rows of Python values are made of a few thousand Arrow rows at a time: making them holds the interpreter lock, and
others, an event loop above all, wait for no more than that.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import pyarrow as pa

from ...errors import Cancelled, StatementTooComplex
from ...executor import StatementResult
from ...executor.statements.single_rows import RowWrite, SingleRow
from ...model.arrow_arrays import arrow_array
from ...model.forks import stay_with_process
from ...model.store import Store, Timestamp, Transaction
from ...model.types import Interval
from ...model.waiting_time import current_waiting, within
from ...planner import Plan
from ...sql import bound
from ...sql.deep_stack import on_deep_stack
from .settings import SettingStatement
from .statement_records import Failure, StatementRecord

if TYPE_CHECKING:
    from ...executor import ExecutionContext
    from ...sql.expressions import Column
    from .engines import Engine

T = TypeVar("T")
Control: TypeAlias = SettingStatement | bound.TransactionStatement | bound.SessionStatement | bound.SetRole
"""Statements about the session itself."""
ROWS_AT_ONCE = 1 << 12
"""Rows that become Python values in one go: some milliseconds."""


class Halt:
    """Stops what runs under it, now and from now on: one cursor's text, from its parsing to its last row."""

    __slots__ = ("_events", "_set", "text")

    def __init__(self) -> None:
        self._set = False
        self.text = ""
        """The text that runs under it."""
        self._events: list[threading.Event] = []

    def adopt(self, event: threading.Event) -> None:
        """From now on `set` sets this event, too."""
        self._events.append(event)

    def is_set(self) -> bool:
        """True if `set` has been called."""
        return self._set

    def set(self) -> None:
        """Stop. From any thread."""
        self._set = True
        for event in list(self._events):
            event.set()


class Execution:
    """A statement that runs: its result's columns, and its rows as they are made.

    Parameters
    ----------
    control : callable
        Runs a statement that is about the session itself: a setting, a transaction.
    cancel : threading.Event
        Stops the statement. The execution itself sets it when it fails or is closed.
    forget : callable
        Called with the execution when it has ended; more than once if it is closed again.

    Attributes
    ----------
    columns : tuple of Column, or None
        None where the statement has no result set.
    rowcount : int
        Rows changed; for a query -1 until its last batch is out, then how many rows it had.
    """

    def __init__(
        self,
        control: Callable[[Control], StatementResult],
        cancel: threading.Event,
        forget: Callable[[Execution], None],
    ):
        self._control = control
        self._cancel = cancel
        self._forget = forget
        self._batches: Iterator[pa.RecordBatch] = iter(())
        self._first: pa.RecordBatch | None = None
        self._part: pa.RecordBatch | None = None
        self.columns: tuple[Column, ...] | None = None
        self.rowcount = -1
        self.record: StatementRecord | None = None
        """The record that `statement_records` shows while it runs."""
        self.failure: Failure | None = None
        """The error that has ended it early; its text, as a traceback would refer to this execution."""
        self._seen = 0
        self._is_deep = False
        self._waiting = current_waiting()
        stay_with_process(self)

    def start(
        self, statement: bound.Statement, plan: Plan | None, context: ExecutionContext, engine: Engine | None = None
    ) -> None:
        """Begin the statement; one without a result set is complete when this returns. An `engine` runs its query.

        The first batch of a query is made now: errors of the statement are raised by `execute`, and the snapshot of its
        tables is pinned at once.
        """
        if plan is not None and plan.deep:
            self._is_deep = context.is_deep = True
            context.threads = 1  # this one, whose stack is deep
        with self._interruptible():
            self._with_room(lambda: self._begin(statement, plan, context, engine))
            if self.columns is None:
                self.close()

    def _begin(
        self, statement: bound.Statement, plan: Plan | None, context: ExecutionContext, engine: Engine | None
    ) -> None:
        if isinstance(statement, Control):
            result = self._control(statement)
        elif engine is not None:
            from . import external_engine

            result = external_engine.run(engine, statement, plan, context)
        else:
            from ...executor.statements.statements import run as run_statement  # rows by their keys need no operators

            result = run_statement(statement, context, plan)
        self.columns = result.columns
        self._batches = iter(result.batches)
        self.rowcount = result.rowcount
        if self.columns is not None:
            self._first = next(self._batches, None)

    def _with_room(self, work: Callable[[], T]) -> T:
        return on_deep_stack(work, self._cancel.set) if self._is_deep else work()

    def next_batch(self) -> pa.RecordBatch | None:
        """The next rows, None at the end."""
        if self._part is not None:
            part, self._part = self._part, None
            return part
        batch, self._first = self._first, None
        if batch is None:
            with self._interruptible():
                try:
                    with within(self._waiting):
                        batch = self._with_room(lambda: next(self._batches, None))
                except RecursionError:
                    raise StatementTooComplex("the statement is nested too deeply for the rest of the stack") from None
        if batch is None:
            if self.columns is not None:
                self.rowcount = self._seen
            self.close()
        else:
            self._seen += batch.num_rows
        return batch

    def next_rows(self) -> tuple[list[tuple[Any, ...]], pa.RecordBatch | None] | None:
        """The next rows that there are, as tuples, and as Arrow if they are made of that; None at the end. There are at
        most `ROWS_AT_ONCE`."""
        while (batch := self.next_batch()) is not None:
            if batch.num_rows > ROWS_AT_ONCE:
                batch, self._part = batch.slice(0, ROWS_AT_ONCE), batch.slice(ROWS_AT_ONCE)
            if batch.num_rows:
                return list(zip(*(python_values(column) for column in batch.columns))), batch
        return None

    def drain(self) -> None:
        """Run to the end, discarding the rows."""
        while self.next_batch() is not None:
            pass

    @property
    def rows_so_far(self) -> int:
        """Number of rows that were returned or changed."""
        return max(self._seen, self.rowcount, 0)

    def note_started(self) -> None:
        """Its first rows are made: errors from now on leave by its rows."""
        if self.record is not None:
            self.record.is_started = True

    def cancel(self) -> None:
        """Request the statement to stop; its reader gets `Cancelled`. May be called from any thread."""
        self._cancel.set()

    def close(self) -> None:
        """Stop and forget the rest of the rows."""
        batches, self._batches, self._first, self._part = self._batches, iter(()), None, None
        close = getattr(batches, "close", None)
        if close is not None:
            self._cancel.set()
            # Another thread may be inside it just now: the cancel event ends it there.
            with contextlib.suppress(ValueError):
                self._with_room(close)
        self._forget(self)

    @contextlib.contextmanager
    def _interruptible(self) -> Iterator[None]:
        """End the statement's threads after any error, including an interrupt by the user."""
        try:
            yield
        except BaseException as error:
            self.failure = Failure.of(error)
            self._cancel.set()
            self.close()
            self.columns = None
            raise


def raise_if(cancel: Halt | threading.Event | None) -> None:
    """Raise `Cancelled` where the event is set."""
    if cancel is not None and cancel.is_set():
        raise Cancelled("the statement was cancelled")


class EndedExecution(Execution):
    """A statement that is complete when its execution is created: without a result set, unless a subclass has one."""

    record = None
    _seen = 0

    def __init__(self) -> None:
        self.columns = None
        self.rowcount = -1

    def next_rows(self) -> tuple[list[tuple[Any, ...]], pa.RecordBatch | None] | None:
        return None

    def next_batch(self) -> pa.RecordBatch | None:
        rows = self.next_rows()
        return None if rows is None else arrow_rows(rows[0], self.columns or ())

    def cancel(self) -> None:
        """Nothing: it has ended."""

    def close(self) -> None:
        """Nothing: it has ended."""


class RowExecution(EndedExecution):
    """A statement on one row that has been executed; Arrow data is made only on request.

    Parameters
    ----------
    single : SingleRow
    row : tuple, optional
        Of a read; None: there is no such row.
    rowcount : int
        Of a write: changed rows.
    """

    def __init__(self, single: SingleRow, row: tuple[Any, ...] | None = None, rowcount: int = -1):
        self.columns = None if isinstance(single, RowWrite) else single.columns
        self.rowcount = rowcount
        self._row = row
        self._seen = 0

    @classmethod
    def run(
        cls,
        store: Store,
        single: SingleRow,
        cells: Sequence[Any],
        snapshot: Timestamp | None,
        transaction: Transaction | None,
    ) -> RowExecution:
        """Executes the statement. A read returns the row of `snapshot`; None: its latest state. `transaction` is the
        open one, if any."""
        if isinstance(single, RowWrite):
            return cls(single, rowcount=single.run(store, cells))
        return cls(single, single.run(store, cells, snapshot, transaction))

    @property
    def rows_so_far(self) -> int:
        return max(self._seen, self.rowcount, int(self._row is not None))

    def next_rows(self) -> tuple[list[tuple[Any, ...]], pa.RecordBatch | None] | None:
        row, self._row = self._row, None
        if row is not None:
            self._seen = 1
            return [row], None
        if self.columns is not None:
            self.rowcount = self._seen
        return None

    def close(self) -> None:
        self._row = None


def arrow_rows(rows: Sequence[tuple[Any, ...]], columns: Sequence[Column]) -> pa.RecordBatch:
    """Rows of Python values as Arrow."""
    arrays = [arrow_array(values, column.type.arrow) for values, column in zip(zip(*rows), columns)]
    return pa.RecordBatch.from_arrays(arrays, names=[column.name for column in columns])


def python_values(column: pa.Array) -> list[Any]:
    """A column's values as PEP 249 users expect them: Arrow's own, but an INTERVAL as a timedelta."""
    values: list[Any] = column.to_pylist()
    if column.type == pa.month_day_nano_interval():
        return [None if v is None else Interval(v[0], v[1], v[2] // 1000).to_timedelta() for v in values]
    return values
