"""Numbers for calls that change something: a call sent again has the same number, and is done once.

A server keeps the results of a client's calls until the client says that it has them: every call carries the least
number that is still without an answer.
"""

from __future__ import annotations

import contextlib
import threading
import uuid
from collections.abc import Iterator

from ...wire.messages.methods import Call


class CallNumbers:
    """Gives out calls, numbered from 1. Safe for several threads."""

    def __init__(self) -> None:
        self.client = uuid.uuid4().hex
        self.cluster = ""
        """The id of the cluster, as far as it is known."""
        self._lock = threading.Lock()
        self._next = 1
        self._open: dict[int, None] = {}
        """Calls without an answer. Numbers come in ascending, so the first is the least."""

    def start(self) -> Call:
        """A new call."""
        with self._lock:
            number = self._next
            self._next += 1
            self._open[number] = None
            return Call(self.client, number, next(iter(self._open)), self.cluster)

    def finish(self, call: Call) -> None:
        """The call has its answer, or nobody waits for one any more: it will not be sent again."""
        with self._lock:
            self._open.pop(call.sequence, None)

    @contextlib.contextmanager
    def numbered(self) -> Iterator[Call]:
        """A call for as long as it may be sent."""
        call = self.start()
        try:
            yield call
        finally:
            self.finish(call)
