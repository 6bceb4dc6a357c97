"""Directories of backups on a disk, or on any other file system that Arrow can write to.

    saved, /mnt/saved                       a local directory; writes are synced
    s3://bucket/saved?region=eu-north-1     pyarrow.fs: S3 and what speaks its protocol, GCS, HDFS
    abfs://..., sftp://...                  fsspec, if it is installed

Paths of a place are relative to it, with "/" between folders. A place is sent to other processes with their tasks.
"""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, Final

import pyarrow as pa
from pyarrow import fs

from ..errors import InterfaceError, StoreLocked
from ..model.disk_errors import disk_error
from ..model.lazy_dataclass import dataclass
from ..storage.files.io_limit import spend
from ..storage.files.os_filesystem import OsFileSystem
from .durable_files import durable_file, sync_directory

LOCK: Final = "lock"
CLAIM: Final = "claim-"
_READ_BYTES: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class Place:
    """A directory of backups.

    Attributes
    ----------
    filesystem : pyarrow.fs.FileSystem
    root : str
        The directory's path in it.
    name : str
        The directory as messages name it.
    """

    filesystem: fs.FileSystem
    root: str
    name: str

    @classmethod
    def of(cls, destination: str | Path) -> Place:
        """The place of a path or URL.

        Raises
        ------
        InterfaceError
            The URL is of an unknown file system, or wrong.
        """
        text = str(destination)
        if "://" not in text:
            path = str(Path(text).expanduser().absolute())
            return cls(fs.LocalFileSystem(), path, path)
        try:
            filesystem, path = fs.FileSystem.from_uri(text)
        except pa.ArrowInvalid as error:
            filesystem, path = _of_fsspec(text, error)
        except (pa.ArrowException, OSError) as error:
            raise InterfaceError(f"{text}: {error}") from None
        return cls(filesystem, path.rstrip("/"), text)

    @property
    def is_local(self) -> bool:
        """True for a directory of this machine, where files are synced and locks hold."""
        return isinstance(self.filesystem, fs.LocalFileSystem)

    def path(self, relative: str) -> str:
        """The path of a file, as messages name it."""
        return f"{self.root}/{relative}" if self.is_local else f"{self.name.partition('?')[0].rstrip('/')}/{relative}"

    def exists(self, relative: str = "") -> bool:
        """True if there is such a file or directory."""
        with self._errors("look for", relative):
            found: bool = self._info(relative).type != fs.FileType.NotFound
            return found

    def make(self, relative: str = "") -> None:
        """Creates a directory and those above it; nothing if it exists."""
        with self._errors("create", relative):
            self.filesystem.create_dir(self._at(relative), recursive=True)

    def names(self, relative: str = "") -> list[str]:
        """The names in a directory, in order; empty if it does not exist."""
        with self._errors("list", relative):
            found = self.filesystem.get_file_info(fs.FileSelector(self._at(relative), allow_not_found=True))
            return sorted(info.base_name for info in found)

    def size(self, relative: str) -> int:
        """The size of a file in bytes. Raises `FileNotFoundError`."""
        info = self._info(relative)
        if info.type == fs.FileType.NotFound:
            raise FileNotFoundError(self.path(relative))
        size: int = info.size
        return size

    def digest(self, relative: str) -> str:
        """The SHA-256 of a file, in hexadecimal. Raises `OSError`."""
        found = hashlib.sha256()
        with self.filesystem.open_input_stream(self._at(relative), compression=None) as file:
            while piece := file.read(_READ_BYTES):
                found.update(piece)
                spend(read=len(piece))
        return found.hexdigest()

    def read(self, relative: str) -> bytes:
        """The content of a file. Raises `DiskError`."""
        with self._errors("read", relative), self.open(relative) as file:
            content: bytes = file.read()
            return content

    def open(self, relative: str) -> pa.NativeFile:
        """A file for reading at any position. Raises `OSError`."""
        return self.filesystem.open_input_file(self._at(relative))

    @contextmanager
    def create(self, relative: str) -> Iterator[BinaryIO | pa.NativeFile]:
        """A new file for writing: at the end of the block it is complete and durable; after an error there is none.
        Raises `DiskError`."""
        path = self._at(relative)
        with self._errors("write", relative):
            self.filesystem.create_dir(path.rpartition("/")[0], recursive=True)
            if self.is_local:
                with durable_file(Path(path)) as file:
                    yield file
                return
            with self.filesystem.open_output_stream(f"{path}.tmp", compression=None) as stream:
                yield stream
            self.filesystem.move(f"{path}.tmp", path)

    def write(self, relative: str, content: bytes) -> None:
        """Writes a file atomically and durably: after a failure it is complete or absent. Raises `DiskError`."""
        with self.create(relative) as file:
            file.write(content)

    def delete(self, relative: str) -> None:
        """Deletes a directory and all in it. Raises `DiskError`."""
        with self._errors("delete", relative):
            self.filesystem.delete_dir(self._at(relative))

    def sync(self, relative: str = "") -> None:
        """Makes the entries of a directory durable."""
        if self.is_local:
            with self._errors("sync", relative):
                sync_directory(Path(self._at(relative)))

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Holds the lock of a local directory. Raises `StoreLocked` if another process does. Other file systems have no
        locks: see `claim`."""
        if not self.is_local:
            yield
            return
        try:
            lock = OsFileSystem().lock(f"{self.root}/{LOCK}")
        except StoreLocked:
            raise self._taken() from None
        try:
            yield
        finally:
            lock.release()

    def claim(self, relative: str) -> None:
        """Claims a new folder where there are no locks: each writer leaves a name of its own in it, then looks for
        others. Two writers may both be refused, but never both accepted. Raises `StoreLocked`."""
        self.make(relative)
        if self.is_local:
            return
        claim = f"{CLAIM}{uuid.uuid4().hex}"
        self.write(f"{relative}/{claim}", b"")
        if [name for name in self.names(relative) if name.startswith(CLAIM) and name != claim]:
            with self._errors("delete", relative):
                self.filesystem.delete_file(self._at(f"{relative}/{claim}"))
            raise self._taken()

    def _taken(self) -> StoreLocked:
        return StoreLocked(f"another backup is being written into {self.name}; wait until it has ended")

    def _at(self, relative: str) -> str:
        return f"{self.root}/{relative}".rstrip("/")

    def _info(self, relative: str) -> fs.FileInfo:
        return self.filesystem.get_file_info(self._at(relative))

    @contextmanager
    def _errors(self, verb: str, relative: str) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise disk_error(f"cannot {verb} {self.path(relative) if relative else self.name}", error) from error


def _of_fsspec(url: str, unknown: pa.ArrowInvalid) -> tuple[fs.FileSystem, str]:
    try:
        from fsspec.core import url_to_fs
    except ImportError:
        raise InterfaceError(f"{url}: {unknown}; other file systems need fsspec: pip install fsspec") from None
    try:
        found: tuple[Any, str] = url_to_fs(url)
    except (ValueError, ImportError, OSError) as error:
        raise InterfaceError(f"{url}: {error}") from None
    return fs.PyFileSystem(fs.FSSpecHandler(found[0])), found[1]
