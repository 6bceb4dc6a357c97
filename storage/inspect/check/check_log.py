"""Checks the log of one tablet, segment by segment and entry by entry.

That the log as a whole can be recovered is tried besides (`check.check_table`): here every segment is looked at, also
those behind a damaged one.
"""

from __future__ import annotations

from collections.abc import Sequence

from ....errors import CorruptionError
from ....model.codec.packing import unpack
from ...files.file_identity import check_tablet
from ...files.filesystem import FileSystem
from ...log.wal_format import (
    ENTRY_OVERHEAD,
    EntryKind,
    LogEntry,
    SegmentHeader,
    decode_header,
    entry_parts,
    find_entry,
    scan_entries,
)
from ..files import read_file
from .findings import WHOLE_FILE, Report


def check_log(
    fs: FileSystem, directory: str, names: Sequence[str], replay_index: int, known_index: int, report: Report
) -> None:
    """Check the segments among `names`, the ascending content of `directory`.

    What entries up to `replay_index` did is in files: a segment that has no others is a leftover. Entries up to
    `known_index` were durable, as the tablet's metadata says.
    """
    segments = []
    for name in names:
        path = f"{directory}/{name}"
        if not name.endswith(".log"):
            report.note(path, WHOLE_FILE, "is no segment of the log; it is left alone")
            continue
        try:
            segments.append((int(name.removesuffix(".log"), 16), path))
        except ValueError:
            report.error(path, "file name", "the name is not that of a log segment")
    for (first, path), follower in zip(segments, [*segments[1:], None]):
        if follower is not None and follower[0] <= replay_index + 1:
            report.note(path, WHOLE_FILE, "what its entries did is in files; opening the store removes it")
            continue
        with report.reading(path):
            _check_segment(fs, path, first, follower, known_index, report)


def _check_segment(
    fs: FileSystem, path: str, first: int, follower: tuple[int, str] | None, known_index: int, report: Report
) -> None:
    data = memoryview(read_file(fs, path))
    report.checked.log_segments += 1
    report.checked.bytes += len(data)
    try:
        header = decode_header(data, path)
    except CorruptionError:
        if follower is None and first > known_index and find_entry(data, 0) is None:
            message = "a segment without entries that a crash interrupted; opening the store removes it"
            report.note(path, "header at offset 0", message)
            return
        raise
    with report.reading(path):
        check_tablet(header.tablet_id, path, "header at offset 0")
    if header.first_index != first:
        report.error(path, "header at offset 0", f"begins with entry {header.first_index}, its name says {first}")
    scan = scan_entries(data, header.length, header.first_index, path, follower is None, known_index)
    report.checked.log_entries += len(scan.entries)
    place = header.length
    for entry in scan.entries:
        with report.reading(path, f"entry {entry.index} at offset {place}"):
            report.checked.logged_rows += entry_rows(entry, header)
        place = entry_end(place, entry)
    if scan.torn:
        message = f"a torn tail of {len(data) - scan.end:,} bytes, never acknowledged; opening the store cuts it off"
        report.note(path, f"offset {scan.end}", message)
    if follower is not None and header.first_index + len(scan.entries) != follower[0]:
        last = header.first_index + len(scan.entries) - 1
        report.error(path, f"offset {scan.end}", f"ends with entry {last}, but {follower[1]} follows")


def entry_rows(entry: LogEntry, header: SegmentHeader) -> int:
    """Number of rows of an entry; reads its whole body."""
    if entry.kind is not EntryKind.LOAD:
        parts = entry_parts(entry, header.schema)
        for part in parts:
            part.rows.validate(full=True)
        return sum(part.row_count for part in parts)
    unpack(entry.body)
    return 0


def entry_end(place: int, entry: LogEntry) -> int:
    """The offset behind an entry at `place`."""
    return place + ENTRY_OVERHEAD + len(entry.body)
