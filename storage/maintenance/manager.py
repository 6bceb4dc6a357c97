"""Background operations: the maintenance manager of a store (Kudu paper, section 4.11). `background` drives it.

    round:   list the operations of all tablets (`maintenance_ops`) ─► pick one (`maintenance_policy`) ─► do it ─┐
                 ▲                                                                                                │
                 └────────────────────────────────────────────────────────────────────────────────────────────────┘
             until nothing is worth it; then wait for a second, or for a writer that says that memory is full

One operation runs at a time and works in one thread, so that the rest of the machine is left to statements; merges
pause between each other while statements run (`throttle`). Each operation is small: a compaction reads at most its
budget, so that the next decision comes soon, and under memory pressure that decision is a flush. Writers do not depend
on it: if memory is full during a long operation, a writer flushes another tablet itself (`memory`); if its own
MemRowSet has twice its size, it flushes that. A writer may have to wait only for an operation on its own tablet, since
flushes and compactions of one tablet exclude each other: for one budget of reads and writes, at most.

A failing disk does not stop maintenance: the round ends, and the tablet is retried after a second, two, four, up to a
minute. Retries are safe because failed operations change nothing.
"""

from __future__ import annotations

import logging
import random
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import replace

from ...model.lazy_dataclass import dataclass
from ..files.io_limit import IoLimit
from ..tablet.between_transactions import Postponed
from ..tablet.tablet import Tablet
from .compaction_policy import CompactionPolicy
from .maintenance_ops import Operation, TabletOperations
from .maintenance_policy import DISK_SHARE, LOG_TARGET_BYTES, StoreCondition, pick
from .precedence import GaveWay, is_urgent
from .status import (
    Candidate,
    KindQueue,
    KindStatus,
    KindTotals,
    MaintenanceStatus,
    OperationRecord,
    kind_statuses,
    queues_of,
)
from .throttle import Pace

_log = logging.getLogger("nyala.storage")

FIRST_DELAY, LAST_DELAY = 1.0, 60.0
"""Seconds until a tablet is tried again after a failure; each further failure doubles them."""
HISTORY = 32
"""Operations that are remembered for `MaintenanceManager.status`."""


@dataclass(slots=True)
class _Failure:
    """A tablet that is left alone until `retry`."""

    delay: float
    retry: float
    error: str


class MaintenanceManager:
    """Chooses and runs the operations of all tablets of a store, one at a time. Safe for several threads.

    Parameters
    ----------
    tablets : callable
        All tablets that there are now.
    policy : CompactionPolicy
    memory_is_short : callable
        Whether flushes should free memory before anything else is done.
    log_target_bytes : int
        Log of all tablets together above which flushes make log free.
    clock : callable
        Seconds, never going back.
    failed : callable
        Called with the tablet and the error when work on a tablet, or a look at it, has failed.
    io_limit : IoLimit, optional
        The ceiling of the files that operations read and write; none if None. It does not delay an operation while
        memory is short, or a statement waits for the tablet.
    """

    def __init__(
        self,
        tablets: Callable[[], Iterable[Tablet]],
        policy: CompactionPolicy,
        memory_is_short: Callable[[], bool],
        log_target_bytes: int = LOG_TARGET_BYTES,
        clock: Callable[[], float] = time.monotonic,
        failed: Callable[[Tablet, Exception], None] = lambda tablet, error: None,
        io_limit: IoLimit | None = None,
    ):
        self._tablets = tablets
        self._policy = policy
        self._memory_is_short = memory_is_short
        self._log_target_bytes = log_target_bytes
        self._clock = clock
        self._failed = failed
        self.io_limit = io_limit or IoLimit()
        self._random = random.Random(1)
        self._pace = Pace(clock)
        self._lock = threading.Lock()
        """One operation at a time."""
        self._known: weakref.WeakKeyDictionary[Tablet, TabletOperations] = weakref.WeakKeyDictionary()
        self._failures: weakref.WeakKeyDictionary[Tablet, _Failure] = weakref.WeakKeyDictionary()
        self._fruitless: weakref.WeakKeyDictionary[Tablet, tuple[object, set[tuple[str, str]]]] = (
            weakref.WeakKeyDictionary()
        )
        """Operations that changed nothing of the state they were run on."""
        self._running: OperationRecord | None = None
        self._completed: deque[OperationRecord] = deque(maxlen=HISTORY)
        self._totals: dict[str, KindTotals] = {}
        self._queues: dict[str, KindQueue] = {}
        """Of the last search; replaced as a whole."""
        self._waiting: tuple[Candidate, ...] = ()
        """The operations that the running one was chosen from; replaced as a whole."""

    def kinds(self) -> tuple[KindStatus, ...]:
        """Operations by kind, as of the last search for operations; looks at no tablet."""
        return kind_statuses(self._running, self._totals, self._queues)

    def run_one(self) -> OperationRecord | None:
        """Run the operation that is worth most; None where there is none, or what there is rests. An error is in the
        record."""
        with self._lock:
            self._pace.look()
            possible = self._operations()
            operations = [operation for operation in possible if self._pace.allows(operation.statistics)]
            condition = StoreCondition(
                self._memory_is_short(),
                sum(tablet.log.size for tablet in self._tablets()),
                self._random.random() < DISK_SHARE,
                self._log_target_bytes,
            )
            found = pick([operation.statistics for operation in operations], condition)
            if found is None:
                return None
            chosen = operations[found[0]]
            rest = [operation for operation in possible if operation is not chosen]
            self._waiting = tuple(_candidate(operation) for operation in rest)
            self._queues = queues_of(operation.statistics for operation in rest)
            return self._perform(chosen, found[1])

    def status(self) -> MaintenanceStatus:
        """Running, done, and to be done, as plain data. Unless an operation runs, the tablets are searched for possible
        ones."""
        running, candidates = self._running, self._waiting
        if running is not None:
            running = replace(running, seconds=time.time() - running.started)
        elif self._lock.acquire(blocking=False):
            try:
                candidates = tuple(_candidate(operation) for operation in self._operations())
            finally:
                self._lock.release()
        return MaintenanceStatus(running, tuple(reversed(self._completed)), candidates, self.kinds())

    # ---- one operation -------------------------------------------------------------------------------------------

    def _operations(self) -> list[Operation]:
        now = self._clock()
        operations: list[Operation] = []
        for tablet in self._tablets():
            failure = self._failures.get(tablet)
            if failure is not None and now < failure.retry:
                continue
            known = self._known.get(tablet)
            if known is None:
                known = self._known[tablet] = TabletOperations(tablet, self._policy)
            state, fruitless = self._fruitless.get(tablet, (None, set()))
            try:
                mine = known.candidates(now)
            # As in `_perform`: statistics may read a file, and an error in one tablet must not stop the others.
            except Exception as error:
                if not tablet.is_dropped:
                    self._record_failed_look(tablet, error)
                    self._failed(tablet, error)
                continue
            operations += [o for o in mine if state is not tablet.state or _key(o) not in fruitless]
        self._queues = queues_of(operation.statistics for operation in operations)
        return operations

    def _perform(self, operation: Operation, reason: str) -> OperationRecord:
        tablet, statistics = operation.tablet, operation.statistics
        record = OperationRecord(
            statistics.kind.value,
            tablet.table.name,
            tablet.id,
            operation.target,
            reason,
            statistics.score,
            time.time(),
            0.0,
        )
        self._running = record
        began = self._clock()
        before: object = tablet.state
        sizes = _sizes(tablet)
        error = ""
        try:
            with self.io_limit.counted(lambda: is_urgent(tablet) or self._memory_is_short()):
                self._pace.run(statistics, operation.run)
        except GaveWay:
            record = replace(record, reason=f"{reason}; gave way to COMPACT TABLE")
            before = None  # it is not fruitless: it has not been tried
        except Postponed as postponed:
            # Another tablet may have no majority: this one rests, and the thread goes on with the others.
            error = str(postponed)
        # Whatever is wrong with one tablet, the others go on; the record says what it was.
        except Exception as failure:
            if not tablet.is_dropped:
                error = f"{type(failure).__name__}: {failure}"
                self._failed(tablet, failure)
        finally:
            self._running, self._waiting = None, ()
        record = replace(record, seconds=self._clock() - began, error=error)
        if tablet.is_dropped:
            return record
        self._log_outcome(tablet, record)
        self._note(operation, before, error)
        self._completed.append(record)
        self._add(record, sizes, tablet)
        return record

    def _add(self, record: OperationRecord, before: dict[int, int], tablet: Tablet) -> None:
        totals = self._totals.setdefault(record.kind, KindTotals())
        totals.done += 1
        totals.failed += bool(record.error)
        totals.seconds += record.seconds
        if not record.error:
            after = _sizes(tablet)
            totals.written_bytes += sum(max(0, size - before.get(id_, 0)) for id_, size in after.items())

    def _note(self, operation: Operation, before: object, error: str) -> None:
        tablet = operation.tablet
        if error:
            self._give_rest(tablet, error)
            return
        self._failures.pop(tablet, None)
        if before is not None and tablet.state is before:
            state, fruitless = self._fruitless.get(tablet, (None, set()))
            if state is not before:
                self._fruitless[tablet] = (before, fruitless := set())
            fruitless.add(_key(operation))

    def forget_failures(self) -> None:
        """Let tablets be worked on at once that rest because something failed."""
        self._failures.clear()

    def _give_rest(self, tablet: Tablet, error: str) -> None:
        """Something failed: the tablet is tried again later."""
        last = self._failures.get(tablet)
        delay = FIRST_DELAY if last is None else min(2 * last.delay, LAST_DELAY)
        self._failures[tablet] = _Failure(delay, self._clock() + delay, error)

    def _log_outcome(self, tablet: Tablet, record: OperationRecord) -> None:
        """Log the first of several equal failures of a tablet, and that it works again."""
        before = self._failures.get(tablet)
        said = "" if before is None else before.error
        where = f"{record.kind} of tablet {record.tablet_id} of table {record.table}"
        if record.error and record.error != said:
            delay = FIRST_DELAY if before is None else min(2 * before.delay, LAST_DELAY)
            _log.warning("%s failed, nothing was changed, next try in %.0f s: %s", where, delay, record.error)
        elif said and not record.error:
            _log.warning("%s succeeded after failures: %s", where, said)

    def _record_failed_look(self, tablet: Tablet, error: Exception) -> None:
        reason = "to see what could be done"
        told = f"{type(error).__name__}: {error}"
        record = OperationRecord("look", tablet.table.name, tablet.id, "", reason, 0.0, time.time(), 0.0, told)
        self._log_outcome(tablet, record)
        self._give_rest(tablet, told)
        self._completed.append(record)


def _sizes(tablet: Tablet) -> dict[int, int]:
    """Bytes of a tablet's DiskRowSets by number; those of an operation's output are new, or larger."""
    return {stored.metadata.id: stored.metadata.data_bytes for stored in tablet.state.rowsets}


def _key(operation: Operation) -> tuple[str, str]:
    return operation.statistics.kind.value, operation.target


def _candidate(operation: Operation) -> Candidate:
    tablet, judged = operation.tablet, operation.statistics
    return Candidate(
        judged.kind.value,
        tablet.table.name,
        tablet.id,
        operation.target,
        judged.ram_bytes,
        judged.log_bytes,
        judged.disk_bytes,
        judged.score,
    )
