"""Results of clients: the durations of their operations, and their statistics.

A client thread records its operations in `Samples`; those of all threads of a process, and then of all processes, are
combined as `Taken`; `Taken.latencies` are the percentiles that a report shows.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from dataclasses import field
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from ...model.lazy_dataclass import dataclass
from .model import Kind, Latencies

Seconds: TypeAlias = npt.NDArray[np.float64]


class Samples:
    """The operations of one thread, in the order in which it did them.

    All memory is allocated in advance, so that recording an operation costs next to nothing while the clock runs.

    Attributes
    ----------
    kinds : list of Kind or None
        The kind of each operation; None if it failed, or was not reached.
    durations : array of float
        In seconds, of the same length as `kinds`.
    rows : int
        Completed operations; for a load, rows.
    error : Exception or None
        The first of `failed`.
    ended : float
        The end of the last one, by `time.perf_counter`.
    """

    __slots__ = ("durations", "ended", "error", "failed", "kinds", "rows")

    def __init__(self, room: int) -> None:
        self.kinds: list[Kind | None] = [None] * room
        self.durations = array("d", bytes(8 * room))
        self.rows = 0
        self.failed = 0
        self.error: Exception | None = None
        self.ended = 0.0


@dataclass(frozen=True, slots=True)
class Taken:
    """The operations of several threads, or of several processes.

    `durations` has those that were completed, by kind, in seconds and no order; `rows` is their number, or for a load
    that of its rows. `ended` is by `time.perf_counter`, which all processes of a machine share. `cpu_seconds` are those
    of the processes, with all their threads.
    """

    durations: dict[Kind, Seconds] = field(default_factory=dict)
    rows: int = 0
    failed: int = 0
    error: str | None = None
    ended: float = 0.0
    cpu_seconds: float = 0.0

    @staticmethod
    def of(samples: Iterable[Samples], cpu_seconds: float) -> Taken:
        """The results of the threads of one process, which took `cpu_seconds` in all."""
        each = [_of_thread(one) for one in samples]
        return Taken.together([*each, Taken(cpu_seconds=cpu_seconds)])

    @staticmethod
    def together(parts: Iterable[Taken]) -> Taken:
        """All of `parts` as one; the error is that of the first part with one."""
        parts = list(parts)
        kinds = [kind for kind in Kind if any(kind in part.durations for part in parts)]
        return Taken(
            {kind: np.concatenate([p.durations[kind] for p in parts if kind in p.durations]) for kind in kinds},
            sum(part.rows for part in parts),
            sum(part.failed for part in parts),
            next((part.error for part in parts if part.error is not None), None),
            max((part.ended for part in parts), default=0.0),
            sum(part.cpu_seconds for part in parts),
        )

    @property
    def latencies(self) -> dict[Kind, Latencies]:
        """By kind, in milliseconds."""
        return {kind: latencies(durations) for kind, durations in self.durations.items()}


def latencies(durations: Seconds) -> Latencies:
    """Mean, percentiles (linear between two durations) and maximum, in milliseconds, of one or more durations in
    seconds."""
    milliseconds = 1000 * durations
    p50, p95, p99, p999 = np.percentile(milliseconds, [50, 95, 99, 99.9]).tolist()
    return Latencies(len(durations), float(milliseconds.mean()), p50, p95, p99, p999, float(milliseconds.max()))


def _of_thread(samples: Samples) -> Taken:
    # An enumeration's members are compared by identity: no hash of a text for each of a million operations.
    durations = np.frombuffer(samples.durations, dtype=np.float64)
    numbers = {id(kind): number for number, kind in enumerate(Kind)}
    codes = np.fromiter((numbers.get(id(kind), -1) for kind in samples.kinds), np.int8, len(samples.kinds))
    by_kind = {kind: durations[codes == number] for number, kind in enumerate(Kind)}
    error = None if samples.error is None else described(samples.error)
    done = {kind: some for kind, some in by_kind.items() if len(some)}
    return Taken(done, samples.rows, samples.failed, error, samples.ended)


def described(error: BaseException) -> str:
    """An error in one line: its class, and the first line of its message."""
    first, _, _ = str(error).strip().partition("\n")
    return f"{type(error).__name__}: {first}" if first else type(error).__name__
