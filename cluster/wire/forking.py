"""gRPC does not survive a fork: which process uses it first is kept, so that those forked from it can be told."""

from __future__ import annotations

import os
import threading

from ...errors import InterfaceError

_lock = threading.Lock()
_first_process: int | None = None


def note_process() -> None:
    """This process uses gRPC: `InterfaceError` where one from which it was forked has done so already."""
    global _first_process
    with _lock:
        if _first_process is None:
            _first_process = os.getpid()
        elif _first_process != os.getpid():
            raise InterfaceError(
                f"this process was forked from process {_first_process}, which is connected to a cluster, or serves a "
                "store; gRPC does not survive that: use multiprocessing's 'spawn'"
            )
