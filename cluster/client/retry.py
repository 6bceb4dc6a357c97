"""Retries: the meaning of errors, the pauses, and the deadline.

| error | meaning | reaction |
|---|---|---|
| NotTheLeader | another replica leads, perhaps this one | the leader it names, or the next replica |
| ServerUnavailable, DeadlineExceeded (of one attempt) | this server does not respond | the next replica |
| ReplicaUnavailable | this server has no running replica of the tablet | the next replica, and new locations |
| AuthenticationFailed | this server and the client do not trust each other | the next replica; raised if all report it
|
| ServerOverloaded, other retryable errors | not now | the same again, after a pause |
| StaleSchema | the table was altered | its new version, by the caller |
| SerializationFailure | the transaction must be repeated as a whole | raised |
| all others | permanent | raised |

Pauses begin at 10 ms and double up to 1 s. Each is cut at random to between half and all of it, so that the clients of
a recovering server do not all retry at the same moment.

Failed attempts and pauses count into the `WaitingTime` of the statement, which ends when that reaches the client's
`deadline`, over any number of requests. A successful attempt does not count: servers have worked meanwhile.
"""

from __future__ import annotations

import enum
import random
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Lock
from typing import NamedTuple, NoReturn, TypeVar

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
    SerializationFailure,
    ServerUnavailable,
    StaleSchema,
)
from ...model.waiting_time import WaitingTime
from ..wire.messages.methods import Reply

R = TypeVar("R", bound=Reply)

FIRST_PAUSE = 0.010
LONGEST_PAUSE = 1.0
FIRST_ATTEMPT = 4.0
"""Seconds after which an unanswered attempt is repeated at another server: long for a healthy one, and short enough
that an unresponsive one does not block its clients."""
LEAST_SECONDS = 0.05
"""Least seconds of an attempt, even if the deadline is nearly over."""


_ELSEWHERE = (
    NotTheLeader,
    ServerUnavailable,
    ReplicaUnavailable,
    DeadlineExceeded,
    ScannerExpired,
    Cancelled,
    AuthenticationFailed,
)


class FailedAttempt(NamedTuple):
    """An attempt that has failed: its server, error, and begin by `time.monotonic`."""

    address: str
    error: Error
    began: float


class Verdict(enum.Enum):
    """The reaction to an error; see the module's page."""

    OUT = "out"
    ELSEWHERE = "elsewhere"
    AGAIN = "again"
    SCHEMA = "schema"


def verdict(error: BaseException) -> Verdict:
    """Returns the reaction to an error of one attempt."""
    if isinstance(error, StaleSchema):
        return Verdict.SCHEMA
    if isinstance(error, SerializationFailure):
        return Verdict.OUT  # the whole transaction is to be retried, not its COMMIT
    # This client cancels no call: a cancelled one met a stopping server.
    if isinstance(error, _ELSEWHERE):
        return Verdict.ELSEWHERE
    return Verdict.AGAIN if isinstance(error, Error) and error.retryable else Verdict.OUT


def until_reply(call: Callable[[], object], kind: type[R], attempts: Callable[[], Attempts]) -> R:
    """Returns the reply to a call of one server, made again after each error that a retry may mend.

    Raises the other errors, including `StaleSchema`, and those of the attempts, which `attempts` returns when the first
    call has failed.
    """
    while True:
        try:
            found = call()
        except Error as error:
            if verdict(error) in (Verdict.OUT, Verdict.SCHEMA):
                raise
            attempts().failed(error)
            attempts().pause()
            continue
        assert isinstance(found, kind)
        return found


class Attempts:
    """The attempts at one request: measures the time and makes the pauses. For one thread.

    Parameters
    ----------
    what : str
        For the error at the deadline: "a write to table t".
    seconds : float
        Until the deadline.
    first_attempt : float, optional
        Seconds for the first attempt; each one that timed out doubles it. None: all the remaining time.
    check : callable, optional
        Called after each failure; its error ends the attempts.
    patience : float, optional
        Seconds after which they end if all the while no process listened at any address; None: `seconds`.
    waiting : WaitingTime, optional
        Of the statement; None: of these attempts alone.
    limit : float, optional
        Seconds that the statement may wait, over all of its requests; None: `seconds`.
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
        """The beginning of the running attempt."""
        self._what = what
        self._check = check
        self._seconds = seconds
        self._end = time.monotonic() + seconds
        self._attempt = seconds if first_attempt is None else first_attempt
        self._patience = seconds if patience is None else patience
        self._refused_since: float | None = None
        """Since when all failures were `ConnectionRefused`."""
        self._pause = FIRST_PAUSE
        self._over: DeadlineExceeded | None = None
        """The error that `give_up` has raised."""
        self.last: BaseException | None = None
        self._disk: DiskError | None = None
        """The error of a server with a full or failing disk: the probable cause, whatever the others report."""
        self._is_mixed = False
        """True if this round had another failure than `AuthenticationFailed`."""

    @property
    def remaining(self) -> float:
        """Seconds until the deadline."""
        return min(self._end - time.monotonic(), self._limit - self._waiting.seconds)

    def timeout(self) -> float:
        """Begins an attempt; returns the seconds that it may take."""
        self._began = time.monotonic()
        return max(LEAST_SECONDS, min(self._attempt, self.remaining))

    def resume(self, began: float) -> None:
        """Takes over an attempt that began at a time of `time.monotonic`, in place of `timeout`."""
        self._began = began

    def _count(self) -> None:
        """Counts the running attempt as failed."""
        began, self._began = self._began, None
        if began is not None:
            self._waiting.add(began, time.monotonic())

    @contextmanager
    def holding(self, lock: Lock) -> Iterator[None]:
        """Holds a lock under which another thread may be waiting for servers."""
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
        """Records a failed attempt; raises `DeadlineExceeded` if there is no time for another."""
        if error is self._over:
            raise error  # not a server's: a pause was too long, and there is still some time left
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
        """Waits before the next round; raises as `begin_pause`."""
        time.sleep(self.begin_pause())
        self.end_pause()

    def begin_pause(self) -> float:
        """Returns the seconds to wait before the next round. Raises `DeadlineExceeded` if that would be too late, or no
        server has been reachable for too long, `AuthenticationFailed` if all servers of this round reported it."""
        if isinstance(self.last, AuthenticationFailed) and not self._is_mixed:
            raise self.last
        self._is_mixed = False
        if self._refused_since is not None and time.monotonic() - self._refused_since >= self._patience:
            self._over = DeadlineExceeded(
                f"{self._what} was abandoned after {self._patience:g} seconds: no server is reachable; the last "
                "answer was "
                f"{self.last}"
            )
            raise self._over from self.last
        self._count()
        pause = self._pause * random.uniform(0.5, 1.0)
        self._pause = min(2 * self._pause, LONGEST_PAUSE)
        if pause >= self.remaining:
            self.give_up()
        self._began = time.monotonic()
        return pause

    def end_pause(self) -> None:
        """Counts a pause that has ended."""
        self._count()

    def give_up(self) -> NoReturn:
        """Raises `DeadlineExceeded` with the last error."""
        why = "" if self.last is None else f"; the last answer was {type(self.last).__name__}: {self.last}"
        if self._disk is not None and self._disk is not self.last:
            why += f"; before, {self._disk}"
        within = f"{self._seconds:g} seconds"
        if self._end > time.monotonic() + LONGEST_PAUSE:
            within = f"the {self._limit:g} seconds that its statement waits for servers in all"
        self._over = DeadlineExceeded(f"{self._what} was not done within {within}{why}")
        raise self._over from self.last
