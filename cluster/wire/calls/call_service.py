"""The server's end of streams of calls (`calls.call_streams` draws both).

Replies that are ready at the same time are batched: `gathering` holds back the replies of its thread until its end, and
then writes one frame for each stream. The thread that reads a stream uses it for each frame of calls, and the thread
that completes waiting calls uses it for all that were completed together.
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
from .turn_batching import Turn, TurnBatch, for_each

OUTBOX_BYTES = 16 << 20
"""Bytes of replies that may wait for one client. With more than that, its calls are refused until it has read some;
calls begun before are answered all the same. With twice as much, its calls are not read either."""

Take = Callable[[bytes, "AnswerStream", Callable[[bytes], None]], None]
"""Processes a request's body: (body, its stream, receiver of the reply, now or later)."""
_calls = msgpack_decoder(CallFrame)


class AnswerStream:
    """Sends replies to one client. Thread-safe."""

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
        """Notified when the last writer ends, and when there is room again."""
        self._thread: threading.Thread | None = None
        """Writes if the client may not be reading, so that it blocks no other thread."""
        self._asked = threading.Semaphore(0)

    def answer(self, number: int, body: bytes) -> None:
        """Sends a reply soon."""
        with self._lock:
            if self._is_dead:
                return
            self._outbox.append((number, body))
            self._outbox_bytes += len(body)
        if not _held.add(self):
            self.send()

    @property
    def room(self) -> int:
        """Bytes of replies that can be sent without a long wait, as far as is known; 0 if the client does not read."""
        return max(0, OUTBOX_BYTES - self._outbox_bytes)

    def wait_room(self) -> None:
        """Returns when there is room for refusals, at least."""
        with self._written:
            self._written.wait_for(lambda: self._is_dead or self._outbox_bytes <= 2 * OUTBOX_BYTES)

    def is_cancelled(self) -> bool:
        """True if the stream has no reader any more."""
        return self._is_dead

    def peer_identity(self) -> bytes:
        """As in Flight's context: the client's identity, from its certificate."""
        return self._identity.encode()

    def peer(self) -> str:
        """As in Flight's context: the client's address."""
        return self._peer

    def say_goodbye(self) -> None:
        """Requests that the client ends the stream, which only it can do, when it has its replies."""
        with self._lock:
            self._is_last = True
        self.send()

    def was_read(self, size: int) -> None:
        """Records that the client has read more bytes of replies."""
        with self._lock:
            self._unread -= size

    def send(self) -> None:
        """Writes waiting replies, unless another thread is writing."""
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
            if not self._is_writing:  # the stream has ended
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
                    self._is_dead = True  # the thread that reads the stream gets the error
                    self._written.notify_all()
                if not isinstance(error, pa.ArrowException | OSError | ValueError):
                    with self._lock:
                        self._is_writing = False
                    raise

    def end(self) -> None:
        """Returns when no thread is writing, nor will be: the stream has ended, and must not be touched then."""
        with self._written:
            self._is_dead = True
            self._written.wait_for(lambda: not self._is_writing)
            self._asked.release()


_held: TurnBatch[AnswerStream] = TurnBatch(for_each(AnswerStream.send))


def gathering() -> Turn[AnswerStream]:
    """Holds back this thread's replies, and sends them at the end, one frame for each stream."""
    return _held.turn()


class CallService:
    """All streams of calls of one server.

    Parameters
    ----------
    take : callable
        Processes each call.
    around : callable
        Makes the context manager within which a thread processes the calls of a frame.
    """

    def __init__(self, take: Take, around: Callable[[], contextlib.AbstractContextManager[object]]):
        self._take = take
        self._around = around
        # Guards the two below.
        self._lock = threading.Lock()
        self._streams: set[AnswerStream] = set()
        self._is_closing = False

    def serve(self, reader: Any, writer: Any, identity: str = "", peer: str = "") -> None:
        """Reads a stream until its client ends it. Raises `ProtocolError` for malformed frames. `identity` is the
        client's, from its certificate, `peer` its address."""
        stream = AnswerStream(writer, identity, peer)
        with self._lock:
            if self._is_closing:
                raise errors.ServerUnavailable("the server accepts no more calls")
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
                        # Not Flight's context, which ends with the stream: calls in progress continue.
                        self._take(body, stream, _Answer(stream, number))
                stream.wait_room()
        finally:
            with self._lock:
                self._streams.discard(stream)
            stream.end()

    def close(self) -> None:
        """Accepts no more streams, and requests that the clients end theirs."""
        with self._lock:
            self._is_closing = True
            streams = list(self._streams)
        for stream in streams:
            stream.say_goodbye()


class _Answer:
    """Receives the reply to one call."""

    __slots__ = ("_number", "_stream")

    def __init__(self, stream: AnswerStream, number: int):
        self._stream = stream
        self._number = number

    def __call__(self, body: bytes) -> None:
        self._stream.answer(self._number, body)


def _frames(reader: Any) -> Iterator[bytes]:
    """Yields frames until the stream ends, for whatever reason: the client handles its calls in progress."""
    with contextlib.suppress(errors.Error):
        yield from messages(reader, "the client")
