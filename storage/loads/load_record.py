"""Load records: what makes a bulk load into several tablets all or nothing.

1. The files of all new rowsets are durable; nothing names them yet.
2. Each tablet's log gets a LOAD entry that names its new rowsets, and is synced: the load's place among the writes.
3. The load record, `tables/<table id>/load-<timestamp>`, is made durable. This is the moment of the load.
4. Each tablet's metadata is replaced by one with the new rowsets and the load's timestamp as `last_load`.
5. The record is removed.

A crash before 3 leaves files and log entries that no metadata and no record names: opening the store removes the
files, and replay passes over LOAD entries. A crash after 3 leaves the record: opening does step 4 for the tablets
whose `last_load` is older than the record, then step 5. Doing so twice changes nothing.

    offset  content (see `checked_file`)
    0       b"nyalaLDR", version, checksum, length
    24      msgpack: {"timestamp": hybrid time,
                      "tablets": {tablet id: {"rowsets": [...], "next_rowset_id": n, "next_number": n}}}
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

from ...errors import CorruptionError
from ...model.lazy_dataclass import dataclass
from ..files.checked_file import TEMPORARY_SUFFIX, read_checked, replace_checked
from ..files.filesystem import FileSystem
from ..rowsets.rowset_metadata import RowSetMetadata
from ..tablet.tablet_metadata import TabletMetadata

MAGIC = b"nyalaLDR"
VERSION = 1
PREFIX = "load-"


@dataclass(frozen=True, slots=True)
class TabletLoad:
    """Rowsets that a load adds to one tablet. `next_number` is above every number that its rows got in an
    AUTO_INCREMENT column."""

    rowsets: tuple[RowSetMetadata, ...]
    next_rowset_id: int
    next_number: int = 1

    def to_dict(self) -> dict[str, Any]:
        """Plain data for msgpack."""
        return {**asdict(self), "rowsets": [rowset.to_dict() for rowset in self.rowsets]}

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> TabletLoad:
        """The inverse of `to_dict`."""
        rowsets = tuple(RowSetMetadata.from_dict(rowset) for rowset in data["rowsets"])
        return cls(rowsets, data["next_rowset_id"], data.get("next_number", 1))

    def applied_to(self, metadata: TabletMetadata, timestamp: int) -> TabletMetadata:
        """The tablet's metadata after the load of this timestamp."""
        after = metadata.with_load(list(self.rowsets), self.next_rowset_id, timestamp)
        return replace(after, next_number=max(after.next_number, self.next_number))


@dataclass(frozen=True, slots=True)
class LoadRecord:
    """A bulk load that has happened, by tablet id."""

    timestamp: int
    tablets: Mapping[str, TabletLoad]

    @property
    def name(self) -> str:
        """Of its file; names ascend as timestamps do."""
        return f"{PREFIX}{self.timestamp:016x}"

    def write(self, fs: FileSystem, table_directory: str) -> None:
        """Make the record durable: the load has happened."""
        tablets = {tablet_id: load.to_dict() for tablet_id, load in self.tablets.items()}
        content = {"timestamp": self.timestamp, "tablets": tablets}
        replace_checked(fs, f"{table_directory}/{self.name}", MAGIC, VERSION, content)

    def remove(self, fs: FileSystem, table_directory: str) -> None:
        """Forget a load that is in the metadata of all its tablets, or that is not to happen."""
        path = f"{table_directory}/{self.name}"
        if fs.exists(path):
            fs.remove(path)
        fs.sync_directory(table_directory)

    @staticmethod
    def timestamp_of(name: str) -> int:
        """The timestamp in a record's file name; a name that has none is above all loads."""
        try:
            return int(name.removeprefix(PREFIX), 16)
        except ValueError:
            return 1 << 64

    def check_place(self, path: str, table_id: str) -> None:
        """`CorruptionError` if the record is of another load than its file name, or of another table."""
        if not path.endswith(f"/{self.name}"):
            raise CorruptionError(f"holds the load {self.name}: files were mixed up", path, "file name")
        for tablet_id in self.tablets:
            if not tablet_id.startswith(f"{table_id}-p"):
                message = f"is of tablet {tablet_id}, expected one of table {table_id}: files were mixed up"
                raise CorruptionError(message, path, "payload at offset 24")

    @classmethod
    def read(cls, fs: FileSystem, path: str) -> LoadRecord:
        """A record from its file; `CorruptionError` where it is damaged."""
        content = read_checked(fs, path, MAGIC, VERSION)
        tablets = {tablet_id: TabletLoad.from_dict(load) for tablet_id, load in content["tablets"].items()}
        return cls(content["timestamp"], tablets)


def complete_loads(fs: FileSystem, table_directory: str, metadata: Sequence[TabletMetadata]) -> list[TabletMetadata]:
    """Finish the loads that a crash interrupted; the tablets' metadata, as it is then on disk."""
    tablets = {m.tablet_id: m for m in metadata}
    names = [name for name in fs.list(table_directory) if name.startswith(PREFIX)]
    for name in names:
        if name.endswith(TEMPORARY_SUFFIX):
            fs.remove(f"{table_directory}/{name}")
            continue
        record = LoadRecord.read(fs, f"{table_directory}/{name}")
        for tablet_id, load in record.tablets.items():
            before = tablets.get(tablet_id)
            # A tablet that is missing was dropped with its range partition, after the load.
            if before is not None and before.last_load < record.timestamp:
                after = load.applied_to(before, record.timestamp)
                after.write(fs, f"{table_directory}/{tablet_id}")
                tablets[tablet_id] = after
        record.remove(fs, table_directory)
    return [tablets[m.tablet_id] for m in metadata]
