"""Format of the write-ahead log. `wal` appends and replays.

A log is a folder of segments, `wal/<first index, 16 hex digits>.log`. All numbers are little-endian.

    segment header
    offset  bytes
    0       8      b"nyalaWAL"
    8       4      format version, u32
    12      4      CRC-32 of the header's other bytes, u32
    16      8      index of the segment's first entry, u64
    24      4      length of the schema, u32
    28      ...    Arrow IPC schema of the rows in the segment, one field per column; since version 3 its metadata
                   has the id of the tablet whose log it is

    entry
    0       4      length of the payload, u32
    4       4      CRC-32 of the length and the payload, u32
    8       8      term, u64             of the leader that proposed it; 1 without replication
    16      8      index, u64            one more than the entry before
    24      8      timestamp, u64        hybrid time
    32      8      durable index, u64    the writer knew all entries up to here to be synced
    40      1      kind: 1 WRITE, 2 LOAD, 3 ROW, 8 PART, 9 COMMIT; of replicas also 4 to 7, 10 PREPARE, 11 RESOLVE,
                   12 STAGE
    41      1      1 where the next entry is a part of the same write: all of them count, or none
    42      6      u48: all COMMITs of the store's commit log up to this one were durable when the entry was appended;
                   of a COMMIT itself: 1 where its parts were synced; 0 says nothing
    48      ...    body

    body of WRITE: one part after another, each padded to a multiple of 8 bytes; keys are unique
    0       4      number of rows, u32
    4       1      op code of all rows: 1 INSERT (whole rows), 4 UPDATE (key and new values), 5 DELETE (key)
    5       1      1
    6       2      number of columns, u16; 0: all columns of the segment's schema
    8       2      number of bitmaps, u16
    10      2      zeros
    12      4      length of the record batch message, u32
    16      ...    places of the columns in the segment's schema, u16 each
            ...    places, among these columns, of those that not all rows set, u16 each; padding to a multiple of 8
            ...    their bitmaps: 1 where a row sets the column, least significant bit first; padding
            ...    Arrow IPC record batch message

    body of WRITE in format version 1, whole rows that were inserted
    0       4      number of rows, u32
    4       1      op code of all rows, or 0: then one byte per row follows at 8
    5       3      zeros
    8       ...    op codes, padded to a multiple of 8 bytes; Arrow IPC record batch message

    body of PART (format version 3): as of WRITE. The rows are one tablet's part of a write over several tablets, which
    counts only where the store's commit log has a COMMIT of the same timestamp (`commit_log`)

    body of COMMIT: `commit_log`

    body of ROW: `storage.single_rows.wal_row`

    body of LOAD: msgpack of the list of new rowsets' metadata (`RowSetMetadata.to_dict`)

The durable index distinguishes damage from a torn tail. Entries are written one after the other and synced together, so
a power failure may leave any part of those since the last sync, with holes. If a later good entry has a durable index
of at least i, a bad entry at index i has been damaged since; otherwise it was never acknowledged. Entries of tablets
also record the durable end of the commit log, and its COMMITs those of tablets' logs (`commit_log`).
"""

from __future__ import annotations

import enum
import struct
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import field

import numpy as np
import pyarrow as pa

from ...errors import CorruptionError, UnsupportedFormat
from ...model.lazy_dataclass import dataclass
from ...model.schema import Schema
from ...model.store import Op
from ...model.vectors.vector import Array
from ..single_rows.wal_row import RowPart, decode_row

MAGIC = b"nyalaWAL"
COLUMN_ID = b"nyala.column_id"
"""Field metadata of logged rows: the column's permanent id."""
TABLET_ID = b"nyala.tablet"
"""Schema metadata of a segment: whose log it is."""
VERSION = 3
"""Version 1 logged whole rows that were inserted, and nothing else. Version 2 had no PART and COMMIT entries, and did
not name the tablet."""
_SEGMENT = struct.Struct("<8sIIQI")
_FRAME = struct.Struct("<II")
_PREFIX = struct.Struct("<QQQQB?IH")
_CHECKED_FRONT = struct.Struct("<IQQQQB?IH")
"""The length and the prefix: what the checksum covers in front of the body."""
_PART = struct.Struct("<IBBHH2xI")
_OLD_WRITE = struct.Struct("<IB3x")
ENTRY_OVERHEAD = _FRAME.size + _PREFIX.size
_INDEX_WINDOW = 1 << 24
"""Limit of the distance above the expected index of an entry after a damaged place."""


class EntryKind(enum.IntEnum):
    """Kind of an entry."""

    WRITE = 1
    LOAD = 2
    ROW = 3
    NO_OP = 4
    CONFIGURATION = 5
    ALTER = 6
    TRACKED = 7
    PART = 8
    COMMIT = 9
    PREPARE = 10
    RESOLVE = 11
    STAGE = 12


WRITES = (EntryKind.WRITE, EntryKind.PART)
"""The kinds of entries that are batches of rows."""


@dataclass(frozen=True, slots=True)
class LogEntry:
    """One entry as read from a segment; `body` is a view of the segment's bytes."""

    term: int
    index: int
    timestamp: int
    durable_index: int
    kind: EntryKind
    body: memoryview
    goes_on: bool = False
    """True if the next entry is a part of the same write, which is atomic."""
    witness: int = 0
    """Of a COMMIT: 1 where its parts were synced. Of other entries: the commit log was durable up to this COMMIT."""


@dataclass(frozen=True, slots=True)
class SegmentHeader:
    """Header of a segment; entries start at `length`."""

    first_index: int
    schema: pa.Schema
    length: int
    tablet_id: str = ""
    """Tablet of the log; "" in segments before version 3."""


@dataclass(frozen=True, slots=True)
class SegmentScan:
    """Contents of a segment: its good entries, and their end if that is before the end of the file."""

    entries: list[LogEntry]
    end: int
    """Offset behind the last good entry."""
    torn: bool
    """Bytes follow there that are no entry and were never acknowledged."""


# ---- writing -----------------------------------------------------------------------------------------------------


def encode_header(first_index: int, schema: pa.Schema, tablet_id: str = "") -> bytes:
    """The front of a segment of a tablet's log."""
    named = schema.with_metadata({TABLET_ID: tablet_id.encode()}) if tablet_id else schema
    serialized: bytes = named.serialize().to_pybytes()
    bare = _SEGMENT.pack(MAGIC, VERSION, 0, first_index, len(serialized)) + serialized
    return _SEGMENT.pack(MAGIC, VERSION, zlib.crc32(bare), first_index, len(serialized)) + serialized


def encode_front(
    term: int,
    index: int,
    timestamp: int,
    durable_index: int,
    kind: EntryKind,
    body: bytes,
    goes_on: bool = False,
    witness: int = 0,
) -> bytes:
    """The bytes in front of an entry's body; the parameters are as those of `LogEntry`."""
    front = _CHECKED_FRONT.pack(
        _PREFIX.size + len(body),
        term,
        index,
        timestamp,
        durable_index,
        kind,
        goes_on,
        witness & 0xFFFFFFFF,
        witness >> 32,
    )
    checksum = zlib.crc32(body, zlib.crc32(front))
    return front[:4] + checksum.to_bytes(4, "little") + front[4:]


@dataclass(frozen=True, slots=True, eq=False)
class WritePart:
    """Rows of a write that went through the same: what one op made of them.

    Parameters
    ----------
    op : Op
        INSERT, UPDATE or DELETE.
    rows : pa.RecordBatch
        INSERT: all columns of the segment's schema. UPDATE: the key and the columns that some row sets. DELETE: the
        key.
    places : tuple of int
        Where these columns stand in the segment's schema.
    isset : dict of int to ndarray of bool, shape (n_rows,)
        By place, for columns that not every row sets: which rows do.
    """

    op: Op
    rows: pa.RecordBatch
    places: tuple[int, ...]
    isset: dict[int, Array] = field(default_factory=dict)

    @property
    def row_count(self) -> int:
        """Number of rows."""
        count: int = self.rows.num_rows
        return count

    def slice(self, start: int, length: int) -> WritePart:
        """Some of the rows."""
        isset = {place: mask[start : start + length] for place, mask in self.isset.items()}
        return WritePart(self.op, self.rows.slice(start, length), self.places, isset)


def encode_write(parts: Sequence[WritePart], columns: int) -> bytes:
    """The body of a WRITE entry of a table with `columns` columns."""
    return b"".join(_encode_part(part, columns) for part in parts)


def _encode_part(part: WritePart, columns: int) -> bytes:
    places = () if len(part.places) == columns else part.places
    numbers = np.array([*places, *(part.places.index(place) for place in part.isset)], "<u2").tobytes()
    bitmaps = b"".join(np.packbits(mask, bitorder="little").tobytes() for mask in part.isset.values())
    message: bytes = part.rows.serialize().to_pybytes()
    head = _PART.pack(part.rows.num_rows, part.op, 1, len(places), len(part.isset), len(message))
    pieces = (numbers, bitmaps, message)
    return b"".join((head, *(piece for data in pieces for piece in (data, bytes(-len(data) % 8)))))


def log_schema(schema: Schema) -> pa.Schema:
    """The Arrow schema of logged rows; fields carry their column's id, so that later schemas can read them."""
    return pa.schema(
        [pa.field(c.name, c.type.arrow, c.nullable, {COLUMN_ID: str(c.id).encode()}) for c in schema.columns]
    )


# ---- reading -----------------------------------------------------------------------------------------------------


def entry_parts(entry: LogEntry, schema: pa.Schema) -> Sequence[WritePart | RowPart]:
    """The rows of an entry; none where it is no write. `schema` is that of the segment."""
    if entry.kind is EntryKind.ROW:
        return [decode_row(entry.body, schema)]
    return decode_write(entry.body, schema) if entry.kind in WRITES else []


def decode_write(body: memoryview | bytes, schema: pa.Schema) -> list[WritePart]:
    """The parts of a WRITE entry's body; the rows are views of its bytes. `schema` is that of the segment."""
    if len(body) > 5 and body[5] == 0:
        return [_decode_old_write(body, schema)]
    parts: list[WritePart] = []
    place = 0
    while place < len(body):
        part, place = _decode_part(body, place, schema)
        parts.append(part)
    return parts


def _decode_part(body: memoryview | bytes, place: int, schema: pa.Schema) -> tuple[WritePart, int]:
    rows, op, _, column_count, bitmap_count, length = _PART.unpack_from(body, place)
    place += _PART.size
    numbers = np.frombuffer(body, "<u2", column_count + bitmap_count, place).tolist()
    place = _after(place, 2 * len(numbers))
    places = tuple(numbers[:column_count]) or tuple(range(len(schema)))
    size = -(-rows // 8)
    isset = {}
    for number, column in enumerate(numbers[column_count:]):
        packed = np.frombuffer(body, np.uint8, size, place + number * size)
        isset[places[column]] = np.unpackbits(packed, count=rows, bitorder="little").view(np.bool_)
    place = _after(place, size * bitmap_count)
    given = pa.schema([schema.field(column) for column in places]) if column_count else schema
    batch = pa.ipc.read_record_batch(pa.py_buffer(body[place : place + length]), given)
    return WritePart(Op(op), batch, places, isset), _after(place, length)


def _after(place: int, length: int) -> int:
    return place + length + -length % 8


def _decode_old_write(body: memoryview | bytes, schema: pa.Schema) -> WritePart:
    rows, code = _OLD_WRITE.unpack_from(body)
    place = _OLD_WRITE.size
    if not code:
        place = _after(place, rows)
    batch = pa.ipc.read_record_batch(pa.py_buffer(body[place:]), schema)
    return WritePart(Op.INSERT, batch, tuple(range(len(schema))))


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
    tablet_id = (schema.metadata or {}).get(TABLET_ID, b"").decode()
    return SegmentHeader(first_index, schema.remove_metadata(), end, tablet_id)


def scan_entries(
    data: memoryview, start: int, expected: int, path: str, is_last: bool, known_index: int = 0, origin: int = 0
) -> SegmentScan:
    """All entries of a segment, or some.

    Parameters
    ----------
    data : memoryview
        The whole segment, or a piece of it that begins at offset `origin`.
    start : int
        Where entries begin.
    expected : int
        Index of the first one.
    is_last : bool
        Only the newest segment of a log may have a torn tail: older ones were synced before the next was begun.
    known_index : int
        Entries up to here are known to have been durable.

    Raises `CorruptionError` naming the offset of a bad entry that was durable once.
    """
    entries: list[LogEntry] = []
    place = start
    while place < len(data):
        entry = _entry_at(data, place)
        if entry is None or entry.index != expected:
            reason = _damage(data, place, expected, entry)
            if not is_last or expected <= known_index or _has_witness(data, place + 1, expected):
                raise CorruptionError(reason, path, f"entry {expected} at offset {origin + place}")
            return SegmentScan(entries, place, torn=True)
        entries.append(entry)
        expected += 1
        place += ENTRY_OVERHEAD + len(entry.body)
    return SegmentScan(entries, place, torn=False)


def find_entry(data: memoryview, start: int) -> LogEntry | None:
    """The first good entry at or behind `start`, at any offset and of any index."""
    return next(_entries_behind(data, start, 0, 1 << 63), None)


def _has_witness(data: memoryview, start: int, index: int) -> bool:
    """True if a later good entry records that entry `index` was durable."""
    return any(e.durable_index >= index for e in _entries_behind(data, start, index + 1, index + _INDEX_WINDOW))


def _entry_at(data: memoryview, place: int) -> LogEntry | None:
    if place + ENTRY_OVERHEAD > len(data):
        return None
    length, checksum = _FRAME.unpack_from(data, place)
    begin = place + _FRAME.size
    if not _PREFIX.size <= length <= len(data) - begin:
        return None
    payload = data[begin : begin + length]
    if zlib.crc32(payload, zlib.crc32(len(payload).to_bytes(4, "little"))) != checksum:
        return None
    term, index, timestamp, durable_index, kind, goes_on, low, high = _PREFIX.unpack_from(payload)
    if kind not in _KINDS:
        return None
    body = payload[_PREFIX.size :]
    return LogEntry(term, index, timestamp, durable_index, EntryKind(kind), body, goes_on, high << 32 | low)


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
        return f"the entry's length {length} is invalid"
    return "the checksum does not match"
