"""Files of a local disk that are complete and durable, or absent."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO


@contextmanager
def durable_file(path: Path) -> Iterator[BinaryIO]:
    """A new file for writing: at the end of the block it is complete and durable; after an error it is absent."""
    temporary = path.with_name(f"{path.name}.tmp")
    with temporary.open("wb") as file:
        yield file
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)
    sync_directory(path.parent)


def write_durably(path: Path, data: bytes) -> None:
    """Writes a file atomically and durably: after a failure it is complete or absent."""
    with durable_file(path) as file:
        file.write(data)


def sync_directory(path: Path) -> None:
    """Makes the directory's entries durable."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def digest(path: Path) -> str:
    """The SHA-256 of a file, in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
