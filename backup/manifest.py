"""The manifest of a backup: `manifest.json`, written last and atomically, so that a backup with a manifest is complete.

    {"sha256": "...",                   of the backup below, as JSON without spaces and with sorted keys
     "backup": {"format": 1, "number": 2, "id": "...", "parent": "...",     the backup whose changes these follow
                "since": ..., "snapshot": ...,                              hybrid timestamps
                "snapshot_time": "...", "finished": "...", "source": "...", "nyala": "...", "all_tables": true,
                "tables": [{"definition": {...}, "statement": "CREATE TABLE ...", "tablets": ["t000001-p0000"],
                            "base": null, "files": [{"path": "tables/...", "kind": "changes", ...}]}],
                "views": [["name", "SELECT ...", ["column"]]],
                "namespaces": ["staging"]}}                                 only if there are any

Definitions are plain data as in a store's catalog, with the permanent ids of table and columns; bytes in them are
written as {"$bytes": "00ff"}. `statement` is for readers only. Format 2 has namespaces, or tables in them, which an
earlier nyala would take for parts of names; a backup without them has format 1.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, field
from typing import Any, Final, Literal

from ..errors import CorruptionError, OperationalError, UnsupportedFormat
from ..model.codec.tables import table_from_dict, table_to_dict, view_from_list, view_to_list
from ..model.lazy_dataclass import dataclass
from ..model.namespaces import DEFAULT_NAMESPACE
from ..model.schema import Table, View
from ..model.store import Timestamp
from .places import Place

FORMAT: Final = 2
_FORMAT_WITHOUT_NAMESPACES: Final = 1
NAME: Final = "manifest.json"

Kind = Literal["rows", "changes"]


@dataclass(frozen=True, slots=True)
class SavedFile:
    """One file: a tablet's rows at the table's `base`, or its changes since then (without a base: since the parent).

    `path` is relative to the backup's folder.
    """

    path: str
    kind: Kind
    tablet: str
    rows: int
    bytes: int
    sha256: str


@dataclass(frozen=True, slots=True)
class SavedTable:
    """A table as it was at the backup's snapshot.

    Attributes
    ----------
    definition : Table
    statement : str
        Its CREATE TABLE.
    tablets : tuple of str
        The ids of its tablets. Rows that earlier backups saved of other tablets were dropped with a range partition.
    base : Timestamp, optional
        The snapshot of its files of rows; None if it continues the parent.
    files : tuple of SavedFile
    """

    definition: Table
    statement: str
    tablets: tuple[str, ...]
    base: Timestamp | None
    files: tuple[SavedFile, ...]

    @property
    def rows(self) -> int:
        """The number of rows in its files, changes included."""
        return sum(file.rows for file in self.files)


@dataclass(frozen=True, slots=True)
class Backup:
    """A backup: full, or incremental with a `parent` that it continues.

    Attributes
    ----------
    number : int
        Its position in the directory, from 1; the name of its folder.
    id : str
        Its id, by which others refer to it as their parent.
    parent : str, optional
    since : Timestamp, optional
        The parent's snapshot: this backup has the later changes.
    snapshot : Timestamp
        The snapshot timestamp of all its tables.
    finished : str
        The time at which it was written, UTC.
    source : str
        The store that was saved: a directory, or a cluster's masters.
    store_id : str
        A cluster's own id; empty for a directory.
    nyala : str
        The version that wrote it.
    all_tables : bool
        True if no tables were named: tables created later are included too.
    tables : tuple of SavedTable
        By name.
    views : tuple of View
    namespaces : tuple of str
        The names of the store's further schemas, ascending, empty schemas included; none if tables were named.
    """

    number: int
    id: str
    parent: str | None
    since: Timestamp | None
    snapshot: Timestamp
    finished: str
    source: str
    store_id: str
    nyala: str
    all_tables: bool
    tables: tuple[SavedTable, ...]
    views: tuple[View, ...] = field(default=())
    namespaces: tuple[str, ...] = ()

    @property
    def kind(self) -> str:
        """ "full" or "incremental"."""
        return "full" if self.parent is None else "incremental"

    @property
    def files(self) -> Iterable[SavedFile]:
        """The files of all tables."""
        return (file for table in self.tables for file in table.files)

    @property
    def bytes(self) -> int:
        """The size of its files on disk."""
        return sum(file.bytes for file in self.files)

    @property
    def rows(self) -> int:
        """The number of rows in its files, changes included."""
        return sum(file.rows for file in self.files)

    def table_by_id(self, table_id: str) -> SavedTable | None:
        """Its data for a table; None if it has none."""
        return next((table for table in self.tables if table.definition.id == table_id), None)

    @property
    def folder(self) -> str:
        """The name of its folder."""
        return folder_name(self.number)


def folder_name(number: int) -> str:
    """The name of a backup's folder."""
    return f"{number:06d}"


# ---- as JSON ---------------------------------------------------------------------------------------------------------

_PLAIN: Final = (
    "number", "id", "parent", "since", "snapshot", "finished", "source", "store_id", "nyala", "all_tables",
)  # fmt: skip


def to_plain(backup: Backup, snapshot_time: str) -> dict[str, Any]:
    """The backup as plain data."""
    has_more = bool(backup.namespaces) or any(
        table.definition.namespace != DEFAULT_NAMESPACE for table in backup.tables
    )
    return {
        "format": FORMAT if has_more else _FORMAT_WITHOUT_NAMESPACES,
        **{name: getattr(backup, name) for name in _PLAIN},
        "snapshot_time": snapshot_time,
        "tables": [_table_to_plain(table) for table in backup.tables],
        "views": [view_to_list(view) for view in backup.views],
        **({"namespaces": list(backup.namespaces)} if backup.namespaces else {}),
    }


def from_plain(data: Mapping[str, Any]) -> Backup:
    """The inverse of `to_plain`."""
    return Backup(
        **{name: data[name] for name in _PLAIN},
        tables=tuple(_table_from_plain(table) for table in data["tables"]),
        views=tuple(view_from_list(view) for view in data["views"]),
        namespaces=tuple(data.get("namespaces", ())),
    )


def _table_to_plain(table: SavedTable) -> dict[str, Any]:
    return {
        "definition": table_to_dict(table.definition),
        "statement": table.statement,
        "tablets": list(table.tablets),
        "base": table.base,
        "files": [asdict(file) for file in table.files],
    }


def _table_from_plain(data: Mapping[str, Any]) -> SavedTable:
    return SavedTable(
        definition=table_from_dict(data["definition"]),
        statement=data["statement"],
        tablets=tuple(data["tablets"]),
        base=data["base"],
        files=tuple(SavedFile(**file) for file in data["files"]),
    )


def _bytes_to_plain(value: object) -> Any:
    if isinstance(value, bytes):
        return {"$bytes": value.hex()}
    raise TypeError(f"a manifest cannot hold {value!r}")


def _bytes_from_plain(data: dict[str, Any]) -> Any:
    return bytes.fromhex(data["$bytes"]) if data.keys() == {"$bytes"} else data


def _digest(plain: Any) -> str:
    text = json.dumps(plain, sort_keys=True, separators=(",", ":"), default=_bytes_to_plain)
    return hashlib.sha256(text.encode()).hexdigest()


# ---- on disk ---------------------------------------------------------------------------------------------------------


def write(place: Place, backup: Backup, snapshot_time: str) -> None:
    """Writes the manifest into the backup's folder, durably: with it the backup is complete."""
    plain = to_plain(backup, snapshot_time)
    text = json.dumps({"sha256": _digest(plain), "backup": plain}, indent=1, default=_bytes_to_plain)
    place.write(f"{backup.folder}/{NAME}", text.encode() + b"\n")


def read(place: Place, folder: str) -> Backup:
    """The backup of a folder.

    Raises `CorruptionError` if the manifest was altered, `UnsupportedFormat` if a later nyala wrote it.
    """
    path = place.path(f"{folder}/{NAME}")
    content = place.read(f"{folder}/{NAME}")
    try:
        data = json.loads(content)
        plain, told = data["backup"], data["sha256"]
        if _digest(plain) != told:
            raise CorruptionError("its checksum does not match its content", path, "manifest")
        if plain["format"] not in (_FORMAT_WITHOUT_NAMESPACES, FORMAT):
            raise UnsupportedFormat(f"{path} has format {plain['format']}; this nyala reads 1 to {FORMAT}")
        return from_plain(json.loads(json.dumps(plain), object_hook=_bytes_from_plain))
    except (ValueError, KeyError, TypeError) as error:
        raise CorruptionError(f"not a manifest: {type(error).__name__}: {error}", path, "manifest") from error


def read_all(place: Place) -> list[Backup]:
    """The backups of a directory, in order; folders without a manifest, of failed backups, are skipped.

    Raises `OperationalError` if there is no such directory, and as `read` does.
    """
    if not place.exists():
        raise OperationalError(f"there is no directory {place.name}")
    return [read(place, folder) for folder in backup_folders(place) if place.exists(f"{folder}/{NAME}")]


def backup_folders(place: Place) -> list[str]:
    """The names of the folders of backups, in order, failed ones included."""
    return [name for name in place.names() if name.isdigit()]
