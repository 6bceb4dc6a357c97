"""How many threads get on beside each other.

Kernels release the interpreter's lock, so threads work side by side; but each has to ask for the lock again after each
kernel. Where kernels are long (TPC-H's Q1, which computes for every row) two threads take 0.6 times as long as one.
Where they last a few microseconds (Q6 and Q19, whose conditions leave few rows, over codes of a byte) the threads wait
for each other, two take 1.2 to 1.4 times as long as one, and everybody else in the process has to queue, too: clients
that write, say. No estimate tells these apart, and it depends on the machine; so a statement tries, and a prepared one
remembers.
"""

from __future__ import annotations

import threading

ROUNDS: tuple[tuple[int, float], ...] = ((1, 0.8), (2, 1.1))
"""Once each thread has done so many tasks, they must together be so many times as fast as one alone was; else all but
one go."""
REMEMBERED = 16
"""So many runs of a plan keep to what a trial has shown: that one thread does better."""
LONG = 0.008
"""Seconds of a task whose kernels are long enough, whatever a trial might say on a busy machine."""
WORTH_SHARING = 0.01
"""Seconds of work that are worth the while of waking other threads."""


class Crew:
    """The threads that work on some tasks of the same kind. Any of them may call it.

    Parameters
    ----------
    threads : int
        How many there are, at least two.
    alone : float
        The seconds that a task took while only one thread was at work.
    """

    def __init__(self, threads: int, alone: float):
        self._threads = threads
        self._alone = alone
        self._lock = threading.Lock()
        self._tasks = 0
        self._seconds = 0.0
        self._rounds = ROUNDS if alone < LONG else ()
        self.is_given_up = False
        """Do the threads hinder each other?"""
        self._leaving = 0
        """How many threads have yet to go."""

    def keeps(self, seconds: float) -> bool:
        """Should a thread go on that has just done a task in so many seconds?"""
        with self._lock:
            self._tasks += 1
            self._seconds += seconds
            for rounds, least in self._rounds:
                if self._tasks == rounds * self._threads and self._gain() < least:
                    self._leaving, self._rounds, self.is_given_up = self._threads - 1, (), True
            self._leaving -= (is_leaving := self._leaving > 0)
            return not is_leaving

    def _gain(self) -> float:
        """How many times as fast as one thread all are together."""
        return self._threads * self._alone * self._tasks / max(self._seconds, 1e-9)
