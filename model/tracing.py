"""Traces of statements: the interface between the rooms that run them and an exporter of spans (`driver.telemetry`).

    Session.run ── statement ──► a span ─┬─ plan        until the plan is there
                                         ├─ execute     until the last row is read; COMMIT within it or of its own
                                         └─ calls       of servers, in the threads that work for the statement

`waiting_time.exporter` is None unless a program or a server has configured one: then each place pays for reading it,
some 20 ns, and this module is not imported. Background work of clients and servers belongs to no statement and has no
spans.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from contextlib import AbstractContextManager
from contextvars import ContextVar
from typing import Any, Final, Protocol

from . import waiting_time
from .waiting_time import current_waiting

_NOTHING: Final[AbstractContextManager[None]] = contextlib.nullcontext()


class StatementTrace(Protocol):
    """The span of one statement."""

    def phase(self, name: str) -> None:
        """The running phase ends, and another begins."""

    def child(self, name: str, **attributes: str) -> AbstractContextManager[None]:
        """Context manager for a span within it; an error that leaves the block is noted."""

    def end(self, rows: int = 0, sqlstate: str = "", memory_bytes: int = 0) -> None:
        """The statement has ended; repeated calls have no effect."""


class Tracing(Protocol):
    """An exporter of spans."""

    def statement(self, text: str, user: str, client: str) -> StatementTrace:
        """A statement begins. `client`: the address of a client of another protocol; "" in this process."""


_current: ContextVar[StatementTrace | None] = ContextVar("nyala_statement_trace", default=None)
_parent: ContextVar[str] = ContextVar("nyala_traceparent", default="")


def configure(tracing: Tracing | None) -> None:
    """Sets the exporter of statements that begin from now on; None: there is none."""
    waiting_time.exporter = tracing


def current() -> StatementTrace | None:
    """The trace of the statement that this thread works for."""
    found = _current.get()
    if found is None and (waiting := current_waiting()) is not None:
        found = waiting.trace
    return found


@contextlib.contextmanager
def within(trace: StatementTrace) -> Iterator[None]:
    """This thread, and those to which its work is carried (`waiting_time.carried`), work for a statement."""
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


def child(name: str, **attributes: str) -> AbstractContextManager[None]:
    """Context manager for a span within the statement of this thread, if there is one."""
    trace = None if waiting_time.exporter is None else current()
    return _NOTHING if trace is None else trace.child(name, **attributes)


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
