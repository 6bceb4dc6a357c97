"""Injected faults, for tests of real processes: set by `messages.methods.SetFaults` at a server that allows it.

    cut            traffic from and to these servers (ids or addresses, "*" for all) fails as if the network were down
    disk_delay     each sync of a file takes this number of seconds longer
    broken_path    each operation on a path that contains this fails with EIO
    full_path      each creation and write of a file on a path that contains this fails with ENOSPC, also halfway
    clock_skew     the server's wall clock is this number of seconds ahead

The switches belong to the process (`FAULTS`). Calls, scans and peer streams call `check` for outgoing and incoming
messages; files pass through `FaultyFileSystem`.
"""

from __future__ import annotations

import errno
import os
import time
from typing import Any

from ... import errors
from ...model.clock import wall_microseconds
from ...storage.files.filesystem import FileSystem, Lock, ReadableFile, WritableFile
from .messages.methods import Done, SetFaults


class Faults:
    """The switches. They are replaced as a whole, so readers need no lock."""

    def __init__(self) -> None:
        self._now = SetFaults()

    def set(self, request: SetFaults, context: Any = None) -> Done:
        """Sets these switches: the handler of `SetFaults`."""
        self._now = request
        return Done()

    def clear(self) -> None:
        """Clears all faults."""
        self._now = SetFaults()

    def is_cut(self, *names: str) -> bool:
        """True if traffic with the server of any of these names (id, address; "" matches no server) is cut."""
        cut = self._now.cut
        return bool(cut) and ("*" in cut or any(name and name in cut for name in names))

    def check(self, *names: str) -> None:
        """Raises `ServerUnavailable` if traffic with the server of these names is cut."""
        if self._now.cut and self.is_cut(*names):
            named = " ".join(name for name in names if name)
            raise errors.ServerUnavailable(f"{named or 'the caller'} cannot be reached: cut off for a test")

    def check_path(self, path: str) -> None:
        """Raises `DiskError` if operations on the path must fail."""
        broken = self._now.broken_path
        if broken and broken in path:
            error = OSError(errno.EIO, os.strerror(errno.EIO), path)
            raise errors.DiskError(f"{path}: {error.strerror} (made to fail for a test)", errno.EIO) from error

    def is_full(self, path: str) -> bool:
        """True if a file of this path has no space."""
        full = self._now.full_path
        return bool(full) and full in path

    def check_space(self, path: str) -> None:
        """Raises `DiskError` if a file of this path has no space."""
        if self.is_full(path):
            error = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)
            raise errors.DiskError(f"cannot write {path}: {error.strerror} (made to fail for a test)") from error

    def wall_microseconds(self) -> int:
        """Wall clock of servers in this process."""
        skew = self._now.clock_skew
        return wall_microseconds() + int(skew * 1e6) if skew else wall_microseconds()

    def delay_sync(self) -> None:
        """Waits for the injected delay of a sync."""
        if self._now.disk_delay > 0:
            time.sleep(self._now.disk_delay)


FAULTS = Faults()
"""The process's own switches."""


class FaultyFileSystem:
    """A file system with the effects of `disk_delay` and `broken_path`; otherwise the wrapped one."""

    def __init__(self, fs: FileSystem, faults: Faults = FAULTS):
        self._fs = fs
        self._faults = faults

    def create(self, path: str) -> WritableFile:
        self._faults.check_path(path)
        self._faults.check_space(path)
        return _FaultyWritableFile(self._fs.create(path), path, self._faults)

    def append(self, path: str) -> WritableFile:
        self._faults.check_path(path)
        return _FaultyWritableFile(self._fs.append(path), path, self._faults)

    def open(self, path: str) -> ReadableFile:
        self._faults.check_path(path)
        return _FaultyReadableFile(self._fs.open(path), path, self._faults)

    def exists(self, path: str) -> bool:
        self._faults.check_path(path)
        return self._fs.exists(path)

    def list(self, path: str) -> list[str]:
        self._faults.check_path(path)
        return self._fs.list(path)

    def make_directory(self, path: str) -> None:
        self._faults.check_path(path)
        self._fs.make_directory(path)

    def rename(self, old: str, new: str) -> None:
        self._faults.check_path(old)
        self._faults.check_path(new)
        self._fs.rename(old, new)

    def link(self, old: str, new: str) -> bool:
        self._faults.check_path(new)
        return self._fs.link(old, new)

    def remove(self, path: str) -> None:
        self._faults.check_path(path)
        self._fs.remove(path)

    def remove_tree(self, path: str) -> None:
        self._faults.check_path(path)
        self._fs.remove_tree(path)

    def truncate(self, path: str, size: int) -> None:
        self._faults.check_path(path)
        self._fs.truncate(path, size)

    def sync_directory(self, path: str) -> None:
        self._faults.check_path(path)
        self._faults.delay_sync()
        self._fs.sync_directory(path)

    def lock(self, path: str, shared: bool = False) -> Lock:
        self._faults.check_path(path)
        return self._fs.lock(path, shared)


class _FaultyWritableFile:
    def __init__(self, file: WritableFile, path: str, faults: Faults):
        self._file = file
        self._path = path
        self._faults = faults

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self._faults.check_path(self._path)
        if self._faults.is_full(self._path):
            self._file.write(memoryview(data)[: len(data) // 2])
            self._faults.check_space(self._path)
        self._file.write(data)

    def sync(self) -> None:
        self._faults.check_path(self._path)
        self._faults.delay_sync()
        self._file.sync()

    def close(self) -> None:
        self._file.close()

    @property
    def size(self) -> int:
        return self._file.size


class _FaultyReadableFile:
    def __init__(self, file: ReadableFile, path: str, faults: Faults):
        self._file = file
        self._path = path
        self._faults = faults

    @property
    def size(self) -> int:
        return self._file.size

    def read_at(self, offset: int, length: int) -> bytes:
        self._faults.check_path(self._path)
        return self._file.read_at(offset, length)

    def close(self) -> None:
        self._file.close()
