"""The connections of one process to the stores that its Spark tasks read and write.

Spark keeps its Python workers between tasks, so a task reuses the connection of earlier tasks, with its channels,
catalog and tablet locations. A forked child discards the connections of its parent, because gRPC does not survive a
fork.

Where the store has users, the driver logs in with a password, and tasks with a token that it requests for them:

    driver  connection(url, user, password) ─► task_access ─► url, options with a token ── pickled ──► tasks
    task    connection(url, token)
"""

from __future__ import annotations

import atexit
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from ..cluster.client.client import Client
from ..cluster.client.options import client_options
from ..driver.connection import Connection
from ..driver.session.identity import act_as_own_user
from ..driver.session.session import Session
from ..driver.stores.cluster_url import (
    TLS_OPTIONS,
    USER_ENVIRONMENT,
    servers,
    tls_options,
    user_options,
    without_password,
    without_user,
)
from ..driver.stores.open_stores import SharedStore
from ..driver.stores.served_directory import reachable
from ..executor.run.memory import default_limit
from ..model.access.tokens import TASK_SECONDS, token_expiry
from ..model.forks import renew_in_child
from ..model.store import Store

TOKEN: Final = "token"
"""The client's option for a token of tasks."""
_SECRETS: Final = ("password", TOKEN)
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
        Options of a cluster's client, as `connect` takes them: `deadline`, `read_mode`, `user`, `password`, ...; or the
        `token` of `task_access`. Without a token, the URL or the environment can name a user, too.

    Raises `InterfaceError` if the URL or an option is invalid, `DeadlineExceeded` if no master responds,
    `InvalidPassword` or `LoginNeeded` if the store has users and the given one cannot log in.
    """
    url = reachable(url)
    named = servers(url)
    others = {name: value for name, value in options.items() if name not in (*TLS_OPTIONS, *USER_ENVIRONMENT, TOKEN)}
    token = options.get(TOKEN)
    user = user_options(url, options) if token is None else {TOKEN: token}
    options = {**others, **tls_options(without_user(url), options), **user}
    key = (*named, *sorted(options.items()))
    with _lock:
        known = _known.get(key)
        if known is None:
            _forget_expired()
            known = _known[key] = _connected(named, options)
        return known


def task_access(
    url: str | Path, options: Mapping[str, Any], client: Store, seconds: float = TASK_SECONDS
) -> tuple[str, dict[str, Any]]:
    """The URL and the options by which tasks reach a store: the given ones without a password, and with a token for
    the user of `client`, if it has one.

    Parameters
    ----------
    url : str or Path
        As for `connection`.
    options : mapping of str to Any
        As for `connection`.
    client : Store
        That of a connection of this process to the same store.
    seconds : float
        The seconds for which the token is valid; a day at most.
    """
    url = reachable(url)
    requested = getattr(client, "task_token", None)  # of a store of this process there is none
    token = requested(seconds) if requested is not None else b""
    if not token:
        return without_password(url), {name: value for name, value in options.items() if name not in _SECRETS}
    kept = {name: value for name, value in options.items() if name not in (*USER_ENVIRONMENT, TOKEN)}
    return without_user(url), {**kept, TOKEN: token}


def observing(found: Connection, token: int | None) -> Connection:
    """Returns the connection, after it has observed a token, if there is one."""
    if token is not None:
        found.observe(token)
    return found


def store(url: str | Path, **options: Any) -> Store:
    """The store of a `connection`."""
    return connection(url, **options).store


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
    act_as_own_user(session)
    session.reads_latest = options.get("read_mode") == "READ_LATEST"
    shown = {name: value for name, value in options.items() if name not in _SECRETS}
    return Connection(SharedStore(store, None, shown), session)


def _forget_expired() -> None:
    """Closes the connections of tasks whose tokens have expired. Needs the lock."""
    for key in [key for key in _known if any(_is_expired_token(option) for option in key)]:
        _known.pop(key).close()


def _is_expired_token(option: tuple[str, Any]) -> bool:
    return option[0] == TOKEN and token_expiry(option[1]) <= time.time()


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
