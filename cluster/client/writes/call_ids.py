"""Call ids: numbers for calls that change something. A retried call has the same number, and is executed once.

A server keeps the results of a client's calls until the client reports that it has them: every call carries the least
number without a reply.
"""

from __future__ import annotations

import contextlib
import threading
import uuid
from collections.abc import Iterator

from ...wire.messages.methods import Call


class CallIds:
    """Assigns numbers to calls, from 1. Thread-safe."""

    def __init__(self) -> None:
        self.client = uuid.uuid4().hex
        self.cluster = ""
        """The id of the cluster, if it is known."""
        self._lock = threading.Lock()
        self._next = 1
        self._open: dict[int, None] = {}
        """Calls without a reply. Numbers are ascending, so the first is the least."""

    def start(self) -> Call:
        """Returns a new call id."""
        with self._lock:
            number = self._next
            self._next += 1
            self._open[number] = None
            return Call(self.client, number, next(iter(self._open)), self.cluster)

    def finish(self, call: Call) -> None:
        """Ends a call: it has its reply, or is abandoned, and will not be sent again."""
        with self._lock:
            self._open.pop(call.sequence, None)

    @contextlib.contextmanager
    def numbered(self) -> Iterator[Call]:
        """Context manager with a call id, valid for as long as the call may be sent."""
        call = self.start()
        try:
            yield call
        finally:
            self.finish(call)
