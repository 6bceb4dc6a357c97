"""Users and grants as a tablet server has them: the masters' newest, kept in a file, so that a restarted server checks
them before it has heard from a master.

    SetRights, replies to heartbeats ──► KnownRights ──► DIR/rights
                                             │
    each call and scan ──► Users.admission ──┴──► Users (who calls), TableRights (may it)
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any, Final

from ...storage.files.checked_file import read_checked, replace_checked
from ...storage.files.filesystem import FileSystem
from ..wire.call_context import CallContext
from ..wire.messages.methods import Done
from ..wire.messages.user_methods import SetRights
from ..wire.security.users import NO_USERS, Rights, rights_from_plain, rights_to_plain

FILE: Final = "rights"
MAGIC: Final = b"nyalaRGT"
VERSION: Final = 1


class KnownRights:
    """The rights that this server knows. Thread-safe.

    Parameters
    ----------
    fs : FileSystem
    directory : str
        The server's own. Raises `CorruptionError` if the file there is damaged.
    """

    def __init__(self, fs: FileSystem, directory: str):
        self._fs = fs
        self._path = f"{directory}/{FILE}"
        self._lock = threading.Lock()
        self.current: Rights = NO_USERS
        if fs.exists(self._path):
            self.current = rights_from_plain(read_checked(fs, self._path, MAGIC, VERSION))
        self.durable_version = self.current.version
        """That of the file, which heartbeats report: the masters send newer ones until they are durable."""

    def take(self, plain: Mapping[str, Any]) -> None:
        """Checks by these rights from now on, if they are newer, and keeps them durably. Raises `DiskError` if that
        fails; they are in force until the process ends all the same."""
        rights = rights_from_plain(plain)
        with self._lock:
            if rights.version > self.current.version:
                self.current = rights
            if rights.version > self.durable_version:
                replace_checked(self._fs, self._path, MAGIC, VERSION, rights_to_plain(rights))
                self.durable_version = rights.version

    def set(self, request: SetRights, context: CallContext) -> Done:
        """Handles `SetRights`."""
        self.take(request.rights)
        return Done()
