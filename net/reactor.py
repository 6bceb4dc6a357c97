"""The event loop of a server process: one thread that reads and writes all sockets.

    select ──► around: ──► each ready socket: its handler (accept, read, write)
                       ──► jobs of `call_soon`, timers that are due
           ◄── the end of `around` sends what was batched meanwhile

`around` makes a context manager for each round. What the handlers of one round have to send to one receiver, or to
write to one log, is batched by it. Handlers and jobs must not block.

It is a loop over `selectors`, not asyncio: replies are written by the threads that have them, without waking this one,
and one round is one unit of work (docs/decisions/2026-11-27-one-reactor.md has the measurements).
"""

from __future__ import annotations

import contextlib
import heapq
import itertools
import logging
import selectors
import socket
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from typing import Final, TypeAlias

from ..model import metrics
from ..model.forks import stay_with_process

_logger = logging.getLogger("nyala.net")

READ: Final = selectors.EVENT_READ
WRITE: Final = selectors.EVENT_WRITE
RECEIVE_BYTES: Final = 256 << 10
"""Bytes read from one socket at a time. The buffer is allocated once: `recv` of this size without one costs 20 us for
fresh memory."""
_LAG_SECONDS: Final = 1.0
"""Longest lag that is measured."""

Job: TypeAlias = Callable[[], object]
Handler: TypeAlias = Callable[[int], object]
"""Called with the ready events of its socket: READ, WRITE or both."""
Failed: TypeAlias = Callable[[str, BaseException], object]
"""Called with the name of a thread and the error that ended it."""


class Reactor:
    """The loop. `call_soon` and `call_at` may be called from any thread; the other methods from the loop's thread, or
    before `start`.

    Parameters
    ----------
    name : str
        Of its thread.
    failed : callable, optional
        Called if the loop ends by an error, which is a bug.
    """

    def __init__(self, name: str = "nyala-reactor", failed: Failed | None = None):
        self.around: Callable[[], AbstractContextManager[object]] = nullcontext
        """Set before `start`."""
        self.buffer = memoryview(bytearray(RECEIVE_BYTES))
        """For the handler that is running."""
        self._failed = failed
        self._selector = selectors.DefaultSelector()
        self._waking, self._woken = socket.socketpair()
        for end in (self._waking, self._woken):
            end.setblocking(False)
        self._jobs: deque[Job] = deque()
        self._timers: list[tuple[float, int, Job]] = []
        self._numbers = itertools.count()
        self._is_asleep = False
        self._is_closing = False
        self._is_started = False
        self._selector.register(self._woken, READ, self._drain)
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        metrics.register(self.samples)
        stay_with_process(self)

    def start(self) -> None:
        """Starts the thread."""
        self._is_started = True
        self._thread.start()

    def samples(self) -> Iterator[metrics.Sample]:
        """For `metrics.collect`: the sockets that are watched, and how long a job waits for the loop just now."""
        if not self._is_started or self._is_closing or self.is_own_thread:
            return
        labels = (self._thread.name,)
        yield metrics.Sample("nyala_connections", max(0, len(self._selector.get_map() or ()) - 1), labels)
        ran, began = threading.Event(), time.monotonic()
        self.call_soon(ran.set)
        ran.wait(_LAG_SECONDS)
        yield metrics.Sample("nyala_reactor_lag_seconds", time.monotonic() - began, labels)

    @property
    def is_own_thread(self) -> bool:
        """True in the loop's thread."""
        return threading.current_thread() is self._thread

    # ---- from any thread -------------------------------------------------------------------------------------------

    def call_soon(self, job: Job) -> None:
        """Runs a job in the loop's thread, in this round or the next one."""
        self._jobs.append(job)
        # The loop looks for jobs after it has set the flag, so either it sees this one, or this thread sees the flag.
        if self._is_asleep:
            self._wake()

    def call_at(self, when: float, job: Job) -> None:
        """Runs a job in the loop's thread at a time (of `time.monotonic`), or soon after."""
        if self.is_own_thread:
            heapq.heappush(self._timers, (when, next(self._numbers), job))
        else:
            self.call_soon(lambda: self.call_at(when, job))

    def _wake(self) -> None:
        self._is_asleep = False
        with contextlib.suppress(OSError):  # full: it will wake anyway; closed: the loop has ended
            self._waking.send(b"\0")

    def close(self, seconds: float = 5.0) -> bool:
        """Ends the loop after the present round; True if its thread has ended within `seconds`. The sockets are left to
        their owners."""
        self._is_closing = True
        if not self._is_started:
            self._release()
            return True
        self._wake()
        if not self.is_own_thread:
            self._thread.join(seconds)
        return not self._thread.is_alive()

    # ---- from the loop's thread ------------------------------------------------------------------------------------

    def watch(self, found: socket.socket, events: int, handler: Handler) -> None:
        """Calls the handler when the socket is ready."""
        self._selector.register(found, events, handler)

    def rewatch(self, found: socket.socket, events: int, handler: Handler) -> None:
        """Changes the events of a watched socket."""
        self._selector.modify(found, events, handler)

    def unwatch(self, found: socket.socket) -> None:
        """Stops watching; must precede the socket's close."""
        with contextlib.suppress(KeyError, ValueError):
            self._selector.unregister(found)

    def call_later(self, seconds: float, job: Job) -> None:
        """Runs a job after a time."""
        heapq.heappush(self._timers, (time.monotonic() + seconds, next(self._numbers), job))

    # ---- the loop --------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            while not self._is_closing:
                self._round()
        except BaseException as error:
            if self._failed is not None:
                self._failed(self._thread.name, error)
            raise
        finally:
            for _ in range(len(self._jobs)):  # closing sockets, as a rule
                self._guarded(self._jobs.popleft())
            self._release()

    def _round(self) -> None:
        self._is_asleep = True
        ready = self._selector.select(0 if self._jobs else self._patience())
        self._is_asleep = False
        with self.around():
            for key, events in ready:
                try:
                    key.data(events)
                except Exception:
                    # A handler closes its connection itself; the others must go on whatever happens.
                    _logger.exception("the handler of a socket failed")
            for _ in range(len(self._jobs)):
                self._guarded(self._jobs.popleft())
            while self._timers and self._timers[0][0] <= time.monotonic():
                self._guarded(heapq.heappop(self._timers)[2])

    def _patience(self) -> float | None:
        return max(0.0, self._timers[0][0] - time.monotonic()) if self._timers else None

    def _guarded(self, job: Job) -> None:
        try:
            job()
        except Exception:
            _logger.exception("a job of the reactor failed")

    def _drain(self, events: int) -> None:
        with contextlib.suppress(BlockingIOError):
            while self._woken.recv(4096):
                pass

    def _release(self) -> None:
        self._selector.close()
        self._waking.close()
        self._woken.close()

    def _abandon(self) -> None:
        """In a forked child: closes its copies of the descriptors."""
        self._release()
