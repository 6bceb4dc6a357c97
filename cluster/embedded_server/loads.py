"""Bulk loads of clients, by the store's own loader: rows become DiskRowSets directly, without log and MemRowSet.

    StartLoad ─► LoadRows 1, 2, 3, ... ─► FinishLoad        all rows, at one timestamp
                                      └─► AbandonLoad       none, nor after `IDLE_SECONDS` without a message

The client names a load, and numbers its messages: a repeated one is processed once. The rows of an unfinished load are
the process's: a restarted server does not have them, and their files are removed when the store opens.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any, TypeAlias

from ...errors import Error, OperationalError, ProtocolError, UnknownTable
from ...storage.database import Database
from ...storage.loads.bulk_load import TableBulkLoader
from ..wire.call_context import CallContext
from ..wire.messages.load_methods import AbandonLoad, FinishLoad, LoadRows, StartLoad
from ..wire.messages.methods import Done, Reply, Request, WriteReply
from ..wire.rows.write_rows import rows_from_bytes
from .call_results import Calls

Handler: TypeAlias = Callable[[Any, CallContext], Reply]
IDLE_SECONDS = 900.0
"""Seconds without a message of the client after which a load is abandoned."""


class _Load:
    """One load; `lock` guards it, also while the loader works."""

    def __init__(self, loader: TableBulkLoader):
        self.lock = threading.Lock()
        self.loader = loader
        self.taken = 0
        """The number of the last message whose rows were accepted."""
        self.failure: Error | None = None
        self.is_over = False
        self.used = time.monotonic()


class OwnedLoads:
    """The loads in progress. Thread-safe."""

    def __init__(self, store: Database, calls: Calls):
        self._store = store
        self._calls = calls
        self._lock = threading.Lock()
        self._loads: dict[str, _Load] = {}

    def handlers(self) -> dict[type[Request], Handler]:
        """Returns the handlers by class of request."""
        return {
            StartLoad: self.start,
            LoadRows: self.load,
            FinishLoad: self.finish,
            AbandonLoad: self.abandon,
        }

    @property
    def count(self) -> int:
        """Number of loads in progress."""
        return len(self._loads)

    # ---- requests ------------------------------------------------------------------------------------------------

    def start(self, request: StartLoad, context: CallContext) -> Done:
        """Starts a load, under its client's name for it."""
        entries = self._store.catalog.entries.values()
        table = next((entry.table for entry in entries if entry.table.id == request.table_id), None)
        if table is None:
            raise UnknownTable("the table that is to be loaded has been dropped")
        with self._lock:
            if request.load_id not in self._loads:
                self._loads[request.load_id] = _Load(self._store.bulk_loader(table))
        return Done()

    def load(self, request: LoadRows, context: CallContext) -> Done:
        """Loads rows. An error of the loader ends the load, and is raised again for later rows."""
        load = self._get(request.load_id)
        with load.lock:
            self._check(load, request.load_id)
            if request.number > load.taken + 1:
                raise ProtocolError(f"rows {load.taken + 1} of load {request.load_id} are missing")
            if request.number == load.taken + 1:
                try:
                    load.loader.append(rows_from_bytes(request.rows))
                except Error as error:
                    load.failure = error
                    raise
                load.taken = request.number
            load.used = time.monotonic()
        return Done()

    def finish(self, request: FinishLoad, context: CallContext) -> WriteReply:
        """Finishes a load: all rows are visible when it returns, none if it raises."""
        return self._calls.once(request.call, context.deadline, WriteReply, lambda: self._finish(request))

    def _finish(self, request: FinishLoad) -> WriteReply:
        load = self._get(request.load_id)
        with load.lock:
            self._check(load, request.load_id)
            if request.messages != load.taken:
                raise ProtocolError(f"load {request.load_id} has {load.taken} of {request.messages} messages")
            try:
                rows = load.loader.finish()
            finally:
                self._end(request.load_id, load)
        timestamp = load.loader.timestamp
        return WriteReply(applied=rows, timestamp=self._store.clock.now() if timestamp is None else timestamp)

    def abandon(self, request: AbandonLoad, context: CallContext) -> Done:
        """Abandons a load, if it is in progress."""
        with self._lock:
            load = self._loads.get(request.load_id)
        if load is not None:
            with load.lock:
                self._end(request.load_id, load)
        return Done()

    # ---- the end -------------------------------------------------------------------------------------------------

    def expire(self) -> None:
        """Abandons the loads of absent clients."""
        limit = time.monotonic() - IDLE_SECONDS
        with self._lock:
            old = [(id, load) for id, load in self._loads.items() if load.used < limit]
        for id, load in old:
            if load.lock.acquire(blocking=False):  # else it is in use
                try:
                    if load.used < limit:
                        self._end(id, load)
                finally:
                    load.lock.release()

    def close(self) -> None:
        """Abandons all loads."""
        with self._lock:
            loads = list(self._loads.items())
        for id, load in loads:
            with load.lock:
                self._end(id, load)

    def _end(self, id: str, load: _Load) -> None:
        """Ends a load. Needs the load's lock."""
        load.is_over = True
        with self._lock:
            self._loads.pop(id, None)
        load.loader.__exit__(None, None, None)

    def _get(self, id: str) -> _Load:
        with self._lock:
            load = self._loads.get(id)
        if load is None:
            raise _unknown(id)
        return load

    def _check(self, load: _Load, id: str) -> None:
        if load.failure is not None:
            raise load.failure
        if load.is_over:
            raise _unknown(id)


def _unknown(id: str) -> OperationalError:
    return OperationalError(
        f"there is no bulk load {id}: its client was silent for {IDLE_SECONDS:.0f} seconds, or another process has "
        "opened the store since; nothing of it was written, start it again"
    )
