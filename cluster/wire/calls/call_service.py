"""The server's end of streams of calls (`calls.call_streams` draws both).

Answers that come about together travel together: `gathering` holds back what its thread answers until its end, and then
writes one frame for each stream. The thread that reads a stream does so for each frame of calls, and whoever completes
what calls wait for does so for all that was completed at once.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa

from .... import errors
from ...decoders import msgpack_decoder
from ..messages.envelope import pack, unpack
from .call_streams import WINDOW, AnswerFrame, CallFrame, size_of
from .exchanges import messages
from .turn_batching import HeldBack, Turn, each

OUTBOX_BYTES = 16 << 20
"""Answers that may wait for one client. With more than that, its calls are refused until it has read some; what was
begun before is answered all the same. With twice as much, not even its calls are read."""

Take = Callable[[bytes, "AnswerStream", Callable[[bytes], None]], None]
"""Deals with a request's body: (body, the stream that it came by, what takes the answer, now or later)."""
_calls = msgpack_decoder(CallFrame)


class AnswerStream:
    """Where the answers to one client go. Safe to use from many threads."""

    def __init__(self, writer: Any, identity: str, peer: str = ""):
        self._writer = writer
        self._identity = identity
        self._peer = peer
        # Guards all below.
        self._lock = threading.Lock()
        self._outbox: list[tuple[int, bytes]] = []
        self._outbox_bytes = 0
        self._unread = 0
        self._is_writing = False
        self._is_last = False
        self._is_dead = False
        self._written = threading.Condition(self._lock)
        """Told when nobody writes any more, and when there is room again."""
        self._thread: threading.Thread | None = None
        """Writes where the client may not be reading: whom it makes wait is to be nobody else."""
        self._asked = threading.Semaphore(0)

    def answer(self, number: int, body: bytes) -> None:
        """Send an answer, soon."""
        with self._lock:
            if self._is_dead:
                return
            self._outbox.append((number, body))
            self._outbox_bytes += len(body)
        if not _held.add(self):
            self.send()

    @property
    def room(self) -> int:
        """For so many bytes more an answer need not wait long, as far as is known; 0 where the client does not read."""
        return max(0, OUTBOX_BYTES - self._outbox_bytes)

    def wait_room(self) -> None:
        """Return when there is room for refusals, at least."""
        with self._written:
            self._written.wait_for(lambda: self._is_dead or self._outbox_bytes <= 2 * OUTBOX_BYTES)

    def is_cancelled(self) -> bool:
        """Does nobody read any more?"""
        return self._is_dead

    def peer_identity(self) -> bytes:
        """As Flight's context: who the client is, by its certificate."""
        return self._identity.encode()

    def peer(self) -> str:
        """As Flight's context: the client's address."""
        return self._peer

    def say_goodbye(self) -> None:
        """Ask the client, which alone can end the stream, to do so when it has its answers."""
        with self._lock:
            self._is_last = True
        self.send()

    def was_read(self, size: int) -> None:
        """The client has read so many bytes of answers more."""
        with self._lock:
            self._unread -= size

    def send(self) -> None:
        """Write what waits, unless another thread is at it."""
        with self._lock:
            if self._is_writing or self._is_dead:
                return
            self._is_writing = True
            if self._unread + self._outbox_bytes > WINDOW:
                if self._thread is None:
                    self._thread = threading.Thread(target=self._write_when_asked, name="nyala-answers", daemon=True)
                    self._thread.start()
                self._asked.release()
                return
        self._write_all()

    def _write_when_asked(self) -> None:
        while True:
            self._asked.acquire()
            if not self._is_writing:  # nobody has asked: the stream has ended
                return
            self._write_all()

    def _write_all(self) -> None:
        while True:
            with self._lock:
                if not self.room:
                    self._written.notify_all()
                answers, self._outbox, self._outbox_bytes = self._outbox, [], 0
                is_last, self._is_last = self._is_last, False
                if self._is_dead or not (answers or is_last):
                    self._is_writing = False
                    self._written.notify_all()
                    return
                self._unread += sum(size_of(body) for _, body in answers)
            try:
                self._writer.write_metadata(pack(AnswerFrame(tuple(answers), is_last)))
            except BaseException as error:
                with self._lock:
                    self._is_dead = True  # who reads the stream sees why
                    self._written.notify_all()
                if not isinstance(error, pa.ArrowException | OSError | ValueError):
                    with self._lock:
                        self._is_writing = False
                    raise

    def end(self) -> None:
        """Return when nobody writes any more, nor will: the stream has ended, and must not be touched then."""
        with self._written:
            self._is_dead = True
            self._written.wait_for(lambda: not self._is_writing)
            self._asked.release()


_held: HeldBack[AnswerStream] = HeldBack(each(AnswerStream.send))


def gathering() -> Turn[AnswerStream]:
    """Hold back this thread's answers, and send them at the end, one frame for each stream."""
    return _held.turn()


class CallService:
    """All streams of calls of one server.

    Parameters
    ----------
    take : callable
        Deals with each call.
    around : callable
        Makes what a thread is in while it deals with the calls of a frame.
    """

    def __init__(self, take: Take, around: Callable[[], contextlib.AbstractContextManager[object]]):
        self._take = take
        self._around = around
        # Guards the two below.
        self._lock = threading.Lock()
        self._streams: set[AnswerStream] = set()
        self._is_closing = False

    def serve(self, reader: Any, writer: Any, identity: str = "", peer: str = "") -> None:
        """Read a stream until its client ends it. `ProtocolError` where what comes are no calls. `identity` is the
        client's, by its certificate, `peer` its address."""
        stream = AnswerStream(writer, identity, peer)
        with self._lock:
            if self._is_closing:
                raise errors.ServerUnavailable("the server takes no more calls")
            self._streams.add(stream)
        try:
            read = 0
            for data in _frames(reader):
                frame: CallFrame = unpack(data, _calls, "frame of calls")
                if frame.read > read:
                    stream.was_read(frame.read - read)
                    read = frame.read
                with gathering(), self._around():
                    for number, body in frame.calls:
                        # Not Flight's context, which ends with the stream: what was begun goes on.
                        self._take(body, stream, _Answer(stream, number))
                stream.wait_room()
        finally:
            with self._lock:
                self._streams.discard(stream)
            stream.end()

    def close(self) -> None:
        """Take no more streams, and ask the clients to end theirs."""
        with self._lock:
            self._is_closing = True
            streams = list(self._streams)
        for stream in streams:
            stream.say_goodbye()


class _Answer:
    """Takes the answer to one call."""

    __slots__ = ("_number", "_stream")

    def __init__(self, stream: AnswerStream, number: int):
        self._stream = stream
        self._number = number

    def __call__(self, body: bytes) -> None:
        self._stream.answer(self._number, body)


def _frames(reader: Any) -> Iterator[bytes]:
    """The frames until the stream ends, however that is: its client sees to what was under way."""
    with contextlib.suppress(errors.Error):
        yield from messages(reader, "the client")
