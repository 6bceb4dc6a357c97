"""Single rows on asyncio event loops: `steps` of look-ups and writes, with calls that are awaited.

    driver.aio ─► AwaitedRows ─► SingleRows.reading, writing ─► Send ─► LoopChannels of the running loop
                                                             ─► Pause ─► asyncio.sleep
                                                             ─► Work ─► a thread of the connection

A task that is cancelled abandons its call: a write is then applied as a whole or not at all, and not sent again.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Protocol, TypeVar

from ...errors import Error
from ...model.awaited_rows import InThread
from ...model.schema import Table
from ...model.store import Op, Timestamp, WriteResult
from ...model.waiting_time import WaitingTime, within
from ..wire.calls.loop_channels import LoopChannels
from ..wire.messages.methods import Request
from .client_context import ClientContext
from .speculative_reads import Backup
from .steps import Pause, Send, Steps
from .writes.single_rows import SingleRows

T = TypeVar("T")


class LoopChannelsLike(Protocol):
    """`wire.calls.loop_channels.LoopChannels`, as far as rows need it."""

    async def attach(self) -> None:
        """Prepares them for the running loop."""

    def call(self, address: str, request: Request, timeout: float) -> Awaitable[Any]:
        """Calls a server; the reply is awaited."""

    def close(self) -> None:
        """Closes all channels; from any thread."""


class AwaitedRows:
    """Implements `model.awaited_rows.AwaitedRows`. Each event loop has connections of its own.

    Parameters
    ----------
    check : callable
        Called before each operation; raises if the client is closed.
    make_channels : callable, optional
        Makes the channels of a loop; for tests.
    """

    def __init__(
        self,
        shared: ClientContext,
        rows: SingleRows,
        check: Callable[[], None],
        make_channels: Callable[[], LoopChannelsLike] | None = None,
    ):
        self._rows = rows
        self._check = check
        self._make = make_channels or (lambda: LoopChannels(shared.channels, shared.pool))
        self._lock = threading.Lock()
        self._channels: dict[asyncio.AbstractEventLoop, LoopChannelsLike] = {}

    async def read_row(
        self,
        table: Table,
        key: Sequence[Any],
        columns: Sequence[str],
        snapshot: Timestamp | None,
        in_thread: InThread,
    ) -> tuple[Any, ...] | None:
        """See `model.awaited_rows.AwaitedRows.read_row`."""
        self._check()
        waiting = WaitingTime()
        steps = self._rows.reading(table, key, columns, snapshot, waiting)
        channels = self._channels.get(asyncio.get_running_loop()) or await self._attached()
        return await perform_awaiting(steps, channels, in_thread, waiting)

    async def write_row(self, table: Table, op: Op, row: Mapping[str, Any], in_thread: InThread) -> WriteResult:
        """See `model.awaited_rows.AwaitedRows.write_row`."""
        self._check()
        waiting = WaitingTime()
        steps = self._rows.writing(table, op, row, waiting=waiting)
        channels = self._channels.get(asyncio.get_running_loop()) or await self._attached()
        return await perform_awaiting(steps, channels, in_thread, waiting)

    async def _attached(self) -> LoopChannelsLike:
        """Makes the channels of the running loop."""
        loop = asyncio.get_running_loop()
        channels = self._make()
        with self._lock:
            for other in [other for other in self._channels if other.is_closed()]:
                del self._channels[other]
            self._channels[loop] = channels
        await channels.attach()
        return channels

    def close(self) -> None:
        """Closes the connections of all loops; from any thread."""
        with self._lock:
            channels = list(self._channels.values())
        for one in channels:
            one.close()


async def perform_awaiting(steps: Steps[T], channels: LoopChannelsLike, in_thread: InThread, waiting: WaitingTime) -> T:
    """Takes the steps of one statement on an event loop, as `steps.perform` does in a thread."""
    try:
        step = next(steps)
        while True:
            try:
                result: Any = None
                if type(step) is Send:
                    if step.backup is None:
                        result = await channels.call(step.address, step.request, step.timeout)
                    else:
                        result = await _raced(step, step.backup, channels)
                elif type(step) is Pause:
                    await asyncio.sleep(step.seconds)
                else:
                    result = await in_thread(_within(waiting, step.function))  # type: ignore[union-attr]
            except BaseException as error:
                step = steps.throw(error)
            else:
                step = steps.send(result)
    except StopIteration as end:
        return end.value  # type: ignore[no-any-return]


def _within(waiting: WaitingTime, function: Callable[[], T]) -> Callable[[], T]:
    """Returns the function as part of a statement."""

    def work() -> T:
        with within(waiting):
            return function()

    return work


async def _raced(step: Send, backup: Backup, channels: LoopChannelsLike) -> Any:
    """As `steps.perform` does it: returns the first reply of two calls, and cancels the other."""
    first = asyncio.ensure_future(channels.call(step.address, step.request, step.timeout))
    calls = {first}
    try:
        for seconds, reserve in backup.stages:
            await asyncio.wait(calls, timeout=seconds)
            if first.done():
                return await first
            if backup.is_allowed(reserve):
                break
        else:
            return await first
        second = asyncio.ensure_future(channels.call(backup.address, backup.request, step.timeout))
        calls.add(second)
        await asyncio.wait(calls, return_when=asyncio.FIRST_COMPLETED)
        if not first.done() or first.exception() is not None:
            with contextlib.suppress(Error):
                reply = await second
                backup.has_won = True
                return reply
        return await first
    finally:
        for call in calls:
            call.cancel()
            call.add_done_callback(_retrieve)


def _retrieve(call: asyncio.Future[Any]) -> None:
    """Takes the error of a call that lost, so that asyncio does not log it."""
    if not call.cancelled():
        call.exception()
