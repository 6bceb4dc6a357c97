"""The driver for asyncio: `nyala.aio.connect`, with connections and cursors as PEP 249's, awaited.

    event loop    ──► AsyncCursor.execute ──► a thread of the connection ──► Cursor.execute
    task cancelled ─► Cursor.cancel       ──► the statement ends at its next batch, then the task does

Each connection has some threads of its own, in which its statements are parsed and planned, wait for their results and
write; the loop never does. One statement occupies one of them (its parallel work is done by the executor's pool), so
`workers` statements run at once, and others wait for a free thread. A cursor runs one call at a time, in the order of
the calls.

Statements on one row by its key, of a cluster or a served directory, need no thread once their text is known: the loop
awaits the reply of the server (`async_calls.RowCalls`), with any number of them in progress.

>>> import asyncio
>>> async def main():
...     async with connect(":memory:") as connection:
...         await connection.execute("CREATE TABLE t (k INT PRIMARY KEY); INSERT INTO t VALUES (1), (2)")
...         async with await connection.execute("SELECT k FROM t ORDER BY k") as cursor:
...             return [row async for row in cursor]
>>> asyncio.run(main())
[(1,), (2,)]
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Iterable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar, Unpack

from ..errors import InterfaceError
from ..executor.run.progress import Handler
from ..executor.statements.single_rows import RowRead
from ..model.awaited_rows import awaited_rows_of
from .async_calls import RowCalls, Threads
from .async_table import AsyncTable
from .connect_options import ConnectOptions
from .connection import Connection
from .connection import connect as connect_now
from .cursor import Cursor, Description, Row
from .session.bind_values import Parameters, normalize
from .session.executions import RowExecution
from .session.session import ALTERED
from .stores.bulk_loads import Source
from .tables.timestamps import Moment
from .transaction_blocks import RETRIES, RETRYABLE, TransactionBlock, check_retries, note_attempts, sleep_before

if TYPE_CHECKING:
    import pyarrow as pa

    from ..model.store import Timestamp

T = TypeVar("T")

WORKERS = 8
"""Default number of threads per connection, and so of concurrent statements."""


def connect(
    target: str | Path = ":memory:", *, workers: int = WORKERS, **options: Unpack[ConnectOptions]
) -> Connecting:
    """Open a store: `await connect(...)`, or `async with connect(...) as connection`, which closes it.

    Parameters
    ----------
    target, **options
        As for `nyala.connect`.
    workers : int
        How many statements of the connection run at once.
    """
    if not isinstance(workers, int) or isinstance(workers, bool) or workers < 1:
        raise InterfaceError(f"workers={workers!r}: a whole number of at least 1 is needed")
    return Connecting(partial(connect_now, target, **options), workers)


class Connecting:
    """A connection to be: awaited, or entered."""

    def __init__(self, make: Callable[[], Connection], workers: int):
        self._make = make
        self._workers = workers
        self._connection: AsyncConnection | None = None

    def __await__(self) -> Generator[Any, None, AsyncConnection]:
        return self._open().__await__()

    async def _open(self) -> AsyncConnection:
        threads = Threads(self._workers)
        try:
            connection = await threads.run(self._make, late=Connection.close)
        except BaseException:
            threads.close()
            raise
        return AsyncConnection(connection, threads)

    async def __aenter__(self) -> AsyncConnection:
        self._connection = await self._open()
        return self._connection

    async def __aexit__(self, *exc: object) -> None:
        if self._connection is not None:
            await self._connection.close()


class AsyncConnection:
    """A `Connection` for asyncio. Tasks share it; each uses cursors of its own.

    What the connection can do without waiting is no coroutine: `cursor`, `cancel`, `last_timestamp`. Leaving it as a
    context manager commits an open transaction, or rolls it back after an exception.
    """

    def __init__(self, connection: Connection, threads: Threads):
        self._connection = connection
        self._threads = threads
        rows = awaited_rows_of(connection.session.store)
        self._calls = None if rows is None else RowCalls(rows, threads)

    @property
    def connection(self) -> Connection:
        """The connection below, which waits."""
        return self._connection

    async def table(self, name: str) -> AsyncTable:
        """As `Connection.table`."""
        handle = await self._threads.run(partial(self._connection.table, name))
        return AsyncTable(self._connection, handle, self._threads, self._calls)

    @property
    def last_timestamp(self) -> Timestamp | None:
        """As `Connection.last_timestamp`."""
        return self._connection.last_timestamp

    def now(self) -> Timestamp:
        """As `Connection.now`."""
        return self._connection.now()

    def observe(self, token: int) -> None:
        """As `Connection.observe`."""
        self._connection.observe(token)

    @property
    def autocommit(self) -> bool:
        """As `Connection.autocommit`; `set_autocommit` changes it."""
        return self._connection.autocommit

    @property
    def in_transaction(self) -> bool:
        """As `Connection.in_transaction`."""
        return self._connection.in_transaction

    @property
    def isolation_level(self) -> str:
        """As `Connection.isolation_level`."""
        return self._connection.isolation_level

    @isolation_level.setter
    def isolation_level(self, value: str | None) -> None:
        self._connection.isolation_level = value

    async def set_autocommit(self, value: bool) -> None:
        """Set `autocommit`, which commits an open transaction if the value is True."""
        await self._threads.run(partial(setattr, self._connection, "autocommit", value))

    def cursor(self) -> AsyncCursor:
        """A new cursor."""
        return AsyncCursor(self, self._connection.cursor(), self._threads, self._calls)

    async def execute(self, operation: str, parameters: Parameters | None = None) -> AsyncCursor:
        """`cursor().execute(...)`."""
        return await self.cursor().execute(operation, parameters)

    async def executemany(self, operation: str, seq_of_parameters: Iterable[Parameters]) -> AsyncCursor:
        """`cursor().executemany(...)`."""
        return await self.cursor().executemany(operation, seq_of_parameters)

    async def load(self, table: str, source: Source, progress: Callable[[int], None] | None = None) -> int:
        """As `Connection.load`; `progress` is called in a thread. A task that is cancelled ends its load only."""
        cancel = threading.Event()
        return await self._threads.run(partial(self._connection.load, table, source, progress, cancel), cancel.set)

    async def at(self, moment: Moment) -> AsyncConnection:
        """As `Connection.at`; the new connection is closed separately."""
        threads = Threads(self._threads.workers)
        try:
            return AsyncConnection(
                await self._threads.run(partial(self._connection.at, moment), late=Connection.close), threads
            )
        except BaseException:
            threads.close()
            raise

    def set_progress_handler(self, handler: Handler | None) -> None:
        """As `Connection.set_progress_handler`: it is called in the threads that make the progress."""
        self._connection.set_progress_handler(handler)

    def cancel(self) -> None:
        """Cancel every statement and load of this connection; their awaits raise `Cancelled`."""
        self._connection.cancel()
        if self._calls is not None:
            self._calls.cancel()

    async def commit(self) -> None:
        """As `Connection.commit`. A task that is cancelled waits for the outcome."""
        await self._threads.run(self._connection.commit)

    async def rollback(self) -> None:
        """As `Connection.rollback`."""
        await self._threads.run(self._connection.rollback)

    async def begin(self, isolation_level: str | None = None, read_only: bool = False) -> None:
        """As `Connection.begin`. Tasks that share the connection share its transaction."""
        await self._threads.run(partial(self._connection.begin, isolation_level, read_only))

    def transaction(self, isolation_level: str | None = None, read_only: bool = False) -> AsyncTransactionBlock:
        """As `Connection.transaction`: `async with connection.transaction(): ...`"""
        return AsyncTransactionBlock(self, self._connection.transaction(isolation_level, read_only), self._threads)

    async def run(
        self,
        function: Callable[[AsyncConnection], Awaitable[T]],
        retries: int = RETRIES,
        isolation_level: str | None = None,
        read_only: bool = False,
    ) -> T:
        """As `Connection.run`, with a coroutine function."""
        self._connection.check_open()
        check_retries(self._connection, retries)
        for attempt in range(retries + 1):
            try:
                async with self.transaction(isolation_level, read_only):
                    return await function(self)
            except RETRYABLE as error:
                if attempt == retries:
                    note_attempts(error, retries)
                    raise
                await asyncio.sleep(sleep_before(attempt))
        raise AssertionError

    async def close(self) -> None:
        """Cancel running statements and release the store. May be repeated."""
        self.cancel()
        closing = Threads(1)  # those of the connection may all be busy
        try:
            await closing.run(self._connection.close)
        finally:
            closing.close()
            self._threads.close()

    async def __aenter__(self) -> AsyncConnection:
        self._connection.check_open()
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *exc: object) -> None:
        try:
            if not self._threads.is_closed and self.in_transaction:
                await (self.commit() if kind is None else self.rollback())
        finally:
            await self.close()


class AsyncTransactionBlock:
    """A `TransactionBlock` for asyncio."""

    def __init__(self, connection: AsyncConnection, block: TransactionBlock[Connection], threads: Threads):
        self._connection = connection
        self._block = block
        self._threads = threads

    async def __aenter__(self) -> AsyncConnection:
        await self._threads.run(self._block.__enter__)
        return self._connection

    async def __aexit__(self, kind: type[BaseException] | None, *exc: object) -> None:
        await self._threads.run(partial(self._block.__exit__, kind, *exc))


class AsyncCursor:
    """A `Cursor` for asyncio: what waits there is awaited here."""

    def __init__(self, connection: AsyncConnection, cursor: Cursor, threads: Threads, calls: RowCalls | None):
        self._owner = connection
        self._cursor = cursor
        self._threads = threads
        self._calls = calls
        self._turn = asyncio.Lock()

    @property
    def connection(self) -> AsyncConnection:
        """The connection of the cursor."""
        return self._owner

    @property
    def description(self) -> Description | None:
        """As `Cursor.description`."""
        return self._cursor.description

    @property
    def rowcount(self) -> int:
        """As `Cursor.rowcount`."""
        return self._cursor.rowcount

    @property
    def rownumber(self) -> int | None:
        """As `Cursor.rownumber`."""
        return self._cursor.rownumber

    @property
    def lastrowid(self) -> None:
        """None."""
        return self._cursor.lastrowid

    @property
    def arraysize(self) -> int:
        """As `Cursor.arraysize`."""
        return self._cursor.arraysize

    @arraysize.setter
    def arraysize(self, size: int) -> None:
        self._cursor.arraysize = size

    async def execute(self, operation: str, parameters: Parameters | None = None) -> AsyncCursor:
        """As `Cursor.execute`. A task that is cancelled takes the statement with it: `Cursor.cancel`."""
        async with self._turn:
            calls = self._calls
            if calls is None or not await self._has_executed_row(calls, operation, parameters):
                await self._threads.run(partial(self._cursor.execute, operation, parameters), self._cursor.cancel)
        return self

    async def _has_executed_row(self, calls: RowCalls, operation: str, parameters: Parameters | None) -> bool:
        """Executes a known statement on one row by a call that the loop awaits; False, with nothing done, for any
        other."""
        if not self._cursor.is_ended:
            return False
        session = self._cursor.begin_statement(operation)
        known = session.known_row(operation, normalize(parameters))
        if known is None:
            return False
        single, values = known
        # After an alteration the statement is bound again, in a thread.
        with contextlib.suppress(*ALTERED):
            if isinstance(single, RowRead):
                row = await calls.read(self, single.table, *single.request(values), session.moment)
                self._cursor.adopt(RowExecution(single, single.result(row, values)))
                return True
            if single.is_blind:
                written = await calls.write(self, single.table, single.op, single.row(values))
                if written.errors:
                    raise written.errors[0].error
                if written.applied:
                    session.note_write(written.timestamp)
                self._cursor.adopt(RowExecution(single, rowcount=written.applied))
                return True
        return False

    async def executemany(self, operation: str, seq_of_parameters: Iterable[Parameters]) -> AsyncCursor:
        """As `Cursor.executemany`; the parameters are taken from the iterable in a thread."""
        await self._run(partial(self._cursor.executemany, operation, seq_of_parameters))
        return self

    async def fetchone(self) -> Row | None:
        """The next row, None after the last one."""
        if (self._cursor.rows_at_hand or self._cursor.is_ended) and not self._turn.locked():
            return self._cursor.fetchone()
        return await self._run(self._cursor.fetchone)

    async def fetchmany(self, size: int | None = None) -> list[Row]:
        """The next `size` rows (`arraysize` by default), fewer at the end."""
        if self._cursor.is_ended and not self._turn.locked():
            return self._cursor.fetchmany(size)
        return await self._run(partial(self._cursor.fetchmany, size))

    async def fetchall(self) -> list[Row]:
        """All rows that are left."""
        if self._cursor.is_ended and not self._turn.locked():
            return self._cursor.fetchall()
        return await self._run(self._cursor.fetchall)

    def __aiter__(self) -> AsyncIterator[Row]:
        return self

    async def __anext__(self) -> Row:
        row = await self.fetchone()
        if row is None:
            raise StopAsyncIteration
        return row

    async def record_batches(self) -> AsyncIterator[pa.RecordBatch]:
        """The remaining rows as Arrow record batches, while they are made; the statement pauses while the caller
        does."""
        batches = self._cursor.record_batches()
        while (batch := await self._run(partial(next, batches, None))) is not None:
            yield batch

    async def arrow(self) -> pa.Table:
        """The rows that are left as one Arrow table."""
        return await self._run(self._cursor.arrow)

    async def df(self, decimals: Literal["float", "exact"] = "float") -> Any:
        """As `Cursor.df`."""
        return await self._run(partial(self._cursor.df, decimals))

    def cancel(self) -> None:
        """Cancel what this cursor runs; its await raises `Cancelled`."""
        self._cursor.cancel()
        if self._calls is not None:
            self._calls.cancel(self)

    def setinputsizes(self, sizes: Any) -> None:
        """No effect (the method is part of PEP 249)."""

    def setoutputsize(self, size: int, column: int | None = None) -> None:
        """No effect (the method is part of PEP 249)."""

    async def close(self) -> None:
        """End the statement that runs, if any; the cursor is of no use afterwards. May be repeated."""
        self.cancel()
        async with self._turn:
            if self._threads.is_closed or self._cursor.is_ended:
                self._cursor.close()  # a closed connection has ended its statement
            else:
                await self._threads.run(self._cursor.close)

    async def __aenter__(self) -> AsyncCursor:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.close()

    async def _run(self, work: Callable[[], T]) -> T:
        async with self._turn:
            return await self._threads.run(work, self._cursor.cancel)
