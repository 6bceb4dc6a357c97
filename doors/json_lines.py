"""Logs of JSON lines: a file for its owner alone, within bounds, that can be renamed away while it is written."""

from __future__ import annotations

import json
import signal
import threading
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from ..cluster.wire.process.log_files import LogFile, Retention
from ..errors import InterfaceError
from ..model.forks import stay_with_process

_MODE: Final = 0o600


class JsonLines:
    """An open log; each line is one write at its end. Safe for several threads.

    Parameters
    ----------
    kind : {"audit", "slow"}
        For the metric of its size.
    name : str
        Of the log, for errors.
    path : str or Path
        Created if it does not exist; lines are added at its end.
    retention : Retention, optional
        When the file is rotated, and what is kept.

    Raises `InterfaceError` if it cannot be opened.
    """

    def __init__(self, kind: str, name: str, path: str | Path, retention: Retention | None = None):
        self.path = Path(path)
        self._lock = threading.Lock()
        self._is_reopening = False
        try:
            self._file = LogFile(kind, str(self.path), retention or Retention(), _MODE)
        except OSError as error:
            raise InterfaceError(f"{self.path}: the {name} cannot be opened: {error.strerror}") from None
        stay_with_process(self)

    def write(self, fields: dict[str, Any]) -> bool:
        """Adds a line; False if there was no room for all of it. Raises `OSError`."""
        line = json.dumps(fields, ensure_ascii=False, default=str).encode(errors="backslashreplace") + b"\n"
        with self._lock:
            if self._is_reopening:
                self._file.reopen()
                self._is_reopening = False
            elif self._file.is_full:
                self._file.rotate()
            return self._file.write(line) == len(line)

    def request_reopening(self) -> None:
        """Has the next line open the path again; from a signal's handler, too."""
        self._is_reopening = True

    def close(self) -> None:
        """Closes the file. May be repeated."""
        with self._lock:
            self._file.close()

    def _abandon(self) -> None:
        """In a forked child: its copy of the descriptor is closed."""
        self._file.close()


def time_text(moment: datetime | None = None) -> str:
    """A time in UTC, as lines have it; now, if none is given."""
    return (moment or datetime.now(UTC)).isoformat(timespec="microseconds").replace("+00:00", "Z")


def reopen_on_hangup(logs: Sequence[JsonLines]) -> None:
    """SIGHUP has the logs opened again; to be called in a process's main thread."""

    def reopen(number: int, frame: object) -> None:
        for log in logs:
            log.request_reopening()

    signal.signal(signal.SIGHUP, reopen)
