"""Threads that all tablets of a server share."""

from __future__ import annotations

import queue
import sys
import threading
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


def guarded(job: Job) -> None:
    """Runs a job; an uncaught error is reported as an uncaught error of a thread."""
    try:
        job()
    except Exception:
        threading.excepthook(threading.ExceptHookArgs((*sys.exc_info(), threading.current_thread())))
