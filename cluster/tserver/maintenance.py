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
from ...storage.files.page_cache import PageCache
from ...storage.maintenance.compaction_policy import CompactionPolicy
from ...storage.maintenance.maintenance_ops import flush_largest, memory_bytes
from ...storage.maintenance.manager import (
    MaintenanceManager,
    MaintenanceStatus,
    OperationRecord,
    Rounds,
    note_logs,
    remove_retired,
    sync_logs,
)
from ...storage.maintenance.memory import Memory, MemoryStatus
from ...storage.maintenance.tablet_flush import needs_flush
from ...storage.tablet.tablet import Tablet
from ..tablets.replica import Replica

REFUSAL_SECONDS = 0.05
"""Seconds after a refused write for which others are refused without measuring memory."""
_GROWTH_BYTES = 1 << 20
"""Bytes that are written between two checks for a due flush."""
_log = logging.getLogger("nyala.cluster.tserver")


class Maintenance:
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
        background: bool,
        also: Iterable[Callable[[], object]],
        failed: Callable[[str, Exception], None],
    ):
        self._replicas = replicas
        self._durability = durability
        self._also = tuple(also)
        self._closed = False
        self._grown = 0
        self._refusal = ""
        self._refuses_until = 0.0
        self.memory = Memory(self._memory_bytes, cache, self._relieve, limit_bytes)
        policy = CompactionPolicy(target_bytes=rowset_bytes)
        self._manager = MaintenanceManager(
            self._workable, policy, lambda: self.memory.is_short, failed=lambda tablet, error: failed(tablet.id, error)
        )
        self._rounds = Rounds("nyala-maintenance", self._maintain, background)
        self._housekeeping = Rounds("nyala-housekeeping", self._keep_house, background)

    def tablets(self) -> Iterator[Tablet]:
        """Tablets that maintenance may work on."""
        for replica in self._replicas():
            if replica.state == "RUNNING":
                yield replica.tablet

    def _workable(self) -> Iterator[Tablet]:
        """Returns the tablets that may be flushed and compacted: the rest of a full disk's space is for logs."""
        for replica in self._replicas():
            if replica.state == "RUNNING" and not replica.disk_full:
                yield replica.tablet

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
        self._manager.forget_failures()
        self.wake()

    def wake(self) -> None:
        """Checks at once for work."""
        self._rounds.wake()

    # ---- rounds --------------------------------------------------------------------------------------------------

    def maintain(self) -> list[OperationRecord]:
        """Does the background's work in the calling thread, until no operation is worth it. A failed operation is the
        last one."""
        self._keep_house()
        records = self._run_operations()
        self._keep_house()
        return records

    def status(self) -> MaintenanceStatus:
        """Returns running, finished and possible operations."""
        return self._manager.status()

    def memory_status(self) -> MemoryStatus:
        """Returns the memory of rows and pages, and the limit."""
        return self.memory.measure()

    def stop(self) -> None:
        """Ends the rounds; returns when none is running."""
        self._closed = True
        self._rounds.stop()
        self._housekeeping.stop()

    def close(self) -> None:
        """Closes; after `stop`, when the replicas are closed."""
        self.memory.close()

    def _maintain(self) -> None:
        self._run_operations()

    def _run_operations(self) -> list[OperationRecord]:
        records: list[OperationRecord] = []
        while not self._closed and (record := self._manager.run_one()) is not None:
            records.append(record)
            self.memory.note_freed()
            if record.error:
                fields = {"tablet": record.tablet_id, "operation": record.kind, "error": record.error}
                _log.warning("maintenance failed", extra={"fields": fields})
                break
        return records

    def _keep_house(self) -> None:
        """Does the work that must not wait for a long operation."""
        self.memory.measure()
        if self._durability == "os":
            sync_logs(self.tablets())
        note_logs(self.tablets())
        remove_retired(self.tablets())
        for work in self._also:
            try:
                work()
            except Exception:
                # The other callbacks must run all the same, and this one again in a second.
                _log.exception("housekeeping failed")

    def _memory_bytes(self) -> int:
        return sum(memory_bytes(replica.tablet) for replica in self._replicas())

    def _relieve(self) -> bool:
        return flush_largest(self.tablets())
