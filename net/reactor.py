"""The event loop of a server process: one thread that reads and writes all sockets.

    poll   ──► around: ──► each ready socket: its handler (accept, read, write)
                       ──► jobs of `call_soon`, timers that are due
           ◄── the end of `around` sends what was batched meanwhile

`around` makes a context manager for each round. What the handlers of one round have to send to one receiver, or to
write to one log, is batched by it. Handlers and jobs must not block.

It is a loop over epoll, not asyncio: replies are written by the threads that have them, without waking this one,
and one round is one unit of work (docs/decisions/2026-11-27-one-reactor.md has the measurements). Systems without epoll
have the poller of `selectors`, whose objects cost 1 us more in each round.
"""

from __future__ import annotations

import contextlib
import heapq
import itertools
import logging
import select
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

READ: Final = select.POLLIN
WRITE: Final = select.POLLOUT
_BOTH: Final = READ | WRITE
_AT_ONCE: Final = 256
"""Sockets of one round; others that are ready are found in the next one."""
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
        self._poller = select.epoll() if hasattr(select, "epoll") else _SelectorPoller()
        self._handlers: dict[int, tuple[Handler, int]] = {}
        """By descriptor, with the events that are watched."""
        self._waking, self._woken = socket.socketpair()
        for end in (self._waking, self._woken):
            end.setblocking(False)
        self._jobs: deque[Job] = deque()
        self._timers: list[tuple[float, int, Job]] = []
        self._numbers = itertools.count()
        self._is_asleep = False
        self._is_closing = False
        self._is_started = False
        self.watch(self._woken, READ, self._drain)
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
        yield metrics.Sample("nyala_connections", len(self._handlers) - 1, labels)
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
        descriptor = found.fileno()
        self._poller.register(descriptor, events)
        self._handlers[descriptor] = handler, events

    def rewatch(self, found: socket.socket, events: int, handler: Handler) -> None:
        """Changes the events of a watched socket."""
        descriptor = found.fileno()
        self._poller.modify(descriptor, events)
        self._handlers[descriptor] = handler, events

    def unwatch(self, found: socket.socket) -> None:
        """Stops watching; must precede the socket's close."""
        descriptor = found.fileno()
        if self._handlers.pop(descriptor, None) is not None:
            self._poller.unregister(descriptor)

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
        ready = self._poller.poll(0 if self._jobs else self._patience(), _AT_ONCE)
        self._is_asleep = False
        with self.around():
            for descriptor, events in ready:
                handler, watched = self._handlers.get(descriptor, _UNWATCHED)
                if events & ~_BOTH:  # an error or the end of the stream, which reading and writing report
                    events = _BOTH
                try:
                    handler(events & watched)
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
        self._handlers.clear()  # sockets are closed after this, and nothing watches them any more
        self._poller.close()
        self._waking.close()
        self._woken.close()

    def _abandon(self) -> None:
        """In a forked child: closes its copies of the descriptors."""
        self._release()


_UNWATCHED: Final[tuple[Handler, int]] = (lambda events: None), 0
"""Of a descriptor that another handler of the round has closed."""


class _SelectorPoller:
    """The poller of `selectors`, with the methods of `select.epoll`."""

    def __init__(self) -> None:
        self._selector = selectors.DefaultSelector()
        self.unregister = self._selector.unregister
        self.close = self._selector.close

    def register(self, descriptor: int, events: int) -> None:
        self._selector.register(descriptor, _selected(events))

    def modify(self, descriptor: int, events: int) -> None:
        self._selector.modify(descriptor, _selected(events))

    def poll(self, timeout: float | None, most: int) -> list[tuple[int, int]]:
        return [(key.fd, _polled(events)) for key, events in self._selector.select(timeout)[:most]]


def _selected(events: int) -> int:
    return (selectors.EVENT_READ if events & READ else 0) | (selectors.EVENT_WRITE if events & WRITE else 0)


def _polled(events: int) -> int:
    return (READ if events & selectors.EVENT_READ else 0) | (WRITE if events & selectors.EVENT_WRITE else 0)
