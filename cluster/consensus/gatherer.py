"""Delayed sends of all tablets of a server, on one thread: entries that tablets hold back (`raft.replication`) so that
more are sent together."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager

from .workers import Job, guarded

GATHERING = 0.004
"""Seconds."""


class Gatherer:
    """Runs jobs a moment after they were added. Thread-safe.

    Parameters
    ----------
    around : callable
        Makes the context manager within which the jobs of one batch run.
    """

    def __init__(self, around: Callable[[], AbstractContextManager[object]]) -> None:
        self._around = around
        self._changed = threading.Condition()
        self._jobs: dict[Job, None] = {}
        self._is_closed = False
        self._thread = threading.Thread(target=self._run, name="nyala-gatherer", daemon=True)
        self._thread.start()

    def add(self, job: Job) -> None:
        """Schedules a job, once, however often it is added."""
        with self._changed:
            self._jobs[job] = None
            if len(self._jobs) == 1:
                self._changed.notify()

    def close(self) -> None:
        """Returns when all added jobs are done and the thread has ended."""
        with self._changed:
            self._is_closed = True
            self._changed.notify()
        self._thread.join()

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._jobs or self._is_closed)
                if not self._jobs:
                    return
            time.sleep(GATHERING)
            with self._changed:
                jobs, self._jobs = self._jobs, {}
            with self._around():
                for job in jobs:
                    guarded(job)
