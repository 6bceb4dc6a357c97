"""Spans of what a call waits for: those of the statement or call that a thread works for, if it has one.

Without an exporter, `phase` and `acquiring` cost a call each, and import nothing (`waiting_time.exporter`).
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import Final

from . import waiting_time

_NOTHING: Final[AbstractContextManager[None]] = contextlib.nullcontext()


def phase(name: str) -> AbstractContextManager[object]:
    """Context manager for a span within the one that this thread works for (`tracing.child`), if there is any."""
    if waiting_time.exporter is None:
        return _NOTHING
    from . import tracing  # few processes have an exporter

    return tracing.child(name)


def acquiring(lock: AbstractContextManager[bool]) -> AbstractContextManager[object]:
    """Returns the lock; with an exporter, a context manager that holds it, and gives the wait for it a span."""
    return lock if waiting_time.exporter is None else _held(lock)


@contextlib.contextmanager
def _held(lock: AbstractContextManager[bool]) -> Iterator[None]:
    with contextlib.ExitStack() as held:
        with phase("lock"):
            held.enter_context(lock)
        yield
