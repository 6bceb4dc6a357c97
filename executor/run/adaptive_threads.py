"""Adaptive number of threads for tasks that may hinder each other.

Kernels release the interpreter's lock, so threads can run in parallel; but each must acquire the lock again after each
kernel. If kernels are long (TPC-H's Q1, which computes for every row), two threads take 0.6 times as long as one. Other
kernels last a few microseconds (Q6 and Q19, whose conditions leave few rows, over codes of a byte). Then the threads
wait for each other, and two take 1.2 to 1.4 times as long as one. Other threads of the process, such as writing
clients, then have to queue as well. No estimate distinguishes these cases, and the result depends on the machine. So a
statement measures, and a prepared statement remembers the result.
"""

from __future__ import annotations

import threading

ROUNDS: tuple[tuple[int, float], ...] = ((1, 0.8), (2, 1.1))
"""`(tasks per thread, minimum speed-up)`: checkpoints at which parallel execution falls back to one thread."""
REMEMBERED = 16
"""Number of executions of a plan for which the result of a trial, that one thread is faster, is kept."""
LONG = 0.008
"""Seconds of a task whose kernels are long enough, whatever a trial might measure on a busy machine."""
WORTH_SHARING = 0.01
"""Seconds of work from which on waking other threads pays."""
LARGE_ROWS = 6 * 131_072
"""Rows from which on scans have several morsels for each thread, and the other threads are woken before the first
morsel is done: they join once it has taken `LONG` seconds. Waking a thread in vain costs 50 microseconds."""


class Crew:
    """The threads that work on some tasks of the same kind. Any of them may call it.

    Parameters
    ----------
    threads : int
        Number of threads, at least two.
    alone : float
        Seconds that a task took while only one thread was working.
    """

    def __init__(self, threads: int, alone: float):
        self._threads = threads
        self._alone = alone
        self._lock = threading.Lock()
        self._tasks = 0
        self._seconds = 0.0
        self._rounds = ROUNDS if alone < LONG else ()
        self.is_given_up = False
        """True if the threads hinder each other."""
        self._leaving = 0
        """Number of threads that still have to stop."""

    def keeps(self, seconds: float) -> bool:
        """True if a thread should continue after a task that took `seconds`."""
        with self._lock:
            self._tasks += 1
            self._seconds += seconds
            for rounds, least in self._rounds:
                if self._tasks == rounds * self._threads and self._gain() < least:
                    self._leaving, self._rounds, self.is_given_up = self._threads - 1, (), True
            self._leaving -= (is_leaving := self._leaving > 0)
            return not is_leaving

    def _gain(self) -> float:
        """Speed of all threads together, as a multiple of one thread's."""
        return self._threads * self._alone * self._tasks / max(self._seconds, 1e-9)
