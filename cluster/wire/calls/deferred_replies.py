"""Replies to calls for which no thread waits: sent after a decision, or at the deadline.

A change of a tablet that has lost its majority stays undecided while that lasts. Its caller has timed out by then, and
other calls need its slot among the calls of the server.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from .... import errors
from ..messages.methods import Reply
from ..process.server_threads import Failed, server_thread

Answer = Callable[["Reply | BaseException"], None]
SWEEP_SECONDS = 0.5
"""Longest delay between a call's deadline and its reply."""


class DeferredReplies:
    """The waiting calls, each of which is answered once. Thread-safe."""

    def __init__(self, sweep_seconds: float = SWEEP_SECONDS, failed: Failed | None = None) -> None:
        self._sweep_seconds = sweep_seconds
        self._awaited: dict[DeferredReply, None] = {}
        self._error: errors.Error | None = None
        """Of `close`."""
        self._stopped = threading.Event()
        self._thread = server_thread("nyala-deferred-replies", self._run, failed)

    def start(self) -> None:
        """Starts watching deadlines."""
        self._thread.start()

    def reply(self, answer: Answer, deadline: float) -> DeferredReply:
        """Returns the object that takes a call's reply, at its first call. One that may come later is to be passed to
        `expect`."""
        return DeferredReply(answer, deadline, self._awaited)

    def expect(self, reply: DeferredReply) -> None:
        """Registers a reply that is due by its deadline; no-op if it is there."""
        if not reply.is_given:
            self._awaited[reply] = None
            if reply.is_given:  # meanwhile, by another thread
                self._awaited.pop(reply, None)
            elif self._error is not None:
                reply(self._error)

    @property
    def count(self) -> int:
        """Number of waiting calls."""
        return len(self._awaited)

    def sweep(self) -> None:
        """Answers the calls whose deadline has passed."""
        now = time.monotonic()
        for awaited in list(self._awaited):
            if awaited.deadline <= now:
                awaited(
                    errors.DeadlineExceeded("the call was not decided before its deadline; it may still be executed")
                )

    def close(self, error: errors.Error) -> None:
        """Answers all waiting calls with an error, and stops watching deadlines."""
        self._error = error
        for awaited in list(self._awaited):
            awaited(error)
        self._stopped.set()
        if self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        while not self._stopped.wait(self._sweep_seconds):
            self.sweep()


class DeferredReply:
    """Receives the reply to one call, once; later ones are ignored."""

    __slots__ = ("_answer", "_awaited", "deadline")

    def __init__(self, answer: Answer, deadline: float, awaited: dict[DeferredReply, None]):
        self._answer = [answer]
        """The thread that removes it calls it: that needs no lock."""
        self.deadline = deadline
        self._awaited = awaited

    @property
    def is_given(self) -> bool:
        """True if the reply was received."""
        return not self._answer

    def __call__(self, reply: Reply | BaseException) -> None:
        try:
            answer = self._answer.pop()
        except IndexError:
            return
        self._awaited.pop(self, None)
        answer(reply)
