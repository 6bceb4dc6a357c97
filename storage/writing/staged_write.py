"""The rows of log entries that were staged, prepared as one write of a transaction (`tablet.staged`).

The entries have net changes, which depend on whether keys exist. They are right if no key was changed since the
snapshot of the transaction; `StagedWrite.check` sees to that, under the lock under which the rows come into memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from ...errors import ProtocolError
from ...model.schema import Table
from ..log.decision import Decision
from ..log.logged_rows import LoggedPart, LoggedRows
from ..log.logged_write import LoggedWrite
from ..log.tablet_log import WriteContext
from ..log.wal_format import EntryKind, LogEntry, entry_parts
from ..tablet.prepared import PreparedWrite
from ..tablet.row_locator import RowLocator
from ..tablet.tablet import Tablet
from ..tablet.tablet_apply import apply_rows, number_after
from .changed_since import refuse_changed_keys


class StagedWrite:
    """A staged part that is to be prepared at the leader. The rows of all entries are in memory meanwhile.

    Parameters
    ----------
    tablet : Tablet
    table : Table
        For which the entries were made; `check` is not called where it has been altered since.
    transaction : str
    snapshot : int
        Of the transaction.
    pieces : sequence of (LogEntry, pa.Schema)
        The entries, as PART entries, each with the schema of its segment.
    context : WriteContext
        For the log.

    Raises `ProtocolError` for a key in two entries.
    """

    def __init__(
        self,
        tablet: Tablet,
        table: Table,
        transaction: str,
        snapshot: int,
        pieces: Sequence[tuple[LogEntry, pa.Schema]],
        context: WriteContext,
    ):
        self._tablet = tablet
        self._table = table
        self._transaction = transaction
        self._snapshot = snapshot
        self._context = context
        self._rows: list[LoggedRows] = []
        self._locators: list[RowLocator] = []
        self._keys: set[int | bytes] = set()
        state = tablet.pin().state
        for entry, schema in pieces:
            parts = [LoggedPart(part, schema, 0, 0) for part in entry_parts(entry, schema)]
            if not parts:
                continue
            rows = LoggedRows.of(parts, table.schema)
            locator = RowLocator(rows.keys)
            locator.search(state)
            self._keys.update(locator.index)
            self._rows.append(rows)
            self._locators.append(locator)
        if len(self._keys) != sum(map(len, self._rows)):
            raise ProtocolError(f"transaction {transaction} has staged a key of tablet {tablet.id} twice")

    def blocker(self) -> Decision | None:
        """See `TabletWrite.blocker`. Needs the tablet's `write_lock`."""
        prepared = self._tablet.prepared
        for locator in self._locators if prepared else ():
            if (found := prepared.sharing(locator.index)) is not None:
                return found.decision
        return None

    def check(self) -> None:
        """Raises `SerializationFailure` where a row was changed after the snapshot. Needs the tablet's `write_lock`."""
        state = self._tablet.state
        for locator in self._locators:
            refuse_changed_keys(self._tablet, self._table, locator, locator.locate(state), self._snapshot)

    def prepare(self, proposed: int, note: bytes) -> PreparedWrite:
        """Logs one entry without rows and brings the rows into memory, at the proposed timestamp or a later one. `note`
        is kept with the write. Needs the tablet's `write_lock`, held since `check`."""
        tablet = self._tablet
        awaited = tablet.undecided[-1].ticket if tablet.undecided else None
        timestamp = tablet.mvcc.hold_new(proposed)
        try:
            ticket = tablet.log.append(timestamp, EntryKind.PART, [b""], awaited, self._context)
        except BaseException:
            tablet.mvcc.release(timestamp)
            raise
        write = LoggedWrite(ticket, timestamp, is_prepared=True)
        prepared = PreparedWrite(write, timestamp, self._keys, Decision(), note)
        tablet.prepared.add(self._transaction, prepared)
        tablet.staged.note_prepared(self._transaction)
        tablet.undecided.append(write)
        tablet.newest = timestamp
        for rows in self._rows:
            tablet.note_number(number_after(rows) - 1)
            indexes, timestamps = np.full(len(rows), ticket.index), np.full(len(rows), timestamp, np.uint64)
            apply_rows(tablet.state, replace(rows, indexes=indexes, timestamps=timestamps), tablet.directory, write)
        return prepared
