"""Scans in key order: the rows of a tablet's overlapping rowsets and MemRowSets, merged batch by batch.

Every rowset returns its rows in key order already. The *heads* are the current batches, one per source that has begun:

    rowset 1      [a c e g]  [h ...          the smallest last key is f: everything at or below it is here,
    rowset 2      [b d f]    [g ...          in one of the heads, and goes out now as one batch
    rowset 3      (begins at k, is not opened yet)

    out           a b c d e f                then rowset 2 gives its next batch

A round takes the rows of all heads at or below the smallest last key, concatenates them and sorts them by key: no step
per row. If only one head has such rows, they are returned unchanged and unread. A rowset is opened when the merge
reaches its least key; while it is alone, its keys are not read either. So ten rows of a large table cost the first
pages of one rowset.

MemRowSets are not in order and have no bounds: their rows are sorted when the scan begins.

A descending scan is the same merge over keys that compare the other way round (`_Descending`): every rowset returns its
row groups from the end on, each reversed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import field
from functools import partial
from typing import Any, TypeAlias

import numpy as np

from ...model.keys.key_encoding import decode_key
from ...model.keys.keys import Keys
from ...model.lazy_dataclass import dataclass
from ...model.schema import ColumnSchema
from ...model.store import ScanSpec
from ...model.types import DataType
from ...model.vectors.vector import Array, Batch, LazyColumn, Vector, concat
from ..columns.column_file import ROW_GROUP_ROWS
from ..tablet.tablet import TabletView

KeyValues: TypeAlias = tuple[Any, ...]
"""The physical values of a key: Python orders these tuples as keys are ordered."""
ScanSource: TypeAlias = Callable[[int, Sequence[ColumnSchema]], Iterator[Batch]]
"""Reads one source of a view whole (its place among the rowsets, followed by the MemRowSets), with these columns, at
the view's time and under the scan's predicates."""


def scan_ordered(view: TabletView, spec: ScanSpec, scan_source: ScanSource) -> Iterator[Batch]:
    """The rows of a view that satisfy the spec's predicates, at most `spec.limit` of them, ascending by primary key, or
    descending.

    Key columns need not be among the spec's columns: they are read where rows are merged, and dropped.

    Yields
    ------
    Batch
        Of at most 131,072 rows, never empty; columns are read at first touch, so the view must outlive the batch.
    """
    schema = view.table.schema
    columns = [schema.column(name) for name in spec.columns]
    columns += [column for column in schema.key if column.name not in spec.columns]
    places = tuple(columns.index(column) for column in schema.key)
    key = KeyColumns(tuple(column.type for column in schema.key), places, spec.descending)
    sources = []
    for number, stored in enumerate(view.rowsets):
        lowest, highest = key.bounds(stored.rowset.metadata.min_key, stored.rowset.metadata.max_key)
        sources.append(OrderedSource(partial(scan_source, number, columns), lowest, highest))
    memory = range(len(view.rowsets), len(view.rowsets) + len(view.memrowsets))
    unordered = [scan_source(number, columns) for number in memory]
    for batch in merged(sources, unordered, key, spec.limit):
        yield batch.project(range(len(spec.columns)))


@dataclass(frozen=True, slots=True, eq=False)
class OrderedSource:
    """Rows in the order of the scan, to be read when they are needed.

    Parameters
    ----------
    open : callable
        Starts reading: batches with the scan's columns and, behind them, the key columns that are not among them.
    lowest, highest : tuple
        Keys (`KeyColumns.comparable`) that enclose all rows: at or before the first and behind the last.
    """

    open: Callable[[], Iterator[Batch]]
    lowest: KeyValues
    highest: KeyValues


@dataclass(frozen=True, slots=True)
class KeyColumns:
    """Key columns of the batches: their types and positions, in key order; `descending`: of rows that descend."""

    types: tuple[DataType, ...]
    places: tuple[int, ...]
    descending: bool = False

    def of(self, batch: Batch) -> Keys:
        """The keys of a batch; reads its key columns."""
        return Keys(self.types, tuple(batch.column(place) for place in self.places))

    def bounds(self, lowest: bytes, highest: bytes) -> tuple[KeyValues, KeyValues]:
        """Encoded keys as what the merge compares: the first and the last of the scan's order."""
        low, high = self.comparable(decode_key(self.types, lowest)), self.comparable(decode_key(self.types, highest))
        return (high, low) if self.descending else (low, high)

    def comparable(self, values: KeyValues) -> KeyValues:
        """A key as what the merge compares."""
        return _Descending(values) if self.descending else values


class _Descending(tuple[Any, ...]):
    """The values of a key that is less than another where its values are greater."""

    __slots__ = ()

    def __lt__(self, other: KeyValues) -> bool:
        return tuple.__gt__(self, other)

    def __le__(self, other: KeyValues) -> bool:
        return tuple.__ge__(self, other)

    def __gt__(self, other: KeyValues) -> bool:
        return tuple.__lt__(self, other)

    def __ge__(self, other: KeyValues) -> bool:
        return tuple.__le__(self, other)


def merged(
    sources: Sequence[OrderedSource],
    unordered: Sequence[Iterator[Batch]],
    key: KeyColumns,
    limit: int | None = None,
    unbounded: Sequence[Iterator[Batch]] = (),
) -> Iterator[Batch]:
    """Yields all rows of the sources in the order of `key`; keys are unique.

    Parameters
    ----------
    sources : sequence of OrderedSource
    unordered : sequence of iterator of Batch
        Rows in any order, with the same columns; all of them are read at the beginning.
    limit : int, optional
        Limit of rows.
    unbounded : sequence of iterator of Batch
        Rows in the order of `key`, of which no bounds are known; reading begins at once.

    Yields
    ------
    Batch
        Of at most 131,072 rows, never empty, with the columns of the sources' batches.
    """
    left = limit
    for batch in _Merge(sources, unordered, key, unbounded).batches():
        if left is not None:
            if left == 0:
                return
            batch = batch.slice(0, left)
            left -= batch.length
        yield batch
        if left == 0:
            return


@dataclass(slots=True, eq=False)
class _Head:
    """The batch at hand of a source that has begun, from row `start` on."""

    batches: Iterator[Batch]
    batch: Batch
    highest: KeyValues | None
    """At or above all keys of the source that are still to come; None where unknown."""
    start: int = 0
    keys: Keys | None = field(default=None)

    def key_at(self, row: int, key: KeyColumns) -> KeyValues:
        if self.keys is None:
            self.keys = key.of(self.batch)
        return key.comparable(self.keys.values_at(row))

    def end(self, bound: KeyValues, key: KeyColumns) -> int:
        """The first row behind `start` whose key is above `bound`."""
        low, high = self.start, self.batch.length
        while low < high:
            middle = (low + high) >> 1
            if self.key_at(middle, key) <= bound:
                low = middle + 1
            else:
                high = middle
        return low


class _Merge:
    """The state of one merge: heads, and sources that have not begun, the next one last."""

    def __init__(
        self,
        sources: Sequence[OrderedSource],
        unordered: Sequence[Iterator[Batch]],
        key: KeyColumns,
        unbounded: Sequence[Iterator[Batch]],
    ):
        self._key = key
        self._waiting = sorted(sources, key=lambda source: source.lowest, reverse=True)
        self._heads: list[_Head] = []
        for batches in unordered:
            if held := list(batches):
                self._begin(_ordered(held, key), None)
        for batches in unbounded:
            self._begin(batches, None)

    def batches(self) -> Iterator[Batch]:
        """The rows in order."""
        while self._heads or self._waiting:
            if not self._heads:
                self._open_next()
            elif self._is_alone():
                yield from self._finish_only()
            else:
                yield from self._round()

    def _begin(self, batches: Iterator[Batch], highest: KeyValues | None) -> None:
        first = next(batches, None)
        if first is not None:
            self._heads.append(_Head(batches, first, highest))

    def _open_next(self) -> None:
        source = self._waiting.pop()
        self._begin(source.open(), source.highest)

    def _is_alone(self) -> bool:
        """True if all rows of the only head come before those of every other source."""
        if len(self._heads) > 1:
            return False
        highest = self._heads[0].highest
        return not self._waiting or (highest is not None and highest < self._waiting[-1].lowest)

    def _finish_only(self) -> Iterator[Batch]:
        (head,) = self._heads
        if head.start < head.batch.length:
            yield head.batch.slice(head.start, head.batch.length)
        yield from head.batches
        self._heads = []

    def _round(self) -> Iterator[Batch]:
        """Emit the rows at or below the smallest last key of the heads."""
        bound = min(self._last_key(head) for head in self._heads)
        while self._waiting and self._waiting[-1].lowest <= bound:
            count = len(self._heads)
            self._open_next()
            if len(self._heads) > count:
                bound = min(bound, self._last_key(self._heads[-1]))
        parts = []
        for head in self._heads:
            end = head.end(bound, self._key)
            if end > head.start:
                parts.append((head.batch, head.start, end))
                head.start = end
        yield from _joined(parts, self._key)
        self._advance()

    def _last_key(self, head: _Head) -> KeyValues:
        return head.key_at(head.batch.length - 1, self._key)

    def _advance(self) -> None:
        """The next batch of each head whose batch is used up."""
        kept = []
        for head in self._heads:
            if head.start < head.batch.length:
                kept.append(head)
            elif (following := next(head.batches, None)) is not None:
                kept.append(_Head(head.batches, following, head.highest))
        self._heads = kept


def _joined(parts: Sequence[tuple[Batch, int, int]], key: KeyColumns) -> Iterator[Batch]:
    """Rows of several batches in key order, in batches of at most 131,072 rows."""
    batches = [batch.slice(start, stop) for batch, start, stop in parts]
    if len(batches) == 1:
        yield batches[0]
        return
    yield from _ordered(batches, key, of_runs=True)


def _ordered(batches: Sequence[Batch], key: KeyColumns, of_runs: bool = False) -> Iterator[Batch]:
    """The rows of some batches (`of_runs`: each in the order of the scan) in key order; columns that are not of the key
    are read when they are touched."""
    columns = _JoinedColumns(batches)
    keys = Keys(key.types, tuple(columns.get(place) for place in key.places))
    order = keys.merge_order() if of_runs else keys.order()
    order = order[::-1] if key.descending else order
    for start in range(0, len(order), ROW_GROUP_ROWS):
        rows = order[start : start + ROW_GROUP_ROWS]
        yield Batch([LazyColumn(columns.loader(place), rows) for place in range(batches[0].width)], len(rows))


class _JoinedColumns:
    """The columns of several batches one behind the other, each joined at first touch."""

    def __init__(self, batches: Sequence[Batch]):
        self._batches = batches
        self._joined: dict[int, Vector] = {}

    def get(self, place: int) -> Vector:
        vector = self._joined.get(place)
        if vector is None:
            vector = self._joined[place] = concat([batch.column(place) for batch in self._batches])
        return vector

    def loader(self, place: int) -> Callable[[Array | None], Vector]:
        def load(rows: Array | None) -> Vector:
            vector = self.get(place)
            return vector if rows is None else vector.take(np.asarray(rows, np.intp))

        return load
