"""PREPARE, STAGE and RESOLVE entries: a tablet's part of a transaction over several tablets, and its outcome.

    body of PREPARE
    offset  bytes
    0       4      length of the note, u32
    4       4      zeros
    8       ...    note: MessagePack of `PreparedNote`, padded to a multiple of 8 bytes
            ...    rows, as the body of a WRITE entry; the entry's timestamp is theirs until RESOLVE

    body of STAGE: as of PREPARE, with a `StagedNote`. A part that is too large for one entry has its rows in several of
    these; the PREPARE entry behind them has none. Its timestamp is that of all rows

    body of RESOLVE
    0       ...    MessagePack of `Resolution`

The tablet that decides has its RESOLVE within a TRACKED entry, whose client is the transaction: the outcome is recorded
in the exactly-once table, so every later request to decide, from anyone, gets the first outcome.
"""

from __future__ import annotations

import struct

import msgspec
from msgspec import Struct

from ....errors import CorruptionError
from ...decoders import msgpack_decoder

_FRONT = struct.Struct("<I4x")


class PreparedNote(Struct, frozen=True, array_like=True):
    """The transaction of a prepared write.

    Parameters
    ----------
    transaction : str
        Its id: a UUID in hex.
    table_id, tablet_id : str
        The tablet that decides.
    forgotten : tuple of str
        Earlier transactions that this tablet has decided, and all of whose parts have ended.
    staged : int
        Number of STAGE entries that have the rows; 0: the entry itself has them.
    seconds : float
        Seconds for which the part may stay prepared before its leader requests the outcome, if more than the usual
        ones: parts of many rows take long to prepare.
    """

    transaction: str
    table_id: str
    tablet_id: str
    forgotten: tuple[str, ...] = ()
    staged: int = 0
    seconds: float = 0.0


class StagedNote(Struct, frozen=True, array_like=True):
    """Some rows of a part of a transaction.

    Parameters
    ----------
    transaction, table_id, tablet_id : str
        As in `PreparedNote`.
    number : int
        Of the entry among those of the part, from 0.
    version : int
        The version of the table.
    rows : int
        Number of rows.
    """

    transaction: str
    table_id: str
    tablet_id: str
    number: int
    version: int
    rows: int


class Resolution(Struct, frozen=True, array_like=True):
    """The outcome of a transaction at one tablet; `timestamp`: the commit timestamp, 0 if it is aborted."""

    transaction: str
    timestamp: int

    @property
    def is_committed(self) -> bool:
        """True if the transaction is committed."""
        return self.timestamp > 0


_encode = msgspec.msgpack.Encoder().encode
_decode_note = msgpack_decoder(PreparedNote).decode
_decode_staged = msgpack_decoder(StagedNote).decode
_decode_resolution = msgpack_decoder(Resolution).decode


def encode_note(note: PreparedNote | StagedNote) -> bytes:
    """Returns a note as bytes."""
    return _encode(note)


def decode_note(data: bytes | memoryview) -> PreparedNote:
    """Inverse of `encode_note`."""
    return _decode_note(data)


def decode_staged(data: bytes | memoryview) -> StagedNote:
    """Inverse of `encode_note` for the note of a STAGE entry."""
    return _decode_staged(data)


def encode_prepare(note: bytes, rows: bytes) -> bytes:
    """Returns the body of a PREPARE or STAGE entry from an encoded note and the body of a WRITE entry."""
    return b"".join((_FRONT.pack(len(note)), note, bytes(-len(note) % 8), rows))


def decode_prepare(body: memoryview, place: str) -> tuple[bytes, memoryview]:
    """Returns the encoded note and the rows (a view); raises `CorruptionError` for an invalid body."""
    if len(body) < _FRONT.size:
        raise CorruptionError(f"{len(body)} bytes are too few for an entry with a note", "log", place)
    (length,) = _FRONT.unpack_from(body)
    end = _FRONT.size + length
    start = end + -length % 8
    if start > len(body):
        raise CorruptionError(f"a note of {length} bytes goes beyond the entry's end", "log", place)
    return bytes(body[_FRONT.size : end]), body[start:]


def encode_resolution(resolution: Resolution) -> bytes:
    """Returns the body of a RESOLVE entry."""
    return _encode(resolution)


def decode_resolution(body: bytes | memoryview, place: str) -> Resolution:
    """Inverse of `encode_resolution`; raises `CorruptionError` for an invalid body."""
    try:
        return _decode_resolution(body)
    except (msgspec.DecodeError, ValueError) as error:
        raise CorruptionError(f"a RESOLVE entry cannot be read: {error}", "log", place) from None
