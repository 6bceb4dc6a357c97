"""One key at a time: what `Keys` computes for whole columns, in plain Python integers and bytes.

| | of many keys | of one | |
|---|---|---|---|
| index key | `memrowset.index_keys` | `KeyCodec.index_key` | packed integer (at most 8 bytes), else encoded bytes |
| encoded | `Keys.encoded` | `KeyCodec.encode` | bytes that compare as keys do |
| hash | `Keys.hashes` | `KeyCodec.hash` | Bloom filters |
| hash of 32 bits | `Keys.hashes_32` | `KeyCodec.hash_32` | buckets, places of keys |

Numpy and Arrow cost microseconds per call, whatever the number of rows: for one row that is nearly all they cost. A
codec is made once per list of types, so that a key costs one to three microseconds. Both forms are proven equal by
tests.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from ..types import DataType
from .hashing import hash64_text_one, hash64_word, murmur3_32
from .key_encoding import END, key_width

_PACKED_BYTES = 8


class KeyCodec:
    """Encodes and hashes single keys of some types. Immutable.

    Keys are sequences of physical values that were held against their types: a value beyond its type's range gives
    wrong bytes instead of an error (`model.keys.key_encoding.encode_key` checks).

    Examples
    --------
    >>> from nyala.model.types import INT, STRING
    >>> codec = KeyCodec((INT, STRING))
    >>> codec.encode((1, "a")).hex(" "), KeyCodec((INT,)).index_key((1,)) == 1 + 2**31
    ('80 00 00 01 61', True)
    """

    __slots__ = ("_bias", "_bits", "_is_text", "_is_wide", "_last", "_widths", "types", "width")

    def __init__(self, types: tuple[DataType, ...]):
        self.types = types
        widths = [key_width(t) for t in types]
        self.width: int | None = None
        """Bytes of every encoded key; None where a column has no fixed width."""
        self._widths = tuple(widths)
        self._is_text = tuple(t.is_text for t in types)
        self._is_wide = tuple(w == 16 for w in widths)
        self._last = len(types) - 1
        self._bits: tuple[int, ...] = ()
        self._bias = 0
        if None not in widths:
            fixed = [w for w in widths if w is not None]
            self.width = sum(fixed)
            self._bits = tuple(8 * w for w in fixed)
            for bits in self._bits:
                # Flipping the sign bit of a column is adding half of its range.
                self._bias = (self._bias << bits) + (1 << (bits - 1))

    def encode(self, values: Sequence[Any]) -> bytes:
        """The encoded key: `model.keys.key_encoding.encode_key`."""
        width = self.width
        if width is None:
            return self._encode_texts(values)
        return self._packed(values).to_bytes(width, "big")

    def index_key(self, values: Sequence[Any]) -> int | bytes:
        """A hashable object that is equal where keys are: as `memrowset.index_keys` gives."""
        width = self.width
        if width is None:
            return self._encode_texts(values)
        packed = self._packed(values)
        return packed if width <= _PACKED_BYTES else packed.to_bytes(width, "big")

    @property
    def is_packed(self) -> bool:
        """True if index keys are integers."""
        return self.width is not None and self.width <= _PACKED_BYTES

    def encoded_of(self, index_key: int | bytes) -> bytes:
        """The encoded key of an index key."""
        if isinstance(index_key, bytes):
            return index_key
        assert self.width is not None
        return index_key.to_bytes(self.width, "big")

    def index_bound(self, encoded: bytes) -> int | bytes:
        """The least index key at or above encoded bytes of any length, such as the first values of a key."""
        if self.width is None or self.width > _PACKED_BYTES:
            return encoded
        number = int.from_bytes(encoded[: self.width].ljust(self.width, b"\0"), "big")
        return number + (len(encoded) > self.width)

    def hash_32(self, index_key: int | bytes) -> int:
        """The 32-bit hash of an index key: `Keys.hashes_32`."""
        return murmur3_32(index_key if type(index_key) is bytes else self.encoded_of(index_key))

    def hash(self, values: Sequence[Any]) -> int:
        """The 64-bit hash of the key: `Keys.hashes`."""
        hash_ = 0
        for value, is_text, is_wide in zip(values, self._is_text, self._is_wide):
            if is_text:
                data = value.encode() if isinstance(value, str) else value
                hash_ = hash64_word(hash_, hash64_text_one(data))
            elif is_wide:
                hash_ = hash64_word(hash64_word(hash_, value >> 64), value)
            else:
                hash_ = hash64_word(hash_, value)
        return hash_

    def _packed(self, values: Sequence[Any]) -> int:
        if len(values) == 1:
            only: int = values[0] + self._bias
            return only
        if len(values) == 2:
            first, second = values
            packed: int = (first << self._bits[1]) + second + self._bias
            return packed
        number = 0
        for value, bits in zip(values, self._bits):
            number = (number << bits) + value
        return number + self._bias

    def _encode_texts(self, values: Sequence[Any]) -> bytes:
        if not self._last:
            return values[0].encode() if isinstance(values[0], str) else values[0]
        parts = []
        for place, (value, width) in enumerate(zip(values, self._widths)):
            if width is not None:
                parts.append((value + (1 << (8 * width - 1))).to_bytes(width, "big"))
                continue
            data = value.encode() if isinstance(value, str) else value
            parts.append(data if place == self._last else data.replace(b"\0", b"\0\1") + END)
        return b"".join(parts)


@lru_cache(256)
def codec_of(types: tuple[DataType, ...]) -> KeyCodec:
    """The codec of some types, made once."""
    return KeyCodec(types)
