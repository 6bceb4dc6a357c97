"""What a write changed in memory, for as long as its log entries may still fail."""

from __future__ import annotations

from dataclasses import dataclass, field

from ..deltas.delta_memstore import DeltaMemStore
from ..rowsets.memrowset import IndexKeys, MemRowSet
from ..rowsets.stored_rowset import DeletedRows
from ..vector import Array
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
    """Its writer has given up waiting: whoever finds that it is decided lets readers see it."""

    def undo(self) -> None:
        """Take everything back. Needs the tablet's `write_lock`; later writes have been taken back before."""
        for change in self.changed:
            change.memstore.abort(self.timestamp)
            change.deletions.remove(change.deleted)
        for memrowset, keys in self.inserted:
            memrowset.abort(keys, self.timestamp)
