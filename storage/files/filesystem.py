"""The one door to the disk. Nothing else in nyala opens a store's files, so that tests can crash it and make it fail.

Paths are strings with `/`, absolute or relative to the process. Errors of the system come out as `DiskError`.
"""

from __future__ import annotations

from typing import Protocol


class WritableFile(Protocol):
    """A file being written from its start to its end."""

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Append bytes; they are durable only after `sync`."""

    def sync(self) -> None:
        """Make everything written so far durable (fsync)."""

    def close(self) -> None:
        """Close without syncing."""

    @property
    def size(self) -> int:
        """Bytes written so far."""


class ReadableFile(Protocol):
    """A file read at any place, by several threads at once."""

    @property
    def size(self) -> int:
        """In bytes."""

    def read_at(self, offset: int, length: int) -> bytes:
        """Exactly `length` bytes from `offset`, fewer at the end of the file."""

    def close(self) -> None: ...


class FileSystem(Protocol):
    """Operations that nyala needs of a file system."""

    def create(self, path: str) -> WritableFile:
        """A new file (an old one of that name is gone)."""

    def append(self, path: str) -> WritableFile:
        """An existing file, to write behind its end."""

    def open(self, path: str) -> ReadableFile: ...

    def exists(self, path: str) -> bool: ...

    def list(self, path: str) -> list[str]:
        """Names in a directory, ascending."""

    def make_directory(self, path: str) -> None:
        """Create a directory and those above it; fine if it is there."""

    def rename(self, old: str, new: str) -> None:
        """Atomically, replacing `new`."""

    def link(self, old: str, new: str) -> bool:
        """Give a file that never changes a second name; False if that cannot be: on another file system, or on one
        without hard links."""

    def remove(self, path: str) -> None: ...

    def remove_tree(self, path: str) -> None: ...

    def truncate(self, path: str, size: int) -> None: ...

    def sync_directory(self, path: str) -> None:
        """Make the names in a directory durable (after create, rename, remove)."""

    def lock(self, path: str, shared: bool = False) -> Lock:
        """Take a lock on a file, exclusive or shared; `StoreLocked` names the process that holds it.

        A shared lock keeps openers out and lets other holders of shared ones in. It is for tools that only read: the
        file must be there and stays as it is.
        """


class Lock(Protocol):
    """A lock that ends with its process."""

    def release(self) -> None: ...
