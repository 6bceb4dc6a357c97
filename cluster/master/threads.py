"""Threads that wait for other servers' answers: they end with the process, whatever they still wait for."""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections.abc import Callable

Job = Callable[[], None]
_log = logging.getLogger("nyala.cluster.master")


class Callers:
    """A fixed number of threads that do jobs in the order in which they came.

    Unlike an executor's, they hold up nobody who wants to end: a call to a server that stands still may last for long,
    and what it was for is done again by whoever leads then.
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
        """Should jobs that are under way come to their end?"""
        return self._is_closed

    def submit(self, job: Job) -> None:
        """Have a thread do this; returns at once."""
        self._jobs.put(job)

    def close(self, seconds: float = 2.0) -> None:
        """Begin no job any more, and wait so long for those that are under way."""
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
