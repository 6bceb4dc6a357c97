"""Frames: the division of a byte stream into calls, replies and messages. No I/O.

    preamble   "nyala" | 0 | version u16               the first 8 bytes in each direction
    frame      size u32 | kind u8 | number u32 | body  `size` counts what follows it: 5 + bytes of the body

    client ──► preamble, HELLO                         server ──► preamble, WELCOME    or REFUSED and the end
    client ──► CALL 7, CALL 8, CANCEL 7, MESSAGE       server ──► REPLY 8, REPLY 7     in any order

All numbers are big-endian. The preamble stays the same in all versions, so that two versions can report that they
differ. The body of REFUSED is a text in UTF-8; the bodies of the others belong to the callers of this module.

Worked example: the call 7 with the body "ab" is `00 00 00 07  04  00 00 00 07  61 62`.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Final, TypeAlias

from ..errors import ProtocolError

VERSION: Final = 2
"""Of the protocol: incremented by each incompatible change of frames or of the bodies that servers exchange."""
MAGIC: Final = b"nyala\x00"
_PREAMBLE: Final = struct.Struct(">6sH")
_HEAD: Final = struct.Struct(">IBI")
PREAMBLE: Final = _PREAMBLE.pack(MAGIC, VERSION)
HEAD_BYTES: Final = _HEAD.size
_COUNTED: Final = HEAD_BYTES - 4
"""Bytes of the head that `size` counts."""

HELLO: Final = 1
WELCOME: Final = 2
REFUSED: Final = 3
CALL: Final = 4
REPLY: Final = 5
CANCEL: Final = 6
MESSAGE: Final = 7
NAMES: Final = {
    HELLO: "HELLO",
    WELCOME: "WELCOME",
    REFUSED: "REFUSED",
    CALL: "CALL",
    REPLY: "REPLY",
    CANCEL: "CANCEL",
    MESSAGE: "MESSAGE",
}

Frame: TypeAlias = tuple[int, int, bytes]
"""Kind, number, body."""


def frame_head(kind: int, number: int, size: int) -> bytes:
    """Returns the bytes before a body of `size` bytes.

    >>> frame_head(CALL, 7, 2).hex(" ")
    '00 00 00 07 04 00 00 00 07'
    """
    return _HEAD.pack(_COUNTED + size, kind, number)


def frame(kind: int, number: int = 0, body: bytes = b"") -> bytes:
    """Returns a whole frame."""
    return _HEAD.pack(_COUNTED + len(body), kind, number) + body


class FrameReader:
    """Parses one direction of a connection. For one thread.

    Parameters
    ----------
    limits : mapping
        The accepted kinds of frames, with the largest body of each in bytes.
    """

    __slots__ = ("_limits", "_needed", "_pending", "_preamble")

    def __init__(self, limits: Mapping[int, int]):
        self._limits = limits
        self._pending = bytearray()
        self._needed = _PREAMBLE.size
        """Bytes that `_pending` must have before anything more can be parsed."""
        self._preamble = False

    @property
    def buffered(self) -> int:
        """Bytes of an incomplete frame."""
        return len(self._pending)

    def feed(self, data: bytes | memoryview) -> list[Frame]:
        """Returns the frames that these bytes complete. Raises `ProtocolError` if the stream is not of this protocol;
        the reader must not be used again then."""
        pending = self._pending
        if not pending:
            found, used = self._parsed(memoryview(data))
            if used < len(data):
                pending += data[used:]
            return found
        pending += data
        if not self._preamble:
            _check_magic(pending)
        if len(pending) < self._needed:
            return []
        with memoryview(pending) as whole:
            found, used = self._parsed(whole)
        del pending[:used]
        return found

    def _parsed(self, data: memoryview) -> tuple[list[Frame], int]:
        """Returns the complete frames at the beginning of the data, and their bytes."""
        found: list[Frame] = []
        place, size = 0, len(data)
        if not self._preamble:
            if size < _PREAMBLE.size:
                _check_magic(data)
                self._needed = _PREAMBLE.size
                return found, 0
            check_preamble(data)
            self._preamble, place = True, _PREAMBLE.size
        while size - place >= HEAD_BYTES:
            counted, kind, number = _HEAD.unpack_from(data, place)
            most = self._limits.get(kind, -1)
            if not _COUNTED <= counted <= most + _COUNTED:
                raise _refusal(kind, counted, most)
            end = place + 4 + counted
            if end > size:
                self._needed = end - place
                return found, place
            found.append((kind, number, bytes(data[place + HEAD_BYTES : end])))
            place = end
        self._needed = HEAD_BYTES
        return found, place


def _refusal(kind: int, counted: int, most: int) -> ProtocolError:
    if most < 0:
        return ProtocolError(f"a frame of the unexpected kind {NAMES.get(kind, kind)}")
    if counted < _COUNTED:
        return ProtocolError(f"a malformed frame: its size {counted} is less than that of its head")
    return ProtocolError(f"a frame of {counted - _COUNTED} bytes is too large: this side accepts up to {most}")


def _check_magic(data: bytes | bytearray | memoryview) -> None:
    """Raises `ProtocolError` as soon as the first bytes differ from a preamble's."""
    begun = bytes(data[: len(MAGIC)])
    if not MAGIC.startswith(begun):
        raise ProtocolError(f"this is no connection of nyala: it begins with {begun!r} instead of {MAGIC!r}")


def check_preamble(data: bytes | memoryview) -> None:
    """Raises `ProtocolError` unless these bytes begin with the preamble of this version."""
    _check_magic(data)
    _, version = _PREAMBLE.unpack_from(data)
    if version != VERSION:
        raise ProtocolError(
            f"the other side speaks version {version} of the protocol; this side speaks version {VERSION}"
        )
