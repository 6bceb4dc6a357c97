"""Small calls on one long exchange per client and server, many at a time: a third of what a call of its own costs.

    client                                                     server
    call ─► outbox ─┐                                          ┌─► answered at once by the reading thread, or
    call ─► outbox ─┼─► CallFrame(read, ((7, body), (8, body))) ─┤   when what it waits for has come about, or
    call ─► outbox ─┘                                          └─► by a thread of a pool, where it may have to wait
       ▲                                                             │
       └── by number ◄── AnswerFrame(((8, body), ...)) ◄─────────────┘

Bodies are those of calls that go by themselves (`envelope`), and mean the same. The thread of whoever finds nobody
writing writes everything that waits; what comes meanwhile goes with its next frame. So under load frames fill by
themselves, and nobody waits for a frame to fill.

Neither side ever blocks on a peer that does not read. A call goes on the stream only while less than `WINDOW` bytes of
calls are unanswered there (otherwise it goes by itself), and a frame tells how many bytes of answers have been read, so
that the server knows when another thread had better do the writing. Both windows are smaller than gRPC's own.
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
from .turn_batching import HeldBack, Turn, each

COMMAND = b"nyala.calls"
WINDOW = 48 << 10
"""Bytes that may be on their way in one direction without word that they were read; gRPC's own window has 64 KiB."""

_CLOSE_SECONDS = 2.0

LOOK_SECONDS = 0.05
"""So often whoever waits for an answer may look whether it is wanted still."""


class CallFrame(Struct, frozen=True, array_like=True):
    """Calls by number. `read`: the bytes of answers that the client has read on this stream so far."""

    read: int
    calls: tuple[tuple[int, bytes], ...]


class AnswerFrame(Struct, frozen=True, array_like=True):
    """Answers by the numbers of their calls. `is_last`: the server takes no more calls on this stream."""

    answers: tuple[tuple[int, bytes], ...]
    is_last: bool = False


_answers = msgpack_decoder(AnswerFrame)


def size_of(body: bytes) -> int:
    """What a body counts in a window."""
    return len(body) + 32


class _Waiting:
    """A call without an answer yet; the lock is released when there is one, or an error."""

    __slots__ = ("answer", "arrived", "error", "size")

    def __init__(self, size: int):
        self.size = size
        self.answer = b""
        self.error: errors.Error | None = None
        self.arrived = threading.Lock()
        self.arrived.acquire()


def _has_arrived(waiting: _Waiting, timeout: float, look: Callable[[], None] | None) -> bool:
    """Wait for the answer, and say whether it came in time."""
    end = time.monotonic() + timeout
    while look is not None and (left := end - time.monotonic()) > LOOK_SECONDS:
        if waiting.arrived.acquire(timeout=min(left, LOOK_SECONDS)):
            return True
        look()
    return waiting.arrived.acquire(timeout=max(0.0, end - time.monotonic()))


class BegunCall:
    """A call that has been sent. Who does not want its answer any more forgets it."""

    __slots__ = ("_number", "_sent", "_stream", "_waiting")

    def __init__(self, stream: CallStream, number: int, waiting: _Waiting):
        self._stream = stream
        self._number = number
        self._waiting = waiting
        self._sent = time.monotonic()

    def answer(self, timeout: float, look: Callable[[], None] | None = None) -> bytes:
        """The answer. `ServerUnavailable` where the stream breaks meanwhile, `DeadlineExceeded` after so many seconds
        of waiting. `look` is called now and then meanwhile; what it raises ends the waiting."""
        return self._stream.answer(self._number, self._waiting, self._sent, timeout, look)


class AloneCall:
    """A call that goes by itself, made by a thread of its own meanwhile, until somebody wants its answer.

    Parameters
    ----------
    call : callable
        Makes it, and returns its answer.
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
        """As `BegunCall.answer`."""
        if not _has_arrived(self._waiting, timeout, look):
            raise errors.DeadlineExceeded(f"{self._address} has not answered in time")
        if self._waiting.error is not None:
            raise self._waiting.error
        return self._waiting.answer


class CallStream:
    """The client's end. Safe to use from many threads.

    Parameters
    ----------
    client : FlightClient
    address : str
        For errors.
    broken : callable
        Told the error for which the stream ended, if it was not this side that ended it.
    """

    def __init__(self, client: flight.FlightClient, address: str, broken: Callable[[errors.Error], None]):
        self._address = address
        self._broken = broken
        self._numbers = itertools.count(1)
        # Held while the exchange is written on; taken before the other.
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
        """Are no more calls taken?"""
        return self._is_over

    def begin(self, body: bytes) -> BegunCall | None:
        """Send a request's body, at the end of `sending_together` where the thread is in that; None, with nothing sent,
        where the call must go by itself."""
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
        begun = BegunCall(self, number, waiting)
        if is_writer and not _held.add(self):
            self.send()
        return begun

    def answer(
        self, number: int, waiting: _Waiting, sent: float, timeout: float, look: Callable[[], None] | None
    ) -> bytes:
        """See `BegunCall.answer`."""
        if not _has_arrived(waiting, timeout, look):
            self._timed_out(number, sent)
        if waiting.error is not None:
            raise _again(waiting.error)
        return waiting.answer

    def _timed_out(self, number: int, sent: float) -> None:
        with self._lock:
            # It stays among those that wait: for all that is known its bytes have not been read.
            if number not in self._waiting:
                return
            is_silent = self._heard < sent
        error = errors.DeadlineExceeded(f"{self._address} has not answered in time")
        if is_silent:
            self._give_up(errors.ServerUnavailable(f"{self._address} says nothing any more"))
        raise error

    def send(self) -> None:
        """Write what waits. For the one thread that is to do so."""
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

    # ---- answers -------------------------------------------------------------------------------------------------

    def _read_answers(self) -> None:
        error: errors.Error = errors.ServerUnavailable(f"{self._address} has ended its stream of calls")
        try:
            for data in messages(self._reader, self._address):
                if self._take(data):
                    break
        except errors.Error as raised:
            error = raised
        if isinstance(error, errors.Cancelled):
            error = errors.ServerUnavailable(f"the calls to {self._address} were given up")
        is_expected = self._error is not None or self._is_ending
        self._give_up(error)
        with self._writing, contextlib.suppress(pa.ArrowException, OSError, ValueError):
            self._writer.close()  # or Arrow complains on standard error
        if not is_expected:
            self._broken(error)

    def _take(self, data: bytes) -> bool:
        """Hand out the answers of a frame; True where it was the last that anybody waits for."""
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
        """End the stream: calls that wait fail. Closing again does nothing."""
        self._give_up(errors.ServerUnavailable(f"the channel to {self._address} has been closed"))
        if self._thread is not threading.current_thread():
            self._thread.join(_CLOSE_SECONDS)

    def _give_up(self, error: errors.Error) -> None:
        """The stream is at its end: calls that wait fail with the error."""
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


_held: HeldBack[CallStream] = HeldBack(each(CallStream.send))


def sending_together() -> Turn[CallStream]:
    """Hold back the calls that this thread begins, and send them at the end, one frame for each server. Who waits for
    an answer before that waits in vain."""
    return _held.turn()


def _again(error: errors.Error) -> errors.Error:
    """The same error for another thread."""
    return type(error)(*error.args)
