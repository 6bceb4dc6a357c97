"""Counting running work of one kind, with a limit."""

from __future__ import annotations

import threading
import time

from ... import errors


class Gate:
    """Counts the running calls of one kind, at most `limit`."""

    def __init__(self, what: str, limit: int):
        self._what = what
        self._limit = limit
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)
        self._count = 0
        self._waiting = 0
        """Threads in `wait_empty`: a notification without them would cost as much as all other steps."""

    @property
    def count(self) -> int:
        """Number that is running."""
        return self._count

    def enter(self) -> None:
        """Counts one that begins; raises `ServerOverloaded`."""
        with self._lock:
            if self._count >= self._limit:
                raise errors.ServerOverloaded(f"the server has {self._count} {self._what} at once, and accepts no more")
            self._count += 1

    def leave(self) -> None:
        """Counts one that has ended."""
        with self._lock:
            self._count -= 1
            if self._waiting:
                self._changed.notify_all()

    def wait_empty(self, deadline: float) -> bool:
        """Waits until none is running; False at `deadline` (monotonic)."""
        with self._changed:
            self._waiting += 1
            try:
                return self._changed.wait_for(lambda: not self._count, max(0.0, deadline - time.monotonic()))
            finally:
                self._waiting -= 1
