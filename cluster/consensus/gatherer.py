"""Delayed sends of all tablets of a server, in one round of its reactor: entries that tablets hold back
(`raft.replication`) so that more are sent together."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from .workers import Job, guarded

GATHERING = 0.004
"""Seconds."""


class Gatherer:
    """Runs jobs a moment after they were added. Thread-safe.

    Parameters
    ----------
    schedule : callable
        Runs a job at a time of `time.monotonic`.
    """

    def __init__(self, schedule: Callable[[float, Job], None]) -> None:
        self._schedule = schedule
        self._lock = threading.Lock()
        self._jobs: dict[Job, None] = {}

    def add(self, job: Job) -> None:
        """Schedules a job, once, however often it is added."""
        with self._lock:
            is_first = not self._jobs
            self._jobs[job] = None
        if is_first:
            self._schedule(time.monotonic() + GATHERING, self._run)

    def _run(self) -> None:
        with self._lock:
            jobs, self._jobs = self._jobs, {}
        for job in jobs:
            guarded(job)
