"""Metadata of a DiskRowSet in its tablet's metadata: enough to open it, prune it and plan with it.

Metadata is plain data (`to_dict`, `from_dict`, msgpack outside) and is replaced atomically with the tablet's.
"""

from __future__ import annotations

from dataclasses import asdict, field
from typing import Any

from ...model.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class RowSetMetadata:
    """One DiskRowSet.

    Parameters
    ----------
    id : int
        Unique in the tablet for ever; the rowset's files are named after it.
    row_count : int
    min_key, max_key : bytes
        Encoded keys (`model.keys.keys`) of the first and last row: the rowset's place in the `RowSetTree`.
    column_files : dict of int to str
        File name per permanent column id, relative to the tablet's rowset directory. A column added to the table
        later has none.
    bloom_file : str
        The chunked Bloom filter over encoded keys.
    data_bytes : int
        Size of all files together.
    undo_files : tuple of str
        Delta files that lead back, in the order they came to be.
    redo_files : tuple of str
        Delta files that lead forth, in the order of their timestamps.
    newest_undo : int
        Hybrid timestamp; a scan at or above it needs no UNDO delta.
    inserted : int
        All rows without an UNDO delta of their insertion were inserted at this hybrid timestamp (bulk loads: one for
        all); a scan below it does not see them. 0 where history before the UNDO files is forgotten.
    redo_index : int
        Every log entry up to this index that changed a row of this rowset is in its files.
    """

    id: int
    row_count: int
    min_key: bytes
    max_key: bytes
    column_files: dict[int, str]
    bloom_file: str
    data_bytes: int = 0
    undo_files: tuple[str, ...] = ()
    redo_files: tuple[str, ...] = ()
    newest_undo: int = 0
    inserted: int = 0
    redo_index: int = 0
    extra: dict[str, Any] = field(default_factory=dict)
    """Room for later versions; kept as it is when not understood."""

    def to_dict(self) -> dict[str, Any]:
        """Plain data for msgpack."""
        return asdict(self)

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> RowSetMetadata:
        """The inverse of `to_dict`."""
        known = {name: data[name] for name in cls.__dataclass_fields__ if name in data}
        if "inserted" not in data:
            # Stores without updates: `newest_undo` was when the last row was inserted, and there were no UNDO files.
            known["inserted"], known["newest_undo"] = data["newest_undo"], 0
        known["undo_files"] = tuple(known.get("undo_files", ()))
        known["redo_files"] = tuple(known.get("redo_files", ()))
        return cls(**known)


def rowset_files(metadata: RowSetMetadata) -> list[str]:
    """The names of a rowset's files."""
    return [*metadata.column_files.values(), metadata.bloom_file, *metadata.undo_files, *metadata.redo_files]
