"""The time that a statement has waited for servers that fail or do not respond, over all of its requests.

    Session.run, TableHandle, Client   as_statement()        one `WaitingTime` for all work inside
    thread pools of the statement      within(waiting)       the same one in another thread
    a request of a cluster's client    add(began, ended)     an attempt that failed, a pause before the next

Stores of this process wait for no server and count nothing.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar

exporter: Any = None
"""The exporter of statements' spans (`tracing.Tracing`); None, and `tracing` is not imported, unless there is one."""
P = ParamSpec("P")
S = TypeVar("S")
T = TypeVar("T")


class WaitingTime:
    """Seconds of one statement. Simultaneous waits of its requests count once. Safe for several threads.

    >>> waiting = WaitingTime()
    >>> waiting.add(1.0, 3.0)
    >>> waiting.add(2.0, 4.5)
    >>> waiting.seconds
    3.5
    """

    __slots__ = ("_lock", "_spans", "seconds", "trace")

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._spans: list[tuple[float, float]] = []
        """Disjoint, as (began, ended)."""
        self.seconds = 0.0
        self.trace: Any = None
        """The span of the statement (`tracing.StatementTrace`), if it has one."""

    def add(self, began: float, ended: float) -> None:
        """Count the time between two readings of `time.monotonic`."""
        with self._lock:
            apart = [span for span in self._spans if span[1] < began or span[0] > ended]
            meeting = [span for span in self._spans if not (span[1] < began or span[0] > ended)]
            whole = min([began, *(b for b, _ in meeting)]), max([ended, *(e for _, e in meeting)])
            self._spans = [*apart, whole]
            self.seconds = sum(e - b for b, e in self._spans)


_current: ContextVar[WaitingTime | None] = ContextVar("nyala_waiting_time", default=None)


def current_waiting() -> WaitingTime | None:
    """The waiting time of the statement that this thread works for; None outside of statements."""
    return _current.get()


@contextlib.contextmanager
def within(waiting: WaitingTime | None) -> Iterator[None]:
    """Work for this statement in this thread. Must not enclose a `yield` to the caller."""
    token = _current.set(waiting)
    try:
        yield
    finally:
        _current.reset(token)


@contextlib.contextmanager
def as_statement() -> Iterator[None]:
    """Count all work inside as one statement, or as part of the enclosing statement."""
    if _current.get() is not None:
        yield
        return
    with within(WaitingTime()):
        yield


def one_statement(method: Callable[Concatenate[S, P], T]) -> Callable[Concatenate[S, P], T]:
    """Decorate a method: a call is `as_statement`."""

    @wraps(method)
    def call(self: S, /, *args: P.args, **kwargs: P.kwargs) -> T:
        with as_statement():
            return method(self, *args, **kwargs)

    return call


def carried(work: Callable[P, T]) -> Callable[P, T]:
    """Wrap `work` for another thread, so that it counts for the statement of this one."""
    waiting = _current.get()
    if waiting is None:
        return work

    @wraps(work)
    def call(*args: P.args, **kwargs: P.kwargs) -> T:
        with within(waiting):
            return work(*args, **kwargs)

    return call
