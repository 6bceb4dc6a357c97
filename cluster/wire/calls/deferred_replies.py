"""Answers to calls for which no thread waits: they come when something has been decided, at the deadline at the latest.

A change of a tablet that has lost its majority is not decided for as long as that lasts. Its caller has given up by
then, and its place among the calls of the server is wanted by others.
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
"""So much later than its deadline a call is answered, at most."""


class LateAnswers:
    """The calls that wait, each of which is answered once. Safe for several threads."""

    def __init__(self, sweep_seconds: float = SWEEP_SECONDS, failed: Failed | None = None) -> None:
        self._sweep_seconds = sweep_seconds
        self._awaited: dict[LateAnswer, LateAnswer] = {}
        """Whoever takes one out answers it: no lock is needed for that."""
        self._stopped = threading.Event()
        self._thread = server_thread("nyala-late-answers", self._run, failed)

    def start(self) -> None:
        """Look after deadlines from now on."""
        self._thread.start()

    def expect(self, answer: Answer, deadline: float) -> LateAnswer:
        """A call's answer that is awaited until `deadline` (monotonic): what is called takes it, the first time."""
        awaited = LateAnswer(answer, deadline, self._awaited)
        self._awaited[awaited] = awaited
        return awaited

    @property
    def count(self) -> int:
        """How many are awaited."""
        return len(self._awaited)

    def sweep(self) -> None:
        """Answer the calls whose time is up."""
        now = time.monotonic()
        for awaited in list(self._awaited):
            if awaited.deadline <= now:
                awaited(errors.DeadlineExceeded("the call's time was up before it was decided; it may yet be done"))

    def close(self) -> None:
        """Look after deadlines no more."""
        self._stopped.set()
        if self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        while not self._stopped.wait(self._sweep_seconds):
            self.sweep()


class LateAnswer:
    """Takes the answer to one call, once; later ones are nobody's."""

    __slots__ = ("_answer", "_awaited", "deadline")

    def __init__(self, answer: Answer, deadline: float, awaited: dict[LateAnswer, LateAnswer]):
        self._answer = answer
        self.deadline = deadline
        self._awaited = awaited

    def __call__(self, reply: Reply | BaseException) -> None:
        if self._awaited.pop(self, None) is not None:
            self._answer(reply)
