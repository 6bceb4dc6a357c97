"""Diff scans: changes of a tablet's rows after one timestamp and up to another (Kudu: the incremental backup's scan).

    key   rowset 1            rowset 2             net             history
    a     UPDATE t3, t5                            update          update t3, update t5
    b     DELETE t3           inserted t4          update          delete t3, insert t4
    c                         inserted t4, DELETE  (nothing)       insert t4, delete t6
    d     (no delta)                               (nothing)       (nothing)

The life of a diff scan:
1. Each source (`change_sources`) returns the rows with deltas within the interval, and which of them exist at its two
   ends (net) or before and after each event (history). No value is read for this.
2. The keys of these rows are read and ordered; rows of one key, which may be in several rowsets, are adjacent.
3. Net: of a key that exists at the end, the version there is shown; of one that existed only at the beginning, that
   version. History: every event, by key and then by time; of a deletion the version before.
4. Batches go out in this order. A column is read at first access, for the rows that are still selected, as of the time
   that each row shows.

Only changed rows cost time. Values are not compared: an UPDATE to the same values is an update.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from ...model.arrow_arrays import arrow_array
from ...model.change_columns import changed_at_type
from ...model.keys.keys import Keys
from ...model.lazy_dataclass import dataclass
from ...model.predicates import ColumnPredicate
from ...model.schema import ColumnSchema, Schema
from ...model.store import CHANGE_COLUMN, CHANGED_AT_COLUMN, ScanCounters, ScanSpec
from ...model.types import BIGINT, STRING
from ...model.vectors.vector import Array, Batch, Dict, Flat, LazyColumn, Vector, vector_from_arrow
from ..predicate_eval.evaluation import evaluate
from ..rowsets.change_sources import ChangeSource, Events, MemorySource, StoredSource, distinct_rows
from ..rowsets.rowset_source import concat_keys
from ..tablet.tablet import TabletView

BATCH_ROWS = 65_536
_DELETE, _INSERT, _UPDATE = range(3)
_CHANGES = ("delete", "insert", "update")
"""The dictionary of `CHANGE_COLUMN`: ascending."""


def scan_changes(view: TabletView, spec: ScanSpec, counters: ScanCounters) -> Iterator[Batch]:
    """Yields changes of a tablet's rows after `spec.changes.since` and up to the view's time, by key.

    The caller ensures that the history from `since` on is kept. `CHANGED_AT_COLUMN` of a net scan is the time of the
    key's last change within the interval.

    Yields
    ------
    Batch
        The spec's columns of at most 65,536 rows that satisfy the predicates, never empty; columns are read at first
        touch. Rows ascend by primary key, those of one key by time.
    """
    assert spec.changes is not None
    since, until = int(spec.changes.since), view.timestamp
    if since >= until:
        return
    sources = _sources(view, since)
    tell = _every_event if spec.changes.history else _ends
    touched = [(number, events) for number, s in enumerate(sources) if len(events := s.events())]
    if not touched:
        return
    versions = _Versions.joined([tell(number, events, since, until) for number, events in touched])
    counters.rows_considered += len(versions)
    keys = [_keys(view.table.schema, sources[number], versions.rows_of(number), counters) for number, _ in touched]
    order, key = _by_key(concat_keys(keys))
    show = _show_events if spec.changes.history else _show_net
    changes = show(versions.take(order), key, since, until)
    for start in range(0, len(changes), BATCH_ROWS):
        part = changes.slice(start, start + BATCH_ROWS)
        counters.passing(len(part))
        batch = _selected(_Columns(sources, part, view, counters), spec)
        if batch.length:
            counters.rows_returned += batch.length
            yield batch


def find_change(view: TabletView, predicates: Sequence[ColumnPredicate], since: int) -> tuple[Any, ...] | None:
    """The key (physical values) of a row that was inserted, updated or deleted after a time, up to the view's, and
    satisfies the predicates before or after that; None where there is none. As for `scan_changes`, the history is
    kept. With the view's time `LATEST`, writes in flight count, too."""
    schema, counters = view.table.schema, ScanCounters()
    for source in _sources(view, since):
        events = source.events()
        versions = _ends(0, events, since, source.until) if len(events) else None
        if versions is None:
            continue
        for exists, time in ((versions.after, source.until), (versions.before, since)):
            rows = versions.rows[exists]
            for predicate in predicates:
                if not len(rows):
                    break
                column = schema.column(predicate.column)
                values = source.values(column, rows, np.full(len(rows), time, np.uint64), counters)
                rows = rows[evaluate(predicate, vector_from_arrow(column.type, values))]
            if len(rows):
                return source.keys(schema, rows[:1], counters).values_at(0)
    return None


def _sources(view: TabletView, since: int) -> list[ChangeSource]:
    """All rowsets and MemRowSets of a tablet."""
    sources: list[ChangeSource] = [StoredSource(stored, since, view.timestamp) for stored in view.rowsets]
    return [*sources, *(MemorySource(snapshot, since, view.timestamp) for snapshot in view.memrowsets)]


# ---- versions ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class _Versions:
    """Touched rows (net) or events (history), one entry each.

    Parameters
    ----------
    sources : ndarray of intp
        Which source the row is in.
    rows : ndarray of int64
    changed_at : ndarray of uint64
        When it happened; of a row, the last time.
    before, after : ndarray of bool
        Does the row exist before and after?
    """

    sources: Array
    rows: Array
    changed_at: Array
    before: Array
    after: Array

    def __len__(self) -> int:
        return len(self.rows)

    @classmethod
    def joined(cls, parts: Sequence[_Versions]) -> _Versions:
        """Those of several sources, one behind the other."""
        names = cls.__slots__
        return cls(*(np.concatenate([getattr(part, name) for part in parts]) for name in names))

    def rows_of(self, source: int) -> Array:
        """The rows of one source."""
        return np.asarray(self.rows[self.sources == source])

    def take(self, places: Array) -> _Versions:
        """Those at some places."""
        return _Versions(*(getattr(self, name)[places] for name in self.__slots__))


def _ends(source: int, events: Events, since: int, until: int) -> _Versions:
    """The touched rows of a source, and whether they exist at both ends of the interval."""
    last = np.append(events.rows[1:] != events.rows[:-1], True)
    rows = events.rows[last]
    before = events.exists(rows, np.full(len(rows), since, np.uint64))
    after = events.exists(rows, np.full(len(rows), until, np.uint64))
    return _Versions(np.full(len(rows), source, np.intp), rows, events.times[last], before, after)


def _every_event(source: int, events: Events, since: int, until: int) -> _Versions:
    """The events of a source, and whether their rows exist before and after them."""
    before = events.exists(events.rows, events.times - np.uint64(1))
    after = events.exists(events.rows, events.times)
    return _Versions(np.full(len(events), source, np.intp), events.rows, events.times, before, after)


def _keys(schema: Schema, source: ChangeSource, rows: Array, counters: ScanCounters) -> Keys:
    distinct, places = distinct_rows(rows)
    keys = source.keys(schema, distinct, counters)
    return keys if len(distinct) == len(rows) else keys.take(places)


def _by_key(keys: Keys) -> tuple[Array, Array]:
    """Positions of all keys in key order (ndarray of intp), and a parallel number for each distinct key, ascending
    (ndarray of int64)."""
    order = keys.order()
    begins = np.ones(len(order), np.bool_)
    begins[keys.duplicates()] = False
    return order, np.cumsum(begins[order]) - 1


# ---- what is shown -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class _Changes:
    """Changes in output order: rows of sources, the timestamp whose values they show, kind and time of the change."""

    sources: Array
    rows: Array
    times: Array
    kinds: Array
    changed_at: Array

    def __len__(self) -> int:
        return len(self.rows)

    def slice(self, start: int, stop: int) -> _Changes:
        """Some of them."""
        return _Changes(*(getattr(self, name)[start:stop] for name in self.__slots__))


def _show_net(versions: _Versions, key: Array, since: int, until: int) -> _Changes:
    """One row for each key that exists at one end at least: at most one of its versions exists at each."""
    count = int(key[-1]) + 1
    at_start, at_end = np.full((2, count), -1, np.int64)
    at_start[key[versions.before]] = np.flatnonzero(versions.before)
    at_end[key[versions.after]] = np.flatnonzero(versions.after)
    starts = np.flatnonzero(np.diff(key, prepend=-1))
    changed_at = np.maximum.reduceat(versions.changed_at, starts)
    kinds = np.where(at_end < 0, _DELETE, np.where(at_start < 0, _INSERT, _UPDATE))
    shown = np.flatnonzero((at_end >= 0) | (at_start >= 0))
    places = np.where(at_end >= 0, at_end, at_start)[shown]
    times = np.where(at_end[shown] >= 0, np.uint64(until), np.uint64(since))
    return _Changes(versions.sources[places], versions.rows[places], times, kinds[shown], changed_at[shown])


def _show_events(versions: _Versions, key: Array, since: int, until: int) -> _Changes:
    """All events by key and time; a deletion shows the values before it."""
    order = np.lexsort((versions.changed_at, key))
    versions = versions.take(order[(versions.before | versions.after)[order]])
    kinds = np.where(~versions.after, _DELETE, np.where(versions.before, _UPDATE, _INSERT))
    times = versions.changed_at - (~versions.after).astype(np.uint64)
    return _Changes(versions.sources, versions.rows, times, kinds, versions.changed_at)


# ---- batches -----------------------------------------------------------------------------------------------------


class _Columns:
    """Columns of some changes, each made at its first use."""

    def __init__(self, sources: Sequence[ChangeSource], changes: _Changes, view: TabletView, counters: ScanCounters):
        self._sources = sources
        self._changes = changes
        self._view = view
        self._counters = counters

    def __len__(self) -> int:
        return len(self._changes)

    def column(self, name: str) -> LazyColumn:
        """A column of the table or one of a diff scan's own."""
        if name == CHANGE_COLUMN:
            return LazyColumn(self._kinds)
        if name == CHANGED_AT_COLUMN:
            return LazyColumn(self._changed_at)
        column = self._view.table.schema.column(name)
        return LazyColumn(lambda chosen: self._values(column, chosen))

    def _kinds(self, chosen: Array | None) -> Vector:
        vector = Dict(STRING, self._changes.kinds.astype(np.uint8), arrow_array(_CHANGES))
        return vector if chosen is None else vector.take(chosen)

    def _changed_at(self, chosen: Array | None) -> Vector:
        type_ = changed_at_type(self._view.timestamp)
        vector = (
            Flat(BIGINT, self._changes.changed_at.astype(np.int64))
            if type_ is BIGINT
            else vector_from_arrow(type_, arrow_array(self._changes.changed_at))
        )
        return vector if chosen is None else vector.take(chosen)

    def _values(self, column: ColumnSchema, chosen: Array | None) -> Vector:
        """A column of the changes at some places, brought to the times that they show."""
        places = np.arange(len(self), dtype=np.intp) if chosen is None else chosen
        sources, rows, times = (a[places] for a in (self._changes.sources, self._changes.rows, self._changes.times))
        parts = [arrow_array([], column.type.arrow)]
        vectors = []
        for number in np.flatnonzero(np.bincount(sources)).tolist():
            mine = np.flatnonzero(sources == number)
            vectors.append(mine)
            parts.append(self._sources[number].values(column, rows[mine], times[mine], self._counters))
        array = (
            parts[-1]
            if len(parts) < 3
            else pa.concat_arrays(parts).take(arrow_array(np.argsort(np.concatenate(vectors))))
        )
        return vector_from_arrow(column.type, array)


def _selected(columns: _Columns, spec: ScanSpec) -> Batch:
    """The spec's columns of the changes that satisfy its predicates."""
    names = [*spec.columns, *dict.fromkeys(p.column for p in spec.predicates if p.column not in spec.columns)]
    batch = Batch([columns.column(name) for name in names], len(columns))
    for predicate in spec.predicates:
        batch = batch.select(evaluate(predicate, batch.column(names.index(predicate.column))))
    return batch.project(range(len(spec.columns)))
