"""Metrics of this process: processor time, memory, files, threads, the garbage collector, versions."""

from __future__ import annotations

import contextlib
import gc
import os
import platform
import resource
import threading
import time
from collections.abc import Iterator
from typing import Final

from ..model.metrics import Sample
from ..model.version import __version__
from .process import held_memory

STARTED: Final = time.time()
"""When this module was imported, about when the process started; seconds since 1970."""


def process_samples() -> Iterator[Sample]:
    """For `metrics.collect`."""
    times = os.times()
    yield Sample("nyala_build_info", 1, (__version__, platform.python_version()))
    yield Sample("nyala_start_time_seconds", STARTED)
    yield Sample("nyala_process_cpu_seconds_total", times.user + times.system)
    yield Sample("nyala_process_resident_bytes", held_memory())
    yield Sample("nyala_process_threads", threading.active_count())
    with contextlib.suppress(OSError):  # there is no such directory
        yield Sample("nyala_process_open_files", open_files())
    yield Sample("nyala_process_max_open_files", resource.getrlimit(resource.RLIMIT_NOFILE)[0])
    for generation, found in enumerate(gc.get_stats()):
        yield Sample("nyala_gc_collections_total", found["collections"], (str(generation),))


def open_files() -> int:
    """Number of open descriptors. `OSError` if the system has no directory of them."""
    return len(os.listdir("/dev/fd")) - 1  # noqa: PTH208 - without that of the directory itself
