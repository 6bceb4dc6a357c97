"""A statement's progress, drawn while it runs: one line of the terminal, gone before the result comes.

    [#########---------------]  38 %  2,281,472 of 6,001,215 rows, 3 of 8 parts, 1.4 s, about 2.3 s left

Parts are the pieces that scans read at a time: of tablets, or files. Nothing is drawn for statements that are done
within half a second.
"""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Callable
from typing import Final, TextIO

from ..executor.run.progress import Progress

DELAY: Final = 0.5
"""Seconds before a statement gets a bar: most are done by then, and a flash would only disturb."""
_WIDTH: Final = 24
_ERASE: Final = "\r\x1b[K"


def draw(progress: Progress, seconds: float, width: int) -> str:
    """Return the line, at most `width` characters: what does not fit is left out, from the end.

    >>> draw(Progress(250, 1000, 1, 4), 2.0, 100)
    '[######------------------]  25 %  250 of 1,000 rows, 1 of 4 parts, 2.0 s, about 6.0 s left'
    >>> draw(Progress(250), 2.0, 100)
    '250 rows, 2.0 s'
    >>> draw(Progress(250, 1000, 1, 4), 2.0, 76)
    '[######------------------]  25 %  250 of 1,000 rows, 1 of 4 parts, 2.0 s'
    """
    fraction = progress.fraction
    facts = [f"{progress.rows:,} rows"]
    bar = ""
    if fraction is not None:
        facts = [f"{progress.rows:,} of {progress.expected_rows:,} rows"]
        done = int(_WIDTH * fraction)
        bar = f"[{'#' * done}{'-' * (_WIDTH - done)}] {int(100 * fraction):3d} %  "
    if progress.parts:
        facts.append(f"{progress.parts_done} of {progress.parts} parts")
    facts.append(f"{seconds:.1f} s")
    if fraction is not None and 0.01 <= fraction < 1:
        facts.append(f"about {seconds * (1 - fraction) / fraction:.1f} s left")
    while len(facts) > 1 and len(bar) + len(", ".join(facts)) > width:
        facts.pop()
    return (bar + ", ".join(facts))[:width]


class ProgressBar:
    """A progress handler that draws on a terminal until it is stopped. As a context manager it stops at the end.

    Parameters
    ----------
    out : text stream
        A terminal.
    clock : callable
        Seconds that only grow.
    """

    def __init__(self, out: TextIO, clock: Callable[[], float] = time.monotonic):
        self._out = out
        self._clock = clock
        self._started = clock()
        self._lock = threading.Lock()
        self._drawn = self._stopped = False

    def __call__(self, progress: Progress) -> None:
        """Draw, where it is time; called from any thread."""
        seconds = self._clock() - self._started
        if seconds < DELAY:
            return
        # The last column stays free: a terminal may wrap behind it.
        text = draw(progress, seconds, shutil.get_terminal_size().columns - 1)
        with self._lock:
            if not self._stopped:
                self._drawn = True
                self._out.write(_ERASE + text)
                self._out.flush()

    def stop(self) -> None:
        """Erase the line and draw no more. May be repeated."""
        with self._lock:
            if self._drawn and not self._stopped:
                self._out.write(_ERASE)
                self._out.flush()
            self._stopped = True

    def __enter__(self) -> ProgressBar:
        return self

    def __exit__(self, *exc: object) -> None:
        self.stop()
