"""Threads of OpenBLAS, NumPy's library for matrices, in a new process."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

_SPINNING: Final = "OPENBLAS_THREAD_TIMEOUT"
"""Cycles, as a power of two, for which a thread waits for work in a loop before it sleeps."""
_SHORT_SPINNING: Final = "20"
"""A third of a millisecond."""


@contextmanager
def short_spinning() -> Iterator[None]:
    """Has the threads that OpenBLAS starts with the import of NumPy sleep after a third of a millisecond without work.

    By default they spin for 2**28 cycles first: 60 ms of processor time on each further processor, in a process that
    may never multiply a matrix. nyala does not. The variable is set for the time of the import only, so that child
    processes do not inherit it. No effect if NumPy is imported already, or if the variable is set.
    """
    if "numpy" in sys.modules or _SPINNING in os.environ:
        yield
        return
    os.environ[_SPINNING] = _SHORT_SPINNING
    try:
        yield
    finally:
        os.environ.pop(_SPINNING, None)
