"""Records of this package in checked files (`storage.files.checked_file`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import msgspec
from msgspec import Struct

from ...errors import CorruptionError
from ...storage.files.checked_file import read_checked
from ...storage.files.filesystem import FileSystem

S = TypeVar("S", bound=Struct)


def read_struct(fs: FileSystem, path: str, magic: bytes, newest_version: int, convert: Callable[[Any], S]) -> S:
    """Return the record in a file, as `convert` (of `decoders.converter`) reads it.

    Raises `CorruptionError` where the file is damaged or none of the kind, `DiskError` where there is no file.
    """
    content = read_checked(fs, path, magic, newest_version)
    try:
        return convert(content)
    except msgspec.ValidationError as error:
        raise CorruptionError(str(error), path, "payload at offset 24") from error
