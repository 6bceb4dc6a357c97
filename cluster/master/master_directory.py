"""The directory of a master: its identity, and its replica of the system tablet.

    DIR/LOCK           held by the process that has the master running
        FORMAT         "nyala server, format 1", written last
        instance       {id, kind, masters, cluster, removed}
        tablets/<id of the system tablet>/

    masters    the addresses that the master was created with: only for people
    cluster    the cluster's id, once it is known
    removed    the addresses of the other masters when the cluster had removed this one; [] for a master

The masters themselves are in the configuration of the system tablet, which changes at run time (`membership`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

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
        Made if it does not exist; a new or empty one is then initialised by `begin`.

    Raises
    ------
    StoreLocked
        Another process has the master running.
    CorruptionError, UnsupportedFormat, OperationalError, DiskError
        The directory cannot be used, or holds something else.

    Attributes
    ----------
    id : str
        The master's; "" before `begin`.
    cluster : str
        The cluster's id; "" before `note_cluster`.
    removed : tuple of str
        The addresses of the masters of the cluster that has removed this one; else none.
    """

    def __init__(self, fs: FileSystem, path: str):
        self._fs = fs
        self.path = path.rstrip("/") or "/"
        self.id = ""
        self.cluster = ""
        self.removed: tuple[str, ...] = ()
        self._instance: dict[str, Any] = {}
        make_durable_directory(fs, self.path)
        self._lock = fs.lock(f"{self.path}/LOCK")
        try:
            if fs.exists(f"{self.path}/FORMAT"):
                self._read()
            else:
                self._check_empty()
        except BaseException:
            self._lock.release()
            raise

    def tablet(self, tablet_id: str) -> str:
        """Returns the directory of a tablet."""
        return f"{self.path}/tablets/{tablet_id}"

    def release(self) -> None:
        """Unlocks the directory."""
        self._lock.release()

    def begin(self, id: str, masters: Sequence[str], create: Callable[[str], None]) -> None:
        """Initialises a new directory; no-op for an existing one.

        Parameters
        ----------
        id : str
            The master's, from now on.
        masters : sequence of str
            The addresses that it is started with.
        create : callable
            Makes the durable files of the system tablet, if it begins with any, given the directory of tablets.
        """
        if self.id:
            return
        fs, tablets = self._fs, f"{self.path}/tablets"
        # A master without FORMAT has never served: the remains of a crash are created again.
        fs.remove_tree(tablets)
        fs.make_directory(tablets)
        create(tablets)
        fs.sync_directory(tablets)
        self._write({"id": id, "kind": KIND, "masters": sorted(masters)})
        write_format(fs, self.path, FORMAT)

    def note_removed(self, masters: Sequence[str]) -> None:
        """Durably notes that the cluster with these masters has removed this one; none: that it has it (again)."""
        if tuple(masters) != self.removed:
            self._write({**self._instance, "removed": list(masters)})

    def note_cluster(self, cluster_id: str) -> None:
        """Durably notes the cluster to which the catalog belongs."""
        self._write({**self._instance, "cluster": cluster_id})

    def _write(self, instance: dict[str, Any]) -> None:
        replace_checked(self._fs, f"{self.path}/instance", _INSTANCE_MAGIC, VERSION, instance)
        self._take(instance)

    def _take(self, instance: dict[str, Any]) -> None:
        self._instance, self.id = instance, instance["id"]
        self.cluster, self.removed = instance.get("cluster", ""), tuple(instance.get("removed", ()))

    def _check_empty(self) -> None:
        strangers = [name for name in self._fs.list(self.path) if name not in _FIRST_FILES]
        if strangers:
            raise OperationalError(
                f"{self.path} is not a directory of a nyala master and not empty (it holds {listed(strangers, 5)}); "
                "specify an empty or a new directory"
            )

    def _read(self) -> None:
        require_format(self._fs, self.path, FORMAT)
        instance = read_checked(self._fs, f"{self.path}/instance", _INSTANCE_MAGIC, VERSION)
        if instance.get("kind") != KIND:
            raise OperationalError(f"{self.path} belongs to a {instance.get('kind')}, not to a master")
        self._take(instance)
