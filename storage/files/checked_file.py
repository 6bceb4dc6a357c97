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

import msgpack

from ...errors import CorruptionError, UnsupportedFormat
from .filesystem import FileSystem

_HEADER = struct.Struct("<8sIIQ")
TEMPORARY_SUFFIX = ".tmp"
"""Of replacements not yet renamed; a crash may leave one, recovery removes it."""


def replace_checked(fs: FileSystem, path: str, magic: bytes, version: int, content: Any) -> None:
    """Write `content` (plain data) durably in place of the file at `path`.

    Raises `DiskError`. The old file may then be there still, or the new one: a crash decides.
    """
    payload = _pack(content)
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
    """The content of a file; `CorruptionError` or `UnsupportedFormat` where it cannot be trusted."""
    file = fs.open(path)
    try:
        data = file.read_at(0, file.size)
    finally:
        file.close()
    if len(data) < _HEADER.size:
        raise CorruptionError(f"{len(data)} bytes are too few for a header", path, "header")
    found, version, checksum, length = _HEADER.unpack_from(data)
    if found != magic:
        raise CorruptionError(f"expected {magic!r}, found {found!r}", path, "header at offset 0")
    payload = data[_HEADER.size :]
    if length != len(payload):
        raise CorruptionError(f"expected {length} bytes, found {len(payload)}", path, "payload at offset 24")
    if checksum != _checksum(magic, version, payload):
        raise CorruptionError("the checksum does not match", path, "payload at offset 24")
    if version > newest_version:
        raise UnsupportedFormat(f"{path} has format version {version}; this nyala reads up to {newest_version}")
    return _unpack(payload)


def _checksum(magic: bytes, version: int, payload: bytes) -> int:
    return zlib.crc32(payload, zlib.crc32(_HEADER.pack(magic, version, 0, len(payload))))


_BIG_INTEGER = 1
"""The msgpack extension type of integers beyond 64 bits (values of wide decimals), as two's complement bytes."""


def _pack(content: Any) -> bytes:
    return bytes(msgpack.packb(_widened(content), use_bin_type=True))


def _widened(content: Any) -> Any:
    if isinstance(content, int) and not -(2**63) <= content < 2**64:
        return msgpack.ExtType(_BIG_INTEGER, content.to_bytes(content.bit_length() // 8 + 1, "little", signed=True))
    if isinstance(content, dict):
        return {key: _widened(value) for key, value in content.items()}
    if isinstance(content, (list, tuple)):
        return [_widened(value) for value in content]
    return content


def _unpack(payload: bytes) -> Any:
    return msgpack.unpackb(payload, raw=False, strict_map_key=False, ext_hook=_extension)


def _extension(code: int, data: bytes) -> Any:
    if code != _BIG_INTEGER:
        raise UnsupportedFormat(f"unknown msgpack extension {code}")
    return int.from_bytes(data, "little", signed=True)
