"""The segment files of a replicated log: written, read by index, truncated, removed.

The bytes are those of the embedded log (`storage.log.wal_format`). The offset of every entry is kept in memory for each
file, so any entry can be read with one read:

    wal/0000000000000001.log    offsets 628, 704, 1312, ...       removed as a whole, oldest first
    wal/00000000000000a7.log    offsets 628, 9020, ...   size     appended to; truncated at an entry's end

A segment has one schema for all its rows, so the entry after an ALTER begins a new one. All segments but the newest are
completely synced. Truncation removes whole segments newest first and one by one, so that a crash in its middle leaves a
log without gaps.
"""

from __future__ import annotations

import contextlib
import threading
from array import array
from bisect import bisect_right
from collections.abc import Callable, Sequence

import pyarrow as pa

from ....errors import CorruptionError, DiskError
from ....model.lazy_dataclass import dataclass
from ....storage.files.file_identity import tablet_of
from ....storage.files.filesystem import FileSystem, WritableFile
from ....storage.log.wal_format import (
    ENTRY_OVERHEAD,
    EntryKind,
    LogEntry,
    encode_front,
    encode_header,
    scan_entries,
)
from ....storage.log.wal_recovery import recover_segment, segment_index
from ...raft.messages import Entry

_WRITE_BYTES = 1 << 20
"""Entries are joined up to about this size for one write call."""

Visit = Callable[[LogEntry, pa.Schema], None]
"""Called with each entry that recovery reads; the schema is that of the segment's rows."""


@dataclass(slots=True, eq=False)
class LogSegment:
    """A segment file; `offsets` has the beginnings of its entries, `size` is the end of the last one."""

    path: str
    first_index: int
    schema: pa.Schema
    offsets: array[int]
    size: int

    @property
    def last_index(self) -> int:
        """The index of the last entry; the one before the first entry if there is none."""
        return self.first_index + len(self.offsets) - 1


class LogSegments:
    """The segments of a log; see the module's page.

    One thread at a time writes, syncs, truncates, removes and closes (the caller ensures that). Any number of threads
    read concurrently, but not entries that are being truncated. `_mutex` guards the list of segments and their offsets;
    it is never held during disk work, except to open a file.
    """

    def __init__(self, fs: FileSystem, directory: str, segment_bytes: int):
        self._fs = fs
        self._directory = directory
        self._segment_bytes = segment_bytes
        self._segments: list[LogSegment] = []
        self._file: WritableFile | None = None
        """The newest segment, once it is written to."""
        self._is_synced = True
        self._mutex = threading.Lock()

    # ---- recovery ------------------------------------------------------------------------------------------------

    @classmethod
    def recover(
        cls, fs: FileSystem, directory: str, segment_bytes: int, base_index: int, known_index: int, visit: Visit
    ) -> LogSegments:
        """Opens the segments after entry `base_index`, and passes all their entries in order to the callback.

        A torn tail is truncated. Raises `CorruptionError` if an entry that was durable is damaged or missing; those up
        to `known_index` were.
        """
        segments = cls(fs, directory, segment_bytes)
        expected = base_index + 1
        names = [name for name in fs.list(directory) if name.endswith(".log")]
        for name, follower in zip(names, [*names[1:], None]):
            path = f"{directory}/{name}"
            if follower is not None and segment_index(directory, follower) <= base_index + 1:
                fs.remove(path)  # the tablet's files have all its entries: a removal that a crash undid
                continue
            segment = _recover(fs, path, expected, follower is None, base_index, known_index, visit)
            if segment is None:
                fs.remove(path)
                # Durably: an empty segment that reappeared after a later truncation would leave a gap.
                fs.sync_directory(directory)
                continue
            expected = segment.last_index + 1
            segments._segments.append(segment)
        if expected <= known_index:
            path = segments._segments[-1].path if segments._segments else directory
            raise CorruptionError(
                f"the log ends with entry {expected - 1}, but went on to entry {known_index}", path, "end"
            )
        if segments._segments:
            # Entries of a killed process may be in the system's memory alone; from now on they count as durable.
            segments._is_synced = False
            segments.sync()
        return segments

    # ---- state ---------------------------------------------------------------------------------------------------

    @property
    def size(self) -> int:
        """Bytes of all segments."""
        with self._mutex:
            return sum(segment.size for segment in self._segments)

    def size_from(self, index: int) -> int:
        """Returns the bytes of the segments that must stay because of entry `index` and later ones."""
        with self._mutex:
            return sum(s.size for s in self._segments if s.last_index >= index or s is self._segments[-1])

    @property
    def finished_index(self) -> int:
        """Last entry of the finished segments; 0 if there is none."""
        with self._mutex:
            return self._segments[-2].last_index if len(self._segments) > 1 else 0

    def index_before(self, index: int, max_bytes: int) -> int:
        """Returns the last entry before the newest segments that end at or before `index` and together have at most
        `max_bytes`; 0 if all segments are among those."""
        with self._mutex:
            for segment in reversed(self._segments[:-1]):
                if segment.last_index <= index:
                    max_bytes -= segment.size
                    if max_bytes < 0:
                        return segment.last_index
        return 0

    def removable_index(self, index: int) -> int:
        """Returns the last entry of the newest removable segment: not the newest one, and all entries at or below
        `index`; 0 if there is none."""
        with self._mutex:
            return max((s.last_index for s in self._segments[:-1] if s.last_index <= index), default=0)

    # ---- writing -------------------------------------------------------------------------------------------------

    def write(self, entries: Sequence[Entry], durable_index: int, schema_at: Callable[[int], pa.Schema]) -> None:
        """Writes entries after the last one; `durable_index` is recorded with them. After a `DiskError` it is unknown
        how much of them is in the file."""
        place = 0
        while place < len(entries):
            first = entries[place]
            segment = self._room_for(ENTRY_OVERHEAD + len(first.body), first.index, schema_at(first.index))
            place = self._write_some(segment, entries, place, durable_index)

    def _write_some(self, segment: LogSegment, entries: Sequence[Entry], place: int, durable_index: int) -> int:
        assert self._file is not None, "there is room in the newest segment"
        offsets: list[int] = []
        pieces: list[bytes] = []
        size = segment.size
        for entry in entries[place:]:
            body = entry.body
            after = size + ENTRY_OVERHEAD + len(body)
            if offsets and (after > self._segment_bytes or after - segment.size > _WRITE_BYTES):
                break
            front = encode_front(entry.term, entry.index, entry.timestamp, durable_index, EntryKind(entry.kind), body)
            offsets.append(size)
            pieces += (front, body)
            size = after
            if entry.kind == EntryKind.ALTER:
                break
        self._is_synced = False
        self._file.write(b"".join(pieces))
        with self._mutex:
            segment.offsets.extend(offsets)
            segment.size = size
        return place + len(offsets)

    def _room_for(self, size: int, index: int, schema: pa.Schema) -> LogSegment:
        """Returns the segment for the next entry of this size, open for writing."""
        newest = self._segments[-1] if self._segments else None
        # Schemas are compared by identity: each ALTER makes a new object, even with the same columns.
        if newest is not None and newest.schema is schema:
            if not newest.offsets or newest.size + size <= self._segment_bytes:
                if self._file is None:
                    self._file = self._fs.append(newest.path)
                return newest
        self.sync()
        self._close_file()
        return self._begin(index, schema)

    def _begin(self, first_index: int, schema: pa.Schema) -> LogSegment:
        path = f"{self._directory}/{first_index:016x}.log"
        header = encode_header(first_index, schema, tablet_of(path))
        file = self._fs.create(path)
        try:
            file.write(header)
            # The header and the name are durable before any entry is, so a bad header means an empty segment.
            file.sync()
            self._fs.sync_directory(self._directory)
        except DiskError:
            file.close()
            with contextlib.suppress(DiskError):
                self._fs.remove(path)
            raise
        self._file = file
        segment = LogSegment(path, first_index, schema, array("Q"), len(header))
        with self._mutex:
            self._segments.append(segment)
        return segment

    def sync(self) -> None:
        """Syncs everything written."""
        if self._is_synced or not self._segments:  # the written entries may have been truncated, with their file
            return
        if self._file is None:
            self._file = self._fs.append(self._segments[-1].path)
        self._file.sync()
        self._is_synced = True

    def cut(self, last_index: int) -> None:
        """Durably removes the entries after `last_index`."""
        self._close_file()
        while self._segments and self._segments[-1].first_index > last_index:
            self._fs.remove(self._segments[-1].path)
            self._fs.sync_directory(self._directory)
            with self._mutex:
                del self._segments[-1]
        if not self._segments or self._segments[-1].last_index <= last_index:
            return
        newest = self._segments[-1]
        kept = last_index + 1 - newest.first_index
        self._fs.truncate(newest.path, newest.offsets[kept])
        with self._mutex:
            newest.size = newest.offsets[kept]
            del newest.offsets[kept:]

    def restore(self, last_index: int) -> None:
        """Removes the entries after `last_index`, and the remains of a failed write after them."""
        self.cut(last_index)
        if self._segments:
            newest = self._segments[-1]
            self._fs.truncate(newest.path, newest.size)
        self._is_synced = False

    def remove_through(self, index: int) -> None:
        """Removes the segments, except the newest, all of whose entries are at or below `index`, oldest first."""
        while True:
            with self._mutex:
                if len(self._segments) < 2 or self._segments[0].last_index > index:
                    return
                oldest = self._segments.pop(0)
            self._fs.remove(oldest.path)

    def close(self) -> None:
        """Closes the file without syncing."""
        self._close_file()

    def _close_file(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    # ---- reading -------------------------------------------------------------------------------------------------

    def read(self, first: int, last: int, max_bytes: int) -> list[Entry]:
        """Returns entries `first` to `last`, at least one, as far as one segment and `max_bytes` go. Raises
        `IndexError` if they were removed, `CorruptionError` if they are damaged."""
        with self._mutex:
            place = bisect_right(self._segments, first, key=lambda s: s.first_index) - 1
            if place < 0:
                raise IndexError(f"the files of the log no longer have entry {first}")
            segment = self._segments[place]
            low = first - segment.first_index
            start = segment.offsets[low]
            high = max(low + 1, bisect_right(segment.offsets, start + max_bytes) - 1)
            if segment.size <= start + max_bytes:
                high = len(segment.offsets)
            high = min(high, last + 1 - segment.first_index)
            end = segment.offsets[high] if high < len(segment.offsets) else segment.size
            # Opened under the mutex, since the file may be removed at any other time; read without it.
            file = self._fs.open(segment.path)
        try:
            data = memoryview(file.read_at(start, end - start))
        finally:
            file.close()
        scan = scan_entries(data, 0, first, segment.path, is_last=False, origin=start)
        if len(scan.entries) != high - low:
            raise CorruptionError(
                f"expected {high - low} entries from {first} on, found {len(scan.entries)}",
                segment.path,
                f"offset {start}",
            )
        return [Entry(e.term, e.index, e.timestamp, int(e.kind), bytes(e.body)) for e in scan.entries]


def _recover(
    fs: FileSystem, path: str, expected: int, is_last: bool, base_index: int, known_index: int, visit: Visit
) -> LogSegment | None:
    """Recovers one segment; None if it is not needed."""
    directory, _, name = path.rpartition("/")
    first = segment_index(directory, name)
    if first > expected:
        raise CorruptionError(f"expected a log from entry {expected} on, found one from {first} on", path, "file name")
    lengths = array("Q")
    schemas: list[pa.Schema] = []

    def take(entry: LogEntry, schema: pa.Schema) -> None:
        lengths.append(ENTRY_OVERHEAD + len(entry.body))
        if not schemas:
            schemas.append(schema)
        if entry.index > base_index:
            visit(entry, schemas[0])

    recovered = recover_segment(fs, path, first, first, is_last, known_index, take)
    if recovered is None or not lengths or recovered.last_index <= base_index:
        return None
    place = recovered.size - sum(lengths)
    offsets = array("Q")
    for length in lengths:
        offsets.append(place)
        place += length
    return LogSegment(path, first, schemas[0], offsets, recovered.size)
