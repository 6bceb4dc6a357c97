"""The server's end of framed connections: greets clients, passes their calls on, and sends the replies.

    FramedClient: bytes ─► FrameReader ─┬─► HELLO ─► greet ─► WELCOME, or REFUSED and the end
                                        ├─► CALL ─► take(client, number, body) ··· client.reply(number, body)
                                        ├─► CANCEL ─► client.is_cancelled(number)
                                        └─► MESSAGE ─► message(client, body)

Replies that are ready at the same time are batched: `gathering` holds back the replies of its thread until its end, and
then writes one piece for each client.

A client can harm only itself: its frames have a limit, incomplete frames have one for each client and for all together,
a frame must be complete after `FRAME_SECONDS`, and a client with unread replies sees its calls refused by the server
above (`room`), then not read (`connection.PAUSE_BYTES`).
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from typing import Final

from ..errors import Error, ProtocolError
from .connection import Connection
from .frames import (
    CALL,
    CANCEL,
    HELLO,
    MESSAGE,
    PREAMBLE,
    REFUSED,
    REPLY,
    WELCOME,
    FrameReader,
    frame,
    frame_head,
)
from .turn_batching import Turn, TurnBatch, for_each

_logger = logging.getLogger("nyala.net")

HELLO_SECONDS: Final = 10.0
"""Seconds for a client to introduce itself."""
FRAME_SECONDS: Final = 60.0
"""Seconds for a frame to arrive."""
OUTBOX_BYTES: Final = 16 << 20
"""Bytes of unread replies above which a client has no `room`."""
_SMALL: Final = 64 << 10
_HELLO_BYTES: Final = 64 << 10

Greet = Callable[[bytes, "FramedClient"], bytes]
"""Returns the body of WELCOME for that of HELLO; its `Error` refuses the client."""
Take = Callable[["FramedClient", int, bytes], object]
"""Processes a call: (client, number, body). Its reply follows by `FramedClient.reply`, now or later."""
Message = Callable[["FramedClient", bytes], object]
"""Processes a message; its `Error` closes the connection."""


class FrameService:
    """The framed connections of one server.

    Parameters
    ----------
    greet, take, message : callable
        See the types; called in the reactor's thread.
    call_bytes, message_bytes : int
        Largest accepted bodies.
    all_bytes : int
        Bytes of incomplete frames of all clients together, beyond which the largest is dropped with its connection.
    """

    def __init__(
        self, greet: Greet, take: Take, message: Message, *, call_bytes: int, message_bytes: int, all_bytes: int
    ):
        self.greet = greet
        self.take = take
        self.message = message
        self.limits = {HELLO: _HELLO_BYTES, CALL: call_bytes, CANCEL: 0, MESSAGE: message_bytes}
        self._all_bytes = all_bytes
        self._incomplete: dict[FramedClient, int] = {}
        """Bytes of long incomplete frames."""

    def protocol(self) -> FramedClient:
        """Makes the protocol of one connection."""
        return FramedClient(self)

    def note_incomplete(self, client: FramedClient, size: int) -> None:
        """Records how many bytes of an incomplete frame a client has sent."""
        if size <= _SMALL:
            self._incomplete.pop(client, None)
            return
        self._incomplete[client] = size
        if sum(self._incomplete.values()) > self._all_bytes:
            largest = max(self._incomplete, key=lambda client: self._incomplete[client])
            largest.connection.abort("the server has no memory for its incomplete frame")
            del self._incomplete[largest]
            _logger.error(
                "a connection is closed: too many bytes of incomplete messages",
                extra={"fields": {"from": largest.connection.address, "limit": self._all_bytes}},
            )


class FramedClient:
    """One client: the protocol of its connection. `reply` may be called from any thread.

    Attributes
    ----------
    hello : bytes
        With which it introduced itself.
    caller : object
        Set by `greet`, for the server above.
    is_of_account : bool, optional
        Set by the server above: the result of a check of the client's account, which a connection keeps.
    """

    def __init__(self, service: FrameService):
        self.hello = b""
        self.caller: object = None
        self.is_of_account: bool | None = None
        self.connection: Connection
        self._service = service
        self._reader = FrameReader(service.limits)
        self._is_greeted = False
        self._is_lost = False
        self._began = time.monotonic()
        """When the connection, or an incomplete frame, began."""
        self._running: set[int] = set()
        """Calls without a reply yet."""
        self._cancelled: set[int] = set()
        # Guards the outbox.
        self._lock = threading.Lock()
        self._outbox: list[bytes] = []

    # ---- for the server above --------------------------------------------------------------------------------------

    def reply(self, number: int, body: bytes) -> None:
        """Sends the reply to a call, at the end of `gathering` within that context."""
        self._running.discard(number)
        self._cancelled.discard(number)
        with self._lock:
            self._outbox += frame_head(REPLY, number, len(body)), body
        if not _held.add(self):
            self.send()

    def send(self) -> None:
        """Sends the replies that wait."""
        with self._lock:
            parts, self._outbox = self._outbox, []
        if parts:
            self.connection.send(b"".join(parts))

    @property
    def identity(self) -> str:
        """Of its certificate; "" without TLS."""
        return self.connection.identity

    @property
    def address(self) -> str:
        """Its "host:port"."""
        return self.connection.address

    @property
    def room(self) -> int:
        """Bytes of replies that can be sent without a long wait, as far as is known; 0 if it does not read."""
        return max(0, OUTBOX_BYTES - self.connection.unsent)

    @property
    def running(self) -> int:
        """Number of its calls without a reply yet."""
        return len(self._running)

    def is_cancelled(self, number: int) -> bool:
        """True if the client does not wait for the reply any more."""
        return self._is_lost or number in self._cancelled

    # ---- the protocol (`connection.Protocol`) ----------------------------------------------------------------------

    def connection_made(self, connection: Connection) -> None:
        """See `connection.Protocol`."""
        self.connection = connection

    def bytes_received(self, data: memoryview) -> None:
        """See `connection.Protocol`."""
        was_incomplete = self._reader.buffered
        try:
            frames = self._reader.feed(data)
        except ProtocolError as error:
            self._refuse(error)
            return
        if self._reader.buffered:
            if frames or not was_incomplete:
                self._began = time.monotonic()
            self._service.note_incomplete(self, self._reader.buffered)
        elif was_incomplete > _SMALL:
            self._service.note_incomplete(self, 0)
        for kind, number, body in frames:
            if kind == CALL and self._is_greeted:
                self._running.add(number)
                self._service.take(self, number, body)
            elif not self._other(kind, number, body):
                return

    def _other(self, kind: int, number: int, body: bytes) -> bool:
        """Processes a frame that is no call; False if the connection ends."""
        try:
            if kind == HELLO and not self._is_greeted:
                self.hello = body
                welcome = self._service.greet(body, self)
                self._is_greeted = True
                self.connection.send(PREAMBLE + frame(WELCOME, 0, welcome))
            elif not self._is_greeted:
                raise ProtocolError("the first frame is no HELLO")
            elif kind == MESSAGE:
                self._service.message(self, body)
            elif kind == CANCEL:
                if number in self._running:
                    self._cancelled.add(number)
            else:
                raise ProtocolError("a second HELLO")
        except Error as error:
            self._refuse(error)
            return False
        return True

    def _refuse(self, error: Error) -> None:
        _logger.info("a connection is refused", extra={"fields": {"from": self.address, "error": str(error)}})
        preamble = b"" if self._is_greeted else PREAMBLE
        self.connection.end(preamble + frame(REFUSED, 0, str(error).encode()[:2000]))

    def drained(self) -> None:
        """See `connection.Protocol`."""

    def check(self, now: float) -> str:
        """See `connection.Protocol`."""
        seconds = now - self._began
        if not self._is_greeted:
            return "it has not introduced itself" if seconds > HELLO_SECONDS else ""
        return "a frame has taken too long" if self._reader.buffered and seconds > FRAME_SECONDS else ""

    def connection_lost(self, reason: str) -> None:
        """See `connection.Protocol`."""
        self._is_lost = True
        self._service.note_incomplete(self, 0)


_held: TurnBatch[FramedClient] = TurnBatch(for_each(FramedClient.send))


def gathering() -> Turn[FramedClient]:
    """Holds back this thread's replies, and sends them at the end, one piece for each client."""
    return _held.turn()
