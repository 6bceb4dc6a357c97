"""Bulk loads: Arrow data or files, streamed into a table's `BulkLoader`.

A source is read a batch at a time and each batch is brought to the table's columns and types, so that memory holds one
batch and what the loader keeps, however large the source is. Files take the road of COPY.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, TypeAlias

import pyarrow as pa

from ..errors import InterfaceError, OperationalError
from ..executor import ExecutionContext
from ..executor.files.copying import conform, copy_from
from ..sql.bound import CopyFrom
from ..storage.schema import Table
from ..storage.store import Store

Source: TypeAlias = Any
"""pa.Table, pa.RecordBatch, anything with `__arrow_c_stream__`, an iterable of batches, or the path of a file."""

FORMATS = ("parquet", "csv")


def load(store: Store, table: Table, source: Source, progress: Callable[[int], None] | None = None) -> int:
    """Add all rows of `source` to `table`, all or none; how many there were.

    `progress` is called with the number of rows read so far. Raises `AlreadyPresent` for a repeated key, `DataError`
    where a value does not fit its column, `UnknownColumn` where the source has a column that the table lacks.
    """
    if isinstance(source, str | os.PathLike):
        path = Path(source)
        return copy_from(CopyFrom(table, str(path), _format(path)), ExecutionContext(store, progress=progress))
    rows = 0
    with store.bulk_loader(table) as loader:
        for batch in batches(source):
            loader.append(conform(batch, table, None, "the source"))
            rows += batch.num_rows
            if progress is not None:
                progress(rows)
        return loader.finish()


def _format(path: Path) -> str:
    """A file's format by its name, a directory's by its first file's."""
    if not path.exists():
        raise OperationalError(f"there is no file {path}")
    names = sorted(path.iterdir()) if path.is_dir() else [path]
    for name in names:
        if name.suffix.removeprefix(".") in FORMATS:
            return name.suffix.removeprefix(".")
    if path.is_dir():
        raise OperationalError(f"there is no .parquet or .csv file in {path}")
    raise OperationalError(f"{path}: the name must end in .parquet or .csv, which says how to read the file")


def batches(source: Source) -> Iterator[pa.RecordBatch | pa.Table]:
    """The source as Arrow batches."""
    if isinstance(source, pa.RecordBatch | pa.Table):
        yield source
    elif hasattr(source, "__arrow_c_stream__"):
        yield from pa.RecordBatchReader.from_stream(source)
    elif isinstance(source, Iterable):
        for item in source:
            yield from batches(item)
    else:
        raise InterfaceError(
            f"cannot load from a {type(source).__name__}: give a path, an Arrow table, batches or a stream of them"
        )
