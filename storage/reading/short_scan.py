"""A few rows in key order, from a key on: `WHERE key >= ? ORDER BY key LIMIT 20`.

    rowset 1      ... a c e g ...      a window of its keys and columns, by the key index
    rowset 2      ... b d ...
    MemRowSet     ... f ...            the keys from there on, by `KeyOrder`
    ──────────────────────────────
    out           a b c d e f          merged row by row; each row as `row_read` finds it

What `ordered_scan` does for many rows has its price at the beginning: deltas become runs, the rows of MemRowSets are
sorted, bounds and patches are made for whole rowsets. Here nothing is touched but the rows that come out, those that
are deleted in between, and the pages around them. So it costs some hundred microseconds, however much lies in memory.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

import pyarrow as pa

from ...errors import DataError
from ..deltas.deltas import DeltaKind
from ..keys.key_codec import KeyCodec
from ..keys.key_encoding import encode_key, prefix_end
from ..keys.keys import Keys
from ..predicates import ColumnPredicate, InList, Range
from ..rowsets.memrowset import MemRowSet
from ..rowsets.rowset_metadata import RowSetMetadata
from ..rowsets.stored_rowset import StoredRowSet
from ..schema import ColumnSchema, Schema
from ..store import ScanCounters, ScanSpec
from ..tablet.tablet import TabletView
from ..vector import Batch, Vector, vector_from_arrow
from .row_read import is_past, look_up_deltas, stored_row

SHORT_ROWS = 1000
"""Scans of more rows are made by batches."""
_FIRST_WINDOW, _LAST_WINDOW = 32, 1024
_DELETE = DeltaKind.DELETE

Row: TypeAlias = "tuple[Any, ...]"
Place: TypeAlias = "tuple[bytes, int, int]"
"""A row's encoded key, its source, its number there."""


@dataclass(frozen=True, slots=True)
class KeyInterval:
    """The encoded keys from `low` (inclusive) to `high` (exclusive; None: to the end)."""

    low: bytes
    high: bytes | None

    def meets(self, metadata: RowSetMetadata) -> bool:
        """May a rowset have keys in it?"""
        return self.low <= metadata.max_key and (self.high is None or metadata.min_key < self.high)


def short_interval(schema: Schema, spec: ScanSpec) -> KeyInterval | None:
    """What a scan is to give rows of, if it is a short one: in key order, with a limit, and with no other predicates
    than such as come to one interval of keys. None where it is not."""
    if not spec.ordered or spec.limit is None or spec.limit > SHORT_ROWS or spec.changes is not None:
        return None
    types = tuple(column.type for column in schema.key)
    by_column: dict[str, list[ColumnPredicate]] = {}
    for predicate in spec.predicates:
        by_column.setdefault(predicate.column, []).append(predicate)
    prefix: list[Any] = []
    low = high = None
    for column in schema.key:
        mine = by_column.pop(column.name, [])
        if not mine:
            break
        try:
            if (value := _point(mine)) is not None:
                prefix.append(value)
                continue
            bounds = _bounds(types, prefix, mine)
        except DataError:  # a bound beyond what the type can hold
            return None
        if bounds is None:
            return None
        low, high = bounds
        break
    if by_column:
        return None
    start = encode_key(types, prefix)
    if low is None:
        low = start
    if high is None and prefix:
        high = start + b"\0" if len(prefix) == len(types) else prefix_end(start)
    return KeyInterval(low, high)


def scan_short(view: TabletView, spec: ScanSpec, interval: KeyInterval, counters: ScanCounters) -> Iterator[Batch]:
    """The rows of a view in an interval of keys, ascending by key, at most `spec.limit` (not None) of them: one batch,
    or none."""
    counters.passing(0)
    if not spec.limit:
        return
    columns = [view.table.schema.column(name) for name in spec.columns]
    rowsets = [_Disk(r.stored, view, columns, spec, counters) for r in view.rowsets if interval.meets(r.metadata)]
    memory = [_Memory(memrowset, view, columns, interval) for memrowset in view.memory]
    sources: list[_Source] = [*rowsets, *(source for source in memory if not source.is_empty)]
    if len(sources) == 1 and rowsets and rowsets[0].is_plain:
        batch = rowsets[0].batch(spec.limit)
    else:
        batch = _merged(sources, columns, spec.limit, counters)
    if batch is not None:
        counters.rows_returned += batch.length
        yield batch


def _merged(
    sources: Sequence[_Source], columns: Sequence[ColumnSchema], limit: int, counters: ScanCounters
) -> Batch | None:
    places = heapq.merge(*(source.places(number) for number, source in enumerate(sources)))
    rows: list[Row] = []
    for _, source, number in places:
        if number < 0:
            continue
        counters.rows_considered += 1
        row = sources[source].get(number)
        if row is not None:
            rows.append(row)
            if len(rows) == limit:
                break
    if not rows:
        return None
    values = zip(*rows) if columns else ()
    return Batch([_vector(column, mine) for column, mine in zip(columns, values)], len(rows))


def _vector(column: ColumnSchema, values: Sequence[Any]) -> Vector:
    return vector_from_arrow(column.type, pa.array(values, column.type.arrow))


# ---- bounds ----------------------------------------------------------------------------------------------------------


def _point(predicates: Sequence[ColumnPredicate]) -> Any:
    """The one value that a column is to have; None where there is none, or more is said of it."""
    if len(predicates) > 1:
        return None
    (predicate,) = predicates
    if isinstance(predicate, InList) and len(predicate.values) == 1:
        return predicate.values[0]
    if isinstance(predicate, Range) and predicate.lower is not None and predicate.lower == predicate.upper:
        return predicate.lower if predicate.lower_inclusive and predicate.upper_inclusive else None
    return None


def _bounds(
    types: Sequence[Any], prefix: Sequence[Any], predicates: Sequence[ColumnPredicate]
) -> tuple[bytes | None, bytes | None] | None:
    """The interval of encoded keys that ranges of one column, behind the first values of the key, come to; None where
    there is something else among them."""
    lows: list[bytes] = []
    highs: list[bytes] = []
    for predicate in predicates:
        if not isinstance(predicate, Range):
            return None
        for value, inclusive, found, after in (
            (predicate.lower, predicate.lower_inclusive, lows, False),
            (predicate.upper, predicate.upper_inclusive, highs, True),
        ):
            if value is None:
                continue
            key = encode_key(types, (*prefix, value))
            if inclusive is after:
                is_whole = len(prefix) + 1 == len(types)
                key = key + b"\0" if is_whole else prefix_end(key)  # type: ignore[assignment]
            if key is None:
                return None
            found.append(key)
    return max(lows, default=None), min(highs, default=None)


# ---- sources ---------------------------------------------------------------------------------------------------------


class _Source(Protocol):
    def places(self, source: int) -> Iterator[Place]:
        """Its rows in the interval, ascending by key; where the number is -1, there is none."""

    def get(self, number: int) -> Row | None:
        """The row that `places` came to last; None where it is not visible."""


class _Memory:
    """The rows of a MemRowSet."""

    def __init__(self, memrowset: MemRowSet, view: TabletView, columns: Sequence[ColumnSchema], interval: KeyInterval):
        self._memrowset = memrowset
        self._timestamp = view.timestamp
        self._columns = columns
        self._interval = interval
        self._codec = KeyCodec(tuple(column.type for column in view.table.schema.key))

    @property
    def is_empty(self) -> bool:
        """Are there no keys in the interval?"""
        return next(self.places(0), None) is None

    def places(self, source: int) -> Iterator[Place]:
        codec, memrowset, high = self._codec, self._memrowset, self._interval.high
        low, count = codec.index_bound(self._interval.low), _FIRST_WINDOW
        while True:
            keys = memrowset.keys_from(low, count)
            for key in keys:
                encoded = codec.encoded_of(key)
                if high is not None and encoded >= high:
                    return
                row = memrowset.find_one(key)
                if row >= 0:
                    yield encoded, source, row
            if len(keys) < count:
                return
            low = keys[-1] + b"\0" if isinstance(keys[-1], bytes) else keys[-1] + 1
            count = min(2 * count, _LAST_WINDOW)

    def get(self, number: int) -> Row | None:
        return self._memrowset.get(number, self._columns, self._timestamp)


class _Disk:
    """The rows of a DiskRowSet, read by windows of a few rows."""

    def __init__(
        self,
        stored: StoredRowSet,
        view: TabletView,
        columns: Sequence[ColumnSchema],
        spec: ScanSpec,
        counters: ScanCounters,
    ):
        schema = view.table.schema
        self._stored = stored
        self._timestamp = view.timestamp
        self._columns = columns
        self._ids = [column.id for column in columns]
        self._key = schema.key
        self._schema = schema
        self._spec = spec
        self._counters = counters
        self._start = self._stop = 0
        self._rows: list[Row] | None = None
        """The base data from `_start` to `_stop`, once somebody asks for a row."""
        self._is_past = is_past(stored, view.timestamp)
        has_deltas = stored.memstore.count or stored.flushing is not None or stored.redo
        self.is_plain = not self._is_past and not has_deltas
        """Is the base data the state?"""

    def batch(self, limit: int) -> Batch | None:
        """The first rows as they lie in the files; None where there are none."""
        first, end = self._range()
        stop = min(first + limit, end)
        if stop <= first:
            return None
        self._counters.rows_considered += stop - first
        return Batch([self._read(column, first, stop) for column in self._columns], stop - first)

    def _range(self) -> tuple[int, int]:
        return self._stored.rowset.rows_within(self._spec.predicates, self._schema, self._counters)

    def places(self, source: int) -> Iterator[Place]:
        # Its pages are not read before the merge comes to where they begin.
        yield self._stored.metadata.min_key, source, -1
        (row, end), size = self._range(), self._spec.limit or 1
        types = tuple(column.type for column in self._key)
        while row < end:
            stop = min(row + size, end)
            keys = Keys(types, tuple(self._read(column, row, stop) for column in self._key)).encoded().to_pylist()
            self._start, self._stop, self._rows = row, stop, None
            for number, key in enumerate(keys, row):
                yield key, source, number
            row, size = stop, min(2 * size, _LAST_WINDOW)

    def get(self, number: int) -> Row | None:
        if self._is_past:
            return stored_row(self._stored, number, self._columns, self._timestamp, self._counters)
        if self._rows is None:
            self._rows = self._base(self._start, self._stop)
        row = self._rows[number - self._start]
        if self.is_plain:
            return row
        found: dict[int, Any] = {}
        if look_up_deltas(self._stored, number, self._timestamp, self._ids, found) is _DELETE:
            return None
        return tuple([found.get(id_, value) for id_, value in zip(self._ids, row)]) if found else row

    def _base(self, start: int, stop: int) -> list[Row]:
        if not self._columns:
            return [()] * (stop - start)
        return list(zip(*[self._read(column, start, stop).to_arrow().to_pylist() for column in self._columns]))

    def _read(self, column: ColumnSchema, start: int, stop: int) -> Vector:
        return self._stored.rowset.read(column, start, stop, self._counters)
