"""The end of the process: servers are stopped before Python and Arrow are torn down.

Arrow registers a finalizer for each server that waits, without a limit, until all streams have ended. A client that
reads slowly, or not at all, would hold the process for as long as it lives. So servers are stopped before that, by
`atexit`: it calls the last registered function first, and a server is registered after Arrow's finalizer.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import socket
import stat
import threading
import weakref
from typing import Final, Protocol

from ....model.forks import renew_in_child

EXIT_SECONDS: Final = 0.5
"""Seconds for streams and calls to end by themselves when the process ends."""


class Stoppable(Protocol):
    """A server that can be stopped."""

    def stop(self, grace: float, cut: bool) -> bool: ...


_servers: weakref.WeakSet[Stoppable] = weakref.WeakSet()
_lock = threading.Lock()
_is_registered = False


def stop_at_exit(server: Stoppable) -> None:
    """Stops the server when the process ends, unless it was garbage-collected. Stopping twice must do nothing."""
    global _is_registered
    with _lock:
        _servers.add(server)
        if not _is_registered:
            atexit.register(_stop_all)
            _is_registered = True


def _stop_all() -> None:
    for server in list(_servers):
        with contextlib.suppress(Exception):
            server.stop(EXIT_SECONDS, True)


def cut_connections(port: int) -> None:
    """Shuts down all connections that this process accepted at a port; their streams end with an error at once.

    gRPC offers this as a deadline of its shutdown, which Arrow does not pass on.
    """
    for descriptor in _descriptors():
        with contextlib.suppress(OSError, ValueError):
            if not stat.S_ISSOCK(os.fstat(descriptor).st_mode):
                continue
            with socket.socket(fileno=os.dup(descriptor)) as found:
                if found.family in (socket.AF_INET, socket.AF_INET6) and found.getsockname()[1] == port:
                    found.getpeername()  # an OSError for a listening socket
                    found.shutdown(socket.SHUT_RDWR)


def _descriptors() -> list[int]:
    for place in ("/proc/self/fd", "/dev/fd"):
        with contextlib.suppress(OSError):
            return [int(name) for name in os.listdir(place)]  # noqa: PTH208 - names, not files
    return []


def _renew() -> None:
    """In a forked child: the servers are its parent's."""
    global _lock
    _lock = threading.Lock()
    _servers.clear()


renew_in_child(_renew)
