"""One connection's way through the rooms below: text in, running statements out.

    text ─ parse ─► ParsedStatement ─ bind ─► Statement ─ plan_query ─► Plan ─ run ─► Execution
      └── plan_cache, where the text is known ──────────────────────────────┘

A session holds no transaction, so several threads may use one; each statement they start is an `Execution` of its own,
under the settings that hold when it starts.
"""

from __future__ import annotations

import contextlib
import threading
import weakref
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from ..errors import InterfaceError, NotSupportedError, ProgrammingError
from ..executor import ExecutionContext, LocalFiles
from ..executor import run as run_statement
from ..executor.statements.single_rows import RowWrite, SingleRow
from ..planner import Plan, PlannerOptions, plan_query
from ..sql import ParsedStatement, bind, bound, parse
from ..sql.binding.binder import bind_given
from ..sql.parameters import match_parameters
from ..storage.store import Store
from ..storage.types import Interval
from .parameters import Normalized
from .plan_cache import KEPT, PlanCache, Prepared, prepare
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
            if isinstance(statement, SettingStatement):
                result = self._session.settings.run(statement)
            else:
                result = run_statement(statement, context, plan)
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

    def next_rows(self) -> tuple[list[tuple[Any, ...]], pa.RecordBatch | None] | None:
        """The next rows that there are, as tuples, and as Arrow if they are made of that; None at the end."""
        while (batch := self.next_batch()) is not None:
            if batch.num_rows:
                return list(zip(*(python_values(column) for column in batch.columns))), batch
        return None

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
            with _not_too_deep():
                yield
        except BaseException:
            self._cancel.set()
            self.close()
            self.columns = None
            raise


TOO_DEEP = "the statement is nested too deeply"


@contextlib.contextmanager
def _not_too_deep() -> Iterator[None]:
    """Trees are walked by recursion: one that is deeper than Python's stack is refused, wherever that shows."""
    try:
        yield
    except RecursionError:
        raise NotSupportedError(TOO_DEEP) from None


class RowExecution(Execution):
    """A statement about one row: it has done its work when it is made, and Arrow is made only if somebody asks."""

    def __init__(self, session: Session, single: SingleRow, cells: Sequence[Any]):
        self.columns = None
        self.rowcount = -1
        self._row: tuple[Any, ...] | None = None
        self._seen = 0
        if isinstance(single, RowWrite):
            self.rowcount = single.run(session.store, cells)
        else:
            self._row = single.run(session.store, cells)
            self.columns = single.columns

    def next_rows(self) -> tuple[list[tuple[Any, ...]], pa.RecordBatch | None] | None:
        row, self._row = self._row, None
        if row is not None:
            self._seen = 1
            return [row], None
        if self.columns is not None:
            self.rowcount = self._seen
        return None

    def next_batch(self) -> pa.RecordBatch | None:
        found = self.next_rows()
        return None if found is None else arrow_rows(found[0], self.columns or ())

    def cancel(self) -> None:
        """Nothing: it has ended."""

    def close(self) -> None:
        self._row = None


def arrow_rows(rows: Sequence[tuple[Any, ...]], columns: Sequence[Column]) -> pa.RecordBatch:
    """Rows of Python values as Arrow."""
    arrays = [pa.array(values, column.type.arrow) for values, column in zip(zip(*rows), columns)]
    return pa.RecordBatch.from_arrays(arrays, names=[column.name for column in columns])


def python_values(column: pa.Array) -> list[Any]:
    """A column's values as PEP 249 users expect them: Arrow's own, but an INTERVAL as a timedelta."""
    values: list[Any] = column.to_pylist()
    if column.type == pa.month_day_nano_interval():
        return [None if v is None else Interval(v[0], v[1], v[2] // 1000).to_timedelta() for v in values]
    return values


class Session:
    """Runs statements on a store.

    Parameters
    ----------
    store : Store
    threads : int, optional
        How many threads a statement may use; None: one per processor.
    memory_limit : int, optional
        Bytes that one statement's state may take.
    temp_directory : str, optional
        Where it goes beyond; None: where the store is.
    store_options : mapping, optional
        With what the store was opened, for SHOW.
    """

    def __init__(
        self,
        store: Store,
        threads: int | None = None,
        memory_limit: int | None = None,
        temp_directory: str | None = None,
        store_options: Mapping[str, Any] | None = None,
    ):
        self.store = store
        own = {"threads": threads, "memory_limit": memory_limit, "temp_directory": temp_directory}
        self.settings = Settings({**own, **(store_options or {})})
        self.plans = PlanCache(store)
        self._lock = threading.Lock()
        # Weak, so that a cursor that is dropped half-read takes its statement with it.
        self._running: weakref.WeakSet[Execution] = weakref.WeakSet()

    def run(self, text: str, parameters: Normalized | None = None) -> Execution:
        """Run every statement of `text` in order; the last one's execution.

        Raises `ProgrammingError` where there is no statement, `InterfaceError` for parameters with several.
        """
        try:  # a context manager would cost a statement about one row too much
            return self._run(text, parameters)
        except RecursionError:
            raise NotSupportedError(TOO_DEEP) from None

    def _run(self, text: str, parameters: Normalized | None) -> Execution:
        known = self.plans.find(text)
        for prepared in known or ():
            found = self._run_prepared(text, prepared, parameters)
            if found is not None:
                return found
        parsed = self.parse(text)
        if parameters and len(parsed) > 1:
            raise InterfaceError(
                f"parameters belong to one statement, and the text holds {len(parsed)}; execute them one by one"
            )
        for statement in parsed[:-1]:
            self.execute(statement).drain()
        if len(parsed) > 1 or known == () or not self.plans.takes(text):
            return self.execute(parsed[-1], parameters)
        return self._prepare(text, parsed[-1], parameters)

    def _run_prepared(self, text: str, prepared: Prepared, parameters: Normalized | None) -> Execution | None:
        """Run a statement that is known; None where the parameters are not for it, or its plan is out of date."""
        if prepared.single is not None:
            cells = prepared.cells(parameters)
            return None if cells is None else RowExecution(self, prepared.single, cells)
        if prepared.is_outgrown(self.store):
            self.plans.remove(text, prepared)
            return None
        plan = prepared.plan(parameters, self.store)
        return None if plan is None else self.start(prepared.statement, plan)

    def _prepare(self, text: str, parsed: ParsedStatement, parameters: Normalized | None) -> Execution:
        """Bind and plan a statement for these values and others, if that can be, and run it."""
        version, now = self.store.catalog_version, self.store.now()
        given = match_parameters(parsed, parameters)
        statement = bind_given(parsed, self.store, given, LocalFiles(), now)
        if not isinstance(statement, KEPT):
            return self.start(statement)
        prepared = prepare(parsed, given, statement, self.store, now, self._plan_query, self.plans.short_ways)
        self.plans.add(text, version, prepared)
        found = None if prepared is None else self._run_prepared(text, prepared, parameters)
        return self.start(statement) if found is None else found

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

    def start(self, statement: bound.Statement, plan: Plan | None = None) -> Execution:
        """Start a bound statement, planned now unless its plan is given."""
        cancel = threading.Event()
        execution = Execution(self, cancel)
        # One moment for all tables of the statement.
        context = ExecutionContext(self.store, cancel=cancel, snapshot=self.store.now(), **self._options())
        with self._lock:
            self._running.add(execution)
        try:
            execution.start(statement, plan or self._plan(statement), context)
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

    def _plan_query(self, query: bound.Query) -> Plan:
        return plan_query(query, self.store)

    def _options(self) -> dict[str, Any]:
        """What the settings say about a statement that starts now."""
        found = {name: self.settings.get(name) for name in ("threads", "memory_limit")}
        found["temporary_directory"] = self.settings.get("temp_directory") or self.store.temporary_directory
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
