"""Cuts the bytes of a client into messages.

    first messages     length (4 bytes, with itself)   code (4)   body           start-up, requests of TLS and cancel
    all later ones     kind (1 byte)   length (4, with itself)   body

A client that is not authenticated can send short messages only: nothing of what it claims makes the server reserve
memory. Bytes of an incomplete message are kept as they arrive, up to the limit of its kind.
"""

from __future__ import annotations

import struct
from typing import Any, Final

from ....errors import ProtocolError
from .frontend import LONG, first_message, is_known, typed_message

FIRST_BYTES: Final = 10_000
"""Longest first message, as in PostgreSQL."""
SHORT_BYTES: Final = 30_000
"""Longest message of a kind that holds no statement, values or data; PostgreSQL's PQ_SMALL_MESSAGE_LIMIT."""
AUTHENTICATION_BYTES: Final = 65_535
"""Longest message before the client is authenticated; PostgreSQL's PG_MAX_AUTH_TOKEN_LENGTH."""
MESSAGE_BYTES: Final = 256 << 20
"""Longest message of a client by default."""
_TYPED: Final = struct.Struct("!BI")
_FIRST: Final = struct.Struct("!I")


class MessageReader:
    """The bytes of one client, message by message: `feed`, then `take` until it returns None.

    Attributes
    ----------
    is_started : bool
        True once the start-up message has been read: later messages have a kind. Set by the owner.
    is_authenticated : bool
        True once long messages are allowed. Set by the owner.
    """

    def __init__(self, message_bytes: int = MESSAGE_BYTES):
        self.is_started = False
        self.is_authenticated = False
        self._message_bytes = message_bytes
        self._buffer = bytearray()
        self._place = 0

    def feed(self, data: bytes | memoryview) -> None:
        """Adds received bytes."""
        if self._place:
            del self._buffer[: self._place]
            self._place = 0
        self._buffer += data

    @property
    def buffered(self) -> int:
        """Number of bytes that belong to no complete message yet."""
        return len(self._buffer) - self._place

    def rest(self) -> bytes:
        """Returns and forgets the bytes that belong to no complete message yet."""
        found = bytes(self._buffer[self._place :])
        self._buffer.clear()
        self._place = 0
        return found

    def take(self) -> Any:
        """The next message; None if it is not complete.

        Raises `ProtocolError` if the bytes are no message, or if it is too long: nothing can be read after that.
        """
        if not self.is_started:
            return self._take_first()
        buffer, place = self._buffer, self._place
        if len(buffer) - place < 5:
            return None
        kind, length = _TYPED.unpack_from(buffer, place)
        if not is_known(kind):
            raise ProtocolError(f"there is no message of kind {kind}")
        if not 4 <= length <= self._limit(kind):
            raise ProtocolError(f"a message of kind {chr(kind)} has an invalid length: {length}")
        end = place + 1 + length
        if len(buffer) < end:
            return None
        self._place = end
        return typed_message(kind, bytes(memoryview(buffer)[place + 5 : end]))

    def _limit(self, kind: int) -> int:
        if not self.is_authenticated:
            return AUTHENTICATION_BYTES
        return self._message_bytes if kind in LONG else SHORT_BYTES

    def _take_first(self) -> Any:
        buffer, place = self._buffer, self._place
        if len(buffer) - place < 4:
            return None
        (length,) = _FIRST.unpack_from(buffer, place)
        if not 8 <= length <= FIRST_BYTES:
            raise ProtocolError("this is no start-up message of a PostgreSQL client")
        if len(buffer) - place < length:
            return None
        self._place = place + length
        return first_message(bytes(memoryview(buffer)[place + 4 : place + length]))
