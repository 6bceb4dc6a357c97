"""Space for a master's log. A full disk is a passing state, as at tablet servers (`tserver.directories`).

every 2 s, and when the log meets ENOSPC      a small file is written and removed
no space     changes of the catalog are refused before anything is done, with the directory and "disk full"; entries
             in progress wait in memory; reads of the catalog continue
space again  the log continues by itself
"""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Callable

from ....errors import DiskError
from ....storage.files.filesystem import FileSystem
from ...disk_errors import is_full

LOOK_SECONDS = 2.0
PROBE_BYTES = 256 << 10
"""More than a change of the catalog takes."""
_NAME = "probe"
_log = logging.getLogger("nyala.cluster.master")


class MasterSpace:
    """Checks for space. Thread-safe.

    Parameters
    ----------
    changed : callable
        Called when the disk has become full (True), or has space again (False).
    """

    def __init__(self, fs: FileSystem, directory: str, changed: Callable[[bool], None]):
        self._fs = fs
        self._directory = directory
        self._changed = changed
        self._looked = 0.0
        self.full = ""
        """The reason for which no write is possible: "disk full", the directory, and the system's error; or ""."""
        self._full_since = 0.0

    def note_full(self, tablet_id: str, error: Exception) -> bool:
        """Notes that the log has met a full disk; called without the lock of its consensus. Returns True: `look` will
        check it."""
        self._set(f"disk full: {self._directory}: {error}")
        return True

    @property
    def others_have_looked(self) -> bool:
        """True if the disk has been full for so long that a master whose disk filled at the same time has noticed."""
        return bool(self.full) and time.monotonic() - self._full_since > 2 * LOOK_SECONDS

    def look(self) -> None:
        """Checks for space; called about every second."""
        now = time.monotonic()
        if now - self._looked < LOOK_SECONDS:
            return
        self._looked = now
        path = f"{self._directory}/{_NAME}"
        try:
            with contextlib.suppress(DiskError):
                self._fs.remove(path)
            file = self._fs.create(path)
            try:
                file.write(bytes(PROBE_BYTES))
            finally:
                file.close()
        except DiskError as error:
            if is_full(error):
                self._set(f"disk full: {self._directory}: {error}")
        else:
            self._set("")
        finally:
            with contextlib.suppress(DiskError):
                self._fs.remove(path)

    def _set(self, full: str) -> None:
        was, self.full = self.full, full
        if bool(was) is bool(full):
            return
        self._full_since = time.monotonic()
        fields = {"path": self._directory, "error": full or was}
        (_log.error if full else _log.info)("disk full" if full else "space again", extra={"fields": fields})
        self._changed(bool(full))
