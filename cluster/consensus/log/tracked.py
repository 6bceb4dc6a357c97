"""TRACKED entries: a client's write, with the result that is returned for a retry of the call.

    body
    offset  bytes
    0       16     client, a UUID
    16      8      sequence number of the call, u64
    24      8      first incomplete call of the client, u64: results below may be dropped
    32      4      length of the result, u32
    36      1      kind of the entry within: 1 WRITE, 3 ROW, 11 RESOLVE
    37      1      1: the result is kept until it is forgotten on purpose, 0: until the client is idle
    38      2      zeros
    40      ...    result, padded to a multiple of 8 bytes
            ...    body of the entry within

The rows of a write and the record of its call are one entry: no replica ever has one without the other (Kudu's
"exactly-once semantics", after RIFL, Lee et al., SOSP 2015).
"""

from __future__ import annotations

import struct

from msgspec import Struct

from ....errors import CorruptionError
from ....storage.log.wal_format import EntryKind, LogEntry
from ...raft.messages import Entry

_HEADER = struct.Struct("<16sQQIB?2x")


class CallHeader(Struct, frozen=True, gc=False):
    """The call id of a client's write (`wire.messages.methods.Call`), and its result as bytes."""

    client: str
    sequence: int
    first_incomplete: int
    result: bytes
    is_lasting: bool = False
    """The outcome of a transaction, which is needed until all its parts have ended."""


def encode_tracked(header: CallHeader, kind: EntryKind, body: bytes) -> bytes:
    """Returns the body of a TRACKED entry around an entry of another kind. `ValueError` if the client is no UUID in
    hex."""
    client = bytes.fromhex(header.client)
    if len(client) != 16:
        raise ValueError(f"client {header.client!r} is not a UUID of 32 hexadecimal digits")
    result = header.result
    front = _HEADER.pack(client, header.sequence, header.first_incomplete, len(result), kind, header.is_lasting)
    return b"".join((front, result, bytes(-len(result) % 8), body))


def decode_tracked(body: bytes | memoryview, place: str = "TRACKED entry") -> tuple[CallHeader, EntryKind, memoryview]:
    """Returns header, kind and body (a view) of the entry within; raises `CorruptionError` for an invalid body."""
    view = memoryview(body)
    if len(view) < _HEADER.size:
        raise CorruptionError(f"{len(view)} bytes are too few for a header", "log", place)
    client, sequence, first_incomplete, length, kind, is_lasting = _HEADER.unpack_from(view)
    end = _HEADER.size + length
    start = end + -length % 8
    if start > len(view):
        raise CorruptionError(f"a result of {length} bytes goes beyond the entry's end", "log", place)
    result = bytes(view[_HEADER.size : end])
    header = CallHeader(client.hex(), sequence, first_incomplete, result, is_lasting)
    return header, EntryKind(kind), view[start:]


def as_log_entry(entry: Entry) -> tuple[LogEntry, CallHeader | None]:
    """Returns an entry in the form that storage replays; for a TRACKED one the entry within, and its header."""
    header: CallHeader | None = None
    kind, body = EntryKind(entry.kind), memoryview(entry.body)
    if kind is EntryKind.TRACKED:
        header, kind, body = decode_tracked(body, f"entry {entry.index}")
    return LogEntry(entry.term, entry.index, entry.timestamp, 0, kind, body), header
