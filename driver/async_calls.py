"""Calls that the event loop awaits: work in threads of a connection, and rows of servers without a thread.

    Threads        any work, in one of the connection's threads; a task that is cancelled waits for its end
    RowCalls       look-ups and writes of single rows, on the loop's own connections (`model.awaited_rows`)

A row call whose task is cancelled is abandoned at once: a write is applied as a whole or not at all.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, TypeVar

from ..errors import Cancelled, InterfaceError
from ..model.awaited_rows import AwaitedRows
from ..model.forks import stay_with_process
from ..model.schema import Table
from ..model.store import Op, Timestamp, WriteResult

T = TypeVar("T")
_AGAIN_SECONDS: Final = 0.05


class Threads:
    """Threads that run a connection's statements."""

    def __init__(self, workers: int):
        self.workers = workers
        self._pool = ThreadPoolExecutor(workers, "nyala-aio")
        self.is_closed = False
        stay_with_process(self)

    async def run(
        self, work: Callable[[], T], cancel: Callable[[], None] | None = None, late: Callable[[T], None] | None = None
    ) -> T:
        """Run the work in a thread. If the task is cancelled, `cancel` is called, and the task ends when the thread is
        done, so no work continues after it. `late` receives a result that arrives after the cancellation."""
        if self.is_closed:
            raise InterfaceError("the connection is closed")
        job = self._pool.submit(work)
        future = asyncio.wrap_future(job)
        try:
            return await asyncio.shield(future)
        except asyncio.CancelledError:
            if job.cancel():
                raise  # it had not begun
            await _ended(future, cancel)
            if late is not None and future.exception() is None:
                late(future.result())
            raise
        finally:
            # An error refers to this frame, and the futures to the error: a cycle that keeps the statement's rows.
            del job, future

    def close(self) -> None:
        """Take no more work."""
        self.is_closed = True
        self._pool.shutdown(wait=False)


async def _ended(future: asyncio.Future[Any], cancel: Callable[[], None] | None) -> None:
    """Cancel, and wait for the end in any case, even if the task is cancelled again."""
    while not future.done():
        if cancel is not None:
            cancel()  # again and again: the thread may not have come as far as to what is cancelled
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.wait([future], timeout=None if cancel is None else _AGAIN_SECONDS)
    if not future.cancelled():
        future.exception()  # retrieved, so that asyncio does not log it as unretrieved


class _Call:
    """A row call in progress: its task, and the cursor or table that makes it."""

    __slots__ = ("is_cancelled", "owner", "task")

    def __init__(self, task: asyncio.Task[Any], owner: object):
        self.task = task
        self.owner = owner
        self.is_cancelled = False


class RowCalls:
    """The row calls of one connection. For tasks of any loop.

    Parameters
    ----------
    rows : AwaitedRows
    threads : Threads
        For the rare operations of a call that may wait otherwise.
    """

    def __init__(self, rows: AwaitedRows, threads: Threads):
        self._rows = rows
        self._threads = threads
        self._running: dict[_Call, None] = {}
        stay_with_process(self)

    async def read(
        self, owner: object, table: Table, key: Sequence[Any], names: Sequence[str], snapshot: Timestamp | None
    ) -> tuple[Any, ...] | None:
        """As `Store.read_row`."""
        return await self._awaited(owner, self._rows.read_row(table, key, names, snapshot, self._threads.run))

    async def write(self, owner: object, table: Table, op: Op, row: Mapping[str, Any]) -> WriteResult:
        """As `Store.write_row`."""
        return await self._awaited(owner, self._rows.write_row(table, op, row, self._threads.run))

    async def _awaited(self, owner: object, row: Awaitable[T]) -> T:
        task = asyncio.current_task()
        assert task is not None
        before = task.cancelling()
        call = _Call(task, owner)
        self._running[call] = None
        try:
            return await row
        except asyncio.CancelledError:
            if call.is_cancelled and task.uncancel() <= before:
                raise Cancelled("the statement was cancelled") from None
            raise
        finally:
            del self._running[call]

    def cancel(self, owner: object | None = None) -> None:
        """Cancels the calls of a cursor or a table, or all; their awaits raise `Cancelled`. From any thread."""
        for call in list(self._running):
            if owner is None or call.owner is owner:
                with contextlib.suppress(RuntimeError):  # the loop has been closed
                    call.task.get_loop().call_soon_threadsafe(self._cancel, call)

    def _cancel(self, call: _Call) -> None:
        if call in self._running and not call.is_cancelled:
            call.is_cancelled = True
            call.task.cancel()
