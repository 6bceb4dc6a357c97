"""One connection's way through the rooms below: text in, running statements out.

    text ─ parse ─► ParsedStatement ─ bind ─► Statement ─ plan_query ─► Plan ─ run ─► Execution
      └── plan_cache, where the text is known ──────────────────────────────┘

Several threads may use a session; each statement they start is an `Execution` of its own, under the settings that hold
when it starts. A session of a `moment` reads as of that time, and its statements change nothing. In a transaction
(`transactions`), the session's store is the transaction, and one statement runs at a time.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeVar

from ...errors import (
    Error,
    InterfaceError,
    NotSupportedError,
    ProgrammingError,
    ReadOnlyTransaction,
    SchemaChanged,
    ServerUnavailable,
    SqlSyntaxError,
    TypeMismatch,
    UnknownColumn,
    UnknownTable,
)
from ...executor import LocalFiles, StatementResult
from ...executor.run.progress import Handler, Progress
from ...executor.statements.single_rows import RowWrite, SingleRow
from ...model import waiting_time
from ...model.clock import format_timestamp
from ...model.schema import Table
from ...model.store import Store, Timestamp
from ...model.waiting_time import WaitingTime, as_statement, within
from ...planner import Plan, PlannerOptions
from ...sql import ParsedStatement, bind, bound, parse
from ...sql.binding.binder import Binding, bind_given
from ...sql.binding.stored_names import parts_of, stored_name
from ...sql.files import FileCatalog
from ...sql.placeholders import Given, match_parameters
from ...sql.session_facts import SessionFacts
from ...sql.syntax.complexity import too_complex
from . import engines
from .bind_values import Normalized
from .executions import Control, EndedExecution, Execution, Halt, RowExecution, raise_if
from .identity import Identity, act_as, set_role
from .literal_shapes import Shape, shape_of
from .named_statements import NamedStatements
from .plan_cache import KEPT, MOST_VARIANTS, PlanCache, Prepared, prepare
from .reading_statements import BY_ROWS, is_reading
from .running_work import Past, PastRuns, RunningWork
from .settings import Settings, SettingStatement
from .statement_records import Activity, Failure
from .temporary_objects import TemporaryObjects, refuse_temporary
from .transactions import READ_ONLY, Kind, SessionTransactions, begins_with_query, kind_of

ALTERED: Final = (UnknownTable, UnknownColumn, TypeMismatch)
"""Errors of a bound statement if a table was altered, or dropped and created again, before it ran."""
REBINDS: Final = 100
"""Limit of bindings of a statement; each is needed only if the catalog has changed since the previous one."""
_CATALOG_SECONDS = 0.005
_ALONE: Final = contextlib.nullcontext()
RERUNS: Final = 3
"""Limit of retries of a query whose scans were interrupted."""
T = TypeVar("T")


class Session(RunningWork):
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
        With what the store was opened, for SHOW; None: it has no such options, as a cluster has none.
    moment : Timestamp, optional
        Read as of this time, and refuse whatever would change the store.
    engine : str, optional
        What runs queries; by default nyala's own executor.
    target : str or Path, optional
        What the store was opened by, for engines that reach it from other processes.
    settings : Settings, optional
        In place of those that the parameters above make.
    """

    def __init__(
        self,
        store: Store,
        threads: int | None = None,
        memory_limit: int | None = None,
        temp_directory: str | None = None,
        store_options: Mapping[str, Any] | None = None,
        moment: Timestamp | None = None,
        engine: str | None = None,
        target: str | Path | None = None,
        settings: Settings | None = None,
    ):
        super().__init__()
        self.store = store
        """The store of statements from now on: a transaction while one is open."""
        self.is_transactional = False
        """True while a transaction is open, and without autocommit: then statements run by `transactions.turn`."""
        self.target = target
        own = {"threads": threads, "memory_limit": memory_limit, "temp_directory": temp_directory, "engine": engine}
        self.settings = settings or Settings({**own, **(store_options or {})}, has_store=store_options is not None)
        self.facts = SessionFacts(settings=self.settings.texts, search_path=lambda: self.settings.search_path)
        """Facts that functions such as `current_user` return."""
        self.identity: Identity | None = None
        """The user whose rights statements have; None: all rights."""
        self.plans = PlanCache(store)
        self.plans.path = self.settings.search_path
        self.progress: Handler | None = None
        """Called with the progress of each statement that starts from now on."""
        self.moment = moment
        self.write_advice = "is for the connection that it was made from"
        """Advice in errors about writes in a session as of a timestamp."""
        self.reads_latest = False
        """Of a cluster: read the latest state of each tablet's leader, without a common snapshot."""
        self.files: FileCatalog | None = LocalFiles()
        """Files that statements may read and write; None: none, for a client of another process or machine."""
        self.last_write: Timestamp | None = None
        """At this time all that the session has written was there; None before it has written anything."""
        self._base = store
        """The store of the connection."""
        self.transactions = SessionTransactions(store, self.settings, self._switch, past=moment is not None)
        self.transactions.on_commit = self._note_commit
        self._temporary = TemporaryObjects(store, self.transactions)
        self.client = ""
        """Address of the client, if it is one of another protocol."""
        self.is_closed = False
        self.activity = Activity(self)
        self._named: NamedStatements | None = None
        self._has_servers = store.runs_fragments
        """True if statements may wait for servers, and so have a deadline."""
        self._engines = engines.SessionEngines(target)

    def _switch(self, store: Store, is_transactional: bool) -> None:
        self.store, self.is_transactional = store, is_transactional
        self.plans.store = store

    def as_of(self, moment: Timestamp) -> Session:
        """Returns a new session with the current settings of this one, which reads as of `moment`."""
        return self._another(moment)

    def duplicate(self) -> Session:
        """Returns a new session with the current settings of this one, and transactions of its own."""
        session = self._another(self.moment)
        session.reads_latest = self.reads_latest
        session.transactions.autocommit = self.transactions.autocommit
        return session

    def _another(self, moment: Timestamp | None) -> Session:
        settings = self.settings.copy()
        session = Session(self._base, moment=moment, target=self.target, settings=settings)
        session.files = self.files
        act_as(session, self.identity)
        return session

    def _snapshot(self, store: Store) -> Timestamp | None:
        """Snapshot for all tables of a statement on a store."""
        if self.moment is not None:
            return self.moment
        return None if self.reads_latest and store is self.transactions.store else store.now()

    def run(self, text: str, parameters: Normalized | None = None, halt: Halt | None = None) -> Execution:
        """Run every statement of `text` in order; the last one's execution. `halt` stops it, its rows included.

        Raises `ProgrammingError` where there is no statement, `InterfaceError` for parameters with several.
        """
        try:  # a context manager would cost a statement about one row too much
            if waiting_time.exporter is not None:
                from .traced_runs import run_traced  # few processes have an exporter

                run = self._run_in_transaction if self.is_transactional else self._run
                return run_traced(waiting_time.exporter, self, run, text, parameters, halt or Halt())
            if self.is_transactional:
                return self._run_in_transaction(text, parameters, halt or Halt())
            if not self._has_servers:
                return self._run(text, parameters, halt or Halt())
            with as_statement():
                return self._run(text, parameters, halt or Halt())
        except RecursionError:
            raise too_complex(text) from None
        except Error as error:
            self.activity.fail(error)
            raise

    def _run_in_transaction(self, text: str, parameters: Normalized | None, halt: Halt) -> Execution:
        kind = Kind.QUERY if begins_with_query(text) else None
        with self.transactions.turn(kind, partial(raise_if, halt)), as_statement() if self._has_servers else _ALONE:
            return self._run(text, parameters, halt)

    def _turn(self, parsed: ParsedStatement, cancel: Halt | None) -> AbstractContextManager[None]:
        """The context manager for one statement of a text, which may begin or end a transaction."""
        if not self.is_transactional:
            return _ALONE
        return self.transactions.turn(kind_of(parsed.tree), partial(raise_if, cancel))

    def _run(self, text: str, parameters: Normalized | None, halt: Halt) -> Execution:
        halt.text = text
        # What is kept of statements is for nyala's own executor.
        known = self.plans.find(text) if self._is_local else ()
        if known is None and not parameters:
            control = self.transactions.known.get(text)
            if control is not None:
                raise_if(halt)
                self.transactions.run(control)
                return EndedExecution()
            shape = shape_of(text) if self.plans.enabled else None
            if shape is not None and (execution := self._run_shape(text, shape, halt)) is not None:
                return execution
        try:
            for prepared in known or ():
                found = self._run_prepared(text, prepared, parameters, halt)
                if found is not None:
                    return found
        except ALTERED as error:
            if self.plans.find(text) is not None and not isinstance(error, SchemaChanged):
                raise  # the catalog is the same: binding again would change nothing
        with self.watched(halt):
            once = known == () or not self.plans.takes(text, len(parameters or ()))
            return self._run_anew(text, once, parameters, halt)

    def _run_anew(self, text: str, once: bool, parameters: Normalized | None, cancel: Halt) -> Execution:
        """Run a text of which no plan is kept, and none will be if it is to be run `once`."""
        parsed = self.parse(text)
        if parameters and len(parsed) > 1:
            raise InterfaceError(
                f"parameters belong to one statement, and the text holds {len(parsed)}; execute them one by one"
            )
        for statement in parsed[:-1]:
            with within(WaitingTime()), self._turn(statement, cancel):
                self.execute(statement, cancel=cancel).drain()
        with self._turn(parsed[-1], cancel):
            if len(parsed) > 1 or once:
                return self.execute(parsed[-1], parameters, cancel)
            return self.bound_again(lambda: self._prepare(text, parsed[-1], parameters, cancel))

    def bound_again(self, attempt: Callable[[], T]) -> T:
        """Bind and run something, again where it fails after the catalog has changed in between: the binding may have
        been by tables that are not these any more. A statement that fails so has written nothing."""
        for _ in range(REBINDS):
            version = self.store.catalog_version
            try:
                return attempt()
            except SchemaChanged:
                # Tablets are altered a moment before the catalog says so.
                if self.store.catalog_version == version:
                    time.sleep(_CATALOG_SECONDS)
            except ALTERED:
                if self.store.catalog_version == version:
                    raise
        return attempt()

    def known_row(self, text: str, parameters: Normalized | None) -> tuple[SingleRow, Sequence[Any]] | None:
        """Returns the row path of a text that is known, and its values, for a caller that makes the call of the store
        itself; None where the text must be `run`. Never waits."""
        if self.is_transactional or not self._is_local or (self.progress or waiting_time.exporter) is not None:
            return None
        variants = self.plans.find(text)
        if variants is None and not parameters and self.plans.enabled:
            shape = shape_of(text)
            if shape is not None:
                variants, parameters = self.plans.find(shape.text), shape.values
        for prepared in variants or ():
            if prepared.single is not None:
                cells = prepared.cells(parameters, self.store)
                if cells is not None:
                    self.activity.by_row += 1
                    return prepared.single, cells
        return None

    def _run_prepared(
        self, text: str, prepared: Prepared, parameters: Normalized | None, cancel: Halt
    ) -> Execution | None:
        """Run a statement that is known; None where the parameters are not for it, or its plan is out of date."""
        if prepared.single is not None:
            cells = prepared.cells(parameters, self.store)
            if cells is None:
                return None
            if self.is_transactional and isinstance(prepared.single, RowWrite):
                self._refuse_read_only()
            found = RowExecution.run(self.store, prepared.single, cells, self.moment, self.transactions.transaction)
            self.activity.by_row += 1
            if found.rowcount > 0:
                self.note_write()
            if self.progress is not None:
                self.progress(Progress(1, 1, 1, 1))
            return found
        if prepared.is_outgrown(self.store):
            self.plans.remove(text, prepared)
            return None
        plan = prepared.plan(parameters, self.store)
        return None if plan is None else self.start(prepared.statement, plan, cancel, prepared.past)

    def _prepare(self, text: str, parsed: ParsedStatement, parameters: Normalized | None, cancel: Halt) -> Execution:
        """Bind and plan a statement for these values and others, if that can be, and run it."""
        raise_if(cancel)
        version, now = self.plans.version, self.store.now()
        given = match_parameters(parsed, parameters)
        binding = bind_given(parsed, self.store, given, self.files, now, self.facts)
        statement = binding.statement
        self._refuse_change(statement)
        if not isinstance(statement, KEPT):
            if isinstance(statement, bound.TransactionStatement):
                self.transactions.remember(text, statement)
            return self.start(statement, cancel=cancel)
        prepared = self._prepared(parsed, given, binding, now, cancel)
        self.plans.add(text, version, prepared)
        raise_if(cancel)
        found = None if prepared is None else self._run_prepared(text, prepared, parameters, cancel)
        return self.start(statement, cancel=cancel) if found is None else found

    def _prepared(
        self, parsed: ParsedStatement, given: Given, binding: Binding, now: Timestamp, cancel: Halt
    ) -> Prepared | None:
        """Prepare a statement for other values; None where it cannot be kept. `binding` is the same statement with the
        values of `given`."""
        from ...planner.algebra.depth import is_deep

        plan = partial(self._plan_query, options=self._planner_options(), check=partial(raise_if, cancel))
        # What is nested too deeply to be kept is bound each time: putting values into a plan recurses, too.
        with contextlib.suppress(RecursionError):
            if isinstance(binding.statement, KEPT) and not is_deep(binding.statement.query):
                return prepare(parsed, given, binding, self.store, now, plan, self.plans.short_ways, self.facts)
        return None

    def _run_shape(self, text: str, shape: Shape, cancel: Halt) -> Execution | None:
        """Run a text as its shape with values; None where it must be run as it is written."""
        variants = self.plans.find(shape.text)
        if variants is None and not self.plans.comes_again(shape.text):
            return None
        try:
            for prepared in variants or ():
                execution = self._run_prepared(shape.text, prepared, shape.values, cancel)
                if execution is not None:
                    return execution
        except ALTERED:
            return None
        if variants is not None and not 0 < len(variants) < MOST_VARIANTS:
            return None
        with self.watched(cancel):
            return self.bound_again(lambda: self._prepare_shape(text, shape, cancel))

    def _prepare_shape(self, text: str, shape: Shape, cancel: Halt) -> Execution | None:
        """Prepare a shape and run it with its values; None, now and for the texts to come, where it cannot be shared.

        A statement over several tables is not: the order of its joins depends on the values.
        """
        raise_if(cancel)
        version, now = self.plans.version, self.store.now()
        prepared: Prepared | None = None
        parsed = self.parse(text)
        if len(parsed) == 1:
            binding = bind_given(parsed[0], self.store, match_parameters(parsed[0], None), self.files, now, self.facts)
            self._refuse_change(binding.statement)
            with contextlib.suppress(SqlSyntaxError, InterfaceError):
                (shaped,) = parse(shape.text)
                prepared = self._prepared(shaped, match_parameters(shaped, shape.values), binding, now, cancel)
        if prepared is not None and prepared.scans > 1:
            prepared = None
        self.plans.add(shape.text, version, prepared)
        return None if prepared is None else self._run_prepared(shape.text, prepared, shape.values, cancel)

    def parse(self, text: str) -> list[ParsedStatement]:
        """The statements of a text, at least one."""
        parsed = parse(text)
        if not parsed:
            raise ProgrammingError("there is no statement to execute")
        return list(parsed)

    def bind(self, parsed: ParsedStatement, parameters: Normalized | None = None) -> bound.Statement:
        """Resolve a parsed statement against the current catalog; `NotSupportedError` if it writes and the session is
        as of a timestamp."""
        statement = bind(parsed, self.store, parameters, self.files, self.facts)
        self._refuse_change(statement)
        return statement

    def _refuse_change(self, statement: bound.Statement) -> None:
        if self.files is None:
            copied = statement.statement if isinstance(statement, bound.Explain) else statement
            if isinstance(copied, bound.CopyFrom | bound.CopyTo):
                raise NotSupportedError("files of the server cannot be read or written here")
        if self.moment is not None and not is_reading(statement):
            self.refuse_writes("a statement that writes")

    def refuse_writes(self, what: str) -> None:
        """Raise `NotSupportedError` in a session as of a timestamp: `what` is not a read."""
        if self.moment is not None:
            raise NotSupportedError(
                f"this connection reads as of {format_timestamp(self.moment)} and changes nothing: {what} "
                f"{self.write_advice}"
            )

    def execute(
        self, parsed: ParsedStatement, parameters: Normalized | None = None, cancel: Halt | None = None
    ) -> Execution:
        """Bind, plan and start one statement, unless `cancel` is set by then."""

        def attempt() -> Execution:
            raise_if(cancel)
            return self.start(self.bind(parsed, parameters), cancel=cancel)

        return self.bound_again(attempt)

    def start(
        self, statement: bound.Statement, plan: Plan | None = None, cancel: Halt | None = None, past: Past = None
    ) -> Execution:
        """Start a bound statement, planned now unless its plan is given, and unless `cancel` is set by then.

        A query over a cluster of which a server dies in the middle of a long scan is run again: no row of it has come
        out yet.
        """
        for _ in range(RERUNS if isinstance(statement, bound.SelectStatement) else 0):
            with contextlib.suppress(ServerUnavailable):
                return self._start(statement, plan, cancel, past)
        return self.transactions.with_ddl(lambda: self._start(statement, plan, cancel, past))

    def _start(self, statement: bound.Statement, plan: Plan | None, cancel: Halt | None, past: Past) -> Execution:
        # An execution has an event of its own, which its end sets too.
        own = threading.Event()
        if cancel is not None:
            cancel.adopt(own)
        execution = Execution(self._control, own, self.forget)
        past = past or PastRuns()
        by_row = self._is_local and self.plans.short_ways
        options = {**self._options(), "by_row": by_row, "serial_runs": past.serial_runs}
        self._temporary.make_room(statement)
        store, transaction = self.store, self.transactions.transaction
        if store is transaction:
            options["transaction"] = transaction
        from ...executor import ExecutionContext

        context = ExecutionContext(store, cancel=own, snapshot=self._snapshot(store), **options)
        with self._lock:
            self._running.add(execution)
        try:
            raise_if(cancel)
            if isinstance(statement, bound.SelectStatement):
                for setting in statement.settings:
                    self._control(setting)
            planned = plan or self._plan(statement, partial(raise_if, own))
            context.collect = planned is not None and past.begin()
            self.activity.begin(execution, context, planned, "" if cancel is None else cancel.text, past)
            engine = (
                None
                if planned is None or self._is_local
                else self._engines.opened(self.settings.get("engine"), transaction)
            )
            if engine is not None and self._temporary.are_possible:
                refuse_temporary(planned)
            if is_reading(statement):
                execution.start(statement, planned, context, engine)
            else:
                with self.transactions.undoing():
                    execution.start(statement, planned, context, engine)
        except BaseException as error:
            execution.failure = execution.failure or Failure.of(error)
            self.forget(execution)
            raise
        execution.note_started()
        if self.identity is not None and isinstance(statement, bound.ChangeAccess):
            self.identity.note_change()
        by_rows = isinstance(statement, BY_ROWS)
        if not is_reading(statement) and (execution.rowcount or not by_rows):
            self.note_write(rows=by_rows or isinstance(statement, bound.Explain))
        return execution

    @property
    def _is_local(self) -> bool:
        """True if nyala's own executor runs queries."""
        return bool(self.settings.get("engine") == engines.LOCAL)

    def _refuse_read_only(self) -> None:
        transaction = self.transactions.transaction
        if transaction is not None and transaction.options.read_only:
            raise ReadOnlyTransaction(READ_ONLY)

    def _control(self, statement: Control) -> StatementResult:
        """Run a statement about the session itself."""
        if isinstance(statement, SettingStatement):
            if isinstance(statement, bound.SetSetting) and statement.name == "engine":
                engines.refuse_writes_of(self.transactions.transaction, statement.value)
            return self._set(statement)
        if isinstance(statement, bound.SetRole):
            set_role(self, statement.role)
            return StatementResult(None, iter(()))
        if isinstance(statement, bound.SessionStatement):
            result = self.named_statements().run(statement)
            if isinstance(statement, bound.Discard) and (statement.everything or statement.temporary):
                self._temporary.drop(self.store)
            return result
        self.transactions.run(statement)
        return StatementResult(None, iter(()))

    def _set(self, statement: SettingStatement) -> StatementResult:
        result = self.settings.run(statement)
        self.plans.path = self.settings.search_path
        return result

    def named_statements(self) -> NamedStatements:
        """The prepared statements and cursors, which few sessions have."""
        if self._named is None:
            self._named = NamedStatements(self._run, lambda: self.transactions.transaction, self._reset)
        return self._named

    def _reset(self) -> None:
        self._set(bound.ResetSettings())
        set_role(self, None)

    def stored_name(self, parts: Sequence[str]) -> str:
        """The name in the store of a table or view, from its name, or its schema and name, by the search path."""
        return stored_name(parts, self.store, self.facts)

    def find_table(self, name: str) -> Table:
        """The table of a name, of `schema.name`, or of a name that has a point in it; letters count as they are.
        In a transaction it belongs to that, which is begun if need be."""
        store = self.transaction_store()
        return store.table(stored_name(parts_of(name, store), self.store, self.facts))

    def transaction_store(self) -> Store:
        """The store for work without SQL, with the transaction begun that it belongs to."""
        if self.is_transactional:
            with self.transactions.turn(Kind.QUERY):
                return self.store
        return self.store

    def turn(self) -> AbstractContextManager[None]:
        """Context manager for work without SQL that writes: in a transaction it is one statement."""
        return self.transactions.turn(Kind.QUERY) if self.is_transactional else _ALONE

    def note_write(self, timestamp: Timestamp | None = None, rows: bool = True) -> None:
        """Record a write of rows, or a change of tables, at this time or just now. In a transaction COMMIT does it."""
        if self.is_transactional and self.transactions.is_open:
            return
        self._note_commit(self.store.now() if timestamp is None else timestamp)
        if rows:
            self.transactions.has_written_outside = True

    def _note_commit(self, at: Timestamp) -> None:
        with self._lock:
            if self.last_write is None or at > self.last_write:
                self.last_write = at

    def _plan(self, statement: bound.Statement, check: Callable[[], None]) -> Plan | None:
        options = self._planner_options()
        if isinstance(statement, bound.Explain):
            options = replace(options, trace=statement.verbose)
            statement = statement.statement
        if isinstance(statement, bound.WITH_QUERY):
            return self._plan_query(statement.query, options, check)
        return None

    def _plan_query(self, query: bound.Query, options: PlannerOptions, check: Callable[[], None]) -> Plan:
        from ...planner import plan_query  # a row by its key needs no planner

        return plan_query(query, self.store, options, check)

    def _planner_options(self) -> PlannerOptions:
        return PlannerOptions(fetch_late=not self.reads_latest and self._is_local)

    def _options(self) -> dict[str, Any]:
        """Options of a statement, from the current settings."""
        options = {name: self.settings.get(name) for name in ("threads", "memory_limit")}
        options["progress"] = self.progress
        options["temporary_directory"] = self.settings.get("temp_directory") or self.store.temporary_directory
        return {name: value for name, value in options.items() if value is not None}

    def forget(self, execution: Execution) -> None:
        """An execution has ended."""
        self.activity.end(execution)
        with self._lock:
            self._running.discard(execution)

    def close(self) -> None:
        """Cancel and end everything; an open transaction is rolled back."""
        self.is_closed = True
        for execution in self.executions():
            execution.close()
        if self._named is not None:
            self._named.close()
        self.transactions.close()
        self._temporary.close()
        self._engines.close()
