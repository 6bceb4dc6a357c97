"""Unused files, kept until the last reader has closed."""

from __future__ import annotations

import contextlib
import threading
import weakref
from collections.abc import Callable, Iterable, Sequence

from ...errors import DiskError
from ...model.lazy_dataclass import dataclass
from .filesystem import FileSystem


@dataclass(slots=True, eq=False)
class _Retired:
    """Readers to close and files to remove when the pins are released."""

    pins: list[weakref.ref[object]]
    closers: list[Callable[[], None]]
    paths: list[str]


class RetiredFiles:
    """Safe for several threads. What a process that is killed leaves here, the next one removes when it opens the
    tablet."""

    def __init__(self, fs: FileSystem):
        self._fs = fs
        self._retired: list[_Retired] = []
        self._lock = threading.Lock()

    def add(self, pins: Iterable[object], closers: Sequence[Callable[[], None]], paths: Sequence[str]) -> None:
        """Close readers and remove files as soon as all `pins` are gone (they are not kept alive)."""
        entry = _Retired([weakref.ref(pin) for pin in pins], list(closers), list(paths))
        with self._lock:
            self._retired.append(entry)

    def remove_free(self) -> None:
        """Remove files without readers. `DiskError` if a file cannot be removed: it is retried next time."""
        if not self._retired:
            return
        with self._lock:
            free = [entry for entry in self._retired if all(pin() is None for pin in entry.pins)]
            self._retired = [entry for entry in self._retired if entry not in free]
        for number, entry in enumerate(free):
            try:
                self._remove(entry)
            except DiskError:
                with self._lock:
                    self._retired.extend(free[number:])
                raise

    def _remove(self, entry: _Retired) -> None:
        while entry.closers:
            entry.closers.pop()()
        while entry.paths:
            if self._fs.exists(entry.paths[-1]):
                self._fs.remove(entry.paths[-1])
            entry.paths.pop()

    def close(self) -> None:
        """Close all readers and remove the files: no reader outlives the tablet. A file that cannot be removed stays
        for the next opening."""
        with self._lock:
            retired, self._retired = self._retired, []
        for entry in retired:
            for close in entry.closers:
                close()
            for path in entry.paths:
                with contextlib.suppress(DiskError):
                    if self._fs.exists(path):
                        self._fs.remove(path)
