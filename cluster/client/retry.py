"""Trying again: which errors mean what, how long to wait in between, and until when.

| error | what it says | then |
|---|---|---|
| NotTheLeader | another replica leads, perhaps this one | the leader it names, or the next replica |
| ServerUnavailable, DeadlineExceeded (of one attempt) | this server does not answer | the next replica |
| ReplicaUnavailable | this server has no replica of the tablet that runs | the next replica, and new locations |
| AuthenticationFailed | this server and the client do not trust each other | the next replica; out, where all say so |
| ServerOverloaded, other retryable errors | not now | the same again, after a pause |
| StaleSchema | the table was altered | its new version, which is the caller's business |
| all others | no | out |

Pauses begin at 10 ms and double up to 1 s, each cut at random between half and all of it, so that many clients of a
server that comes back do not come at the same moment.

Attempts that fail and pauses count into the `WaitingTime` of the statement, which ends when that reaches the client's
`deadline`, however many requests it has. An attempt that is answered does not count: servers have worked meanwhile.
"""

from __future__ import annotations

import enum
import random
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Lock
from typing import NoReturn

from ...errors import (
    AuthenticationFailed,
    Cancelled,
    ConnectionRefused,
    DeadlineExceeded,
    DiskError,
    Error,
    NotTheLeader,
    ReplicaUnavailable,
    ScannerExpired,
    ServerUnavailable,
    StaleSchema,
)
from ...model.waiting_time import WaitingTime

FIRST_PAUSE = 0.010
LONGEST_PAUSE = 1.0
FIRST_ATTEMPT = 4.0
"""Seconds that a server has for its answer before another one is asked: long for a healthy one, and short enough that
one that stands still does not stop its clients."""
LEAST_SECONDS = 0.05
"""What an attempt gets even where the deadline is nearly over."""


_ELSEWHERE = (
    NotTheLeader,
    ServerUnavailable,
    ReplicaUnavailable,
    DeadlineExceeded,
    ScannerExpired,
    Cancelled,
    AuthenticationFailed,
)


class Verdict(enum.Enum):
    """What to do about an error; see the module's page."""

    OUT = "out"
    ELSEWHERE = "elsewhere"
    AGAIN = "again"
    SCHEMA = "schema"


def verdict(error: BaseException) -> Verdict:
    """What an error of one attempt asks for."""
    if isinstance(error, StaleSchema):
        return Verdict.SCHEMA
    # Nobody here cancels a call: one that was cancelled met a server that went down.
    if isinstance(error, _ELSEWHERE):
        return Verdict.ELSEWHERE
    return Verdict.AGAIN if isinstance(error, Error) and error.retryable else Verdict.OUT


class Attempts:
    """The attempts at one request: counts the time and makes the pauses. For one thread.

    Parameters
    ----------
    what : str
        For the error at the deadline: "a write to table t".
    seconds : float
        Until the deadline.
    first_attempt : float, optional
        Seconds for the first attempt; each that ran out of time doubles it. None: all the time that is left.
    check : callable, optional
        Called after each failure; what it raises ends the attempts.
    patience : float, optional
        Seconds after which they end where nobody listened at any address all the while; None: `seconds`.
    waiting : WaitingTime, optional
        Of the statement; None: of these attempts alone.
    limit : float, optional
        Seconds that the statement may wait, all of its requests together; None: `seconds`.
    """

    __slots__ = (
        "_attempt",
        "_began",
        "_check",
        "_disk",
        "_end",
        "_is_mixed",
        "_limit",
        "_over",
        "_patience",
        "_pause",
        "_refused_since",
        "_seconds",
        "_waiting",
        "_what",
        "last",
    )

    def __init__(
        self,
        what: str,
        seconds: float,
        first_attempt: float | None = FIRST_ATTEMPT,
        check: Callable[[], object] | None = None,
        patience: float | None = None,
        waiting: WaitingTime | None = None,
        limit: float | None = None,
    ):
        seconds = max(LEAST_SECONDS, seconds)
        self._waiting = WaitingTime() if waiting is None else waiting
        self._limit = seconds if limit is None else limit
        self._began: float | None = None
        """When the attempt began that is under way."""
        self._what = what
        self._check = check
        self._seconds = seconds
        self._end = time.monotonic() + seconds
        self._attempt = seconds if first_attempt is None else first_attempt
        self._patience = seconds if patience is None else patience
        self._refused_since: float | None = None
        """Since when there was no other failure than `ConnectionRefused`."""
        self._pause = FIRST_PAUSE
        self._over: DeadlineExceeded | None = None
        """What `give_up` has raised."""
        self.last: BaseException | None = None
        self._disk: DiskError | None = None
        """A server whose disk is full, or fails, has said so: that is why, whatever the others say."""
        self._is_mixed = False
        """Was there another failure in this round than `AuthenticationFailed`?"""

    @property
    def remaining(self) -> float:
        """Seconds until the deadline."""
        return min(self._end - time.monotonic(), self._limit - self._waiting.seconds)

    def timeout(self) -> float:
        """Begin an attempt; return the seconds that it may take."""
        self._began = time.monotonic()
        return max(LEAST_SECONDS, min(self._attempt, self.remaining))

    def _count(self) -> None:
        """The attempt that is under way has failed."""
        began, self._began = self._began, None
        if began is not None:
            self._waiting.add(began, time.monotonic())

    @contextmanager
    def holding(self, lock: Lock) -> Iterator[None]:
        """Hold a lock under which another thread may be waiting for servers."""
        if not lock.acquire(blocking=False):
            began = time.monotonic()
            is_held = lock.acquire(timeout=max(LEAST_SECONDS, self.remaining))
            self._waiting.add(began, time.monotonic())
            if not is_held:
                self.give_up()
        try:
            yield
        finally:
            lock.release()

    def failed(self, error: BaseException) -> None:
        """An attempt has failed; raises `DeadlineExceeded` where there is no time for another."""
        if error is self._over:
            raise error  # nobody's answer: a pause was too long, and there is still some time left
        self._count()
        self.last = error
        if isinstance(error, DiskError):
            self._disk = error
        self._is_mixed = self._is_mixed or not isinstance(error, AuthenticationFailed)
        if not isinstance(error, ConnectionRefused):
            self._refused_since = None
        elif self._refused_since is None:
            self._refused_since = time.monotonic()
        if self._check is not None:
            self._check()
        if isinstance(error, DeadlineExceeded):
            self._attempt *= 2
        # With less time left, a nested request times out at its first pause, and would be retried in a busy loop.
        if self.remaining <= FIRST_PAUSE:
            self.give_up()

    def pause(self) -> None:
        """Wait before the next round; raises `DeadlineExceeded` where that would be too late, or no server has been
        there for too long, `AuthenticationFailed` where that was the answer of all in this one."""
        if isinstance(self.last, AuthenticationFailed) and not self._is_mixed:
            raise self.last
        self._is_mixed = False
        if self._refused_since is not None and time.monotonic() - self._refused_since >= self._patience:
            self._over = DeadlineExceeded(
                f"{self._what} was given up after {self._patience:g} seconds: no server is there; the last answer was "
                f"{self.last}"
            )
            raise self._over from self.last
        self._count()
        pause = self._pause * random.uniform(0.5, 1.0)
        self._pause = min(2 * self._pause, LONGEST_PAUSE)
        if pause >= self.remaining:
            self.give_up()
        self._began = time.monotonic()
        time.sleep(pause)
        self._count()

    def give_up(self) -> NoReturn:
        """Raise `DeadlineExceeded` with what was the matter last."""
        why = "" if self.last is None else f"; the last answer was {type(self.last).__name__}: {self.last}"
        if self._disk is not None and self._disk is not self.last:
            why += f"; before, {self._disk}"
        within = f"{self._seconds:g} seconds"
        if self._end > time.monotonic() + LONGEST_PAUSE:
            within = f"the {self._limit:g} seconds that its statement waits for servers in all"
        self._over = DeadlineExceeded(f"{self._what} was not done within {within}{why}")
        raise self._over from self.last
