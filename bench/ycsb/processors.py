"""Binds the client threads of one process to one processor.

A Python interpreter runs one thread at a time. When its threads wait for a store, the system wakes each on any idle
processor. The interpreter with the content of its caches then moves along, several times per operation. That costs more
than the operation, for every store that was measured. On two virtual processors, SQLite's reads were four times as fast
without it, PostgreSQL's updates half as fast again. It also makes runs differ. A store's own threads, and servers, run
where the system schedules them.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager


def can_bind() -> bool:
    """True if the system supports processor affinity of threads."""
    return hasattr(os, "sched_setaffinity")


@contextmanager
def on_one_processor(number: int) -> Iterator[None]:
    """Threads that are started in the block stay on one of the allowed processors: `number` modulo their count.

    Does nothing if the system does not support it.
    """
    if not can_bind():
        yield
        return
    allowed = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {sorted(allowed)[number % len(allowed)]})  # of this thread; new ones inherit it
    try:
        yield
    finally:
        os.sched_setaffinity(0, allowed)
