"""Traces of statements: the interface between the rooms that run them and an exporter of spans (`driver.telemetry`).

    Session.run ── statement ──► a span ─┬─ plan        until the plan is there
                                         ├─ execute     until the last row is read; COMMIT within it or of its own
                                         └─ calls       of servers, in the threads that work for the statement
                                              │ traceparent, in the envelope (`cluster.wire.messages.envelope`)
    RpcServer ──── call ───────► a span ◄─────┘
                                         ├─ queue       until a thread of the server takes it
                                         ├─ lock, transaction, snapshot     what it waits for at the tablet
                                         └─ replicate, wal                  until a majority, and the own disk, has it

`waiting_time.exporter` is None unless a program or a server has configured one: then each place pays for reading it,
some 20 ns, and this module is not imported. Background work of clients and servers belongs to no statement and has no
spans.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from contextvars import ContextVar
from typing import Any, Final, Protocol

from . import waiting_time
from .waiting_time import current_waiting

_NOTHING: Final[AbstractContextManager[None]] = contextlib.nullcontext()


class Trace(Protocol):
    """A span that may have others within it. Safe for several threads."""

    @property
    def traceparent(self) -> str:
        """The W3C traceparent of what is called for it; "" if it is not sampled."""

    def child(self, name: str, **attributes: str) -> AbstractContextManager[Trace]:
        """Context manager for a span within it; an error that leaves the block is noted."""

    def begin(self, name: str) -> Callable[[], None]:
        """Begins a span within it, and returns the function that ends it; it may be called by another thread."""

    def phase(self, name: str) -> None:
        """The running phase ends, and another begins."""


class StatementTrace(Trace, Protocol):
    """The span of one statement."""

    def end(self, rows: int = 0, sqlstate: str = "", memory_bytes: int = 0) -> None:
        """The statement has ended; repeated calls have no effect."""


class CallTrace(Trace, Protocol):
    """The span of one call at its server."""

    def end(self, sqlstate: str, attributes: Mapping[str, int]) -> None:
        """The call has been answered; `sqlstate` of its error, "" without one."""


class Tracing(Protocol):
    """An exporter of spans."""

    def statement(self, text: str, user: str, client: str) -> StatementTrace:
        """A statement begins. `client`: the address of a client of another protocol; "" in this process."""

    def call(
        self, method: str, traceparent: str, client: str, attributes: Mapping[str, str | int], arrived: int = 0
    ) -> CallTrace:
        """A call has arrived from the address `client`, as part of the trace of its caller. `arrived`: nanoseconds
        since 1970 if it has queued since then; 0: it arrives now."""


_current: ContextVar[Trace | None] = ContextVar("nyala_trace", default=None)
_parent: ContextVar[str] = ContextVar("nyala_traceparent", default="")


def configure(tracing: Tracing | None) -> None:
    """Sets the exporter of statements that begin from now on; None: there is none."""
    waiting_time.exporter = tracing


def current() -> Trace | None:
    """The innermost span that this thread works for."""
    found = _current.get()
    if found is None and (waiting := current_waiting()) is not None:
        found = waiting.trace
    return found


@contextlib.contextmanager
def within(trace: Trace) -> Iterator[None]:
    """This thread, and those to which its work is carried (`waiting_time.carried`), work for a statement or a call."""
    token = _current.set(trace)
    waiting = current_waiting()
    before: Any = None
    if waiting is not None:
        before, waiting.trace = waiting.trace, trace
    try:
        yield
    finally:
        _current.reset(token)
        if waiting is not None and before is not None:
            waiting.trace = before


def child(name: str, **attributes: str) -> AbstractContextManager[object]:
    """Context manager for a span within the one that this thread works for, if there is one."""
    trace = None if waiting_time.exporter is None else current()
    return _NOTHING if trace is None else trace.child(name, **attributes)


@contextlib.contextmanager
def called(name: str, **attributes: str) -> Iterator[None]:
    """Like `child`, and a call that is packed within the block is a part of that span."""
    trace = None if waiting_time.exporter is None else current()
    if trace is None:
        yield
        return
    with trace.child(name, **attributes) as inner:
        token = _current.set(inner)
        try:
            yield
        finally:
            _current.reset(token)


def header() -> str:
    """The traceparent for a call that this thread makes; "" if it works for no span."""
    trace = current()
    return "" if trace is None else trace.traceparent


def parent() -> str:
    """The W3C traceparent that came with the call that this thread serves; "" without one."""
    return _parent.get()


@contextlib.contextmanager
def called_with(traceparent: str) -> Iterator[None]:
    """Statements of this thread belong to the trace of a caller; "" for none."""
    token = _parent.set(traceparent)
    try:
        yield
    finally:
        _parent.reset(token)
