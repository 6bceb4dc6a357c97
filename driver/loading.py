"""Bulk loads: Arrow data or files, streamed into a table's `BulkLoader`.

A source is read a batch at a time and each batch is brought to the table's columns and types, so that memory holds one
batch and what the loader keeps, however large the source is. Files take the road of COPY.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, TypeAlias

import pyarrow as pa

from ..errors import Cancelled, InterfaceError, OperationalError
from ..executor import ExecutionContext, run
from ..executor.files.copying import conform
from ..executor.interrupts import Deferred
from ..executor.progress import Handler, Progress, Tracker
from ..sql.bound import CopyFrom
from ..storage.schema import Table
from ..storage.store import Store

Source: TypeAlias = Any
"""pa.Table, pa.RecordBatch, anything with `__arrow_c_stream__`, an iterable of batches, or the path of a file."""

FORMATS = ("parquet", "csv")


def load(
    store: Store,
    table: Table,
    source: Source,
    progress: Callable[[int], None] | None = None,
    handler: Handler | None = None,
    cancel: threading.Event | None = None,
) -> int:
    """Add all rows of `source` to `table`, all or none; how many there were.

    `progress` is called with the number of rows read so far, `handler` as `Connection.set_progress_handler` says. Once
    `cancel` is set, the load ends at its next batch, without a trace. Raises `AlreadyPresent` for a repeated key,
    `DataError` where a value does not fit its column, `UnknownColumn` where the source has a column that the table
    lacks.
    """
    cancel = cancel or threading.Event()
    if isinstance(source, str | os.PathLike):
        path = Path(source)
        context = ExecutionContext(store, cancel=cancel, progress=_both(progress, handler))
        return run(CopyFrom(table, str(path), _format(path)), context).rowcount
    rows = 0
    tracker = None if handler is None else Tracker(handler, cancel)
    if tracker is not None:
        tracker.opened(0, source.num_rows if isinstance(source, pa.RecordBatch | pa.Table) else None, 1)
    with store.bulk_loader(table) as loader:
        for batch in batches(source):
            _raise_if(cancel)
            # Only the loader is kept from interrupts: the source may make others wait.
            with Deferred(cancel):
                loader.append(conform(batch, table, None, "the source"))
            rows += batch.num_rows
            if progress is not None:
                progress(rows)
            if tracker is not None:
                tracker.passed(batch.num_rows)
        _raise_if(cancel)
        with Deferred(cancel):
            rows = loader.finish()
    if tracker is not None:
        tracker.part_done(0)
        tracker.finish()
    return rows


def _raise_if(cancel: threading.Event) -> None:
    if cancel.is_set():
        raise Cancelled("the load was cancelled")


def _both(progress: Callable[[int], None] | None, handler: Handler | None) -> Handler | None:
    """One handler for the two kinds of callbacks."""
    if progress is None:
        return handler

    def tell(found: Progress) -> object:
        progress(found.rows)
        return handler is not None and handler(found)

    return tell


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
