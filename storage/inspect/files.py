"""Whole files, and the table that a file belongs to."""

from __future__ import annotations

from contextlib import suppress

from ...errors import OperationalError
from ...model.schema import Table
from ..files.filesystem import FileSystem
from ..tables.catalog import Catalog


def read_file(fs: FileSystem, path: str) -> bytes:
    """All bytes of a file."""
    file = fs.open(path)
    try:
        return file.read_at(0, file.size)
    finally:
        file.close()


def file_size(fs: FileSystem, path: str) -> int:
    """In bytes."""
    file = fs.open(path)
    try:
        return file.size
    finally:
        file.close()


def table_of(fs: FileSystem, path: str) -> Table | None:
    """The table that a file below `tables/` belongs to; None where no catalog is found that knows it.

    `path` should be absolute: the store is looked for above it.
    """
    parts = path.split("/")
    for place in range(len(parts) - 2, 0, -1):
        if parts[place] != "tables":
            continue
        catalog = "/".join([*parts[:place], "catalog"])
        with suppress(OperationalError):
            entries = Catalog.read(fs, catalog).entries.values()
            return next((e.table for e in entries if e.table.id == parts[place + 1]), None)
    return None
