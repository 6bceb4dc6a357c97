"""The catalog of the leading master: durable in the system tablet, in memory to be asked, one change at a time.

    a new leader    load: rows of the system tablet ─► CatalogState, an empty TabletDirectory
    a change        system tablet, then memory; whoever waits for something is woken
    a failure       of a write leaves open whether the change is durable: everything is loaded again

Locks, in the order in which they are taken: `ddl_lock` (one change at a time, held while it is replicated), `changed`
(state and directory in memory, never held while anything is waited for but itself).
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
        """The term in which this master leads and serves; None where it does not."""

    @property
    def leader_address(self) -> str:
        """Where the leading master listens, as far as this one knows; "" otherwise."""

    @property
    def disk_full(self) -> str:
        """Why nothing can be written to this master's disk; "" where there is space."""

    def check_leader(self) -> None:
        """Raise `NotTheLeader` unless no other master can have become the leader."""

    def load(self, deadline: float) -> Sequence[Record]:
        """All rows."""

    def check_space(self) -> None:
        """Raise `DiskFull` where a change could not be made durable, as too many masters' disks are full."""

    def write(self, change: Change, deadline: float) -> None:
        """Make a change durable, all of it or nothing. An error leaves open which."""


class CatalogManager:
    """See the module's page. Safe for several threads.

    Parameters
    ----------
    rows : CatalogRows
    monotonic : callable
        Seconds; tests pass their own.
    """

    def __init__(self, rows: CatalogRows, monotonic: Callable[[], float] = time.monotonic):
        self.rows = rows
        self.monotonic = monotonic
        self.ddl_lock = threading.Lock()
        self.changed = threading.Condition()
        self.news = 0
        """Counts what may have given somebody something to do (`notify`)."""
        self._state = CatalogState()
        self._directory = TabletDirectory((), 0.0)
        self._loaded_term: int | None = None

    # ---- leading ---------------------------------------------------------------------------------------------------

    @property
    def is_leading(self) -> bool:
        """Does this master lead, with everything loaded?"""
        return self._loaded_term is not None and self._loaded_term == self.rows.serving_term

    def leading(self) -> tuple[CatalogState, TabletDirectory]:
        """The catalog and the directory; `NotTheLeader` where another master has them, or none yet. The directory may
        be looked at as long as `changed` is held."""
        if not self.is_leading:
            address = self.rows.leader_address
            if self.rows.serving_term is not None:
                raise NotTheLeader("this master has begun to lead, and is loading the catalog", address)
            told = f"the master at {address} leads" if address else "no master leads at the moment"
            if not address and self.rows.disk_full:
                told += f", and this one cannot be elected: {self.rows.disk_full}"
            raise NotTheLeader(f"this master does not lead: {told}", address)
        return self._state, self._directory

    def asked(self) -> tuple[CatalogState, TabletDirectory]:
        """`leading`, where it is certain that no other master has been elected meanwhile: for answers to clients."""
        self.rows.check_leader()
        return self.leading()

    def load(self) -> bool:
        """Load everything where this master has begun to lead; did it?"""
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
        """Hold `ddl_lock`, from which on nobody else changes the catalog; gives the state."""
        if not self.ddl_lock.acquire(timeout=max(0.0, deadline - time.monotonic())):
            raise DeadlineExceeded("other changes of the catalog have taken all the time that was given for this one")
        try:
            yield self.leading()[0]
        finally:
            self.ddl_lock.release()

    def commit(self, change: Change, deadline: float) -> CatalogState:
        """Make a change durable, then visible; the caller is `changing`. Gives the state after it. `DiskFull`, with
        nothing done, where there is no space for it."""
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
        """Wake whoever waits for something; the caller holds `changed`."""
        self.news += 1
        self.changed.notify_all()

    def wait(
        self, look: Callable[[CatalogState, TabletDirectory], T | None], deadline: float, what: Callable[[], str]
    ) -> T:
        """Wait until `look` gives something, and give that. `DeadlineExceeded` says `what` is not so yet;
        `NotTheLeader` where another master leads meanwhile."""
        with self.changed:
            while True:
                found = look(*self.leading())
                if found is not None:
                    return found
                left = deadline - time.monotonic()
                if left <= 0:
                    raise DeadlineExceeded(f"it is not so, in the time given, that {what()}")
                # Time makes a difference too: leadership, and what `look` finds.
                self.changed.wait(min(left, 0.25))
