"""The directories of a tablet server: the server's identity, and the disk of each tablet.

    DIR/LOCK          held by the process that has the server running
        FORMAT        "nyala server, format 1"
        instance      {id, kind, directories: {directory id: path}}
        placement     {tablet id: directory id} of the tablets that are not in DIR itself
        tablets/<tablet id>/
    DATA/instance     {id: of the server, kind, directory: its id}        each further data directory
         tablets/<tablet id>/
         reserve          as in DIR: space for essential writes on a full disk

A tablet lies completely in one directory. A further directory goes out of use, until the server's next start, if it is
unreadable at the start, has been replaced by another one, or its disk fails later. Its tablets, which `placement`
lists, have then failed; the others continue. DIR itself must be readable.

A full disk has not failed. A directory without space is *full*: the reserve is freed, so that votes and terms can still
be written, and writes to its tablets are refused. Every few seconds the server tries to create the reserve again; once
that succeeds, the directory is no longer full.

`placement` is written before a tablet's files are created, and after they have been removed. If the two differ when the
server starts, an entry without files is dropped, and files in another place than the entry's are removed.
"""

from __future__ import annotations

import contextlib
import random
import threading
import uuid
from collections.abc import Mapping, Sequence
from typing import Any

from ...errors import CorruptionError, DiskError, OperationalError, UnsupportedFormat, listed
from ...model.lazy_dataclass import dataclass
from ...storage.files.checked_file import TEMPORARY_SUFFIX, read_checked, replace_checked
from ...storage.files.filesystem import FileSystem
from ...storage.tables.store_directory import make_durable_directory, require_format, write_format
from ..disk_errors import is_full

FORMAT = b"nyala server, format 1\n"
KIND = "tserver"
VERSION = 1
RESERVE = "reserve"
RESERVE_BYTES = 8 << 20
"""For log entries in progress (`peer_driver.FULL_LOG_BYTES`), and small files that are replaced."""
INSTANCE_MAGIC = b"nyalaINS"
_PLACEMENT_MAGIC = b"nyalaPLC"
_FIRST_FILES = ("LOCK", "tablets", "instance", "instance.tmp", "FORMAT.tmp", "pid", "address", "address.tmp", "log")
"""Files that a crash may leave in a server directory under construction, or that its operator may put there."""


@dataclass(eq=False, slots=True)
class DataDirectory:
    """A directory with tablets. `error` is the reason for which it is out of use; empty while it is in use. `full` is
    the reason for which it cannot be written; empty while it can."""

    id: str
    path: str
    error: str = ""
    full: str = ""

    @property
    def tablets(self) -> str:
        """Path of the tablets' directories."""
        return f"{self.path}/tablets"

    def of(self, tablet_id: str) -> str:
        """Returns a tablet's directory."""
        return f"{self.path}/tablets/{tablet_id}"


@dataclass(frozen=True, slots=True)
class FoundTablet:
    """A tablet that existed when the server started. In a directory that is out of use, it has failed."""

    id: str
    directory: DataDirectory


class ServerDirectories:
    """All directories of a server, locked for this process. Thread-safe.

    Parameters
    ----------
    fs : FileSystem
    directory : str
        The server's own; initialised if it is empty or new.
    further : sequence of str
        Additional data directories.
    reserve_bytes : int
        Size of the reserve of each.

    Raises
    ------
    StoreLocked
        Another process has the server running.
    CorruptionError, UnsupportedFormat, OperationalError, DiskError
        The server's own directory cannot be used, or holds something else.
    """

    def __init__(self, fs: FileSystem, directory: str, further: Sequence[str] = (), reserve_bytes: int = RESERVE_BYTES):
        self._fs = fs
        self._reserve_bytes = reserve_bytes
        self._path = directory.rstrip("/") or "/"
        self._mutex = threading.Lock()
        """Guards `_placement` and its file, and the errors of directories."""
        make_durable_directory(fs, self._path)
        self._lock = fs.lock(f"{self._path}/LOCK")
        try:
            instance = self._open_instance()
            self.id: str = instance["id"]
            self._known: dict[str, str] = instance["directories"]
            self.own = DataDirectory(self.id, self._path)
            others = [self._open_further(path.rstrip("/") or "/") for path in further]
            self._placement: dict[str, str] = self._read_placement()
            self.all = (self.own, *others, *self._missing(others))
            for each in self.all:
                if not each.error:
                    self.look_again(each)
        except BaseException:
            self._lock.release()
            raise

    def release(self) -> None:
        """Unlocks the directories."""
        self._lock.release()

    # ---- the server's own ----------------------------------------------------------------------------------------

    def _open_instance(self) -> dict[str, Any]:
        fs = self._fs
        if not fs.exists(f"{self._path}/FORMAT"):
            self._begin()
        require_format(fs, self._path, FORMAT)
        instance = _read_instance(fs, f"{self._path}/instance")
        if instance.get("kind") != KIND:
            raise OperationalError(f"{self._path} belongs to a {instance.get('kind')}, not to a tablet server")
        return instance

    def _begin(self) -> None:
        fs = self._fs
        strangers = [name for name in fs.list(self._path) if name not in _FIRST_FILES]
        if strangers or (fs.exists(self.tablets_path) and fs.list(self.tablets_path)):
            raise OperationalError(
                f"{self._path} is not a directory of a nyala server and not empty (it holds "
                f"{listed(strangers, 5) or 'tablets'}); specify an empty or a new directory"
            )
        fs.make_directory(self.tablets_path)
        self._known = {}
        self._write_instance(uuid.uuid4().hex)
        write_format(fs, self._path, FORMAT)

    @property
    def tablets_path(self) -> str:
        """Path of the tablets in the server's own directory."""
        return f"{self._path}/tablets"

    def _write_instance(self, server: str) -> None:
        content = {"id": server, "kind": KIND, "directories": self._known}
        replace_checked(self._fs, f"{self._path}/instance", INSTANCE_MAGIC, VERSION, content)

    # ---- further ones --------------------------------------------------------------------------------------------

    def _open_further(self, path: str) -> DataDirectory:
        known = next((id for id, at in self._known.items() if at == path), None)
        try:
            return self._check_known(known, path) if known is not None else self._add(path)
        except (DiskError, CorruptionError, UnsupportedFormat) as error:
            return DataDirectory(known or f"unused {path}", path, str(error))

    def _check_known(self, known: str, path: str) -> DataDirectory:
        instance = _read_instance(self._fs, f"{path}/instance")
        if instance.get("id") != self.id or instance.get("directory") != known:
            raise CorruptionError(
                "it belongs to another server, or is another directory", f"{path}/instance", "content"
            )
        self._fs.list(f"{path}/tablets")
        return DataDirectory(known, path)

    def _add(self, path: str) -> DataDirectory:
        """Adds a directory that is new to the server, or had another name."""
        fs = self._fs
        make_durable_directory(fs, path)
        if fs.exists(f"{path}/instance"):
            instance = _read_instance(fs, f"{path}/instance")
            if instance.get("id") != self.id or instance.get("directory") in (None, self.id):
                raise CorruptionError("it belongs to another server", f"{path}/instance", "content")
            id = str(instance["directory"])
        else:
            strangers = [name for name in fs.list(path) if name not in ("tablets", "instance.tmp", "lost+found")]
            if strangers:
                raise OperationalError(
                    f"the data directory {path} is not empty (it holds {listed(strangers, 5)}); "
                    "specify an empty or a new one"
                )
            fs.make_directory(f"{path}/tablets")
            id = uuid.uuid4().hex
            content = {"id": self.id, "kind": f"{KIND} data", "directory": id}
            replace_checked(fs, f"{path}/instance", INSTANCE_MAGIC, VERSION, content)
        self._known = {**self._known, id: path}
        self._write_instance(self.id)
        return DataDirectory(id, path)

    def _missing(self, others: Sequence[DataDirectory]) -> list[DataDirectory]:
        """Returns the directories with tablets that were not specified at this start."""
        named = {self.id, *(directory.id for directory in others)}
        missing = sorted({id for id in self._placement.values() if id not in named})
        return [
            DataDirectory(id, path := self._known.get(id, id), f"{path} is not among the data directories given")
            for id in missing
        ]

    # ---- tablets -------------------------------------------------------------------------------------------------

    def _read_placement(self) -> dict[str, str]:
        path = f"{self._path}/placement"
        if not self._fs.exists(path):
            return {}
        return dict(read_checked(self._fs, path, _PLACEMENT_MAGIC, VERSION))

    def existing_tablets(self) -> list[FoundTablet]:
        """Returns the existing tablets by id, and removes files that a crash left in the wrong place. For the start."""
        by_id = {directory.id: directory for directory in self.all}
        tablets: dict[str, FoundTablet] = {}
        for directory in self.all:
            for name in self._names(directory):
                if by_id.get(self._placement.get(name, self.id)) is directory:
                    tablets[name] = FoundTablet(name, directory)
                else:
                    with contextlib.suppress(DiskError):
                        self._fs.remove_tree(directory.of(name))
        for tablet_id, id in list(self._placement.items()):
            if by_id[id].error:
                tablets[tablet_id] = FoundTablet(tablet_id, by_id[id])
            elif tablet_id not in tablets:
                self.forget(tablet_id)
        return [tablets[tablet_id] for tablet_id in sorted(tablets)]

    def _names(self, directory: DataDirectory) -> list[str]:
        if directory.error:
            return []
        try:
            return self._fs.list(directory.tablets)
        except DiskError as error:
            self.fail(directory, str(error))
            return []

    def place(self, tablet_id: str, used: Mapping[DataDirectory, tuple[int, int]]) -> DataDirectory:
        """Chooses a directory for a new tablet, and records it durably.

        The directory is the one in use with the fewest bytes, then the fewest tablets (`used`: both). Raises
        `DiskError` if the record cannot be written, or no directory is in use.
        """
        with self._mutex:
            usable = [directory for directory in self.all if not directory.error and not directory.full]
            if not usable:
                raise DiskError("no data directory can be used: " + "; ".join(d.error or d.full for d in self.all))
            chosen = min(usable, key=lambda directory: used.get(directory, (0, 0)))
            self._note(tablet_id, chosen)
            return chosen

    def forget(self, tablet_id: str) -> None:
        """Records that a tablet's files are gone. After a `DiskError` the next start notices that."""
        with self._mutex:
            self._note(tablet_id, self.own)

    def _note(self, tablet_id: str, directory: DataDirectory) -> None:
        before = self._placement.get(tablet_id, self.id)
        if before == directory.id:
            return
        after = {**self._placement, tablet_id: directory.id}
        if directory is self.own:
            del after[tablet_id]
        replace_checked(self._fs, f"{self._path}/placement", _PLACEMENT_MAGIC, VERSION, after)
        self._placement = after

    # ---- failures ------------------------------------------------------------------------------------------------

    def fail(self, directory: DataDirectory, error: str) -> None:
        """Takes a directory out of use."""
        with self._mutex:
            directory.error = directory.error or error

    def probe(self, directory: DataDirectory) -> bool:
        """After an error of a tablet, checks whether the directory's disk still accepts a file. If not, the directory
        is out of use from now on, or full."""
        if directory.full:
            return True
        path = f"{directory.path}/probe{TEMPORARY_SUFFIX}"
        try:
            file = self._fs.create(path)
            try:
                file.write(b"?")
                file.sync()
            finally:
                file.close()
            self._fs.remove(path)
        except DiskError as error:
            if is_full(error):
                self.note_full(directory, error)
                return True
            self.fail(directory, str(error))
            return False
        return True

    def note_full(self, directory: DataDirectory, error: Exception) -> bool:
        """Marks a directory as full until `look_again` finds space. True if it was not full before."""
        with self._mutex:
            if directory.full or directory.error:
                return False
            directory.full = f"disk full: {directory.path}: {error}"
        self._give_reserve_up(directory)
        return True

    def look_again(self, directory: DataDirectory) -> bool:
        """Tries to create a directory's reserve; True if that succeeded and the directory is no longer full."""
        path = f"{directory.path}/{RESERVE}"
        try:
            file = self._fs.create(path)
            try:
                file.write(random.randbytes(self._reserve_bytes))  # incompressible
                file.sync()
            finally:
                file.close()
        except DiskError as error:
            if is_full(error):
                self.note_full(directory, error)
            self._give_reserve_up(directory)
            return False
        directory.full = ""
        return True

    def _give_reserve_up(self, directory: DataDirectory) -> None:
        with contextlib.suppress(DiskError):
            self._fs.remove(f"{directory.path}/{RESERVE}")


def _read_instance(fs: FileSystem, path: str) -> dict[str, Any]:
    content = read_checked(fs, path, INSTANCE_MAGIC, VERSION)
    if not isinstance(content, dict):
        raise CorruptionError(f"expected a map, found {type(content).__name__}", path, "content")
    return content
