"""Inserting into a tablet: key checks, log, MemRowSet.

The life of the rows of one batch that belong to one tablet:
1. `TabletWrite.probe` looks their keys up in the rowsets, without any lock.
2. Under the tablet's `write_lock`, `TabletWrite.check` adds what the MemRowSets and newer rowsets know.
3. `TabletWrite.apply` appends the accepted rows to the log and inserts them into the MemRowSet.
4. Without the lock, `TabletWrite.finish` waits for the log's group commit, then lets readers see them.

A refusal waits too, where writes were in flight: the row that it refers to must not vanish after it.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from ..errors import AlreadyPresent, DiskError, OperationalError
from .incoming_rows import describe_key
from .keys import Keys
from .memrowset import IndexKeys, index_keys
from .store import Op, RowError
from .tablet import LoggedWrite, StoredRowSet, Tablet, TabletState
from .vector import Array
from .wal import LogTicket
from .wal_format import EntryKind, decode_write, encode_write

LOG_ROWS = 1 << 17
"""Rows per log entry at most: entries then stay far below the 2 GiB that an Arrow string column can hold."""


class TabletWrite:
    """The part of one batch that goes to one tablet.

    Parameters
    ----------
    rows : pa.RecordBatch
        In the table's schema, without NULLs in key columns.
    numbers : ndarray of intp, shape (n_rows,)
        The row numbers in the whole batch, for errors.
    ops : Op or ndarray of uint8, shape (n_rows,)
        INSERT or INSERT_IGNORE.
    """

    def __init__(self, tablet: Tablet, rows: pa.RecordBatch, numbers: Array, ops: Op | Array):
        self.tablet = tablet
        self.errors: list[RowError] = []
        self._rows = rows
        self._numbers = numbers
        self._ops = ops
        self._keys = Keys.from_rows(tablet.table.schema, rows)
        self._index: IndexKeys = index_keys(self._keys)
        self._present = np.zeros(rows.num_rows, np.bool_)
        self._probed: frozenset[StoredRowSet] = frozenset()
        self._logged: LoggedWrite | None = None
        self._awaited: LogTicket | None = None

    @property
    def accepted(self) -> int:
        """How many rows will be inserted, once checked."""
        return len(self._index)

    # ---- 1 and 2: which keys are there already -------------------------------------------------------------------

    def probe(self) -> None:
        """Look the keys up in the rowsets that there are now."""
        state = self.tablet.state
        self._look_up(state)
        self._probed = frozenset(state.rowsets)

    def check(self) -> None:
        """Refuse the rows whose key is there already. Needs the tablet's `write_lock`."""
        settle(self.tablet)
        state = self.tablet.state
        if not self._probed.issuperset(state.rowsets):
            self._look_up(state)
        for memrowset in state.memrowsets:
            found = memrowset.contains(self._index)
            if found is not None:
                self._present |= found
        repeated = self._keys.duplicates()
        if len(repeated) or self._present.any():
            self._refuse(repeated)

    def _look_up(self, state: TabletState) -> None:
        for stored, rows in state.tree.candidates(self._keys):
            if stored not in self._probed:
                offsets = stored.rowset.find(self._keys.take(rows))
                self._present[rows[offsets >= 0]] = True

    def _refuse(self, repeated: Array) -> None:
        refused = self._present.copy()
        refused[repeated] = True
        rows = np.flatnonzero(refused)
        if not isinstance(self._ops, Op):
            rows = rows[self._ops[rows] == Op.INSERT]
        elif self._ops is Op.INSERT_IGNORE:
            rows = rows[:0]
        self.errors = [RowError(int(self._numbers[row]), self._already_present(row)) for row in rows.tolist()]
        kept = np.flatnonzero(~refused)
        self._rows = self._rows.take(pa.array(kept))
        if not isinstance(self._ops, Op):
            self._ops = self._ops[kept]
        self._keys = self._keys.take(kept)
        self._index = index_keys(self._keys)
        if self.tablet.undecided:
            self._awaited = self.tablet.undecided[-1].ticket

    def _already_present(self, row: int) -> AlreadyPresent:
        table = self.tablet.table
        key = describe_key(table, self._keys.values_at(row))
        if self._present[row]:
            return AlreadyPresent(f"a row with key {key} is in table {table.name} already")
        return AlreadyPresent(f"key {key} is twice among the rows for table {table.name}")

    # ---- 3 and 4: log, insert, acknowledge -----------------------------------------------------------------------

    def apply(self, timestamp: int) -> None:
        """Log the accepted rows and insert them; `timestamp` is in flight. Needs the tablet's `write_lock`.

        Raises `DiskError` (or `StoreClosed`) with nothing done, the timestamp aborted.
        """
        tablet = self.tablet
        ops = Op.INSERT  # those that were to be ignored are gone: what is logged happened
        bodies = [encode_write(self._rows.slice(at, LOG_ROWS), ops) for at in range(0, self.accepted, LOG_ROWS)]
        try:
            ticket = tablet.log.append(timestamp, EntryKind.WRITE, bodies)
        except OperationalError:
            tablet.mvcc.abort(timestamp)
            raise
        memrowset = tablet.state.memrowset
        for number, body in enumerate(bodies):
            # The logged bytes are ours alone: the caller may go on to change arrays under its own batch.
            rows, _ = decode_write(body, self._rows.schema)
            memrowset.insert(rows, self._index[number * LOG_ROWS : (number + 1) * LOG_ROWS], timestamp)
        self._logged = LoggedWrite(ticket, memrowset, self._index, timestamp)
        tablet.undecided.append(self._logged)

    def finish(self) -> None:
        """Wait until the rows are durable and let readers see them; `DiskError` where they never will be."""
        tablet, logged = self.tablet, self._logged
        try:
            if logged is not None:
                tablet.log.sync(logged.ticket)
            elif self._awaited is not None:
                tablet.log.sync(self._awaited)
        except DiskError:
            with tablet.write_lock:
                settle(tablet)
            raise
        if logged is not None:
            logged.memrowset.note_durable(logged.ticket.index)
            tablet.mvcc.commit(logged.timestamp)


def settle(tablet: Tablet) -> None:
    """Undo the writes whose log entries failed, and forget those that are durable. Needs the tablet's `write_lock`.

    Before any key is checked: a row that failed must not refuse another one.
    """
    undecided = tablet.undecided
    while undecided and undecided[0].ticket.is_decided:
        logged = undecided.popleft()
        if logged.ticket.error is not None:
            logged.memrowset.abort(logged.keys, logged.timestamp)
            tablet.mvcc.abort(logged.timestamp)
