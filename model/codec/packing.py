"""Plain data as bytes of msgpack, and back: in files, in log entries and in scan tokens.

Messages between processes are structs of msgspec; their values are packed in the same form (`model.codec.values`).
"""

from __future__ import annotations

from typing import Any

import msgspec

from ...errors import ProtocolError, UnsupportedFormat
from .values import value_from_extension, value_to_plain


def pack(content: Any) -> bytes:
    """Maps, lists and physical values as bytes; `InternalError` if `content` holds anything else."""
    try:
        return _encode(content)
    except OverflowError:  # an integer beyond 64 bits; to search for one first would cost more than to encode
        return _encode(value_to_plain(content))


def unpack(data: bytes | memoryview) -> Any:
    """The content of `pack`; tuples come out as lists.

    Raises `ValueError` if the bytes are damaged, `UnsupportedFormat` if they hold an extension of a later version.
    """
    try:
        return _decode(data)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error


def _extension(code: int, data: memoryview) -> Any:
    try:
        return value_from_extension(code, bytes(data))
    except ProtocolError as error:
        raise UnsupportedFormat(f"msgpack with {error}") from None


_encode = msgspec.msgpack.Encoder(enc_hook=value_to_plain).encode
_decode = msgspec.msgpack.Decoder(ext_hook=_extension).decode
