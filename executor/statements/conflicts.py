"""Conflicts of statements on rows that others have changed since they were read: retries, one statement at a time."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from weakref import WeakKeyDictionary

from ...errors import WriteConflict
from ...model.forks import renew_in_child
from ...model.schema import Table
from ...model.store import Store

ATTEMPTS = 30
"""Number of attempts of a statement before it fails with a conflict."""
_LOOK_SECONDS = 0.1


def conflict(table: Table) -> WriteConflict:
    """Error of a statement whose every attempt conflicted."""
    return WriteConflict(
        f"rows of table {table.name} were changed concurrently in each of {ATTEMPTS} attempts; nothing was written, "
        "retry the statement"
    )


@contextmanager
def turn(table: Table, store: Store, check: Callable[[], None] = lambda: None) -> Iterator[None]:
    """Context manager inside which no other statement of this process on the table retries. `check` is called while it
    waits."""
    with _turns_lock:
        lock = _turns.setdefault(store, {}).setdefault(table.id, threading.Lock())
    while not lock.acquire(timeout=_LOOK_SECONDS):
        check()
    try:
        yield
    finally:
        lock.release()


_turns: WeakKeyDictionary[Store, dict[str, threading.Lock]] = WeakKeyDictionary()
_turns_lock = threading.Lock()


def _renew() -> None:
    """Replace the locks in a forked child: another thread of its parent may have held one."""
    global _turns, _turns_lock
    _turns, _turns_lock = WeakKeyDictionary(), threading.Lock()


renew_in_child(_renew)
