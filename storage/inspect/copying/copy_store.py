"""A consistent copy of a store, which may be open in another process that writes at the same time.

The writer does not take part. Files of rowsets never change, so the copy has second names (hard links) of them where
the file system allows that. The rest is read in this order, called a round:

    catalog ─► load records, metadata of each tablet ─► rowset files ─► commit log ─► T ─► logs up to T ─► verify

*T*, the timestamp of the copy, is the greatest one that was found in any of these files, and at least the clock's. So
each timestamp up to T was drawn before the logs are read, and the copy has

- every commit that was acknowledged before T: it was in a log when the logs were read;
- with a commit, each one that was acknowledged before it began;
- of a write over several tablets all parts or none: the commit log decides in the copy as in the store.

A writer may replace files during a round: a flush removes log segments, a compaction rowsets; a bulk load or an ALTER
TABLE changes several files. The copy notices that files are missing or the log begins too late, or that catalog, load
records or the last loads of tablets have changed at the end, and repeats the round. Files that were copied are kept, so
later rounds are short.

The copy is made in `DESTINATION.incomplete`, which has a file COPYING and no FORMAT, so no process takes it for a
store. When everything is durable it gets its FORMAT, and is renamed; COPYING
goes last.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from ....errors import CorruptionError, FileAccessError, InterfaceError, OperationalError, StoreLocked
from ...files.filesystem import FileSystem, Lock
from ...tables.store_directory import COPYING, FORMAT, make_durable_directory, require_format, write_format
from .copied_logs import (
    StoreChanged,
    write_file,
)
from .copy_round import CopyRound, StoreCopy, remove

ROUNDS = 50
"""A round fails if files are replaced while it reads; later rounds take milliseconds, flushes are seconds apart."""
INCOMPLETE = ".incomplete"


def copy_store(
    fs: FileSystem,
    source: str,
    destination: str,
    *,
    links: bool = True,
    pause: Callable[[float], None] = time.sleep,
) -> StoreCopy:
    """Copy a store to a new directory.

    Parameters
    ----------
    fs : FileSystem
    source : str
        The store's directory. Processes may have it open; it is not changed.
    destination : str
        A directory that does not exist, or is empty.
    links : bool, default True
        False: copy the files of rowsets even where the file system has hard links.
    pause : callable
        Waits for a number of seconds between two rounds.

    Raises `InterfaceError` if the destination cannot be used, `OperationalError` if `source` is no store or changes
    too fast, `CorruptionError` if a log, metadata or the catalog is damaged, `DiskError` if the disk fails.
    """
    source, destination = source.rstrip("/") or "/", destination.rstrip("/")
    _check_places(fs, source, destination)
    working = destination + INCOMPLETE
    make_durable_directory(fs, working)
    lock = _lock(fs, working)
    try:
        _clear(fs, working)
        done = _copy(fs, source, working, links, pause)
        write_file(fs, f"{working}/LOCK", b"")
        write_format(fs, working, FORMAT)
        fs.rename(working, destination)
        fs.sync_directory(destination.rpartition("/")[0] or ("/" if destination.startswith("/") else "."))
        # Last: what has no such file is not the copy's to remove.
        fs.remove(f"{destination}/{COPYING}")
    finally:
        lock.release()
    done.destination = destination
    return done


def _check_places(fs: FileSystem, source: str, destination: str) -> None:
    if not fs.exists(f"{source}/FORMAT"):
        raise OperationalError(f"{source} is no nyala store: it has no file FORMAT")
    try:
        require_format(fs, source, FORMAT)
    except CorruptionError as error:
        raise OperationalError(
            f"{source} is no store that can be copied ({error}); the data of a cluster's server belong to the cluster: "
            "use nyala backup with the cluster's URL"
        ) from error
    if not destination or f"{destination}/".startswith(f"{source}/"):
        raise InterfaceError(f"the copy cannot be inside of the store {source}; name a directory outside of it")
    if fs.exists(destination) and fs.list(destination):
        raise InterfaceError(f"{destination} exists and is not empty; name a new directory")
    working = destination + INCOMPLETE
    if fs.exists(working) and fs.list(working) and not fs.exists(f"{working}/{COPYING}"):
        raise InterfaceError(
            f"the copy is made in {working}, which exists and has no file {COPYING}, so no copy has left it: remove "
            "it, or name another directory for the copy"
        )


def _lock(fs: FileSystem, working: str) -> Lock:
    if not fs.exists(f"{working}/{COPYING}"):
        write_file(fs, f"{working}/{COPYING}", b"")
    try:
        return fs.lock(f"{working}/{COPYING}")
    except StoreLocked as error:
        raise StoreLocked(f"another process copies to {working}: {error}") from error


def _clear(fs: FileSystem, working: str) -> None:
    """Remove what a copy that was killed has left. Its FORMAT goes first, durably: the rest is no store without it."""
    if fs.exists(f"{working}/FORMAT"):
        fs.remove(f"{working}/FORMAT")
        fs.sync_directory(working)
    for name in fs.list(working):
        if name != COPYING:
            remove(fs, f"{working}/{name}")


def _copy(fs: FileSystem, source: str, working: str, links: bool, pause: Callable[[float], None]) -> StoreCopy:
    """Run rounds until one ends with a consistent copy."""
    done = StoreCopy(working)
    for number in range(1, ROUNDS + 1):
        done.rounds = number
        try:
            CopyRound(fs, source, working, links, done).run()
            return done
        except (StoreChanged, FileAccessError, CorruptionError) as error:
            # A missing file, or half of a replacement that the writer undid: damage only if it is there every time.
            # A closed store does not change: three rounds are enough for it.
            if number == ROUNDS or (number == 3 and not isinstance(error, StoreChanged) and _is_closed(fs, source)):
                if isinstance(error, StoreChanged):
                    message = (
                        f"{source} changed in each of {ROUNDS} attempts to copy it ({error}); repeat the copy later"
                    )
                    raise OperationalError(message) from error
                raise
        pause(min(0.01 * number, 0.25))
    raise AssertionError("the last round returns or raises")


def _is_closed(fs: FileSystem, source: str) -> bool:
    try:
        fs.lock(f"{source}/LOCK", shared=True).release()
    except StoreLocked:
        return False
    except OperationalError:  # no LOCK file: nothing has it open
        return True
    return True
