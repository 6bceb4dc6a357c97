"""The interval of keys that a short scan goes through: what its predicates come to.

WHERE a = 1 AND b >= 5 ORDER BY a, b LIMIT 20     from key (1, 5) to the last key that begins with 1
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

from ...errors import DataError
from ...model.keys.key_encoding import encode_key, prefix_end
from ...model.lazy_dataclass import dataclass
from ...model.predicates import ColumnPredicate, InList, Range
from ...model.schema import Schema
from ...model.store import ScanCounters, ScanSpec
from ..rowsets.disk_rowset import DiskRowSet
from ..rowsets.rowset_metadata import RowSetMetadata

SHORT_ROWS = 1000
"""Scans of more rows are made by batches."""

Bound: TypeAlias = "tuple[tuple[Any, ...], bool]"
"""First values of a key (physical), and whether keys that begin with them are before the bound."""


@dataclass(frozen=True, slots=True)
class KeyInterval:
    """The encoded keys from `low` (inclusive) to `high` (exclusive; None: to the end), and the same as `Bound`s, None
    where there is no bound."""

    low: bytes
    high: bytes | None
    first: Bound | None = None
    end: Bound | None = None

    def meets(self, metadata: RowSetMetadata) -> bool:
        """True if a rowset may have keys in the interval."""
        return self.low <= metadata.max_key and (self.high is None or metadata.min_key < self.high)

    def rows_of(self, rowset: DiskRowSet, counters: ScanCounters) -> tuple[int, int]:
        """The rows (first, end) of a rowset whose keys are in it."""
        first = 0 if self.first is None else rowset.search(*self.first, counters)
        end = rowset.row_count if self.end is None else rowset.search(*self.end, counters)
        return first, max(first, end)


def short_interval(schema: Schema, spec: ScanSpec) -> KeyInterval | None:
    """Key interval of a short scan: one in ascending key order, with a limit, and only with predicates that form one
    interval of keys. None for other scans."""
    if not spec.ordered or spec.descending or spec.limit is None or spec.limit > SHORT_ROWS or spec.changes is not None:
        return None
    by_column: dict[str, list[ColumnPredicate]] = {}
    for predicate in spec.predicates:
        by_column.setdefault(predicate.column, []).append(predicate)
    prefix: list[Any] = []
    mine: list[ColumnPredicate] = []
    for column in schema.key:
        mine = by_column.pop(column.name, [])
        value = _point(mine)
        if value is None:
            break
        prefix.append(value)
    if by_column:
        return None
    types = tuple(column.type for column in schema.key)
    try:
        return _interval(types, tuple(prefix), mine if len(prefix) < len(types) else ())
    except DataError:  # a bound beyond what the type can hold
        return None


def _point(predicates: Sequence[ColumnPredicate]) -> Any:
    """The one value that a column is to have; None where there is none, or more is said of it."""
    if len(predicates) != 1:
        return None
    (predicate,) = predicates
    if isinstance(predicate, InList) and len(predicate.values) == 1:
        return predicate.values[0]
    if isinstance(predicate, Range) and predicate.lower is not None and predicate.lower == predicate.upper:
        return predicate.lower if predicate.lower_inclusive and predicate.upper_inclusive else None
    return None


def _interval(
    types: Sequence[Any], prefix: tuple[Any, ...], predicates: Sequence[ColumnPredicate]
) -> KeyInterval | None:
    """Interval of the first values of the key, and ranges of the next column; None if there are other predicates."""
    start = encode_key(types, prefix)
    lows: list[tuple[bytes, Bound | None]] = [(start, (prefix, False) if prefix else None)]
    highs: list[tuple[bytes, Bound | None]] = []
    if prefix and (end := _encoded(types, prefix, True)) is not None:
        highs.append((end, (prefix, True)))
    for predicate in predicates:
        if not isinstance(predicate, Range):
            return None
        for value, after, found in (
            (predicate.lower, not predicate.lower_inclusive, lows),
            (predicate.upper, predicate.upper_inclusive, highs),
        ):
            if value is None:
                continue
            key = (*prefix, value)
            encoded = _encoded(types, key, after)
            if encoded is not None:
                found.append((encoded, (key, after)))
            elif found is lows:
                return None  # there is nothing above
    low, first = max(lows, key=_first)
    if not highs:
        return KeyInterval(low, None, first)
    high, last = min(highs, key=_first)
    return KeyInterval(low, high, first, last)


def _first(bound: tuple[bytes, Bound | None]) -> bytes:
    return bound[0]


def _encoded(types: Sequence[Any], values: tuple[Any, ...], after: bool) -> bytes | None:
    """The least encoded key at or above those that begin with some values, or `after` all of these; None where there is
    none."""
    key = encode_key(types, values)
    if not after:
        return key
    return key + b"\0" if len(values) == len(types) else prefix_end(key)
