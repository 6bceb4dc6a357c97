"""The C library's heap, where NumPy's arrays lie: what one batch has freed is kept for the next.

glibc maps a block of 128 KiB or more from the system and gives it back when it is freed; from the heap, too, it gives
back what lies free at the end. So each batch's intermediate results would be new memory, of which the system clears
every page when it is touched first: half of the time of TPC-H's Q1. As a program frees larger blocks, glibc itself
raises both limits to their sizes (mallopt(3), M_MMAP_THRESHOLD), up to 32 MiB, and twice as much of free memory. One
block of that size, which nobody touches, has it do so at once.
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
