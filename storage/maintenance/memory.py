"""Memory of rows that are not on disk yet, and of cached pages: counted and limited for the whole process.

    0                    60 %                80 %             100 %  of memory_limit_bytes
    ├──── writes pass ────┼──── writes pass ──┼── writes slow ──┼── writes wait for a flush
       page cache of the     pages are evicted,  down: the more,
       requested size        flushes first       the longer

Counted are the MemRowSets and DeltaMemStores of all stores of the process, and their page caches; memory of running
statements is not. The page cache gets the rest of the first 60 %, and so shrinks first.

`Memory.admit` is called before a write acquires any lock. Between two measurements it only sums the admitted bytes, so
that the cost per row is negligible. Above 80 % a write waits for a flush, up to a tenth of a second at full memory;
above the limit it waits until it fits. If no other thread does it, the waiting writer flushes the largest memory
itself: it does not depend on the maintenance thread, which may run a long compaction. A write is refused only if that
flush fails, with `MemoryLimitExceeded`. A write is always admitted if its store has nothing to flush, so a batch larger
than the limit, or a store in a process whose other stores use all memory, does not wait forever.
"""

from __future__ import annotations

import logging
import threading
import time
import weakref
from collections.abc import Callable

from ...errors import DiskError, MemoryLimitExceeded, WriteTooLarge
from ...model.forks import renew_in_child
from ...model.lazy_dataclass import dataclass
from ..files.os_filesystem import machine_memory
from ..files.page_cache import PageCache

DEFAULT_SHARE = 0.5
"""Share of the machine's memory, or of the container's: statements need the rest."""
PRESSURE_SHARE = 0.6
"""Of the limit: flushes go before all other maintenance (Kudu's `memory_pressure_percentage`)."""
SOFT_SHARE = 0.8
"""Of the limit: writes are slowed down (Kudu's `memory_limit_soft_percentage`)."""
LONGEST_DELAY = 0.1
"""Seconds that a write waits just below the limit."""
CACHE_SHARE = 0.25
"""Default share of the limit for pages; the system's own cache has the files' bytes in addition."""
USUAL_CACHE_BYTES = 1 << 30
"""For pages, where that is more."""
LEAST_CACHE_BYTES = 8 << 20
"""Memory that pages keep even under pressure, or the requested size of the cache, if that is less."""
MEASURE_SECONDS = 0.05
"""A measurement above the soft limit is good for so long, as in Kudu."""
LOGGED_WAIT = 0.5
"""Seconds: a write that waits as long is logged, one of those within `LOG_EVERY` seconds."""
LOG_EVERY = 60.0
_log = logging.getLogger("nyala.storage")
_WAIT_SECONDS = 1.0
"""Interval, in seconds, at which waiting writers check again without being woken."""


def default_limit() -> int:
    """Default limit of the memory of a process's stores, in bytes."""
    return int(DEFAULT_SHARE * machine_memory())


def default_cache_bytes(limit_bytes: int) -> int:
    """Default size of the page cache in bytes, by the limit of all memory; pages are evicted if memory is short."""
    return max(USUAL_CACHE_BYTES, int(CACHE_SHARE * limit_bytes))


@dataclass(frozen=True, slots=True)
class MemoryStatus:
    """Bytes: of rows and deltas of this store, of those of all stores, of all page caches, and the limit."""

    own: int
    stores: int
    caches: int
    limit: int
    delayed_writes: int = 0
    waited_writes: int = 0
    waited_seconds: float = 0.0
    """Writes that were slowed down, writes that waited for a flush, and for how long together."""

    @property
    def used(self) -> int:
        """Bytes that count against the limit."""
        return self.stores + self.caches


class Memory:
    """The memory of one store, beside the others of the process. Safe for several threads.

    Parameters
    ----------
    own_bytes : bound method without arguments
        Bytes of the store's MemRowSets and DeltaMemStores; held weakly.
    cache : PageCache
    relieve : bound method without arguments
        Flushes what takes most memory in the store, in the calling thread; False where there is nothing (or it is being
        flushed already). `DiskError` where that fails. Held weakly.
    limit_bytes : int, optional
        Half of the machine's memory if None.
    """

    def __init__(
        self,
        own_bytes: Callable[[], int],
        cache: PageCache,
        relieve: Callable[[], bool],
        limit_bytes: int | None = None,
    ):
        self.limit = limit_bytes if limit_bytes is not None else default_limit()
        self._own_bytes = weakref.WeakMethod(own_bytes)
        self._relieve = weakref.WeakMethod(relieve)
        self._cache = cache
        self._cache_bytes = cache.capacity_bytes
        self._soft = int(SOFT_SHARE * self.limit)
        self._estimate = 0
        """Bytes in use at the last measurement, and bytes admitted since."""
        self._measured = 0.0
        self._freed = threading.Condition()
        self.delayed_writes = 0
        """Writes that were slowed down."""
        self.waited_writes = 0
        """Writes that waited for a flush, and for how long together."""
        self.waited_seconds = 0.0
        self._logged = float("-inf")
        self._relieving = threading.Lock()
        with _processwide_lock:
            _processwide.add(self)
        self.measure()

    # ---- measuring -----------------------------------------------------------------------------------------------

    @property
    def own(self) -> int:
        """Bytes of rows and deltas of this store."""
        own = self._own_bytes()
        return own() if own is not None else 0

    def measure(self) -> MemoryStatus:
        """Measure, and give the page cache the remaining memory."""
        with _processwide_lock:  # or another store may open while this looks at all of them
            others = [memory for memory in _processwide if memory is not self]
        own = self.own
        stores = own + sum(memory.own for memory in others)
        other_caches = sum(memory._cache.size for memory in others)
        room = int(PRESSURE_SHARE * self.limit) - stores - other_caches
        capacity = max(min(self._cache_bytes, room), min(LEAST_CACHE_BYTES, self._cache_bytes))
        if capacity != self._cache.capacity_bytes:
            self._cache.resize(capacity)
        waits = self.delayed_writes, self.waited_writes, self.waited_seconds
        status = MemoryStatus(own, stores, other_caches + self._cache.size, self.limit, *waits)
        self._estimate, self._measured = status.used, time.monotonic()
        return status

    @property
    def is_short(self) -> bool:
        """True if flushes should precede all other maintenance."""
        status = self.measure()
        return status.own > 0 and status.used > PRESSURE_SHARE * self.limit

    def note_freed(self) -> None:
        """Memory was freed: writers that wait look again."""
        self.measure()
        with self._freed:
            self._freed.notify_all()

    def close(self) -> None:
        """The store is closed and holds nothing any more."""
        with _processwide_lock:
            _processwide.discard(self)
        self.note_freed()

    # ---- admission -----------------------------------------------------------------------------------------------

    def admit(self, size: int, waits: bool = True) -> None:
        """Let a write of `size` bytes pass; it may have to wait. To be called without locks.

        Raises `MemoryLimitExceeded` where memory is full and could not be freed; nothing has happened then. `waits`
        False: also where it would have to wait until memory is freed, and `WriteTooLarge` where that would be no use,
        as the write is larger than the limit.
        """
        # Two threads may add at the same moment and one of them be lost: the next measurement sets it right.
        self._estimate += size
        if self._estimate > self._soft:
            self._admit_slowly(size, waits)

    def admit_at_once(self, size: int) -> bool:
        """As `admit`, if that needs no wait; False, with nothing done, if it might."""
        if self._estimate + size > self._soft:
            return False
        self._estimate += size
        return True

    def _admit_slowly(self, size: int, waits: bool) -> None:
        if size > self.limit and not waits:
            self._estimate -= size
            raise WriteTooLarge(
                f"a write that takes {size:,} bytes of memory is too large: rows and pages may take {self.limit:,} "
                "bytes (--memory-limit); write fewer rows at a time"
            )
        if time.monotonic() - self._measured > MEASURE_SECONDS or self._estimate > self.limit:
            self.measure()
            self._estimate += size
        used = self._estimate
        if used <= self._soft:
            return
        if used <= self.limit:
            share = (used - self._soft) / (self.limit - self._soft)
            with self._freed:
                self.delayed_writes += 1
                self._freed.wait(LONGEST_DELAY * share)
            return
        self._wait_for_room(size, waits)

    def _wait_for_room(self, size: int, waits: bool) -> None:
        began = time.monotonic()
        try:
            self._wait_until_it_fits(size, waits)
        finally:
            self._note_wait(time.monotonic() - began)

    def _note_wait(self, seconds: float) -> None:
        """Count a write that had to wait; log the first of a while."""
        with self._freed:
            self.waited_writes += 1
            self.waited_seconds += seconds
            if seconds < LOGGED_WAIT or time.monotonic() < self._logged + LOG_EVERY:
                return
            self._logged = time.monotonic()
        status = self.measure()
        _log.warning(
            "a write waited %.1f s for rows in memory to be flushed: store_memory is full (%d of %d bytes: rows %d, "
            "pages %d); %d writes have waited %.0f s since the store was opened",
            seconds,
            status.used,
            status.limit,
            status.stores,
            status.caches,
            self.waited_writes,
            self.waited_seconds,
        )

    def _wait_until_it_fits(self, size: int, waits: bool) -> None:
        while True:
            status = self.measure()
            if status.used + size <= self.limit or not status.own:
                self._estimate += size
                return
            if not waits:
                raise MemoryLimitExceeded(
                    f"memory is full ({status.used:,} of {self.limit:,} bytes are in use, the write needs {size:,})"
                )
            if not self._relieve_once():
                with self._freed:
                    self._freed.wait(_WAIT_SECONDS)

    def _relieve_once(self) -> bool:
        """Flush something unless another writer does already; did it free memory?"""
        relieve = self._relieve()
        if relieve is None or not self._relieving.acquire(blocking=False):
            return False
        try:
            freed = relieve()
        except DiskError as error:
            raise MemoryLimitExceeded(
                f"memory is full ({self.measure().used:,} of {self.limit:,} bytes), and rows cannot be flushed: {error}"
            ) from error
        finally:
            self._relieving.release()
        if freed:
            self.note_freed()
        return freed


_processwide_lock = threading.Lock()
_processwide: weakref.WeakSet[Memory] = weakref.WeakSet()
"""The memory of every open store of this process."""


def _renew() -> None:
    """In a forked child: it has no stores yet, and another thread of its parent may have held the lock."""
    global _processwide_lock, _processwide
    _processwide_lock, _processwide = threading.Lock(), weakref.WeakSet()


renew_in_child(_renew)
