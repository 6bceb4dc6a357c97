"""The rows of a MemRowSet as they were inserted: chunks of Arrow columns, and single rows that are to become one.

    chunks     [65,536 rows][65,536 rows][4,096][256][256][1][1][1]...     columns: Arrow arrays
    pending    (7, 'a'), (8, 'b'), ...                                     fewer than 256 rows: `PendingRows`

A batch is appended as one chunk, as it came. A single row is appended to a list, since making a chunk of it would cost
more than everything else about it; the list becomes a chunk when 256 rows are in it, or a batch comes. Once `FAN_IN`
small chunks of a size class stand at the end, they are joined into one: each row is copied a few times more, whether
rows come one by one or in millions, and a reader finds few chunks. Row numbers (in the order of insertion) never
change.
"""

from __future__ import annotations

import threading
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property, partial
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from ...model.lazy_dataclass import dataclass
from ...model.schema import Schema
from ...model.types import DataType
from ...model.vectors.arrow_values import TextCells
from ...model.vectors.vector import Array, Vector, vector_from_arrow
from .pending_rows import PendingChunk, PendingRows

BATCH_ROWS = 65_536
_TEXTS = (pa.string(), pa.binary())
PENDING_ROWS = 256
"""Number of single rows that become a chunk."""
FAN_IN = 16
"""Chunks of a size class that are joined: 16 of single rows become one of 16, 16 of those one of 256, and so on up to
`BATCH_ROWS`."""
LARGE_CHUNK = 16 * PENDING_ROWS
"""A chunk of fewer rows keeps the columns that readers made of it: scans concurrent with writers find some dozens of
these, and making one costs Arrow as much as its rows. For larger chunks this would use uncounted memory."""
_PROJECTIONS = 16
"""Lists of columns of which a chunk keeps the buffers."""
PENDING_BYTES = 64
"""Memory of a pending row in addition to its values: its tuple and its entries in two lists."""
VALUE_BYTES = 32
"""Memory that a value of a pending row takes: the Python object, texts without their characters."""


@dataclass(frozen=True, eq=False)
class Chunk:
    """Rows in the order of insertion.

    Parameters
    ----------
    rows : pa.RecordBatch
        All columns of the schema.
    timestamps : ndarray of uint64, shape (n_rows,), or int
        Of each row, or of all.
    oldest, newest : int
        The least and the greatest of them.
    """

    rows: pa.RecordBatch
    timestamps: Array | int
    oldest: int
    newest: int

    @classmethod
    def of(cls, rows: pa.RecordBatch, timestamps: Array | int) -> Chunk:
        """Some rows with their timestamps."""
        if isinstance(timestamps, int):
            return cls(rows, timestamps, timestamps, timestamps)
        return cls(rows, timestamps, int(timestamps.min()), int(timestamps.max()))

    def __len__(self) -> int:
        count: int = self.rows.num_rows
        return count

    @cached_property
    def cells(self) -> list[Callable[[int], Any]]:
        """Accessors of single values of the columns, made once: Arrow wraps columns again at every call."""
        return [
            partial(_cell, column) if texts is None else texts.get
            for column, texts in zip(self.rows.columns, self._texts)
        ]

    @cached_property
    def _texts(self) -> list[TextCells | None]:
        return [TextCells(column) if column.type in _TEXTS else None for column in self.rows.columns]

    def row(self, place: int, columns: tuple[int, ...]) -> list[Any]:
        """Some columns of a row as Python values, None for a position of -1."""
        try:
            strings = self._known_strings[columns]
        except KeyError:
            strings = self.strings(columns)
            if len(self._known_strings) < _PROJECTIONS:
                self._known_strings[columns] = strings
        if strings is None:
            cells = self.cells
            return [cells[i](place) if i >= 0 else None for i in columns]
        after = place + 1
        return [str(data[offsets[place] : offsets[after]], "utf-8") for offsets, data in strings]

    @cached_property
    def _known_strings(self) -> dict[tuple[int, ...], list[tuple[memoryview, memoryview]] | None]:
        """`strings` by columns."""
        return {}

    def strings(self, places: Sequence[int]) -> list[tuple[memoryview, memoryview]] | None:
        """Offsets and bytes of the values of some columns, if all are strings without NULLs: `TextCells.strings`."""
        buffers = []
        for place in places:
            texts = self._texts[place] if place >= 0 else None
            where = None if texts is None else texts.strings
            if where is None:
                return None
            buffers.append(where)
        return buffers

    def vector(self, place: int, type_: DataType) -> Vector:
        """The column at a place of the schema, of a type; kept where the chunk is small."""
        cached = self._vectors.get(place)
        if cached is None:
            cached = vector_from_arrow(type_, self.rows.column(place))
            if len(self) < LARGE_CHUNK:
                self._vectors[place] = cached
        return cached

    @cached_property
    def _vectors(self) -> dict[int, Vector]:
        return {}

    def stamps(self) -> Array:
        """The timestamp of each row: ndarray of uint64, shape (n_rows,)."""
        if isinstance(self.timestamps, int):
            return np.full(len(self), self.timestamps, np.uint64)
        return self.timestamps

    def restamped(self, old: int, new: int) -> Chunk:
        """The rows with another timestamp in the place of one."""
        if not self.oldest <= old <= self.newest:
            return self
        if isinstance(self.timestamps, int):
            return Chunk.of(self.rows, new)
        return Chunk.of(self.rows, np.where(self.timestamps == np.uint64(old), np.uint64(new), self.timestamps))

    def slice(self, start: int, stop: int) -> Chunk:
        """Some of the rows, as views."""
        stamps = self.timestamps if isinstance(self.timestamps, int) else self.timestamps[start:stop]
        return Chunk(self.rows.slice(start, stop - start), stamps, self.oldest, self.newest)


Located: TypeAlias = "tuple[int, tuple[Any, ...] | None, Chunk | None, int]"
"""When a row was inserted; its values, or the chunk that has them; its place there."""


class Chunks:
    """See the module's page. Not safe for several threads: the MemRowSet's mutex guards all but `locate`."""

    def __init__(self, schema: Schema):
        self.row_count = 0
        self.nbytes = 0
        """About the memory taken."""
        self._schema = schema
        self._chunks: list[Chunk] = []
        self._version = 0
        """Grows with every change."""
        self._is_changing = False
        """True while a writer changes fields: `_locate` would mix old and new ones."""
        self._starts: list[int] = []
        self._pending = PendingRows(schema)
        self._pending_bytes = 0
        self._row_bytes = PENDING_BYTES + VALUE_BYTES * len(schema.columns)
        self._sized = [i for i, c in enumerate(schema.columns) if c.type.arrow in (pa.string(), pa.binary())]

    # ---- writing -------------------------------------------------------------------------------------------------

    def append(self, rows: pa.RecordBatch, timestamps: Array | int) -> None:
        """Add a batch as a chunk."""
        with self._changed():
            if self._pending:
                self._gather()
            self._add(Chunk.of(rows, timestamps), self.row_count)
            self.row_count += rows.num_rows
            self.nbytes += rows.nbytes

    def append_row(self, values: tuple[Any, ...], timestamp: int) -> None:
        """Add one row of Python values, as `pa.array` takes them, in the schema's order."""
        size = self._row_bytes
        for place in self._sized:
            value = values[place]
            if value is not None:
                size += len(value)
        self._is_changing = True  # as `_changed`, which takes as long as all the rest
        pending = self._pending
        pending.rows.append(values)
        pending.stamps.append(timestamp)
        self._pending_bytes += size
        self.row_count += 1
        self.nbytes += size
        self._version += 1
        self._is_changing = False
        if len(pending.rows) >= PENDING_ROWS:
            with self._changed():
                self._gather()

    def restamp(self, old: int, new: int) -> None:
        """Give the rows with one timestamp another one."""
        with self._changed():
            if self._pending:
                self._gather()
            self._chunks = [chunk.restamped(old, new) for chunk in self._chunks]

    @contextmanager
    def _changed(self) -> Iterator[None]:
        self._is_changing = True
        try:
            yield
        finally:
            self._version += 1
            self._is_changing = False

    def _gather(self) -> None:
        """Make the pending rows a chunk."""
        pending = self._pending
        whole = PendingChunk(pending, 0, len(pending))
        self._add(Chunk.of(whole.rows, whole.stamps()), self.row_count - len(whole))
        self.nbytes += whole.rows.nbytes - self._pending_bytes
        # Who reads the old ones keeps them.
        self._pending, self._pending_bytes = PendingRows(self._schema), 0

    def _add(self, chunk: Chunk, start: int) -> None:
        self._starts.append(start)
        self._chunks.append(chunk)
        low = 1
        while low < BATCH_ROWS:
            self._join_small(low, low * FAN_IN)
            low *= FAN_IN

    def _join_small(self, low: int, high: int) -> None:
        """Join the last `FAN_IN` chunks if each has `low` to `high` (exclusive) rows."""
        last = self._chunks[-FAN_IN:]
        # The newest chunk decides nearly always, without looking at the others.
        if len(last) < FAN_IN or not low <= len(last[-1]) < high:
            return
        if all(low <= len(chunk) < high for chunk in last):
            self._chunks[-FAN_IN:] = [_joined(last)]
            self._starts[-FAN_IN:] = [self._starts[-FAN_IN]]

    # ---- reading -------------------------------------------------------------------------------------------------

    def snapshot(self) -> tuple[Chunk | PendingChunk, ...]:
        """All rows; later appends and joins are not visible in it. Only the last may be pending."""
        pending = self._pending
        return (*self._chunks, PendingChunk(pending, 0, len(pending))) if pending else tuple(self._chunks)

    def inserted_after(self, rows: Array, timestamp: int) -> Array:
        """Which of some rows (ndarray of int64, in any order) were inserted after a timestamp: ndarray of bool."""
        late = np.zeros(len(rows), np.bool_)
        first = 0
        for chunk in self.snapshot():
            if chunk.newest > timestamp:  # nearly always the last ones only
                mine = np.flatnonzero((rows >= first) & (rows < first + len(chunk)))
                if chunk.oldest > timestamp:
                    late[mine] = True
                elif len(mine):
                    late[mine] = chunk.stamps()[rows[mine] - first] > np.uint64(timestamp)
            first += len(chunk)
        return late

    def locate(self, rows: Sequence[int], mutex: threading.Lock) -> list[Located | None]:
        """Some rows as they were inserted, in their order; None where the number is -1.

        Takes the mutex only where a writer is in the way: many look-ups at once would hand it to each other.
        """
        version = self._version
        try:
            located = None if self._is_changing else self._locate(rows)
        except IndexError:  # pending rows became a chunk meanwhile
            located = None
        if located is None or self._is_changing or version != self._version:
            with mutex:
                return self._locate(rows)
        return located

    def _locate(self, rows: Sequence[int]) -> list[Located | None]:
        pending, chunks, starts = self._pending, self._chunks, self._starts
        first = self.row_count - len(pending)
        located: list[Located | None] = []
        for row in rows:
            if row < 0:
                located.append(None)
            elif row >= first:
                place = row - first
                located.append((pending.stamps[place], pending.rows[place], None, place))
            else:
                number = bisect_right(starts, row) - 1
                chunk, place = chunks[number], row - starts[number]
                stamps = chunk.timestamps
                located.append((stamps if isinstance(stamps, int) else int(stamps[place]), None, chunk, place))
        return located


def values_of(located: Located, places: Sequence[int]) -> list[Any]:
    """Some columns of a row as Python values; None for a place of -1."""
    _, values, chunk, place = located
    if values is not None:
        return [values[i] if i >= 0 else None for i in places]
    assert chunk is not None
    cells = chunk.cells
    return [cells[i](place) if i >= 0 else None for i in places]


class RowCells:
    """Gives the values of some columns, row by row; to be made for the rows of one look-up or scan.

    Where all columns are strings without NULLs, a row of ten costs a third less than by `values_of`.
    """

    __slots__ = ("_places", "_strings")

    def __init__(self, places: Sequence[int]):
        self._places = places
        self._strings: dict[Chunk, list[tuple[memoryview, memoryview]] | None] = {}

    def of(self, located: Located) -> list[Any]:
        """`values_of`."""
        chunk, place = located[2], located[3]
        if chunk is None:
            return values_of(located, self._places)
        try:
            strings = self._strings[chunk]
        except KeyError:
            strings = self._strings[chunk] = chunk.strings(self._places)
        if strings is None:
            return values_of(located, self._places)
        after = place + 1
        return [str(data[offsets[place] : offsets[after]], "utf-8") for offsets, data in strings]


def _cell(column: pa.Array, place: int) -> Any:
    return column[place].as_py()


def _joined(chunks: Sequence[Chunk]) -> Chunk:
    rows = pa.concat_batches([chunk.rows for chunk in chunks])
    stamps = np.concatenate([chunk.stamps() for chunk in chunks])
    return Chunk(rows, stamps, min(c.oldest for c in chunks), max(c.newest for c in chunks))
