"""The tablets of a server, and the state of each.

                    open                        DeleteTablet                       files removed
    BOOTSTRAPPING ───────► RUNNING ──────────────────────────────► TOMBSTONED
          │                 │   ▲                                   │      ▲
          └────► FAILED ◄───┘   └────────────── COPYING ◄───────────┘      │ copy aborted
                                                   └───────────────────────┘
                                   StartBootstrap, also from RUNNING: one that is too far behind

These states are reported. Three more are internal: NEW, without data yet; FORGOTTEN, without a tombstone, but with
files that are still read; GONE, a slot that was dropped.

    | state | event | next state |
    |---|---|---|
    | NEW | its files are found when the server starts | BOOTSTRAPPING |
    | NEW | its directory has failed when the server starts | FAILED |
    | NEW | an empty replica is created | RUNNING |
    | NEW | a copy begins | COPYING |
    | NEW | a copy is aborted, with a term to keep | TOMBSTONED |
    | NEW | a copy is aborted | FORGOTTEN |
    | NEW | a copy is aborted, and the disk fails | FAILED |
    | NEW | its creation is aborted, or the server stops | GONE |
    | BOOTSTRAPPING | it is opened | RUNNING |
    | BOOTSTRAPPING | there is no space to open it | BOOTSTRAPPING |
    | BOOTSTRAPPING | it cannot be opened | FAILED |
    | BOOTSTRAPPING | its files are a tombstone's, or it is deleted | TOMBSTONED |
    | BOOTSTRAPPING | there is no term to keep | FORGOTTEN |
    | BOOTSTRAPPING | it has no superblock, or the server stops | GONE |
    | RUNNING | a copy begins | COPYING |
    | RUNNING | it is opened again with a forced configuration | RUNNING |
    | RUNNING | there is no space to open it again | BOOTSTRAPPING |
    | RUNNING | its directory fails, or it cannot be opened again | FAILED |
    | RUNNING | it is deleted, or retired for a copy that is aborted | TOMBSTONED |
    | RUNNING | it is deleted without a tombstone | FORGOTTEN |
    | RUNNING | the server stops | GONE |
    | COPYING | the copy is opened | RUNNING |
    | COPYING | the copy is aborted | TOMBSTONED |
    | COPYING | the copy is aborted, without a term to keep | FORGOTTEN |
    | COPYING | the disk fails | FAILED |
    | COPYING | the server stops | GONE |
    | FAILED | its directory fails | FAILED |
    | FAILED | it is deleted | TOMBSTONED |
    | FAILED | it is deleted without a tombstone | FORGOTTEN |
    | FAILED | the server stops | GONE |
    | TOMBSTONED | a copy begins | COPYING |
    | TOMBSTONED | its directory fails | FAILED |
    | TOMBSTONED | it is deleted without a tombstone | FORGOTTEN |
    | TOMBSTONED | the server stops | GONE |
    | FORGOTTEN | its files are removed, or the server stops | GONE |
    | GONE | the server stops | GONE |

An operation that changes a replica's state holds the slot's lock for its whole duration: opening, creating, removing
and copying exclude each other for one tablet, and exclude nothing else. Reports read without the lock.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import field
from enum import StrEnum
from typing import Final

from ...errors import ServerUnavailable
from ...model.lazy_dataclass import dataclass
from ...model.state_table import StateTable
from ..consensus.consensus_file import ConsensusState
from ..raft.messages import Configuration
from ..tablets.replica import Replica
from ..wire.messages import methods
from ..wire.messages.methods import TabletReport
from .directories import DataDirectory


class SlotState(StrEnum):
    """State of a tablet at this server, and its name in reports; the table is on the module's page."""

    NEW = "NEW"
    BOOTSTRAPPING = "BOOTSTRAPPING"
    RUNNING = "RUNNING"
    COPYING = "COPYING"
    FAILED = "FAILED"
    TOMBSTONED = "TOMBSTONED"
    FORGOTTEN = "FORGOTTEN"
    GONE = "GONE"


_S = SlotState
STATES = StateTable(
    _S.NEW,
    {
        (_S.NEW, "its files are found when the server starts"): _S.BOOTSTRAPPING,
        (_S.NEW, "its directory has failed when the server starts"): _S.FAILED,
        (_S.NEW, "an empty replica is created"): _S.RUNNING,
        (_S.NEW, "a copy begins"): _S.COPYING,
        (_S.NEW, "a copy is aborted, with a term to keep"): _S.TOMBSTONED,
        (_S.NEW, "a copy is aborted"): _S.FORGOTTEN,
        (_S.NEW, "a copy is aborted, and the disk fails"): _S.FAILED,
        (_S.NEW, "its creation is aborted, or the server stops"): _S.GONE,
        (_S.BOOTSTRAPPING, "it is opened"): _S.RUNNING,
        (_S.BOOTSTRAPPING, "there is no space to open it"): _S.BOOTSTRAPPING,
        (_S.BOOTSTRAPPING, "it cannot be opened"): _S.FAILED,
        (_S.BOOTSTRAPPING, "its files are a tombstone's, or it is deleted"): _S.TOMBSTONED,
        (_S.BOOTSTRAPPING, "there is no term to keep"): _S.FORGOTTEN,
        (_S.BOOTSTRAPPING, "it has no superblock, or the server stops"): _S.GONE,
        (_S.RUNNING, "a copy begins"): _S.COPYING,
        (_S.RUNNING, "it is opened again with a forced configuration"): _S.RUNNING,
        (_S.RUNNING, "there is no space to open it again"): _S.BOOTSTRAPPING,
        (_S.RUNNING, "its directory fails, or it cannot be opened again"): _S.FAILED,
        (_S.RUNNING, "it is deleted, or retired for a copy that is aborted"): _S.TOMBSTONED,
        (_S.RUNNING, "it is deleted without a tombstone"): _S.FORGOTTEN,
        (_S.RUNNING, "the server stops"): _S.GONE,
        (_S.COPYING, "the copy is opened"): _S.RUNNING,
        (_S.COPYING, "the copy is aborted"): _S.TOMBSTONED,
        (_S.COPYING, "the copy is aborted, without a term to keep"): _S.FORGOTTEN,
        (_S.COPYING, "the disk fails"): _S.FAILED,
        (_S.COPYING, "the server stops"): _S.GONE,
        (_S.FAILED, "its directory fails"): _S.FAILED,
        (_S.FAILED, "it is deleted"): _S.TOMBSTONED,
        (_S.FAILED, "it is deleted without a tombstone"): _S.FORGOTTEN,
        (_S.FAILED, "the server stops"): _S.GONE,
        (_S.TOMBSTONED, "a copy begins"): _S.COPYING,
        (_S.TOMBSTONED, "its directory fails"): _S.FAILED,
        (_S.TOMBSTONED, "it is deleted without a tombstone"): _S.FORGOTTEN,
        (_S.TOMBSTONED, "the server stops"): _S.GONE,
        (_S.FORGOTTEN, "its files are removed, or the server stops"): _S.GONE,
        (_S.GONE, "the server stops"): _S.GONE,
    },
)
UNREPORTED: Final = frozenset((SlotState.NEW, SlotState.FORGOTTEN, SlotState.GONE))
"""States of tablets that do not exist for others."""


@dataclass(eq=False, slots=True)
class Slot:
    """A tablet at this server; see the module's page. Changes need `lock`; reads do not."""

    id: str
    directory: DataDirectory
    state: SlotState = STATES.first
    replica: Replica | None = None
    """Of a RUNNING slot. It may have failed itself (`Replica.state`)."""
    description: methods.Tablet | None = None
    kept: ConsensusState | None = None
    """Of a replica that is not open: the state that it must keep."""
    error: str = ""
    lock: threading.Lock = field(default_factory=threading.Lock)

    def change_state(self, state: SlotState, error: str = "") -> None:
        """Changes the state. Needs `lock`, unless no other thread has the slot yet."""
        self.state = STATES.checked(self.state, state)
        self.error = error

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
        if replica is not None and self.state is SlotState.RUNNING:
            return replica.report()
        kept, description = self.kept, self.description
        return TabletReport(
            tablet_id=self.id,
            table_id="" if description is None else str(description.table["id"]),
            state=self.state.value,
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
        """Guards all below; acquired within a slot's lock, or alone."""
        self._slots: dict[str, Slot] = {}
        self._ordered: tuple[Slot, ...] | None = ()
        """`all`, unless the slots have changed since it was called."""
        self._closed = False

    def get(self, tablet_id: str) -> Slot | None:
        """Returns the slot of a tablet; None if there is none."""
        return self._slots.get(tablet_id)

    def all(self) -> tuple[Slot, ...]:
        """Returns the current slots, by id."""
        with self._mutex:
            if self._ordered is None:
                self._ordered = tuple(sorted(self._slots.values(), key=lambda slot: slot.id))
            return self._ordered

    def claim(self, tablet_id: str, directory: DataDirectory) -> Slot:
        """Returns the slot of a tablet; a NEW one if there is none, with this directory for the time being. Raises
        `ServerUnavailable` if the server is stopping."""
        with self._mutex:
            if self._closed:
                raise ServerUnavailable("the server is shutting down")
            slot = self._slots.get(tablet_id)
            if slot is None:
                slot = self._slots[tablet_id] = Slot(tablet_id, directory)
                self._ordered = None
            return slot

    def add(self, slot: Slot) -> None:
        """Adds a slot for a tablet that has none."""
        with self._mutex:
            assert slot.id not in self._slots, f"tablet {slot.id} has a slot"
            self._slots[slot.id] = slot
            self._ordered = None
        self._on_change(slot.id)

    def change_state(self, slot: Slot, state: SlotState, error: str = "") -> None:
        """Changes the state, which is to be reported. Needs the slot's lock."""
        slot.change_state(state, error)
        self._on_change(slot.id)

    def drop(self, slot: Slot) -> None:
        """Drops a slot. Needs its lock: threads that wait for it find it GONE."""
        slot.change_state(SlotState.GONE, slot.error)
        with self._mutex:
            if self._slots.get(slot.id) is slot:
                del self._slots[slot.id]
                self._ordered = None
        self._on_change(slot.id)

    def note(self, tablet_id: str) -> None:
        """Records a change of a tablet's replica."""
        self._on_change(tablet_id)

    def reports(self, tablet_ids: Iterable[str] | None) -> list[TabletReport]:
        """Returns reports of the existing tablets with these ids, None: all, by id."""
        slots: Sequence[Slot] = self.all()
        if tablet_ids is not None:
            slots = [slot for id in sorted(set(tablet_ids)) if (slot := self.get(id)) is not None]
        return [slot.report() for slot in slots if slot.state not in UNREPORTED]

    def close(self) -> tuple[Slot, ...]:
        """Refuses new slots from now on; returns the existing ones."""
        with self._mutex:
            self._closed = True
        return self.all()

    @property
    def is_closed(self) -> bool:
        """True if the server is stopping."""
        return self._closed
