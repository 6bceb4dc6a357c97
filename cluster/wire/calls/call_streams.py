"""Small calls on one long exchange per client and server, many at a time: a third of the cost of separate calls.

    client                                                     server
    call ─► outbox ─┐                                          ┌─► answered at once by the reading thread, or
    call ─► outbox ─┼─► CallFrame(read, ((7, body), (8, body))) ─┤   by the thread that completes what it waits for, or
    call ─► outbox ─┘                                          └─► by a thread of a pool, if it may have to wait
       ▲                                                             │
       └── by number ◄── AnswerFrame(((8, body), ...)) ◄─────────────┘

Bodies are those of separate calls (`envelope`), with the same meaning. A thread that finds no other thread writing
writes all waiting calls; later ones go into its next frame. So under load frames fill by themselves, and no call waits
for a frame to fill.

Neither side ever blocks on a peer that does not read. A call uses the stream only while less than `WINDOW` bytes of
calls are unanswered there; otherwise it is sent separately. A frame reports how many bytes of replies have been read,
so the server can leave the writing to another thread. Both windows are smaller than gRPC's own.
"""

from __future__ import annotations

import contextlib
import itertools
import threading
import time
from collections.abc import Callable

import pyarrow as pa
from msgspec import Struct
from pyarrow import flight

from .... import errors
from ...decoders import msgpack_decoder
from ..messages.envelope import pack, unpack
from ..messages.errors import flight_text, raised_by_flight
from .exchanges import messages
from .turn_batching import Turn, TurnBatch, for_each

COMMAND = b"nyala.calls"
WINDOW = 48 << 10
"""Bytes that may be in transit in one direction without confirmation that they were read; gRPC's own window has 64
KiB."""

_CLOSE_SECONDS = 2.0

LOOK_SECONDS = 0.05
"""Seconds between two calls of `look` while waiting for a reply."""


class CallFrame(Struct, frozen=True, array_like=True):
    """Calls by number. `read`: the bytes of replies that the client has read on this stream so far."""

    read: int
    calls: tuple[tuple[int, bytes], ...]


class AnswerFrame(Struct, frozen=True, array_like=True):
    """Replies by the numbers of their calls. `is_last`: the server accepts no more calls on this stream."""

    answers: tuple[tuple[int, bytes], ...]
    is_last: bool = False


_answers = msgpack_decoder(AnswerFrame)


def size_of(body: bytes) -> int:
    """Returns the bytes of a body that count in a window."""
    return len(body) + 32


class _Waiting:
    """A call without a reply yet; the lock is released when there is one, or an error."""

    __slots__ = ("answer", "arrived", "error", "size")

    def __init__(self, size: int):
        self.size = size
        self.answer = b""
        self.error: errors.Error | None = None
        self.arrived = threading.Lock()
        self.arrived.acquire()


def _has_arrived(waiting: _Waiting, timeout: float, look: Callable[[], None] | None) -> bool:
    """Waits for the reply; True if it came in time."""
    end = time.monotonic() + timeout
    while look is not None and (left := end - time.monotonic()) > LOOK_SECONDS:
        if waiting.arrived.acquire(timeout=min(left, LOOK_SECONDS)):
            return True
        look()
    return waiting.arrived.acquire(timeout=max(0.0, end - time.monotonic()))


class PendingCall:
    """A call that has been sent. A caller that does not need its reply drops it."""

    __slots__ = ("_number", "_sent", "_stream", "_waiting")

    def __init__(self, stream: CallStream, number: int, waiting: _Waiting):
        self._stream = stream
        self._number = number
        self._waiting = waiting
        self._sent = time.monotonic()

    def answer(self, timeout: float, look: Callable[[], None] | None = None) -> bytes:
        """Returns the reply. Raises `ServerUnavailable` if the stream breaks meanwhile, `DeadlineExceeded` after
        `timeout` seconds of waiting. `look` is called now and then meanwhile; its error ends the wait."""
        return self._stream.answer(self._number, self._waiting, self._sent, timeout, look)


class SeparateCall:
    """A separate call, made by its own thread until its reply is requested.

    Parameters
    ----------
    call : callable
        Makes it, and returns its reply.
    address : str
        For errors.
    """

    __slots__ = ("_address", "_waiting")

    def __init__(self, call: Callable[[], bytes], address: str):
        self._address = address
        self._waiting = _Waiting(0)
        threading.Thread(target=self._run, args=(call,), name=f"nyala-call-{address}", daemon=True).start()

    def _run(self, call: Callable[[], bytes]) -> None:
        try:
            self._waiting.answer = call()
        except errors.Error as error:
            self._waiting.error = error
        finally:
            self._waiting.arrived.release()

    def answer(self, timeout: float, look: Callable[[], None] | None = None) -> bytes:
        """As `PendingCall.answer`."""
        if not _has_arrived(self._waiting, timeout, look):
            raise errors.DeadlineExceeded(f"{self._address} has not answered in time")
        if self._waiting.error is not None:
            raise self._waiting.error
        return self._waiting.answer


class CallStream:
    """The client's end. Thread-safe.

    Parameters
    ----------
    client : FlightClient
    address : str
        For errors.
    broken : callable
        Called with the error for which the stream ended, unless this side ended it.
    """

    def __init__(self, client: flight.FlightClient, address: str, broken: Callable[[errors.Error], None]):
        self._address = address
        self._broken = broken
        self._numbers = itertools.count(1)
        # Held during writes on the exchange; acquired before the other.
        self._writing = threading.Lock()
        # Guards all below.
        self._lock = threading.Lock()
        self._outbox: list[tuple[int, bytes]] = []
        self._waiting: dict[int, _Waiting] = {}
        self._unanswered = 0
        self._read = 0
        self._heard = time.monotonic()
        self._is_writing = False
        self._is_over = False
        self._is_ending = False
        self._error: errors.Error | None = None
        try:
            self._writer, self._reader = client.do_exchange(flight.FlightDescriptor.for_command(COMMAND))
        except (pa.ArrowException, OSError) as error:
            raise raised_by_flight(error, address) from None
        self._thread = threading.Thread(target=self._read_answers, name=f"nyala-calls-{address}", daemon=True)
        self._thread.start()

    @property
    def is_over(self) -> bool:
        """True if no more calls are accepted."""
        return self._is_over

    def begin(self, body: bytes) -> PendingCall | None:
        """Sends a request's body, at the end of `sending_together` within that context; None, with nothing sent, if the
        call must be sent separately."""
        size = size_of(body)
        waiting = _Waiting(size)
        with self._lock:
            if self._is_over or self._unanswered + size > WINDOW:
                return None
            number = next(self._numbers)
            self._waiting[number] = waiting
            self._unanswered += size
            self._outbox.append((number, body))
            is_writer = not self._is_writing
            self._is_writing = True
        begun = PendingCall(self, number, waiting)
        if is_writer and not _held.add(self):
            self.send()
        return begun

    def answer(
        self, number: int, waiting: _Waiting, sent: float, timeout: float, look: Callable[[], None] | None
    ) -> bytes:
        """See `PendingCall.answer`."""
        if not _has_arrived(waiting, timeout, look):
            self._timed_out(number, sent)
        if waiting.error is not None:
            raise type(waiting.error)(*waiting.error.args)  # a copy: the error has been raised in another thread
        return waiting.answer

    def _timed_out(self, number: int, sent: float) -> None:
        with self._lock:
            # It stays among the waiting calls: its bytes may be unread.
            if number not in self._waiting:
                return
            is_silent = self._heard < sent
        error = errors.DeadlineExceeded(f"{self._address} has not answered in time")
        if is_silent:
            self._give_up(errors.ServerUnavailable(f"{self._address} does not respond any more"))
        raise error

    def send(self) -> None:
        """Writes waiting calls. For the one writing thread."""
        while True:
            with self._lock:
                calls, self._outbox = self._outbox, []
                if not calls or self._error is not None:
                    self._is_writing = False
                    return
                read = self._read
            try:
                with self._writing:
                    self._writer.write_metadata(pack(CallFrame(read, tuple(calls))))
            except (pa.ArrowException, OSError, ValueError) as error:
                self._give_up(
                    errors.ServerUnavailable(f"the connection to {self._address} broke: {flight_text(error)}")
                )

    # ---- replies -----------------------------------------------------------------------------------------------------

    def _read_answers(self) -> None:
        error: errors.Error = errors.ServerUnavailable(f"{self._address} has ended its stream of calls")
        try:
            for data in messages(self._reader, self._address):
                if self._take(data):
                    break
        except errors.Error as raised:
            error = raised
        if isinstance(error, errors.Cancelled):
            error = errors.ServerUnavailable(f"the calls to {self._address} were cancelled")
        is_expected = self._error is not None or self._is_ending
        self._give_up(error)
        with self._writing, contextlib.suppress(pa.ArrowException, OSError, ValueError):
            self._writer.close()  # or Arrow complains on standard error
        if not is_expected:
            self._broken(error)

    def _take(self, data: bytes) -> bool:
        """Delivers the replies of a frame; True if no call waits for a further one."""
        frame: AnswerFrame = unpack(data, _answers, "frame of answers")
        arrived = []
        with self._lock:
            self._heard = time.monotonic()
            for number, body in frame.answers:
                self._read += size_of(body)
                waiting = self._waiting.pop(number, None)
                if waiting is not None:
                    self._unanswered -= waiting.size
                    waiting.answer = body
                    arrived.append(waiting.arrived)
            if frame.is_last:
                self._is_over = self._is_ending = True
            is_done = self._is_ending and not self._waiting
        for lock in arrived:
            lock.release()
        return is_done

    def close(self) -> None:
        """Ends the stream: waiting calls fail. Idempotent."""
        self._give_up(errors.ServerUnavailable(f"the channel to {self._address} has been closed"))
        if self._thread is not threading.current_thread():
            self._thread.join(_CLOSE_SECONDS)

    def _give_up(self, error: errors.Error) -> None:
        """Ends a stream: waiting calls fail with the error."""
        with self._lock:
            if self._error is not None:
                return
            self._error, self._is_over = error, True
            waiting, self._waiting = list(self._waiting.values()), {}
            self._outbox.clear()
        for call in waiting:
            call.error = error
            call.arrived.release()
        self._reader.cancel()


_held: TurnBatch[CallStream] = TurnBatch(for_each(CallStream.send))


def sending_together() -> Turn[CallStream]:
    """Holds back the calls that this thread begins, and sends them at the end, one frame for each server. Waiting for a
    reply before that blocks until the timeout."""
    return _held.turn()
