"""File systems in memory: `MemoryFileSystem` for ":memory:" stores, `CrashableFileSystem` and `FaultyFileSystem` for
tests of what a store does when the power or the disk fails.

A crash leaves of each file what was synced, and of each directory the names that were synced. Of the rest it keeps a
random part: blocks of unsynced bytes may be missing (zeros) in the middle, and each unsynced create, rename or remove
may have happened or not.
"""

from __future__ import annotations

import errno
import fnmatch
import os
import random
import threading
from collections.abc import Callable
from dataclasses import field
from typing import TypeAlias

from ...errors import DiskError, StoreLocked
from ...model.disk_errors import disk_error
from ...model.lazy_dataclass import dataclass
from .filesystem import FileSystem, Lock, ReadableFile, WritableFile

BLOCK = 512
"""Bytes that a disk writes as one, or not at all."""


@dataclass(slots=True, eq=False)
class _File:
    data: bytearray = field(default_factory=bytearray)
    durable: int = 0
    """Bytes from the start that were synced; files only grow, and a truncation is durable at once."""


@dataclass(slots=True, eq=False)
class _Directory:
    entries: dict[str, _Node] = field(default_factory=dict)
    durable: dict[str, _Node] = field(default_factory=dict)
    pending: list[dict[str, _Node | None]] = field(default_factory=list)
    """Changes since the last sync, oldest first; each is atomic and maps names to nodes, or to None where removed."""


_Node: TypeAlias = "_File | _Directory"


_NUMBERS = {os.strerror(number): number for number in errno.errorcode}


def _refused(message: str, number: int) -> DiskError:
    return disk_error(message, OSError(number, os.strerror(number)))


class MemoryFileSystem:
    """Files in memory. Safe for several threads; locks are those of this object."""

    _tracks_changes = False

    def __init__(self) -> None:
        self._root = _Directory()
        self._locked: dict[str, set[_MemoryLock]] = {}
        self._mutex = threading.RLock()

    # ---- the FileSystem protocol ---------------------------------------------------------------------------------

    def create(self, path: str) -> WritableFile:
        """A new file (an old one of that name is gone)."""
        with self._mutex:
            directory, name = self._parent(path)
            file = _File()
            self._change(directory, {name: file})
            return _MemoryWritable(self, path, file)

    def append(self, path: str) -> WritableFile:
        """An existing file, to write behind its end."""
        return _MemoryWritable(self, path, self._file(path))

    def open(self, path: str) -> ReadableFile:
        """An existing file, to read."""
        return _MemoryReadable(self._file(path))

    def exists(self, path: str) -> bool:
        """True if there is a file or directory of this name."""
        with self._mutex:
            return self._find(path) is not None

    def list(self, path: str) -> list[str]:
        """Names in a directory, ascending."""
        with self._mutex:
            return sorted(self._directory(path).entries)

    def make_directory(self, path: str) -> None:
        """Create a directory and those above it; fine if it is there."""
        with self._mutex:
            node: _Node | None = self._root
            for name in _parts(path):
                assert isinstance(node, _Directory)
                child = node.entries.get(name)
                if child is None:
                    child = _Directory()
                    self._change(node, {name: child})
                if isinstance(child, _File):
                    raise _refused(f"cannot create directory {path}", errno.EEXIST)
                node = child

    def rename(self, old: str, new: str) -> None:
        """Atomically, replacing `new`."""
        with self._mutex:
            source, old_name = self._parent(old)
            target, new_name = self._parent(new)
            node = source.entries.get(old_name)
            if node is None:
                raise _refused(f"cannot rename {old} to {new}", errno.ENOENT)
            if source is target:
                self._change(source, {old_name: None, new_name: node})
            else:
                self._change(target, {new_name: node})
                self._change(source, {old_name: None})

    def link(self, old: str, new: str) -> bool:
        """Give a file a second name; `new` must not exist."""
        with self._mutex:
            file = self._file(old)
            if self._find(new) is not None:
                raise _refused(f"cannot link {old} to {new}", errno.EEXIST)
            directory, name = self._parent(new)
            self._change(directory, {name: file})
        return True

    def remove(self, path: str) -> None:
        """Remove a file."""
        with self._mutex:
            self._file(path)
            directory, name = self._parent(path)
            self._change(directory, {name: None})

    def remove_tree(self, path: str) -> None:
        """Remove a directory and all that is in it; fine if it is not there."""
        with self._mutex:
            if self._find(path) is not None:
                directory, name = self._parent(path)
                self._change(directory, {name: None})

    def truncate(self, path: str, size: int) -> None:
        """Cut a file to `size` bytes; durable on return."""
        with self._mutex:
            file = self._file(path)
            del file.data[size:]
            file.durable = min(file.durable, size)
        self._synced(f"truncate {path}")

    def sync_directory(self, path: str) -> None:
        """Make the names in a directory durable."""
        with self._mutex:
            directory = self._directory(path)
            if self._tracks_changes:
                directory.durable = dict(directory.entries)
                directory.pending.clear()
        self._synced(f"sync directory {path}")

    def lock(self, path: str, shared: bool = False) -> Lock:
        """Take a lock, exclusive or shared; `StoreLocked` where it is taken."""
        with self._mutex:
            holders = self._locked.setdefault(path, set())
            if holders and not (shared and all(holder.shared for holder in holders)):
                raise StoreLocked(f"{path} is locked: this process has the store open already")
            lock = _MemoryLock(self, path, shared)
            holders.add(lock)
            return lock

    # ---- inside --------------------------------------------------------------------------------------------------

    def _synced(self, what: str) -> None:
        """Called after each step that made something durable."""

    def _change(self, directory: _Directory, change: dict[str, _Node | None]) -> None:
        _apply(directory.entries, change)
        if self._tracks_changes:
            directory.pending.append(change)

    def _find(self, path: str) -> _Node | None:
        node: _Node | None = self._root
        for name in _parts(path):
            if not isinstance(node, _Directory):
                return None
            node = node.entries.get(name)
        return node

    def _directory(self, path: str) -> _Directory:
        node = self._find(path)
        if not isinstance(node, _Directory):
            raise _refused(f"cannot open directory {path}", errno.ENOENT)
        return node

    def _parent(self, path: str) -> tuple[_Directory, str]:
        above, _, name = path.rstrip("/").rpartition("/")
        return self._directory(above), name

    def _file(self, path: str) -> _File:
        with self._mutex:
            node = self._find(path)
        if not isinstance(node, _File):
            raise _refused(f"cannot open {path}", errno.ENOENT)
        return node


def _parts(path: str) -> list[str]:
    return [part for part in path.split("/") if part and part != "."]


def _apply(entries: dict[str, _Node], change: dict[str, _Node | None]) -> None:
    for name, node in change.items():
        if node is None:
            entries.pop(name, None)
        else:
            entries[name] = node


class _MemoryWritable:
    def __init__(self, fs: MemoryFileSystem, path: str, file: _File):
        self._fs = fs
        self._path = path
        self._file = file

    @property
    def size(self) -> int:
        return len(self._file.data)

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self._file.data += data

    def sync(self) -> None:
        self._file.durable = len(self._file.data)
        self._fs._synced(f"sync {self._path}")

    def close(self) -> None:
        """Nothing to close."""


class _MemoryReadable:
    def __init__(self, file: _File):
        self._file = file

    @property
    def size(self) -> int:
        return len(self._file.data)

    def read_at(self, offset: int, length: int) -> bytes:
        return bytes(self._file.data[offset : offset + length])

    def close(self) -> None:
        """Nothing to close."""


class _MemoryLock:
    def __init__(self, fs: MemoryFileSystem, path: str, shared: bool):
        self._fs = fs
        self._path = path
        self.shared = shared

    def release(self) -> None:
        with self._fs._mutex:
            self._fs._locked[self._path].discard(self)


class CrashableFileSystem(MemoryFileSystem):
    """A file system that records which data are durable, so that tests can see the state after a crash.

    Parameters
    ----------
    on_sync : callable, optional
        Called with a description after each step that made something durable; it may call `crash`.
    """

    _tracks_changes = True

    def __init__(self, on_sync: Callable[[str], None] | None = None):
        super().__init__()
        self.on_sync = on_sync

    def crash(self, keep_unsynced: float, rng: random.Random) -> CrashableFileSystem:
        """The file system as a machine finds it that lost its power just now; this one goes on unharmed.

        Parameters
        ----------
        keep_unsynced : float
            The chance of each unsynced block of bytes, and of each unsynced change of names, to have reached the
            disk: 0.0 to 1.0.
        """
        clone = CrashableFileSystem()
        with self._mutex:
            clone._root = _crashed_directory(self._root, keep_unsynced, rng)
        return clone

    def _synced(self, what: str) -> None:
        if self.on_sync is not None:
            self.on_sync(what)


def _crashed_directory(directory: _Directory, keep: float, rng: random.Random) -> _Directory:
    names = dict(directory.durable)
    for change in directory.pending:
        if rng.random() < keep:
            _apply(names, change)
    entries: dict[str, _Node] = {}
    for name, node in names.items():
        if isinstance(node, _Directory):
            entries[name] = _crashed_directory(node, keep, rng)
        else:
            data = _crashed_bytes(node, keep, rng)
            entries[name] = _File(data, len(data))
    return _Directory(entries, dict(entries))


def _crashed_bytes(file: _File, keep: float, rng: random.Random) -> bytearray:
    data = bytearray(file.data[: file.durable])
    for start in range(file.durable, len(file.data), BLOCK):
        block = file.data[start : start + BLOCK]
        if rng.random() < keep:
            data += bytes(start - len(data)) + block[: rng.randint(1, len(block)) if rng.random() < 0.3 else None]
    return data


@dataclass(slots=True)
class _Fault:
    operation: str
    pattern: str
    nth: int
    times: int
    message: str
    seen: int = 0


class FaultyFileSystem:
    """Forwards operations to another file system, except those that were set to fail.

    Examples
    --------
    >>> fs = FaultyFileSystem(MemoryFileSystem())
    >>> fs.fail("write", "*/wal/*", nth=2)
    >>> fs.make_directory("db/wal")
    >>> file = fs.create("db/wal/1")
    >>> file.write(b"first")
    >>> file.write(b"second")
    Traceback (most recent call last):
        ...
    nyala.errors.DiskFull: cannot write db/wal/1: No space left on device
    >>> fs.heal()
    """

    def __init__(self, inner: FileSystem):
        self._inner = inner
        self._faults: list[_Fault] = []
        self._mutex = threading.Lock()
        self.failures = 0
        """Number of operations failed so far."""

    def fail(
        self,
        operation: str,
        pattern: str = "*",
        nth: int = 1,
        times: int = 1 << 60,
        message: str = "No space left on device",
    ) -> None:
        """From the `nth` matching operation on, fail `times` of them.

        `operation` is create, write, sync, rename, remove, truncate, sync_directory or open; a failing write leaves
        half of its bytes behind, as a full disk does. `pattern` is a shell pattern for the whole path.
        """
        with self._mutex:
            self._faults.append(_Fault(operation, pattern, nth, times, message))

    def heal(self) -> None:
        """Fail nothing any more."""
        with self._mutex:
            self._faults.clear()

    def check(self, operation: str, path: str) -> None:
        """Raise `DiskError` if this operation is to fail."""
        with self._mutex:
            for fault in self._faults:
                if fault.operation != operation or not fnmatch.fnmatch(path, fault.pattern):
                    continue
                fault.seen += 1
                if fault.nth <= fault.seen < fault.nth + fault.times:
                    self.failures += 1
                    cause = OSError(_NUMBERS.get(fault.message, 0), fault.message)
                    raise disk_error(f"cannot {operation} {path}", cause) from cause

    def create(self, path: str) -> WritableFile:
        self.check("create", path)
        return _FaultyWritable(self, path, self._inner.create(path))

    def append(self, path: str) -> WritableFile:
        self.check("open", path)
        return _FaultyWritable(self, path, self._inner.append(path))

    def open(self, path: str) -> ReadableFile:
        self.check("open", path)
        return self._inner.open(path)

    def exists(self, path: str) -> bool:
        return self._inner.exists(path)

    def list(self, path: str) -> list[str]:
        return self._inner.list(path)

    def make_directory(self, path: str) -> None:
        self.check("create", path)
        self._inner.make_directory(path)

    def rename(self, old: str, new: str) -> None:
        self.check("rename", new)
        self._inner.rename(old, new)

    def link(self, old: str, new: str) -> bool:
        self.check("link", new)
        return self._inner.link(old, new)

    def remove(self, path: str) -> None:
        self.check("remove", path)
        self._inner.remove(path)

    def remove_tree(self, path: str) -> None:
        self.check("remove", path)
        self._inner.remove_tree(path)

    def truncate(self, path: str, size: int) -> None:
        self.check("truncate", path)
        self._inner.truncate(path, size)

    def sync_directory(self, path: str) -> None:
        self.check("sync_directory", path)
        self._inner.sync_directory(path)

    def lock(self, path: str, shared: bool = False) -> Lock:
        return self._inner.lock(path, shared)


class _FaultyWritable:
    def __init__(self, fs: FaultyFileSystem, path: str, inner: WritableFile):
        self._fs = fs
        self._path = path
        self._inner = inner

    @property
    def size(self) -> int:
        return self._inner.size

    def write(self, data: bytes | bytearray | memoryview) -> None:
        try:
            self._fs.check("write", self._path)
        except DiskError:
            self._inner.write(memoryview(data).cast("B")[: memoryview(data).nbytes // 2])
            raise
        self._inner.write(data)

    def sync(self) -> None:
        self._fs.check("sync", self._path)
        self._inner.sync()

    def close(self) -> None:
        self._inner.close()
