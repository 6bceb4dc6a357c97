"""The row path of writes: `Store.write_row`, many times as fast as a batch of one row.

The life of a row:
1. `RowCodec.take` converts its Python values to the columns' types, `Partitioner.route_one` finds its tablet.
2. Under the tablet's `write_lock`, its key is looked up: in the MemRowSets, then in the rowsets whose interval contains
   it and whose Bloom filter passes it. This may read a page; it saves a second search for concurrent changes.
3. The op is resolved to INSERT, UPDATE, DELETE or nothing, by the rules of `op_resolution`, few of which apply to one
   row.
4. The change gets a timestamp and is in flight, is appended to the log as a ROW entry (`wal_row`), and made in memory:
   a row for the MemRowSet, or one delta for the DeltaMemStore that has the row.
5. Without the lock, it waits for the log's group commit. The leader of the sync commits the row
   (`LogTicket.timestamp`), else the writer does.

All other cases take the batch path, as a batch of one row: refused rows, rows without a required value, very long
texts. The path is chosen before any change, so both paths have the same results; a test compares them.

Decisions under the lock rely on earlier writes whose log entries may still fail, as in `tablet_write`: the entry names
the previous one, and fails with it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from operator import itemgetter
from typing import Any, NamedTuple, Protocol, TypeAlias

import numpy as np
import pyarrow as pa

from ...errors import OperationalError
from ...model.arrow_arrays import arrow_array
from ...model.clock import HybridClock
from ...model.codec.values import decimal_to_bytes
from ...model.store import Op, Timestamp, WriteBatch, WriteResult
from ..deltas.deltas import DeltaKind
from ..log.logged_write import ChangedRows, LoggedWrite
from ..log.tablet_log import MustWait, WriteContext
from ..log.wal import LogTicket
from ..log.wal_format import EntryKind
from ..rowsets.memrowset import MemRowSet
from ..tablet.row_locator import RowHome, change_row, locate_row
from ..tablet.tablet import Tablet
from .row_codec import MISSING, RowCodec
from .row_rules import RULES, BatchPathNeeded, Rules, prepare_row
from .wal_row import encode_row, row_front

_UPDATE, _DELETE, _REINSERT = DeltaKind.UPDATE, DeltaKind.DELETE, DeltaKind.REINSERT
_ROW = EntryKind.ROW

_Change: TypeAlias = tuple[DeltaKind, bytes, Any]
"""Resolved change of a row: kind of change, body of the log entry, and values in memory. REINSERT, as every insertion
is called here: the whole row. UPDATE: the new values by column id. DELETE: an empty mapping."""


_NO_VALUES: dict[int, Any] = {}


class StartedRow(NamedTuple):
    """A row that was changed in memory, and whose log entry is not decided yet."""

    tablet: Tablet
    timestamp: Timestamp
    ticket: LogTicket
    logged: LoggedWrite | None
    size: int
    """Of the log entry's body, in bytes."""


class _Unchanged(NamedTuple):
    """A row that changes nothing, because of a log entry that may still be undecided."""

    tablet: Tablet
    timestamp: Timestamp
    ticket: LogTicket | None


class Router(Protocol):
    """Says which tablet a row belongs to: a `Partitioner`."""

    def route_one(self, key: Sequence[Any]) -> int:
        """By the physical values of its whole primary key; -1 where no tablet has it."""


class RowWriter:
    """Writes rows into one table, in one version of its schema. Safe for several threads.

    Parameters
    ----------
    codec : RowCodec
    partitioner : Router
    tablets : sequence of Tablet
        Parallel to the partitioner's partitions.
    clock : HybridClock
    is_current : callable
        Returns True if table and tablets are unchanged. Called under a tablet's `write_lock`.
    write_batch : callable
        Writes a batch by the batch path, in the then current version of the schema.
    """

    def __init__(
        self,
        codec: RowCodec,
        partitioner: Router,
        tablets: Sequence[Tablet],
        clock: HybridClock,
        is_current: Callable[[], bool],
        write_batch: Callable[[WriteBatch], WriteResult],
    ):
        self.codec = codec
        self.grown = 0
        """About the bytes that were logged; who watches the memory sets it back."""
        self._partitioner = partitioner
        self._tablets = tuple(tablets)
        self._clock = clock
        self._is_current = is_current
        self._write_batch = write_batch
        schema = codec.table.schema
        self._insert_front = row_front(Op.INSERT, ())
        self._whole_update_front = row_front(Op.UPDATE, ())
        self._delete_front = row_front(Op.DELETE, range(schema.key_columns))
        self._shapes: dict[tuple[int, ...], tuple[bytes, Callable[[list[Any]], tuple[Any, ...]]]] = {}
        """By the positions that an UPDATE sets: the bytes before its log entry's values, and the function that selects
        the values."""
        self._values = tuple(range(schema.key_columns, len(schema.columns)))
        self._value_ids = codec.ids[schema.key_columns :]
        self._immutable = frozenset(place for place in self._values if schema.columns[place].immutable)
        self._required = tuple(
            c.place for c in codec.columns[schema.key_columns :] if not c.schema.nullable and c.default_physical is None
        )

    def write(
        self,
        op: Op,
        row: Mapping[str, Any],
        unchanged_since: Timestamp | None = None,
        context: WriteContext | None = None,
    ) -> WriteResult:
        """`Store.write` for one row of Python values; `context` is for the log."""
        return self._write_taken(op, row, *self.codec.take(row), unchanged_since, context)

    def write_physical(self, op: Op, row: Mapping[str, Any], context: WriteContext | None = None) -> WriteResult:
        """`write` for one row of physical values."""
        return self._write_taken(op, row, *self.codec.take_physical(row), None, context)

    def start_physical(self, op: Op, row: Mapping[str, Any], context: WriteContext | None = None) -> StartedRow | None:
        """The first half of `write_physical`, up to where it waits for the log: `finish_row` is the rest, to be called
        when the ticket is decided. None, without a change, if the row must be written by `write_physical`: it needs the
        batch path, or changes nothing, or would have to wait although `context` excludes that."""
        return self._start_taken(op, *self.codec.take_physical(row), context)

    def start(self, op: Op, row: Mapping[str, Any], context: WriteContext | None = None) -> StartedRow | None:
        """`start_physical` for one row of Python values; see there."""
        return self._start_taken(op, *self.codec.take(row), context)

    def _start_taken(
        self, op: Op, physical: list[Any], stored: list[Any], context: WriteContext | None
    ) -> StartedRow | None:
        try:
            rules = RULES[op]
            prepare_row(self.codec, rules, physical, stored)
            started = self._start(rules, physical, stored, None, context)
        except (BatchPathNeeded, MustWait):
            return None
        return started if isinstance(started, StartedRow) else None

    def _write_taken(
        self,
        op: Op,
        row: Mapping[str, Any],
        physical: list[Any],
        stored: list[Any],
        since: Timestamp | None,
        context: WriteContext | None,
    ) -> WriteResult:
        try:
            rules = RULES[op]
            prepare_row(self.codec, rules, physical, stored)
            return self._write(rules, physical, stored, since, context)
        except BatchPathNeeded:
            return self._write_batch(as_batch(self.codec, op, row, stored, since))

    # ---- what it comes to ----------------------------------------------------------------------------------------

    def _resolve(self, rules: Rules, physical: list[Any], stored: list[Any], present: bool) -> _Change | None:
        """The change of one row, None for none; `BatchPathNeeded` where it is refused."""
        if present is rules.is_insert and not rules.is_upsert:
            # INSERT of a key that is there, UPDATE or DELETE of one that is not.
            if rules.is_silent:
                return None
            raise BatchPathNeeded
        if not present:
            return self._insertion(physical, stored)
        if rules.is_delete:
            key = self._loggable(physical)[: self.codec.key_columns]
            return _DELETE, encode_row(self._delete_front, key), _NO_VALUES
        return self._update(rules, physical, stored)

    def _insertion(self, physical: list[Any], stored: list[Any]) -> _Change:
        if MISSING in physical:
            if any(physical[place] is MISSING for place in self._required):
                raise BatchPathNeeded
            physical, stored = physical.copy(), stored.copy()
            for column in self.codec.columns:
                if physical[column.place] is MISSING:
                    physical[column.place], stored[column.place] = column.default_physical, column.default_stored
        return _REINSERT, encode_row(self._insert_front, self._loggable(physical)), tuple(stored)

    def _update(self, rules: Rules, physical: list[Any], stored: list[Any]) -> _Change | None:
        if not self._immutable and MISSING not in physical:
            body = encode_row(self._whole_update_front, self._loggable(physical))
            return _UPDATE, body, dict(zip(self._value_ids, stored[self.codec.key_columns :]))
        places = [place for place in self._values if physical[place] is not MISSING]
        if self._immutable and not self._immutable.isdisjoint(places):
            if not rules.is_silent:
                raise BatchPathNeeded
            places = [place for place in places if place not in self._immutable]
        if not places:
            return None
        key = tuple(places)
        shape = self._shapes.get(key)
        if shape is None:
            logged = (*self.codec.key_places, *places)
            shape = self._shapes[key] = row_front(Op.UPDATE, logged), itemgetter(*logged)
        ids = self.codec.ids
        body = encode_row(shape[0], shape[1](self._loggable(physical)))
        return _UPDATE, body, {ids[place]: stored[place] for place in places}

    def _loggable(self, physical: list[Any]) -> list[Any]:
        if not self.codec.wide:
            return physical
        physical = physical.copy()
        for place in self.codec.wide:
            if physical[place] is not MISSING:
                physical[place] = decimal_to_bytes(physical[place])
        return physical

    # ---- the row path ---------------------------------------------------------------------------------------------

    def _write(
        self,
        rules: Rules,
        physical: list[Any],
        stored: list[Any],
        since: Timestamp | None,
        context: WriteContext | None,
    ) -> WriteResult:
        started = self._start(rules, physical, stored, since, context)
        ticket = started.ticket
        if not isinstance(started, StartedRow):
            if ticket is not None and not ticket.durable:
                started.tablet.log.sync(ticket, context)
            return WriteResult(0, (), started.timestamp)
        tablet, timestamp = started.tablet, started.timestamp
        assert ticket is not None
        if not ticket.durable:
            _sync(tablet, ticket, started.logged, context)
        tablet.commit(ticket, timestamp)
        self.grown += started.size
        return WriteResult(1, (), timestamp)

    def _start(
        self,
        rules: Rules,
        physical: list[Any],
        stored: list[Any],
        since: Timestamp | None,
        context: WriteContext | None,
    ) -> StartedRow | _Unchanged:
        """All that precedes the wait for the log; `BatchPathNeeded` also if the tablet was written after `since`."""
        codec = self.codec
        place = self._partitioner.route_one(physical)
        if place < 0:
            raise BatchPathNeeded
        tablet = self._tablets[place]
        if codec.number is not None and rules.is_insert:
            physical[codec.number] = stored[codec.number] = tablet.take_numbers(1)
        key = physical[: codec.key_columns]
        index = codec.key.index_key(key)
        if not tablet.write_lock.acquire(blocking=context is None or context.waits):
            raise MustWait
        try:
            if not self._is_current():
                raise BatchPathNeeded
            if since is not None and tablet.newest > since:
                raise BatchPathNeeded  # which finds out whether it was this row
            awaited: LogTicket | None = None
            if tablet.prepared and tablet.prepared.holding(index) is not None:
                raise BatchPathNeeded  # which waits for the outcome
            if tablet.undecided or tablet.deciding:
                tablet.settle()
                if tablet.undecided:
                    awaited = tablet.undecided[-1].ticket
                if any(logged.has_key(index) for logged in tablet.deciding):
                    raise BatchPathNeeded  # which waits for the decision
            home, number, ghost = locate_row(tablet.state, codec.key, key, index, rules.is_insert)
            change = self._resolve(rules, physical, stored, home is not None)
            if change is None:
                return _Unchanged(tablet, self._clock.now(), awaited)
            timestamp, ticket = _log(tablet, change[1], awaited, context)
            logged: LoggedWrite | None = None
            if not ticket.durable:
                logged = LoggedWrite(ticket, timestamp)
                tablet.undecided.append(logged)
            if home is None:
                self._insert(tablet, change[2], index, ghost, timestamp, ticket.index, logged)
            else:
                _change_row(home, number, change, timestamp, ticket.index, logged)
            ticket.timestamp = timestamp
        finally:
            tablet.write_lock.release()
        return StartedRow(tablet, timestamp, ticket, logged, len(change[1]))

    def _insert(
        self,
        tablet: Tablet,
        row: tuple[Any, ...],
        index: int | bytes,
        ghost: int,
        timestamp: int,
        entry: int,
        logged: LoggedWrite | None,
    ) -> None:
        memrowset = tablet.state.memrowset
        if ghost < 0:
            memrowset.insert_row(row, index, timestamp, entry)
        else:
            values = {self.codec.ids[place]: row[place] for place in self._values}
            memrowset.mutate_row(ghost, _REINSERT, values, timestamp, entry)
        if logged is not None:
            logged.inserted.append((memrowset, [index] if ghost < 0 else []))  # type: ignore[arg-type]
        if self.codec.number is not None:
            tablet.note_number(row[self.codec.number])


def as_batch(
    codec: RowCodec,
    op: Op,
    row: Mapping[str, Any],
    stored: Sequence[Any],
    unchanged_since: Timestamp | None = None,
) -> WriteBatch:
    """A row of Python values, with what `RowCodec.take` stored of it, as a batch."""
    fields = [codec.table.schema.arrow.field(name) for name in row]
    arrays = [
        arrow_array([stored[codec.place(name)] if row[name] is not None else None], field.type)
        for name, field in zip(row, fields)
    ]
    batch = pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields))
    return WriteBatch(batch, op, all_or_none=unchanged_since is not None, unchanged_since=unchanged_since)


def finish_row(started: StartedRow, context: WriteContext | None = None) -> WriteResult:
    """The second half of a write whose ticket is decided, or is not decided in this process: raises the log's error if
    the row was not written, after undoing its change. `context` is for the log."""
    tablet = started.tablet
    if not started.ticket.durable:
        _sync(tablet, started.ticket, started.logged, context)
    tablet.commit(started.ticket, started.timestamp)
    return WriteResult(1, (), started.timestamp)


def _log(
    tablet: Tablet, body: bytes, awaited: LogTicket | None, context: WriteContext | None
) -> tuple[Timestamp, LogTicket]:
    """Append a row; its timestamp is in flight then. `DiskError` (or `StoreClosed`) with nothing done."""
    timestamp = tablet.mvcc.start()
    try:
        ticket = tablet.log.append(timestamp, _ROW, (body,), awaited, context)
    except OperationalError:
        tablet.mvcc.abort(timestamp)
        raise
    tablet.newest = timestamp
    return timestamp, ticket


def _change_row(
    home: RowHome, row: int, change: _Change, timestamp: int, entry: int, logged: LoggedWrite | None
) -> None:
    kind, _, values = change
    change_row(home, row, kind, values, timestamp, entry)
    if logged is None:
        return
    if isinstance(home, MemRowSet):
        logged.inserted.append((home, []))
    else:
        deleted = np.array([row] if kind is _DELETE else [], np.int64)
        logged.changed.append(ChangedRows(home.memstore, home.deleted, deleted))


def _sync(tablet: Tablet, ticket: LogTicket, logged: LoggedWrite | None, context: WriteContext | None) -> None:
    """Wait until an entry is durable. Raises the log's error if it failed, after undoing its change, or if the log does
    not decide in time (`DeadlineExceeded`): then the change stays in flight until the decision."""
    try:
        tablet.log.sync(ticket, context)
    except OperationalError:
        tablet.abandon(logged)
        raise
