"""The stores that this process has open, shared by its connections.

A directory has one opening process at a time; within the process several connections (a pool's, or one per thread)
use the same `Database`, which is closed with the last of them. Every connection to ":memory:" has a store of its own.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..errors import InterfaceError, NotSupportedError
from ..storage.database import Database
from ..storage.store import Store
from .servers import servers

MEMORY = ":memory:"

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


def acquire(target: str | Path, threads: int, **options: Any) -> SharedStore:
    """The store behind a target: a directory (made if it is not there) or ":memory:".

    `threads` is how many encode bulk loads; whoever opens a directory first decides. Raises `StoreLocked` if another
    process has it open, `InterfaceError` if this one has with other `options`, `NotSupportedError` for the URL of a
    cluster.
    """
    text = str(target)
    if text == MEMORY:
        return SharedStore(Database(MEMORY, threads=threads, **options), None, options)
    if "://" in text:
        _refuse_url(text)
    key = str(Path(text).expanduser().resolve())
    with _lock:
        shared = _open.get(key)
        if shared is None:
            shared = _open[key] = SharedStore(Database(key, threads=threads, **options), key, options)
        elif shared.options != options:
            raise InterfaceError(
                f"{key} is open in this process with {_show(shared.options)}; it cannot be opened again with "
                f"{_show(options)}"
            )
        else:
            shared.holders += 1
        return shared


def _refuse_url(text: str) -> None:
    named = ", ".join(f"{host} port {port}" for host, port in servers(text))
    raise NotSupportedError(
        f"{text}: there are no clusters yet, so nothing asks {named}; give a directory for an embedded store, or "
        f"{MEMORY!r}"
    )


def _show(options: dict[str, Any]) -> str:
    return ", ".join(f"{name}={value!r}" for name, value in sorted(options.items())) or "default options"
