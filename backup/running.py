"""Runs the tasks of a step: in threads of this process, or, by `spark`, in Spark's workers."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from typing import Final, Protocol, TypeAlias, TypeVar

from ..model.lazy_dataclass import dataclass
from ..model.store import Store
from ..storage.files.io_limit import IoLimit

T = TypeVar("T")
R = TypeVar("R")

THREADS: Final = 2
"""Tasks at the same time, by default."""

OpenStore: TypeAlias = Callable[[], Store]
"""The store of a task, in the process that executes it."""


@dataclass(frozen=True, slots=True)
class Progress:
    """The progress of a command: its current step, the tasks in it, and the rows of finished tasks (None if not
    counted)."""

    step: str
    tasks_done: int = 0
    tasks: int = 0
    rows: int | None = None
    seconds: float = 0.0
    is_over: bool = False


Handler: TypeAlias = Callable[[Progress], object]


class Run(Protocol):
    """Executes the tasks of a step."""

    def __call__(
        self, step: str, tasks: Sequence[T], work: Callable[[T], R], rows_of: Callable[[R], int] | None = None
    ) -> list[R]:
        """The results of `work` for each task, in order.

        Parameters
        ----------
        step : str
            The name of the step, for display.
        tasks : sequence
            The first ones are started first; picklable if other processes execute them.
        work : callable
            A function of a module. It may be called twice for a task.
        rows_of : callable, optional
            The number of rows of a result, for the progress.

        Raises the error of a task when no other runs any more.
        """


class Threads:
    """Executes tasks in threads of this process.

    Parameters
    ----------
    threads : int
        Tasks at the same time.
    handler : callable, optional
        Called with the progress after each task.
    io_rate : int, optional
        Bytes per second that all tasks together may read and write; None: no limit.
    """

    def __init__(self, threads: int, handler: Handler | None = None, io_rate: int | None = None):
        self._threads = threads
        self._io_limit = IoLimit(io_rate)
        self._handler = handler

    def __call__(
        self, step: str, tasks: Sequence[T], work: Callable[[T], R], rows_of: Callable[[R], int] | None = None
    ) -> list[R]:
        """Implements `Run`."""
        began = time.monotonic()
        self._report(Progress(step, 0, len(tasks)))
        with ThreadPoolExecutor(self._threads, "nyala-backup") as pool:
            futures = [pool.submit(self._limited, work, task) for task in tasks]
            waiting: set[Future[R]] = set(futures)
            rows = done = 0
            try:
                while waiting:
                    ended, waiting = wait(waiting, return_when=FIRST_EXCEPTION, timeout=0.25)
                    results = [future.result() for future in ended]
                    done += len(results)
                    rows += sum(map(rows_of, results)) if rows_of is not None else 0
                    seconds = time.monotonic() - began
                    counted = None if rows_of is None else rows
                    self._report(Progress(step, done, len(tasks), counted, seconds, not waiting))
            finally:
                pool.shutdown(cancel_futures=True)
        return [future.result() for future in futures]

    def _limited(self, work: Callable[[T], R], task: T) -> R:
        with self._io_limit.counted():
            return work(task)

    def _report(self, progress: Progress) -> None:
        if self._handler is not None:
            self._handler(progress)
