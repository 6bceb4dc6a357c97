"""Checks a whole store: lock, FORMAT, catalog, then table by table.

Reading costs what a scan of everything costs; memory is bounded by the page cache and 8 bytes for each key of rowsets
whose key intervals overlap.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from ....errors import DiskError, OperationalError
from ...files.checked_file import TEMPORARY_SUFFIX
from ...files.filesystem import FileSystem, Lock
from ...files.page_cache import PageCache
from ...log.commit_log import FORGOTTEN, CommitLog
from ...tables.catalog import Catalog
from ...tables.store_directory import COPYING, FORMAT
from ..files import file_size, read_file
from ..read_only import ReadOnlyFileSystem
from .check_log import check_log
from .check_table import check_table
from .findings import WHOLE_FILE, Report

CACHE_BYTES = 128 << 20
"""For decoded pages: enough for the key columns of one rowset, which are read twice."""
_PARTS = ("LOCK", "FORMAT", "catalog", "commits", "tables")
_OF_SERVING = ("owner", "owner.log")
"""Files of the process that serves the store, and its log: not part of the store, and expected there."""


def check_store(fs: FileSystem, directory: str) -> Report:
    """Check every file of a store against its checksums, its format and the files that refer to it.

    The store must not be open; while the check runs, it cannot be opened. Not a byte is changed.

    Raises `StoreLocked` if a process has it open, `OperationalError` if `directory` holds no store.
    """
    directory = directory.rstrip("/") or "/"
    if not fs.exists(directory):
        raise OperationalError(f"there is no directory {directory}")
    names = fs.list(directory)
    if not {"FORMAT", "catalog", "tables"} & set(names):
        raise OperationalError(f"{directory} is no nyala store: it holds neither FORMAT nor catalog nor tables/")
    report = Report(directory)
    with _locked(fs, directory, report):
        _check_names(fs, directory, names, report)
        if _check_format(fs, f"{directory}/FORMAT", report):
            _check_tables(fs, directory, report)
    return report


@contextmanager
def _locked(fs: FileSystem, directory: str, report: Report) -> Iterator[None]:
    path = f"{directory}/LOCK"
    lock: Lock | None = None
    try:
        lock = fs.lock(path, shared=True)
    except DiskError:
        if fs.exists(path):
            raise
        report.note(path, WHOLE_FILE, "the file is missing; opening the store makes it, and might during this check")
    try:
        yield
    finally:
        if lock is not None:
            lock.release()


def _check_names(fs: FileSystem, directory: str, names: list[str], report: Report) -> None:
    for name in names:
        if name.endswith(TEMPORARY_SUFFIX) and name.removesuffix(TEMPORARY_SUFFIX) in _PARTS:
            report.note(f"{directory}/{name}", WHOLE_FILE, "left of a replacement that a crash interrupted; harmless")
        elif name == COPYING:
            report.note(f"{directory}/{name}", WHOLE_FILE, "left of a copy that a crash interrupted; harmless")
        elif name not in _PARTS and name not in _OF_SERVING:
            report.note(f"{directory}/{name}", WHOLE_FILE, "is no file of the store; it is left alone")


def _check_format(fs: FileSystem, path: str, report: Report) -> bool:
    """True if the version of the other files is supported."""
    if not fs.exists(path):
        if _is_unfinished(fs, path.rpartition("/")[0]):
            report.note(path, WHOLE_FILE, "the store was being made when a crash came; opening it makes it anew")
            return False
        report.error(path, WHOLE_FILE, "the file is missing")
        return True
    found = b""
    with report.reading(path):
        found = read_file(fs, path)
        if found != FORMAT:
            report.error(path, "offset 0", f"expected {FORMAT!r}, found {found[:64]!r}")
    report.checked.bytes += len(found)
    # A newer version may mean anything by the other files; a damaged line says nothing about them.
    return found == FORMAT or not found.startswith(FORMAT.rpartition(b" ")[0])


def _is_unfinished(fs: FileSystem, directory: str) -> bool:
    """True if a directory without FORMAT holds only files that are written before FORMAT when a store is created."""
    if fs.exists(f"{directory}/tables") and fs.list(f"{directory}/tables"):
        return False
    try:
        return not fs.exists(f"{directory}/catalog") or not Catalog.read(fs, f"{directory}/catalog").entries
    except OperationalError:
        return False


def _check_tables(fs: FileSystem, directory: str, report: Report) -> None:
    path = f"{directory}/catalog"
    catalog: Catalog | None = None
    with report.reading(path):
        catalog = Catalog.read(fs, path)
        report.checked.bytes += file_size(fs, path)
    if catalog is None:
        report.note(f"{directory}/tables", WHOLE_FILE, "not checked: only the catalog lists the expected files")
        return
    tables = f"{directory}/tables"
    found: list[str] = []
    with report.reading(tables, "directory"):
        found = fs.list(tables)
    entries = {entry.table.id: entry for entry in catalog.entries.values()}
    for name in found:
        if name not in entries:
            report.note(f"{tables}/{name}", "directory", "no table owns it; opening the store removes it")
    cache = PageCache(CACHE_BYTES)
    commits = _check_commits(fs, f"{directory}/commits", report)
    if commits is not None:
        commits.note_decided(catalog.decided)
    undecided: list[str] = []
    for table_id, entry in sorted(entries.items()):
        report.checked.tables += 1
        if table_id in found:
            undecided += check_table(fs, f"{tables}/{table_id}", entry, cache, report, commits)
        else:
            report.error(f"{tables}/{table_id}", "directory", f"the folder of table {entry.table.name} is missing")
    if commits is not None:
        _check_end(commits, undecided, report)


def _check_end(commits: CommitLog, undecided: list[str], report: Report) -> None:
    """Hold the commit log's end against what the tablets know of it: all of them have been read."""
    commits.opened()
    if (damage := commits.damage) is not None:
        message = str(damage).removeprefix(f"{damage.path}: {damage.place}: ")
        if undecided:
            message += f"; writes with parts in {', '.join(undecided)} are undecided"
        report.error(damage.path, damage.place, message)


def _check_commits(fs: FileSystem, directory: str, report: Report) -> CommitLog | None:
    """Check the commit log and return it; None where it cannot be read."""
    if fs.exists(directory):
        with report.reading(directory, "directory"):
            check_log(fs, directory, [name for name in fs.list(directory) if name != FORGOTTEN], 0, 0, report)
    with report.reading(directory, "commit log"):
        commit_log = CommitLog(ReadOnlyFileSystem(fs), directory, is_trial=True)
        if commit_log.damage is None:
            return commit_log
        raise commit_log.damage
    return None
