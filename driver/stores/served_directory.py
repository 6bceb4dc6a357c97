"""URLs of stores for other processes.

| the target | its URL |
|---|---|
| a cluster | its own |
| a directory that this process has open | this process serves it, until it is closed |
| a directory that another process serves | the URL in DIR/owner |
| a directory that is not open | a process is started that serves it (`nyala serve`) while it is needed |
| a directory that another process has open without serving it | an error that says what to do |
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from ...errors import InterfaceError
from .cluster_url import PLAIN, is_environment_secure, servers, with_parameters
from .open_stores import MEMORY, directory_of, is_cluster, serve_open
from .server_processes import found_or_started

IDLE_EXIT_SECONDS: Final = 60.0
"""Idle time, in seconds, after which a server process started here exits."""


def reachable(target: str | Path, *, create: bool = False, idle_exit: float = IDLE_EXIT_SECONDS) -> str:
    """Returns the URL by which other processes reach a store; see the module's page.

    Parameters
    ----------
    target : str or Path
        The URL of a cluster, or a directory.
    create : bool
        Create the store if there is none.
    idle_exit : float
        Seconds after which a server process started here exits, when this process and all others that requested it have
        ended or stopped calling.

    Raises
    ------
    InterfaceError
        ":memory:" belongs to one connection (`Connection.serve` can serve it); the URL is wrong.
    StoreLocked
        Another process has the directory open, and does not serve it.
    OperationalError
        There is no store in the directory, or it cannot be opened.
    """
    if is_cluster(target):
        servers(str(target))
        return str(target)
    if str(target) == MEMORY:
        raise InterfaceError("':memory:' is a store of one connection: let that one serve it, with Connection.serve()")
    directory = directory_of(target)
    url = serve_open(directory) or found_or_started(directory, create, idle_exit).url
    return with_parameters(url, PLAIN) if is_environment_secure() else url  # embedded servers have no TLS
