"""Threads that all tablets of a server share: a pool of workers, and a timer."""

from __future__ import annotations

import heapq
import itertools
import queue
import sys
import threading
import time
from collections.abc import Callable

Job = Callable[[], None]


class Workers:
    """A fixed number of threads; jobs start in the order of their submission.

    A job handles its own errors; an uncaught one is reported as an uncaught error of a thread. In a server's process
    that ends the process (`wire.process.server_process`), so that nothing continues from a half-done job.
    """

    def __init__(self, name: str, count: int):
        self._jobs: queue.SimpleQueue[Job | None] = queue.SimpleQueue()
        self._threads = [
            threading.Thread(target=self._run, name=f"nyala-{name}-{number}", daemon=True) for number in range(count)
        ]
        for thread in self._threads:
            thread.start()

    def submit(self, job: Job) -> None:
        """Submits a job; returns at once."""
        self._jobs.put(job)

    def close(self) -> None:
        """Returns when all submitted jobs are done and the threads have ended."""
        for _ in self._threads:
            self._jobs.put(None)
        for thread in self._threads:
            thread.join()

    def _run(self) -> None:
        while (job := self._jobs.get()) is not None:
            guarded(job)


class Timer:
    """One thread that calls functions at given times (of `time.monotonic`); they should be short."""

    def __init__(self, name: str) -> None:
        self._due: list[tuple[float, int, Job]] = []
        self._numbers = itertools.count()
        self._closed = False
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._run, name=f"nyala-{name}", daemon=True)
        self._thread.start()

    def schedule(self, when: float, job: Job) -> None:
        """Calls `job` at `when`, or soon after."""
        with self._changed:
            heapq.heappush(self._due, (when, next(self._numbers), job))
            if self._due[0][0] == when:
                self._changed.notify()

    def close(self) -> None:
        """Stops calling; returns when the thread has ended."""
        with self._changed:
            self._closed = True
            self._changed.notify()
        self._thread.join()

    def _run(self) -> None:
        while (job := self._next()) is not None:
            guarded(job)

    def _next(self) -> Job | None:
        with self._changed:
            while not self._closed:
                wait = self._due[0][0] - time.monotonic() if self._due else None
                if wait is not None and wait <= 0:
                    return heapq.heappop(self._due)[2]
                self._changed.wait(wait)
        return None


def guarded(job: Job) -> None:
    """Runs a job; an uncaught error is reported as an uncaught error of a thread."""
    try:
        job()
    except Exception:
        threading.excepthook(threading.ExceptHookArgs((*sys.exc_info(), threading.current_thread())))
