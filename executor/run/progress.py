"""Progress of a statement: counted by its scans, reported to a callback periodically.

    scan ─ rows passed ─► Tracker ─ at most every 50 ms ─► callback(Progress)

A row counts when a scan has passed it, whether it was read or dropped by a page's statistics. The expected total comes
from the tables' statistics; it is exact for each scan once that is opened. Without a callback there is no tracker, and
nothing is counted.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from typing import TypeAlias

from ...model.lazy_dataclass import dataclass

INTERVAL = 0.05
"""Minimum seconds between two calls: a progress bar needs no more, and a callback may print."""


@dataclass(frozen=True, slots=True)
class Progress:
    """Progress of a statement. `rows` and `parts_done` never decrease while it runs.

    Parameters
    ----------
    rows : int
        Rows that its scans have passed so far.
    expected_rows : int, optional
        Expected total of `rows`; None if unknown (a CSV file).
    parts_done, parts : int
        Units of scans (parts of a tablet, files) that are done, and all known ones: a scan that runs only after another
        adds its own when it begins.
    """

    rows: int = 0
    expected_rows: int | None = None
    parts_done: int = 0
    parts: int = 0

    @property
    def fraction(self) -> float | None:
        """Share that is done, from 0 to 1; None if unknown."""
        if self.expected_rows is None:
            return None
        return min(1.0, self.rows / self.expected_rows) if self.expected_rows else 1.0


Handler: TypeAlias = Callable[[Progress], object]
"""Progress callback. It runs in whichever thread has made progress, one call at a time; a true result cancels the
statement, as with sqlite3."""


class Tracker:
    """Adds up the reports of a statement's scans. Thread-safe.

    Parameters
    ----------
    handler : callable
    cancel : threading.Event
        Set if the handler returns a true value.
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
        """Set the expected rows of each scan, identified by a number, before anything is opened."""
        with self._lock:
            for scan, expected in rows.items():
                self._expect(expected)
                self._forecasts[scan] = expected or 0

    def opened(self, scan: int, rows: int | None, parts: int) -> None:
        """Record that a scan begins (or begins again) with `rows` rows, None if unknown, in `parts` parts."""
        with self._lock:
            self._parts += parts
            self._expect(None if rows is None else rows - self._forecasts.pop(scan, 0))

    def _expect(self, rows: int | None) -> None:
        self._expected = None if rows is None or self._expected is None else self._expected + rows

    def passed(self, rows: int) -> None:
        """Record that some scan has passed `rows` rows."""
        with self._lock:
            self._rows += rows
        self._tell_if_due()

    def part_done(self, rows: int) -> None:
        """Record that a part of some scan has ended, `rows` of which had not been counted before."""
        with self._lock:
            self._rows += rows
            self._done += 1
        self._tell_if_due()

    def look(self) -> None:
        """Report the progress if it is due, with or without new rows."""
        self._tell_if_due()

    def finish(self) -> None:
        """Report the rest at the end of the work."""
        with self._telling:
            if self._told != (now := self._now()):
                self._tell(now)

    def _tell_if_due(self) -> None:
        # A thread returns at once if another one is calling the handler.
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
