"""Dropped objects are closed by another thread where the cyclic collector dropped them."""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable

from nyala.model.abandoned import close_outside_collector, close_when_dropped


class Dropped:
    """Takes a lock when it is dropped."""

    def __init__(self, close: Callable[[], None]):
        self.close = close
        self.itself = self

    def __del__(self) -> None:
        close_outside_collector(self.close)


class Owner:
    itself: object


def test_locks_that_are_held_where_the_collector_runs() -> None:
    """A finalizer, and a `__del__`, that wait for the lock of the thread that collects them."""
    lock = threading.Lock()
    closed: list[threading.Thread] = []
    both = threading.Event()

    def close() -> None:
        with lock:
            closed.append(threading.current_thread())
            if len(closed) == 2:
                both.set()

    def dropped() -> None:
        owner = Owner()
        owner.itself = owner
        close_when_dropped(owner, "", close)
        Dropped(close)

    dropped()
    with lock:
        gc.collect()
        assert not closed
    assert both.wait(30)
    assert threading.current_thread() not in closed


def test_the_last_reference_closes_here() -> None:
    closed: list[threading.Thread] = []
    close_when_dropped(Owner(), "", lambda: closed.append(threading.current_thread()))
    assert closed == [threading.current_thread()]
