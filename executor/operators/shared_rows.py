"""Rows that several uses in a plan read: in memory while they fit, otherwise in a temporary file.

In memory their columns stay unread until they are needed, and are charged for as if they were read. Once the rows do
not fit, all of them are written to the file as they arrive, and each use reads them from there.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

from ...model.vectors.vector import Batch
from ...storage.files.spill_file import Extent, SpillFile
from ..lazy import joined
from ..run.context import ExecutionContext
from ..run.memory import Account
from ..run.stream import BATCH_ROWS, Morsel, Stream, sliced
from ..spilling.encoded import to_record_batch, types_of
from ..spilling.heaps import HeapWork
from ..spilling.partitions import SpilledRows
from ..spilling.sizes import batch_bytes


def kept_rows(source: Stream, context: ExecutionContext) -> tuple[Morsel, ...]:
    """Keep all rows of a stream, in order, as morsels that may run any number of times."""
    keeper = _Keeper(context)
    # If a morsel ended before others began to spill, its rows in memory are written by the last line.
    parts = context.run_all(source, keeper.keep)
    file = keeper.file
    if file is None:
        rows = joined(source.columns, [batch for batches, _ in parts for batch in batches])
        return tuple(Morsel(_piece(piece, keeper.account)) for piece in sliced(rows))
    extents = [extent for batches, written in parts for extent in (*written, *keeper.written(batches))]
    keeper.account.shrink()
    rows_of = SpilledRows(file, types_of(source.columns))
    return tuple(Morsel(_read(rows_of, extent)) for extent in extents)


class _Keeper:
    """Keeps or writes rows. Threads share it."""

    def __init__(self, context: ExecutionContext):
        self.account = context.account("a shared subplan")
        self.file: SpillFile | None = None
        self._work = HeapWork(context, self.account)
        self._lock = threading.Lock()

    def keep(self, batches: Iterator[Batch], morsel: Morsel) -> tuple[list[Batch], list[Extent]]:
        """Keep or write a morsel's rows: batches in memory, after the extents that were written already."""
        kept: list[Batch] = []
        written: list[Extent] = []
        for batch in batches:
            kept.append(batch)
            size = batch_bytes(batch)
            if self.file is None and not self.account.grow(size):
                self._spill()
            if self.file is not None and sum(each.length for each in kept) >= BATCH_ROWS:
                written += self.written(kept)
                kept = []
        return kept, written

    def _spill(self) -> None:
        with self._lock:
            if self.file is None:
                self.file = self._work.new_file()

    def written(self, batches: list[Batch]) -> list[Extent]:
        """Write batches to the file, small ones combined."""
        assert self.file is not None
        if not batches:
            return []
        pieces = sliced(joined((), batches)) if len(batches) > 1 else iter(batches)
        return [self.file.write(to_record_batch(piece)) for piece in pieces]


def _piece(rows: Batch, account: Account) -> Callable[[], Iterator[Batch]]:
    """Return a morsel over rows in memory; the account holds that memory as long as such morsels exist."""

    def run(holder: Account = account) -> Iterator[Batch]:
        yield rows

    return run


def _read(rows: SpilledRows, extent: Extent) -> Callable[[], Iterator[Batch]]:
    def run() -> Iterator[Batch]:
        yield rows.read(extent)

    return run
