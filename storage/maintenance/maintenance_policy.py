"""Choice of the next maintenance operation (Kudu paper, section 4.11; Kudu's maintenance manager). Pure: no I/O.

Every possible operation has statistics: memory that it would free, log that it would make removable, bytes on the disk,
and improvement of reads. `pick` compares only these numbers, in this order:

    1. log segments that are not needed: removing them costs nothing     LogGC
    2. memory is short                       most freed memory           a flush
    3. much log would have to be replayed    most released log           a flush, oldest deltas first
    4. disk space, over time                 most freed space            UndoDeltaGC, DeletedRowsetGC, DeadRowGC
    5. else                                  the best score above 0      a compaction, or a flush of idle memory

Scores of all kinds are comparable: 1 is about what one rowset less costs or saves in every lookup. A MemRowSet over its
size has a score of at least 1, growing with every megabyte, and so precedes nearly all compactions.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum

from ...model.lazy_dataclass import dataclass

LOG_TARGET_BYTES = 1 << 30
"""Log to be replayed after a crash, of all tablets together: above it, flushes make log free (Kudu's
`log_target_replay_size_mb`)."""
FLUSH_AFTER_SECONDS = 120
"""A MemRowSet or DeltaMemStore that is not full is flushed only when it is older (Kudu's `flush_threshold_secs`)."""
FLUSH_UPPER_SECONDS = 3600
"""At this age its flush has the score of a full one (Kudu's `flush_upper_bound_ms`)."""
DISK_SHARE = 0.5
"""Share of rounds in which disk space precedes speed (Kudu's `data_gc_prioritization_prob`)."""


class OpKind(Enum):
    """The operations, under Kudu's names; Kudu has no operation for single dead rows, but its merges remove them."""

    LOG_GC = "LogGC"
    FLUSH_MEMROWSET = "FlushMemRowSet"
    FLUSH_DELTAS = "FlushDeltaMemStores"
    UNDO_DELTA_GC = "UndoDeltaGC"
    DELETED_ROWSET_GC = "DeletedRowsetGC"
    DEAD_ROW_GC = "DeadRowGC"
    MINOR_DELTA_COMPACTION = "MinorDeltaCompaction"
    MAJOR_DELTA_COMPACTION = "MajorDeltaCompaction"
    COMPACT_ROWSETS = "CompactRowSets"
    REBUILD_BLOOM = "RebuildBloomFilter"


@dataclass(frozen=True, slots=True)
class OpStatistics:
    """Expected effect of an operation.

    Parameters
    ----------
    kind : OpKind
    ram_bytes : int
        Memory that it frees.
    log_bytes : int
        Log that would not have to be replayed; of `LOG_GC`, bytes of segments that can go now.
    disk_bytes : int
        Data on the disk that it frees.
    score : float
        How much it improves reads and writes, in average rowset heights.
    worth : float, optional
        Of a merge that can be postponed: ratio of savings to costs, above 1.
    """

    kind: OpKind
    ram_bytes: int = 0
    log_bytes: int = 0
    disk_bytes: int = 0
    score: float = 0.0
    worth: float | None = None


@dataclass(frozen=True, slots=True)
class StoreCondition:
    """Condition of the whole store, for `pick`.

    Parameters
    ----------
    memory_is_short : bool
        Flushes that free memory precede all others.
    log_bytes : int
        Of all logs together.
    favours_disk : bool
        Whether disk space goes before speed in this round.
    log_target_bytes : int
        Above it, flushes that release most log come first.
    """

    memory_is_short: bool = False
    log_bytes: int = 0
    favours_disk: bool = False
    log_target_bytes: int = LOG_TARGET_BYTES


def is_due(statistics: OpStatistics) -> bool:
    """True if an operation is worth it although neither memory nor disk is short, and logs are not too long.

    >>> is_due(OpStatistics(OpKind.LOG_GC, log_bytes=1)), is_due(OpStatistics(OpKind.FLUSH_DELTAS, ram_bytes=1))
    (True, False)
    """
    is_free = statistics.kind is OpKind.LOG_GC and statistics.log_bytes > 0
    return is_free or statistics.disk_bytes > 0 or statistics.score > 0


def pick(operations: Sequence[OpStatistics], condition: StoreCondition) -> tuple[int, str] | None:
    """The operation to run next: (its position, the reason); None where none is worth it.

    >>> flush = OpStatistics(OpKind.FLUSH_MEMROWSET, ram_bytes=10 << 20, score=0.1)
    >>> merge = OpStatistics(OpKind.COMPACT_ROWSETS, score=2.0)
    >>> pick([flush, merge], StoreCondition())
    (1, 'score 2.00')
    >>> pick([flush, merge], StoreCondition(memory_is_short=True))
    (0, 'memory is short: 10.0 MiB to free')
    """
    places = range(len(operations))
    best = _most([(operations[i].log_bytes, i) for i in places if operations[i].kind is OpKind.LOG_GC])
    if best:
        return best[1], f"{_mebibytes(best[0])} of log that is not needed"
    best = _most([(operations[i].ram_bytes, i) for i in places])
    if condition.memory_is_short and best:
        return best[1], f"memory is short: {_mebibytes(best[0])} to free"
    # If two release the same amount of log, the one that frees more memory.
    logs = [(operations[i].log_bytes, operations[i].ram_bytes, i) for i in places if operations[i].log_bytes > 0]
    if condition.log_bytes > condition.log_target_bytes and logs:
        freed, _, place = max(logs, key=lambda found: (found[0], found[1], -found[2]))
        return place, f"{_mebibytes(condition.log_bytes)} of log: {_mebibytes(freed)} to let go"
    fastest = max(places, key=lambda i: operations[i].score, default=None)
    gains = fastest is not None and operations[fastest].score > 0
    best = _most([(operations[i].disk_bytes, i) for i in places])
    if best and (condition.favours_disk or not gains):
        return best[1], f"{_mebibytes(best[0])} of disk to free"
    if fastest is not None and gains:
        return fastest, f"score {operations[fastest].score:.2f}"
    return None


def flush_score(size: int, threshold: int, age: float) -> float:
    """The score of flushing `size` bytes that are `age` seconds old: 0 while it is better to wait.

    >>> [flush_score(64 << 20, 128 << 20, age) for age in (10, 200, 3600)]
    [0.0, 0.5, 1.0]
    >>> flush_score(140 << 20, 128 << 20, 0.0)
    12.0
    """
    if size >= threshold:
        return max(1.0, (size - threshold) / (1 << 20))
    if not size or age < FLUSH_AFTER_SECONDS:
        return 0.0
    return min(1.0, max(age / FLUSH_UPPER_SECONDS, size / threshold))


def _most(amounts: list[tuple[int, int]]) -> tuple[int, int] | None:
    """The greatest amount above 0, the first of equals."""
    amount, place = max(amounts, key=lambda found: (found[0], -found[1]), default=(0, 0))
    return (amount, place) if amount > 0 else None


def _mebibytes(amount: int) -> str:
    return f"{amount / (1 << 20):.1f} MiB"
