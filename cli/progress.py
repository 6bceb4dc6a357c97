"""The output of commands that take long.

The result goes to standard output, lines for people or JSON; progress goes to standard error: one line that is redrawn
at a terminal, otherwise a line per step and one every ten seconds.
"""

from __future__ import annotations

import json
import shutil
import threading
from typing import Final, TextIO

from ..backup.running import Progress
from ..command_line import Outcome

_LINE_SECONDS: Final = 10.0
_ERASE: Final = "\r\x1b[K"


def print_outcome(outcome: Outcome, as_json: bool) -> int:
    """Prints the result of a command; returns its exit code."""
    print(json.dumps(outcome.plain, indent=2, default=str) if as_json else "\n".join(outcome.lines))
    return 0 if outcome.is_well else 1


class Reporter:
    """A progress handler that writes to a stream; a context manager that leaves it clean.

    Parameters
    ----------
    out : text stream
        Where it is a terminal, one line is redrawn.
    """

    def __init__(self, out: TextIO):
        self._out = out
        self._is_terminal = out.isatty()
        self._lock = threading.Lock()
        self._drawn = False
        self._step = ""
        self._told = 0.0

    def __call__(self, progress: Progress) -> None:
        """Prints the progress; called from any thread."""
        with self._lock:
            if self._is_terminal:
                width = shutil.get_terminal_size().columns - 1
                self._out.write(_ERASE + describe(progress)[:width])
                self._drawn = True
            elif self._is_due(progress):
                self._out.write(describe(progress) + "\n")
            self._out.flush()

    def _is_due(self, progress: Progress) -> bool:
        if progress.step != self._step:
            self._step, self._told = progress.step, 0.0
        if not progress.is_over and progress.seconds - self._told < _LINE_SECONDS:
            return False
        self._told = progress.seconds
        return True

    def __enter__(self) -> Reporter:
        return self

    def __exit__(self, *exc: object) -> None:
        with self._lock:
            if self._drawn:
                self._out.write(_ERASE)
                self._out.flush()


def describe(progress: Progress) -> str:
    """A line about it.

    >>> describe(Progress("saving rows", 3, 8, 120_000, 4.25))
    'saving rows: 3 of 8 tasks, 120,000 rows, 4.2 s'
    """
    facts = [f"{progress.tasks_done} of {progress.tasks} tasks"] if progress.tasks else []
    facts += [f"{progress.rows:,} rows"] if progress.rows else []
    return f"{progress.step}: " + ", ".join([*facts, f"{progress.seconds:.1f} s"])
