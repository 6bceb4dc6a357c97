"""Writes to a tablet: locating keys, resolving ops, log, memory.

The life of the rows of one batch that belong to one tablet:
1. `TabletWrite.probe` searches their keys in the rowsets, without any lock.
2. Under the tablet's `write_lock`, `TabletWrite.check` adds later changes, and resolves the ops: some rows are refused,
   and each key is inserted, updated, deleted or unchanged.
3. `TabletWrite.apply` appends these changes to the log, inserts new rows into the MemRowSet, and adds deltas of
   existing rows to the DeltaMemStore of the MemRowSet or DiskRowSet that has them.
4. Without the lock, `TabletWrite.finish` waits for the log's group commit, then commits the changes.

   Decisions here rely on all earlier writes, also those whose log entries may still fail. Entries after a failed one
   fail with it; a batch that changes nothing waits for earlier ones, because its result depends on them.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...errors import OperationalError, RowChanged
from ...model import arrow_functions as pc
from ...model.arrow_arrays import arrow_array
from ...model.keys.keys import Keys
from ...model.schema import Table
from ...model.store import Op, RowError
from ...model.vectors.vector import Array
from ..deltas.deltas import DeltaKind
from ..log.decision import Decision
from ..log.logged_write import ChangedRows, LoggedWrite
from ..log.tablet_log import WriteContext
from ..log.wal import LogTicket
from ..log.wal_format import EntryKind, WritePart, decode_write, encode_write
from ..rowsets.memrowset import IndexKeys, MemRowSet
from ..tablet.prepared import PreparedWrite
from ..tablet.row_locator import Locations, RowLocator
from ..tablet.tablet import Tablet
from .changed_since import changed_rows, refuse_changed_keys
from .incoming_rows import IncomingRows, describe_key, incomplete_rows, with_numbers
from .net_changes import NetChanges
from .op_resolution import OpBatch, resolve_ops
from .refused_rows import refused_rows
from .tablet_part import TabletPart

LOG_ROWS = 1 << 17
"""Rows per log entry at most: entries then stay far below the 2 GiB that an Arrow string column can hold."""
_NEEDS_ROW = np.zeros(max(Op) + 1, np.bool_)
_NEEDS_ROW[[Op.UPDATE, Op.UPDATE_IGNORE, Op.DELETE, Op.DELETE_IGNORE]] = True


class TabletWrite(TabletPart):
    """The part of one batch that goes to one tablet.

    Parameters
    ----------
    tablet : Tablet
    table : Table
        For which the batch was made; `check` is not called where it has been altered since.
    batch : IncomingRows
        Without rows that are refused already.
    numbers : ndarray of intp, shape (n_rows,)
        The row numbers in the whole batch, for errors.
    context : WriteContext, optional
        For the log.
    snapshot : int, optional
        That of the transaction whose rows these are: a row that another write has changed since is a conflict.
    """

    def __init__(
        self,
        tablet: Tablet,
        table: Table,
        batch: IncomingRows,
        numbers: Array,
        context: WriteContext | None = None,
        snapshot: int | None = None,
    ):
        super().__init__(tablet, context)
        self._table = table
        self._batch = with_numbers(table.schema, batch, tablet.take_numbers)
        self._numbers = numbers
        self._snapshot = snapshot
        self._keys = Keys.from_rows(self._table.schema, self._batch.rows)
        self._is_likely = bool(_NEEDS_ROW[batch.ops].all())
        self._locator = RowLocator(self._keys, likely=self._is_likely)
        self._locations: Locations | None = None
        self._changes: NetChanges | None = None
        self._kind = EntryKind.WRITE
        self._bodies: list[bytes] = []
        """Of the log entries, once encoded."""

    @property
    def index(self) -> IndexKeys:
        return self._locator.index

    @property
    def has_changes(self) -> bool:
        return bool(self._changes)

    # ---- 1 and 2: what the ops come to ---------------------------------------------------------------------------

    def probe(self) -> None:
        """Look for the keys in the rowsets that there are now."""
        pin = self.tablet.pin()
        self._locator.search(pin.state)

    def check(self) -> None:
        self._settle()
        schema, batch = self._table.schema, self._batch
        self._locations = self._locator.locate(self.tablet.state)
        if self._snapshot is not None:
            refuse_changed_keys(self.tablet, self._table, self._locator, self._locations, self._snapshot)
        present = self._locations.present
        values = slice(schema.key_columns, None)
        ops = OpBatch(
            keys=self._keys,
            ops=batch.ops,
            given=batch.given[values],
            immutable=[column.immutable for column in schema.columns[values]],
            incomplete=incomplete_rows(self._table, batch.given, len(batch)),
            is_distinct=self._is_likely and self._locations.are_distinct(),
        )
        resolution = resolve_ops(ops, present)
        self.applied = resolution.applied
        self.errors = refused_rows(self._table, batch.given, self._keys, resolution.refusals, present, self._numbers)
        if batch.unchanged_since is not None:
            self.errors += self._changed_errors(batch.unchanged_since)
        self._changes = NetChanges(schema, batch.rows, resolution)

    def _changed_errors(self, since: int) -> list[RowError]:
        if self.tablet.newest <= since:  # as `changed_rows` says, without a map of all rows
            return []
        assert self._locations is not None
        changed = changed_rows(self.tablet, self._table, self._locator, self._locations, since)
        return [
            RowError(
                int(self._numbers[row]),
                RowChanged(
                    f"the row with key {describe_key(self._table, self._keys.values_at(row))} of table "
                    f"{self._table.name} was changed by others since it was read"
                ),
            )
            for row in np.flatnonzero(changed & _NEEDS_ROW[self._batch.ops]).tolist()
        ]

    # ---- 3 and 4: log, memory, acknowledgement -------------------------------------------------------------------

    def encode(self, is_joint: bool = False) -> None:
        assert self._changes is not None
        self._bodies = _bodies(self._changes.parts(), len(self._table.schema.columns))
        self._kind = EntryKind.PART if is_joint else EntryKind.WRITE

    def _entries(self) -> tuple[EntryKind, Sequence[bytes]]:
        return self._kind, self._bodies

    def encode_staged(self) -> None:
        """`encode` for `stage`, with the keys that are to be deleted if they exist, and do not: the check of conflicts
        at the end of the transaction concerns them, too."""
        assert self._changes is not None and self._locations is not None
        parts = self._changes.parts()
        absent = np.flatnonzero((self._batch.ops == Op.DELETE_IGNORE) & ~self._locations.present)
        if len(absent):
            places = tuple(range(self._table.schema.key_columns))
            rows = self._batch.rows.select(list(places)).take(arrow_array(absent))
            parts.append(WritePart(Op.DELETE, rows, places))
        self._bodies = _bodies(parts, len(self._table.schema.columns))
        self._kind = EntryKind.PART

    def stage(self, timestamp: int) -> LogTicket:
        """Log what was encoded, and change nothing: `context` makes another kind of entry of it. `timestamp` is in
        flight, and `finish` waits for the entry. Needs the tablet's `write_lock`; raises as `apply`."""
        logged = self._append_or_abort(timestamp)
        self._note(logged)
        return logged.ticket

    def prepare(self, transaction: str, timestamp: int, note: bytes) -> PreparedWrite:
        """`apply` as the part of a transaction over several tablets of a cluster: `timestamp` is held, and `await_log`
        takes the place of `finish`. `note` is kept with the write."""
        tablet = self.tablet
        try:
            ticket = tablet.log.append(timestamp, EntryKind.PART, self._bodies, self._awaited, self._context)
        except OperationalError:
            tablet.mvcc.release(timestamp)
            raise
        logged = LoggedWrite(ticket, timestamp, is_prepared=True)
        prepared = PreparedWrite(logged, timestamp, frozenset(self._locator.index), Decision(), note)
        tablet.prepared.add(transaction, prepared)
        self._enter(logged)
        return prepared

    def _change_memory(self, logged: LoggedWrite) -> None:
        changes, timestamp, ticket = self._changes, logged.timestamp, logged.ticket
        assert changes is not None
        index = ticket.index - ticket.count + 1
        if len(changes.resolution.inserts):
            self._insert(changes, timestamp, index)
        self._change(changes, timestamp, index)

    def _insert(self, changes: NetChanges, timestamp: int, index: int) -> None:
        assert self._locations is not None and self._logged is not None
        tablet, schema = self.tablet, self._table.schema
        memrowset = tablet.state.memrowset
        keys = _chosen(self._locator.index, changes.resolution.inserts)
        fresh = changes.new_rows(self._locations)
        if fresh is not None:
            rows = changes.inserted_rows().take(arrow_array(fresh))
            keys = _chosen(keys, fresh)
            memrowset.insert(rows, keys, timestamp, index)
        else:
            place = 0
            for number, body in enumerate(self._bodies):
                # The logged bytes are ours alone: the caller may go on to change arrays under its own batch.
                for part in decode_write(body, schema.arrow):
                    if part.op is Op.INSERT:
                        stop = place + part.rows.num_rows
                        entry = min(index + number, self._logged.ticket.index)  # a log may have joined the bodies
                        memrowset.insert(part.rows, keys[place:stop], timestamp, entry)
                        place = stop
        self._logged.inserted.append((memrowset, keys))
        if schema.key[-1].auto_increment:
            tablet.note_number(pc.max(changes.inserted_rows().column(schema.key_columns - 1)).as_py())

    def _change(self, changes: NetChanges, timestamp: int, index: int) -> None:
        assert self._locations is not None and self._logged is not None
        for home, deltas in changes.deltas(self._locations, timestamp):
            if isinstance(home, MemRowSet):
                home.mutate(deltas, index)
                if all(home is not memrowset for memrowset, _ in self._logged.inserted):
                    self._logged.inserted.append((home, []))
            else:
                deleted = deltas.rows[deltas.kinds == DeltaKind.DELETE]
                home.memstore.append(deltas, index)
                home.deleted.add(deleted)
                self._logged.changed.append(ChangedRows(home.memstore, home.deleted, deleted))


def _chosen(keys: IndexKeys, rows: Array) -> IndexKeys:
    return keys if len(rows) == len(keys) else [keys[row] for row in rows.tolist()]


def _bodies(parts: list[WritePart], columns: int) -> list[bytes]:
    """One log entry, or several where there are many rows."""
    if sum(part.rows.num_rows for part in parts) <= LOG_ROWS:
        return [encode_write(parts, columns)]
    pieces = [part.slice(at, LOG_ROWS) for part in parts for at in range(0, part.rows.num_rows, LOG_ROWS)]
    return [encode_write([piece], columns) for piece in pieces]
