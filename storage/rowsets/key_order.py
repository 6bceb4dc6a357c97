"""The keys of a MemRowSet in order, for scans of a few rows from a key on.

    order    {a c d ... z}     a sorted set, made at the first use
    added    r, b, ...         inserted since the last use, in any order

A MemRowSet finds its rows by a dictionary, which has no order, and most MemRowSets never need one. So the order is made
at its first use, and then maintained: a writer only appends a new key, the next reader inserts it at its position. A
key whose write was aborted stays, because readers look keys up in the dictionary anyway.
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
        The current keys, read at the first use. Keys inserted after this call must be added, and may be in this
        collection, too.
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
