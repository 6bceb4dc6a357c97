"""Collection of a join's build side: kept in memory while it fits, then written."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from functools import partial
from typing import Generic, Protocol, TypeVar

from ...model.vectors.vector import Batch, Vector, concat
from ...storage.files.spill_file import Extent
from ..run.context import ExecutionContext
from ..run.memory import Account
from ..run.stream import BATCH_ROWS, Morsel, Stream, sliced
from ..spilling.encoded import types_of
from ..spilling.partitions import SpilledRows
from ..spilling.sizes import batch_bytes

T = TypeVar("T")

_SMALL = BATCH_ROWS // 4
"""Rows below which batches are combined before they are written."""


class Writer(Protocol):
    """Writes one thread's batches, some of them later."""

    def add(self, batch: Batch) -> None: ...

    def flush(self) -> None: ...


class Once(Generic[T]):
    """A value that the first thread that needs it creates.

    It keeps no reference to the creating function: that of its owner would be a reference cycle, which keeps the
    owner's data until the cyclic collector runs.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._made: T | None = None

    @property
    def made(self) -> T | None:
        """Return the value, if it was created."""
        return self._made

    def get(self, make: Callable[[], T]) -> T:
        """Return the value, creating it if needed."""
        with self._lock:
            if self._made is None:
                self._made = make()
            return self._made


class BuildCollector(Generic[T]):
    """Rows of all threads, kept or written.

    Parameters
    ----------
    account : Account
        Charged for rows in memory.
    size : callable
        Bytes of a piece.
    write : callable
        Writes a piece to a `Writer`.
    writer : callable
        Makes the writer of one thread.
    """

    def __init__(
        self,
        context: ExecutionContext,
        account: Account,
        size: Callable[[T], int],
        write: Callable[[T, Writer], None],
        writer: Callable[[], Writer],
    ):
        self._context = context
        self._account = account
        self._size = size
        self._write = write
        self._writer = writer
        self._full = threading.Event()
        self._kept: list[list[tuple[T, int]]] = []

    @property
    def is_written(self) -> bool:
        """True if the rows did not fit and were written."""
        return self._full.is_set()

    def collect(self, stream: Stream, prepare: Callable[[Batch], T]) -> list[T]:
        """Run a stream; return its pieces in order, none if they were written."""

        def work(batches: Iterator[Batch], _: Morsel) -> list[tuple[T, int]]:
            return self._work(map(prepare, batches))

        self._kept = self._context.run_all(stream, work)
        if self.is_written:
            self.write_all()
        return [piece for pieces in self._kept for piece, _ in pieces]

    def _work(self, pieces: Iterator[T]) -> list[tuple[T, int]]:
        kept: list[tuple[T, int]] = []
        for piece in pieces:
            size = self._size(piece)
            if not self.is_written and self._account.grow(size):
                kept.append((piece, size))
                continue
            self._full.set()
            writer = self._writer()
            self._write_kept(kept, writer)
            self._write(piece, writer)
            for further in pieces:
                self._write(further, writer)
            writer.flush()
        return kept

    def write_all(self) -> None:
        """Write the rows in memory even though they fit."""
        self._full.set()

        def task(pieces: list[tuple[T, int]]) -> Callable[[], None]:
            return lambda: self._write_morsel(pieces)

        self._context.parallel([task(pieces) for pieces in self._kept if pieces])

    def _write_morsel(self, pieces: list[tuple[T, int]]) -> None:
        writer = self._writer()
        self._write_kept(pieces, writer)
        writer.flush()

    def _write_kept(self, pieces: list[tuple[T, int]], writer: Writer) -> None:
        pieces.reverse()
        while pieces:
            piece, size = pieces.pop()
            # Released first: the piece is in flight now, and `write` may need to keep a little of it.
            self._account.shrink(size)
            self._write(piece, writer)


class RowWriter:
    """Writes one thread's batches, combining small ones."""

    def __init__(self, rows: SpilledRows):
        self._rows = rows
        self._waiting: list[list[Vector]] = []
        self._waiting_rows = 0

    def add(self, batch: Batch) -> None:
        """Write a batch, or buffer it, read."""
        if not self._waiting and batch.length >= _SMALL:
            self._write(Batch(batch.slots(), batch.length))
        elif batch.length:
            self._waiting.append(batch.columns())
            self._waiting_rows += batch.length
            if self._waiting_rows >= 2 * _SMALL:
                self.flush()

    def flush(self) -> None:
        """Write the buffered rows."""
        if self._waiting:
            columns = [concat(vectors) for vectors in zip(*self._waiting, strict=True)]
            batch = Batch(columns, self._waiting_rows)
            self._waiting, self._waiting_rows = [], 0
            self._write(batch)

    def _write(self, batch: Batch) -> None:
        for piece in sliced(batch):
            self._rows.add(piece)


def all_probed(context: ExecutionContext, account: Account, output: Stream, rest: Callable[[], Batch]) -> Stream:
    """Stream of a join for the kinds of `MARKS_BUILD`: runs all of `output`, which marks build rows, and appends the
    rows that are known only then."""
    types = types_of(output.columns)
    heap: Once[SpilledRows] = Once()
    collector: BuildCollector[Batch] = BuildCollector(
        context,
        account,
        batch_bytes,
        lambda batch, writer: writer.add(batch),
        lambda: RowWriter(heap.get(lambda: SpilledRows(context.spill_file(), types))),
    )
    batches = collector.collect(output, lambda batch: batch)
    batches.append(rest())
    morsels = [] if heap.made is None else [Morsel(partial(_read, heap.made, extent)) for extent in heap.made.extents]
    morsels.extend(Morsel(partial(_kept, batch, account)) for batch in batches)
    return Stream(output.columns, tuple(morsels))


def _read(heap: SpilledRows, extent: Extent) -> Iterator[Batch]:
    yield heap.read(extent)


def _kept(batch: Batch, _account: Account) -> Iterator[Batch]:
    """Yield a batch that an account holds as long as this function is referenced."""
    yield batch
