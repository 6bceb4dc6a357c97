"""The real file system behind the `FileSystem` door: POSIX calls, errors of the system as `DiskError`.

What makes a new file durable is three steps, and callers take them in this order: `WritableFile.sync` for its bytes,
`rename` where it replaces another one, `sync_directory` for its name.
"""

# Paths are plain strings: this is where they become system calls.
# ruff: noqa: PTH103, PTH105, PTH108, PTH116, PTH120, PTH208

from __future__ import annotations

import errno
import fcntl
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from time import perf_counter

from ...errors import FileAccessError, StoreLocked
from ...model.disk_errors import disk_error
from ...model.forks import parent_process, stay_with_process
from .disk_counters import DISK
from .filesystem import Lock, ReadableFile, WritableFile

_CGROUP_LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")
_NO_LINK = (errno.EXDEV, errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK)
_WRITE_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC


@contextmanager
def _disk_errors(action: str, path: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise disk_error(f"cannot {action} {path}", error) from error


class OsFileSystem:
    """Files of the operating system. Has no state of its own; safe for several threads."""

    def create(self, path: str) -> WritableFile:
        """A new file (an old one of that name is gone)."""
        return _OsWritable(path, os.O_TRUNC)

    def append(self, path: str) -> WritableFile:
        """An existing file, to write behind its end."""
        with _disk_errors("open", path):
            os.stat(path)
        return _OsWritable(path, os.O_APPEND)

    def open(self, path: str) -> ReadableFile:
        """An existing file, to read."""
        return _OsReadable(path)

    def exists(self, path: str) -> bool:
        """True if there is a file or directory of this name."""
        return os.path.lexists(path)

    def list(self, path: str) -> list[str]:
        """Names in a directory, ascending."""
        with _disk_errors("list", path):
            return sorted(os.listdir(path))

    def make_directory(self, path: str) -> None:
        """Create a directory and those above it; fine if it is there."""
        with _disk_errors("create directory", path):
            os.makedirs(path, exist_ok=True)

    def rename(self, old: str, new: str) -> None:
        """Atomically, replacing `new`."""
        with _disk_errors(f"rename {old} to", new):
            os.replace(old, new)

    def link(self, old: str, new: str) -> bool:
        """Give a file a second name; False on another file system, or on one without hard links."""
        with _disk_errors(f"link {old} to", new):
            try:
                os.link(old, new)
            except OSError as error:
                if error.errno in _NO_LINK:
                    return False
                raise
        return True

    def remove(self, path: str) -> None:
        """Remove a file."""
        with _disk_errors("remove", path):
            os.unlink(path)

    def remove_tree(self, path: str) -> None:
        """Remove a directory and all that is in it; fine if it is not there."""
        with _disk_errors("remove", path), suppress(FileNotFoundError):
            shutil.rmtree(path)

    def truncate(self, path: str, size: int) -> None:
        """Cut a file to `size` bytes; durable on return."""
        with _disk_errors("truncate", path):
            descriptor = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
            try:
                os.ftruncate(descriptor, size)
                os.fsync(descriptor)
            finally:
                os.close(descriptor)

    def sync_directory(self, path: str) -> None:
        """Make the names in a directory durable."""
        with _disk_errors("sync directory", path):
            descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)

    def lock(self, path: str, shared: bool = False) -> Lock:
        """Take a lock on a file, exclusive (created if need be) or shared (left as it is); `StoreLocked` names the
        process that holds it."""
        return _OsLock(path, shared)


def machine_memory() -> int:
    """Bytes of memory that this process may use: the machine's, or what its container (cgroup) is given of it."""
    limits = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")]
    for path in _CGROUP_LIMITS:
        with suppress(OSError, ValueError):  # none, or "max"
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            try:
                limits.append(int(os.read(descriptor, 32)))
            finally:
                os.close(descriptor)
    return min(limits)


class _OpenFile:
    """A file descriptor, its file's path for errors, and its size."""

    def __init__(self, verb: str, path: str, flags: int):
        self._path = path
        self._descriptor = -1
        with _disk_errors(verb, path):
            self._descriptor = os.open(path, flags, 0o644)
            self._size = os.fstat(self._descriptor).st_size
        stay_with_process(self)

    @property
    def size(self) -> int:
        return self._size

    def close(self) -> None:
        # The descriptor may be reused for another file: -1 always fails.
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)

    _abandon = close

    def __del__(self) -> None:
        self.close()


class _OsWritable(_OpenFile):
    """Unbuffered: what `write` took is with the system and survives the process, though not a power failure."""

    def __init__(self, path: str, flags: int):
        super().__init__("create", path, _WRITE_FLAGS | flags)

    def write(self, data: bytes | bytearray | memoryview) -> None:
        # Without `_disk_errors`, which takes longer than the write of one row.
        try:
            written = os.write(self._descriptor, data)
            self._size += written
            DISK.written_bytes += written
            if written < len(data) or not isinstance(data, bytes):
                view = memoryview(data).cast("B")[written:]
                while view.nbytes:
                    written = os.write(self._descriptor, view)
                    self._size += written
                    DISK.written_bytes += written
                    view = view[written:]
        except OSError as error:
            raise disk_error(f"cannot write {self._path}", error) from error

    def sync(self) -> None:
        if self._descriptor < 0:  # fsync calls that a ValueError
            raise FileAccessError(f"cannot sync {self._path}: Bad file descriptor", errno.EBADF)
        began = perf_counter()
        try:  # as in `write`
            os.fsync(self._descriptor)
            DISK.fsync.observe(perf_counter() - began)
        except OSError as error:
            raise disk_error(f"cannot sync {self._path}", error) from error


class _OsReadable(_OpenFile):
    """Positional reads on one descriptor, so that threads share it."""

    def __init__(self, path: str):
        super().__init__("open", path, os.O_RDONLY | os.O_CLOEXEC)

    def read_at(self, offset: int, length: int) -> bytes:
        with _disk_errors("read", self._path):
            data = os.pread(self._descriptor, length, offset)
            while len(data) < length:
                more = os.pread(self._descriptor, length - len(data), offset + len(data))
                if not more:
                    break
                data += more
        return data


class _OsLock:
    """flock(2): held by the open file, so it ends with the process and refuses a second opener in the same one too."""

    def __init__(self, path: str, shared: bool = False):
        self._descriptor = -1
        access, mode = (os.O_RDONLY, fcntl.LOCK_SH) if shared else (os.O_RDWR | os.O_CREAT, fcntl.LOCK_EX)
        with _disk_errors("lock", path):
            self._descriptor = os.open(path, access | os.O_CLOEXEC, 0o644)
            try:
                fcntl.flock(self._descriptor, mode | fcntl.LOCK_NB)
            except BlockingIOError:
                holder = os.pread(self._descriptor, 32, 0).decode("ascii", "replace").strip()
                self._abandon()
                raise StoreLocked(_locked_message(path, holder)) from None
            except OSError:
                self._abandon()
                raise
            if not shared:
                os.ftruncate(self._descriptor, 0)
                os.pwrite(self._descriptor, f"{os.getpid()}\n".encode(), 0)
        stay_with_process(self)

    def release(self) -> None:
        """Release the lock. The file stays: removing it would let two openers lock two files of one name."""
        if self._descriptor >= 0:
            # The lock is the open file's, of which a child has a copy where it was forked past Python.
            with suppress(OSError):
                fcntl.flock(self._descriptor, fcntl.LOCK_UN)
        self._abandon()

    def __del__(self) -> None:
        self.release()

    def _abandon(self) -> None:
        # In a child without unlocking: that would unlock the parent's. The parent's end then releases the lock.
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)


def _locked_message(path: str, holder: str) -> str:
    if holder == str(os.getpid()):
        who = f"this process (pid {holder}) already"
    elif holder == str(parent_process()):
        who = f"process {holder}, from which this one was forked"
    else:
        who = f"process {holder or 'unknown'}"
    return f"{os.path.dirname(path) or '.'} is open in {who}; a store has one opener at a time ({path} is locked)"
