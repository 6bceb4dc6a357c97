"""Channels to servers on an asyncio event loop: calls that are awaited, on connections of the loop.

    LoopChannel.call ─► Channel: envelope, clock, faults ─► net.loop_connection ─► Channel: reply or error

They are made of the channels of the process, which have the caller's identity, the clock and TLS; connections of loops
and of threads are separate. Connecting, which is rare, blocks a thread.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Awaitable
from concurrent.futures import Executor, Future
from typing import Any, Protocol

from .... import errors
from ....model.forks import stay_with_process
from ....net.call_table import copied
from ....net.dialing import Dialed
from ....net.loop_connection import LoopConnection
from ..messages.methods import Request
from .rpc import Channel
from .server_connection import dialed


class _OpenConnection:
    """The open connection of a loop to one server, opened when it is needed and again after it broke."""

    def __init__(self, channel: Channel, executor: Executor):
        self._channel = channel
        self._executor = executor
        self._connection: LoopConnection | None = None
        self._opening: asyncio.Task[LoopConnection] | None = None
        self.is_closed = False

    def ready(self) -> LoopConnection | None:
        """Returns the connection, if it is open."""
        connection = self._connection
        return None if connection is None or connection.is_over else connection

    async def opened(self, timeout: float) -> LoopConnection:
        """Opens it, once for all calls that wait for it."""
        if self._opening is None or self._opening.done():
            self._opening = asyncio.create_task(self._open(timeout))
            # Retrieved, in case that no call waits for it any more.
            self._opening.add_done_callback(lambda task: task.cancelled() or task.exception())
        try:
            async with asyncio.timeout(timeout):
                return await asyncio.shield(self._opening)
        except TimeoutError:
            raise errors.DeadlineExceeded(f"{self._channel.address} has not answered in time") from None
        except errors.Error as error:
            raise copied(error) from None  # several calls may get it

    async def _open(self, timeout: float) -> LoopConnection:
        address = self._channel.address
        job = self._executor.submit(dialed, address, self._channel.tls, timeout)
        try:
            made = await asyncio.wrap_future(job)
        except asyncio.CancelledError:
            job.add_done_callback(_close_unused)
            raise
        connection = LoopConnection(made, address)
        await connection.attach()
        if self.is_closed:
            connection.close()
            raise errors.ServerUnavailable(f"the channel to {address} has been closed")
        self._connection = connection
        return connection

    def close(self) -> None:
        """Closes it; from any thread."""
        self.is_closed = True
        connection = self._connection
        if connection is not None:
            connection.close()


def _close_unused(job: Future[Dialed]) -> None:
    """Closes a connection that was opened for a task that has ended."""
    if not job.cancelled() and job.exception() is None:
        job.result().socket.close()


class LoopChannel:
    """The channel of a loop to one server."""

    def __init__(self, channel: Channel, executor: Executor):
        self._channel = channel
        self._small = _OpenConnection(channel, executor)
        self._large = _OpenConnection(channel, executor)

    async def call(self, request: Request, timeout: float) -> Any:
        """As `Channel.call`."""
        ends = time.monotonic() + timeout
        body = self._channel.packed(request, timeout)
        opened = self._small if self._channel.is_small(request, body) else self._large
        connection = opened.ready()
        if connection is None:
            connection = await opened.opened(timeout)
            timeout = ends - time.monotonic()
        return self._channel.unpacked(request, await connection.call(body, timeout))

    def close(self) -> None:
        """Closes the connections; from any thread."""
        self._small.close()
        self._large.close()


class ChannelSource(Protocol):
    """`rpc.Channels`, as far as loops need it."""

    def get(self, address: str) -> Any:
        """Returns the channel to an address."""


class LoopChannels:
    """The channels of one event loop, one per address.

    Parameters
    ----------
    channels : Channels
        Of the process.
    executor : Executor
        Its threads connect.
    """

    def __init__(self, channels: ChannelSource, executor: Executor):
        self._channels = channels
        self._executor = executor
        self._of: dict[str, LoopChannel] = {}
        self._guard = self._until_shutdown()
        stay_with_process(self)

    async def attach(self) -> None:
        """Has the running loop close the channels when it is shut down, if they are open by then."""
        await anext(self._guard)

    async def _until_shutdown(self) -> AsyncGenerator[None]:
        # `asyncio.run` closes the generators of its loop at the end.
        try:
            yield
        finally:
            self.close()

    def call(self, address: str, request: Request, timeout: float) -> Awaitable[Any]:
        """Calls a server; the reply is awaited."""
        channel = self._of.get(address)
        if channel is None:
            channel = self._of[address] = LoopChannel(self._channels.get(address), self._executor)
        return channel.call(request, timeout)

    def close(self) -> None:
        """Closes all channels; from any thread."""
        for channel in list(self._of.values()):
            channel.close()
