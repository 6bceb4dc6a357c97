"""Threads that all tablets of a server share: some that work off jobs, and one that knows what is due when."""

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
    """A fixed number of threads; jobs are begun in the order in which they came.

    A job deals with its own errors; one that gets away from it is reported as that of a thread is. In a server's
    process that ends the process (`wire.process.server_process`): nothing is to go on with what the job has left half
    done.
    """

    def __init__(self, name: str, count: int):
        self._jobs: queue.SimpleQueue[Job | None] = queue.SimpleQueue()
        self._threads = [
            threading.Thread(target=self._run, name=f"nyala-{name}-{number}", daemon=True) for number in range(count)
        ]
        for thread in self._threads:
            thread.start()

    def submit(self, job: Job) -> None:
        """Have a thread do this; returns at once."""
        self._jobs.put(job)

    def close(self) -> None:
        """Return when all jobs that were submitted are done, and the threads have ended."""
        for _ in self._threads:
            self._jobs.put(None)
        for thread in self._threads:
            thread.join()

    def _run(self) -> None:
        while (job := self._jobs.get()) is not None:
            guarded(job)


class Timer:
    """One thread that calls functions at their times (of `time.monotonic`); they should be short."""

    def __init__(self, name: str) -> None:
        self._due: list[tuple[float, int, Job]] = []
        self._numbers = itertools.count()
        self._closed = False
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._run, name=f"nyala-{name}", daemon=True)
        self._thread.start()

    def schedule(self, when: float, job: Job) -> None:
        """Call `job` at `when`, or soon after."""
        with self._changed:
            heapq.heappush(self._due, (when, next(self._numbers), job))
            if self._due[0][0] == when:
                self._changed.notify()

    def close(self) -> None:
        """Call nothing any more; returns when the thread has ended."""
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
    """Do a job; an error that gets away from it is reported as that of a thread is."""
    try:
        job()
    except Exception:
        threading.excepthook(threading.ExceptHookArgs((*sys.exc_info(), threading.current_thread())))
