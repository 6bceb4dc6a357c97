"""Log files that stay within bounds: when one is full it is renamed, and the oldest are removed.

    FILE ──► FILE.1 ──► FILE.2 ──► ... ──► FILE.<files>, removed at the next rotation, or when it is older than `days`

The server's log, the audit log and that of slow statements are such files. A rotation is three or more renames, by the
process that writes; a program that renames the files itself (logrotate) is not needed, and works as before.
"""

# Paths are plain strings: this is where they become system calls.
# ruff: noqa: PTH104, PTH107, PTH116, PTH118, PTH208

from __future__ import annotations

import contextlib
import logging
import os
import time
from collections.abc import Iterator

from ....errors import InterfaceError
from ....model.forks import stay_with_process
from ....model.lazy_dataclass import dataclass
from ....model.metrics import Sample, register

_DAY = 24 * 3600


@dataclass(frozen=True, slots=True)
class Retention:
    """The part of a log that is kept.

    Parameters
    ----------
    bytes : int
        Size at which a file is rotated; 0: never.
    files : int
        Rotated files that are kept, at least one.
    days : float
        Age from which on they are removed, by their last change; looked at at each rotation.

    Raises `InterfaceError` for values that keep nothing.
    """

    bytes: int = 64 << 20
    files: int = 8
    days: float = 90.0

    def __post_init__(self) -> None:
        if self.files < 1:
            raise InterfaceError(f"log files: {self.files} rotated files cannot be kept; at least 1")
        if not self.days > 0:
            raise InterfaceError(f"log days: {self.days:g} is not above 0")

    def is_reached(self, size: int) -> bool:
        """True if a file of this size is rotated before the next line."""
        return 0 < self.bytes <= size


def rotate(path: str, retention: Retention) -> None:
    """Rename a log file and its rotated ones, and remove what is not kept any more. Raises `OSError`; the lines are in
    one of the files then."""
    with contextlib.suppress(FileNotFoundError):
        os.remove(f"{path}.{retention.files}")
    for number in range(retention.files - 1, 0, -1):
        with contextlib.suppress(FileNotFoundError):
            os.rename(f"{path}.{number}", f"{path}.{number + 1}")
    os.rename(path, f"{path}.1")
    oldest = time.time() - retention.days * _DAY
    for rotated in rotated_files(path):
        if os.stat(rotated).st_mtime < oldest:
            os.remove(rotated)


def rotated_files(path: str) -> Iterator[str]:
    """Yields the rotated files of a log, also those that an earlier, larger number of files has left."""
    folder, name = os.path.split(path)
    for other in sorted(os.listdir(folder or ".")):
        if other.startswith(f"{name}.") and other[len(name) + 1 :].isdigit():
            yield os.path.join(folder, other)


def log_bytes(path: str) -> int:
    """Bytes of a log with its rotated files."""
    size = 0
    with contextlib.suppress(OSError):  # being rotated, or its folder is gone
        for each in (path, *rotated_files(path)):
            size += os.stat(each).st_size
    return size


class LogFileSize:
    """The disk that a log uses, as a metric for as long as this object exists.

    Parameters
    ----------
    kind : {"server", "audit", "slow"}
    path : str
    """

    def __init__(self, kind: str, path: str):
        self._kind, self._path = kind, path
        register(self.samples)

    def samples(self) -> Iterator[Sample]:
        """For `metrics.collect`."""
        yield Sample("nyala_log_file_bytes", log_bytes(self._path), (self._kind,))


class LogFile:
    """An open log file within bounds; each line is one write at its end. Not thread-safe. All methods raise `OSError`.

    Parameters
    ----------
    kind : {"server", "audit", "slow"}
        For the metric of its size.
    path : str
        Created with `mode` if it does not exist.
    retention : Retention
    mode : int
    """

    def __init__(self, kind: str, path: str, retention: Retention, mode: int):
        self._path, self._retention, self._mode = path, retention, mode
        self._descriptor = self._opened()
        self._size: LogFileSize | None = LogFileSize(kind, path)

    def _opened(self) -> int:
        return os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, self._mode)

    @property
    def is_full(self) -> bool:
        """True if it is to be rotated before the next line."""
        return self._retention.is_reached(os.fstat(self._descriptor).st_size)

    def rotate(self) -> None:
        """Goes on in a new file; if that fails, in the old one."""
        rotate(self._path, self._retention)
        self.reopen()

    def reopen(self) -> None:
        """Opens the path again: another program may have renamed the file."""
        opened = self._opened()
        os.close(self._descriptor)
        self._descriptor = opened

    def write(self, line: bytes) -> int:
        """Writes a line; returns the number of bytes for which there was room."""
        return os.write(self._descriptor, line)

    def close(self) -> None:
        """Closes it. May be repeated."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1
            self._size = None  # the metric is that of open logs


class RotatingLogHandler(logging.Handler):
    """Writes lines to a file within bounds. A rotation that fails is retried at the next line, which goes to the old
    file.

    Parameters
    ----------
    path : str
        Created if it does not exist. Raises `OSError` if it cannot be opened.
    retention : Retention
    """

    def __init__(self, path: str, retention: Retention):
        super().__init__()
        self._file = LogFile("server", path, retention, 0o640)
        stay_with_process(self)

    def emit(self, record: logging.LogRecord) -> None:
        """Writes a record; errors go to `logging`'s own handling of them."""
        try:
            line = self.format(record).encode(errors="backslashreplace") + b"\n"
            if self._file.is_full:
                with contextlib.suppress(OSError):
                    self._file.rotate()
            self._file.write(line)
        except Exception:
            self.handleError(record)

    def close(self) -> None:
        """Closes the file. May be repeated."""
        with self.lock if self.lock is not None else contextlib.nullcontext():
            self._file.close()
        super().close()

    def _abandon(self) -> None:
        """In a forked child: its copy of the descriptor is closed."""
        self._file.close()
