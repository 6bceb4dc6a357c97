"""Few rows of one tablet, written one by one: a `TabletPart` without vectors of keys.

    changes of rows ──► locate_row, conflicts, rules   under the tablet's `write_lock`     `RowsWrite.check`
                    ──► entries of the log             ROW, WRITE or PART                  `RowsWrite.encode`
                    ──► rows and single deltas         as `row_write` makes them           `RowsWrite.apply`

Searching the keys of a batch, resolving its ops and making runs of deltas costs about 0.7 ms however few rows there
are; a row costs about 5 us here. Single deltas are also cheaper for later look-ups than many short runs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa

from ...model.codec.values import decimal_to_bytes
from ...model.store import Op
from ..deltas.deltas import DeltaKind
from ..log.logged_write import ChangedRows, LoggedWrite
from ..log.tablet_log import WriteContext
from ..log.wal_format import EntryKind, WritePart, encode_write
from ..rowsets.memrowset import IndexKeys, MemRowSet
from ..rowsets.stored_rowset import StoredRowSet
from ..tablet.row_locator import RowHome, change_row, locate_row
from ..tablet.tablet import Tablet
from ..writing.changed_since import check_age, refuse_changed_key
from ..writing.tablet_part import TabletPart
from .row_changes import RowChange, cells
from .row_codec import MISSING, RowCodec
from .row_rules import RULES, UNCHANGED, BatchPathNeeded, resolve_row
from .wal_row import encode_row, row_front

ROW_ENTRIES: Final = 16
"""Rows of one tablet that are logged as a ROW entry each, as `row_write` logs them: a WRITE entry takes as long for any
number of rows as ROW entries of 20 to 30 rows do (28 us for two columns)."""


class _Net(NamedTuple):
    """A checked change.

    Parameters
    ----------
    op : Op
        INSERT, UPDATE or DELETE.
    stored : list
        All values of an INSERT; `MISSING` where an UPDATE sets nothing; the key of a DELETE.
    index_key : int or bytes
        Of the key.
    home, row
        Where the row lives; None and -1 for an INSERT.
    ghost : int
        As `locate_row` returns it.
    """

    op: Op
    stored: list[Any]
    index_key: int | bytes
    home: RowHome | None
    row: int
    ghost: int


class RowsWrite(TabletPart):
    """Few rows of one tablet.

    Parameters
    ----------
    tablet : Tablet
    codec : RowCodec
        Of the table's present version.
    rows : sequence of RowChange
        Of distinct keys, all of this tablet.
    snapshot : int, optional
        That of the transaction whose rows these are: a row that another write has changed since is a conflict.
    unchanged_since : int, optional
        As of a `WriteBatch`: `BatchPathNeeded` where the tablet was written since.
    context : WriteContext, optional
        For the log.
    """

    def __init__(
        self,
        tablet: Tablet,
        codec: RowCodec,
        rows: Sequence[RowChange],
        snapshot: int | None = None,
        unchanged_since: int | None = None,
        context: WriteContext | None = None,
    ):
        super().__init__(tablet, context)
        self._codec = codec
        self._rows = rows
        self._snapshot = snapshot
        self._unchanged_since = unchanged_since
        self._index: IndexKeys = [row.index_key for row in rows]  # type: ignore[assignment]
        self._changes: list[_Net] = []
        self._kind = EntryKind.WRITE
        self._bodies: list[bytes] = []

    @property
    def index(self) -> IndexKeys:
        return self._index

    @property
    def has_changes(self) -> bool:
        return bool(self._changes)

    # ---- what the ops come to ------------------------------------------------------------------------------------

    def check(self) -> None:
        """As `TabletPart`. `BatchPathNeeded`, with nothing done, where a row is refused."""
        self._settle()
        tablet, codec, since = self.tablet, self._codec, self._snapshot
        if self._unchanged_since is not None and tablet.newest > self._unchanged_since:
            raise BatchPathNeeded
        if since is not None and tablet.newest <= since:
            since = None
        if since is not None:
            check_age(tablet, since)
        immutable = [column.place for column in codec.columns if column.schema.immutable]
        state, key_codec = tablet.state, codec.key
        changes: list[_Net] = []
        for row in self._rows:
            rules = RULES[row.op]
            place = locate_row(state, key_codec, row.key, row.index_key, rules.is_insert)
            if since is not None:
                refuse_changed_key(tablet, codec.table, key_codec, row.key, row.index_key, place, since)
            home, number, ghost = place
            stored = resolve_row(codec, () if row.replaces else immutable, rules, row.stored, None, home is not None)
            if stored is UNCHANGED:
                continue
            op = Op.DELETE if stored is None else Op.INSERT if home is None else Op.UPDATE
            changes.append(_Net(op, row.stored if stored is None else stored, row.index_key, home, number, ghost))
        self._changes = changes
        self.applied = len(changes)

    # ---- the log -------------------------------------------------------------------------------------------------

    def encode(self, is_joint: bool = False) -> None:
        # With a context, the write is one entry.
        if not is_joint and len(self._changes) <= (ROW_ENTRIES if self._context is None else 1):
            fronts: dict[tuple[Op, tuple[int, ...]], bytes] = {}
            self._kind, self._bodies = EntryKind.ROW, [self._row_body(change, fronts) for change in self._changes]
            return
        parts = []
        for op in (Op.INSERT, Op.UPDATE, Op.DELETE):
            rows = [change.stored for change in self._changes if change.op is op]
            if rows:
                parts.append(self._part(op, rows))
        self._kind = EntryKind.PART if is_joint else EntryKind.WRITE
        self._bodies = [encode_write(parts, len(self._codec.columns))]

    def _row_body(self, change: _Net, fronts: dict[tuple[Op, tuple[int, ...]], bytes]) -> bytes:
        codec, stored = self._codec, change.stored
        if change.op is Op.DELETE:
            places = codec.key_places
        else:
            places = tuple([place for place, value in enumerate(stored) if value is not MISSING])
        front = fronts.get((change.op, places))
        if front is None:
            front = fronts[change.op, places] = row_front(change.op, places)
        columns = codec.columns
        values = [None if stored[place] is None else columns[place].take(stored[place])[0] for place in places]
        for place in codec.wide:
            if place in places and stored[place] is not None:
                at = places.index(place)
                values[at] = decimal_to_bytes(values[at])
        return encode_row(front, values)

    def _part(self, op: Op, rows: list[list[Any]]) -> WritePart:
        schema = self._codec.table.schema
        places: list[int] = []
        arrays: list[pa.Array] = []
        isset: dict[int, np.ndarray[Any, Any]] = {}
        for place in range(schema.key_columns if op is Op.DELETE else len(schema.columns)):
            array, is_set = cells(rows, place, schema.columns[place].type.arrow)
            if is_set is not None:
                if not is_set.any():
                    continue
                isset[place] = is_set
            places.append(place)
            arrays.append(array)
        batch = pa.RecordBatch.from_arrays(arrays, schema=pa.schema([schema.arrow.field(place) for place in places]))
        return WritePart(op, batch, tuple(places), isset)

    def _entries(self) -> tuple[EntryKind, Sequence[bytes]]:
        return self._kind, self._bodies

    # ---- memory --------------------------------------------------------------------------------------------------

    def _change_memory(self, logged: LoggedWrite) -> None:
        timestamp, last = logged.timestamp, logged.ticket.index
        entry, step = (last, 0) if len(self._bodies) == 1 else (last - len(self._bodies), 1)
        memrowset = self.tablet.state.memrowset
        inserted: list[Any] = []
        changed: dict[int, tuple[RowHome, list[int]]] = {}
        """Homes by identity, and the rows that were deleted there."""
        for change in self._changes:
            entry += step
            home = change.home
            if home is None:
                if change.ghost < 0:
                    memrowset.insert_row(tuple(change.stored), change.index_key, timestamp, entry)
                    inserted.append(change.index_key)
                else:
                    memrowset.mutate_row(change.ghost, DeltaKind.REINSERT, self._values(change), timestamp, entry)
                changed.setdefault(id(memrowset), (memrowset, []))
                continue
            deleted = changed.setdefault(id(home), (home, []))[1]
            if change.op is Op.DELETE:
                deleted.append(change.row)
                change_row(home, change.row, DeltaKind.DELETE, {}, timestamp, entry)
            else:
                change_row(home, change.row, DeltaKind.UPDATE, self._values(change), timestamp, entry)
        for home, deleted in changed.values():
            if isinstance(home, MemRowSet):
                logged.inserted.append((home, inserted if home is memrowset else []))
            else:
                assert isinstance(home, StoredRowSet)
                logged.changed.append(ChangedRows(home.memstore, home.deleted, np.array(deleted, np.int64)))
        number = self._codec.number
        if number is not None:
            for change in self._changes:
                if change.op is Op.INSERT:
                    self.tablet.note_number(change.stored[number])

    def _values(self, change: _Net) -> dict[int, Any]:
        """The new values by column id."""
        ids, first = self._codec.ids, self._codec.key_columns
        return {
            ids[place]: value for place, value in enumerate(change.stored) if place >= first and value is not MISSING
        }
