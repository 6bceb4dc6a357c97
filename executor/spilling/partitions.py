"""Rows partitioned by the hash of their keys, in a temporary file.

Rows with equal keys are in one partition, so that an aggregation or a join may process one after the other. A partition
that is still too large is cut again by the next bits of the hash (`level`). This ends when a level separates nothing,
because all remaining keys are equal.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from dataclasses import field

import numpy as np

from ...model.lazy_dataclass import dataclass
from ...model.types import DataType
from ...model.vectors.vector import Array, Batch, Vector
from ...storage.files.spill_file import Extent, SpillFile
from ..hashing import row_hashes
from ..run.stream import BATCH_ROWS
from .encoded import from_record_batch, to_record_batch

BITS = 4
PARTITIONS = 1 << BITS
DEEPEST = 64 // BITS - 1
"""The last level that still has hash bits."""


def partition_numbers(keys: Sequence[Vector], length: int, level: int) -> Array:
    """Partition of each row, 0 to `PARTITIONS` - 1: ndarray of uint8, shape (length,). NULLs are equal, and so are
    values of one number in different encodings and integer types."""
    if not keys:
        return np.zeros(length, np.uint8)
    shift = np.uint64(64 - BITS * (level + 1))
    numbers: Array = ((row_hashes(keys, length) >> shift) & np.uint64(PARTITIONS - 1)).astype(np.uint8)
    return numbers


@dataclass
class SpilledRows:
    """Rows in a temporary file, in order of arrival.

    Parameters
    ----------
    file : SpillFile
        May be shared with other rows.
    types : sequence of DataType
        Types of the columns.
    """

    file: SpillFile
    types: Sequence[DataType]
    extents: list[Extent] = field(default_factory=list)
    bytes: int = 0
    size: int = 0
    """Bytes of memory that all of them take, once read."""
    rows: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def add(self, batch: Batch) -> None:
        """Append a batch; reads all its columns."""
        rows = to_record_batch(batch)
        extent = self.file.write(rows)
        with self._lock:
            self.extents.append(extent)
            self.bytes += extent.length
            self.size += rows.nbytes
            self.rows += extent.rows

    def batches(self) -> Iterator[Batch]:
        """Yield the rows in batches as they were added; small ones are not combined."""
        for extent in self.extents:
            yield self.read(extent)

    def read(self, extent: Extent) -> Batch:
        """Read the batch of one extent."""
        return from_record_batch(self.file.read(extent), self.types)


class PartitionedRows:
    """Rows in one temporary file, by partition. Threads may add concurrently."""

    def __init__(self, file: SpillFile, types: Sequence[DataType]):
        self.parts = [SpilledRows(file, types) for _ in range(PARTITIONS)]

    @property
    def bytes(self) -> int:
        """Total size of all partitions in bytes."""
        return sum(part.bytes for part in self.parts)

    def add(self, batch: Batch, numbers: Array) -> None:
        """Append the rows of a batch to the partitions `numbers` (of `partition_numbers`), in order."""
        for start in range(0, batch.length, BATCH_ROWS):
            piece = batch.slice(start, start + BATCH_ROWS)
            piece = Batch(piece.columns(), piece.length)
            part = numbers[start : start + BATCH_ROWS]
            order = np.argsort(part, kind="stable")
            cuts = np.searchsorted(part.take(order), np.arange(PARTITIONS + 1))
            for number in np.flatnonzero(np.diff(cuts)):
                self.parts[number].add(piece.select(order[cuts[number] : cuts[number + 1]]))
