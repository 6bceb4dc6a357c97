"""One file of a store as text for a person: which kind it is, and the formatter of that kind.

The kind is known by the magic bytes, or by the name where they are damaged: then the reader of that kind says what is
wrong.
"""

from __future__ import annotations

from collections.abc import Callable

from ....errors import OperationalError
from ...columns import column_file
from ...deltas import delta_format
from ...files.filesystem import FileSystem
from ...keys import bloom
from ...loads import load_record
from ...log import wal_format
from ...tables import catalog
from ...tables.store_directory import FORMAT
from ...tablet import tablet_metadata
from ..files import read_file, table_of
from .dump_column import describe_bloom_filter, describe_column_file, read_bloom_filter, read_column_file
from .dump_delta import describe_delta_file, read_delta_file
from .dump_log import OpenEntry, describe_segment, read_segment
from .dump_metadata import describe_catalog, describe_load_record, describe_tablet_metadata

FIRST_ROWS = 10
"""Default number of rows shown."""


def describe_file(fs: FileSystem, path: str, rows: int = FIRST_ROWS, open_entry: OpenEntry | None = None) -> str:
    """Describes the contents of a file: column file, Bloom filter, delta file, log segment, tablet metadata, catalog,
    load record or FORMAT.

    Parameters
    ----------
    path : str
        Absolute, so that the catalog is found, which has the names of columns and the types of keys.
    rows : int
        Limit of rows or deltas shown of a column file, delta file or log segment.
    open_entry : callable, optional
        For entries of a cluster's logs.

    Raises `OperationalError` if the file is not of a store, `CorruptionError` if it is too damaged to show any of it.
    """
    kind = _kind(fs, path)
    if open_entry is not None and _FORMATTERS[kind] is _segment:
        return describe_segment(read_segment(fs, path, rows, open_entry))
    return _FORMATTERS[kind](fs, path, rows)


def _kind(fs: FileSystem, path: str) -> bytes:
    file = fs.open(path)
    try:
        head = file.read_at(0, 8)
    finally:
        file.close()
    if head in _FORMATTERS:
        return head
    name = path.rpartition("/")[2]
    for ending, kind in _ENDINGS.items():
        if name.endswith(ending):
            return kind
    raise OperationalError(
        f"{path} is no file of a nyala store: it begins with {head!r}; there are column files, Bloom filters, "
        "delta files, log segments, tablet metadata, load records and the catalog"
    )


def _column(fs: FileSystem, path: str, rows: int) -> str:
    return describe_column_file(read_column_file(fs, path, table_of(fs, path), rows))


def _bloom(fs: FileSystem, path: str, rows: int) -> str:
    return describe_bloom_filter(read_bloom_filter(fs, path))


def _deltas(fs: FileSystem, path: str, rows: int) -> str:
    return describe_delta_file(read_delta_file(fs, path, table_of(fs, path), rows))


def _segment(fs: FileSystem, path: str, rows: int) -> str:
    return describe_segment(read_segment(fs, path, rows))


def _tablet(fs: FileSystem, path: str, rows: int) -> str:
    metadata = tablet_metadata.TabletMetadata.read(fs, path.rpartition("/")[0] or ".")
    return describe_tablet_metadata(path, metadata, table_of(fs, path))


def _catalog(fs: FileSystem, path: str, rows: int) -> str:
    return describe_catalog(path, catalog.Catalog.read(fs, path))


def _load(fs: FileSystem, path: str, rows: int) -> str:
    return describe_load_record(path, load_record.LoadRecord.read(fs, path), table_of(fs, path))


def _format(fs: FileSystem, path: str, rows: int) -> str:
    return f"format of a store {path}: {read_file(fs, path)[:64].decode(errors='replace').strip()}"


_FORMATTERS: dict[bytes, Callable[[FileSystem, str, int], str]] = {
    column_file.MAGIC: _column,
    bloom.MAGIC: _bloom,
    delta_format.MAGIC: _deltas,
    wal_format.MAGIC: _segment,
    tablet_metadata.MAGIC: _tablet,
    catalog.MAGIC: _catalog,
    load_record.MAGIC: _load,
    FORMAT[:8]: _format,
}
_ENDINGS = {
    ".col": column_file.MAGIC,
    ".bloom": bloom.MAGIC,
    ".delta": delta_format.MAGIC,
    ".log": wal_format.MAGIC,
    "metadata": tablet_metadata.MAGIC,
    "catalog": catalog.MAGIC,
    "FORMAT": FORMAT[:8],
}
