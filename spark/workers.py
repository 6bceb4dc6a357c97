"""The connections of one process to the stores that its Spark tasks read and write.

Spark keeps its Python workers between tasks, so a task reuses the connection of earlier tasks, with its channels,
catalog and tablet locations. A forked child discards the connections of its parent, because gRPC does not survive a
fork.
"""

from __future__ import annotations

import atexit
import threading
from pathlib import Path
from typing import Any

from ..cluster.client.client import Client
from ..cluster.client.options import client_options
from ..driver.connection import Connection
from ..driver.session.session import Session
from ..driver.stores.cluster_url import TLS_OPTIONS, servers, tls_options
from ..driver.stores.open_stores import SharedStore
from ..driver.stores.served_directory import reachable
from ..executor.run.memory import default_limit
from ..model.forks import renew_in_child
from ..model.store import Store

_lock = threading.Lock()
_known: dict[tuple[Any, ...], Connection] = {}


def connection(url: str | Path, **options: Any) -> Connection:
    """A connection to a store, shared by all callers in this process with the same arguments; callers do not close it.

    Parameters
    ----------
    url : str or Path
        A cluster's URL, or a directory, which is reached through the process that has it open
        (`driver.stores.served_directory`).
    **options
        Options of a cluster's client, as `connect` takes them: `deadline`, `read_mode`, `replica_selection`, ...

    Raises `InterfaceError` if the URL or an option is invalid, `DeadlineExceeded` if no master responds.
    """
    url = reachable(url)
    named = servers(url)
    options = {
        **{name: value for name, value in options.items() if name not in TLS_OPTIONS},
        **tls_options(url, options),
    }
    key = (*named, *sorted(options.items()))
    with _lock:
        known = _known.get(key)
        if known is None:
            known = _known[key] = _connected(named, options)
        return known


def observing(found: Connection, token: int | None) -> Connection:
    """Returns the connection, after it has observed a token, if there is one."""
    if token is not None:
        found.observe(token)
    return found


def store(url: str | Path) -> Store:
    """The store of a `connection`."""
    return connection(url).store


def planning(url: str | Path, **options: Any) -> Connection:
    """A `connection` with a refreshed catalog: it includes tables that another process has just created or altered.

    For planning; tasks refer to tables by ids that do not change.
    """
    planner = connection(url, **options)
    assert isinstance(planner.store, Client)
    planner.store.refresh_catalog()
    return planner


def _connected(named: tuple[tuple[str, int], ...], options: dict[str, Any]) -> Connection:
    # Independent of `driver.stores.open_stores`: two relations may have different options, but a process has one open
    # store per target.
    store = Client(named, client_options(**options))
    session = Session(store, memory_limit=default_limit(), store_options=options)
    session.reads_latest = options.get("read_mode") == "READ_LATEST"
    return Connection(SharedStore(store, None, dict(options)), session)


def _forget() -> None:
    """Discards the parent's connections in a forked child."""
    global _lock
    _lock = threading.Lock()
    _known.clear()


renew_in_child(_forget)


def close() -> None:
    """Closes all connections, at the end of the process or of a test."""
    with _lock:
        connections = list(_known.values())
        _known.clear()
    for each in connections:
        each.close()


atexit.register(close)
