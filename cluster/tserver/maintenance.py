"""Background work of a tablet server: one manager and one memory limit for all its replicas, as `Database` has for
tablets.

    nyala-maintenance     flushes, compactions, removal of log and history: one operation at a time
    nyala-housekeeping    every second: logs, retired files, unread scans, tablets to be removed

A write passes `admit` first. Above 80 % of the memory limit it is slowed down, and above the limit it is refused with
`ServerOverloaded`: a call that waited for a flush would hold a thread of the server, and the client can wait as well.
Replicated entries are not refused: only flushes make room for them.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Iterator

from ...errors import MemoryLimitExceeded, ServerOverloaded
from ...storage.files.io_limit import IoLimit
from ...storage.files.page_cache import PageCache
from ...storage.maintenance.background import BackgroundWork
from ...storage.maintenance.compaction_policy import CompactionPolicy
from ...storage.maintenance.maintenance_ops import memory_bytes
from ...storage.maintenance.status import OperationRecord
from ...storage.maintenance.tablet_flush import needs_flush
from ...storage.tablet.tablet import Tablet
from ..tablets.replica import Replica

REFUSAL_SECONDS = 0.05
"""Seconds after a refused write for which others are refused without measuring memory."""
_GROWTH_BYTES = 1 << 20
"""Bytes that are written between two checks for a due flush."""
_log = logging.getLogger("nyala.cluster.tserver")


class Maintenance(BackgroundWork):
    """The background work of all replicas of a server. Thread-safe.

    Parameters
    ----------
    replicas : callable
        Returns the current replicas.
    cache : PageCache
    durability : str
        "os": logs are synced once a second here.
    rowset_bytes : int
        Target size of DiskRowSets for compactions.
    limit_bytes : int, optional
        Of memory; half of the machine's if None.
    io_limit : IoLimit
        The ceiling of the files that operations, and copies of replicas, read and write.
    background : bool
        False: work happens only in `maintain`.
    also : callables
        Extra callbacks for the housekeeping thread, run once a second.
    failed : callable
        Called with a tablet's id and the error when work on its files has failed.
    """

    def __init__(
        self,
        replicas: Callable[[], Iterable[Replica]],
        cache: PageCache,
        *,
        durability: str,
        rowset_bytes: int,
        limit_bytes: int | None,
        io_limit: IoLimit,
        background: bool,
        also: Iterable[Callable[[], object]],
        failed: Callable[[str, Exception], None],
    ):
        self._replicas = replicas
        self._met = failed
        self._grown = 0
        self._refusal = ""
        self._refuses_until = 0.0
        super().__init__(
            self._running,
            cache,
            CompactionPolicy(target_bytes=rowset_bytes),
            limit_bytes=limit_bytes,
            syncs_logs=durability == "os",
            starts=background,
            tasks=[_logged(task) for task in also],
            io_limit=io_limit,
        )

    def _running(self) -> Iterator[Tablet]:
        """Tablets that maintenance may work on."""
        for replica in self._replicas():
            if replica.state == "RUNNING":
                yield replica.tablet

    def _workable(self) -> Iterator[Tablet]:
        """Returns the tablets that may be flushed and compacted: the rest of a full disk's space is for logs."""
        for replica in self._replicas():
            if replica.state == "RUNNING" and not replica.disk_full:
                yield replica.tablet

    def _memory_bytes(self) -> int:
        return sum(memory_bytes(replica.tablet) for replica in self._replicas())

    def _failed(self, tablet: Tablet, error: Exception) -> None:
        self._met(tablet.id, error)

    # ---- admission -----------------------------------------------------------------------------------------------

    def admit(self, size: int) -> None:
        """Admits a write of about `size` bytes, perhaps after a delay. Raises `ServerOverloaded`, with nothing done, if
        memory is full."""
        try:
            self.memory.admit(size, waits=False)
        except MemoryLimitExceeded as error:
            full = next((replica.disk_full for replica in self._replicas() if replica.disk_full), "")
            self._refusal = f"{error}; {full}" if full else str(error)
            self._refuses_until = time.monotonic() + REFUSAL_SECONDS
            self.wake()
            raise ServerOverloaded(self._refusal) from None

    def admit_at_once(self, size: int) -> bool:
        """As `admit`, if that needs no wait; False, with nothing done, if it might."""
        return self.memory.admit_at_once(size)

    def is_overloaded(self) -> str:
        """Returns the reason for which no write would be admitted now; "" if one may be. Cheap: memory is not
        measured."""
        return self._refusal if time.monotonic() < self._refuses_until else ""

    def written(self, tablet: Tablet, size: int) -> None:
        """Counts the bytes of a finished write: a flush may be due."""
        # A concurrent addition may be lost; the rounds check every second anyway.
        self._grown += size
        if self._grown > _GROWTH_BYTES:
            self._grown = 0
            if needs_flush(tablet):
                self.wake()

    def try_again(self) -> None:
        """Retries failed operations at once: there is space again."""
        self.manager.forget_failures()
        self.wake()

    def _run_operations(self, until_idle: bool) -> list[OperationRecord]:
        records = super()._run_operations(until_idle)
        if records and records[-1].error:
            failed = records[-1]
            fields = {"tablet": failed.tablet_id, "operation": failed.kind, "error": failed.error}
            _log.warning("maintenance failed", extra={"fields": fields})
        return records


def _logged(task: Callable[[], object]) -> Callable[[], None]:
    """The task, whose exceptions are logged: the other tasks run all the same, and it runs again in a second."""

    def run() -> None:
        try:
            task()
        except Exception:
            _log.exception("housekeeping failed")

    return run
