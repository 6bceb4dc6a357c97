"""Precedence of statements over background work on the same tablet.

    background      ████ major delta compaction ▒▒▒▒          gives way at the next column; its files are removed
    COMPACT TABLE                 ├─ flush, merge ─────────┤  rewrites the same rows once, with all threads

COMPACT TABLE rewrites whatever a background merge of the tablet would. So while one works on a tablet, the background
begins no merge of it, and a running one ends without a result: no thread waits for rows that are written again at once.
Flushes and the removal of log go on, since writers need their memory.

Other statements wait until the background releases the tablet's `flush_lock`: a writer whose MemRowSet is overfull, an
ALTER TABLE. Meanwhile its work on the tablet is urgent, and the ceiling of its I/O does not delay it (`is_urgent`).
"""

from __future__ import annotations

import contextlib
import threading
import weakref
from collections.abc import Callable, Iterator

from ..tablet.tablet import Tablet


class GaveWay(Exception):
    """A background merge ended, with nothing changed, because COMPACT TABLE works on its tablet."""


_lock = threading.Lock()
_compacted: weakref.WeakKeyDictionary[Tablet, int] = weakref.WeakKeyDictionary()
"""Number of COMPACT TABLE statements that work on a tablet, for those that have some; guarded by `_lock`."""
_awaited: weakref.WeakKeyDictionary[Tablet, int] = weakref.WeakKeyDictionary()
"""The same of threads that wait for a tablet's `flush_lock`."""


def is_compacted(tablet: Tablet) -> bool:
    """True if COMPACT TABLE works on the tablet."""
    with _lock:
        return tablet in _compacted


@contextlib.contextmanager
def preceding(tablet: Tablet) -> Iterator[None]:
    """Have background merges of the tablet give way meanwhile."""
    with _lock:
        _compacted[tablet] = _compacted.get(tablet, 0) + 1
    try:
        yield
    finally:
        with _lock:
            if _compacted[tablet] == 1:
                del _compacted[tablet]
            else:
                _compacted[tablet] -= 1


@contextlib.contextmanager
def awaited(tablet: Tablet) -> Iterator[None]:
    """Have background work on the tablet hurry meanwhile: the caller waits for its `flush_lock`."""
    with _lock:
        _awaited[tablet] = _awaited.get(tablet, 0) + 1
    try:
        yield
    finally:
        with _lock:
            _awaited[tablet] -= 1
            if not _awaited[tablet]:
                del _awaited[tablet]


def is_urgent(tablet: Tablet) -> bool:
    """True if a statement waits for background work on the tablet, or its result is not needed any more."""
    with _lock:
        return tablet in _awaited or tablet in _compacted or tablet.is_dropped


def giving_way(tablet: Tablet) -> Callable[[], None]:
    """A check for a background merge of the tablet to call before each column: it raises `GaveWay`."""

    def check() -> None:
        if is_compacted(tablet):
            raise GaveWay

    return check
