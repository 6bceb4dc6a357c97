"""Settings of the process's heap, which holds the arrays of NumPy and Arrow: one heap, whose freed blocks are reused.

glibc maps a block of 128 KiB or more from the system and returns it when it is freed; it also returns free memory at
the end of the heap. So each batch's intermediate results would be new memory, of which the system clears every page at
its first access: half of the time of TPC-H's Q1. When a program frees larger blocks, glibc itself raises both limits to
their sizes (mallopt(3), M_MMAP_THRESHOLD), up to 32 MiB, and twice as much of free memory. One block of that size,
allocated and freed without being accessed, raises the limits at once.

Blocks that are kept serve only requests of the same heap. Arrow's own allocator would be a second heap, and glibc gives
each thread a further one: what one of them keeps, the others request anew. With Arrow on glibc's heap and all threads
on one, ClickBench's peak is a quarter lower. `HeapTrimmer` returns free blocks when the process has become idle.

All of this is done with glibc only, and not against the environment: each setting has a variable that wins.
"""

from __future__ import annotations

import ctypes
import os
import time
from collections.abc import Callable
from functools import cache
from typing import Any, Final

import numpy as np
import pyarrow as pa

LARGEST_KEPT: Final = 32 << 20
"""glibc's DEFAULT_MMAP_THRESHOLD_MAX."""
_OWN_BYTES: Final = 64 << 10
"""More than glibc and Python add to a block."""
_M_ARENA_MAX: Final = -8
"""The parameter of mallopt(3)."""
PROCESSORS_PER_HEAP: Final = 4
"""Threads of more processors than that would often wait for the lock of one heap. (glibc's own choice is 8 heaps for
each processor.)"""
IDLE_SECONDS: Final = 10.0
"""A process that has been idle for this long returns its free memory."""
IDLE_SHARE: Final = 0.05
"""Of one processor: the background work of an idle store needs less."""


@cache
def configure_heap() -> None:
    """Have all threads and Arrow use one heap for every four processors, which keeps freed blocks of up to 32 MiB. It
    is done once.

    MALLOC_MMAP_THRESHOLD_, MALLOC_ARENA_MAX, GLIBC_TUNABLES and ARROW_DEFAULT_MEMORY_POOL in the environment take
    precedence. With another C library nothing changes.
    """
    libc = _glibc()
    if libc is None:
        return
    np.empty(LARGEST_KEPT - _OWN_BYTES, np.uint8)  # a bytearray would be cleared, which takes 20 ms
    if "MALLOC_ARENA_MAX" not in os.environ and "glibc.malloc" not in os.environ.get("GLIBC_TUNABLES", ""):
        libc.mallopt(_M_ARENA_MAX, max(1, (os.cpu_count() or 1) // PROCESSORS_PER_HEAP))
    if "ARROW_DEFAULT_MEMORY_POOL" not in os.environ:
        pa.set_memory_pool(pa.system_memory_pool())


class HeapTrimmer:
    """Returns free blocks of the heap to the system once the process is idle. `check` is called about once a second.

    Parameters
    ----------
    clock, processor : callable
        Return seconds: of time, and of processor time of the whole process.
    """

    def __init__(
        self, clock: Callable[[], float] = time.monotonic, processor: Callable[[], float] = time.process_time
    ) -> None:
        self._clock, self._processor = clock, processor
        self._libc = _glibc()
        self._at, self._used = clock(), processor()
        self._busy_at = self._at
        self._is_trimmed = False

    def check(self) -> bool:
        """Returns free memory if the process has been idle for `IDLE_SECONDS`, once in each idle period.

        Returns
        -------
        bool
            True if memory was returned now.
        """
        now, used = self._clock(), self._processor()
        is_busy = used - self._used > IDLE_SHARE * (now - self._at)
        self._at, self._used = now, used
        if is_busy:
            self._busy_at, self._is_trimmed = now, False
        elif not self._is_trimmed and now - self._busy_at >= IDLE_SECONDS:
            self._is_trimmed = True
            return self._libc is not None and bool(self._libc.malloc_trim(0))
        return False


@cache
def _glibc() -> Any:
    """The C library of the process if it is glibc, else None."""
    try:
        version = os.confstr("CS_GNU_LIBC_VERSION")
    except (AttributeError, ValueError, OSError):  # not every system has confstr, or knows the name
        return None
    return ctypes.CDLL(None) if version is not None and version.startswith("glibc") else None
