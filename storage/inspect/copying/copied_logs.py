"""Logs of a store that another process appends to: what they hold, and copies of them up to a timestamp."""

from __future__ import annotations

from collections.abc import Iterator

from ....errors import CorruptionError
from ....model.lazy_dataclass import dataclass
from ...files.filesystem import FileSystem
from ...log.commit_log import FORGOTTEN
from ...log.wal_format import ENTRY_OVERHEAD, LogEntry, decode_header, find_entry, scan_entries
from ...log.wal_recovery import segment_index
from ..files import read_file


class StoreChanged(Exception):
    """The store was changed during a round of the copy, which must be repeated."""


@dataclass(frozen=True, slots=True)
class _Segment:
    """A segment as it was read: its good entries, and the bytes up to the end of the last one."""

    name: str
    data: memoryview
    header_end: int
    entries: list[LogEntry]


@dataclass(frozen=True, slots=True)
class CopiedCommits:
    """A copied commit log: number and timestamp of its last COMMIT, 0 without one; its files with the copied sizes."""

    last_index: int
    newest: int
    sizes: dict[str, int]


def segment_names(fs: FileSystem, directory: str) -> list[str]:
    """The names of a log's segments, ascending; none if there is no such directory."""
    return [name for name in fs.list(directory) if name.endswith(".log")] if fs.exists(directory) else []


def _read_segment(fs: FileSystem, directory: str, name: str, is_last: bool) -> _Segment | None:
    """A segment; None for the last one if its header is not complete yet. `CorruptionError` if it is damaged."""
    path = f"{directory}/{name}"
    data = memoryview(read_file(fs, path))
    try:
        header = decode_header(data, path)
    except CorruptionError:
        if is_last and find_entry(data, 0) is None:
            return None
        raise
    scan = scan_entries(data, header.length, header.first_index, path, is_last)
    return _Segment(name, data[: scan.end], header.length, scan.entries)


def newest_timestamp(fs: FileSystem, directory: str) -> int:
    """The greatest timestamp of an entry; 0 without one. Entries of one tablet ascend, so one segment is read."""
    names = segment_names(fs, directory)
    for place, name in enumerate(reversed(names)):
        segment = _read_segment(fs, directory, name, place == 0)
        if segment is not None and segment.entries:
            return max(entry.timestamp for entry in segment.entries)
    return 0


def copy_log(
    fs: FileSystem, source: str, destination: str, replay_index: int, timestamp: int, last_commit: int
) -> dict[str, int]:
    """Copy the entries of a tablet's log above `replay_index`, up to the first one that is too new.

    Parameters
    ----------
    fs : FileSystem
    source, destination : str
        Folders of segments; the second is replaced.
    replay_index : int
        Entries up to here are in the tablet's files.
    timestamp : int
        Entries above it are not copied.
    last_commit : int
        The last COMMIT of the copied commit log. An entry that names a later one was appended after that copy.

    Returns the copied size of each segment by its path in `source`. Raises `StoreChanged` if segments were removed
    meanwhile, `CorruptionError` if the log is damaged.
    """
    fs.remove_tree(destination)
    fs.make_directory(destination)
    sizes: dict[str, int] = {}
    for segment in _needed_segments(fs, source, replay_index):
        end, is_cut = _end_of_copy(segment, timestamp, last_commit)
        if end > segment.header_end or not is_cut:
            write_file(fs, f"{destination}/{segment.name}", segment.data[:end])
            sizes[f"{source}/{segment.name}"] = end
        if is_cut:
            break
    fs.sync_directory(destination)
    return sizes


def _needed_segments(fs: FileSystem, directory: str, replay_index: int) -> Iterator[_Segment]:
    """The segments with entries above `replay_index`. `StoreChanged` if the first of these entries is missing."""
    names = segment_names(fs, directory)
    while len(names) > 1 and segment_index(directory, names[1]) <= replay_index + 1:
        del names[0]
    expected = replay_index + 1
    for place, name in enumerate(names):
        segment = _read_segment(fs, directory, name, place == len(names) - 1)
        if segment is None:
            return
        if (first := segment_index(directory, name)) > expected:
            raise StoreChanged(f"{directory} begins with entry {first}, entry {expected} is needed")
        expected = max(expected, first + len(segment.entries))
        yield segment


def _end_of_copy(segment: _Segment, timestamp: int, last_commit: int) -> tuple[int, bool]:
    """The offset up to which a segment is copied, and True if entries follow that are too new."""
    end = segment.header_end
    for entry in segment.entries:
        if entry.timestamp > timestamp or entry.witness > last_commit:
            return end, True
        end += ENTRY_OVERHEAD + len(entry.body)
    return end, False


def copy_commits(fs: FileSystem, source: str, destination: str) -> CopiedCommits:
    """Copy the commit log as it is."""
    fs.remove_tree(destination)
    if not fs.exists(source):
        return CopiedCommits(0, 0, {})
    fs.make_directory(destination)
    last_index, newest = 0, 0
    sizes: dict[str, int] = {}
    names = segment_names(fs, source)
    for place, name in enumerate(names):
        segment = _read_segment(fs, source, name, place == len(names) - 1)
        if segment is None:
            break
        last_index = segment_index(source, name) + len(segment.entries) - 1
        newest = max([newest, *(entry.timestamp for entry in segment.entries)])
        write_file(fs, f"{destination}/{name}", segment.data)
        sizes[f"{source}/{name}"] = len(segment.data)
    # After the segments: it may name more removed COMMITs than these lack, but not fewer.
    if fs.exists(f"{source}/{FORGOTTEN}"):
        write_file(fs, f"{destination}/{FORGOTTEN}", read_file(fs, f"{source}/{FORGOTTEN}"))
    fs.sync_directory(destination)
    return CopiedCommits(last_index, newest, sizes)


def write_file(fs: FileSystem, path: str, data: bytes | memoryview) -> None:
    """Write and sync a new file."""
    file = fs.create(path)
    try:
        file.write(data)
        file.sync()
    finally:
        file.close()
