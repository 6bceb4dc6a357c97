"""A file system that reads and never writes: recovery can be tried on a store without changing it."""

from __future__ import annotations

from ..files.filesystem import FileSystem, Lock, ReadableFile, WritableFile


class ReadOnlyFileSystem:
    """Passes reads on and drops everything else, as if it had succeeded. What is written cannot be read back.

    Examples
    --------
    >>> from nyala.storage.files.memory_filesystem import MemoryFileSystem
    >>> inner = MemoryFileSystem()
    >>> file = inner.create("/kept")
    >>> fs = ReadOnlyFileSystem(inner)
    >>> fs.remove("/kept")
    >>> fs.create("/new").write(b"bytes")
    >>> inner.list("/")
    ['kept']
    """

    def __init__(self, inner: FileSystem):
        self._inner = inner

    def create(self, path: str) -> WritableFile:
        return _Dropped()

    def append(self, path: str) -> WritableFile:
        return _Dropped()

    def open(self, path: str) -> ReadableFile:
        return self._inner.open(path)

    def exists(self, path: str) -> bool:
        return self._inner.exists(path)

    def list(self, path: str) -> list[str]:
        return self._inner.list(path)

    def make_directory(self, path: str) -> None: ...

    def rename(self, old: str, new: str) -> None: ...

    def link(self, old: str, new: str) -> bool:
        return True

    def remove(self, path: str) -> None: ...

    def remove_tree(self, path: str) -> None: ...

    def truncate(self, path: str, size: int) -> None: ...

    def sync_directory(self, path: str) -> None: ...

    def lock(self, path: str, shared: bool = False) -> Lock:
        return self._inner.lock(path, shared=True)


class _Dropped:
    """A file that swallows what is written."""

    def __init__(self) -> None:
        self.size = 0

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.size += memoryview(data).nbytes

    def sync(self) -> None: ...

    def close(self) -> None: ...
