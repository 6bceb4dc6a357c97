"""Tasks that several threads draw one by one."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

from .adaptive_threads import Crew

T = TypeVar("T")


class SharedTasks(Generic[T]):
    """Tasks, each of which one of several threads runs. One future per thread that draws task after task costs less
    than a future per task.

    Attributes
    ----------
    results : list
        In the order of the tasks; None for those that did not run.
    errors : list of BaseException
        The first one ended the others, whose errors come behind it.
    stop : threading.Event
        Set after an error; running tasks should end then.
    """

    def __init__(self, tasks: Sequence[Callable[[], T]]):
        self._tasks = tasks
        self._numbers = itertools.count()
        self.results: list[T | None] = [None] * len(tasks)
        self.errors: list[BaseException] = []
        self.stop = threading.Event()

    def draw(self, keeps: Callable[[], bool]) -> None:
        """Run tasks until none is left, one has failed, or `keeps`, which is called after each, returns False."""
        try:
            while not self.stop.is_set() and (number := next(self._numbers)) < len(self._tasks):
                self.results[number] = self._tasks[number]()
                if not keeps():
                    return
        except BaseException as error:
            self.errors.append(error)
            self.stop.set()

    def finished(self) -> list[T]:
        """Return the results once no thread works any more, or raise the first error.

        The frames of tracebacks refer to the list of errors. It is emptied; otherwise errors, frames, and the rows
        that these read would keep each other alive until the cyclic collector runs.
        """
        if not self.errors:
            return self.results  # type: ignore[return-value]
        error = self.errors[0]
        self.errors.clear()
        try:
            raise error
        finally:
            del error


def timed(crew: Crew, clock: Callable[[], float]) -> Callable[[], bool]:
    """Return a function that reports to `crew` the seconds since its last call, in one thread, and returns whether the
    thread should continue."""
    began = clock()

    def keeps() -> bool:
        nonlocal began
        now = clock()
        is_kept = crew.keeps(now - began)
        began = now
        return is_kept

    return keeps
