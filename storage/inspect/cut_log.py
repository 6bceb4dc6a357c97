"""Cutting the log of a tablet at its first damaged entry: acknowledged entries after it are lost.

Their bytes are kept. The damaged segment is copied and later segments are renamed, all with the suffix `.cut`: fs check
mentions such files, and opening the store ignores them.
"""

from __future__ import annotations

from dataclasses import replace

from ...errors import CorruptionError, InterfaceError
from ...model.lazy_dataclass import dataclass
from ..files.filesystem import FileSystem
from ..log.commit_log import CommitLog
from ..log.wal_format import ENTRY_OVERHEAD, decode_header
from ..log.wal_recovery import segment_index
from ..tablet.tablet_metadata import TabletMetadata
from .dump.dump_log import good_entries
from .files import read_file
from .read_only import ReadOnlyFileSystem

SUFFIX = ".cut"


@dataclass(frozen=True, slots=True)
class LogCut:
    """Result of a cut.

    Parameters
    ----------
    last_index : int
        The log's last entry now.
    known_lost : int
        Number of acknowledged entries after it, according to metadata and commit log; there may be more.
    kept : tuple of str
        Files with the entries that were cut off.
    """

    last_index: int
    known_lost: int
    kept: tuple[str, ...]


def cut_log(fs: FileSystem, directory: str, tablet_id: str) -> LogCut:
    """Cut the log of a tablet of a store that is not open.

    `InterfaceError` where the log is whole or there is no such tablet, `StoreLocked` where the store is open,
    `CorruptionError` where metadata is damaged or files rely on entries behind the damage: a backup alone helps then.
    """
    directory = directory.rstrip("/") or "/"
    path = f"{directory}/tables/{tablet_id.partition('-')[0]}/{tablet_id}"
    if not fs.exists(f"{path}/wal"):
        raise InterfaceError(f"{directory} has no log of a tablet {tablet_id}")
    lock = fs.lock(f"{directory}/LOCK")
    try:
        commits = CommitLog(ReadOnlyFileSystem(fs), f"{directory}/commits", is_trial=True)
        return _cut(fs, path, TabletMetadata.read(fs, path, tablet_id), commits)
    finally:
        lock.release()


def _cut(fs: FileSystem, directory: str, metadata: TabletMetadata, commits: CommitLog) -> LogCut:
    wal = f"{directory}/wal"
    known = max(metadata.known_index, commits.last_part(metadata.tablet_id, metadata.cut_commits))
    names = [name for name in fs.list(wal) if name.endswith(".log")]
    last, end = metadata.replay_index, 0
    for place, name in enumerate(names):
        if place + 1 < len(names) and segment_index(wal, names[place + 1]) <= last + 1:
            continue
        entries, end, is_damaged = _read(fs, f"{wal}/{name}", last)
        last = max(last, entries)
        if is_damaged:
            names = names[place:]
            break
    else:
        if last >= known:
            raise InterfaceError(f"the log {wal} is whole: there is nothing to cut")
        names = []
    floor = max([metadata.durable_index, *(rowset.redo_index for rowset in metadata.rowsets)])
    if last < floor:
        message = f"the tablet's files rely on entries up to {floor}, the log is whole up to {last}: restore a backup"
        raise CorruptionError(message, wal, "log")
    kept = tuple(_put_aside(fs, f"{wal}/{name}", end if place == 0 else 0) for place, name in enumerate(names))
    fs.sync_directory(wal)
    replace(metadata, log_index=last, cut_commits=commits.last_index).write(fs, directory)
    return LogCut(last, max(0, known - last), kept)


def _read(fs: FileSystem, path: str, last: int) -> tuple[int, int, bool]:
    """(the last good entry, the offset behind it, True where damage follows) of a segment that should go on behind
    entry `last`."""
    data = memoryview(read_file(fs, path))
    try:
        header = decode_header(data, path)
    except CorruptionError:
        return 0, 0, True
    if header.first_index > last + 1:
        return 0, 0, True
    entries, damage = good_entries(data, header, path)
    end = header.length + sum(ENTRY_OVERHEAD + len(entry.body) for entry in entries)
    return header.first_index + len(entries) - 1, end, bool(damage)


def _put_aside(fs: FileSystem, path: str, end: int) -> str:
    """Keep a segment under another name, and its first `end` bytes in its place, if any; that name."""
    aside = path + SUFFIX
    if not end:
        fs.rename(path, aside)
        return aside
    copy = fs.create(aside)
    try:
        copy.write(read_file(fs, path))
        copy.sync()
    finally:
        copy.close()
    fs.truncate(path, end)
    return aside
