"""The statements that sessions of this process run and have run: for metrics, `nyala_catalog.statements` and pages.

    Session._start ── begin ──► StatementRecord, RUNNING ── end ──► DONE or FAILED ──► recent ones; slow ones with plan
    row path       ── by_row += 1                                                      (nothing else: it takes 8 us)

Statements by the row path are counted, but have no record and no time: two readings of a clock would cost them more
than the rest of this module. A record costs a planned statement about two microseconds.
"""

from __future__ import annotations

import itertools
import threading
import time
import weakref
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

from ...errors import Error, hide_passwords
from ...model import observations, waiting_time
from ...model.forks import renew_in_child
from ...model.metrics import Histogram, Sample, register
from ...sql.deep_stack import on_deep_stack

if TYPE_CHECKING:
    from ...executor import ExecutionContext
    from ...model import tracing
    from ...planner import Actual, Plan
    from ...planner.explaining.operator_lines import OperatorLine
    from ...sql.session_facts import SessionFacts

SLOW_SECONDS: Final = 1.0
"""Statements that take as long are kept with their plan, unless `Records.slow_seconds` is set."""
RECENT: Final = 200
"""Ended statements that are kept."""
SLOW: Final = 50
"""Slow statements that are kept."""
TEXT_CHARACTERS: Final = 10_000
"""Of a statement's text, beyond which it is cut."""
_FOLDED: Final = 256
"""Sessions after which counts of those that have ended are added up."""


class Failure(NamedTuple):
    """The error of a statement."""

    sqlstate: str
    message: str

    @classmethod
    def of(cls, error: BaseException) -> Failure:
        """The texts of an error."""
        return cls(sqlstate_of(error), str(error)[:TEXT_CHARACTERS])


class Running(Protocol):
    """A statement that runs: an `Execution`."""

    record: StatementRecord | None
    failure: Failure | None

    @property
    def rows_so_far(self) -> int: ...

    def cancel(self) -> None: ...


class Past(Protocol):
    """Earlier executions of a statement: a `PastRuns`."""

    def end(self, seconds: float) -> bool: ...


class Watched(Protocol):
    """A `Session`."""

    facts: SessionFacts
    client: str
    is_closed: bool

    def executions(self) -> Sequence[Running]: ...


class StatementRecord:
    """A statement that runs or has run.

    Attributes
    ----------
    number : int
        Unique in the process.
    text, user, client : str
        Passwords in the text are masked. `client` is the address of a client of another protocol; "" in this process.
    started : float
        Seconds since 1970.
    state : {"RUNNING", "DONE", "FAILED"}
    seconds : float
        Until it ended, or until now.
    rows : int
        Returned or changed so far.
    memory_bytes : int
        Most memory that its operators held.
    sqlstate, error, plan, digest : str
        "" without one. Plan and its digest (`operator_lines.plan_digest`) are kept of slow statements only.
    """

    __slots__ = (
        "_began", "_context", "_execution", "_measured", "_past", "_plan", "_seconds", "client", "digest", "error",
        "is_started", "memory_bytes", "number", "plan", "rows", "sqlstate", "started", "state", "text", "trace", "user",
    )  # fmt: skip

    def __init__(self, number: int, text: str, user: str, client: str):
        self.number, self.user, self.client = number, user, client
        self.text = hide_passwords(text)[:TEXT_CHARACTERS]
        self.started = time.time()
        self.state = "RUNNING"
        self.rows = self.memory_bytes = 0
        self.sqlstate = self.error = self.plan = self.digest = ""
        self.is_started = False
        """True once its first rows are made: errors from then on leave by its rows, not by `Session.run`."""
        self._began = time.perf_counter()
        self._seconds = 0.0
        self._execution: weakref.ref[Running] | None = None
        self._context: ExecutionContext | None = None
        self._plan: Plan | None = None
        self._past: Past | None = None
        self._measured: Mapping[int, Actual] = {}
        """Measurements of the plan of an ended statement; without them, the plan is not kept."""
        self.trace: tracing.StatementTrace | None = None
        """The span that ends with the statement."""

    @property
    def seconds(self) -> float:
        return time.perf_counter() - self._began if self.state == "RUNNING" else self._seconds

    def look(self) -> StatementRecord:
        """Brings rows and memory of a running statement up to date; itself."""
        execution, context = self.execution(), self._context
        if execution is not None:
            self.rows = execution.rows_so_far
        if context is not None:
            self.memory_bytes = context.memory.peak
        return self

    def plan_text(self) -> str:
        """The plan as EXPLAIN prints it, or EXPLAIN ANALYZE if it is measured; "" for a statement without one, or of
        which it is not kept."""
        from ...planner.explaining.plan_text import explain

        if self.plan or (plan := self._plan) is None:
            return self.plan
        actuals = self._actuals()
        return on_deep_stack(lambda: explain(plan, actuals)) if plan.deep else explain(plan, actuals)

    def operators(self) -> tuple[OperatorLine, ...]:
        """The operators of the plan with their rows and times until now; none if they are not measured, or not kept
        (`running_work`)."""
        from ...planner.explaining.operator_lines import operator_lines

        if (plan := self._plan) is None or not (actuals := self._actuals()):
            return ()
        return on_deep_stack(lambda: operator_lines(plan, actuals)) if plan.deep else operator_lines(plan, actuals)

    def _actuals(self) -> Mapping[int, Actual]:
        """The measurements of the plan so far."""
        context = self._context
        if context is None:
            return self._measured
        from ...executor.run.operator_stats import actuals_for

        return actuals_for(context.actuals, context.opening) if context.collect else {}

    def _keep(self, plan: Plan) -> None:
        """Keeps the measurements with the plan, unless that is large."""
        from ...executor.run.operator_stats import is_light

        if is_light(plan.root):
            self._measured = self._actuals()

    def execution(self) -> Running | None:
        """The statement itself, while it runs."""
        return None if self._execution is None else self._execution()

    def attach(self, execution: Running, context: ExecutionContext, plan: Plan | None, past: Past) -> None:
        """From now on this record is that of an execution."""
        self._execution, self._context, self._plan, self._past = weakref.ref(execution), context, plan, past

    def finish(self, failure: Failure | None, slow_seconds: float) -> None:
        """The statement has ended; it is slow if it took `slow_seconds`."""
        self.look()
        self._seconds, self.state = self.seconds, "DONE" if failure is None else "FAILED"
        if failure is not None:
            self.sqlstate, self.error = failure
        context, plan, past = self._context, self._plan, self._past
        is_kept = past is not None and past.end(self._seconds)
        if plan is not None and context is not None:
            if context.collect and is_kept:
                self._keep(plan)
            if self._seconds >= slow_seconds:
                from ...planner.explaining.operator_lines import plan_digest

                self.plan, self.digest = self.plan_text(), plan_digest(plan)
        if not self._measured:
            self._plan = None
        self._execution = self._context = self._past = None


class Activity:
    """Counts of one session."""

    __slots__ = ("__weakref__", "by_row", "errors", "planned", "session")

    def __init__(self, session: Watched):
        self.session = weakref.ref(session)
        self.by_row = self.planned = 0
        self.errors: Counter[str] = Counter()
        _records.enter(self)

    def begin(self, execution: Running, context: ExecutionContext, plan: Plan | None, text: str, past: Past) -> None:
        """A planned statement begins."""
        self.planned += 1
        session = self.session()
        assert session is not None
        record = StatementRecord(next(_numbers), text, session.facts.user, session.client)
        record.attach(execution, context, plan, past)
        execution.record = record
        if waiting_time.exporter is not None:
            _note_planned()

    def end(self, execution: Running) -> None:
        """A planned statement has ended; repeated calls have no effect."""
        record = execution.record
        if record is None:
            return
        execution.record = None
        record.finish(execution.failure, _records.slow_seconds)
        if record.trace is not None:
            record.trace.end(record.rows, record.sqlstate, record.memory_bytes)
            record.trace = None
        if record.is_started and execution.failure is not None:
            self.errors[record.sqlstate] += 1
        _records.keep(record)

    def fail(self, error: BaseException) -> None:
        """A statement has failed before it returned rows."""
        self.errors[sqlstate_of(error)] += 1


def _note_planned() -> None:
    from ...model import tracing  # few processes have an exporter

    if (trace := tracing.current()) is not None:
        trace.phase("execute")


def sqlstate_of(error: BaseException) -> str:
    """The SQLSTATE of an error; that of an internal error if it is none of nyala's."""
    return error.sqlstate if isinstance(error, Error) else "57014" if isinstance(error, KeyboardInterrupt) else "XX000"


class Records:
    """All sessions of the process, and the statements that have ended.

    Attributes
    ----------
    slow_seconds : float
        Planned statements that take as long are slow.
    slow_log : callable, optional
        Called with the record of each slow statement that has ended.
    """

    def __init__(self) -> None:
        self.slow_seconds = SLOW_SECONDS
        self.slow_log: Callable[[StatementRecord], object] | None = None
        self._lock = threading.Lock()
        self._active: list[Activity] = []
        self._by_row = self._planned = self._slow_count = 0
        self._errors: Counter[str] = Counter()
        self._recent: deque[StatementRecord] = deque(maxlen=RECENT)
        self._slow: deque[StatementRecord] = deque(maxlen=SLOW)
        self._seconds = Histogram()

    def enter(self, activity: Activity) -> None:
        """A session begins."""
        with self._lock:
            self._active.append(activity)
            if len(self._active) % _FOLDED == 0:
                self._fold()

    def keep(self, record: StatementRecord) -> None:
        """A statement has ended."""
        self._seconds.observe(record.seconds)
        self._recent.append(record)
        if record.seconds >= self.slow_seconds:
            self._slow_count += 1
            self._slow.append(record)
            if self.slow_log is not None:
                self.slow_log(record)

    def _fold(self) -> None:
        """Adds up the counts of sessions that are gone; the lock is held."""
        here: list[Activity] = []
        for activity in self._active:
            if activity.session() is not None:
                here.append(activity)
                continue
            self._by_row += activity.by_row
            self._planned += activity.planned
            self._errors += activity.errors
        self._active = here

    def sessions(self) -> list[Watched]:
        """The sessions that are open, oldest first."""
        with self._lock:
            found = [activity.session() for activity in self._active]
        return [session for session in found if session is not None and not session.is_closed]

    def running(self) -> list[StatementRecord]:
        """The statements that run, oldest first."""
        found = [execution.record for session in self.sessions() for execution in session.executions()]
        return sorted((record.look() for record in found if record is not None), key=lambda record: record.number)

    def recent(self) -> list[StatementRecord]:
        """Ended statements, newest first."""
        return list(reversed(self._recent.copy()))

    def slow(self) -> list[StatementRecord]:
        """Ended statements that took `slow_seconds` or more, newest first."""
        return list(reversed(self._slow.copy()))

    def cancel(self, number: int) -> bool:
        """Cancels a running statement; False if none has the number."""
        for record in self.running():
            execution = record.execution()
            if record.number == number and execution is not None:
                execution.cancel()
                return True
        return False

    def samples(self) -> Iterator[Sample]:
        """For `metrics.collect`."""
        with self._lock:
            self._fold()
            active = list(self._active)
        errors = self._errors.copy()
        for activity in active:
            errors.update(activity.errors.copy())
        yield Sample("nyala_sessions", len(self.sessions()))
        yield Sample("nyala_statements_total", self._by_row + sum(a.by_row for a in active), ("row",))
        yield Sample("nyala_statements_total", self._planned + sum(a.planned for a in active), ("planned",))
        yield Sample("nyala_statements_running", len(self.running()))
        yield Sample("nyala_statement_seconds", self._seconds.read())
        yield Sample("nyala_slow_statements_total", self._slow_count)
        yield from (Sample("nyala_statement_errors_total", count, (state,)) for state, count in errors.items())

    def rows(self) -> Iterator[dict[str, Any]]:
        """Rows of `nyala_catalog.statements`: running ones, then ended ones, newest first."""
        for record in (*self.running(), *self.recent()):
            yield {
                "id": record.number,
                "state": record.state,
                "user_name": record.user,
                "client": record.client or None,
                "started": round(record.started * 1e6),
                "seconds": record.seconds,
                "rows": record.rows,
                "memory_bytes": record.memory_bytes,
                "plan_digest": record.digest or None,
                "sqlstate": record.sqlstate or None,
                "error": record.error or None,
                "statement": record.text,
            }

    def operator_rows(self) -> Iterator[dict[str, Any]]:
        """Rows of `nyala_catalog.statement_operators`: those of each statement of `rows`, in their order."""
        for record in (*self.running(), *self.recent()):
            for step, line in enumerate(record.operators()):
                row: dict[str, Any] = {
                    "statement_id": record.number,
                    "user_name": record.user,
                    "step": step,
                    "depth": line.depth,
                    "operator": line.text,
                    "details": "\n".join(line.details) or None,
                    "expected_rows": line.expected_rows,
                }
                if (actual := line.actual) is not None:
                    row |= {"rows": actual.rows, "seconds": actual.seconds}
                    row |= {"memory_bytes": actual.memory, "spilled_bytes": actual.spilled}
                yield row


_numbers = itertools.count(1)
_records = Records()


def records() -> Records:
    """Those of this process."""
    return _records


def _rows() -> Iterator[dict[str, Any]]:
    return _records.rows()


def _operator_rows() -> Iterator[dict[str, Any]]:
    return _records.operator_rows()


def _samples() -> Iterator[Sample]:
    """The sessions' samples, and those of the process itself."""
    from ..process_metrics import process_samples  # few processes are observed

    yield from _records.samples()
    yield from process_samples()


def _renew() -> None:
    """In a forked child: the sessions of its parent are not its own."""
    global _records
    _records = Records()


register(_samples)
observations.register("statements", _rows)
observations.register("statement_operators", _operator_rows)
renew_in_child(_renew)
