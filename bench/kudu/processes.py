"""Memory and processor time of server processes."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Final

import psutil

_SETTLE_SECONDS: Final = 10.0


def memory_bytes(pids: Iterable[int]) -> int:
    """Resident memory of all processes together."""
    return sum(int(psutil.Process(pid).memory_info().rss) for pid in pids)


def processor_seconds(pids: Iterable[int]) -> float:
    """User and system time so far of all processes together."""
    times = [psutil.Process(pid).cpu_times() for pid in pids]
    return float(sum(each.user + each.system for each in times))


def idle_share(processor: Callable[[], float], seconds: float) -> float:
    """The growth per second of `processor()`, after processes without work have settled."""
    time.sleep(_SETTLE_SECONDS)
    began, before = time.perf_counter(), processor()
    time.sleep(seconds)
    return (processor() - before) / (time.perf_counter() - began)
