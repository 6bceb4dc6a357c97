"""What a tablet keeps in its `metadata` file: its rowsets, and how far they reach in the log.

The file is authoritative: a rowset that it does not name does not exist, and log entries up to `durable_index` are in
rowsets. It is replaced as a whole (`checked_file`), so flushes and loads are atomic.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from .checked_file import read_checked, replace_checked
from .filesystem import FileSystem
from .rowset_metadata import RowSetMetadata

MAGIC = b"nyalaTAB"
VERSION = 1


@dataclass(frozen=True, slots=True)
class TabletMetadata:
    """The durable state of one tablet, apart from its log.

    Parameters
    ----------
    tablet_id : str
    rowsets : tuple of RowSetMetadata
        In the order they came to be.
    next_rowset_id : int
        Above every id that a durable rowset of this tablet ever had.
    durable_index : int
        Log entries up to here are in rowsets; 0 for none.
    last_load : int
        Timestamp of the newest bulk load that is in `rowsets`: a load record at or below it has done its work.
    newest : int
        The greatest timestamp of anything in the rowsets.
    """

    tablet_id: str
    rowsets: tuple[RowSetMetadata, ...] = ()
    next_rowset_id: int = 1
    durable_index: int = 0
    last_load: int = 0
    newest: int = 0

    def with_flush(self, rowsets: list[RowSetMetadata], next_rowset_id: int, durable_index: int) -> TabletMetadata:
        """After a flush of all log entries up to `durable_index`."""
        return replace(self._with(rowsets, next_rowset_id), durable_index=durable_index)

    def with_load(self, rowsets: list[RowSetMetadata], next_rowset_id: int, timestamp: int) -> TabletMetadata:
        """After the bulk load of this timestamp."""
        return replace(self._with(rowsets, next_rowset_id), last_load=timestamp)

    def _with(self, rowsets: list[RowSetMetadata], next_rowset_id: int) -> TabletMetadata:
        return replace(
            self,
            rowsets=(*self.rowsets, *rowsets),
            next_rowset_id=max(self.next_rowset_id, next_rowset_id),
            newest=max([self.newest, *(r.newest_undo for r in rowsets)]),
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain data for msgpack."""
        return {
            "tablet_id": self.tablet_id,
            "rowsets": [rowset.to_dict() for rowset in self.rowsets],
            "next_rowset_id": self.next_rowset_id,
            "durable_index": self.durable_index,
            "last_load": self.last_load,
            "newest": self.newest,
        }

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> TabletMetadata:
        """The inverse of `to_dict`."""
        rowsets = tuple(RowSetMetadata.from_dict(rowset) for rowset in data["rowsets"])
        return cls(**{**data, "rowsets": rowsets})

    def write(self, fs: FileSystem, directory: str) -> None:
        """Replace the tablet's metadata durably."""
        replace_checked(fs, f"{directory}/metadata", MAGIC, VERSION, self.to_dict())

    @classmethod
    def read(cls, fs: FileSystem, directory: str) -> TabletMetadata:
        """The metadata of the tablet in `directory`; `CorruptionError` where it is damaged."""
        return cls.from_dict(read_checked(fs, f"{directory}/metadata", MAGIC, VERSION))
