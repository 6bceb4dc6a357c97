"""The client's end of a framed connection on an asyncio event loop: many calls at a time, awaited, without a thread.

    call         a frame into the outbox ─► `transport.write`, once for all calls that begin in one round of the loop
    transport ─► one buffer ─► TLS ─► FrameReader ─► the futures of the calls that are answered

A call that is alone on its connection is written at once: a further round of the loop costs more than its write.
Deadlines are checked by one timer for all calls. A cancelled call is reported to the server and forgotten.

Calls in progress are limited to `MOST_CALLS`, below the limit of a server, which would refuse more; further ones wait
here, first come first served.
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl
import time
from typing import Final

from .. import errors
from ..model.forks import stay_with_process
from .call_table import CallTable, copied, error_text
from .client_connection import SEND_SECONDS
from .dialing import Dialed

CHECK_SECONDS: Final = 0.05
"""Interval of the checks of deadlines, in seconds, while there are calls."""
MOST_CALLS: Final = 128
_RECEIVE_BYTES: Final = 128 << 10


class _LoopCall:
    """A call without a reply yet. `sent` and `ends`: readings of `time.monotonic`."""

    __slots__ = ("ends", "future", "sent")

    def __init__(self, future: asyncio.Future[bytes], sent: float, ends: float):
        self.future = future
        self.sent = sent
        self.ends = ends


class LoopConnection(asyncio.BufferedProtocol):
    """A connection with calls in progress, of one event loop, in whose thread all methods are called.

    Parameters
    ----------
    dialed : Dialed
        See `dialing.dial`.
    address : str
        For errors.
    """

    def __init__(self, dialed: Dialed, address: str):
        self.address = address
        self.welcome = dialed.welcome
        self._socket = dialed.socket
        self._tls = dialed.tls
        self._reader = dialed.reader
        self._buffer = bytearray(_RECEIVE_BYTES)
        self._transport: asyncio.Transport | None = None
        self._loop = asyncio.get_running_loop()
        self._calls: CallTable[_LoopCall] = CallTable()
        self._places = asyncio.Semaphore(MOST_CALLS)
        self._has_room = asyncio.Event()
        """Clear while the transport's buffer is full."""
        self._has_room.set()
        self._is_flushing = False
        """True if the outbox will be written in the next round."""
        self._stalled = 0.0
        """When the transport's buffer became full; 0: it has room."""
        self._timer: asyncio.TimerHandle | None = None
        self._error: errors.Error | None = None
        self._heard = time.monotonic()
        """When bytes last arrived."""
        stay_with_process(self)

    async def attach(self) -> None:
        """Begins to read."""
        await self._loop.create_connection(lambda: self, sock=self._socket)

    @property
    def is_over(self) -> bool:
        """True if no more calls are accepted."""
        return self._error is not None

    # ---- calls -----------------------------------------------------------------------------------------------------

    async def call(self, body: bytes, timeout: float) -> bytes:
        """Returns the reply to a call. Raises `ServerUnavailable` if the connection breaks meanwhile,
        `DeadlineExceeded` after `timeout` seconds. A call whose task is cancelled is cancelled at the server."""
        ends = time.monotonic() + timeout
        if self._stalled or self._places.locked():
            await self._wait_for_place(ends)
        else:
            await self._places.acquire()
        try:
            return await self._answer(body, ends)
        finally:
            self._places.release()

    async def _answer(self, body: bytes, ends: float) -> bytes:
        if self._error is not None:
            raise copied(self._error)
        future: asyncio.Future[bytes] = self._loop.create_future()
        number = self._calls.begin(_LoopCall(future, time.monotonic(), ends), body)
        self._send()
        if self._timer is None:
            self._timer = self._loop.call_later(CHECK_SECONDS, self._check)
        try:
            return await future
        except asyncio.CancelledError:
            if self._calls.cancel(number):
                self._send()
            raise
        finally:
            del future  # its error refers to this frame

    async def _wait_for_place(self, ends: float) -> None:
        """Acquires a place among the calls, once the transport has room, too."""
        try:
            async with asyncio.timeout(max(0.0, ends - time.monotonic())):
                await self._has_room.wait()
                await self._places.acquire()
        except TimeoutError:
            raise errors.DeadlineExceeded(f"{self.address} has not answered in time") from None

    def _send(self) -> None:
        """Writes the outbox, now or with what other tasks add in this round."""
        if self._is_flushing:
            return
        if len(self._calls) <= 1:
            self._flush()
        else:
            self._is_flushing = True
            self._loop.call_soon(self._flush)

    def _flush(self) -> None:
        self._is_flushing = False
        parts = self._calls.outgoing()
        if not parts or self._transport is None or self._error is not None:
            return
        data = b"".join(parts)
        try:
            if self._tls is not None:
                data = self._tls.encrypted(data)
        except ssl.SSLError as error:
            self._fail(errors.ServerUnavailable(f"the connection to {self.address} broke: {error_text(error)}"))
            return
        self._transport.write(data)

    def _check(self) -> None:
        """Ends the calls whose time is over."""
        self._timer = None
        now = time.monotonic()
        if self._stalled and now - self._stalled > SEND_SECONDS:
            reason = f"the server has not read for {SEND_SECONDS:g} seconds"
            self._fail(errors.ServerUnavailable(f"the connection to {self.address} broke: {reason}"))
        late = [(number, call) for number, call in self._calls if call.ends <= now]
        for number, call in late:
            self._calls.cancel(number)
            if not call.future.done():
                call.future.set_exception(errors.DeadlineExceeded(f"{self.address} has not answered in time"))
        if any(self._heard < call.sent for _, call in late):
            self._fail(errors.ServerUnavailable(f"{self.address} does not respond any more"))
        elif late:
            self._flush()
        if self._calls and self._timer is None:
            self._timer = self._loop.call_later(CHECK_SECONDS, self._check)

    # ---- the transport's calls (`asyncio.BufferedProtocol`) --------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """See `asyncio.BaseProtocol`."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def get_buffer(self, sizehint: int) -> bytearray:
        """See `asyncio.BufferedProtocol`."""
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        """See `asyncio.BufferedProtocol`."""
        self._heard = time.monotonic()
        data: bytes | memoryview = memoryview(self._buffer)[:nbytes]
        try:
            if self._tls is not None:
                data = self._tls.decrypted(data)  # what TLS itself has to send goes with the next call
            frames = self._reader.feed(data)
        except EOFError:
            self._fail(errors.ServerUnavailable(f"{self.address} has closed the connection"))
            return
        except ssl.SSLError as error:
            self._fail(errors.ServerUnavailable(f"the connection to {self.address} broke: {error_text(error)}"))
            return
        except errors.ProtocolError as error:
            self._fail(errors.ProtocolError(f"{self.address}: {error}"))
            return
        for call, body in self._calls.replies(frames):
            if not call.future.done():
                call.future.set_result(body)
        if self._calls.refusal:
            self._fail(errors.ServerUnavailable(f"{self.address} has ended the connection: {self._calls.refusal}"))

    def pause_writing(self) -> None:
        """See `asyncio.BaseProtocol`."""
        self._stalled = time.monotonic()
        self._has_room.clear()

    def resume_writing(self) -> None:
        """See `asyncio.BaseProtocol`."""
        self._stalled = 0.0
        self._has_room.set()

    def connection_lost(self, exc: Exception | None) -> None:
        """See `asyncio.BaseProtocol`."""
        reason = f"the connection to {self.address} broke: {error_text(exc)}" if exc is not None else ""
        self._fail(errors.ServerUnavailable(reason or f"{self.address} has closed the connection"))

    # ---- the end ---------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Ends the connection: waiting calls fail. Idempotent; from any thread."""
        try:
            is_own = asyncio.get_running_loop() is self._loop
        except RuntimeError:
            is_own = False
        if is_own:
            self._close()
        else:
            with contextlib.suppress(RuntimeError):  # the loop has been closed
                self._loop.call_soon_threadsafe(self._close)

    def _close(self) -> None:
        self._fail(errors.ServerUnavailable(f"the channel to {self.address} has been closed"))

    def _fail(self, error: errors.Error) -> None:
        """Ends the connection: waiting calls fail with the error."""
        if self._error is not None:
            return
        self._error = error
        self._has_room.set()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        for call in self._calls.abandon():
            if not call.future.done():
                call.future.set_exception(copied(error))
        if self._transport is not None:
            self._transport.abort()

    def _abandon(self) -> None:
        """In a forked child: closes its copy of the descriptor."""
        self._socket.close()
