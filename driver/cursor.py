"""PEP 249's Cursor, with Arrow beside the rows."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, SupportsIndex, TypeAlias

import pyarrow as pa

from ..errors import InterfaceError, NotSupportedError
from .bulk import insert_rows
from .parameters import Parameters, normalize
from .session import Execution, arrow_rows

if TYPE_CHECKING:
    from ..sql.expressions import Column
    from ..storage.types import DataType
    from .connection import Connection

Row: TypeAlias = tuple[Any, ...]
Description: TypeAlias = "tuple[tuple[str, DataType, None, None, int | None, int | None, bool], ...]"


class Cursor:
    """Executes statements and hands out their rows; made by `Connection.cursor`.

    Attributes
    ----------
    description : tuple of 7-tuples, or None
        Per result column (name, type code, None, None, precision, scale, null_ok); None without a result set. The type
        code is a `DataType`, equal to the PEP 249 type object of its family.
    rowcount : int
        Rows that the last statement changed; for a result set -1 until its last row is fetched, then its row count.
    arraysize : int
        How many rows `fetchmany` gives by default.

    Notes
    -----
    Rows are made while they are fetched, as of the moment of `execute`: later writes are not among them. One thread at
    a time may use a cursor; any number may use cursors of one connection.
    """

    def __init__(self, connection: Connection):
        self.connection = connection
        self.arraysize = 1
        self.lastrowid: None = None
        """Always None: rows are known by their primary key (PEP 249 asks for the attribute)."""
        self._execution: Execution | None = None
        self._rowcount = -1
        self._closed = False
        self._rows: list[Row] = []
        self._next = 0
        self._batch: pa.RecordBatch | None = None

    # ---- executing --------------------------------------------------------------------------------------------

    def execute(self, operation: str, parameters: Parameters | None = None) -> Cursor:
        """Run a text of one or more statements in order; this cursor, so that `.fetchall()` may follow.

        Parameters
        ----------
        operation : str
            SQL; several statements are separated by `;`. Only the last one's result set is kept, and parameters are
            allowed with one statement only.
        parameters : sequence or mapping, optional
            A sequence for `?` or `$1`, a mapping for `:name`.

        Raises
        ------
        ProgrammingError, DataError, IntegrityError, OperationalError, NotSupportedError
            As in `nyala.errors`. A statement that fails changes nothing; those before it in the text stay done.
        """
        session = self._start(operation)
        self._execution = session.run(operation, normalize(parameters))
        return self

    def executemany(self, operation: str, seq_of_parameters: Sequence[Parameters]) -> Cursor:
        """Run a statement once per item of `seq_of_parameters`; `rowcount` is the sum.

        `INSERT INTO t VALUES (?, ...)` is bound once and written in large batches. Where a row fails, those of earlier
        batches stay written. Result sets are discarded.
        """
        session = self._start(operation)
        if not isinstance(seq_of_parameters, Iterable):
            found = type(seq_of_parameters).__name__
            raise InterfaceError(f"executemany takes a sequence of parameters, not of type {found}")
        rows = [normalize(parameters) for parameters in seq_of_parameters]
        written = insert_rows(session, operation, rows, lambda chunk: self._one_by_one(operation, chunk))
        self._rowcount = written if written is not None else self._one_by_one(operation, rows)
        return self

    def _one_by_one(self, operation: str, rows: Sequence[Any]) -> int:
        total = 0
        for parameters in rows:
            execution = self.connection.session.run(operation, parameters)
            execution.drain()
            total += max(0, execution.rowcount)
        return total

    def _start(self, operation: str) -> Any:
        self._check_open()
        if not isinstance(operation, str):
            raise InterfaceError(f"a statement is a text, not of type {type(operation).__name__}")
        self._discard()
        self._rowcount = -1
        return self.connection.session

    @property
    def description(self) -> Description | None:
        self._check_open()
        if self._execution is None or self._execution.columns is None:
            return None
        return tuple(_describe(column) for column in self._execution.columns)

    @property
    def rowcount(self) -> int:
        return self._rowcount if self._execution is None else self._execution.rowcount

    # ---- rows -------------------------------------------------------------------------------------------------

    def fetchone(self) -> Row | None:
        """The next row, None after the last one."""
        self._check_result()
        if self._next >= len(self._rows) and not self._advance():
            return None
        row = self._rows[self._next]
        self._next += 1
        return row

    def fetchmany(self, size: int | None = None) -> list[Row]:
        """The next `size` rows (`arraysize` by default), fewer at the end."""
        self._check_result()
        wanted = self.arraysize if size is None else size
        if not isinstance(wanted, SupportsIndex):
            raise InterfaceError(f"fetchmany takes a number of rows, not a value of type {type(wanted).__name__}")
        fetched: list[Row] = []
        while len(fetched) < wanted and (self._next < len(self._rows) or self._advance()):
            stop = min(len(self._rows), self._next + wanted - len(fetched))
            fetched += self._rows[self._next : stop]
            self._next = stop
        return fetched

    def fetchall(self) -> list[Row]:
        """All rows that are left."""
        self._check_result()
        fetched = self._rows[self._next :]
        self._next = len(self._rows)
        while self._advance():
            fetched += self._rows
            self._next = len(self._rows)
        return fetched

    def __iter__(self) -> Iterator[Row]:
        return self

    def __next__(self) -> Row:
        row = self.fetchone()
        if row is None:
            raise StopIteration
        return row

    def _advance(self) -> bool:
        """Take the next batch that has rows; False at the end."""
        found = self._check_result().next_rows()
        self._next = 0
        self._rows, self._batch = ([], None) if found is None else found
        return found is not None

    def _pull(self) -> pa.RecordBatch | None:
        execution = self._check_result()
        while (batch := execution.next_batch()) is not None:
            if batch.num_rows:
                return batch
        return None

    # ---- Arrow ------------------------------------------------------------------------------------------------

    def record_batches(self) -> Iterator[pa.RecordBatch]:
        """The rows that are left as Arrow record batches, while they are made."""
        self._check_result()
        return self._rest()

    def _rest(self) -> Iterator[pa.RecordBatch]:
        if self._next < len(self._rows):
            batch = self._batch
            if batch is None:
                batch = arrow_rows(self._rows, self._check_result().columns or ())
            rest = batch.slice(self._next)
            self._rows, self._next, self._batch = [], 0, None
            yield rest
        while (batch := self._pull()) is not None:
            yield batch

    def arrow(self) -> pa.Table:
        """The rows that are left as one Arrow table."""
        columns = self._check_result().columns
        assert columns is not None
        batches = list(self.record_batches())
        if batches:
            return pa.Table.from_batches(batches)
        return pa.schema([pa.field(c.name, c.type.arrow, c.nullable) for c in columns]).empty_table()

    def df(self) -> Any:
        """The rows that are left as a pandas DataFrame; `NotSupportedError` where pandas is not installed."""
        if importlib.util.find_spec("pandas") is None:
            raise NotSupportedError("df() needs pandas, which is not installed; arrow() gives an Arrow table")
        return self.arrow().to_pandas()

    # ---- life -------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """End the statement that runs, if any; the cursor is of no use afterwards. May be repeated."""
        if not self._closed:
            self._discard()
            self._closed = True

    def setinputsizes(self, sizes: Sequence[Any]) -> None:
        """Nothing: types come from the statement (PEP 249 asks for the method)."""

    def setoutputsize(self, size: int, column: int | None = None) -> None:
        """Nothing: values are never cut (PEP 249 asks for the method)."""

    def __enter__(self) -> Cursor:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def _discard(self) -> None:
        execution, self._execution = self._execution, None
        self._rows, self._next, self._batch = [], 0, None
        if execution is not None:
            execution.close()

    def _check_open(self) -> None:
        if self._closed:
            raise InterfaceError("the cursor is closed")
        self.connection.check_open()

    def _check_result(self) -> Execution:
        self._check_open()
        if self._execution is None or self._execution.columns is None:
            raise InterfaceError("there is no result set: execute a query first")
        return self._execution


def _describe(column: Column) -> tuple[str, DataType, None, None, int | None, int | None, bool]:
    return (column.name, column.type, None, None, column.type.precision, column.type.scale, column.nullable)
