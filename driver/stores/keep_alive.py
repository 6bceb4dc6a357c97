"""Keep-alive of server processes on which this process depends, so that they do not exit as idle.

A server started with `nyala serve --idle-exit` exits when it has not been called for that many seconds. Its URL must
stay valid while a process that requested it lives, so that process calls it at intervals. When the process has ended,
in any way, the server becomes idle and exits.
"""

from __future__ import annotations

import subprocess
import threading
from typing import TYPE_CHECKING

from ...model.forks import renew_in_child

if TYPE_CHECKING:
    from ...cluster.embedded_server.server_record import ServerRecord

_SHARE = 3
"""Number of calls within the time after which an idle server would exit."""


class _Keeper:
    """Calls server processes in a thread of its own, from the first one on. Safe for several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        """Guards all below."""
        self._servers: dict[str, tuple[str, ServerRecord]] = {}
        """With their directories, by their ids."""
        self._children: list[subprocess.Popen[bytes]] = []
        self._thread: threading.Thread | None = None
        self._changed = threading.Event()

    def keep(self, directory: str, server: ServerRecord) -> None:
        """Keep calling until this process or the server ends."""
        with self._lock:
            self._servers[server.id] = directory, server
            self._start()
        self._changed.set()

    def adopt(self, child: subprocess.Popen[bytes]) -> None:
        """Watch a server process that this process started: its exit status must be collected here."""
        with self._lock:
            self._children.append(child)
            self._start()

    def _start(self) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="nyala-keep-alive", daemon=True)
            self._thread.start()

    def _run(self) -> None:
        while True:
            with self._lock:
                servers = list(self._servers.values())
                self._children = [child for child in self._children if child.poll() is None]
                is_idle = not servers and not self._children
            waits = [server.idle_exit / _SHARE for _, server in servers if server.idle_exit is not None]
            self._changed.wait(None if is_idle else min(waits, default=1.0))
            self._changed.clear()
            for directory, server in servers:
                if not server.answers(directory) and not server.is_alive:
                    with self._lock:
                        self._servers.pop(server.id, None)


_keeper = _Keeper()


def keep(directory: str, server: ServerRecord) -> None:
    """Call the server of a directory at intervals while this process lives; not needed for one without an idle exit."""
    if server.idle_exit is not None:
        _keeper.keep(directory, server)


def adopt(child: subprocess.Popen[bytes]) -> None:
    """Take note of the end of a process that this one has started, whenever that is."""
    _keeper.adopt(child)


def _begin_anew() -> None:
    """In a forked child: the thread is its parent's, and so are the children."""
    global _keeper
    for child in _keeper._children:
        child.returncode = 0
    _keeper = _Keeper()


renew_in_child(_begin_anew)
