"""Upserts at a fixed rate, from several threads: an open loop.

Upsert number n is due n / rate seconds after the start, whatever the state of those before it. The next free writer
executes it. Its latency is counted from its due time. So if an engine stalls for a second, all upserts that were due in
that second are slow. With clients that wait for each response, it would be only one ("coordinated omission").
"""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Sequence
from typing import Final

import numpy as np

from ..ycsb.measured import latencies
from .model import Setting, Upserts, Writer
from .rows import RowStream

_HEAD_START: Final = 0.05
"""Seconds from `OpenLoop.start` to the first upsert's due time."""


class OpenLoop:
    """One phase of upserts, `setting.rate` of them per second for `setting.seconds`.

    Parameters
    ----------
    setting : Setting
    writers : sequence of Writer
        One for each thread.
    streams : sequence of RowStream
        The rows of each.
    """

    def __init__(self, setting: Setting, writers: Sequence[Writer], streams: Sequence[RowStream]) -> None:
        self._rate = setting.rate
        self._asked = max(round(setting.rate * setting.seconds), 1)
        self._seconds = setting.seconds
        self._numbers = itertools.count()
        self._begin = 0.0
        self._latencies: list[list[float]] = [[] for _ in writers]
        self._ended = 0.0
        self._failures: list[Exception] = []
        self._is_halted = threading.Event()
        self._threads = [
            threading.Thread(target=self._run, args=parts, name=f"nyala-bench-writer-{number}", daemon=True)
            for number, parts in enumerate(zip(writers, streams, self._latencies, strict=True))
        ]

    def start(self) -> None:
        """Starts the writers."""
        self._begin = time.perf_counter() + _HEAD_START
        for thread in self._threads:
            thread.start()

    @property
    def is_running(self) -> bool:
        """True if some writers have not ended."""
        return any(thread.is_alive() for thread in self._threads)

    def halt(self) -> None:
        """Ends early, after the upserts in progress."""
        self._is_halted.set()

    def finish(self) -> Upserts:
        """Waits for the writers. Raises the first error of one of them."""
        for thread in self._threads:
            thread.join()
        if self._failures:
            raise self._failures[0]
        taken = np.array(list(itertools.chain.from_iterable(self._latencies)))
        # Upserts begin in the order of their due times: those that did not begin are the last ones.
        waited = self._seconds - np.arange(len(taken), self._asked) / self._rate
        seconds = max(self._ended - self._begin, self._seconds)
        return Upserts(self._asked, len(taken), seconds, latencies(np.concatenate((taken, waited))))

    def _run(self, writer: Writer, stream: RowStream, taken: list[float]) -> None:
        try:
            while (number := next(self._numbers)) < self._asked:
                due = self._begin + number / self._rate
                early = due - time.perf_counter()
                if early > 0:
                    time.sleep(early)
                if self._is_halted.is_set() or time.perf_counter() - self._begin > self._seconds:
                    break
                writer.upsert(stream.next_row())
                taken.append(time.perf_counter() - due)
                stream.acknowledge()
                self._ended = time.perf_counter()
        except Exception as error:
            self._failures.append(error)
            self._is_halted.set()
