"""One connection's way through the rooms below: text in, running statements out.

    text ─ parse ─► ParsedStatement ─ bind ─► Statement ─ plan_query ─► Plan ─ run ─► Execution

A session holds no transaction, so several threads may use one; each statement they start is an `Execution` of its own,
under the settings that hold when it starts.
"""

from __future__ import annotations

import contextlib
import threading
import weakref
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from ..errors import InterfaceError, ProgrammingError
from ..executor import ExecutionContext, LocalFiles
from ..executor import run as run_statement
from ..planner import Plan, PlannerOptions, plan_query
from ..sql import ParsedStatement, bind, bound, parse
from ..storage.store import Store
from .parameters import Normalized
from .settings import Settings, SettingStatement

if TYPE_CHECKING:
    from ..sql.expressions import Column


class Execution:
    """A statement that runs: its result's columns, and its rows as they are made.

    Attributes
    ----------
    columns : tuple of Column, or None
        None where the statement has no result set.
    rowcount : int
        Rows changed; for a query -1 until its last batch is out, then how many rows it had.
    """

    def __init__(self, session: Session, cancel: threading.Event):
        self._session = session
        self._cancel = cancel
        self._batches: Iterator[pa.RecordBatch] = iter(())
        self._first: pa.RecordBatch | None = None
        self.columns: tuple[Column, ...] | None = None
        self.rowcount = -1
        self._seen = 0

    def start(self, statement: bound.Statement, plan: Plan | None, context: ExecutionContext) -> None:
        """Begin; a statement without a result set has done its work when this returns.

        The first batch of a query is made now: whoever executes a wrong statement learns it here, and the rows of its
        tables are pinned before anybody waits.
        """
        with self._interruptible():
            is_setting = isinstance(statement, SettingStatement)
            result = self._session.settings.run(statement) if is_setting else run_statement(statement, context, plan)
            self.columns = result.columns
            self._batches = iter(result.batches)
            self.rowcount = result.rowcount
            if self.columns is None:
                self.close()
            else:
                self._first = next(self._batches, None)

    def next_batch(self) -> pa.RecordBatch | None:
        """The next rows, None at the end."""
        batch, self._first = self._first, None
        if batch is None:
            with self._interruptible():
                batch = next(self._batches, None)
        if batch is None:
            if self.columns is not None:
                self.rowcount = self._seen
            self.close()
        else:
            self._seen += batch.num_rows
        return batch

    def drain(self) -> None:
        """Run to the end, for a statement whose rows nobody wants."""
        while self.next_batch() is not None:
            pass

    def cancel(self) -> None:
        """Ask the statement to stop; whoever pulls it gets `Cancelled`. May be called from any thread."""
        self._cancel.set()

    def close(self) -> None:
        """Stop and forget the rest of the rows."""
        batches, self._batches, self._first = self._batches, iter(()), None
        close = getattr(batches, "close", None)
        if close is not None:
            self._cancel.set()
            # Another thread may be inside it just now: the cancel event ends it there.
            with contextlib.suppress(ValueError):
                close()
        self._session.forget(self)

    @contextlib.contextmanager
    def _interruptible(self) -> Iterator[None]:
        """Whatever goes wrong, an interrupt by the user included, ends the statement's threads with it."""
        try:
            yield
        except BaseException:
            self._cancel.set()
            self.close()
            self.columns = None
            raise


class Session:
    """Runs statements on a store.

    Parameters
    ----------
    store : Store
    threads : int, optional
        How many threads a statement may use; None: one per processor.
    memory_limit : int, optional
        Bytes that one statement's state may take.
    store_options : mapping, optional
        With what the store was opened, for SHOW.
    """

    def __init__(
        self,
        store: Store,
        threads: int | None = None,
        memory_limit: int | None = None,
        store_options: Mapping[str, Any] | None = None,
    ):
        self.store = store
        self.settings = Settings({"threads": threads, "memory_limit": memory_limit, **(store_options or {})})
        self._lock = threading.Lock()
        # Weak, so that a cursor that is dropped half-read takes its statement with it.
        self._running: weakref.WeakSet[Execution] = weakref.WeakSet()

    def run(self, text: str, parameters: Normalized | None = None) -> Execution:
        """Run every statement of `text` in order; the last one's execution.

        Raises `ProgrammingError` where there is no statement, `InterfaceError` for parameters with several.
        """
        parsed = self.parse(text)
        if parameters and len(parsed) > 1:
            raise InterfaceError(
                f"parameters belong to one statement, and the text holds {len(parsed)}; execute them one by one"
            )
        for statement in parsed[:-1]:
            self.execute(statement).drain()
        return self.execute(parsed[-1], parameters)

    def parse(self, text: str) -> list[ParsedStatement]:
        """The statements of a text, at least one."""
        parsed = parse(text)
        if not parsed:
            raise ProgrammingError("there is no statement to execute")
        return list(parsed)

    def bind(self, parsed: ParsedStatement, parameters: Normalized | None = None) -> bound.Statement:
        """Resolve a parsed statement against the catalog as it is now."""
        return bind(parsed, self.store, parameters, LocalFiles())

    def execute(self, parsed: ParsedStatement, parameters: Normalized | None = None) -> Execution:
        """Bind, plan and start one statement."""
        return self.start(self.bind(parsed, parameters))

    def start(self, statement: bound.Statement) -> Execution:
        """Plan and start a bound statement."""
        cancel = threading.Event()
        execution = Execution(self, cancel)
        # One moment for all tables of the statement.
        context = ExecutionContext(self.store, cancel=cancel, snapshot=self.store.now(), **self._options())
        with self._lock:
            self._running.add(execution)
        try:
            execution.start(statement, self._plan(statement), context)
        except BaseException:
            self.forget(execution)
            raise
        return execution

    def _plan(self, statement: bound.Statement) -> Plan | None:
        options = PlannerOptions()
        if isinstance(statement, bound.Explain):
            options = PlannerOptions(trace=statement.verbose)
            statement = statement.statement
        if isinstance(statement, bound.WITH_QUERY):
            return plan_query(statement.query, self.store, options)
        return None

    def _options(self) -> dict[str, Any]:
        """What the settings say about a statement that starts now."""
        found = {name: self.settings.get(name) for name in ("threads", "memory_limit")}
        return {name: value for name, value in found.items() if value is not None}

    def forget(self, execution: Execution) -> None:
        """An execution has ended."""
        with self._lock:
            self._running.discard(execution)

    def cancel(self) -> None:
        """Cancel everything that runs now."""
        with self._lock:
            running = list(self._running)
        for execution in running:
            execution.cancel()

    def close(self) -> None:
        """Cancel and end everything."""
        with self._lock:
            running = list(self._running)
        for execution in running:
            execution.close()
