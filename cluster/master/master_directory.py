"""The directory of a master: its identity, and its replica of the system tablet.

    DIR/LOCK           held by the process that has the master running
        FORMAT         "nyala server, format 1", written last
        instance       {id, kind, masters}
        tablets/<id of the system tablet>/

The set of masters is fixed at creation. A directory that was created with others is refused, since their votes would be
counted against other majorities.
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
"""Files that a crash may leave of a directory under construction."""


class MasterDirectory:
    """A master's directory, locked for this process.

    Parameters
    ----------
    fs : FileSystem
    path : str
        Initialised if it does not exist, or is empty.
    id : str
        The master's.
    masters : sequence of str
        The addresses of all masters; empty for a single one.
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
        """Returns the directory of a tablet."""
        return f"{self.path}/tablets/{tablet_id}"

    def release(self) -> None:
        """Unlocks the directory."""
        self._lock.release()

    def _begin(self, create: Callable[[str], None]) -> None:
        fs, tablets = self._fs, f"{self.path}/tablets"
        strangers = [name for name in fs.list(self.path) if name not in _FIRST_FILES]
        if strangers:
            raise OperationalError(
                f"{self.path} is not a directory of a nyala master and not empty (it holds {listed(strangers, 5)}); "
                "specify an empty or a new directory"
            )
        # A master without FORMAT has never served: the remains of a crash are created again.
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
                f"{self.path} was created with other masters ({before}) than it is started with ({now}), or by another "
                "of them; start it as before"
            )
