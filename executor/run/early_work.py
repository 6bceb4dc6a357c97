"""Work of a statement that begins before its turn, beside the rest.

    execute ──start──► early threads ──► result ──take──► the operator whose turn it is
       └────────────── stop: what nobody has taken is not wanted any more ──────────┘

For work that mostly waits, for servers that scan. An early thread opens operators as the coordinating thread does, and
hands morsels to the pool as that does; it is none of the pool's threads, which never wait for each other. Work whose
turn comes before a thread was free for it is done by whoever wants it, so early threads cannot lock up either, however
few there are. An error is raised where the result is taken; where nobody takes it, it never happened.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from functools import cache
from typing import Generic, TypeVar

from ...model.forks import renew_in_child
from ...model.waiting_time import carried

T = TypeVar("T")

THREADS = 8
"""Early threads of the process, for all its statements. They wait for the pool's threads and for servers."""


class GivenUp(threading.local):
    """The events that end a thread's work, once one of them is set; none in threads whose work is wanted."""

    events: tuple[threading.Event, ...] = ()


given_up = GivenUp()


@cache
def _early_pool() -> ThreadPoolExecutor:
    """For the whole process: an idle thread costs less than starting one for each statement."""
    return ThreadPoolExecutor(THREADS, "nyala-early")


renew_in_child(_early_pool.cache_clear)  # a child has none of its parent's threads


class EarlyWork(Generic[T]):
    """What one execution has begun early, by number."""

    def __init__(self) -> None:
        self._futures: dict[int, Future[T]] = {}
        self._stopped = threading.Event()

    def start(self, number: int, work: Callable[[], T]) -> None:
        """Begin the work of this number as soon as a thread is free."""

        def wanted() -> T:
            given_up.events = (self._stopped,)
            try:
                return work()
            finally:
                given_up.events = ()

        self._futures[number] = _early_pool().submit(carried(wanted))

    def take(self, number: int) -> T | None:
        """The result, once, when it is there; None where the work was not begun: it is the caller's then."""
        future = self._futures.get(number)
        if future is None:
            return None
        result = None if future.cancel() else future.result()
        # Not before: an interrupt of the one who waits here does not end the work, and `close` must know of it.
        self._futures.pop(number, None)
        return result

    def stop(self) -> None:
        """What has not been taken by now is not wanted: it ends at its next batch, or look at whoever waits for it."""
        if self._futures:
            self._stopped.set()
            for future in self._futures.values():
                future.cancel()

    def close(self) -> None:
        """Stop, and wait until nothing runs any more."""
        self.stop()
        wait(self._futures.values())
        self._futures.clear()
