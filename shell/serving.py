"""Serving a session's store, so that scripts reach a directory while a shell has it open.

A session at a terminal starts this by itself, in a thread: loading gRPC takes a moment that the first prompt need not
wait for. `\\serve` does it elsewhere, and reports how other processes connect.
"""

from __future__ import annotations

import sys
import threading
from pathlib import Path
from typing import Final

from ..driver.connection import Connection
from ..driver.stores.open_stores import MEMORY, is_cluster
from ..driver.stores.server_processes import ADVICE, holds_store
from ..errors import Error, OperationalError

_LOCKED: Final = (
    "end that process (in a shell, \\q), or let it serve the directory: a shell at a terminal does so unless it was "
    "started with --no-serve, \\serve does it later, and `nyala serve DIR` is a process that does nothing else"
)
"""Advice for a directory that another process has open, in the words of the command line."""


def message_of(error: Error) -> str:
    """The text of an error at the command line, where `Connection.serve` is nothing to call.

    >>> message_of(OperationalError("the disk is full"))
    'the disk is full'
    """
    return str(error).replace(ADVICE, _LOCKED)


class Serving:
    """Serves the store of a connection until the connection is closed.

    Parameters
    ----------
    connection : Connection
    """

    def __init__(self, connection: Connection):
        self._connection = connection
        self._thread: threading.Thread | None = None
        self._url = ""
        self._error: Error | None = None

    def start(self) -> None:
        """Begin to serve, in the background."""
        self._thread = threading.Thread(target=self._serve, name="nyala-shell-serving", daemon=True)
        self._thread.start()

    @property
    def has_failed(self) -> bool:
        """True if the store could not be served when that was tried last."""
        return self._error is not None

    def url(self) -> str:
        """The URL by which other processes reach the store, which is served from now on.

        Raises
        ------
        OperationalError
            It cannot be served: this machine does not permit listening on a port.
        """
        self.wait()
        if not self._url:
            self._serve()
        if self._error is not None:
            raise self._error
        return self._url

    def wait(self) -> None:
        """Wait until what `start` began has been done; the connection must not be closed before."""
        if self._thread is not None:
            self._thread.join()
            self._thread = None

    def _serve(self) -> None:
        try:
            self._url, self._error = self._connection.serve(), None
        except Error as error:
            self._error = error
        except (OSError, RuntimeError) as error:  # no loopback, as in some sandboxes
            self._error = OperationalError(f"the store cannot be served: {error}")


def is_directory(target: str) -> bool:
    """True if a target is a store's directory: neither in memory nor a cluster."""
    return target != MEMORY and not is_cluster(target)


def note_new(target: str | Path) -> None:
    """Say on standard error that a directory will be made, before it is: a mistyped name shows at once."""
    path = Path(target).expanduser()
    if is_directory(str(target)) and not holds_store(path):
        print(f"nyala: note: {path} holds no store yet; a new one is made", file=sys.stderr)
