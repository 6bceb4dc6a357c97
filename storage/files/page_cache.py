"""The cache of decoded pages, one per store, shared by all of its tablets.

Pages are immutable vectors, so one copy serves every scan. An evicted page stays in memory while a batch refers to it.
"""

from __future__ import annotations

import contextlib
import itertools
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from ...errors import CorruptionError
from .file_handles import FileHandles
from .filesystem import FileSystem

_owners = itertools.count(1)


def new_owner() -> int:
    """A number that no other open file of this process has: the first half of a page's cache key."""
    return next(_owners)


class CachedPage:
    """A page in the cache. Readers of `value` set `used`; `cells` is a field for readers of single cells, None at
    first."""

    __slots__ = ("cells", "cost", "used", "value")

    def __init__(self, value: Any, cost: int):
        self.value = value
        self.cells: Any = None
        self.cost = cost
        self.used = False


class PageCache:
    """Decoded pages by (owner, page); what was not used since it was looked at last goes first ("second chance", or
    CLOCK: it keeps about what "least recently used" keeps, and using a page changes nothing but a mark, which look-ups
    of many threads can make without a lock). All methods may be called from several threads.

    Invariant: `size` is the sum of the costs of all entries and of what open files hold (`hold`). Between calls it is
    not above `capacity_bytes`, unless that much is held without any page.

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
        self.hits = self.insertions = self.evictions = 0
        """Pages that `get` found, that `put` took, and that were dropped to make room; readers of single cells, which
        use `pages`, are not counted."""
        self._hand: OrderedDict[tuple[int, int], CachedPage] = OrderedDict()
        """All pages, in the order in which they are looked at for their marks."""
        self._owners: dict[int, dict[int, CachedPage]] = {}
        self._held: dict[int, int] = {}
        """Bytes beside the pages, by owner."""
        self._lock = threading.Lock()
        self._handles: dict[int, tuple[FileSystem, FileHandles]] = {}
        self.on_damage: Callable[[CorruptionError], CorruptionError] | None = None
        """From the damage that a reader has found to the error that it raises."""

    def named(self, error: CorruptionError) -> CorruptionError:
        """The error to raise for damage of a file that this cache has pages of."""
        return error if self.on_damage is None else self.on_damage(error)

    @contextlib.contextmanager
    def naming_damage(self) -> Iterator[None]:
        """Raise `named` in the place of a `CorruptionError`."""
        try:
            yield
        except CorruptionError as error:
            named = self.named(error)
            if named is error:
                raise
            raise named from error.__cause__

    def handles(self, fs: FileSystem) -> FileHandles:
        """The open files of a file system, shared by all that share this cache."""
        with self._lock:
            cached = self._handles.get(id(fs))
            if cached is None:
                cached = self._handles[id(fs)] = (fs, FileHandles(fs))
            return cached[1]

    def pages(self, owner: int) -> Mapping[int, CachedPage]:
        """The pages of a file that are here, kept up to date until `forget`: for readers of single cells, to whom a
        call of `get` is much. They set `CachedPage.used`."""
        with self._lock:
            return self._owners.setdefault(owner, {})

    def get(self, owner: int, page: int) -> Any:
        """The page, marked as used; None where it is not here."""
        pages = self._owners.get(owner)
        entry = None if pages is None else pages.get(page)
        if entry is None:
            return None
        entry.used = True
        self.hits += 1
        return entry.value

    def put(self, owner: int, page: int, value: Any, cost: int) -> None:
        """Keep a page of `cost` bytes; one that is larger than the whole cache is not kept."""
        if cost > self.capacity_bytes:
            return
        entry = CachedPage(value, cost)
        with self._lock:
            self._drop((owner, page))
            self._hand[owner, page] = self._owners.setdefault(owner, {})[page] = entry
            self.size += cost
            self.insertions += 1
            self._shrink()

    def hold(self, owner: int, cost: int) -> None:
        """Count `cost` bytes that an open file keeps until `forget`, such as its dictionary; pages make room for it."""
        with self._lock:
            self._held[owner] = self._held.get(owner, 0) + cost
            self.size += cost
            self._shrink()

    @property
    def room(self) -> int:
        """Number of bytes that fit without eviction; negative if files hold more than the capacity."""
        return self.capacity_bytes - self.size

    def resize(self, capacity_bytes: int) -> None:
        """Limit the cache to `capacity_bytes` from now on; pages that were not used for long are evicted."""
        with self._lock:
            self.capacity_bytes = capacity_bytes
            self._shrink()

    def forget(self, owner: int) -> None:
        """Drop all pages of a file that is closed, and what it held."""
        with self._lock:
            self.size -= self._held.pop(owner, 0)
            for page in list(self._owners.get(owner, ())):
                self._drop((owner, page))
            self._owners.pop(owner, None)

    def __len__(self) -> int:
        return len(self._hand)

    def _shrink(self) -> None:
        while self._hand and self.size > self.capacity_bytes:
            key, entry = next(iter(self._hand.items()))
            if entry.used:
                entry.used = False
                self._hand.move_to_end(key)
            else:
                self.evictions += 1
                self._drop(key)

    def _drop(self, key: tuple[int, int]) -> None:
        entry = self._hand.pop(key, None)
        if entry is not None:
            del self._owners[key[0]][key[1]]
            self.size -= entry.cost
