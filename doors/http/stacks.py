"""Stacks of all threads, once or sampled: where a process is, and where it spends its time.

The profiler takes the stacks of all threads by `sys._current_frames` every 10 ms. A thread that waits for a lock, a
socket or a kernel without the interpreter lock is sampled as well, so a line shows where threads are, not what takes
processor time.
"""

from __future__ import annotations

import sys
import threading
import time
import traceback
from collections import Counter
from types import FrameType
from typing import Final

INTERVAL: Final = 0.01
"""Seconds between two samples."""
LONGEST: Final = 30.0
"""Seconds that a profile may take."""


def stacks() -> str:
    """The stack of each thread, by name; the innermost call last."""
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    parts = []
    for ident, frame in sorted(sys._current_frames().items(), key=lambda item: names.get(item[0], "")):
        lines = "".join(traceback.format_stack(frame))
        parts.append(f"thread {names.get(ident, '?')} ({ident})\n{lines}")
    return "\n".join(parts)


def profile(seconds: float) -> str:
    """Collapsed stacks with their numbers of samples, as flame graphs are made of; most frequent first."""
    counts: Counter[str] = Counter()
    own = threading.get_ident()
    end = time.monotonic() + min(max(seconds, INTERVAL), LONGEST)
    while time.monotonic() < end:
        names = {thread.ident: thread.name for thread in threading.enumerate()}
        counts.update(
            ";".join((names.get(ident, "?"), *_calls(frame)))
            for ident, frame in sys._current_frames().items()
            if ident != own
        )
        time.sleep(INTERVAL)
    return "".join(f"{stack} {count}\n" for stack, count in counts.most_common())


def _calls(frame: FrameType | None) -> list[str]:
    """Functions of a stack, the outermost first."""
    found: list[str] = []
    while frame is not None:
        found.append(f"{frame.f_globals.get('__name__', '?')}.{frame.f_code.co_name}")
        frame = frame.f_back
    return found[::-1]
