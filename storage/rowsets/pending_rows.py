"""Single rows of a MemRowSet, before they are a chunk: Python values, from which readers make the columns that they
use.

    rows       (7, 'a', 1.5)  (8, 'b', 2.5) │ (9, 'c', 3.5)      grow at the end
    column 2        1.5            2.5      │                    made up to here; continues here next time

A scan concurrent with writers finds a few new rows each time, and reads a few columns. So of each column only the rows
since its last use are converted, and nothing of the others.
"""

from __future__ import annotations

import threading
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from ...model.arrow_arrays import arrow_array
from ...model.lazy_dataclass import dataclass
from ...model.schema import Schema
from ...model.types import DataType
from ...model.vectors.vector import Array, Vector
from ..deltas.append_vector import GrownVector


class PendingRows:
    """Rows in the order of insertion. One thread at a time adds some; any may read those that were there before."""

    def __init__(self, schema: Schema):
        self.schema = schema
        self.rows: list[tuple[Any, ...]] = []
        """Values as `pa.array` takes them, in the schema's order. Only appended to, as the next."""
        self.stamps: list[int] = []
        """When each row was inserted; ascending."""
        self._growing = threading.Lock()
        """Guards `_grown`."""
        self._grown: dict[int, tuple[int, GrownVector]] = {}
        """Columns used so far, by position, and their number of rows."""

    def __len__(self) -> int:
        return len(self.rows)

    def vector(self, place: int, type_: DataType, count: int) -> Vector:
        """The column at a place of the schema, of a type, of the first `count` rows."""
        with self._growing:
            made, grown = self._grown.get(place) or (0, GrownVector(type_))
            if made < count:
                grown.put(made, [row[place] for row in self.rows[made:count]])
                self._grown[place] = (count, grown)
            return grown.first(count)


@dataclass(frozen=True, eq=False)
class PendingChunk:
    """The rows from `start` to `stop` (exclusive) of `pending`, at least one. To readers a `Chunk`."""

    pending: PendingRows
    start: int
    stop: int

    def __len__(self) -> int:
        return self.stop - self.start

    @property
    def oldest(self) -> int:
        """The least timestamp."""
        return self.pending.stamps[self.start]

    @property
    def newest(self) -> int:
        """The greatest timestamp."""
        return self.pending.stamps[self.stop - 1]

    def stamps(self) -> Array:
        """The timestamp of each row: ndarray of uint64, shape (n_rows,)."""
        return np.array(self.pending.stamps[self.start : self.stop], np.uint64)

    def slice(self, start: int, stop: int) -> PendingChunk:
        """Some of the rows."""
        return PendingChunk(self.pending, self.start + start, self.start + stop)

    def vector(self, place: int, type_: DataType) -> Vector:
        """The column at a place of the schema, of a type."""
        return self.pending.vector(place, type_, self.stop).slice(self.start, self.stop)

    @cached_property
    def rows(self) -> pa.RecordBatch:
        """All columns, as a chunk has them."""
        schema = self.pending.schema
        columns = zip(zip(*self.pending.rows[self.start : self.stop]), schema.columns)
        return pa.RecordBatch.from_arrays([arrow_array(v, c.type.arrow) for v, c in columns], schema=schema.arrow)
