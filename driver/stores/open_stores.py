"""The stores that this process has open, shared by its connections.

A directory has one opening process at a time; within the process several connections (a pool's, or one per thread)
use the same `Database`, which is closed with the last of them. Likewise the connections to a cluster share one
`Client`. Every connection to ":memory:" has a store of its own.

The process that has a directory open may serve it to others (`SharedStore.serve`); theirs then is a `Client`, too.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...errors import InterfaceError, StoreLocked
from ...model.forks import renew_in_child
from ...model.lazy_dataclass import dataclass
from ...model.store import Store
from ...storage.database import Database
from .cluster_url import TLS_OPTIONS, USER_ENVIRONMENT, servers, tls_options, user_options
from .server_processes import locked, server_of

if TYPE_CHECKING:
    from ...cluster.embedded_server.server import EmbeddedServer

MEMORY = ":memory:"
CLUSTER = "nyala://"
_TEMPORARY_THREADS = 2
"""That encode bulk loads into temporary tables."""
_DEFAULTS = {"durability": "fsync"}
"""Defaults of directories: naming them has no effect."""

_lock = threading.Lock()
_open: dict[str, SharedStore] = {}


@dataclass(slots=True, eq=False)
class SharedStore:
    """A store and how many connections hold it; the last `release` closes it."""

    store: Store
    key: str | None
    options: dict[str, Any]
    holders: int = 1
    url: str = ""
    """URL of the servers that have the store; "": this process has it."""
    server: EmbeddedServer | None = None
    """Serves the store to other processes, where this one has it."""

    @property
    def name(self) -> str:
        """Directory or URL; "" for a store in memory."""
        return self.url or self.key or ""

    @property
    def history_seconds(self) -> int | None:
        """Seconds for which the store keeps history; None if servers have it."""
        return getattr(self.store, "history_seconds", None)

    def is_as(self, options: dict[str, Any]) -> bool:
        """True if the store is open with these options. `history_seconds` may be omitted."""
        kept = self.history_seconds
        return {**self.options, "history_seconds": kept} == {"history_seconds": kept, **options}

    def share(self) -> SharedStore:
        """Take another hold."""
        with _lock:
            self.holders += 1
        return self

    def release(self) -> None:
        """Release one reference."""
        with _lock:
            self.holders -= 1
            if self.holders:
                return
            if self.key is not None:
                _open.pop(self.key, None)
            # Inside the lock: the next call must find the directory unlocked.
            try:
                if self.server is not None:
                    self.server.close()
            finally:
                self.store.close()
            if self.server is not None:
                self.server.forget()

    def serve(self) -> str:
        """The URL by which other processes reach the store: this one serves it from now on, until it is closed."""
        with _lock:
            return self._served()

    def _served(self) -> str:
        """`serve`. Needs the lock."""
        if self.url:
            return self.url
        if self.server is None:
            self.server = _server(self.store, self.key)
        return self.server.url


def is_cluster(target: str | Path) -> bool:
    """True for a URL, False for a directory."""
    return "://" in str(target)


def acquire(target: str | Path, threads: int, **options: Any) -> SharedStore:
    """Opens the store of a target: a directory (created if it does not exist), ":memory:" or the URL of a cluster.

    `threads` is the number of threads that encode bulk loads of a directory, set by its first opening. For a directory
    that another process serves, it connects to that process. Raises `StoreLocked` if another process has it open and
    does not serve it, `InterfaceError` if this one has with other `options`, `DeadlineExceeded` if no master of the
    cluster responds.
    """
    text = str(target)
    if text == MEMORY:
        return in_memory(threads, **options)
    if is_cluster(text):
        named = servers(text)
        user = user_options(text, options)
        others = {n: v for n, v in options.items() if n not in (*TLS_OPTIONS, *USER_ENVIRONMENT)}
        options = {**others, **tls_options(text, options), **user}
        who = f"{user['user']}@" if user else ""
        return _shared(
            CLUSTER + who + ",".join(f"{host}:{port}" for host, port in named),
            options,
            lambda _: _client(named, options),
        )
    options = {name: value for name, value in options.items() if _DEFAULTS.get(name) != value}
    return _shared(directory_of(target), options, lambda key: _opened(key, threads, options))


def in_memory(threads: int, **options: Any) -> SharedStore:
    """Open a new store in memory, with one user until others share it."""
    return SharedStore(Database(MEMORY, threads=threads, **options), None, options)


def of_temporary_objects() -> Store:
    """A new store in this process for the temporary objects of one session, whatever the connection's is."""
    return Database(MEMORY, threads=_TEMPORARY_THREADS)


def lent(store: Store, name: str) -> SharedStore:
    """A store that its caller has opened and closes itself; `name` is its directory."""
    return SharedStore(store, None, {}, holders=2, url=name)


def directory_of(target: str | Path) -> str:
    """The one name that a directory goes by here."""
    return str(Path(target).expanduser().resolve())


def serve_open(directory: str) -> str | None:
    """The URL of a directory that this process has open, which is served from now on; None where it has not."""
    with _lock:
        shared = _open.get(directory)
        return None if shared is None else shared._served()


def _shared(key: str, options: dict[str, Any], opened: Callable[[str], tuple[Store, str]]) -> SharedStore:
    with _lock:
        shared = _open.get(key)
        if shared is None:
            store, url = opened(key)
            shared = _open[key] = SharedStore(store, key, options, url=url)
        elif not shared.is_as(options):
            raise InterfaceError(
                f"{key} is open in this process with {_show(shared.options)}; it cannot be opened again with "
                f"{_show(options)}"
            )
        else:
            shared.holders += 1
        return shared


def _opened(directory: str, threads: int, options: dict[str, Any]) -> tuple[Store, str]:
    """The store in a directory, or a client of the process that serves it, and then its URL."""
    try:
        return Database(directory, threads=threads, **options), ""
    except StoreLocked:
        url = server_of(directory)
    if not url:
        try:  # a server that was closing has closed it by now
            return Database(directory, threads=threads, **options), ""
        except StoreLocked as error:
            raise locked(error) from None
    if options:
        raise InterfaceError(
            f"{directory} is served by another process, which has opened it; {_show(options)} cannot be set here"
        )
    return _client(servers(url), {})


def _client(named: Sequence[tuple[str, int]], options: dict[str, Any]) -> tuple[Store, str]:
    # gRPC and what belongs to it are loaded by those alone who use a cluster.
    from ...cluster.client.client import Client
    from ...cluster.client.options import client_options

    client = Client(named, client_options(**options))
    return client, client.name


def _server(store: Store, key: str | None) -> EmbeddedServer:
    """A server of a store that this process has."""
    from ...cluster.embedded_server.server import EmbeddedServer
    from ...executor.fragments.evaluate import table_evaluator

    assert isinstance(store, Database)
    server = EmbeddedServer(store, directory=key, fragments=table_evaluator)
    server.start()
    return server


def _forget_all() -> None:
    """In a forked child: its parent's stores and clients are of no use to it, and refuse where they are used."""
    global _lock
    _lock = threading.Lock()
    _open.clear()


renew_in_child(_forget_all)


def _show(options: dict[str, Any]) -> str:
    shown = {name: "***" if name == "password" else value for name, value in options.items()}
    return ", ".join(f"{name}={value!r}" for name, value in sorted(shown.items())) or "default options"
