"""External files: expansion of paths, inspection, and reading batch by batch.

    a file             itself
    a pattern          the files that match it, in the order of their names; ** descends into folders
    a folder           the files of the format in it and below, except names that start with . or _

Files that are read together must have the columns of the first one, by name and in any order; the others are converted
to its types.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa

from ...errors import DataError, NotSupportedError, OperationalError
from ...model.lazy_dataclass import dataclass
from ...model.types import DataType, type_from_arrow
from ...sql.file_options import FORMATS
from ...sql.files import FileColumn, FileDescription, FileSource

_MOST_NAMES = 8
"""Number of a folder's names that an error lists."""


@dataclass(frozen=True, slots=True)
class FileColumns:
    """Columns to read from files: `names` as in the files, and the type of each."""

    names: tuple[str, ...]
    types: tuple[DataType, ...]


class LocalFiles:
    """The files of this machine, an implementation of `sql.files.FileCatalog`."""

    def describe(self, source: FileSource) -> FileDescription:
        """Return the columns of the files and the statistics of their rows."""
        paths = expand(source)
        if source.format == "csv":
            from . import csv_files  # five modules, for those who read CSV

            schema = csv_files.schema_of(paths[0], dict(source.options))
            return FileDescription(tuple(_column(field.name, field.type) for field in schema))
        from . import parquet_files

        schema = parquet_files.schema_of(paths[0])
        columns = tuple(_column(field.name, field.type) for field in schema)
        types = {column.name: column.type for column in columns if column.type is not None}
        return FileDescription(columns, parquet_files.statistics_of(paths, types), True)


def _column(name: str, type_: pa.DataType) -> FileColumn:
    if pa.types.is_null(type_):
        type_ = pa.string()
    try:
        return FileColumn(name, type_from_arrow(type_))
    except NotSupportedError:
        return FileColumn(name, None, str(type_))


# ---- paths -----------------------------------------------------------------------------------------------------------


def expand(source: FileSource) -> list[str]:
    """Return the files that the source's paths match, at least one. Raises `OperationalError`, which lists existing
    names."""
    return [path for written in source.paths for path in _expand(written, source.format)]


def _expand(written: str, format_: str) -> list[str]:
    path = Path(written)
    if path.is_file():
        return [written]
    if path.is_dir():
        matching = sorted(str(inner) for inner in path.rglob("*") if inner.is_file() and _is_data(inner, path, format_))
        if not matching:
            raise OperationalError(f"there is no .{format_} file in the folder {written}{_shown(path)}")
        return matching
    if any(mark in written for mark in "*?["):
        matching = _matching(path)
        if not matching:
            raise OperationalError(f"no file matches {written}{_near(path)}")
        return matching
    raise OperationalError(f"there is no file {written}{_near(path)}")


def _matching(pattern: Path) -> list[str]:
    """Return the files that match a pattern; hidden ones only if the pattern names them."""
    root = Path(pattern.anchor)
    inside = pattern.relative_to(root)
    hidden = inside.name.startswith(".")
    found = (path for path in root.glob(str(inside)) if hidden or not path.name.startswith("."))
    return sorted(str(path) for path in found if path.is_file())


def _is_data(path: Path, folder: Path, format_: str) -> bool:
    if any(part.startswith((".", "_")) for part in path.relative_to(folder).parts):
        return False
    return path.suffix.lower() == f".{format_}" or (format_ == "csv" and ".csv." in path.name.lower())


def _near(path: Path) -> str:
    """Describe alternatives: close names in the folder, its names, or the last folder that exists."""
    folder = path.parent
    if not folder.is_dir():
        while not folder.is_dir():
            folder = folder.parent
        return f"; there is no folder {path.parent}, the last one that exists is {folder.resolve()}"
    names = sorted(inner.name for inner in folder.iterdir())
    close = difflib.get_close_matches(path.name, names, 3, 0.6)
    if close:
        return f"; did you mean {' or '.join(close)}?"
    return _shown(folder)


def _shown(folder: Path) -> str:
    names = sorted(inner.name for inner in folder.iterdir() if not inner.name.startswith("."))
    data = [name for name in names if any(f".{format_}" in name.lower() for format_ in FORMATS)] or names
    if not data:
        return f"; the folder {folder.resolve()} is empty"
    more = f" and {len(data) - _MOST_NAMES} more" if len(data) > _MOST_NAMES else ""
    return f"; {folder.resolve()} has {', '.join(data[:_MOST_NAMES])}{more}"


# ---- reading ---------------------------------------------------------------------------------------------------------


def pieces(
    source: FileSource, columns: FileColumns, prune: Callable[[pa.Schema], Any]
) -> list[Callable[[], Iterator[pa.RecordBatch]]]:
    """Split the files into pieces that can be read in parallel: the row groups of Parquet files, whole CSV files.

    `prune` returns for a file's schema the Arrow expression that row groups are checked against by their statistics, or
    None. The batches have `columns` in order, in the files' own Arrow types if those differ.
    """
    readers: list[Callable[[], Iterator[pa.RecordBatch]]] = []
    paths = expand(source)
    for path in paths:
        if source.format == "csv":
            readers.append(_csv_piece(path, source, columns))
        else:
            from . import parquet_files

            readers += parquet_files.pieces(path, columns.names, paths[0], prune)
    return readers


def _csv_piece(path: str, source: FileSource, columns: FileColumns) -> Callable[[], Iterator[pa.RecordBatch]]:
    from . import csv_files

    types = {name: type_.arrow for name, type_ in zip(columns.names, columns.types, strict=True)}
    return lambda: (found.rows for found in csv_files.read(path, dict(source.options), types, columns.names))


def cast(array: pa.Array, type_: DataType, where: str) -> pa.Array:
    """Convert a column to nyala's Arrow type for `type_`; raises `DataError` if a value has no counterpart there.

    Timestamps are truncated to microseconds.
    """
    target = type_.arrow
    if array.type == target or pa.types.is_dictionary(array.type):
        return array
    try:
        is_time = pa.types.is_timestamp(array.type) and pa.types.is_timestamp(target)
        return array.cast(target, safe=not is_time)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise DataError(f"{where}: {array.type} does not convert to {type_}: {error}") from error
