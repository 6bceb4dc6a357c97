"""The compiled kernels of rows (`compiled/postgres_*.c`), where the installation found a C compiler.

Each has a counterpart in NumPy in the module that calls it, which computes the same. Processor time of a row, compiled
and in NumPy: 22 and 75 ns to send four BIGINTs, 98 and 635 ns to send four DECIMALs, 0.37 and 1.5 us to read one of
TPC-H's lineitem.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any, Final

_VERSION: Final = 2
"""Version of the kernels' functions; those of an older build are not used."""


def _installed() -> Any:
    try:
        found = import_module(".compiled", __package__)
    except ImportError:
        return None
    return found if found.VERSION == _VERSION else None


compiled: Any = _installed()
"""The compiled kernels; None: not installed."""
