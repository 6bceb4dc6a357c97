"""Memory use of this process."""

from __future__ import annotations

import contextlib
import re
import resource
import sys
from pathlib import Path

_STATUS = Path("/proc/self/status")
_CLEAR = Path("/proc/self/clear_refs")


def peak_memory() -> int:
    """The most memory this process has held, in bytes.

    Linux keeps two such numbers; getrusage's starts with what the *parent* held before exec, so the other is read.
    """
    found = _status("VmHWM")
    if found is not None:
        return found
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def held_memory() -> int:
    """Memory that this process holds, in bytes; the peak if the system does not report the current value."""
    held = _status("VmRSS")
    return peak_memory() if held is None else held


def forget_peak() -> None:
    """Reset `peak_memory` to the memory held now, if the system supports that (Linux)."""
    with contextlib.suppress(OSError):
        _CLEAR.write_text("5")


def _status(name: str) -> int | None:
    if not _STATUS.exists():
        return None
    match = re.search(rf"^{name}:\s+(\d+) kB", _STATUS.read_text(), re.MULTILINE)
    return None if match is None else int(match[1]) * 1024
