"""The part of a write that goes to one tablet: what `atomic_write` and `joint_write` need of it.

Two implementations do the same for the rows of one tablet, and their results are equal:

| | `tablet_write.TabletWrite` | `single_rows.rows_write.RowsWrite` |
|---|---|---|
| rows | any number, as Arrow batches | few (`are_few`), as lists of Python values |
| keys | searched together, without the lock before | one by one, under the lock |
| refused rows | are reported | `BatchPathNeeded`: the write is tried again as a batch |
| memory | runs of deltas | single rows and single deltas |

Both log a WRITE entry, or a PART where several tablets are written. Up to `rows_write.ROW_ENTRIES` rows of one tablet
are a ROW entry each.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Final

from ...errors import OperationalError
from ...model.store import RowError
from ..log.decision import Decision
from ..log.logged_write import LoggedWrite
from ..log.tablet_log import WriteContext
from ..log.wal import LogTicket
from ..log.wal_format import EntryKind
from ..rowsets.memrowset import IndexKeys
from ..tablet.tablet import Tablet

FEW_ROWS = 150
"""Number of rows of one write up to which they are written one by one, where they are Python values. Measured: both
paths take as long for 150 updated rows of one tablet, and for 300 of three tablets."""
ARROW_ROW: Final = 3
"""A row of an Arrow batch counts as this many: it must be converted, while the batch path begins with what is there.
Both take as long for 55 rows of one tablet, and for 120 of three."""


def are_few(rows: int, arrow_rows: int) -> bool:
    """True for a write that is made row by row: of `rows` Python rows and `arrow_rows` rows of Arrow batches."""
    return rows + ARROW_ROW * arrow_rows <= FEW_ROWS


class TabletPart(ABC):
    """One tablet's rows of a write. Methods are called in this order: `check`, `encode`, `apply`, then `finish`, or
    `await_log` where other tablets have parts, too.

    Parameters
    ----------
    tablet : Tablet
    context : WriteContext, optional
        For the log.
    """

    def __init__(self, tablet: Tablet, context: WriteContext | None = None):
        self.tablet = tablet
        self.errors: list[RowError] = []
        """Of refused rows, once checked."""
        self.applied = 0
        """Number of ops with an effect, once checked."""
        self._context = context
        self._logged: LoggedWrite | None = None
        self._awaited: LogTicket | None = None

    @property
    @abstractmethod
    def index(self) -> IndexKeys:
        """Index keys of all rows."""

    @property
    @abstractmethod
    def has_changes(self) -> bool:
        """True if there are changes to apply, once checked."""

    @abstractmethod
    def check(self) -> None:
        """Resolve the ops. Needs the tablet's `write_lock`. Raises `SerializationFailure` where a row was changed after
        the snapshot of the transaction that writes it, `HistoryGone` where that is not known any more."""

    @abstractmethod
    def encode(self, is_joint: bool = False) -> None:
        """Make the log entries of the checked changes, PARTs if `is_joint`: other tablets have parts, too. Errors here
        occur before a timestamp is drawn, for which all readers would wait."""

    @abstractmethod
    def _entries(self) -> tuple[EntryKind, Sequence[bytes]]:
        """Kind and bodies of the log entries, once encoded."""

    @abstractmethod
    def _change_memory(self, logged: LoggedWrite) -> None:
        """Make the changes in memory, and note in `logged` how they are undone."""

    @property
    def relies_on_log(self) -> bool:
        """True if the result, once checked, depends on earlier writes whose log entries may still fail."""
        return self._awaited is not None

    def blocker(self) -> Decision | None:
        """The decision to wait for, without locks, where a write over several tablets has keys of this one and is not
        decided yet. Needs the tablet's `write_lock`."""
        tablet = self.tablet
        if tablet.prepared and (prepared := tablet.prepared.sharing(self.index)) is not None:
            return prepared.decision
        if tablet.deciding:
            tablet.settle()
            for logged in tablet.deciding:
                if logged.shares_keys(self.index):
                    return logged.decision
        return None

    def _settle(self) -> None:
        """Undo failed writes before any key is checked, and note the entry that the result relies on."""
        self.tablet.settle()
        if self.tablet.undecided:
            self._awaited = self.tablet.undecided[-1].ticket

    def apply(self, timestamp: int, decision: Decision | None = None) -> LogTicket:
        """Log what was encoded and make the changes; `timestamp` is in flight. Needs the tablet's `write_lock`. Returns
        the ticket for which `finish` waits.

        With a `decision`, that of a write over several tablets for which `encode` has made PARTs, `await_log` and
        `joint_write` take the place of `finish`.

        Raises `DiskError` (or `StoreClosed`) with nothing done, the timestamp aborted.
        """
        logged = self._append_or_abort(timestamp)
        if decision is not None:
            logged.decision, logged.keys = decision, lambda: self.index
            self.tablet.deciding.append(logged)
        self._enter(logged)
        return logged.ticket

    def log(self, timestamp: int) -> None:
        """Log what was encoded as PARTs of a write on which the catalog decides. Memory is changed afterwards
        (`change_memory`), with the tablet's `write_lock` held all the time. `timestamp` is in flight.

        Raises `DiskError` (or `StoreClosed`) with nothing done; the timestamp stays in flight.
        """
        self._logged = self._append(timestamp)

    def _append(self, timestamp: int) -> LoggedWrite:
        ticket = self.tablet.log.append(timestamp, *self._entries(), self._awaited, self._context)
        return LoggedWrite(ticket, timestamp)

    def _append_or_abort(self, timestamp: int) -> LoggedWrite:
        """`_append`; the timestamp is aborted where that fails."""
        try:
            return self._append(timestamp)
        except OperationalError:
            self.tablet.mvcc.abort(timestamp)
            raise

    def change_memory(self) -> None:
        """Make the changes that `log` has logged; their log entries are durable."""
        assert self._logged is not None
        self._enter(self._logged)

    def _enter(self, logged: LoggedWrite) -> None:
        self._note(logged)
        self._change_memory(logged)

    def _note(self, logged: LoggedWrite) -> None:
        """Count a logged write among the tablet's undecided ones."""
        self._logged = logged
        self.tablet.undecided.append(logged)
        self.tablet.newest = logged.timestamp

    @property
    def last_entry(self) -> int:
        """The index of the last log entry of the applied changes."""
        assert self._logged is not None
        return self._logged.ticket.index

    def await_log(self) -> OperationalError | None:
        """Block until the log entries of the applied changes, or of the earlier ones they depend on, are durable;
        returns the log's error if they failed. Acquires no lock of the tablet."""
        try:
            self._sync()
        except OperationalError as error:
            return error
        return None

    def _sync(self) -> None:
        awaited = self._awaited if self._logged is None else self._logged.ticket
        if awaited is not None:
            self.tablet.log.sync(awaited, self._context)

    def finish(self) -> None:
        """Wait until the changes are durable and commit them. Raises the log's error if they failed, or if the log does
        not decide in time (`DeadlineExceeded`): then they stay in flight until the decision."""
        try:
            self._sync()
        except OperationalError:
            self.tablet.abandon(self._logged)
            raise
        if self._logged is not None:
            self.tablet.mvcc.commit(self._logged.timestamp)
