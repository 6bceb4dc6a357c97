"""The client's end of a framed connection, shared by the threads of a process: many calls at a time, no thread of its
own.

    begin   a thread that finds no other one writing writes all calls that wait; later ones go with its next piece
    answer  a thread that finds no other one reading reads for all, until its own reply is there; then it passes
            the reading on to the one that began to wait last: most replies come in the order of the calls, so it is
            not the next that is woken

So a call by one thread costs one write and one read, and with many threads one of them reads several replies at a time
and wakes their callers. A dedicated reading thread would be woken for each reply, to wake the caller then: with 16
threads on one connection that took 54 us of processor time per call, instead of 35; a connection for each thread took
62 (docs/decisions/2026-11-27-one-reactor.md).
"""

from __future__ import annotations

import contextlib
import select
import socket
import ssl
import struct
import threading
import time
from collections.abc import Callable
from typing import Final

from .. import errors
from ..model.forks import finalize, stay_with_process
from .call_table import CallTable, copied, error_text
from .dialing import Dialed
from .frames import Frame
from .turn_batching import Turn, TurnBatch, for_each

LOOK_SECONDS: Final = 0.05
"""Seconds between two looks at the time, and calls of `look`, while waiting for a reply."""
SEND_SECONDS: Final = 15.0
"""Seconds after which a server that does not read loses the connection."""
_RECEIVE_BYTES: Final = 128 << 10


class _Waiting:
    """A call without a reply yet. Guarded by the connection's lock, but `body` and `error` once `is_done`."""

    __slots__ = ("arrived", "body", "error", "is_done", "is_reader")

    def __init__(self) -> None:
        self.body = b""
        self.error: errors.Error | None = None
        self.is_done = False
        self.is_reader = False
        """True if its thread was made the one that reads."""
        self.arrived: threading.Lock | None = None
        """Held while its thread waits for another one that reads; released when it is done, or must read itself."""


class PendingCall:
    """A call that has been sent. A caller that does not need its reply drops it."""

    __slots__ = ("_connection", "_number", "_sent", "_waiting")

    def __init__(self, connection: ClientConnection, number: int, waiting: _Waiting):
        self._connection = connection
        self._number = number
        self._waiting = waiting
        self._sent = time.monotonic()

    def answer(self, timeout: float, look: Callable[[], None] | None = None) -> bytes:
        """Returns the reply. Raises `ServerUnavailable` if the connection breaks meanwhile, `DeadlineExceeded` after
        `timeout` seconds of waiting. `look` is called now and then meanwhile; its error ends the wait. A call that ends
        without its reply is cancelled at the server."""
        return self._connection.answer(self._number, self._waiting, self._sent, timeout, look)

    def wait(self, seconds: float) -> bool:
        """True if `answer` would return or raise at once, within `seconds`."""
        return self._waiting.is_done or self._connection.wait(self._waiting, seconds)

    def cancel(self) -> None:
        """Reports to the server that the reply is not needed any more; no-op if it is there."""
        self._connection.cancel(self._number)


class ClientConnection:
    """A connection with calls in progress. Thread-safe.

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
        self._buffer = memoryview(bytearray(_RECEIVE_BYTES))
        # Held while the TLS object is used.
        self._tls_lock = threading.Lock()
        # Guards all below.
        self._lock = threading.Lock()
        self._calls: CallTable[_Waiting] = CallTable()
        self._sleepers: dict[_Waiting, None] = {}
        """Those whose threads wait for the one that reads."""
        self._is_writing = False
        self._is_reading = False
        self._error: errors.Error | None = None
        self._heard = self.used = time.monotonic()
        """When bytes last arrived, and when a call last began."""
        for option, seconds in ((socket.SO_RCVTIMEO, LOOK_SECONDS), (socket.SO_SNDTIMEO, SEND_SECONDS)):
            # One system call for each read: with Python's own timeout there would be a `poll` before each.
            whole = int(seconds)
            self._socket.setsockopt(socket.SOL_SOCKET, option, struct.pack("ll", whole, int((seconds - whole) * 1e6)))
        self._readable = select.poll()
        self._readable.register(self._socket, select.POLLIN)
        self._finalizer = finalize(self, self._socket.close)
        stay_with_process(self)

    @property
    def is_over(self) -> bool:
        """True if no more calls are accepted."""
        return self._error is not None

    # ---- calls -----------------------------------------------------------------------------------------------------

    def begin(self, body: bytes) -> PendingCall:
        """Sends a call, at the end of `sending_together` within that context. Raises `ServerUnavailable` if the
        connection is over."""
        waiting = _Waiting()
        with self._lock:
            if self._error is not None:
                raise copied(self._error)
            number = self._calls.begin(waiting, body)
            is_writer = not self._is_writing
            self._is_writing = True
        pending = PendingCall(self, number, waiting)
        self.used = time.monotonic()
        if is_writer and not _held.add(self):
            self.send()
        return pending

    def send(self) -> None:
        """Writes waiting calls. For the one writing thread."""
        while True:
            with self._lock:
                parts = self._calls.outgoing()
                if not parts or self._error is not None:
                    self._is_writing = False
                    return
            data = b"".join(parts)
            try:
                if self._tls is not None:
                    with self._tls_lock:
                        data = self._tls.encrypted(data)
                self._write(data)
            except (OSError, ssl.SSLError) as error:
                self._fail(errors.ServerUnavailable(f"the connection to {self.address} broke: {error_text(error)}"))
            except BaseException:
                # Interrupted in the middle of a frame.
                self._fail(errors.ServerUnavailable(f"a call to {self.address} was interrupted"))
                raise

    def _write(self, data: bytes) -> None:
        view = memoryview(data)
        while view:
            try:
                view = view[self._socket.send(view) :]
            except BlockingIOError:
                raise OSError(f"the server has not read for {SEND_SECONDS:g} seconds") from None

    def answer(
        self, number: int, waiting: _Waiting, sent: float, timeout: float, look: Callable[[], None] | None
    ) -> bytes:
        """See `PendingCall.answer`."""
        ends = time.monotonic() + timeout
        while not waiting.is_done:
            until = ends if look is None else min(ends, time.monotonic() + LOOK_SECONDS)
            self._await(waiting, until)
            if waiting.is_done:
                break
            if time.monotonic() >= ends:
                self._timed_out(number, waiting, sent)
            if look is not None and not waiting.is_reader:
                try:
                    look()
                except BaseException:
                    self.cancel(number)
                    raise
        if waiting.error is not None:
            raise copied(waiting.error)
        return waiting.body

    def wait(self, waiting: _Waiting, seconds: float) -> bool:
        """See `PendingCall.wait`."""
        ends = time.monotonic() + seconds
        while not waiting.is_done and time.monotonic() < ends:
            self._await(waiting, ends, is_exact=True)
        self._decline(waiting)
        return waiting.is_done

    def _await(self, waiting: _Waiting, until: float, is_exact: bool = False) -> None:
        """Waits for a reply, at most until a time: reads, or sleeps while another thread reads. Without `is_exact` it
        may be `LOOK_SECONDS` longer, as `recv` itself waits so long."""
        if not self._has_to_read(waiting):
            self._sleep(waiting, until)
            return
        try:
            while not waiting.is_done and (left := until - time.monotonic()) > 0:
                if not is_exact or self._readable.poll(left * 1000):
                    self._read()
        except BaseException:
            # Interrupted: bytes may be lost.
            self._fail(errors.ServerUnavailable(f"a call to {self.address} was interrupted"))
            raise
        finally:
            self._pass_on()

    def _decline(self, waiting: _Waiting) -> None:
        """Has another thread read, if this one was made the one that reads and does not wait any more."""
        with self._lock:
            passes_on, waiting.is_reader = waiting.is_reader, False
        if passes_on:
            self._pass_on()

    def _has_to_read(self, waiting: _Waiting) -> bool:
        """True if this thread is the one that reads now; otherwise its call is among the sleepers, unless it is
        done."""
        with self._lock:
            if waiting.is_reader:
                waiting.is_reader = False
                return True
            if waiting.is_done:
                return False
            if not self._is_reading:
                self._is_reading = True
                return True
            if waiting.arrived is None:
                waiting.arrived = threading.Lock()
                waiting.arrived.acquire()
            self._sleepers[waiting] = None
            return False

    def _sleep(self, waiting: _Waiting, until: float) -> None:
        """Waits until the call is done, its thread has to read, or the time is over."""
        arrived = waiting.arrived
        if waiting.is_done or arrived is None:
            return
        is_interrupted = True
        try:
            arrived.acquire(timeout=min(max(0.0, until - time.monotonic()), 3600.0))
            is_interrupted = False
        finally:
            with self._lock:
                self._sleepers.pop(waiting, None)
                arrived.acquire(blocking=False)  # for the next time
                # The next thread reads if this one will not.
                passes_on = waiting.is_reader and (is_interrupted or waiting.is_done)
                if passes_on:
                    waiting.is_reader = False
            if passes_on:
                self._pass_on()

    def _pass_on(self) -> None:
        """Makes another thread that waits the one that reads; none if there is none."""
        with self._lock:
            if not self._sleepers:
                self._is_reading = False
                return
            following, _ = self._sleepers.popitem()
            following.is_reader = True
        assert following.arrived is not None
        following.arrived.release()

    def _timed_out(self, number: int, waiting: _Waiting, sent: float) -> None:
        self._decline(waiting)
        if self._heard < sent:
            self._fail(errors.ServerUnavailable(f"{self.address} does not respond any more"))
        else:
            self.cancel(number)
        raise errors.DeadlineExceeded(f"{self.address} has not answered in time")

    def cancel(self, number: int) -> None:
        """Reports to the server that no thread waits for a reply any more."""
        with self._lock:
            if self._error is not None or not self._calls.cancel(number):
                return
            is_writer = not self._is_writing
            self._is_writing = True
        if is_writer:
            self.send()

    # ---- reading, by one thread at a time --------------------------------------------------------------------------

    def _read(self) -> bool:
        """Reads once, at most `LOOK_SECONDS`, and delivers the replies; False if nothing came."""
        try:
            size = self._socket.recv_into(self._buffer)
            if not size:
                raise EOFError
            data: bytes | memoryview = self._buffer[:size]
            if self._tls is not None:
                with self._tls_lock:
                    data = self._tls.decrypted(data)  # what TLS itself has to send goes with the next call
            frames = self._reader.feed(data)
        except BlockingIOError:
            return False
        except EOFError:
            self._fail(errors.ServerUnavailable(f"{self.address} has closed the connection"))
            return True
        except (OSError, ssl.SSLError, ValueError) as error:
            self._fail(errors.ServerUnavailable(f"the connection to {self.address} broke: {error_text(error)}"))
            return True
        except errors.ProtocolError as error:
            self._fail(errors.ProtocolError(f"{self.address}: {error}"))
            return True
        self._deliver(frames)
        return True

    def _deliver(self, frames: list[Frame]) -> None:
        with self._lock:
            self._heard = time.monotonic()
            ended = []
            for waiting, body in self._calls.replies(frames):
                waiting.body = body
                ended.append(waiting)
            sleepers = self._end(ended)
        for arrived in sleepers:
            arrived.release()
        if self._calls.refusal:
            self._fail(errors.ServerUnavailable(f"{self.address} has ended the connection: {self._calls.refusal}"))

    def _end(self, calls: list[_Waiting]) -> list[threading.Lock]:
        """Marks calls as done; returns what wakes the threads of those that sleep, once the lock is released. Needs the
        lock."""
        sleepers = []
        for waiting in calls:
            waiting.is_done = True
            if waiting in self._sleepers:
                del self._sleepers[waiting]
                assert waiting.arrived is not None
                sleepers.append(waiting.arrived)
        return sleepers

    # ---- the end ---------------------------------------------------------------------------------------------------

    def has_ended(self) -> bool:
        """True if the server has closed the connection while no call was in progress: it reads nothing then."""
        with self._lock:
            if self._error is not None:
                return True
            if self._is_reading or self._calls:
                return False
            self._is_reading = True
        try:
            self._socket.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT)
            self._read()
        except BlockingIOError:
            return False
        except OSError as error:
            self._fail(errors.ServerUnavailable(f"the connection to {self.address} broke: {error_text(error)}"))
        finally:
            self._pass_on()
        return self.is_over

    def close(self) -> None:
        """Ends the connection: waiting calls fail. Idempotent."""
        self._fail(errors.ServerUnavailable(f"the channel to {self.address} has been closed"))

    def _fail(self, error: errors.Error) -> None:
        """Ends the connection: waiting calls fail with the error."""
        with self._lock:
            if self._error is not None:
                return
            self._error = error
            ended = self._calls.abandon()
            for waiting in ended:
                waiting.error = error
            sleepers = self._end(ended)
        for arrived in sleepers:
            arrived.release()
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)  # ends a read or write of another thread
        self._close_if_unused()

    def _close_if_unused(self) -> None:
        """Closes the socket unless another thread may still use it; then it is closed with the object."""
        with self._lock:
            is_unused = not self._is_reading and not self._is_writing
        if is_unused:
            self._finalizer()

    def _abandon(self) -> None:
        """In a forked child: closes its copy of the descriptor."""
        self._socket.close()


_held: TurnBatch[ClientConnection] = TurnBatch(for_each(ClientConnection.send))


def sending_together() -> Turn[ClientConnection]:
    """Holds back the calls that this thread begins, and sends them at the end, one piece for each server. Waiting for a
    reply before that blocks until the timeout."""
    return _held.turn()
