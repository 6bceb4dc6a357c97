"""How far a statement has come: counted by its scans, told to a callback now and then.

    scan ─ rows passed ─► Tracker ─ at most every 50 ms ─► callback(Progress)

A row counts when a scan has gone past it, whether it was read or dropped by a page's statistics. What the statement has
still before it is what the statistics say of its tables, and exact for each scan from its opening on. Without a
callback there is no tracker, and nothing is counted.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

INTERVAL = 0.05
"""Seconds between two calls, at least: a bar does not need more, and a callback may print."""


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a statement has come. `rows` and `parts_done` never fall while it runs.

    Parameters
    ----------
    rows : int
        Rows that its scans have gone past so far.
    expected_rows : int, optional
        How many that will be in all, as far as is known; None where nothing is (a CSV file).
    parts_done, parts : int
        Units of scans (parts of a tablet, files) that are done, and all that are known: a scan that runs only after
        another adds its own when it begins.
    """

    rows: int = 0
    expected_rows: int | None = None
    parts_done: int = 0
    parts: int = 0

    @property
    def fraction(self) -> float | None:
        """The share that is done, from 0 to 1; None where nobody can tell."""
        if self.expected_rows is None:
            return None
        return min(1.0, self.rows / self.expected_rows) if self.expected_rows else 1.0


Handler: TypeAlias = Callable[[Progress], object]
"""What is told of the progress. It runs in whichever thread has made some, one call at a time; a true answer cancels
the statement, as with sqlite3."""


class Tracker:
    """Adds up what the scans of one statement report. Safe for several threads.

    Parameters
    ----------
    handler : callable
    cancel : threading.Event
        Set where the handler answers something true.
    """

    def __init__(self, handler: Handler, cancel: threading.Event):
        self._handler = handler
        self._cancel = cancel
        self._lock = threading.Lock()
        self._telling = threading.Lock()
        self._told: Progress | None = None
        self._due = time.monotonic() + INTERVAL
        self._rows = self._done = self._parts = 0
        self._expected: int | None = 0
        self._forecasts: dict[int, int] = {}

    def forecast(self, rows: Mapping[int, int | None]) -> None:
        """Before anything is opened: how many rows each scan, known by a number, is expected to have."""
        with self._lock:
            for scan, expected in rows.items():
                self._expect(expected)
                self._forecasts[scan] = expected or 0

    def opened(self, scan: int, rows: int | None, parts: int) -> None:
        """A scan begins (or begins again): it has so many rows, None where nobody knows, in so many parts."""
        with self._lock:
            self._parts += parts
            self._expect(None if rows is None else rows - self._forecasts.pop(scan, 0))

    def _expect(self, rows: int | None) -> None:
        self._expected = None if rows is None or self._expected is None else self._expected + rows

    def passed(self, rows: int) -> None:
        """Some scan has gone past so many rows."""
        with self._lock:
            self._rows += rows
        self._tell_if_due()

    def part_done(self, rows: int) -> None:
        """A part of some scan has ended, `rows` of which had not been counted before."""
        with self._lock:
            self._rows += rows
            self._done += 1
        self._tell_if_due()

    def look(self) -> None:
        """Work goes on, with or without new rows."""
        self._tell_if_due()

    def finish(self) -> None:
        """The end of the work: what has not been told is told now."""
        with self._telling:
            if self._told != (now := self._now()):
                self._tell(now)

    def _tell_if_due(self) -> None:
        # Threads that find another one telling have better things to do.
        if time.monotonic() >= self._due and self._telling.acquire(blocking=False):
            try:
                self._tell(self._now())
            finally:
                self._telling.release()

    def _now(self) -> Progress:
        with self._lock:
            return Progress(self._rows, self._expected, self._done, self._parts)

    def _tell(self, progress: Progress) -> None:
        self._told = progress
        try:
            if self._handler(progress):
                self._cancel.set()
        finally:
            self._due = time.monotonic() + INTERVAL
