"""PEP 249's Cursor, with Arrow in addition to rows.

>>> import nyala, pyarrow as pa
>>> connection = nyala.connect(":memory:")
>>> pa.table(connection.execute("SELECT n FROM generate_series(1, 3) AS g(n)")).column("n").to_pylist()
[1, 2, 3]
>>> connection.close()
"""

from __future__ import annotations

import importlib.util
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, Protocol, SupportsIndex, TypeAlias

import pyarrow as pa

from ..errors import InterfaceError, NotSupportedError
from ..model.forks import check_process, is_inherited
from .notebook import SHOWN_ROWS, html_table
from .open_connection import OpenConnection
from .session.bind_values import Parameters, normalize, normalize_rows
from .session.executions import EndedExecution, Execution, Halt, arrow_rows, raise_if

if TYPE_CHECKING:
    from ..model.types import DataType
    from .session.session import Session

Row: TypeAlias = tuple[Any, ...]
Description: TypeAlias = "tuple[tuple[str, DataType, None, None, int | None, int | None, bool], ...]"


class DBAPIConnection(OpenConnection, Protocol):
    """The connection of a cursor, with the methods of PEP 249."""

    def close(self) -> None:
        """See `driver.connection.Connection.close`."""

    def commit(self) -> None:
        """See `driver.connection.Connection.commit`."""

    def rollback(self) -> None:
        """See `driver.connection.Connection.rollback`."""

    def cursor(self) -> Cursor:
        """A new cursor."""


class Cursor:
    """Executes statements and hands out their rows; made by `Connection.cursor`.

    Attributes
    ----------
    connection : Connection
        The connection that made it.
    description : tuple of 7-tuples, or None
        Per result column (name, type code, None, None, precision, scale, null_ok); None without a result set. The type
        code is a `DataType`, equal to the PEP 249 type object of its family.
    rowcount : int
        Rows that the last statement changed; for a result set -1 until its last row is fetched, then its row count.
    arraysize : int
        How many rows `fetchmany` gives by default.

    Notes
    -----
    Rows are made while they are fetched, as of the moment of `execute`: later writes are not among them. A reader that
    pauses stops the statement after some batches. One thread at a time may use a cursor (`cancel` aside); any number
    may use cursors of one connection.

    Whatever reads Arrow streams (pyarrow, pandas, polars, DuckDB) takes a cursor for its rows, without copies.
    """

    def __init__(self, connection: DBAPIConnection):
        self.connection = connection
        self.arraysize = 1
        self.lastrowid: None = None
        """Always None: rows are identified by their primary key (the attribute is part of PEP 249)."""
        self._execution: Execution | None = None
        self._halt = Halt()
        self._fetched = 0
        self._rowcount = -1
        self._closed = False
        self._rows: list[Row] = []
        self._next = 0
        self._batch: pa.RecordBatch | None = None

    def __repr__(self) -> str:
        if self._closed:
            return "<nyala.Cursor, closed>"
        if self.description is None:
            return f"<nyala.Cursor without a result, rowcount {self.rowcount}>"
        columns = ", ".join(f"{column[0]} {column[1]}" for column in self.description)
        return f"<nyala.Cursor of ({columns}); .df(), .arrow() and .fetchall() give its rows>"

    def _repr_html_(self) -> str | None:
        """Return the next rows as an HTML table, for notebooks; None where there is no result set.

        The rows are not used up: a fetch returns them afterwards.
        """
        if self._closed or self.description is None:
            return None
        while len(self._rows) - self._next <= SHOWN_ROWS and (found := self._check_result().next_rows()) is not None:
            self._rows, self._next, self._batch = self._rows[self._next :] + found[0], 0, None
        rows = self._rows[self._next : self._next + SHOWN_ROWS + 1]
        names = [column[0] for column in self.description]
        return html_table(names, [str(column[1]) for column in self.description], rows)

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
        session = self.begin_statement(operation)
        self._execution = session.run(operation, normalize(parameters), self._halt)
        return self

    def executemany(self, operation: str, seq_of_parameters: Iterable[Parameters]) -> Cursor:
        """Run a statement once per item of `seq_of_parameters`; `rowcount` is the sum.

        `INSERT INTO t VALUES (?, ...)` is bound once and written in batches of 16,384 rows, each of which is written
        whole or not at all: where a row fails, those of earlier batches stay written. A note of the error names the
        row. Result sets are discarded.
        """
        session = self.begin_statement(operation)
        if not isinstance(seq_of_parameters, Iterable):
            given = type(seq_of_parameters).__name__
            raise InterfaceError(f"executemany takes a sequence of parameters, not of type {given}")
        rows = list(normalize_rows(seq_of_parameters))
        halt = self._halt
        from .session.insert_batches import insert_rows

        with session.watched(halt):
            written = insert_rows(session, operation, rows, partial(raise_if, halt))
            self._rowcount = written if written is not None else self._one_by_one(operation, rows)
        return self

    def _one_by_one(self, operation: str, rows: Sequence[Any]) -> int:
        total = 0
        for parameters in rows:
            raise_if(self._halt)
            execution = self.connection.session.run(operation, parameters, self._halt)
            execution.drain()
            total += max(0, execution.rowcount)
        return total

    def begin_statement(self, operation: str) -> Session:
        """Discard the previous statement, and return the session that runs the next one."""
        self._check_open()
        if not isinstance(operation, str):
            raise InterfaceError(f"a statement is a text, not of type {type(operation).__name__}")
        self._discard()
        self._rowcount = -1
        self._halt = Halt()
        return self.connection.session

    def adopt(self, execution: Execution) -> None:
        """Take a statement that was executed after `begin_statement` without this cursor."""
        self._execution = execution

    @property
    def is_ended(self) -> bool:
        """True if no statement is left to run: neither the next one, nor fetching rows, nor `close` waits."""
        return self._execution is None or isinstance(self._execution, EndedExecution)

    def cancel(self) -> None:
        """Cancel the running statement of this cursor, if any; its caller gets `Cancelled`. From any thread. Other
        cursors of the connection are not affected (`Connection.cancel` is for all)."""
        check_process(self.connection)
        self._halt.set()

    @property
    def description(self) -> Description | None:
        self._check_open()
        if self._execution is None or self._execution.columns is None:
            return None
        return tuple(
            (c.name, c.type, None, None, c.type.precision, c.type.scale, c.nullable) for c in self._execution.columns
        )

    @property
    def rowcount(self) -> int:
        return self._rowcount if self._execution is None else self._execution.rowcount

    @property
    def rownumber(self) -> int | None:
        """Which row the next fetch begins with, counted from 0; None without a result set."""
        return None if self._execution is None or self._execution.columns is None else self._fetched

    @property
    def rows_at_hand(self) -> int:
        """Number of rows that can be fetched without running the statement further."""
        return len(self._rows) - self._next

    # ---- rows -------------------------------------------------------------------------------------------------

    def fetchone(self) -> Row | None:
        """The next row, None after the last one."""
        self._check_result()
        if self._next >= len(self._rows) and not self._advance():
            return None
        row = self._rows[self._next]
        self._next += 1
        self._fetched += 1
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
        self._fetched += len(fetched)
        return fetched

    def fetchall(self) -> list[Row]:
        """All rows that are left."""
        self._check_result()
        fetched = self._rows[self._next :]
        self._next = len(self._rows)
        while self._advance():
            fetched += self._rows
            self._next = len(self._rows)
        self._fetched += len(fetched)
        return fetched

    def __iter__(self) -> Iterator[Row]:
        return self

    def __next__(self) -> Row:
        row = self.fetchone()
        if row is None:
            raise StopIteration
        return row

    next = __next__

    def _advance(self) -> bool:
        """Take the next batch that has rows; False at the end."""
        rows = self._check_result().next_rows()
        self._next = 0
        self._rows, self._batch = ([], None) if rows is None else rows
        return rows is not None

    def _pull(self, execution: Execution) -> pa.RecordBatch | None:
        if self._check_result() is not execution:
            raise InterfaceError("the cursor has executed another statement since; these rows are gone")
        while (batch := execution.next_batch()) is not None:
            if batch.num_rows:
                return batch
        return None

    # ---- Arrow ------------------------------------------------------------------------------------------------

    def record_batches(self) -> Iterator[pa.RecordBatch]:
        """The rows that are left as Arrow record batches, while they are made: in the memory of some batches, however
        many rows there are."""
        return self._rest(self._check_result(), self._schema())

    def _rest(self, execution: Execution, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        if self._check_result() is execution and self._next < len(self._rows):
            batch = self._batch
            if batch is None:
                batch = arrow_rows(self._rows, execution.columns or ())
            rest = batch.slice(self._next)
            self._rows, self._next, self._batch = [], 0, None
            yield self._handed_out(rest, schema)
        while (found := self._pull(execution)) is not None:
            yield self._handed_out(found, schema)

    def _handed_out(self, batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
        self._fetched += batch.num_rows
        return batch if batch.schema == schema else pa.RecordBatch.from_arrays(batch.columns, schema=schema)

    def _schema(self) -> pa.Schema:
        columns = self._check_result().columns
        assert columns is not None
        return pa.schema([pa.field(column.name, column.type.arrow) for column in columns])

    def arrow(self) -> pa.Table:
        """The rows that are left as one Arrow table."""
        schema = self._schema()
        return pa.Table.from_batches(self._rest(self._check_result(), schema), schema)

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """The rows that are left as a stream of Arrow's C interface (a PyCapsule), made while they are read.

        What goes wrong on the way comes out as the reader's own error, with the message of ours.
        """
        schema = self._schema()
        reader = pa.RecordBatchReader.from_batches(schema, self.record_batches())
        return reader.__arrow_c_stream__(requested_schema)

    def df(self, decimals: Literal["float", "exact"] = "float") -> Any:
        """Return the rows that are left as a pandas DataFrame.

        Parameters
        ----------
        decimals : {"float", "exact"}
            "float" (the default): DECIMAL columns, which averages and sums often are, become float64, so that pandas
            plots, describes and computes with them; about 15 digits are kept. "exact": they become columns of
            `decimal.Decimal` objects.

        Dates are Python objects, integers with NULLs become floats: `arrow` keeps all types.

        Raises
        ------
        NotSupportedError
            pandas is not installed.
        """
        if decimals not in ("float", "exact"):
            raise InterfaceError(f"decimals={decimals!r}: there are 'float' and 'exact'")
        if importlib.util.find_spec("pandas") is None:
            raise NotSupportedError("df() needs pandas, which is not installed; arrow() gives an Arrow table")
        table = self.arrow()
        return (table if decimals == "exact" else _with_floats(table)).to_pandas()

    # ---- life -------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """End the statement that runs, if any; the cursor is of no use afterwards. May be repeated."""
        if not self._closed:
            check_process(self.connection)
            self._discard()
            self._closed = True

    def setinputsizes(self, sizes: Sequence[Any]) -> None:
        """No effect: types come from the statement (the method is part of PEP 249)."""

    def setoutputsize(self, size: int, column: int | None = None) -> None:
        """No effect: values are never cut (the method is part of PEP 249)."""

    def __enter__(self) -> Cursor:
        self._check_open()
        return self

    def __exit__(self, *exc: object) -> None:
        if not is_inherited(self.connection):  # or what the forked child's block has raised would be replaced
            self.close()

    def _discard(self) -> None:
        execution, self._execution = self._execution, None
        self._rows, self._next, self._batch, self._fetched = [], 0, None, 0
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


def _with_floats(table: pa.Table) -> pa.Table:
    """The table with float64 in place of each decimal."""
    for place, field in enumerate(table.schema):
        if pa.types.is_decimal(field.type):
            table = table.set_column(place, field.name, table.column(place).cast(pa.float64()))
    return table
