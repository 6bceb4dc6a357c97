"""Bringing log entries into memory: when a tablet is opened, and at a replica while it is open.

The log says what happened to keys, not where rows lie, which flushes and compactions have changed since. What entry i
did to key k is found out so:

    INSERT   i <= durable_index of the tablet: the row is in a rowset. Else it goes into the MemRowSet.
    UPDATE   k is alive in a MemRowSet, as it is so far: there. Else, of the rowsets that hold k: those with
    DELETE   redo_index >= i have it in their files; of the others, the one where k is alive gets it. There may be none.

At every time a key is alive in at most one place, so this is exact, and doing it twice is as doing it once, as long as
no rowsets are merged that reach further in the log (`TabletMetadata.known_index`) than what has been done: of two rows
with one key, an output has one `redo_index` for both.

Entries are dealt with by the thousand. Within one step each key may be inserted, then updated any number of times, then
deleted: so a step ends before a key that it deleted occurs again. (Not always with an INSERT: what was inserted then
may be in a rowset.) A few single rows go one by one, which costs less than the columns of a step.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa

from ...errors import CorruptionError
from ...model import arrow_functions as pc
from ...model.codec.values import decimal_from_bytes
from ...model.keys.key_codec import KeyCodec
from ...model.schema import Schema
from ...model.store import Op
from ...model.vectors.vector import Array
from ..deltas.deltas import DeltaColumn, DeltaKind, Deltas, merge
from ..log.decision import Decision
from ..log.logged_rows import LoggedPart, LoggedRows
from ..log.logged_write import ChangedRows, LoggedWrite
from ..log.wal import LogTicket
from ..log.wal_format import COLUMN_ID, LogEntry, entry_parts
from ..rowsets.memrowset import IndexKeys, MemRowSet, index_keys
from ..single_rows.wal_row import RowPart
from .prepared import PreparedWrite
from .row_locator import change_row, locate_row
from .tablet import Tablet, TabletState

STEP_ENTRIES = 4096
"""Log entries that are dealt with together: a single row costs as much as some hundred."""
STEP_ROWS = 1 << 17
SINGLE_ROWS = 48
"""Limit of rows that are applied one by one."""


class PendingRows:
    """The rows of entries that are still to be dealt with."""

    def __init__(self) -> None:
        self.parts: list[LoggedPart] = []
        self._entries = 0
        self._rows = 0

    def add(self, entry: LogEntry, schema: pa.Schema, durable_index: int) -> bool:
        """Take the next entry; returns True if there are enough for a step. `schema` is that of its segment. Bulk loads
        are in the metadata."""
        for part in entry_parts(entry, schema):
            if part.op is not Op.INSERT or entry.index > durable_index:
                self.parts.append(LoggedPart(part, schema, entry.index, entry.timestamp))
                self._rows += part.row_count
        self._entries += 1
        return self._entries >= STEP_ENTRIES or self._rows >= STEP_ROWS

    def take(self) -> list[LoggedPart]:
        """Removes and returns the pending parts."""
        parts, self.parts = self.parts, []
        self._entries = self._rows = 0
        return parts


class TabletApplier:
    """Brings entries that are decided into an open tablet, in their order. One thread at a time, with the tablet's
    `write_lock`.

    Parameters
    ----------
    tablet : Tablet
    known_index : int
        Its files may have something of the entries up to here (`TabletMetadata.known_index`, when it was opened).
    """

    def __init__(self, tablet: Tablet, known_index: int):
        self._tablet = tablet
        self._known_index = known_index
        self._pending = PendingRows()
        self._single: _SingleRows | None = None

    def add(self, entry: LogEntry, schema: pa.Schema) -> None:
        """Take the next entry; `schema` is that of its segment."""
        tablet = self._tablet
        tablet.newest = max(tablet.newest, entry.timestamp)
        if self._pending.add(entry, schema, tablet.metadata.durable_index):
            self.finish()

    def finish(self) -> None:
        """Apply everything that was taken to memory; needed before the lock is released."""
        parts = self._pending.take()
        if not parts:
            return
        schema = self._tablet.table.schema
        if len(parts) <= SINGLE_ROWS and parts[0].index > self._known_index:
            if all(isinstance(logged.part, RowPart) for logged in parts):
                if self._single is None or self._single.schema is not schema:
                    self._single = _SingleRows(schema)
                for logged in parts:
                    self._single.apply(self._tablet, logged)
                return
        rows = LoggedRows.of(parts, schema)
        self._tablet.note_number(number_after(rows) - 1)
        apply_rows(self._tablet.state, rows, self._tablet.directory)

    def prepare(
        self, transaction: str, index: int, timestamp: int, pieces: Sequence[tuple[LogEntry, pa.Schema]], note: bytes
    ) -> None:
        """Apply a part of a transaction, whose outcome is in a later entry, so that it can be undone: `prepared`.

        Parameters
        ----------
        index, timestamp : int
            Of the PREPARE entry.
        pieces : sequence of (LogEntry, pa.Schema)
            The entries with the rows, each with the schema of its segment.
        note : bytes
            What the entry says of the transaction.
        """
        self.finish()
        tablet = self._tablet
        tablet.newest = max(tablet.newest, timestamp)
        write = LoggedWrite(LogTicket(index, durable=True), timestamp, is_prepared=True)
        tablet.mvcc.hold(timestamp)
        is_inserted = index <= tablet.metadata.durable_index
        keys: set[int | bytes] = set()
        for entry, schema in pieces:
            parts = [LoggedPart(part, schema, index, timestamp) for part in entry_parts(entry, schema)]
            if not parts:
                continue
            rows = LoggedRows.of(parts, tablet.table.schema)
            tablet.note_number(number_after(rows) - 1)
            keys.update(index_keys(rows.keys))
            if is_inserted:
                parts = [logged for logged in parts if logged.part.op is not Op.INSERT]
                rows = LoggedRows.of(parts, tablet.table.schema) if parts else rows.slice(0, 0)
            if len(rows):
                apply_rows(tablet.state, rows, tablet.directory, write)
        tablet.prepared.add(transaction, PreparedWrite(write, timestamp, keys, Decision(), note))


def number_after(logged: LoggedRows) -> int:
    """A number above all that the rows have in an AUTO_INCREMENT column; 1 where the table has none."""
    column = logged.schema.key[-1]
    if not column.auto_increment:
        return 1
    highest: int = pc.max(logged.columns[column.id].values).as_py()
    return highest + 1


# ---- many rows ---------------------------------------------------------------------------------------------------


def apply_rows(state: TabletState, logged: LoggedRows, path: str, write: LoggedWrite | None = None) -> None:
    """Bring rows into a tablet's memory; `path` is for errors. `write` records what can be undone. `CorruptionError`
    where a key is inserted twice."""
    step = _Step(state, path, write)
    for start, stop in pairwise([0, *_step_bounds(logged), len(logged)]):
        step.apply(logged.slice(start, stop))


class _Step:
    def __init__(self, state: TabletState, path: str, write: LoggedWrite | None):
        self._state = state
        self._memrowset = state.memrowset
        self._path = path
        self._write = write

    def apply(self, logged: LoggedRows) -> None:
        """Rows of which none comes after the DELETE of its key, or before its INSERT."""
        index = index_keys(logged.keys)
        is_insert = logged.ops == Op.INSERT
        reinserts = self._insert(logged, index, np.flatnonzero(is_insert))
        rest = self._mutate(logged, index, np.flatnonzero(~is_insert), reinserts)
        if self._state.flushing is not None:
            rest = _mutate_flushing(self._state.flushing, logged, index, rest)
            self._record(self._state.flushing, [])
        if not len(rest):
            return
        for stored, among in self._state.tree.candidates(logged.keys.take(rest)):
            chosen = np.sort(rest[among])
            chosen = chosen[logged.indexes[chosen] > stored.metadata.redo_index]
            offsets = stored.find_live(logged.keys.take(chosen))
            chosen, offsets = chosen[offsets >= 0], offsets[offsets >= 0]
            if len(chosen):
                deltas = logged.deltas(chosen, offsets, _KINDS[logged.ops[chosen]])
                stored.memstore.append(deltas, int(logged.indexes[chosen[0]]))
                deleted = deltas.rows[deltas.kinds == DeltaKind.DELETE]
                stored.deleted.add(deleted)
                if self._write is not None:
                    self._write.changed.append(ChangedRows(stored.memstore, stored.deleted, deleted))

    def _record(self, memrowset: MemRowSet, keys: IndexKeys) -> None:
        if self._write is not None:
            self._write.inserted.append((memrowset, keys))

    def _insert(self, logged: LoggedRows, index: IndexKeys, chosen: Array) -> Deltas:
        """Insert rows; the REINSERTs of those whose ghosts are in the MemRowSet are still to be done."""
        if not len(chosen):
            return Deltas.empty()
        keys = index if len(chosen) == len(index) else [index[row] for row in chosen.tolist()]
        rows = self._memrowset.find(keys)
        if rows is None:
            fresh, ghosts = np.ones(len(chosen), np.bool_), np.empty(0, np.int64)
        else:
            fresh = rows < 0
            ghosts = rows[~fresh]
            if not self._memrowset.deleted.contains(ghosts).all():
                first, last = int(logged.indexes[chosen[0]]), int(logged.indexes[chosen[-1]])
                raise _inserted_twice(self._path, first, last)
            keys = list(itertools.compress(keys, fresh.tolist()))
        new, again = chosen[fresh], chosen[~fresh]
        if len(new):
            stamps, first = logged.timestamps[new], int(logged.indexes[new[0]])
            self._memrowset.insert(logged.whole_rows(new), keys, stamps, first)
            self._record(self._memrowset, keys)
        if not len(again):
            return Deltas.empty()
        whole = logged.whole_rows(again)
        everywhere = np.arange(len(again))
        columns = {
            column.id: DeltaColumn(everywhere, values)
            for column, values in zip(logged.schema.columns, whole.columns)
            if column not in logged.schema.key
        }
        kinds = np.full(len(again), DeltaKind.REINSERT, np.uint8)
        return Deltas(ghosts, logged.timestamps[again], kinds, columns).renumbered(ghosts)

    def _mutate(self, logged: LoggedRows, index: IndexKeys, chosen: Array, reinserts: Deltas) -> Array:
        """Apply changes to rows of the MemRowSet; returns the other chosen rows, whose keys are not in it."""
        memrowset = self._memrowset
        rows = memrowset.find([index[row] for row in chosen.tolist()])
        if rows is None:
            rows = np.full(len(chosen), -1)
        is_here = rows >= 0
        is_here[is_here] = ~memrowset.deleted.contains(rows[is_here]) | np.isin(rows[is_here], reinserts.rows)
        here, rows = chosen[is_here], rows[is_here]
        if len(here) or len(reinserts):
            mutations = merge([reinserts, logged.deltas(here, rows, _KINDS[logged.ops[here]])])
            memrowset.mutations.append(mutations, int(logged.indexes[0]))
            memrowset.deleted.remove(reinserts.rows)
            memrowset.deleted.add(mutations.rows[mutations.kinds == DeltaKind.DELETE])
            self._record(memrowset, [])
        return chosen[~is_here]


def _mutate_flushing(memrowset: MemRowSet, logged: LoggedRows, index: IndexKeys, chosen: Array) -> Array:
    """Apply changes to rows of a MemRowSet that is being flushed; returns the other chosen rows."""
    rows = memrowset.find_live([index[row] for row in chosen.tolist()])
    if rows is None:
        return chosen
    here = chosen[rows >= 0]
    memrowset.mutate(logged.deltas(here, rows[rows >= 0], _KINDS[logged.ops[here]]), int(logged.indexes[here[0]]))
    return chosen[rows < 0]


_KINDS = np.zeros(max(Op) + 1, np.uint8)
_KINDS[Op.UPDATE] = DeltaKind.UPDATE
_KINDS[Op.DELETE] = DeltaKind.DELETE


def _inserted_twice(path: str, first: int, last: int) -> CorruptionError:
    return CorruptionError("a key was inserted twice", path, f"entries {first} to {last}")


def _step_bounds(logged: LoggedRows) -> list[int]:
    """Fewest bounds that divide the rows so that no step has a change of a key after its DELETE, or before its
    INSERT."""
    repeated = logged.keys.duplicates()
    if not len(repeated):
        return []
    is_repeated = np.zeros(len(logged), np.bool_)
    is_repeated[repeated] = True
    order = logged.keys.order()
    again = np.flatnonzero(is_repeated[order])
    rows, before = order[again], order[again - 1]
    divided = (logged.ops[rows] == Op.INSERT) | (logged.ops[before] == Op.DELETE)
    rows, before = rows[divided], before[divided]
    bounds: list[int] = []
    for place in np.argsort(rows).tolist():
        if not bounds or before[place] >= bounds[-1]:
            bounds.append(int(rows[place]))
    return bounds


# ---- single rows -------------------------------------------------------------------------------------------------


class _SingleRows:
    """Single rows, one by one, into a table of one schema."""

    def __init__(self, schema: Schema):
        self.schema = schema
        self._key = KeyCodec(tuple(column.type for column in schema.key))
        self._defaults = [column.type.to_python(column.initial) for column in schema.columns]
        self._places = {column.id: place for place, column in enumerate(schema.columns)}
        self._wide = [place for place, column in enumerate(schema.columns) if column.type.is_wide]
        self._segments: dict[int, tuple[pa.Schema, list[int]]] = {}

    def apply(self, tablet: Tablet, logged: LoggedPart) -> None:
        """Bring one row into memory."""
        part, state = logged.part, tablet.state
        assert isinstance(part, RowPart)
        physical = self._physical(part, logged.schema)
        key = [physical[place] for place in range(self.schema.key_columns)]
        index = self._key.index_key(key)
        is_insert = part.op is Op.INSERT
        home, row, ghost = locate_row(state, self._key, key, index, is_insert)
        if is_insert:
            if home is not None:
                raise _inserted_twice(tablet.directory, logged.index, logged.index)
            self._insert(tablet, physical, index, ghost, logged)
            return
        if home is None:
            return
        kind = DeltaKind.UPDATE if part.op is Op.UPDATE else DeltaKind.DELETE
        values = {
            self.schema.columns[place].id: self._stored(place, value)
            for place, value in physical.items()
            if place >= self.schema.key_columns
        }
        change_row(home, row, kind, values, logged.timestamp, logged.index)

    def _insert(
        self, tablet: Tablet, physical: dict[int, Any], index: int | bytes, ghost: int, logged: LoggedPart
    ) -> None:
        memrowset, values = tablet.state.memrowset, self._defaults.copy()
        for place, value in physical.items():
            values[place] = self._stored(place, value)
        if ghost < 0:
            memrowset.insert_row(tuple(values), index, logged.timestamp, logged.index)
        else:
            first = self.schema.key_columns
            given = {column.id: value for column, value in zip(self.schema.columns[first:], values[first:])}
            memrowset.mutate_row(ghost, DeltaKind.REINSERT, given, logged.timestamp, logged.index)
        if self.schema.key[-1].auto_increment:
            tablet.note_number(physical[self.schema.key_columns - 1])

    def _physical(self, part: RowPart, schema: pa.Schema) -> dict[int, Any]:
        """The row's physical values by place in the table's schema; columns that it has no more are left out."""
        known = self._segments.get(id(schema))
        if known is None:
            ids = [int(field.metadata[COLUMN_ID]) for field in schema]
            known = self._segments[id(schema)] = schema, [self._places.get(column, -1) for column in ids]
        places = known[1]
        by_column = {places[at]: value for at, value in zip(part.places, part.values) if places[at] >= 0}
        for place in self._wide:
            if place in by_column:
                by_column[place] = decimal_from_bytes(by_column[place])
        return by_column

    def _stored(self, place: int, value: Any) -> Any:
        return value if value is None else self.schema.columns[place].type.to_python(value)
