"""Reading the write-ahead log of a tablet again when it is opened: segment by segment, entry by entry.

Nothing is changed while the log is read (`read_log`): a damaged one stays as it is. Then, in `RecoveredLog.settle`,
segments without a needed entry are removed, a torn tail is cut, and what was replayed is made durable.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

import pyarrow as pa

from ...errors import CorruptionError
from ...model.lazy_dataclass import dataclass
from ..files.file_identity import check_tablet
from ..files.filesystem import FileSystem
from .wal_format import (
    ENTRY_OVERHEAD,
    LogEntry,
    SegmentScan,
    decode_header,
    find_entry,
    scan_entries,
)

_log = logging.getLogger("nyala.storage")

Replay = Callable[[LogEntry, pa.Schema], None]
"""Applies one entry; the schema is that of the segment's rows."""


@dataclass(slots=True)
class Segment:
    """A file of the log; without entries, `last_index` is that before the first one."""

    path: str
    first_index: int
    last_index: int
    size: int


@dataclass(frozen=True, slots=True)
class RecoveredSegment:
    """A segment whose entries were replayed, and the remaining changes of its file."""

    segment: Segment
    torn: int
    """Bytes behind the last good entry."""
    needs_sync: bool

    def settle(self, fs: FileSystem, is_trial: bool = False) -> None:
        """Cut the torn tail, and make the replayed entries durable."""
        if self.torn:
            fs.truncate(self.segment.path, self.segment.size)
            if not is_trial:
                message = "cut a torn tail of %d bytes, never acknowledged, from %s"
                _log.warning(message, self.torn, self.segment.path)
        if self.needs_sync:
            _sync(fs, self.segment.path)


@dataclass(frozen=True, slots=True)
class RecoveredLog:
    """A log that was read, and the remaining changes of its files; `last_index` is that of its last entry."""

    segments: list[RecoveredSegment]
    unneeded: list[str]
    last_index: int

    def settle(self, fs: FileSystem, is_trial: bool = False) -> None:
        """Remove the segments that are not needed, and settle the others. With `is_trial`, nothing is logged."""
        for path in self.unneeded:
            fs.remove(path)
        for segment in self.segments:
            segment.settle(fs, is_trial)


def read_log(fs: FileSystem, directory: str, durable_index: int, known_index: int, replay: Replay) -> RecoveredLog:
    """Replay the entries above `durable_index`. Raises `CorruptionError` where an entry that was durable is damaged or
    missing; those up to `known_index` were."""
    expected = durable_index + 1
    segments: list[RecoveredSegment] = []
    unneeded: list[str] = []
    names = [name for name in fs.list(directory) if name.endswith(".log")]
    for name, follower in zip(names, [*names[1:], None]):
        path = f"{directory}/{name}"
        if follower is not None and segment_index(directory, follower) <= durable_index + 1:
            unneeded.append(path)  # all its entries are in rowsets: a removal that a crash undid
            continue
        is_last = follower is None
        found = read_segment(fs, path, segment_index(directory, name), expected, is_last, known_index, replay)
        if found is None:
            unneeded.append(path)
            continue
        expected = max(expected, found.segment.last_index + 1)
        segments.append(found)
    if expected <= known_index:
        raise CorruptionError(
            f"the log ends with entry {expected - 1}, but went on to entry {known_index}",
            segments[-1].segment.path if segments else directory,
            "end",
        )
    return RecoveredLog(segments, unneeded, expected - 1)


def segment_index(directory: str, name: str) -> int:
    """The index of a segment's first entry, by its name."""
    try:
        return int(name.removesuffix(".log"), 16)
    except ValueError:
        raise CorruptionError("the name is not that of a log segment", f"{directory}/{name}", "file name") from None


def recover_segment(
    fs: FileSystem,
    path: str,
    first_index: int,
    expected: int,
    is_last: bool,
    known_index: int,
    replay: Replay,
) -> Segment | None:
    """Replay one segment from entry `expected` on and settle its file; None where it holds no entry at all, and was
    not known to."""
    found = read_segment(fs, path, first_index, expected, is_last, known_index, replay)
    if found is None:
        return None
    found.settle(fs)
    return found.segment


def read_segment(
    fs: FileSystem,
    path: str,
    first_index: int,
    expected: int,
    is_last: bool,
    known_index: int,
    replay: Replay,
) -> RecoveredSegment | None:
    """`recover_segment` without a change of the file."""
    file = fs.open(path)
    try:
        data = memoryview(file.read_at(0, file.size))
    finally:
        file.close()
    try:
        header = decode_header(data, path)
    except CorruptionError:
        if is_last and first_index > known_index and find_entry(data, 0) is None:
            return None  # a crash while the segment was begun
        raise
    check_tablet(header.tablet_id, path, "header at offset 0")
    if header.first_index != first_index or first_index > expected:
        raise CorruptionError(
            f"expected a log from entry {expected} on, found one from {header.first_index} on", path, "header"
        )
    scan: SegmentScan = scan_entries(data, header.length, first_index, path, is_last, known_index)
    if is_last:
        scan = _without_half_a_write(scan, known_index)
    for entry in scan.entries:
        if entry.index >= expected:
            replay(entry, header.schema)
    last_index = first_index + len(scan.entries) - 1
    if not scan.entries and is_last and first_index > known_index:
        return None
    # They are acted upon from now on, but may have come from a process that died before its sync.
    needs_sync = is_last and last_index > known_index
    torn = len(data) - scan.end if scan.torn else 0
    return RecoveredSegment(Segment(path, first_index, last_index, scan.end), torn, needs_sync)


def _without_half_a_write(found: SegmentScan, known_index: int) -> SegmentScan:
    """The entries of the newest segment without those at its end whose write continues in missing entries."""
    entries, end = list(found.entries), found.end
    while entries and entries[-1].goes_on and entries[-1].index > known_index:
        end -= ENTRY_OVERHEAD + len(entries.pop().body)
    return found if end == found.end else SegmentScan(entries, end, torn=True)


def _sync(fs: FileSystem, path: str) -> None:
    file = fs.append(path)
    try:
        file.sync()
    finally:
        file.close()
