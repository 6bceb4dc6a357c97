"""gRPC does not survive a fork: the first process that uses it is recorded, so that processes forked from it get an
error."""

from __future__ import annotations

import threading

from ....errors import InterfaceError
from ....model.forks import current_process, renew_in_child

_lock = threading.Lock()
_first_process: int | None = None


def note_process() -> None:
    """Records that this process uses gRPC; raises `InterfaceError` if a parent from which it was forked already did."""
    global _first_process
    with _lock:
        if _first_process is None:
            _first_process = current_process()
        elif _first_process != current_process():
            raise InterfaceError(
                f"this process was forked from process {_first_process}, which is connected to a cluster, or serves a "
                "store; gRPC does not survive that: use multiprocessing's 'spawn'"
            )


def _renew() -> None:
    """In a forked child: another thread of its parent may have held the lock."""
    global _lock
    _lock = threading.Lock()


renew_in_child(_renew)
