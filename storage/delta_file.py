"""The DeltaFile: UNDO or REDO deltas of one DiskRowSet, in one format. This page is the format."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from .deltas import Deltas
from .file_handles import FileHandles
from .filesystem import FileSystem
from .page_cache import PageCache
from .schema import Schema
from .vector import Array


@dataclass(frozen=True, slots=True)
class DeltaStatistics:
    """What a delta file says of itself in its footer, without reading its blocks."""

    count: int
    oldest: int
    newest: int
    deletes: int
    reinserts: int
    updates: dict[int, int]
    """How many values each column is given, by column id."""


def write_delta_file(fs: FileSystem, path: str, schema: Schema, deltas: Deltas) -> int:
    """Write deltas (not empty, of rows within one rowset), durable when this returns; the file's size in bytes.

    The caller syncs the directory. A file that could not be written whole is removed again, and `DiskError` raised.
    """
    raise NotImplementedError


class DeltaFile:
    """A delta file, open for reading. Safe for several threads; touches the file at first use only. `CorruptionError`
    names file and place where bytes are damaged."""

    def __init__(self, handles: FileHandles, path: str, schema: Schema, cache: PageCache):
        self.path = path

    @property
    def statistics(self) -> DeltaStatistics:
        """From the footer, read at first use."""
        raise NotImplementedError

    @property
    def size(self) -> int:
        """The file's size in bytes."""
        raise NotImplementedError

    def read(self, start: int, stop: int, columns: Collection[int] | None = None) -> Deltas:
        """The deltas of the rows `start` to `stop` (exclusive), with the values of some columns or all. Blocks of other
        rows are not read. Columns that the schema does not have any more are left out."""
        raise NotImplementedError

    def existence(self) -> Deltas:
        """The DELETE and REINSERT deltas of all rows, without values."""
        raise NotImplementedError

    def touched(self, column: int) -> Array:
        """The rows that some delta gives a value of a column: ascending, none twice, ndarray of int64."""
        raise NotImplementedError

    def close(self) -> None:
        """Give up cached blocks and the open file."""
        raise NotImplementedError
