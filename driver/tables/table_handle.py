"""Tables without SQL: rows in, scans, scan tokens and changes out (Kudu paper, sections 2.2 to 2.4).

    Connection.table ─► TableHandle ──┬── insert, upsert, update, delete, ...   `tables.row_writes`
                                      ├── get                                   `Store.read_row`
                                      ├── scan                                  `scans`
                                      ├── scan_tokens                           `tables.scan_tokens`
                                      └── changes                               `tables.table_changes`

All of it calls the store's protocol (`model.store.Store`), without parser and planner.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from ...errors import InterfaceError, RowsRefused, UnknownColumn, did_you_mean
from ...model.access.holders import RIGHTS_OF_OPS
from ...model.access.rights import Right
from ...model.forks import stay_with_process
from ...model.predicates import ColumnPredicate
from ...model.schema import ColumnSchema, Table
from ...model.store import Op, TableStatistics, TabletDescription, Timestamp
from ..session.identity import require
from .conditions import Predicates, bound_predicates, col
from .given_rows import Rows, is_row, key_of
from .row_writes import Written, write_one_row, write_rows
from .scan_tokens import ScanToken, scan_tokens
from .table_changes import Changes, changes_of
from .table_scans import Scan, arrow_schema, scan_of
from .timestamps import Moment, hybrid_time

if TYPE_CHECKING:
    from ..open_connection import OpenConnection


class TableHandle:
    """One table of a connection, with the columns that it had when `Connection.table` was called.

    The methods that write take one row or many in any form (`tables.given_rows`: dict, tuple in column order, list of
    these, Arrow data, DataFrame). They return when the rows are durable and every later scan sees them. A row that is
    refused does not keep the others from being written: the `RowsRefused` at the end lists such rows by number, with
    keys and reasons. With `all_or_none`, one refused row keeps all others out. May be used by several threads.
    """

    def __init__(self, connection: OpenConnection, table: Table):
        self._connection = connection
        self._table = table
        self._known: list[str] | None = None
        """The last projection that was checked."""
        stay_with_process(self)

    def __repr__(self) -> str:
        return f"TableHandle({self.name!r}: {', '.join(f'{c.name} {c.type}' for c in self.columns)})"

    # ---- what it is ----------------------------------------------------------------------------------------------

    @property
    def definition(self) -> Table:
        """The table at the creation of the handle."""
        return self._table

    @property
    def name(self) -> str:
        return self._table.name

    @property
    def columns(self) -> tuple[ColumnSchema, ...]:
        """The columns in order, without the hidden one of a key that is not unique."""
        return self._table.schema.visible_columns

    @property
    def schema(self) -> pa.Schema:
        """The Arrow schema of whole rows."""
        return arrow_schema(self.columns)

    @property
    def key(self) -> tuple[str, ...]:
        """The columns of the primary key, in key order, the hidden one included."""
        return tuple(column.name for column in self._table.schema.key)

    @property
    def tablets(self) -> Sequence[TabletDescription]:
        """The current tablets: partition, size, and location of each."""
        return self._connection.store.describe_tablets(self._table)

    @property
    def partitions(self) -> list[str]:
        """Readable partition of each tablet: `HASH (k) bucket 0 of 4`."""
        return [tablet.partition for tablet in self.tablets]

    @property
    def num_rows(self) -> int:
        """Current number of rows, from the store's counters."""
        return self.statistics.row_count

    @property
    def statistics(self) -> TableStatistics:
        """Rows, and bounds and distinct values of columns as far as they are known."""
        self._require(Right.SELECT)
        return self._connection.store.statistics(self._table)

    def __getitem__(self, name: str) -> col:
        """A column for a condition, `table["x"] >= 3`; `UnknownColumn` where there is none of that name."""
        self._check_columns([name])
        return col(name)

    # ---- writing -------------------------------------------------------------------------------------------------

    def insert(self, rows: Rows, all_or_none: bool = False) -> Written:
        """Insert rows; rows with existing keys are refused (`AlreadyPresent`)."""
        return self.write(Op.INSERT, rows, all_or_none)

    def insert_ignore(self, rows: Rows, all_or_none: bool = False) -> Written:
        """Insert rows, ignoring those with existing keys."""
        return self.write(Op.INSERT_IGNORE, rows, all_or_none)

    def upsert(self, rows: Rows, all_or_none: bool = False) -> Written:
        """Insert rows, or update the given columns of rows with existing keys."""
        return self.write(Op.UPSERT, rows, all_or_none)

    def update(self, rows: Rows, all_or_none: bool = False) -> Written:
        """Change rows by their keys in the columns that are given; one that is not there is refused (`NotFound`)."""
        return self.write(Op.UPDATE, rows, all_or_none)

    def update_ignore(self, rows: Rows, all_or_none: bool = False) -> Written:
        """Update rows, ignoring those that do not exist."""
        return self.write(Op.UPDATE_IGNORE, rows, all_or_none)

    def delete(self, rows: Rows, all_or_none: bool = False) -> Written:
        """Delete rows by their keys; one that is not there is refused (`NotFound`)."""
        return self.write(Op.DELETE, rows, all_or_none)

    def delete_ignore(self, rows: Rows, all_or_none: bool = False) -> Written:
        """Delete rows, ignoring those that do not exist."""
        return self.write(Op.DELETE_IGNORE, rows, all_or_none)

    def write(self, op: Op, rows: Rows, all_or_none: bool = False) -> Written:
        """Write rows by one op.

        Raises
        ------
        RowsRefused
            Some rows were refused.
        UnknownColumn, InvalidText, NumericOutOfRange, DataError, InterfaceError
            Something that was given is no row of the table; the pieces of 65,536 rows before it stay written.
        """
        session = self._connection.session
        session.refuse_writes("a write")
        self._require(*RIGHTS_OF_OPS[op])
        if is_row(rows):
            if session.is_transactional:
                with session.turn():
                    return write_one_row(session.store, self._table, op, rows, all_or_none)
            written = write_one_row(self._connection.store, self._table, op, rows, all_or_none)
            if written.applied:
                session.note_write(written.timestamp)
            return written
        applied = 0
        try:
            with session.turn(), session.cancellable(threading.Event()) as cancel:
                written = write_rows(self._connection.store, self._table, op, rows, all_or_none, cancel)
            applied = written.applied
            return written
        except RowsRefused as error:
            applied = error.applied
            raise
        finally:
            if applied:
                session.note_write()

    # ---- reading -------------------------------------------------------------------------------------------------

    def get(self, key: Any, columns: Sequence[str] | None = None, as_of: Moment | None = None) -> dict[str, Any] | None:
        """Look up one row by its primary key; None where there is no such row.

        It sees every write that was acknowledged before the call. Far quicker than a scan of one row.

        Parameters
        ----------
        key : tuple, dict, dataclass, or value
            The whole primary key: a tuple in key order, a row by column names (other columns may be there), or the bare
            value where the key is one column.
        columns : sequence of str, optional
            What the dict holds, in its order; all columns by default.
        as_of : datetime, str or int, optional
            The moment, as for `scan`.

        Raises
        ------
        InterfaceError, NotNullViolation, InvalidText, NumericOutOfRange, TypeMismatch
            What was given is no key of the table.
        UnknownColumn
            There is no column of that name.
        HistoryGone, DataError
            The store does not keep the past for so long; the moment lies in the future.

        Examples
        --------
        >>> import nyala
        >>> connection = nyala.connect(":memory:")
        >>> cursor = connection.execute("CREATE TABLE t (k INT PRIMARY KEY, v STRING); INSERT INTO t VALUES (1, 'one')")
        >>> connection.table("t").get(1)
        {'k': 1, 'v': 'one'}
        >>> connection.close()
        """
        values, names, snapshot = self.look_up(key, columns, as_of)
        row = self._connection.store.read_row(self._table, values, names, snapshot)
        return None if row is None else dict(zip(names, row))

    def look_up(
        self, key: Any, columns: Sequence[str] | None, as_of: Moment | None
    ) -> tuple[tuple[Any, ...], list[str], Timestamp | None]:
        """Returns key, columns and timestamp (None: the latest) of `get` for `Store.read_row`."""
        self._require(Right.SELECT)
        names = self._projection(columns)
        snapshot = self._connection.session.moment if as_of is None else self._time(as_of)
        return key_of(self._table, key), names, snapshot

    def scan(
        self,
        columns: Sequence[str] | None = None,
        predicates: Predicates = None,
        as_of: Moment | None = None,
        limit: int | None = None,
        ordered: bool = False,
        batch_rows: int | None = None,
    ) -> Scan:
        """Read rows at one snapshot.

        Parameters
        ----------
        columns : sequence of str, optional
            The projection, in its order; all columns by default.
        predicates : condition, tuple, or list of these, optional
            All must hold: `col("x") >= 3`, `("x", ">=", 3)`.
        as_of : datetime, str or int, optional
            The timestamp, as in FOR SYSTEM_TIME AS OF (int: hybrid time, exact); now by default.
        limit : int, optional
            Limit of rows.
        ordered : bool
            Rows ascend by primary key.
        batch_rows : int, optional
            Limit of rows in a batch.

        Raises
        ------
        UnknownColumn, TypeMismatch, InterfaceError
            The scan is invalid.
        HistoryGone, DataError
            The history was removed; the timestamp is in the future.
        """
        self._require(Right.SELECT)
        names, found = self._projection(columns), self._predicates(predicates)
        return scan_of(
            lambda: self._connection.store,
            self._table,
            names,
            found,
            self._time(as_of),
            limit=limit,
            ordered=ordered,
            batch_rows=batch_rows,
        )

    def scan_tokens(
        self,
        columns: Sequence[str] | None = None,
        predicates: Predicates = None,
        as_of: Moment | None = None,
        limit: int | None = None,
        ordered: bool = False,
        split_size_bytes: int | None = None,
    ) -> list[ScanToken]:
        """The same scan in parts that can be sent to other processes: one for each tablet, or several of about
        `split_size_bytes` on disk.

        `limit` and `ordered` hold for each part by itself; the parts of one tablet ascend by key. The other parameters
        and the errors are those of `scan`.
        """
        self._require(Right.SELECT)
        names, found = self._projection(columns), self._predicates(predicates)
        return scan_tokens(
            self._connection.store,
            self._table,
            names,
            found,
            self._time(as_of),
            limit=limit,
            ordered=ordered,
            split_size_bytes=split_size_bytes,
        )

    def changes(
        self,
        since: Moment,
        until: Moment | None = None,
        columns: Sequence[str] | None = None,
        predicates: Predicates = None,
        net: bool = False,
        batch_rows: int | None = None,
    ) -> Changes:
        """Returns the changes of rows after `since` and up to `until` (now by default); see `tables.table_changes`.

        With `net`, one row for each key whose state differs. `Changes.until` is the `since` of the next call. `columns`
        are by default all, the hidden one of a key that is not unique included.
        """
        self._require(Right.SELECT)
        names = list(self._table.schema.by_name) if columns is None else self._projection(columns)
        return changes_of(
            lambda: self._connection.store,
            self._table,
            names,
            self._predicates(predicates),
            self._time(since),
            self._time(until),
            net=net,
            batch_rows=batch_rows,
        )

    def count(self, predicates: Predicates = None, as_of: Moment | None = None) -> int:
        """Number of rows that satisfy the predicates."""
        with self.scan(list(self.key[:1]), predicates, as_of) as scan:
            return scan.count()

    def _require(self, *rights: Right) -> None:
        """Raises `PermissionDenied` unless the session has these rights on the table."""
        require(self._connection.session, self._table, *rights)

    def _time(self, as_of: Moment | None) -> Timestamp:
        now = self._connection.store.now()
        if as_of is not None:
            return hybrid_time(as_of, now)
        moment = self._connection.session.moment
        return now if moment is None else moment

    def _projection(self, columns: Sequence[str] | None) -> list[str]:
        if columns is None:
            return [column.name for column in self.columns]
        names = [columns] if isinstance(columns, str) else list(columns)
        if names == self._known:
            return names
        self._check_columns(names)
        if not names or len(set(names)) < len(names):
            what = "at least one column; count() counts rows" if not names else "each column once"
            raise InterfaceError(f"a scan of table {self.name} names {what}")
        self._known = names.copy()
        return names

    def _check_columns(self, names: Sequence[str]) -> None:
        for name in names:
            if name not in self._table.schema:
                hint = did_you_mean(str(name), self._table.schema.names, f"table {self.name} has")
                raise UnknownColumn(f"column {name} does not exist in table {self.name}{hint}")

    def _predicates(self, predicates: Predicates) -> tuple[ColumnPredicate, ...]:
        return bound_predicates(self.name, self._table.schema.by_name, predicates)
