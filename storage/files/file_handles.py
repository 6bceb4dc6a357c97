"""Open files, bounded in number: a database has far more column files than a process may hold open."""

from __future__ import annotations

import threading
from collections import OrderedDict

from ...model.lazy_dataclass import dataclass
from .filesystem import FileSystem, ReadableFile
from .io_limit import note_read

OPEN_FILES = 256
"""A quarter of the usual soft limit of 1,024 descriptors. Opening again costs about 10 µs, a page read far more."""


@dataclass(slots=True)
class _Handle:
    file: ReadableFile
    readers: int = 0
    doomed: bool = False
    """Out of the table; the last reader closes it."""


class FileHandles:
    """Reads files by path and keeps the `limit` most recently used ones open. Safe for several threads.

    A file must exist under its path until `forget` is called: it may be closed and opened again in between.
    """

    def __init__(self, fs: FileSystem, limit: int = OPEN_FILES):
        self._fs = fs
        self._limit = limit
        self._handles: OrderedDict[str, _Handle] = OrderedDict()
        self._lock = threading.Lock()

    def size(self, path: str) -> int:
        """Of a file, in bytes."""
        handle = self._acquire(path)
        try:
            return handle.file.size
        finally:
            self._release(handle)

    def read_at(self, path: str, offset: int, length: int) -> bytes:
        """Exactly `length` bytes from `offset`, fewer at the end of the file."""
        handle = self._acquire(path)
        try:
            data = handle.file.read_at(offset, length)
            note_read(len(data))
            return data
        finally:
            self._release(handle)

    def forget(self, path: str) -> None:
        """Close a file if it is open."""
        with self._lock:
            handle = self._handles.pop(path, None)
            if handle is not None:
                self._doom(handle)

    def __len__(self) -> int:
        return len(self._handles)

    def _acquire(self, path: str) -> _Handle:
        with self._lock:
            handle = self._handles.get(path)
            if handle is None:
                handle = self._handles[path] = _Handle(self._fs.open(path))
                if len(self._handles) > self._limit:
                    self._doom(self._handles.popitem(last=False)[1])
            else:
                self._handles.move_to_end(path)
            handle.readers += 1
            return handle

    def _release(self, handle: _Handle) -> None:
        with self._lock:
            handle.readers -= 1
            if handle.doomed and not handle.readers:
                handle.file.close()

    def _doom(self, handle: _Handle) -> None:
        handle.doomed = True
        if not handle.readers:
            handle.file.close()
