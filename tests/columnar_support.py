"""Shared by the tests of column files and DiskRowSets: a file system that watches, schemas, plain-Python oracles."""

from __future__ import annotations

import itertools
import math
from typing import Any

import pyarrow as pa
from nyala.model.predicates import AnyOf, BitmapFilter, ColumnPredicate, InList, IsNull, Range
from nyala.model.schema import ColumnSchema, Schema, assign_column_ids
from nyala.model.types import DataType
from nyala.storage.files.filesystem import ReadableFile
from nyala.storage.files.memory_filesystem import MemoryFileSystem
from nyala.storage.files.page_cache import PageCache
from nyala.storage.rowsets.disk_rowset import DiskRowSet
from nyala.storage.rowsets.rowset_writer import write_rowsets


class _Watched:
    def __init__(self, fs: WatchedFileSystem, path: str, file: ReadableFile):
        self._fs, self._path, self._file = fs, path, file
        fs.open_files += 1

    @property
    def size(self) -> int:
        return self._file.size

    def read_at(self, offset: int, length: int) -> bytes:
        self._fs.reads.append((self._path, offset, length))
        return self._file.read_at(offset, length)

    def close(self) -> None:
        self._fs.open_files -= 1
        self._file.close()


class WatchedFileSystem(MemoryFileSystem):
    """Notes every read; files can be taken out and put back damaged."""

    def __init__(self) -> None:
        super().__init__()
        self.reads: list[tuple[str, int, int]] = []
        self.open_files = 0

    def open(self, path: str) -> ReadableFile:
        return _Watched(self, path, super().open(path))

    def get(self, path: str) -> bytearray:
        """A copy of a file."""
        file = super().open(path)
        return bytearray(file.read_at(0, file.size))

    def put(self, path: str, data: bytes | bytearray) -> None:
        """A file of these bytes."""
        self.create(path).write(bytes(data))


def make_schema(*columns: tuple[Any, ...], key: int = 1) -> Schema:
    """(name, type[, nullable]) per column; key columns are NOT NULL."""
    made = [
        ColumnSchema(c[0], c[1], i >= key and (len(c) < 3 or c[2])) if not isinstance(c, ColumnSchema) else c
        for i, c in enumerate(columns)
    ]
    return Schema(assign_column_ids(made), key)


def arrow_array(type_: DataType, physical: list[Any]) -> pa.Array:
    return pa.array([type_.to_python(v) for v in physical], type_.arrow)


def make_table(schema: Schema, columns: dict[str, list[Any]]) -> pa.Table:
    """A table of physical values."""
    return pa.table([arrow_array(c.type, columns[c.name]) for c in schema.columns], schema=schema.arrow)


def write(fs: Any, schema: Schema, table: pa.Table, **options: Any) -> list[DiskRowSet]:
    """Write rows as rowsets and open them."""
    ids = itertools.count(1)
    written = write_rowsets(fs, "rowsets", schema, table, next_id=lambda: next(ids), timestamp=77, **options)
    cache = PageCache(64 << 20)
    return [DiskRowSet.open(fs, "rowsets", schema, m, cache) for m in written]


def _key(value: Any) -> Any:
    """NaN is above all other numbers."""
    if isinstance(value, float):
        return (math.isnan(value), 0.0 if math.isnan(value) else value)
    return value


def holds(predicate: ColumnPredicate, value: Any) -> bool:
    """The oracle: is the predicate true for one physical value?"""
    if isinstance(predicate, IsNull):
        return (value is None) != predicate.negated
    if isinstance(predicate, AnyOf):
        return any(holds(member, value) for member in predicate.members)
    if value is None:
        return False
    if isinstance(predicate, InList):
        return _key(value) in [_key(v) for v in predicate.values]
    if isinstance(predicate, BitmapFilter):
        place = int(value) - predicate.base
        return 0 <= place < len(predicate.bits) and bool(predicate.bits[place])
    assert isinstance(predicate, Range)
    if predicate.lower is not None:
        low, v = _key(predicate.lower), _key(value)
        if v < low or (v == low and not predicate.lower_inclusive):
            return False
    if predicate.upper is not None:
        high, v = _key(predicate.upper), _key(value)
        if v > high or (v == high and not predicate.upper_inclusive):
            return False
    return True
