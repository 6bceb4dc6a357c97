"""Per-thread batching: items that a thread holds back until the end of a unit of work, to be processed together.

    with held.turn():    held.add(a), held.add(b), held.add(a)        at the end: finish([a, b])

A unit of work (a turn) is a frame of calls, a batch of a peer, or a write of a log: without batching, the thread would
process its items one by one, or wake another thread for each.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection
from typing import Generic, TypeVar

T = TypeVar("T")


class _PerThread(threading.local, Generic[T]):
    held: dict[T, None] | None = None


def for_each(do: Callable[[T], object]) -> Callable[[Collection[T]], None]:
    """Returns a `finish` that applies this function to each item of a turn."""

    def finish(items: Collection[T]) -> None:
        for item in items:
            do(item)

    return finish


class TurnBatch(Generic[T]):
    """Items of one kind. Thread-safe; each thread has its own.

    Parameters
    ----------
    finish : callable
        Processes the items of a turn, in their order, at its end.
    """

    def __init__(self, finish: Callable[[Collection[T]], object]) -> None:
        self._finish = finish
        self._per_thread: _PerThread[T] = _PerThread()

    def add(self, item: T) -> bool:
        """Holds an item back, once; False, with nothing done, if the thread is in no turn."""
        held = self._per_thread.held
        if held is None:
            return False
        held[item] = None
        return True

    def turn(self) -> Turn[T]:
        """A turn of this thread; a nested one is part of the outer one."""
        return Turn(self._per_thread, self._finish)


class Turn(Generic[T]):
    """See `TurnBatch.turn`. (A generator would cost several times as much, for each frame and each write of a log.)"""

    __slots__ = ("_finish", "_held", "_per_thread")

    def __init__(self, per_thread: _PerThread[T], finish: Callable[[Collection[T]], object]) -> None:
        self._per_thread = per_thread
        self._finish = finish
        self._held: dict[T, None] | None = None

    def __enter__(self) -> None:
        if self._per_thread.held is None:
            self._held = self._per_thread.held = {}

    def __exit__(self, *exception: object) -> None:
        held = self._held
        if held is None:
            return
        self._per_thread.held = None
        if held:
            self._finish(held)
