"""Records of this package in checked files (`storage.files.checked_file`), each with the name of its tablet.

An intact file in another tablet's folder, after a restore that mixed up two, counts as damage: otherwise the term, vote
and results of another tablet would be used. Files of earlier versions have no name, and are accepted.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from msgspec import Struct, ValidationError

from ...errors import CorruptionError
from ...model.codec.packing import pack, unpack
from ...storage.files.checked_file import read_payload, replace_checked
from ...storage.files.filesystem import FileSystem

S = TypeVar("S", bound=Struct)
_OWNER = "of_tablet"
"""Field with the name of the tablet's folder, which is its id."""


def replace_struct(fs: FileSystem, path: str, magic: bytes, version: int, record: Struct) -> None:
    """Durably replaces the file at `path`, in a tablet's folder, by a record; raises as `replace_checked`."""
    replace_checked(fs, path, magic, version, {**unpack(pack(record)), _OWNER: _folder(path)})


def _folder(path: str) -> str:
    return path.rpartition("/")[0].rpartition("/")[2]


def read_struct(fs: FileSystem, path: str, magic: bytes, newest_version: int, decode: Callable[[bytes], S]) -> S:
    """Returns the record in a file, decoded by `decode` (of a `decoders.msgpack_decoder`).

    Raises `CorruptionError` if the file is damaged, of another kind or of another tablet, `DiskError` if it does not
    exist.
    """
    payload = read_payload(fs, path, magic, newest_version)
    content = unpack(payload)
    owner = content.get(_OWNER, "") if isinstance(content, dict) else ""
    if owner and owner != _folder(path):
        message = f"belongs to tablet {owner}, expected {_folder(path)}: files were mixed up"
        raise CorruptionError(message, path, "tablet id")
    try:
        return decode(payload)
    except ValidationError as error:
        raise CorruptionError(str(error), path, "payload at offset 24") from error
