"""Throttle of merges: postponable merges pause between each other while statements run.

    merge ████                ████                ████         while clients are busy
    merge ████████████████████████████████████████████         while the process has nothing else to do

A merge acquires the interpreter lock many times, and uses a processor; on a small machine it slows clients down. The
less it saves for its cost, the longer it waits: a merge that saves twice its cost waits twice the duration of the
previous one; one that saves hardly more than its cost, a minute. So merging never stops, and if it falls behind,
rowsets overlap more, merges save more, and pause less. The CPU clocks of the process and of the thread show whether
statements run.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from .maintenance_policy import OpStatistics

RESTS = 2.0
"""Pause before a merge that saves twice its cost, as a multiple of the last merge's duration."""
LONGEST_REST = 60.0
"""Seconds."""
BUSY = 0.2
"""Number of processors used by other threads of the process from which on it counts as busy."""
LOOK_SECONDS = 0.5
"""Interval, in seconds, at which processor use is measured."""


class Pace:
    """Says when merges may run. For one thread at a time.

    Parameters
    ----------
    clock : callable
        Seconds, never going back.
    process_time, thread_time : callable
        Seconds of a processor that the process and the calling thread have had.
    """

    def __init__(
        self,
        clock: Callable[[], float] = time.monotonic,
        process_time: Callable[[], float] = time.process_time,
        thread_time: Callable[[], float] = time.thread_time,
    ):
        self._clock = clock
        self._process_time = process_time
        self._thread_time = thread_time
        self._own = 0.0
        """Seconds of a processor that operations took."""
        self._others = process_time()
        self._looked = clock()
        self._is_busy = False
        self._ended = float("-inf")
        """When the last merge ended, and how long it took."""
        self._took = 0.0

    def look(self) -> None:
        """See what others are doing; to be called before each decision."""
        now, others = self._clock(), self._process_time() - self._own
        if now >= self._looked + LOOK_SECONDS:
            self._is_busy = others - self._others > BUSY * (now - self._looked)
            self._looked, self._others = now, others

    def allows(self, operation: OpStatistics) -> bool:
        """True if the operation may run now."""
        if operation.worth is None or not self._is_busy:
            return True
        gain = max(operation.worth - 1.0, 1e-9)
        return self._clock() >= self._ended + min(LONGEST_REST, self._took * RESTS / gain)

    def run(self, operation: OpStatistics, work: Callable[[], object]) -> None:
        """Do its work; raises what that raises."""
        began, own = self._clock(), self._thread_time()
        try:
            work()
        finally:
            self._own += self._thread_time() - own
            if operation.worth is not None:
                self._ended = self._clock()
                self._took = self._ended - began
