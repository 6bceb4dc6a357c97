"""Completion of writes whose log entries are decided, with replies that are sent together.

The thread that decides an entry holds the lock of its consensus, and only submits a job. Entries are decided many at a
time, and their jobs run together. Usually the deciding thread runs them itself, after releasing the lock
(`Completions.here`): waking another thread costs as much as the work. Jobs that may block run on a dedicated thread,
for all tablets of the server: a log thread that waited for a writer that waits for it would deadlock.
"""

from __future__ import annotations

import contextlib
import logging
import queue
import threading
from collections.abc import Callable, Collection
from contextlib import AbstractContextManager

from ...net.frame_server import gathering
from ...net.turn_batching import TurnBatch

_log = logging.getLogger("nyala.cluster.tserver")

MOST_TOGETHER = 256
"""Most jobs whose replies wait for each other."""

Job = Callable[[], None]


class Completions:
    """Runs completions; see the module's page. Thread-safe."""

    def __init__(self) -> None:
        self._jobs: queue.SimpleQueue[Job | None] = queue.SimpleQueue()
        self._held: TurnBatch[Job] = TurnBatch(self._do_all)
        self._thread = threading.Thread(target=self._run, name="nyala-completions", daemon=True)
        self._thread.start()

    def submit(self, job: Job, waits: bool) -> None:
        """Schedules a job; never blocks, and may be called with any lock held. `waits`: the job may have to wait for a
        tablet's lock, or for the log."""
        if waits or not self._held.add(job):
            self._jobs.put(job)

    def here(self) -> AbstractContextManager[None]:
        """Context manager: jobs that this thread submits within it, and that do not block, run at its end in this
        thread."""
        return self._held.turn()

    def close(self) -> None:
        """Returns when all submitted jobs are done and the thread has ended."""
        self._jobs.put(None)
        self._thread.join()

    def _run(self) -> None:
        goes_on = True
        while goes_on:
            job = self._jobs.get()
            with gathering():
                goes_on = self._do(job) and self._do_waiting()
            del job  # while this thread waits for another one, it would keep the tablet's files in use

    def _do_waiting(self) -> bool:
        with contextlib.suppress(queue.Empty):
            for _ in range(MOST_TOGETHER):
                if not self._do(self._jobs.get_nowait()):
                    return False
        return True

    def _do_all(self, jobs: Collection[Job]) -> None:
        with gathering():
            for job in jobs:
                self._do(job)

    def _do(self, job: Job | None) -> bool:
        if job is None:
            return False
        try:
            job()
        except Exception:
            # The other jobs must run all the same; the client of this one gets no reply and retries.
            _log.exception("a write could not be finished")
        return True
