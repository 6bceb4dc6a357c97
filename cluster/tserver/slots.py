"""The tablets of a server, and the state of each.

                    open                        DeleteTablet                       files removed
    BOOTSTRAPPING ───────► RUNNING ──────────────────────────────► TOMBSTONED
          │                 │   ▲                                   │      ▲
          └────► FAILED ◄───┘   └────────────── COPYING ◄───────────┘      │ copy aborted
                                                   └───────────────────────┘
                                   StartBootstrap, also from RUNNING: one that is too far behind

These states are reported. Three more are internal: NEW, without data yet; FORGOTTEN, without a tombstone, but with
files that are still read; GONE, a slot that was dropped.

An operation that changes a replica's state holds the slot's lock for its whole duration: opening, creating, removing
and copying exclude each other for one tablet, and exclude nothing else. Reports read without the lock.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from ...errors import ServerUnavailable
from ..consensus.consensus_file import ConsensusState
from ..raft.messages import Configuration
from ..tablets.replica import Replica
from ..wire.messages import methods
from ..wire.messages.methods import TabletReport
from .directories import DataDirectory

REPORTED = ("BOOTSTRAPPING", "RUNNING", "COPYING", "FAILED", "TOMBSTONED")
"""The reported states."""


@dataclass(eq=False, slots=True)
class Slot:
    """A tablet at this server; see the module's page. Changes need `lock`; reads do not."""

    id: str
    directory: DataDirectory
    state: str
    replica: Replica | None = None
    """Of a RUNNING slot. It may have failed itself (`Replica.state`)."""
    description: methods.Tablet | None = None
    kept: ConsensusState | None = None
    """Of a replica that is not open: the state that it must keep."""
    error: str = ""
    lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def path(self) -> str:
        """Path of its files."""
        return self.directory.of(self.id)

    @property
    def size(self) -> int:
        """Bytes of its rowsets, if it is open."""
        replica = self.replica
        return 0 if replica is None else replica.data_bytes

    def report(self) -> TabletReport:
        """Returns its report."""
        replica = self.replica
        if replica is not None and self.state == "RUNNING":
            return replica.report()
        kept, description = self.kept, self.description
        return TabletReport(
            tablet_id=self.id,
            table_id="" if description is None else str(description.table["id"]),
            state=self.state,
            role="",
            term=0 if kept is None else kept.term,
            leader="",
            configuration=Configuration(()) if kept is None else kept.configuration,
            schema_version=0 if description is None else int(description.table["version"]),
            error=self.error,
        )


class Slots:
    """The slots of a server by tablet. Thread-safe.

    Parameters
    ----------
    on_change : callable
        Called with the id of each tablet that has changes to report.
    """

    def __init__(self, on_change: Callable[[str], None]):
        self._on_change = on_change
        self._mutex = threading.Lock()
        """Guards the two below; acquired within a slot's lock, or alone."""
        self._slots: dict[str, Slot] = {}
        self._closed = False

    def get(self, tablet_id: str) -> Slot | None:
        """Returns the slot of a tablet; None if there is none."""
        return self._slots.get(tablet_id)

    def all(self) -> list[Slot]:
        """Returns the current slots, by id."""
        with self._mutex:
            return sorted(self._slots.values(), key=lambda slot: slot.id)

    def claim(self, tablet_id: str, directory: DataDirectory) -> Slot:
        """Returns the slot of a tablet; a NEW one if there is none, with this directory for the time being. Raises
        `ServerUnavailable` if the server is stopping."""
        with self._mutex:
            if self._closed:
                raise ServerUnavailable("the server is shutting down")
            slot = self._slots.get(tablet_id)
            if slot is None:
                slot = self._slots[tablet_id] = Slot(tablet_id, directory, "NEW")
            return slot

    def add(self, slot: Slot) -> None:
        """Adds a slot for a tablet that has none."""
        with self._mutex:
            assert slot.id not in self._slots, f"tablet {slot.id} has a slot"
            self._slots[slot.id] = slot
        self._on_change(slot.id)

    def set(self, slot: Slot, state: str, error: str = "") -> None:
        """Changes the state. Needs the slot's lock."""
        slot.state, slot.error = state, error
        self._on_change(slot.id)

    def drop(self, slot: Slot) -> None:
        """Drops a slot. Needs its lock: threads that wait for it find it GONE."""
        slot.state = "GONE"
        with self._mutex:
            if self._slots.get(slot.id) is slot:
                del self._slots[slot.id]
        self._on_change(slot.id)

    def note(self, tablet_id: str) -> None:
        """Records a change of a tablet's replica."""
        self._on_change(tablet_id)

    def reports(self, tablet_ids: Iterable[str] | None) -> list[TabletReport]:
        """Returns reports of the existing tablets with these ids, None: all, by id."""
        if tablet_ids is None:
            slots = self.all()
        else:
            slots = [slot for id in sorted(set(tablet_ids)) if (slot := self.get(id)) is not None]
        return [slot.report() for slot in slots if slot.state in REPORTED]

    def close(self) -> list[Slot]:
        """Refuses new slots from now on; returns the existing ones."""
        with self._mutex:
            self._closed = True
        return self.all()

    @property
    def is_closed(self) -> bool:
        """True if the server is stopping."""
        return self._closed
