"""Client threads: each has its own client, all start at once, and each reads its clock after every operation.

    with ClientThreads(binding, [operating(operations) for operations in plan]) as threads:   # clients are created
        began = threads.begin(seconds=60)                                                     # the clock runs
        taken = threads.finish()                                                              # the last has ended

Requests are generated before the clock runs; a client is created, used and closed by the same thread. A store that
never responds does not block the harness: `GRACE` after the deadline it is an error.
"""

from __future__ import annotations

import math
import queue
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, nullcontext
from typing import Final, Protocol, Self, TypeAlias

from ...errors import OperationalError
from .measured import Samples, Taken
from .model import Binding, Client, Fields, Kind
from .processors import on_one_processor

GRACE: Final = 60.0
"""Seconds that an operation may still take after the end of the time limit."""


class Operations(Protocol):
    """The operations of one client: `operations.ClientOperations`."""

    def __len__(self) -> int: ...

    def execute(self, index: int, client: Client) -> Kind: ...


class Limit:
    """The time at which clients stop, by `time.perf_counter`; moved to the past, it stops running clients."""

    __slots__ = ("deadline",)

    def __init__(self) -> None:
        self.deadline = math.inf

    def stop(self) -> None:
        self.deadline = -math.inf


Work: TypeAlias = Callable[[Client, Limit], Samples]
"""The work of one thread with its client, until the limit."""
Batches: TypeAlias = Iterator[tuple[Sequence[str], Sequence[Fields]]]
"""Keys and rows, of equal number."""


def operating(operations: Operations) -> Work:
    """All operations of one client, in order. One that raises an error is counted, and the next one follows."""

    def work(client: Client, limit: Limit) -> Samples:
        samples = Samples(len(operations))
        kinds, durations, execute, clock = samples.kinds, samples.durations, operations.execute, time.perf_counter
        for index in range(len(operations)):
            if samples.ended >= limit.deadline:
                break
            began = clock()
            try:
                kinds[index] = execute(index, client)
                samples.rows += 1
            except Exception as error:
                samples.failed += 1
                samples.error = samples.error or error
            samples.ended = ended = clock()
            durations[index] = ended - began
        return samples

    return work


def loading(batches: Batches, most: int) -> Work:
    """Batches of rows, from an iterator shared by all threads, of at most `most` batches. The first error ends the
    load."""

    def work(client: Client, limit: Limit) -> Samples:
        samples = Samples(most)
        for index, (keys, rows) in enumerate(batches):
            if samples.ended >= limit.deadline:
                break
            began = time.perf_counter()
            client.load(keys, rows)
            samples.ended = time.perf_counter()
            samples.kinds[index] = Kind.INSERT
            samples.durations[index] = samples.ended - began
            samples.rows += len(keys)
        return samples

    return work


class ClientThreads:
    """One thread per work. Leaving the context always stops and joins them.

    Parameters
    ----------
    binding : Binding
        A running store's.
    works : sequence of Work
        One per thread.
    first : int, default 0
        The number of the first thread among those of all processes, for its name.
    processor : int, optional
        The threads stay on this one (`processors`).
    """

    def __init__(self, binding: Binding, works: Sequence[Work], first: int = 0, processor: int | None = None) -> None:
        self._binding = binding
        self._processor = processor
        self._limit = Limit()
        self._go = threading.Event()
        self._reports: queue.SimpleQueue[Samples | BaseException | None] = queue.SimpleQueue()
        self._cpu = 0.0
        self._threads = [
            threading.Thread(target=self._run, args=(work,), name=f"nyala-ycsb-{number}", daemon=True)
            for number, work in enumerate(works, first)
        ]

    def __enter__(self) -> Self:
        """Starts the threads, and returns when each has its client; raises the error if one could not get it."""
        try:
            with nullcontext() if self._processor is None else on_one_processor(self._processor):
                for thread in self._threads:
                    thread.start()
            self._gather()
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._end()

    def begin(self, seconds: float) -> float:
        """Starts all threads, which stop after `seconds` (may be infinite); returns the start time."""
        began = time.perf_counter()
        self._limit.deadline = began + seconds
        self._cpu = time.process_time()
        self._go.set()
        return began

    def finish(self) -> Taken:
        """The results, when all have ended. Raises the first error that is not an operation's own."""
        samples = [report for report in self._gather() if report is not None]
        return Taken.of(samples, time.process_time() - self._cpu)

    def _gather(self) -> list[Samples | None]:
        """One report of each thread; raises the first error among them."""
        reports = [self._report() for _ in self._threads]
        for report in reports:
            if isinstance(report, BaseException):
                raise report
        return [report for report in reports if not isinstance(report, BaseException)]

    def _report(self) -> Samples | BaseException | None:
        left = self._limit.deadline - time.perf_counter() + GRACE if self._go.is_set() else GRACE
        try:
            # A load has an infinite limit. Waiting without a timeout would block Ctrl-C on some platforms.
            return self._reports.get(timeout=min(max(left, GRACE), threading.TIMEOUT_MAX))
        except queue.Empty:
            raise OperationalError(f"{self._binding.name} has not replied to a client for {GRACE:g} seconds") from None

    def _run(self, work: Work) -> None:
        try:
            with closing(self._binding.client()) as client:
                self._reports.put(None)
                self._go.wait()
                samples = work(client, self._limit)
        except BaseException as error:
            self._limit.stop()
            self._reports.put(error)
        else:
            self._reports.put(samples)

    def _end(self) -> None:
        self._limit.stop()
        self._go.set()
        patience = time.perf_counter() + GRACE
        for thread in self._threads:
            if thread.ident is not None:
                thread.join(timeout=max(0.0, patience - time.perf_counter()))
