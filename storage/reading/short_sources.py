"""Sources of a short scan: the keys of a MemRowSet or DiskRowSet from a position on, and their rows.

    keys      the next ones in order, as index keys: integers where a key fits 8 bytes, else encoded bytes
    rows      of those that the merge came to: Python values, None where a row is not visible

Keys are read many at a time and cost a tenth of a microsecond each, so unused ones cost little. Cells cost two to three
times as much, and there are many of them: they are made only for result rows.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_left
from collections.abc import Sequence
from typing import Any, TypeAlias

from ...model.keys.key_codec import KeyCodec
from ...model.schema import ColumnSchema
from ...model.store import ScanCounters
from ...model.vectors.vector import Batch
from ..deltas.deltas import DeltaKind
from ..rowsets.memrowset import MemRowSet
from ..rowsets.stored_rowset import StoredRowSet
from ..single_rows.row_read import changed_rows, is_past, look_up_deltas, stored_row
from ..tablet.tablet import TabletView
from .key_interval import KeyInterval

_DELETE = DeltaKind.DELETE

Row: TypeAlias = "tuple[Any, ...]"
IndexKey: TypeAlias = "int | bytes"
Place: TypeAlias = "tuple[Any, int, int]"
"""A row's index key, the number of its source, its number there."""


class Source(ABC):
    """Rows of one place as a view sees them, ascending by key. For one thread."""

    def __init__(self, number: int, view: TabletView, columns: Sequence[ColumnSchema]):
        self.number = number
        self._timestamp = view.timestamp
        self._columns = columns
        self.last: Any = None
        """The index key that was given last; none that comes later is at or below it."""
        self.is_spent = False
        """True if all keys of the interval have been returned."""

    @abstractmethod
    def places(self, count: int) -> list[Place]:
        """The next `count` rows or more, fewer at the end."""

    @abstractmethod
    def rows(self, places: Sequence[Place]) -> list[Row | None]:
        """Rows at places that `places` returned; each may be requested once, in their order. None if one is not
        visible."""


class MemorySource(Source):
    """The rows of a MemRowSet in an interval of keys."""

    def __init__(
        self,
        number: int,
        memrowset: MemRowSet,
        view: TabletView,
        columns: Sequence[ColumnSchema],
        codec: KeyCodec,
        interval: KeyInterval,
    ):
        super().__init__(number, view, columns)
        self._memrowset = memrowset
        self._low: Any = codec.index_bound(interval.low)
        self._high: Any = None if interval.high is None else codec.index_bound(interval.high)

    def places(self, count: int) -> list[Place]:
        keys = self._memrowset.keys_from(self._low, count)
        if len(keys) < count:
            self.is_spent = True
        if keys:
            last = self.last = keys[-1]
            self._low = last + b"\0" if isinstance(last, bytes) else last + 1
            high = self._high
            if high is not None and last >= high:
                self.is_spent = True
                del keys[bisect_left(keys, high) :]
        number = self.number
        # The position of a row is looked up only if the row is used.
        return [(key, number, 0) for key in keys]

    def rows(self, places: Sequence[Place]) -> list[Row | None]:
        find = self._memrowset.find_one
        return self._memrowset.rows([find(place[0]) for place in places], self._columns, self._timestamp)


class DiskSource(Source):
    """The rows of a DiskRowSet in an interval of keys, read by windows of a few rows."""

    def __init__(
        self,
        number: int,
        stored: StoredRowSet,
        view: TabletView,
        columns: Sequence[ColumnSchema],
        codec: KeyCodec,
        interval: KeyInterval,
        counters: ScanCounters,
    ):
        super().__init__(number, view, columns)
        self._stored = stored
        self._ids = [column.id for column in columns]
        self._codec = codec
        self._interval = interval
        self._counters = counters
        self._range: tuple[int, int] | None = None
        """Row range that was not returned yet, after the first call."""
        self._is_past = is_past(stored, view.timestamp)
        has_deltas = stored.memstore.count or stored.flushing is not None or stored.redo
        self.is_plain = not self._is_past and not has_deltas
        """True if the base data equals the state."""

    def batch(self, limit: int) -> Batch:
        """The first rows of a plain source, in file order."""
        first, end = self._left()
        stop = min(first + limit, end)
        if stop <= first:
            return Batch([], 0)
        read, counters = self._stored.rowset.read, self._counters
        return Batch([read(column, first, stop, counters) for column in self._columns], stop - first)

    def places(self, count: int) -> list[Place]:
        first, end = self._left()
        stop = min(first + count, end)
        self.is_spent = stop >= end
        if stop <= first:
            return []
        self._range = (stop, end)
        keys = self._stored.rowset.index_keys(first, stop, self._codec, self._counters)
        self.last = keys[-1]
        number = self.number
        return [(key, number, row) for row, key in enumerate(keys, first)]

    def rows(self, places: Sequence[Place]) -> list[Row | None]:
        stored, columns, timestamp = self._stored, self._columns, self._timestamp
        if self._is_past:
            return [stored_row(stored, row, columns, timestamp, self._counters) for _, _, row in places]
        first, stop = places[0][2], places[-1][2] + 1
        # What the merge comes to is a window: it passes over none of a source's rows.
        assert stop - first == len(places)
        rows: list[Row | None] = stored.rowset.rows(columns, first, stop, self._counters)
        if self.is_plain:
            return rows
        for row in changed_rows(stored, range(first, stop)):
            by_place: dict[int, Any] = {}
            if look_up_deltas(stored, row, timestamp, self._ids, by_place) is _DELETE:
                rows[row - first] = None
            elif by_place:
                base = rows[row - first] or ()
                rows[row - first] = tuple([by_place.get(id_, value) for id_, value in zip(self._ids, base)])
        return rows

    def _left(self) -> tuple[int, int]:
        if self._range is None:
            self._range = self._interval.rows_of(self._stored.rowset, self._counters)
        return self._range
