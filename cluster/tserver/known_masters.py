"""The masters that a tablet server reports to, kept over restarts.

    DIR/masters     {given: the addresses that the server was started with, masters: those that the leading one listed}

Masters are added and removed at run time, so the addresses of the command line may be stale. A server that is started
with the same ones as when the file was written also calls the masters in it. If they differ, they were changed on
purpose, perhaps to those of another cluster, and the file does not count.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

from ...errors import CorruptionError, DiskError
from ...storage.files.checked_file import read_checked, replace_checked
from ...storage.files.filesystem import FileSystem

NAME = "masters"
VERSION = 1
_MAGIC = b"nyalaMST"
_log = logging.getLogger("nyala.cluster.tserver")


class KnownMasters:
    """The file in the server's own directory. Not thread-safe: `note` is called by one thread at a time.

    Parameters
    ----------
    given : sequence of str
        The addresses of the masters from the command line; none: the server runs without masters.

    Attributes
    ----------
    first : tuple of str
        The addresses to begin with.
    """

    def __init__(self, fs: FileSystem, directory: str, given: Sequence[str]):
        self._fs = fs
        self._path = f"{directory.rstrip('/')}/{NAME}"
        self._given = tuple(given)
        self._noted = self._read()
        self.first = tuple(dict.fromkeys((*self._noted, *self._given)))

    def _read(self) -> tuple[str, ...]:
        if not self._given or not self._fs.exists(self._path):
            return ()
        try:
            content = read_checked(self._fs, self._path, _MAGIC, VERSION)
        except (CorruptionError, DiskError) as error:
            _log.warning("the list of masters cannot be read", extra={"fields": {"error": str(error)}})
            return ()
        return tuple(content["masters"]) if set(content["given"]) == set(self._given) else ()

    def note(self, masters: Sequence[str]) -> None:
        """Notes all masters as the leading one lists them; logs if the command line's are others."""
        is_stale = set(masters) != set(self._given)
        if is_stale:
            fields = {"given": list(self._given), "masters": list(masters)}
            _log.warning("--masters is stale: change it before the next start", extra={"fields": fields})
        if tuple(masters) == self._noted or not (is_stale or self._noted):
            return
        try:
            content = {"given": list(self._given), "masters": list(masters)}
            replace_checked(self._fs, self._path, _MAGIC, VERSION, content)
        except DiskError as error:  # they are listed again after the next start
            _log.warning("the list of masters cannot be written", extra={"fields": {"error": str(error)}})
        else:
            self._noted = tuple(masters)
