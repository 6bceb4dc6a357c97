"""The running statements and other work of a session, which any thread may cancel; and which of them are measured:

    planned just now                     measured: planning took far longer than that
    prepared, slow the last time         measured
    prepared, fast the last time         one of `SAMPLED` is measured

Measuring costs about 5 us for each operator, and 1 us for each batch. The result is kept with the plan, and drawn when
it is looked at; fast executions that were just planned are not kept.
"""

from __future__ import annotations

import contextlib
import threading
import weakref
from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import Final, TypeAlias, TypeVar

from .executions import Execution, Halt

Stopper = TypeVar("Stopper", Halt, threading.Event)
KEPT_SECONDS: Final = 0.02
"""Executions that took as long are kept."""
SAMPLED: Final = 128
"""One of `SAMPLED` fast executions of a prepared statement is measured, and kept."""


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


class PastRuns:
    """State that a prepared statement keeps from one execution to the next.

    Attributes
    ----------
    serial_runs : dict of int to int
        The executor's: see `ExecutionContext.serial_runs`.
    runs : int
        Executions so far.
    seconds : float
        Duration of the last one that has ended.
    """

    __slots__ = ("runs", "seconds", "serial_runs")

    def __init__(self) -> None:
        self.serial_runs: dict[int, int] = {}
        self.runs = 0
        self.seconds = 0.0

    def begin(self) -> bool:
        """An execution begins; True if it is to be measured."""
        number = self.runs
        self.runs = number + 1
        return not number % SAMPLED or self.seconds >= KEPT_SECONDS

    def end(self, seconds: float) -> bool:
        """An execution has ended, which was measured; True if its operators are to be kept."""
        self.seconds = seconds
        return seconds >= KEPT_SECONDS or self.runs > 1


Past: TypeAlias = PastRuns | None
