"""Processes that serve a directory: how one is found, waited for, and started.

A process that serves a directory describes itself in the file DIR/owner (`cluster.embedded_server.server_record`). Two
processes that start a server at the same time get the same one: the directory's lock decides, and the other process
ends.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ...errors import OperationalError, StoreLocked
from .keep_alive import adopt, keep

if TYPE_CHECKING:
    from ...cluster.embedded_server.server_record import ServerRecord

START_SECONDS: Final = 60.0
"""Time for a server process to open the store, including log replay, or to close it."""
_POLL_SECONDS = 0.03
ADVICE: Final = "close it there, or let that process serve it (`Connection.serve()`), or start it with `nyala serve`"
"""Advice for a directory that another process has open without serving it."""


def server_of(directory: str, seconds: float = START_SECONDS) -> str:
    """The URL of the process that serves a directory, which this process relies on from now on; "" where none does.
    One that is opening or closing the store is waited for."""
    record = _found(directory, time.monotonic() + seconds)
    if record is None:
        return ""
    keep(directory, record)
    return record.url


def locked(error: StoreLocked) -> StoreLocked:
    """The error of a directory that another process has for itself, with what to do about it."""
    return StoreLocked(f"{error}. That process does not serve it: {ADVICE}")


def holds_store(directory: Path) -> bool:
    """True if a store was created in a directory."""
    return (directory / "FORMAT").exists()


def no_store(directory: Path) -> str:
    """The reason for an error about a directory that holds no store."""
    return f"{directory}: there is {'no nyala store in it' if directory.is_dir() else 'no such directory'}"


def found_or_started(directory: str, create: bool, idle_exit: float) -> ServerRecord:
    """The process that serves a directory, started if there is none. Parameters and errors as for
    `served_directory.reachable`."""
    path = Path(directory)
    if create:
        path.mkdir(parents=True, exist_ok=True)
    elif not holds_store(path):
        raise OperationalError(f"{no_store(path)}; create=True makes one")
    deadline = time.monotonic() + START_SECONDS
    child: _Child | None = None
    while True:
        record = _found(directory, deadline)
        if record is not None:
            keep(directory, record)
            return record
        if child is None:
            child = _Child(directory, idle_exit)
        elif child.has_ended:
            # Another one may have been faster, and has said so by now.
            if _found(directory, deadline) is None:
                raise child.error()
            continue
        if time.monotonic() > deadline:
            raise OperationalError(f"{directory}: the process that is to serve it does not answer; see {child.log}")
        time.sleep(_POLL_SECONDS)


def _found(directory: str, deadline: float) -> ServerRecord | None:
    """The process that serves a directory, waited for where it is about to."""
    from ...cluster.embedded_server.server_record import find_server

    while True:
        record = find_server(directory)
        if record is None or record.address:
            return record
        if time.monotonic() > deadline:
            raise StoreLocked(f"{directory} is being opened or closed by process {record.pid}; try again later")
        time.sleep(_POLL_SECONDS)


class _Child:
    """A process that is to serve a directory."""

    def __init__(self, directory: str, idle_exit: float):
        from ...cluster.embedded_server.server_record import LOG

        self.log = Path(directory) / LOG
        with self.log.open("ab") as log:
            self._start = log.tell()
            # A session of its own: Ctrl-C at the terminal ends the calling process, not the server.
            self._process = subprocess.Popen(
                [sys.executable, "-m", "nyala", "serve", directory, "--idle-exit", str(idle_exit)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        adopt(self._process)

    @property
    def has_ended(self) -> bool:
        return self._process.poll() is not None

    def error(self) -> OperationalError:
        """Error with the reason of its exit."""
        with self.log.open("rb") as log:
            log.seek(self._start)
            lines = log.read().decode("utf-8", "replace").splitlines()
        for line in reversed(lines):
            kind, message = _reason(line)
            if kind == StoreLocked.__name__:
                return locked(StoreLocked(message))
            if kind:
                return OperationalError(f"the store cannot be served: {message}")
        tail = "\n".join(lines[-12:])
        return OperationalError(f"the process that was to serve the store has ended; its log {self.log} ends:\n{tail}")


def _reason(line: str) -> tuple[str, str]:
    """Class and message of the error in a line of the log; "" if it has none."""
    try:
        told = json.loads(line)
        return str(told["fields"]["class"]), str(told["event"]).partition(": ")[2]
    except (ValueError, KeyError, TypeError):
        return "", ""
