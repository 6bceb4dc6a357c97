"""Calls that run statements or stream results: their number is limited, and a client that has gone stops its own.

gRPC notes that a client has cancelled a call, has passed its deadline, or has lost its connection; a statement in the
middle of its work does not look there. So a thread looks, for all calls, some times a second.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from ....driver.session.executions import Halt
from ..session.reports import Refused

LOOK_SECONDS: Final = 0.1


class RunningCalls:
    """The calls that run now. Thread-safe.

    Parameters
    ----------
    most : int
        Limit; further calls are refused.
    """

    def __init__(self, most: int):
        self._most = most
        # Guards the dictionary. Held while contexts are looked at: a context dies with its call.
        self._changed = threading.Condition()
        self._running: dict[object, tuple[Any, Halt]] = {}
        self._is_closing = False

    def __len__(self) -> int:
        return len(self._running)

    def enter(self, context: Any, halt: Halt) -> object:
        """A call begins; a key for `leave`. `halt` is set if its client goes. Raises `Refused` if there are too many
        calls, or the server is stopping."""
        key = object()
        with self._changed:
            if self._is_closing:
                raise Refused("the server is shutting down", "57P01", retryable=True)
            if len(self._running) >= self._most:
                raise Refused(f"there are {self._most} running statements already", "53300", retryable=True)
            self._running[key] = context, halt
        return key

    def leave(self, key: object) -> None:
        """A call has ended, or is ending. May be repeated."""
        with self._changed:
            self._running.pop(key, None)
            self._changed.notify_all()

    @contextmanager
    def running(self, context: Any, halt: Halt) -> Iterator[None]:
        """Context manager for `enter` and `leave`."""
        key = self.enter(context, halt)
        try:
            yield
        finally:
            self.leave(key)

    def look(self) -> None:
        """Stops the calls whose clients have gone."""
        with self._changed:
            for context, halt in self._running.values():
                if not halt.is_set() and context.is_cancelled():
                    halt.set()

    def refuse(self) -> None:
        """From now on no call begins."""
        with self._changed:
            self._is_closing = True

    def wait(self, deadline: float) -> bool:
        """Waits until no call runs; False if `deadline` (monotonic) comes first."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._running, max(0.0, deadline - time.monotonic()))

    def stop(self) -> None:
        """Stops all calls."""
        with self._changed:
            for _, halt in self._running.values():
                halt.set()
