"""Background work of an open store, as its owner sees it: run it, look at it, limit it."""

from __future__ import annotations

from dataclasses import replace

from ..maintenance.background import BackgroundWork
from ..maintenance.memory import MemoryStatus
from ..maintenance.status import MaintenanceStatus, OperationRecord
from .damage_notes import quarantined
from .table_store import TableStore


class BackgroundMethods:
    """The part of `storage.database.Database` for background work."""

    _maintenance: BackgroundWork
    _stores: dict[str, TableStore]

    def maintain(self, until_idle: bool = True) -> list[OperationRecord]:
        """Do what the background does: operations until none is worth it, or the next one. Returns their records, in
        order; one that failed is the last."""
        self._check_open()
        return self._maintenance.maintain(until_idle)

    def maintenance_status(self) -> MaintenanceStatus:
        """Operations that run, that ran and that could be run, and the tablets in quarantine."""
        self._check_open()
        return replace(self._maintenance.status(), quarantined=quarantined(list(self._stores.values())))

    def memory_status(self) -> MemoryStatus:
        """Memory used by rows and pages, and its limit."""
        self._check_open()
        return self._maintenance.memory.measure()

    def limit_maintenance_io(self, rate: int | None) -> None:
        """Set the bytes per second that background work may read and write from now on; None: no limit."""
        self._check_open()
        self._maintenance.io_limit.rate = rate

    def _check_open(self) -> None:
        raise NotImplementedError
