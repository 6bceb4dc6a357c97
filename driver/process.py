"""What this process uses of the machine."""

from __future__ import annotations

import re
import resource
import sys
from pathlib import Path

_STATUS = Path("/proc/self/status")


def peak_memory() -> int:
    """The most memory this process has held, in bytes.

    Linux keeps two such numbers; getrusage's starts with what the *parent* held before exec, so the other is read.
    """
    if _STATUS.exists():
        match = re.search(r"^VmHWM:\s+(\d+) kB", _STATUS.read_text(), re.MULTILINE)
        if match is not None:
            return int(match[1]) * 1024
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024
