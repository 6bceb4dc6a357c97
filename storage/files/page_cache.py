"""The cache of decoded pages, one per store, shared by all of its tablets.

Pages are vectors that nobody writes into, so one copy serves every scan. What leaves the cache lives on as long as
a batch refers to it.
"""

from __future__ import annotations

import itertools
import threading
from collections import OrderedDict
from typing import Any

from .file_handles import FileHandles
from .filesystem import FileSystem

_owners = itertools.count(1)


def new_owner() -> int:
    """A number that no other open file of this process has: the first half of a page's cache key."""
    return next(_owners)


class PageCache:
    """Decoded pages by (owner, page), least recently used first out. All methods may be called from several threads.

    Invariant: `size` is the sum of the costs of all entries and never above `capacity_bytes` between calls.

    Parameters
    ----------
    capacity_bytes : int
        0 caches nothing.

    Examples
    --------
    >>> cache = PageCache(100)
    >>> cache.put(1, 0, "page", 60)
    >>> cache.put(1, 1, "other", 60)  # room for one of them only
    >>> cache.get(1, 0), cache.get(1, 1), cache.size
    (None, 'other', 60)
    """

    def __init__(self, capacity_bytes: int):
        self.capacity_bytes = capacity_bytes
        self.size = 0
        self.hits = 0
        self.misses = 0
        self._entries: OrderedDict[tuple[int, int], tuple[Any, int]] = OrderedDict()
        self._pages: dict[int, set[int]] = {}
        self._lock = threading.Lock()
        self._handles: dict[int, tuple[FileSystem, FileHandles]] = {}

    def handles(self, fs: FileSystem) -> FileHandles:
        """The open files of a file system, shared by all that share this cache."""
        with self._lock:
            found = self._handles.get(id(fs))
            if found is None:
                found = self._handles[id(fs)] = (fs, FileHandles(fs))
            return found[1]

    def get(self, owner: int, page: int) -> Any:
        """The page, now the most recently used one; None where it is not here."""
        key = (owner, page)
        with self._lock:
            entry = self._entries.get(key)
            if entry is None:
                self.misses += 1
                return None
            self.hits += 1
            self._entries.move_to_end(key)
            return entry[0]

    def put(self, owner: int, page: int, value: Any, cost: int) -> None:
        """Keep a page of `cost` bytes; one that is larger than the whole cache is not kept."""
        if cost > self.capacity_bytes:
            return
        key = (owner, page)
        with self._lock:
            self._drop(key)
            self._entries[key] = (value, cost)
            self._pages.setdefault(owner, set()).add(page)
            self.size += cost
            while self.size > self.capacity_bytes:
                self._drop(next(iter(self._entries)))

    def resize(self, capacity_bytes: int) -> None:
        """Hold at most so many bytes from now on; the least recently used pages go."""
        with self._lock:
            self.capacity_bytes = capacity_bytes
            while self.size > capacity_bytes:
                self._drop(next(iter(self._entries)))

    def forget(self, owner: int) -> None:
        """Drop all pages of a file that is closed."""
        with self._lock:
            for page in list(self._pages.get(owner, ())):
                self._drop((owner, page))

    def __len__(self) -> int:
        return len(self._entries)

    def _drop(self, key: tuple[int, int]) -> None:
        entry = self._entries.pop(key, None)
        if entry is None:
            return
        self.size -= entry[1]
        pages = self._pages[key[0]]
        pages.discard(key[1])
        if not pages:
            del self._pages[key[0]]
