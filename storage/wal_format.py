"""The bytes of the write-ahead log. `wal` appends and replays; here is only what they look like.

A log is a folder of segments, `wal/<first index, 16 hex digits>.log`. All numbers are little-endian.

    segment header
    offset  bytes
    0       8      b"nyalaWAL"
    8       4      format version, u32
    12      4      CRC-32 of the header's other bytes, u32
    16      8      index of the segment's first entry, u64
    24      4      length of the schema, u32
    28      ...    Arrow IPC schema of the rows in the segment, one field per column

    entry
    0       4      length of the payload, u32
    4       4      CRC-32 of the length and the payload, u32
    8       8      term, u64             of the leader that proposed it; 1 without replication
    16      8      index, u64            one more than the entry before
    24      8      timestamp, u64        hybrid time
    32      8      durable index, u64    the writer knew all entries up to here to be synced
    40      1      kind: 1 WRITE, 2 LOAD
    41      7      zeros
    48      ...    body

    body of WRITE
    0       4      number of rows, u32
    4       1      op code of all rows, or 0: then one byte per row follows at 8
    5       3      zeros
    8       ...    op codes, padded to a multiple of 8 bytes; Arrow IPC record batch message

    body of LOAD: msgpack of the list of new rowsets' metadata (`RowSetMetadata.to_dict`)

The durable index tells damage from a torn tail. Entries are written one after the other and synced together, so a
power failure may leave any part of those since the last sync, with holes. A bad entry at index i, behind which some
good entry says that i was durable, has been damaged since; one without such a witness was never acknowledged.
"""

from __future__ import annotations

import enum
import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from ..errors import CorruptionError, UnsupportedFormat
from .store import Op
from .vector import Array

MAGIC = b"nyalaWAL"
VERSION = 1
_SEGMENT = struct.Struct("<8sIIQI")
_FRAME = struct.Struct("<II")
_PREFIX = struct.Struct("<QQQQB7x")
_WRITE = struct.Struct("<IB3x")
ENTRY_OVERHEAD = _FRAME.size + _PREFIX.size
_INDEX_WINDOW = 1 << 24
"""How far above the expected index an entry behind a damaged place may lie."""


class EntryKind(enum.IntEnum):
    """What an entry holds."""

    WRITE = 1
    LOAD = 2


@dataclass(frozen=True, slots=True)
class LogEntry:
    """One entry as read from a segment; `body` is a view of the segment's bytes."""

    term: int
    index: int
    timestamp: int
    durable_index: int
    kind: EntryKind
    body: memoryview


@dataclass(frozen=True, slots=True)
class SegmentHeader:
    """What stands at the front of a segment; entries start at `length`."""

    first_index: int
    schema: pa.Schema
    length: int


@dataclass(frozen=True, slots=True)
class SegmentScan:
    """What a segment holds: its good entries, and where they end if that is before the end of the file."""

    entries: list[LogEntry]
    end: int
    """Offset behind the last good entry."""
    torn: bool
    """Bytes follow there that are no entry and were never acknowledged."""


# ---- writing -----------------------------------------------------------------------------------------------------


def encode_header(first_index: int, schema: pa.Schema) -> bytes:
    """The front of a segment."""
    serialized: bytes = schema.serialize().to_pybytes()
    bare = _SEGMENT.pack(MAGIC, VERSION, 0, first_index, len(serialized)) + serialized
    return _SEGMENT.pack(MAGIC, VERSION, zlib.crc32(bare), first_index, len(serialized)) + serialized


def encode_front(term: int, index: int, timestamp: int, durable_index: int, kind: EntryKind, body: bytes) -> bytes:
    """What stands in front of an entry's body."""
    prefix = _PREFIX.pack(term, index, timestamp, durable_index, kind)
    length = _PREFIX.size + len(body)
    checksum = zlib.crc32(body, zlib.crc32(prefix, zlib.crc32(length.to_bytes(4, "little"))))
    return _FRAME.pack(length, checksum) + prefix


def encode_write(rows: pa.RecordBatch, ops: Op | Array) -> bytes:
    """The body of a WRITE entry. `ops`: one for all rows, or ndarray of uint8, shape (n_rows,)."""
    message: bytes = rows.serialize().to_pybytes()
    if isinstance(ops, Op):
        return _WRITE.pack(rows.num_rows, ops) + message
    codes = ops.tobytes()
    return _WRITE.pack(rows.num_rows, 0) + codes + bytes(-len(codes) % 8) + message


def _checksum(payload: bytes | memoryview) -> int:
    return zlib.crc32(payload, zlib.crc32(len(payload).to_bytes(4, "little")))


# ---- reading -----------------------------------------------------------------------------------------------------


def decode_write(body: memoryview | bytes, schema: pa.Schema) -> tuple[pa.RecordBatch, Op | Array]:
    """The rows and op codes of a WRITE entry's body; the rows are a view of its bytes."""
    rows, code = _WRITE.unpack_from(body)
    place = _WRITE.size
    ops: Op | Array
    if code:
        ops = Op(code)
    else:
        ops = np.frombuffer(body, np.uint8, rows, place)
        place += rows + -rows % 8
    return pa.ipc.read_record_batch(pa.py_buffer(body[place:]), schema), ops


def decode_header(data: memoryview, path: str) -> SegmentHeader:
    """The header of a segment; `CorruptionError` where it is damaged or cut short."""
    if len(data) < _SEGMENT.size:
        raise CorruptionError(f"{len(data)} bytes are too few for a header", path, "header at offset 0")
    magic, version, checksum, first_index, length = _SEGMENT.unpack_from(data)
    end = _SEGMENT.size + length
    bare = _SEGMENT.pack(magic, version, 0, first_index, length) + bytes(data[_SEGMENT.size : end])
    if magic != MAGIC or end > len(data) or zlib.crc32(bare) != checksum:
        raise CorruptionError("the header is damaged", path, "header at offset 0")
    if version > VERSION:
        raise UnsupportedFormat(f"{path} has log format version {version}; this nyala reads up to {VERSION}")
    schema = pa.ipc.read_schema(pa.py_buffer(data[_SEGMENT.size : end]))
    return SegmentHeader(first_index, schema, end)


def scan_entries(data: memoryview, start: int, expected: int, path: str, is_last: bool) -> SegmentScan:
    """All entries of a segment.

    Parameters
    ----------
    data : memoryview
        The whole segment.
    start : int
        Where entries begin.
    expected : int
        Index of the first one.
    is_last : bool
        Only the newest segment of a log may have a torn tail: older ones were synced before the next was begun.

    Raises `CorruptionError` naming the offset of a bad entry that was durable once.
    """
    entries: list[LogEntry] = []
    place = start
    while place < len(data):
        entry = _entry_at(data, place)
        if entry is None or entry.index != expected:
            reason = _damage(data, place, expected, entry)
            if not is_last or _has_witness(data, place + 1, expected):
                raise CorruptionError(reason, path, f"entry {expected} at offset {place}")
            return SegmentScan(entries, place, torn=True)
        entries.append(entry)
        expected += 1
        place += ENTRY_OVERHEAD + len(entry.body)
    return SegmentScan(entries, place, torn=False)


def find_entry(data: memoryview, start: int) -> LogEntry | None:
    """The first good entry at or behind `start`, at any offset and of any index."""
    return next(_entries_behind(data, start, 0, 1 << 63), None)


def _has_witness(data: memoryview, start: int, index: int) -> bool:
    """Does a good entry behind say that entry `index` was durable?"""
    return any(e.durable_index >= index for e in _entries_behind(data, start, index + 1, index + _INDEX_WINDOW))


def _entry_at(data: memoryview, place: int) -> LogEntry | None:
    if place + ENTRY_OVERHEAD > len(data):
        return None
    length, checksum = _FRAME.unpack_from(data, place)
    begin = place + _FRAME.size
    if not _PREFIX.size <= length <= len(data) - begin:
        return None
    payload = data[begin : begin + length]
    if _checksum(payload) != checksum:
        return None
    term, index, timestamp, durable_index, kind = _PREFIX.unpack_from(payload)
    if kind not in _KINDS:
        return None
    return LogEntry(term, index, timestamp, durable_index, EntryKind(kind), payload[_PREFIX.size :])


_KINDS = frozenset(EntryKind)


def _entries_behind(data: memoryview, start: int, low: int, high: int) -> Iterator[LogEntry]:
    """Good entries at any offset from `start` on whose index is in `low` to `high` (exclusive)."""
    room = len(data) - ENTRY_OVERHEAD - start + 1
    if room <= 0:
        return
    raw = np.frombuffer(data, np.uint8)
    # Overlapping words at every offset: the cheap conditions first, the checksum only for what is left.
    lengths: Array = np.ndarray((room,), "<u4", raw, start, (1,))
    indexes: Array = np.ndarray((room,), "<u8", raw, start + _FRAME.size + 8, (1,))
    left = (len(data) - _FRAME.size - start) - np.arange(room, dtype=np.int64)
    plausible = (lengths >= _PREFIX.size) & (lengths <= left) & (indexes >= low) & (indexes < high)
    for offset in np.flatnonzero(plausible).tolist():
        entry = _entry_at(data, start + offset)
        if entry is not None:
            yield entry


def _damage(data: memoryview, place: int, expected: int, entry: LogEntry | None) -> str:
    if entry is not None:
        return f"expected entry {expected}, found entry {entry.index}"
    left = len(data) - place
    if left < ENTRY_OVERHEAD:
        return f"{left} bytes are too few for an entry"
    length = _FRAME.unpack_from(data, place)[0]
    if not _PREFIX.size <= length <= left - _FRAME.size:
        return f"the entry's length {length} cannot be"
    return "the checksum does not match"
