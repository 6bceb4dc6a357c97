"""A result at a terminal: as it is where it fits the screen, through a pager where it does not.

    format ─ lines ─► Pages ─┬─ fits ──────────────────────────► terminal
                             ├─ too long or wide ─► $PAGER ────► terminal
                             └─ no pager ─► lines cut at the edge ─► terminal

Lines are held back until the first one that does not fit, which is at most one screen; from then on they stream.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import shutil
import signal
import subprocess
import time
from collections.abc import Iterable, Iterator, Mapping
from typing import IO, Final, TextIO

from .formats import display_width

_LESS: Final = "RSX"
"""Options of `less` unless the user has set $LESS: long lines scroll sideways, and the page stays on the screen at its
end."""
_PROMPT_LINES: Final = 4
"""Lines reserved on the screen: row count, time, prompt and status."""


def pager_command(environment: Mapping[str, str] = os.environ) -> list[str] | None:
    """The pager's command line: `$NYALA_PAGER`, `$PAGER`, else `less` where there is one; None for none.

    >>> pager_command({"PAGER": "more -d"}), pager_command({"PAGER": ""})
    (['more', '-d'], None)
    """
    for name in ("NYALA_PAGER", "PAGER"):
        if name in environment:
            return shlex.split(environment[name]) or None
    return ["less"] if shutil.which("less") else None


class Pages:
    """A text stream for one result at a terminal. As a context manager it waits until the reader leaves the pager.

    `BrokenPipeError` comes out of `write` when the reader has left it before the end.

    Parameters
    ----------
    out : text stream
        The terminal.
    command : list of str, optional
        The pager; None: lines are cut at the screen's edge, and there may be any number of them.
    """

    def __init__(self, out: TextIO, command: list[str] | None):
        self._out = out
        self._command = command
        self._width, height = shutil.get_terminal_size()
        self._most = max(1, height - _PROMPT_LINES)
        self._held: list[str] = []
        self._pager: subprocess.Popen[str] | None = None
        self.cut = 0
        """Lines that were cut."""
        self.waited = 0.0
        """Seconds that the reader took, and not the statement."""

    def write(self, text: str) -> int:
        """Add text that consists of whole lines."""
        self.writelines(text.splitlines(keepends=True))
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        """Add lines."""
        for line in lines:
            if self._pager is not None:
                self._send(line)
            elif self._command is None:
                self._out.write(self._fitting(line))
            else:
                self._held.append(line)
                if len(self._held) > self._most or _too_wide(line, self._width):
                    self._page()

    def flush(self) -> None:
        """Send what waits."""
        if self._pager is not None:
            self._pipe.flush()
        else:
            self._out.flush()

    def _send(self, line: str) -> None:
        started = time.perf_counter()
        try:
            self._pipe.write(line)
        finally:
            self.waited += time.perf_counter() - started

    @property
    def _pipe(self) -> IO[str]:
        assert self._pager is not None and self._pager.stdin is not None
        return self._pager.stdin

    def _fitting(self, line: str) -> str:
        if not _too_wide(line, self._width):
            return line
        self.cut += 1
        return cut(line.rstrip("\n"), self._width) + "\n"

    def _page(self) -> None:
        assert self._command is not None
        held, self._held = self._held, []
        self._out.flush()
        try:
            environment = {"LESS": _LESS, **os.environ}
            self._pager = subprocess.Popen(self._command, stdin=subprocess.PIPE, text=True, env=environment)
        except OSError:
            # A pager that cannot be started counts as no pager.
            self._command = None
        self.writelines(held)

    def __enter__(self) -> Pages:
        return self

    def __exit__(self, *exc: object) -> None:
        if self._pager is None:
            self._out.writelines(self._held)
            self._held = []
            return
        # Ctrl-C in the pager is the pager's.
        started = time.perf_counter()
        with ignoring_interrupts():
            with contextlib.suppress(BrokenPipeError):
                self._pipe.close()
            self._pager.wait()
        self.waited += time.perf_counter() - started


@contextlib.contextmanager
def ignoring_interrupts() -> Iterator[None]:
    """While another program has the terminal, Ctrl-C is its own business."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _too_wide(line: str, width: int) -> bool:
    # A character takes two columns at most.
    return len(line) - 1 > width or (not line.isascii() and display_width(line.rstrip("\n")) > width)


def cut(text: str, width: int) -> str:
    """The beginning of a text, an ellipsis at its end, in `width` columns.

    >>> cut("abcdef", 4), cut("日本語日本語", 6)
    ('abc…', '日本…')
    """
    used = 0
    for place, char in enumerate(text):
        used += display_width(char)
        if used > width - 1:
            return text[:place] + "…"
    return text
