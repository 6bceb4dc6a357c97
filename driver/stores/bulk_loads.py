"""Bulk loads: Arrow data or files, streamed into a table's `BulkLoader`.

A source is read a batch at a time and each batch is brought to the table's columns and types, so that memory holds one
batch and what the loader keeps, however large the source is. Files take the road of COPY.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import Any, TypeAlias

import pyarrow as pa

from ...errors import Cancelled
from ...executor import ExecutionContext
from ...executor.run.interrupts import DeferInterrupts
from ...executor.run.progress import Handler, Progress, Tracker
from ...executor.statements.statements import run
from ...model.schema import Table
from ...model.store import Store
from ...model.waiting_time import one_statement
from .load_sources import file_source, given_pieces

Source: TypeAlias = Any
"""The path of a file, or rows: see `stores.load_sources`."""


@one_statement
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
        context = ExecutionContext(store, cancel=cancel, progress=_both(progress, handler))
        return run(file_source(table, source), context).rowcount
    rows = 0
    tracker = None if handler is None else Tracker(handler, cancel)
    if tracker is not None:
        tracker.opened(0, source.num_rows if isinstance(source, pa.RecordBatch | pa.Table) else None, 1)
    with store.bulk_loader(table) as loader:
        for append, count in given_pieces(table, source, loader):
            _raise_if(cancel)
            # Only the loader is kept from interrupts: the source may make others wait.
            with DeferInterrupts(cancel):
                append()
            rows += count
            if progress is not None:
                progress(rows)
            if tracker is not None:
                tracker.passed(count)
        _raise_if(cancel)
        with DeferInterrupts(cancel):
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
