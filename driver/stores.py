"""The stores that this process has open, shared by its connections.

A directory has one opening process at a time; within the process several connections (a pool's, or one per thread)
use the same `Database`, which is closed with the last of them. Likewise the connections to a cluster share one
`Client`. Every connection to ":memory:" has a store of its own.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..errors import InterfaceError
from ..storage.database import Database
from ..storage.store import Store
from .servers import servers

MEMORY = ":memory:"
CLUSTER = "nyala://"

_lock = threading.Lock()
_open: dict[str, SharedStore] = {}


@dataclass(slots=True, eq=False)
class SharedStore:
    """A store and how many connections hold it; the last `release` closes it."""

    store: Store
    key: str | None
    options: dict[str, Any]
    holders: int = 1

    def share(self) -> SharedStore:
        """Take another hold."""
        with _lock:
            self.holders += 1
        return self

    def release(self) -> None:
        """Give up one hold."""
        with _lock:
            self.holders -= 1
            if self.holders:
                return
            if self.key is not None:
                _open.pop(self.key, None)
            # Inside the lock: whoever connects next must find the directory unlocked.
            self.store.close()


def is_cluster(target: str | Path) -> bool:
    """Is it a URL, and not a directory?"""
    return "://" in str(target)


def acquire(target: str | Path, threads: int, **options: Any) -> SharedStore:
    """The store behind a target: a directory (made if it is not there), ":memory:" or the URL of a cluster.

    `threads` is how many encode bulk loads of a directory; whoever opens it first decides. Raises `StoreLocked` if
    another process has it open, `InterfaceError` if this one has with other `options`, `DeadlineExceeded` where no
    master of the cluster answers.
    """
    text = str(target)
    if text == MEMORY:
        return SharedStore(Database(MEMORY, threads=threads, **options), None, options)
    if is_cluster(text):
        named = servers(text)
        return _shared(
            CLUSTER + ",".join(f"{host}:{port}" for host, port in named),
            options,
            lambda _: _client(named, options),
        )
    path = str(Path(text).expanduser().resolve())
    return _shared(path, options, lambda key: Database(key, threads=threads, **options))


def _shared(key: str, options: dict[str, Any], opened: Callable[[str], Store]) -> SharedStore:
    with _lock:
        shared = _open.get(key)
        if shared is None:
            shared = _open[key] = SharedStore(opened(key), key, options)
        elif shared.options != options:
            raise InterfaceError(
                f"{key} is open in this process with {_show(shared.options)}; it cannot be opened again with "
                f"{_show(options)}"
            )
        else:
            shared.holders += 1
        return shared


def _client(named: Sequence[tuple[str, int]], options: dict[str, Any]) -> Store:
    # gRPC and what belongs to it are loaded by those alone who use a cluster.
    from ..cluster.client.client import Client
    from ..cluster.client.options import client_options

    return Client(named, client_options(**options))


def _forget_clients() -> None:
    """In a forked child: its parent's clients are of no use to it, and say so where they are used all the same."""
    global _lock
    _lock = threading.Lock()
    for key in [key for key in _open if key.startswith(CLUSTER)]:
        del _open[key]


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_clients)


def _show(options: dict[str, Any]) -> str:
    return ", ".join(f"{name}={value!r}" for name, value in sorted(options.items())) or "default options"
