"""Tables without SQL for asyncio: `AsyncConnection.table`.

Single rows of a cluster or a served directory are calls that the loop awaits, any number of them at a time on one
connection (`async_calls.RowCalls`). All else, and single rows of a store that this process has open or that belong to a
transaction, run in a thread of the connection.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from ..model.store import Op
from .async_calls import RowCalls, Threads
from .connection import Connection
from .tables.conditions import Predicates
from .tables.given_rows import Rows, cells_of, is_row
from .tables.row_writes import Written, written_row
from .tables.table_handle import TableHandle
from .tables.timestamps import Moment

if TYPE_CHECKING:
    import pyarrow as pa

T = TypeVar("T")


class AsyncTable:
    """A `TableHandle` for asyncio. Tasks may share it."""

    def __init__(self, connection: Connection, handle: TableHandle, threads: Threads, calls: RowCalls | None):
        self._connection = connection
        self._handle = handle
        self._threads = threads
        self._calls = calls

    @property
    def handle(self) -> TableHandle:
        """The table below, which waits; its definition, columns and key."""
        return self._handle

    @property
    def name(self) -> str:
        """As `TableHandle.name`."""
        return self._handle.name

    async def get(
        self, key: Any, columns: Sequence[str] | None = None, as_of: Moment | None = None
    ) -> dict[str, Any] | None:
        """As `TableHandle.get`."""
        calls = self._own_calls()
        if calls is None:
            return await self._threads.run(partial(self._handle.get, key, columns, as_of))
        values, names, snapshot = self._handle.look_up(key, columns, as_of)
        row = await calls.read(self, self._handle.definition, values, names, snapshot)
        return None if row is None else dict(zip(names, row))

    async def insert(self, rows: Rows, all_or_none: bool = False) -> Written:
        """As `TableHandle.insert`."""
        return await self.write(Op.INSERT, rows, all_or_none)

    async def insert_ignore(self, rows: Rows, all_or_none: bool = False) -> Written:
        """As `TableHandle.insert_ignore`."""
        return await self.write(Op.INSERT_IGNORE, rows, all_or_none)

    async def upsert(self, rows: Rows, all_or_none: bool = False) -> Written:
        """As `TableHandle.upsert`."""
        return await self.write(Op.UPSERT, rows, all_or_none)

    async def update(self, rows: Rows, all_or_none: bool = False) -> Written:
        """As `TableHandle.update`."""
        return await self.write(Op.UPDATE, rows, all_or_none)

    async def update_ignore(self, rows: Rows, all_or_none: bool = False) -> Written:
        """As `TableHandle.update_ignore`."""
        return await self.write(Op.UPDATE_IGNORE, rows, all_or_none)

    async def delete(self, rows: Rows, all_or_none: bool = False) -> Written:
        """As `TableHandle.delete`."""
        return await self.write(Op.DELETE, rows, all_or_none)

    async def delete_ignore(self, rows: Rows, all_or_none: bool = False) -> Written:
        """As `TableHandle.delete_ignore`."""
        return await self.write(Op.DELETE_IGNORE, rows, all_or_none)

    async def write(self, op: Op, rows: Rows, all_or_none: bool = False) -> Written:
        """As `TableHandle.write`. A task that is cancelled abandons the write of a single row."""
        calls = self._own_calls() if is_row(rows) else None
        if calls is None:
            return await self._threads.run(partial(self._handle.write, op, rows, all_or_none))
        session, table = self._connection.session, self._handle.definition
        session.refuse_writes("a write")
        cells = cells_of(table, op, rows)
        written = written_row(table, cells, await calls.write(self, table, op, cells), all_or_none)
        if written.applied:
            session.note_write(written.timestamp)
        return written

    async def to_arrow(
        self,
        columns: Sequence[str] | None = None,
        predicates: Predicates = None,
        as_of: Moment | None = None,
        limit: int | None = None,
        ordered: bool = False,
    ) -> pa.Table:
        """The rows of `TableHandle.scan`, as one Arrow table."""
        return await self._threads.run(
            lambda: self._handle.scan(columns, predicates, as_of, limit=limit, ordered=ordered).to_arrow()
        )

    async def count(self, predicates: Predicates = None, as_of: Moment | None = None) -> int:
        """As `TableHandle.count`."""
        return await self._threads.run(partial(self._handle.count, predicates, as_of))

    async def run(self, work: Callable[[TableHandle], T]) -> T:
        """Call a function with the table below in a thread, for all that is not here."""
        return await self._threads.run(partial(work, self._handle))

    def _own_calls(self) -> RowCalls | None:
        """Returns the calls that the loop awaits; None in a transaction, whose own rows come first."""
        return None if self._connection.session.is_transactional else self._calls
