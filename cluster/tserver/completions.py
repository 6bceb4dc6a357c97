"""Finishes writes whose log entries are decided, and lets their answers travel together.

Whoever decides an entry holds the lock of its consensus, and only hands on the word. Entries are decided many at a
time; what was handed on together is finished together. As a rule the thread that decided does that itself, once it has
let go of the lock (`Completions.here`): to wake another one costs as much as the work. What may wait is left to a
thread of its own, for all tablets of the server: a log that waited for a writer who waits for it would do so for ever.
"""

from __future__ import annotations

import contextlib
import logging
import queue
import threading
from collections.abc import Callable, Collection
from contextlib import AbstractContextManager

from ..wire.calls.call_service import gathering
from ..wire.calls.turn_batching import HeldBack

_log = logging.getLogger("nyala.cluster.tserver")

MOST_TOGETHER = 256
"""Jobs whose answers wait for each other."""

Job = Callable[[], None]


class Completions:
    """See the module's page. Safe for several threads."""

    def __init__(self) -> None:
        self._jobs: queue.SimpleQueue[Job | None] = queue.SimpleQueue()
        self._held: HeldBack[Job] = HeldBack(self._do_all)
        self._thread = threading.Thread(target=self._run, name="nyala-completions", daemon=True)
        self._thread.start()

    def submit(self, job: Job, waits: bool) -> None:
        """Have the job done soon; takes no time itself, and may be called with any lock held. `waits`: it may have to
        wait for a tablet's lock, or for the log."""
        if waits or not self._held.add(job):
            self._jobs.put(job)

    def here(self) -> AbstractContextManager[None]:
        """Jobs that this thread submits meanwhile, and that do not wait, are done by it at the end."""
        return self._held.turn()

    def close(self) -> None:
        """Return when all jobs that were submitted are done, and the thread has ended."""
        self._jobs.put(None)
        self._thread.join()

    def _run(self) -> None:
        goes_on = True
        while goes_on:
            job = self._jobs.get()
            with gathering():
                goes_on = self._do(job) and self._do_waiting()

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
            # The others are to be done all the same; who waits for this one hears nothing and asks again.
            _log.exception("a write could not be finished")
        return True
