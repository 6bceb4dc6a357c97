"""Dropped objects are closed by another thread where the cyclic collector dropped them."""

from __future__ import annotations

import contextlib
import gc
import signal
import sys
import threading
from collections.abc import Callable

import pytest
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


def test_an_interrupt_while_the_collector_runs_is_not_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    """An exception of a callback of the collector reaches no caller: Ctrl-C there would do nothing."""
    events: list[object] = []
    monkeypatch.setattr(sys, "unraisablehook", lambda event: events.append(event.object))
    before = signal.signal(signal.SIGALRM, signal.default_int_handler)
    try:
        for _ in range(300):
            # Callbacks of others, such as Hypothesis, may lose it.
            with contextlib.suppress(KeyboardInterrupt):
                count = len(events)
                signal.setitimer(signal.ITIMER_REAL, 20e-6)
                while len(events) == count:
                    gc.collect(0)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert not [event for event in events if str(getattr(event, "__module__", "")).startswith("nyala")]
