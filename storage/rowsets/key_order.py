"""The keys of a MemRowSet in order, for scans of a few rows from a key on.

    order    {a c d ... z}     a sorted set, made when somebody asks first
    added    r, b, ...         inserted since somebody asked last, in any order

A MemRowSet knows its rows by a dictionary, which has no order, and most of them are never asked for one. So the order
is made when somebody asks first, and then kept: a writer only notes a new key, the next reader puts it in its place. A
key whose write was aborted stays; whoever reads looks keys up in the dictionary anyway.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Collection, Iterable
from itertools import islice
from typing import Any, TypeAlias

from sortedcontainers import SortedSet

IndexKey: TypeAlias = "int | bytes"


class KeyOrder:
    """Keys in ascending order. Safe for several threads.

    Parameters
    ----------
    keys : collection
        Those that are there now, looked at when somebody asks first. What comes after this call is to be added, and may
        be in here, too.
    """

    def __init__(self, keys: Collection[IndexKey]) -> None:
        self._first: Collection[IndexKey] | None = keys
        self._added: deque[Any] = deque()
        self._order = SortedSet()
        self._lock = threading.Lock()

    def add(self, key: IndexKey) -> None:
        """Take note of a key, which may be there already."""
        self._added.append(key)

    def add_all(self, keys: Iterable[IndexKey]) -> None:
        """`add` for many."""
        self._added.extend(keys)

    def from_key(self, low: IndexKey, count: int) -> list[Any]:
        """The first `count` keys at or above `low`, fewer at the end. What was added before the call is among them."""
        with self._lock:
            if self._first is not None:
                self._order.update(list(self._first))
                self._first = None
            if self._added:
                # Writers go on to append meanwhile.
                self._order.update([self._added.popleft() for _ in range(len(self._added))])
            return list(islice(self._order.irange(low), count))
