"""Records of this package in checked files (`storage.files.checked_file`)."""

from __future__ import annotations

from typing import TypeVar

import msgspec
from msgspec import Struct

from ...errors import CorruptionError
from ...storage.files.checked_file import read_checked
from ...storage.files.filesystem import FileSystem

S = TypeVar("S", bound=Struct)


def read_struct(fs: FileSystem, path: str, magic: bytes, newest_version: int, kind: type[S]) -> S:
    """The record in a file; `CorruptionError` where it is damaged or none of the kind, `DiskError` where there is no
    file."""
    content = read_checked(fs, path, magic, newest_version)
    try:
        return msgspec.convert(content, kind)
    except msgspec.ValidationError as error:
        raise CorruptionError(str(error), path, "payload at offset 24") from error
