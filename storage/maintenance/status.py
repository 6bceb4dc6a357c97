"""Operations of maintenance as plain data: what runs, what ran, what waits, and sums by kind.

    a search for operations ──► KindQueue by kind ─┐
    each operation that ends ─► KindTotals by kind ┴──► KindStatus: metrics, nyala_catalog.operation_kinds, pages

Sums are kept while operations are chosen and done, so that reading them looks at no tablet.
"""

from __future__ import annotations

from collections.abc import Iterable

from ...model.lazy_dataclass import dataclass
from .maintenance_policy import OpKind, OpStatistics, is_due


@dataclass(frozen=True, slots=True)
class OperationRecord:
    """An operation that ran or runs.

    Parameters
    ----------
    kind, table, tablet_id, target : str
    reason : str
        Why it was chosen.
    score : float
        Its score at that time.
    started : float
        Seconds since 1970.
    seconds : float
        How long it took; of one that runs, until now.
    error : str
        Why it failed; empty otherwise.
    """

    kind: str
    table: str
    tablet_id: str
    target: str
    reason: str
    score: float
    started: float
    seconds: float
    error: str = ""


@dataclass(frozen=True, slots=True)
class Candidate:
    """An operation that could run, with the numbers that are judged."""

    kind: str
    table: str
    tablet_id: str
    target: str
    ram_bytes: int
    log_bytes: int
    disk_bytes: int
    score: float


@dataclass(frozen=True, slots=True)
class QuarantinedTablet:
    """A tablet without maintenance, because its files are damaged: `damage` has the file and the reason."""

    table: str
    tablet_id: str
    damage: str


@dataclass(slots=True)
class KindTotals:
    """Operations of one kind since the start: how many were done, how many of them failed, their seconds, and the
    bytes of the DiskRowSets that they wrote."""

    done: int = 0
    failed: int = 0
    seconds: float = 0.0
    written_bytes: int = 0


@dataclass(slots=True)
class KindQueue:
    """Operations of one kind that were due at the last search: their number, the best score, and the bytes of memory,
    log and disk that they free together."""

    queued: int = 0
    best_score: float = 0.0
    memory_bytes: int = 0
    log_bytes: int = 0
    disk_bytes: int = 0

    def add(self, statistics: OpStatistics) -> None:
        """Counts one that is due."""
        self.queued += 1
        self.best_score = max(self.best_score, statistics.score)
        self.memory_bytes += statistics.ram_bytes
        self.log_bytes += statistics.log_bytes
        self.disk_bytes += statistics.disk_bytes


def queues_of(operations: Iterable[OpStatistics]) -> dict[str, KindQueue]:
    """The operations that are due, by kind."""
    queues: dict[str, KindQueue] = {}
    for statistics in operations:
        if is_due(statistics):
            queues.setdefault(statistics.kind.value, KindQueue()).add(statistics)
    return queues


@dataclass(frozen=True, slots=True)
class KindStatus:
    """Operations of one kind: a row of `nyala_catalog.operation_kinds`.

    Parameters
    ----------
    kind : str
    running : int
        1 while one runs.
    totals : KindTotals
    queue : KindQueue
        Without the one that runs.
    """

    kind: str
    running: int
    totals: KindTotals
    queue: KindQueue


def kind_statuses(
    running: OperationRecord | None, totals: dict[str, KindTotals], queues: dict[str, KindQueue]
) -> tuple[KindStatus, ...]:
    """One for each kind, in the order of `OpKind`."""
    kinds = [kind.value for kind in OpKind]
    return tuple(
        KindStatus(
            kind,
            int(running is not None and running.kind == kind),
            totals.get(kind, KindTotals()),
            queues.get(kind, KindQueue()),
        )
        for kind in kinds
    )


@dataclass(frozen=True, slots=True)
class MaintenanceStatus:
    """State of maintenance.

    Attributes
    ----------
    running : OperationRecord or None
    completed : tuple of OperationRecord
        The last ones, newest first.
    candidates : tuple of Candidate
        Possible ones; while one runs, those that it was chosen from.
    kinds : tuple of KindStatus
        One for each kind, also of those without operations.
    quarantined : tuple of QuarantinedTablet
        They have no maintenance.
    """

    running: OperationRecord | None
    completed: tuple[OperationRecord, ...]
    candidates: tuple[Candidate, ...]
    kinds: tuple[KindStatus, ...] = ()
    quarantined: tuple[QuarantinedTablet, ...] = ()
