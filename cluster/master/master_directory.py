"""The directory of a master: whose it is, and its replica of the system tablet.

    DIR/LOCK           held by the process that has the master running
        FORMAT         "nyala server, format 1", made last
        instance       {id, kind, masters}
        tablets/<id of the system tablet>/

The masters of a cluster are those that it was begun with: a directory that was begun with others is refused, since
their votes would be counted by other numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ...errors import OperationalError, listed
from ...storage.files.checked_file import read_checked, replace_checked
from ...storage.files.filesystem import FileSystem
from ...storage.tables.store_directory import make_durable_directory, require_format, write_format

FORMAT = b"nyala server, format 1\n"
KIND = "master"
VERSION = 1
_INSTANCE_MAGIC = b"nyalaINS"
_FIRST_FILES = ("LOCK", "tablets", "instance", "instance.tmp", "FORMAT.tmp")
"""What a crash may leave of a directory that was being made."""


class MasterDirectory:
    """A master's directory, locked for this process.

    Parameters
    ----------
    fs : FileSystem
    path : str
        Made where it is not there, or empty.
    id : str
        The master's.
    masters : sequence of str
        The addresses of all masters; empty where it is alone.
    create : callable
        Makes the durable files of the system tablet, given the directory of tablets.

    Raises
    ------
    StoreLocked
        Another process has the master running.
    CorruptionError, UnsupportedFormat, OperationalError, DiskError
        The directory cannot be used, holds something else, or belongs to another master.
    """

    def __init__(self, fs: FileSystem, path: str, id: str, masters: Sequence[str], create: Callable[[str], None]):
        self._fs = fs
        self.path = path.rstrip("/") or "/"
        self.id = id
        self._masters = sorted(masters)
        make_durable_directory(fs, self.path)
        self._lock = fs.lock(f"{self.path}/LOCK")
        try:
            if not fs.exists(f"{self.path}/FORMAT"):
                self._begin(create)
            self._check()
        except BaseException:
            self._lock.release()
            raise

    def tablet(self, tablet_id: str) -> str:
        """The directory of a tablet."""
        return f"{self.path}/tablets/{tablet_id}"

    def release(self) -> None:
        """Let other processes have it."""
        self._lock.release()

    def _begin(self, create: Callable[[str], None]) -> None:
        fs, tablets = self._fs, f"{self.path}/tablets"
        strangers = [name for name in fs.list(self.path) if name not in _FIRST_FILES]
        if strangers:
            raise OperationalError(
                f"{self.path} is no directory of a nyala master and not empty (it holds {listed(strangers, 5)}); "
                "give an empty or a new directory"
            )
        # Nobody has heard of a master that has no FORMAT: what a crash left of it is made again.
        fs.remove_tree(tablets)
        fs.make_directory(tablets)
        create(tablets)
        fs.sync_directory(tablets)
        content = {"id": self.id, "kind": KIND, "masters": self._masters}
        replace_checked(fs, f"{self.path}/instance", _INSTANCE_MAGIC, VERSION, content)
        write_format(fs, self.path, FORMAT)

    def _check(self) -> None:
        require_format(self._fs, self.path, FORMAT)
        instance = read_checked(self._fs, f"{self.path}/instance", _INSTANCE_MAGIC, VERSION)
        if instance.get("kind") != KIND:
            raise OperationalError(f"{self.path} belongs to a {instance.get('kind')}, not to a master")
        if instance["masters"] != self._masters or instance["id"] != self.id:
            before = ", ".join(instance["masters"]) or "this one alone"
            now = ", ".join(self._masters) or "this one alone"
            raise OperationalError(
                f"{self.path} was begun with other masters ({before}) than it is started with ({now}), or by another "
                "of them; start it as before"
            )
