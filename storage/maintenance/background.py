"""The background work on a set of tablets: of an embedded store, or of a tablet server. Two threads, one memory limit.

nyala-maintenance     flushes, compactions, removal of log and history (`manager`): one operation at a time
nyala-housekeeping    every second: logs, unused files, free memory, and tasks of the store that must not wait for an
                      operation
"""

from __future__ import annotations

import contextlib
import logging
import threading
import time
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence

from ...errors import DiskError
from ...model import metrics
from ..files.io_limit import IoLimit
from ..files.page_cache import PageCache
from ..malloc import HeapTrimmer
from ..tablet.tablet import Tablet
from .compaction_policy import CompactionPolicy
from .maintenance_ops import flush_largest, memory_bytes
from .manager import MaintenanceManager
from .memory import Memory
from .status import MaintenanceStatus, OperationRecord

_log = logging.getLogger("nyala.storage")

INTERVAL = 1.0
"""Seconds between rounds; with durability "os" a power failure loses about this much."""
REST = 800
"""Rest after a search for operations that finds none, as a multiple of its processor time: with hundreds of idle
tablets, a search each second would take most of the processor time of their server."""
LONGEST_REST = 10.0
"""Seconds."""


class Rounds:
    """A thread that calls a function every second until it is stopped; `wake` starts a round at once.

    Parameters
    ----------
    name : str
        Of the thread.
    round_ : bound method without arguments
        Held weakly: a store without references ends its thread. A number that it returns is the least time until the
        next round, in seconds.
    starts : bool
        False: no thread is started.
    interval : float
        Seconds between rounds.
    """

    def __init__(self, name: str, round_: Callable[[], object], starts: bool = True, interval: float = INTERVAL):
        self._interval = interval
        self._round = weakref.WeakMethod(round_)
        self._wake = threading.Event()
        self._stopped = False
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        if starts:
            self._thread.start()

    def wake(self) -> None:
        """Start a round soon."""
        self._wake.set()

    def stop(self) -> None:
        """End the thread; returns when its round is over."""
        self._stopped = True
        self._wake.set()
        if self._thread.is_alive() and self._thread is not threading.current_thread():
            self._thread.join()

    def _run(self) -> None:
        rest: object = None
        while True:
            self._wake.wait(self._interval if not isinstance(rest, float) else max(rest, self._interval))
            self._wake.clear()
            if self._stopped:
                return
            run = self._round()
            if run is None:
                return
            rest = None
            try:
                rest = run()
            except Exception:  # the next round is as good as any: what is wrong may pass
                _log.exception("a round of %s failed", threading.current_thread().name)
            del run


class BackgroundWork:
    """Flushes, compactions and housekeeping of all tablets of a store, or of a server. Safe for several threads.

    Parameters
    ----------
    tablets : callable
        Returns the current tablets.
    cache : PageCache
        Gives way to rows in memory.
    policy : CompactionPolicy
    limit_bytes : int, optional
        Of memory; half of the machine's if None.
    syncs_logs : bool
        True with durability "os": the housekeeping syncs logs, on which no writer waits.
    starts : bool
        False: no thread is started; `maintain` does the work.
    first : callable
        Called by the maintenance thread before each round of operations.
    tasks : sequence of callables
        Called by each round of housekeeping. An exception ends the round.
    io_limit : IoLimit, optional
        The ceiling of the files that operations read and write; None: a new one without limit. `stop` ends its waits.
    """

    def __init__(
        self,
        tablets: Callable[[], Iterable[Tablet]],
        cache: PageCache,
        policy: CompactionPolicy,
        *,
        limit_bytes: int | None,
        syncs_logs: bool,
        starts: bool,
        first: Callable[[], object] = lambda: None,
        tasks: Sequence[Callable[[], object]] = (),
        io_limit: IoLimit | None = None,
    ):
        self.tablets = tablets
        self._cache = cache
        self._syncs_logs = syncs_logs
        self._first = first
        self._tasks = tuple(tasks)
        self._stopped = False
        self._heap = HeapTrimmer()
        self.memory = Memory(self._memory_bytes, cache, self._relieve, limit_bytes)
        self.io_limit = io_limit or IoLimit()
        self.manager = MaintenanceManager(
            tablets, policy, lambda: self.memory.is_short, failed=self._failed, io_limit=self.io_limit
        )
        metrics.register(self.samples)
        self._maintenance = Rounds("nyala-maintenance", self._maintain, starts)
        self._housekeeping = Rounds("nyala-housekeeping", self._keep_house, starts)

    def wake(self) -> None:
        """Look for operations at once."""
        self._maintenance.wake()

    def maintain(self, until_idle: bool = True) -> list[OperationRecord]:
        """Do the threads' work in the calling thread: operations until none is worth it, or only the next one.

        Returns the records in order. A failed operation is the last one.
        """
        self._keep_house()
        records = self._run_operations(until_idle)
        self._keep_house()
        return records

    def status(self) -> MaintenanceStatus:
        """Running, finished and possible operations."""
        return self.manager.status()

    def samples(self) -> Iterator[metrics.Sample]:
        """For `metrics.collect`; none after `stop`."""
        if not self._stopped:
            from .observed import tablet_samples, work_samples  # few processes are observed

            yield from tablet_samples(self.tablets())
            yield from work_samples(self.memory.measure(), self._cache, self.manager)
            yield from self.io_limit.samples()

    def stop(self) -> None:
        """End the threads; returns when no round is running."""
        self._stopped = True
        self.io_limit.stop()
        self._maintenance.stop()
        self._housekeeping.stop()

    def close(self) -> None:
        """Release the memory limit; after `stop`, when the tablets are closed."""
        self.memory.close()

    # ---- tasks ---------------------------------------------------------------------------------------------------

    def _memory_bytes(self) -> int:
        """Bytes of rows and deltas in memory."""
        return sum(memory_bytes(tablet) for tablet in self.tablets())

    def _failed(self, tablet: Tablet, error: Exception) -> None:
        """Called when work on a tablet, or a look at it, has failed."""

    # ---- rounds --------------------------------------------------------------------------------------------------

    def _maintain(self) -> float:
        self._first()
        began = time.thread_time()
        if self._run_operations(until_idle=True):
            return 0.0
        return min(REST * (time.thread_time() - began), LONGEST_REST)

    def _run_operations(self, until_idle: bool) -> list[OperationRecord]:
        records: list[OperationRecord] = []
        while not self._stopped and (record := self.manager.run_one()) is not None:
            records.append(record)
            self.memory.note_freed()
            if record.error or not until_idle:
                break
        return records

    def _keep_house(self) -> None:
        self.memory.measure()
        keep_house(self.tablets(), self._syncs_logs)
        for task in self._tasks:
            task()
        self._heap.check()

    def _relieve(self) -> bool:
        return flush_largest(self.tablets())


def keep_house(tablets: Iterable[Tablet], syncs_logs: bool) -> None:
    """Keep the logs and files of tablets in order. Steps that a disk refuses are retried next time.

    1. Logs on which no writer waits are synced (durability "os").
    2. What a failed write has left in a log is cut away. If a segment was finished, the tablet's metadata notes it: the
       loss of the next one is noticed then.
    3. Files that are out of use and have no readers are removed.
    """
    refused = contextlib.suppress(DiskError)  # made once: a server may have hundreds of tablets
    for tablet in tablets:
        if syncs_logs:
            with refused:
                tablet.log.sync_now()
        with refused:
            tablet.log.repair()
            tablet.note_log(tablet.log.finished_index)
        with refused:
            tablet.remove_retired()
