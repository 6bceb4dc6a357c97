"""Settings of the C library's heap, which holds NumPy's arrays: memory freed by one batch is kept for the next.

glibc maps a block of 128 KiB or more from the system and returns it when it is freed; it also returns free memory at
the end of the heap. So each batch's intermediate results would be new memory, of which the system clears every page at
its first access: half of the time of TPC-H's Q1. When a program frees larger blocks, glibc itself raises both limits to
their sizes (mallopt(3), M_MMAP_THRESHOLD), up to 32 MiB, and twice as much of free memory. One block of that size,
allocated and freed without being accessed, raises the limits at once.
"""

from __future__ import annotations

from functools import cache
from typing import Final

LARGEST_KEPT: Final = 32 << 20
"""glibc's DEFAULT_MMAP_THRESHOLD_MAX."""
_OWN_BYTES: Final = 64 << 10
"""More than glibc and Python add to a block."""


@cache
def keep_freed_blocks() -> None:
    """Have the process keep freed blocks of up to 32 MiB for later. It is done once; where the environment sets glibc's
    thresholds (MALLOC_MMAP_THRESHOLD_) or another C library is in use, nothing changes."""
    bytearray(LARGEST_KEPT - _OWN_BYTES)
