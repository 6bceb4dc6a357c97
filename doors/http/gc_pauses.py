"""Times of the runs of Python's garbage collector, taken without a Python function.

The handler of a signal may run at the entry of any Python function, and an exception of a callback of the collector
reaches no caller: the `KeyboardInterrupt` of a Ctrl-C at that moment would be lost. The callback here is made of
functions in C, between which no handler runs:

    collector ─ (phase, details) ─► min(phase, details, key=...)
                                      key: next(noted) for each of the two, without a look at them
                                              noted: the next number, and perf_counter(), to the end of a deque

So each callback leaves two times, and each collection four: the pause is from the second to the third.
"""

from __future__ import annotations

import contextlib
import gc
import operator
import time
from collections import deque
from collections.abc import Iterator
from functools import partial
from itertools import repeat, starmap
from typing import Final

from ...model import metrics
from ...model.abandoned import is_collecting

_KEPT: Final = 4 * 4096
"""Times that wait to be read. Of more collections between two readings, the newest count: with a server's thresholds
these are some minutes of work that makes many objects."""
_PER_COLLECTION: Final = 4


class GcPauses:
    """Times the runs of the collector, while it is installed."""

    def __init__(self) -> None:
        self._histogram = metrics.Histogram()
        self._times: deque[tuple[int, float]] = deque(maxlen=_KEPT)
        self._note = partial(min, key=len)
        """Replaced by `install`."""

    def install(self) -> None:
        """Begins."""
        clock = starmap(time.perf_counter, repeat(()))
        numbered = enumerate(clock, _PER_COLLECTION // 2 if is_collecting() else 0)
        # `append` returns None, which `min` cannot compare.
        noted = map(operator.not_, map(self._times.append, numbered))
        self._note = partial(min, key=partial(next, noted))
        gc.callbacks.append(self._note)
        metrics.register(self.samples)

    def remove(self) -> None:
        """Ends."""
        with contextlib.suppress(ValueError):
            gc.callbacks.remove(self._note)

    def samples(self) -> Iterator[metrics.Sample]:
        """For `metrics.collect`."""
        self._observe()
        yield metrics.Sample("nyala_gc_pause_seconds", self._histogram.read())

    def _observe(self) -> None:
        """Moves the times of collections that have ended to the histogram."""
        began = 0.0
        with contextlib.suppress(IndexError):  # another reader has taken the rest
            while self._times:
                number, moment = self._times.popleft()
                place = number % _PER_COLLECTION
                if place == 1:
                    began = moment
                    if len(self._times) < 2:  # it runs now
                        self._times.appendleft((number, moment))
                        return
                elif place == 2 and began:
                    self._histogram.observe(moment - began)
