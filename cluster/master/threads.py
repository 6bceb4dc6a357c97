"""Threads that wait for other servers' responses: they end with the process, whatever they are waiting for."""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections.abc import Callable

Job = Callable[[], None]
_log = logging.getLogger("nyala.cluster.master")


class Callers:
    """A fixed number of threads that run jobs in the order of submission.

    Unlike an executor's threads, they do not delay the end of the process. A call to an unresponsive server may take
    long, and the next leader repeats its work.
    """

    def __init__(self, name: str, count: int):
        self._jobs: queue.SimpleQueue[Job] = queue.SimpleQueue()
        self._is_closed = False
        self._threads = [
            threading.Thread(target=self._run, name=f"nyala-{name}-{number}", daemon=True) for number in range(count)
        ]
        for thread in self._threads:
            thread.start()

    @property
    def is_closed(self) -> bool:
        """True if running jobs should end."""
        return self._is_closed

    def submit(self, job: Job) -> None:
        """Submits a job; returns at once."""
        self._jobs.put(job)

    def close(self, seconds: float = 2.0) -> None:
        """Starts no more jobs, and waits `seconds` for the running ones."""
        self._is_closed = True
        for _ in self._threads:
            self._jobs.put(lambda: None)
        end = time.monotonic() + seconds
        for thread in self._threads:
            thread.join(max(0.0, end - time.monotonic()))

    def _run(self) -> None:
        while True:
            job = self._jobs.get()
            if self._is_closed:
                return
            try:
                job()
            except Exception:
                _log.exception("a job failed")
