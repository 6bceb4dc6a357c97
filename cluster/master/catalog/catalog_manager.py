"""The catalog of the leading master: durable in the system tablet, readable in memory, changed one change at a time.

    a new leader    load: rows of the system tablet ─► CatalogState, an empty TabletDirectory
    a change        system tablet, then memory; waiting threads are woken
    a failure       of a write leaves open whether the change is durable: everything is loaded again

Locks, in the order in which they are acquired: `ddl_lock` (one change at a time, held during replication), `changed`
(state and directory in memory, never held during a wait for anything but itself).
"""

from __future__ import annotations

import logging
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Protocol, TypeVar

from ....errors import DeadlineExceeded, NotTheLeader
from ..directory import TabletDirectory
from .catalog_state import CatalogState
from .records import Change, ClusterRecord, Record, TabletRecord

_LOAD_SECONDS = 30.0
_log = logging.getLogger("nyala.cluster.master")
T = TypeVar("T")


class CatalogRows(Protocol):
    """The rows of the catalog, replicated over the masters. Deadlines are of `time.monotonic`."""

    @property
    def serving_term(self) -> int | None:
        """The term in which this master leads and serves; None if it does not."""

    @property
    def leader_address(self) -> str:
        """Address of the leading master, if known; "" otherwise."""

    @property
    def absence(self) -> str:
        """The reason for which this master has no catalog: it waits for a copy, or was removed; "" if it has one."""

    @property
    def disk_full(self) -> str:
        """The reason for which this master's disk cannot be written; "" if there is space."""

    def check_leader(self) -> None:
        """Raises `NotTheLeader` unless no other master can have become the leader."""

    def load(self, deadline: float) -> Sequence[Record]:
        """Returns all rows."""

    def check_space(self) -> None:
        """Raises `DiskFull` if a change could not be made durable, as too many masters' disks are full."""

    def write(self, change: Change, deadline: float) -> None:
        """Makes a change durable, atomically. After an error its outcome is unknown."""


class CatalogManager:
    """The catalog of the leading master; see the module's page. Thread-safe.

    Parameters
    ----------
    rows : CatalogRows
    monotonic : callable
        Returns seconds; tests pass their own.
    """

    def __init__(self, rows: CatalogRows, monotonic: Callable[[], float] = time.monotonic):
        self.rows = rows
        self.monotonic = monotonic
        self.ddl_lock = threading.Lock()
        self.changed = threading.Condition()
        self.news = 0
        """Counts events that may have made work (`notify`)."""
        self._state = CatalogState()
        self._directory = TabletDirectory((), 0.0)
        self._loaded_term: int | None = None

    # ---- leading ---------------------------------------------------------------------------------------------------

    @property
    def is_leading(self) -> bool:
        """True if this master leads, with everything loaded."""
        return self._loaded_term is not None and self._loaded_term == self.rows.serving_term

    def leading(self) -> tuple[CatalogState, TabletDirectory]:
        """Returns the catalog and the directory; raises `NotTheLeader` if another master has them, or none yet. Reading
        the directory needs `changed`."""
        if not self.is_leading:
            address = self.rows.leader_address
            if self.rows.serving_term is not None:
                raise NotTheLeader("this master has begun to lead, and is loading the catalog", address)
            if absence := self.rows.absence:
                raise NotTheLeader(absence, address)
            reason = f"the master at {address} leads" if address else "no master leads at the moment"
            if not address and self.rows.disk_full:
                reason += f", and this one cannot be elected: {self.rows.disk_full}"
            raise NotTheLeader(f"this master does not lead: {reason}", address)
        return self._state, self._directory

    def confirmed(self) -> tuple[CatalogState, TabletDirectory]:
        """Like `leading`, with the certainty that no other master has been elected meanwhile: for replies to
        clients."""
        self.rows.check_leader()
        return self.leading()

    def load(self) -> bool:
        """Loads everything if this master has begun to lead; True if it did."""
        term = self.rows.serving_term
        if term is None or self._loaded_term == term:
            return False
        with self.ddl_lock:
            now = self.monotonic()
            state = CatalogState.from_records(self.rows.load(time.monotonic() + _LOAD_SECONDS))
            if state.cluster is None:
                first = Change((ClusterRecord(uuid.uuid4().hex),))
                self.rows.write(first, time.monotonic() + _LOAD_SECONDS)
                state = state.applied(first)
            with self.changed:
                self._state = state
                self._directory = TabletDirectory(state.tablets.values(), now)
                self._loaded_term = term
                self.notify()
        _log.info("leads", extra={"fields": {"term": term, "tables": len(state.tables)}})
        return True

    # ---- changes ---------------------------------------------------------------------------------------------------

    @contextmanager
    def changing(self, deadline: float) -> Iterator[CatalogState]:
        """Holds `ddl_lock`, which excludes other changes of the catalog; yields the state."""
        if not self.ddl_lock.acquire(timeout=max(0.0, deadline - time.monotonic())):
            raise DeadlineExceeded("timed out waiting for other changes of the catalog")
        try:
            yield self.leading()[0]
        finally:
            self.ddl_lock.release()

    def commit(self, change: Change, deadline: float) -> CatalogState:
        """Makes a change durable, then visible, within `changing`; returns the state after it. Raises `DiskFull`, with
        nothing done, if there is no space for it."""
        assert self.ddl_lock.locked()
        self.rows.check_space()
        try:
            self.rows.write(change, deadline)
        except BaseException:
            self._loaded_term = None
            raise
        with self.changed:
            self._state = self._state.applied(change)
            now = self.monotonic()
            for kind, id_ in change.removes:
                if kind == TabletRecord.kind:
                    self._directory.drop(id_)
            for record in change.puts:
                if isinstance(record, TabletRecord) and record.id not in self._directory.tablets:
                    self._directory.add(record, now)
            self.notify()
            return self._state

    def notify(self) -> None:
        """Wakes waiting threads; the caller holds `changed`."""
        self.news += 1
        self.changed.notify_all()

    def wait(
        self, look: Callable[[CatalogState, TabletDirectory], T | None], deadline: float, what: Callable[[], str]
    ) -> T:
        """Waits until `look` returns a value other than None, and returns it. `DeadlineExceeded` names `what` was
        waited for; `NotTheLeader` if another master leads meanwhile."""
        with self.changed:
            while True:
                value = look(*self.leading())
                if value is not None:
                    return value
                left = deadline - time.monotonic()
                if left <= 0:
                    raise DeadlineExceeded(f"timed out waiting until {what()}")
                # Conditions also depend on time: leadership, and the result of `look`.
                self.changed.wait(min(left, 0.25))
