"""Threads that make single rows durable for writers that do not wait for the disk.

    start_row ─► put(row, done) ─► queue of a committer, by tablet ─► one fsync for all rows that wait ─► done(outcome)

The writer is a server's event loop: it enters the row into log and memory, and goes on. `done` replies to the client.
"""

from __future__ import annotations

import logging
import queue
import threading
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Final, NamedTuple, TypeAlias

from ...errors import Error
from ...model.forks import stay_with_process
from ...model.store import WriteResult
from .row_write import StartedRow

COMMITTERS: Final = 4
"""Threads: the logs of several tablets are synced at the same time."""
MOST_TOGETHER: Final = 256
"""Rows after which no more are added to those whose replies wait for each other."""
_log = logging.getLogger("nyala.storage")

Done: TypeAlias = Callable[[WriteResult | Exception], object]
"""Called with the outcome of a row, in the committer's thread."""


class Entered(NamedTuple):
    """A row in the log, not known to be durable."""

    started: StartedRow
    done: Done


class Committers:
    """The threads of one server. Thread-safe; they start with the first row.

    Parameters
    ----------
    finish : callable
        Waits until a row is durable: `Database.finish_row`.
    around : callable, optional
        Makes a context manager for the rows that are committed together, which batches what their `done` sends.
    """

    def __init__(
        self,
        finish: Callable[[StartedRow], WriteResult],
        around: Callable[[], AbstractContextManager[object]] = nullcontext,
    ):
        self._finish = finish
        self._around = around
        self._queues: list[queue.SimpleQueue[Sequence[Entered] | None]] = [
            queue.SimpleQueue() for _ in range(COMMITTERS)
        ]
        # Guards the list of threads.
        self._lock = threading.Lock()
        self._threads: list[threading.Thread] = []
        stay_with_process(self)

    def put(self, started: StartedRow, done: Done) -> None:
        """Has a row committed; `done` is called with the result or the error."""
        self.put_all((Entered(started, done),))

    def put_all(self, rows: Collection[Entered]) -> None:
        """`put` of several rows. A committer is woken once for all rows of its tablets: woken for the first one, it
        would sync that one alone, and take the interpreter from the thread that enters the others."""
        if not self._threads:
            self._start()
        by_queue: dict[int, list[Entered]] = {}
        for row in rows:
            by_queue.setdefault(hash(row.started.tablet.id) % COMMITTERS, []).append(row)
        for number, together in by_queue.items():
            self._queues[number].put(together)

    def _start(self) -> None:
        with self._lock:
            if self._threads:
                return
            threads = [
                threading.Thread(target=self._run, args=(rows,), name=f"nyala-committer-{number}", daemon=True)
                for number, rows in enumerate(self._queues)
            ]
            for thread in threads:
                thread.start()
            self._threads = threads

    def close(self) -> None:
        """Returns when all rows are decided and the threads have ended; after the last `put`."""
        for rows in self._queues:
            rows.put(None)
        with self._lock:
            threads = self._threads
        for thread in threads:
            thread.join()

    def _run(self, rows: queue.SimpleQueue[Sequence[Entered] | None]) -> None:
        while (first := rows.get()) is not None:
            taken = list(first)
            while len(taken) < MOST_TOGETHER and not rows.empty():
                more = rows.get()
                if more is None:
                    rows.put(None)
                    break
                taken += more
            with self._around():
                self._commit(taken)
            del first, taken  # an idle thread must not keep the last clients

    def _commit(self, rows: Iterable[Entered]) -> None:
        # From the last one on: the log syncs all entries before one together with it.
        for started, done in reversed(list(rows)):
            outcome: WriteResult | Exception
            try:
                outcome = self._finish(started)
            except Exception as error:
                if not isinstance(error, Error):
                    # The other rows are durable all the same; the client of this one gets the error.
                    _log.exception("a row could not be finished")
                outcome = error
            try:
                done(outcome)
            except Exception:
                _log.exception("the outcome of a row could not be passed on")
            del outcome  # an error refers to this frame, and in a cycle would keep what was read

    def _abandon(self) -> None:
        """In a forked child: there are no threads."""
