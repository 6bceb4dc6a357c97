"""The connections of one process to the stores that its Spark tasks read and write.

Spark keeps its Python workers between tasks, so a task finds the connection of the task before it: channels, catalog
and the places of tablets are there already. What a process was forked from stays behind: its connections are forgotten,
as gRPC does not survive a fork.
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

_lock = threading.Lock()
_known: dict[tuple[Any, ...], Connection] = {}


def connection(url: str | Path, **options: Any) -> Connection:
    """A connection to a store, shared by all who ask in this process for the same; nobody closes it.

    Parameters
    ----------
    url : str or Path
        A cluster's URL, or a directory, which is reached through the process that has it open
        (`driver.stores.served_directory`).
    **options
        Of a cluster's client, as `connect` takes them: `deadline`, `read_mode`, `replica_selection`, ...

    Raises `InterfaceError` where the URL or an option is wrong, `DeadlineExceeded` where no master answers.
    """
    url = reachable(url)
    named = servers(url)
    options = {
        **{name: value for name, value in options.items() if name not in TLS_OPTIONS},
        **tls_options(url, options),
    }
    key = (*named, *sorted(options.items()))
    with _lock:
        found = _known.get(key)
        if found is None:
            found = _known[key] = _connected(named, options)
        return found


def planning(url: str | Path, **options: Any) -> Connection:
    """A `connection` that knows the catalog as it is now: what another process has created or altered just before is
    there. For whoever plans; what tasks read is named by ids that do not change."""
    found = connection(url, **options)
    assert isinstance(found.store, Client)
    found.store.refresh_catalog()
    return found


def _connected(named: tuple[tuple[str, int], ...], options: dict[str, Any]) -> Connection:
    # Of its own, and not one of `driver.stores.open_stores`: two relations may have different options, a process has
    # one store.
    store = Client(named, client_options(**options))
    session = Session(store, memory_limit=default_limit(), store_options=options)
    session.reads_latest = options.get("read_mode") == "READ_LATEST"
    return Connection(SharedStore(store, None, dict(options)), session)


def _forget() -> None:
    """In a forked child."""
    global _lock
    _lock = threading.Lock()
    _known.clear()


renew_in_child(_forget)


def close() -> None:
    """Close all of them, at the end of the process or of a test."""
    with _lock:
        connections = list(_known.values())
        _known.clear()
    for each in connections:
        each.close()


atexit.register(close)
