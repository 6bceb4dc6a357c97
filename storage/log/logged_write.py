"""Changes of a write in memory, kept while its log entries may still fail."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field

from ...model.lazy_dataclass import dataclass
from ...model.vectors.vector import Array
from ..deltas.delta_memstore import DeltaMemStore
from ..rowsets.memrowset import IndexKeys, MemRowSet
from ..rowsets.stored_rowset import DeletedRows
from .decision import Decision
from .wal import LogTicket


@dataclass(frozen=True, slots=True, eq=False)
class ChangedRows:
    """Deltas of one write in one DiskRowSet, and the rows that it deleted (ndarray of int64)."""

    memstore: DeltaMemStore
    deletions: DeletedRows
    deleted: Array


@dataclass(slots=True, eq=False)
class LoggedWrite:
    """A write that is in the log and in memory, perhaps not durable yet."""

    ticket: LogTicket
    timestamp: int
    inserted: list[tuple[MemRowSet, IndexKeys]] = field(default_factory=list)
    """The MemRowSets that it changed, and the keys of the rows that it inserted there."""
    changed: list[ChangedRows] = field(default_factory=list)
    is_abandoned: bool = False
    """The writer has abandoned its wait: the thread that sees the decision commits the write."""
    is_prepared: bool = False
    """It holds its timestamp instead of being in flight, and stays undecided when its entry is durable: `prepared`."""
    decision: Decision | None = None
    """Of a part of a write over several tablets: that its entry is durable does not suffice."""
    keys: Callable[[], IndexKeys] = list
    """Returns all keys of such a part, which other writes must not touch before the decision."""
    _key_set: frozenset[int | bytes] | None = None

    def has_key(self, key: int | bytes) -> bool:
        """True if the part has this key."""
        return key in self._hashed_keys()

    def shares_keys(self, keys: IndexKeys) -> bool:
        """True if the part has one of some keys."""
        return not self._hashed_keys().isdisjoint(keys)

    def _hashed_keys(self) -> frozenset[int | bytes]:
        # Only where writes meet, which is rare: hashing 100,000 keys takes some milliseconds.
        if self._key_set is None:
            self._key_set = frozenset(self.keys())
        return self._key_set

    def restamp(self, timestamp: int) -> None:
        """Give a prepared write, which is alone at its timestamp, another one: the commit timestamp. Needs the tablet's
        `write_lock`; its keys have had no other write since."""
        # Once each: a large write has changed some in many steps.
        for memstore in {id(change.memstore): change.memstore for change in self.changed}.values():
            memstore.restamp(self.timestamp, timestamp)
        for memrowset in {id(memrowset): memrowset for memrowset, _ in self.inserted}.values():
            memrowset.restamp(self.timestamp, timestamp)
        self.timestamp = timestamp

    def undo(self) -> None:
        """Take everything back. Needs the tablet's `write_lock`; later writes have been taken back before."""
        for change in self.changed:
            change.memstore.abort(self.timestamp)
            change.deletions.remove(change.deleted)
        for memrowset, keys in self.inserted:
            memrowset.abort(keys, self.timestamp)
