"""Client threads of one process on one processor.

A Python interpreter runs one thread at a time. Where its threads wait for a store, the system wakes each on whatever
processor is idle, and the interpreter with all that it has in its caches moves along, several times per operation: that
costs more than the operation, for every store that was measured (on two virtual processors, SQLite's reads were four
times as fast without it, PostgreSQL's updates half as fast again). It is also what makes runs differ. Threads that a
store has of its own, and servers, go where the system puts them.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager


def can_bind() -> bool:
    """Does the system let a thread choose its processor?"""
    return hasattr(os, "sched_setaffinity")


@contextmanager
def on_one_processor(number: int) -> Iterator[None]:
    """Threads that are started inside stay on one of the processors that this one may use: number modulo their count.
    Does nothing where the system has no such thing."""
    if not can_bind():
        yield
        return
    allowed = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {sorted(allowed)[number % len(allowed)]})  # of this thread; new ones inherit it
    try:
        yield
    finally:
        os.sched_setaffinity(0, allowed)
