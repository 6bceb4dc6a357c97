"""Contents of a tablet's `metadata` file: its rowsets, and the log indexes up to which they include its entries.

The file is authoritative: files that it does not name do not count, and rows inserted by log entries up to
`durable_index` are in rowsets. It is replaced as a whole (`checked_file`), so flushes, loads and compactions are
atomic.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any

from ...errors import CorruptionError
from ...model.lazy_dataclass import dataclass
from ..files.checked_file import read_checked, replace_checked
from ..files.filesystem import FileSystem
from ..rowsets.rowset_metadata import RowSetMetadata

MAGIC = b"nyalaTAB"
VERSION = 2
"""Version 1 has neither `commit_index` nor `cut_commits`, and is still written where both are 0."""


@dataclass(frozen=True, slots=True)
class TabletMetadata:
    """The durable state of one tablet, apart from its log.

    Parameters
    ----------
    tablet_id : str
    rowsets : tuple of RowSetMetadata
        In order of creation; outputs of a compaction are in the place of its inputs.
    next_rowset_id : int
        Above every id that a durable rowset of this tablet ever had.
    durable_index : int
        Every row that a log entry up to here inserted is in a rowset; 0 for none.
    last_load : int
        Timestamp of the newest bulk load that is in `rowsets`: a load record at or below it has done its work.
    newest : int
        The greatest timestamp of anything in the rowsets.
    replay_index : int
        All changes of log entries up to here are in files; every entry above is in the log.
    ancient_history_mark : int
        Hybrid timestamp; states before it cannot be read any more. Only grows.
    next_number : int
        Above every number in the AUTO_INCREMENT column of rows in the rowsets.
    log_index : int
        The log was durable up to here when this was written: a log that ends before has lost entries.
    commit_index : int
        The store's commit log was durable up to this COMMIT when this was written, likewise.
    cut_commits : int
        COMMITs up to here are not compared with the end of the tablet's log: acknowledged entries were cut off
        (`cut_log`).
    """

    tablet_id: str
    rowsets: tuple[RowSetMetadata, ...] = ()
    next_rowset_id: int = 1
    durable_index: int = 0
    last_load: int = 0
    newest: int = 0
    replay_index: int = 0
    ancient_history_mark: int = 0
    next_number: int = 1
    log_index: int = 0
    commit_index: int = 0
    cut_commits: int = 0

    @property
    def known_index(self) -> int:
        """The log went on at least to this entry."""
        return max([self.log_index, self.durable_index, *(rowset.redo_index for rowset in self.rowsets)])

    def with_flush(self, rowsets: Sequence[RowSetMetadata], durable_index: int) -> TabletMetadata:
        """After a flush of all rows that log entries up to `durable_index` inserted."""
        return replace(self.with_rowsets((), rowsets), durable_index=max(self.durable_index, durable_index))

    def with_load(self, rowsets: Sequence[RowSetMetadata], next_rowset_id: int, timestamp: int) -> TabletMetadata:
        """After the bulk load of this timestamp."""
        added = self.with_rowsets((), rowsets)
        return replace(
            added,
            last_load=timestamp,
            newest=max(added.newest, timestamp),
            next_rowset_id=max(self.next_rowset_id, next_rowset_id),
        )

    def with_rowsets(self, old: Collection[int], new: Sequence[RowSetMetadata]) -> TabletMetadata:
        """With rowsets in the place of others, which are given by their ids."""
        kept = [rowset for rowset in self.rowsets if rowset.id not in old]
        place = next((i for i, rowset in enumerate(self.rowsets) if rowset.id in old), len(kept))
        times = [max(rowset.newest_undo, rowset.inserted) for rowset in new]
        return replace(self, rowsets=(*kept[:place], *new, *kept[place:]), newest=max([self.newest, *times]))

    def to_dict(self) -> dict[str, Any]:
        """Plain data for msgpack."""
        fields = {
            "tablet_id": self.tablet_id,
            "rowsets": [rowset.to_dict() for rowset in self.rowsets],
            "next_rowset_id": self.next_rowset_id,
            "durable_index": self.durable_index,
            "last_load": self.last_load,
            "newest": self.newest,
            "replay_index": self.replay_index,
            "ancient_history_mark": self.ancient_history_mark,
            "next_number": self.next_number,
            "log_index": self.log_index,
        }
        if self.commit_index or self.cut_commits:
            fields |= {"commit_index": self.commit_index, "cut_commits": self.cut_commits}
        return fields

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> TabletMetadata:
        """The inverse of `to_dict`."""
        rowsets = tuple(RowSetMetadata.from_dict(rowset) for rowset in data["rowsets"])
        # Without deltas, all that entries up to `durable_index` did was in rowsets; when which of the rows of one flush
        # was inserted was not kept.
        before_deltas = {
            "replay_index": data["durable_index"],
            "ancient_history_mark": max((r.inserted for r in rowsets if "oldest" in r.extra), default=0),
        }
        return cls(**{**before_deltas, **data, "rowsets": rowsets})

    def write(self, fs: FileSystem, directory: str) -> None:
        """Replace the tablet's metadata durably."""
        version = VERSION if self.commit_index or self.cut_commits else 1
        replace_checked(fs, f"{directory}/metadata", MAGIC, version, self.to_dict())

    @classmethod
    def read(cls, fs: FileSystem, directory: str, tablet_id: str = "") -> TabletMetadata:
        """The metadata of the tablet in `directory`; `CorruptionError` where it is damaged, or is that of another
        tablet than `tablet_id`."""
        metadata = cls.from_dict(read_checked(fs, f"{directory}/metadata", MAGIC, VERSION))
        if tablet_id and metadata.tablet_id != tablet_id:
            message = f"is that of tablet {metadata.tablet_id}, expected {tablet_id}: files were mixed up"
            raise CorruptionError(message, f"{directory}/metadata", "tablet id")
        return metadata
