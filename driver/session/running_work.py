"""The running statements and other work of a session, which any thread may cancel."""

from __future__ import annotations

import contextlib
import threading
import weakref
from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import TypeVar

from .executions import Execution, Halt

Stopper = TypeVar("Stopper", Halt, threading.Event)


class RunningWork:
    """The part of `session.Session` that knows its running statements and other work."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._stoppers: set[Halt | threading.Event] = set()
        # Weak, so that a cursor that is dropped half-read takes its statement with it.
        self._running: weakref.WeakSet[Execution] = weakref.WeakSet()

    def executions(self) -> list[Execution]:
        """The statements that run, and those whose rows are not all read."""
        with self._lock:
            return list(self._running)

    def cancellable(self, event: threading.Event | None = None) -> AbstractContextManager[threading.Event]:
        """Work that is no execution: the event, or a new one, which `cancel` sets meanwhile."""
        return self.watched(event or threading.Event())

    @contextlib.contextmanager
    def watched(self, stopper: Stopper) -> Iterator[Stopper]:
        """Register the cancel event of running work; `cancel` sets it."""
        with self._lock:
            self._stoppers.add(stopper)
        try:
            yield stopper
        finally:
            with self._lock:
                self._stoppers.discard(stopper)

    def cancel(self) -> None:
        """Cancel everything that runs now, or is being planned."""
        with self._lock:
            running, stoppers = list(self._running), list(self._stoppers)
        for stopper in stoppers:
            stopper.set()
        for execution in running:
            execution.cancel()
