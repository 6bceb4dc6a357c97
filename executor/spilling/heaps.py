"""Processing of spilled rows heap by heap: each as small as memory requires, several at a time.

    heap ──┬── fits ──────────────► work
           ├── does not ──────────► cut by the next bits of the hash: 16 heaps
           └── nor can be cut ────► alone: work while no other heap is worked on, or an error that says what it needs

A heap may hold rows of several inputs (the two sides of a set operation, the groups of an aggregation and the rows of
their aggregates); all of them are cut by the same columns. Work on a heap runs to its end in one thread without waiting
for another thread. So a heap that must be processed alone waits no longer than that.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final, TypeVar

import numpy as np

from ...model.lazy_dataclass import dataclass
from ...model.vectors.vector import Batch
from ...storage.files.spill_file import SpillFile
from ..hashing import row_hashes
from ..lazy import concat_batches
from ..run.context import ExecutionContext
from ..run.memory import Account
from .partitions import BITS, DEEPEST, PARTITIONS, PartitionedRows, SpilledRows, partition_numbers
from .sizes import batch_bytes

T = TypeVar("T")

_PORTIONS: Final = 16
"""Share of the limit that is read at a time while a heap is cut."""
WORKING: Final = 3
"""Factor by which rows that are read, joined and grouped are charged."""


@dataclass(frozen=True, slots=True)
class Heap:
    """Rows that lie together because `level` levels of their keys' hashes are equal.

    Parameters
    ----------
    inputs : sequence of SpilledRows
    keys : int
        The first `keys` columns of each input are its keys.
    level : int
        The level to cut them by next.
    """

    inputs: Sequence[SpilledRows]
    keys: int
    level: int = 1

    @property
    def rows(self) -> int:
        """Rows of all inputs."""
        return sum(rows.rows for rows in self.inputs)

    @property
    def size(self) -> int:
        """Bytes of all inputs, once read."""
        return sum(rows.size for rows in self.inputs)

    def can_be_cut(self) -> bool:
        """True if two rows differ in the remaining bits of their keys' hashes."""
        if self.level > DEEPEST or not self.keys:
            return False
        shift = np.uint64(BITS * self.level)
        first = None
        for rows in self.inputs:
            for batch in rows.batches():
                hashes = row_hashes(batch.columns()[: self.keys], batch.length) << shift
                first = hashes[0] if first is None else first
                if (hashes != first).any():
                    return True
        return False

    def cut(self, file: SpillFile, portion: int, check: Callable[[], None]) -> list[Heap]:
        """Cut the heap by its next level, about `portion` bytes at a time, into another file; return the heaps that
        have rows."""
        parted = [PartitionedRows(file, rows.types) for rows in self.inputs]
        for rows, parts in zip(self.inputs, parted, strict=True):
            for batch in _portions(rows, portion):
                check()
                parts.add(batch, partition_numbers(batch.columns()[: self.keys], batch.length, self.level))
        return heaps_of(parted, self.keys, self.level + 1)


def _portions(rows: SpilledRows, size: int) -> Iterator[Batch]:
    """Yield the rows in batches of about `size` bytes, combining smaller ones. Otherwise batches would become smaller
    from level to level, and in the end larger than their contents."""
    gathered: list[Batch] = []
    left = size
    for batch in rows.batches():
        gathered.append(batch)
        left -= batch_bytes(batch)
        if left <= 0:
            yield concat_batches(gathered)
            gathered, left = [], size
    if gathered:
        yield concat_batches(gathered)


def heaps_of(parted: Sequence[PartitionedRows], keys: int, level: int = 1) -> list[Heap]:
    """Return the heaps of inputs that were cut by the same keys; only those that have rows."""
    heaps = [Heap([parts.parts[number] for parts in parted], keys, level) for number in range(PARTITIONS)]
    return [heap for heap in heaps if heap.rows]


class HeapWork:
    """Memory and files for processing the heaps of one operator. Threads share it.

    It must be made while the operator is opened; heaps may be processed later.
    """

    def __init__(self, context: ExecutionContext, account: Account):
        self._context = context
        self._account = account
        self._lock_of_work = _SharedLock()
        self._node = context.opening[-1] if context.opening else None
        limit = context.memory.limit
        self._most = None if limit is None else limit // 2
        self._portion = 1 << 20 if limit is None else limit // _PORTIONS

    def new_file(self) -> SpillFile:
        """Make a temporary file of this operator."""
        return self._context.spill_file(self._node)

    def each(self, heap: Heap, work: Callable[[Heap], T]) -> Iterator[T]:
        """Yield the result of `work` for the heap, or for each of the smaller heaps that it was cut into."""
        self._context.check()
        size = WORKING * heap.size
        done = self._together(heap, work, size) if self._most is None or size <= self._most else None
        if done is not None:
            yield from done
        elif heap.can_be_cut():
            for smaller in heap.cut(self.new_file(), self._portion, self._context.check):
                yield from self.each(smaller, work)
        else:
            with self._lock_of_work.exclusive():
                self._account.hold(size)
                result = self._done(heap, work, size)
            yield result

    def _together(self, heap: Heap, work: Callable[[Heap], T], size: int) -> tuple[T] | None:
        """Return the work's result, if there is room."""
        with self._lock_of_work.shared():
            return (self._done(heap, work, size),) if self._account.grow(size) else None

    def _done(self, heap: Heap, work: Callable[[Heap], T], size: int) -> T:
        try:
            return work(heap)
        finally:
            self._account.shrink(size)


class _SharedLock:
    """Lock that several threads share, or one holds exclusively."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._working = 0
        self._is_alone = False

    @contextmanager
    def shared(self) -> Iterator[None]:
        with self._changed:
            self._changed.wait_for(lambda: not self._is_alone)
            self._working += 1
        try:
            yield
        finally:
            with self._changed:
                self._working -= 1
                self._changed.notify_all()

    @contextmanager
    def exclusive(self) -> Iterator[None]:
        with self._changed:
            self._changed.wait_for(lambda: not self._is_alone and not self._working)
            self._is_alone = True
        try:
            yield
        finally:
            with self._changed:
                self._is_alone = False
                self._changed.notify_all()
