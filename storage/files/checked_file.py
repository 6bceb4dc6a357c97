"""Small files that are replaced as a whole: the catalog, tablet metadata, load records.

    offset  bytes
    0       8      magic, names the kind of file: b"nyalaCAT", b"nyalaTAB", b"nyalaLDR"
    8       4      format version, u32 little-endian
    12      4      CRC-32 of the magic, the version, the length and the payload, u32
    16      8      length of the payload, u64
    24      ...    payload, msgpack

A replacement is written to a temporary file and renamed over the old one: a reader, also after a crash, finds the whole
old file or the whole new one.
"""

from __future__ import annotations

import struct
import zlib
from typing import Any

from ...errors import CorruptionError, UnsupportedFormat
from ...model.codec.packing import pack, unpack
from .filesystem import FileSystem

_HEADER = struct.Struct("<8sIIQ")
TEMPORARY_SUFFIX = ".tmp"
"""Of replacements not yet renamed; a crash may leave one, recovery removes it."""


def replace_checked(fs: FileSystem, path: str, magic: bytes, version: int, content: Any) -> None:
    """Write `content` (plain data, or a struct of msgspec) durably in place of the file at `path`.

    Raises `DiskError`. The old file may then be there still, or the new one: a crash decides.
    """
    payload = pack(content)
    checksum = _checksum(magic, version, payload)
    temporary = path + TEMPORARY_SUFFIX
    file = fs.create(temporary)
    try:
        file.write(_HEADER.pack(magic, version, checksum, len(payload)) + payload)
        file.sync()
    finally:
        file.close()
    fs.rename(temporary, path)
    fs.sync_directory(path.rpartition("/")[0])


def read_checked(fs: FileSystem, path: str, magic: bytes, newest_version: int) -> Any:
    """Return the content of a file; `CorruptionError` or `UnsupportedFormat` if it cannot be trusted."""
    return unpack(read_payload(fs, path, magic, newest_version))


def read_payload(fs: FileSystem, path: str, magic: bytes, newest_version: int) -> bytes:
    """Return the payload of a file, as `read_checked` decodes it; raises the same."""
    file = fs.open(path)
    try:
        data = file.read_at(0, file.size)
    finally:
        file.close()
    if len(data) < _HEADER.size:
        raise CorruptionError(f"{len(data)} bytes are too few for a header", path, "header")
    magic_read, version, checksum, length = _HEADER.unpack_from(data)
    if magic_read != magic:
        raise CorruptionError(f"expected {magic!r}, found {magic_read!r}", path, "header at offset 0")
    payload = data[_HEADER.size :]
    if length != len(payload):
        raise CorruptionError(f"expected {length} bytes, found {len(payload)}", path, "payload at offset 24")
    if checksum != _checksum(magic, version, payload):
        raise CorruptionError("the checksum does not match", path, "payload at offset 24")
    if version > newest_version:
        raise UnsupportedFormat(f"{path} has format version {version}; this nyala reads up to {newest_version}")
    return payload


def _checksum(magic: bytes, version: int, payload: bytes) -> int:
    return zlib.crc32(payload, zlib.crc32(_HEADER.pack(magic, version, 0, len(payload))))
