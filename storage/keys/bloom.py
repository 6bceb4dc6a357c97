"""The chunked Bloom filter of a DiskRowSet: one chunk per 131,072 keys, so that inserts whose keys are near each other
touch one chunk of 80 KiB only (Kudu paper, section 4.6: "Bloom filters are chunked").

A chunk is a *split block* filter (Putze, Sanders, Singler, "Cache-, hash- and space-efficient Bloom filters", 2007;
as in Parquet): a hash picks one block of 256 bits by its high half and sets one bit in each of the block's eight
words by its low half. Numpy builds and probes whole batches; a
`BloomProbe` of one key costs two microseconds once and half of one per chunk.

**File**, little-endian:

    0           16   header as in `column_file`, magic "NYALABLM"
    16          ...  chunks, back to back: blocks of 8 u32
    F           n    footer, msgpack: {"chunk_rows": 131072, "rows": r, "blocks": [per chunk], "crcs": [per chunk],
                         "file": `file_identity.identity_of` the file; not in old files}
    size - 12   12   tail as in `column_file`

Block of hash h: ((h >> 32) * blocks) >> 32. Bit in word i: ((h mod 2**32) * SALT[i] mod 2**32) >> 27.
"""

from __future__ import annotations

import logging
import threading
import zlib

import numpy as np

from ...errors import CorruptionError, DiskError, UnsupportedFormat
from ...model.codec.packing import pack, unpack
from ...model.lazy_dataclass import dataclass
from ...model.vectors.vector import Array
from ..columns.column_file import (
    HEADER,
    ROW_GROUP_ROWS,
    encode_header,
    encode_tail,
    read_footer,
)
from ..files.file_handles import FileHandles
from ..files.file_identity import check_identity, identity_of
from ..files.filesystem import FileSystem
from ..files.io_limit import counted_file
from ..files.page_cache import PageCache, new_owner

_log = logging.getLogger("nyala.storage")

MAGIC = b"NYALABLM"
BITS_PER_KEY = 10.5
"""Gives 1 % false positives; measured by a test."""
SALTS = (0x47B6137B, 0x44974D91, 0x8824AD5B, 0xA2B7289D, 0x705495C7, 0x2DF1424B, 0x9EFC4947, 0x5C6BFB31)
"""Odd multipliers, those of Parquet's filter."""
_SALTS = np.array(SALTS, np.uint32)
_ALL_SALTS = sum(salt << (64 * word) for word, salt in enumerate(SALTS))
_BLOCK_BYTES = 32


def build_chunk(hashes: Array) -> bytes:
    """The filter of some keys, from their hashes (ndarray of uint64): a multiple of 32 bytes."""
    blocks = max(1, -(-int(len(hashes) * BITS_PER_KEY) // (8 * _BLOCK_BYTES)))
    # One byte per bit while bits are set: numpy has no fast scattered OR, a scattered store is one.
    bits = np.zeros(blocks * 8 * _BLOCK_BYTES, np.bool_)
    first = _block(hashes, blocks) * (8 * _BLOCK_BYTES)
    low = hashes.astype(np.uint32)
    bit, place = np.empty_like(low), np.empty_like(first)
    for word, salt in enumerate(_SALTS):
        np.multiply(low, salt, out=bit)
        np.right_shift(bit, np.uint32(27), out=bit)
        np.add(first, bit, out=place)
        bits[32 * word :][place] = True
    return np.packbits(bits, bitorder="little").tobytes()


def probe_chunk(chunk: bytes, hashes: Array) -> Array:
    """False where a key is certainly not among the chunk's (ndarray of bool)."""
    words = np.frombuffer(chunk, "<u4")
    first = _block(hashes, len(words) // 8) * 8
    low = hashes.astype(np.uint32)
    passes = np.ones(len(hashes), np.bool_)
    for word, salt in enumerate(_SALTS):
        bit = low * salt >> np.uint32(27)
        passes &= (words.take(first + word) >> bit & np.uint32(1)).view(np.int32).astype(np.bool_)
    return passes


class BloomProbe:
    """One key's hash (`Keys.hashes`, `KeyCodec.hash`), ready to be held against any number of chunks."""

    __slots__ = ("_high", "_mask")

    def __init__(self, hash_: int):
        self._high = hash_ >> 32  # chooses the block
        # One product has all eight, each in 64 bits of its own; the bit is chosen by the top of its low half.
        a, b, c, d, e, f, g, h = ((hash_ & 0xFFFFFFFF) * _ALL_SALTS).to_bytes(64, "little")[3::8]
        # The bits that must be set in the block, read as a little-endian integer.
        self._mask = (
            1 << (a >> 3)
            | 1 << (b >> 3) + 32
            | 1 << (c >> 3) + 64
            | 1 << (d >> 3) + 96
            | 1 << (e >> 3) + 128
            | 1 << (f >> 3) + 160
            | 1 << (g >> 3) + 192
            | 1 << (h >> 3) + 224
        )

    def passes(self, chunk: bytes) -> bool:
        """`probe_chunk` for this key, without numpy's fixed cost per call."""
        start = (self._high * (len(chunk) >> 5) >> 32) << 5
        mask = self._mask
        return int.from_bytes(chunk[start : start + 32], "little") & mask == mask


def _block(hashes: Array, blocks: int) -> Array:
    return ((hashes >> np.uint64(32)) * np.uint64(blocks) >> np.uint64(32)).view(np.int64)


def write_bloom(fs: FileSystem, path: str, hashes: Array, place: str = "") -> int:
    """Write the filter of a rowset's keys in row order and make it durable; its size in bytes.

    `place` is the path that the file will have, where that is another than `path`.
    """
    file = counted_file(fs.create(path))
    try:
        file.write(encode_header(MAGIC))
        chunks = [build_chunk(hashes[i : i + ROW_GROUP_ROWS]) for i in range(0, len(hashes), ROW_GROUP_ROWS)]
        for chunk in chunks:
            file.write(chunk)
        footer = pack(
            {
                "chunk_rows": ROW_GROUP_ROWS,
                "rows": len(hashes),
                "blocks": [len(c) // _BLOCK_BYTES for c in chunks],
                "crcs": [zlib.crc32(c) for c in chunks],
                "file": identity_of(place or path),
            }
        )
        file.write(footer)
        file.write(encode_tail(footer))
        file.sync()
        return file.size
    finally:
        file.close()


@dataclass(frozen=True, slots=True)
class _Index:
    offsets: list[int]
    sizes: list[int]
    crcs: list[int]


_PASSES_ALL = b"\xff" * _BLOCK_BYTES
"""A chunk that rules no key out."""


class BloomReader:
    """The filter of one DiskRowSet; reads chunks through the page cache. Safe for several threads.

    A filter only saves work: where its file is missing, damaged or of a newer version, every key passes, so that
    look-ups stay right and are slower until the filter is made anew from the keys (`maintenance.derived_files`).
    """

    def __init__(self, handles: FileHandles, path: str, rows: int, cache: PageCache):
        self.path = path
        self._handles = handles
        self._rows = rows
        self._cache = cache
        self._owner = new_owner()
        self._lock = threading.Lock()
        self._index: _Index | None = None
        self.damage = ""
        """Reason why the file cannot be used; "" if it can."""

    def chunk(self, number: int) -> bytes:
        """One chunk, checked; one that every key passes where the file cannot be used."""
        cached: bytes | None = self._cache.get(self._owner, number)
        if cached is None:
            if self.damage:
                return _PASSES_ALL
            try:
                cached = self.read_chunk(number)
            except (CorruptionError, UnsupportedFormat, DiskError) as error:
                self.note_damage(str(error))
                return _PASSES_ALL
            self._cache.put(self._owner, number, cached, len(cached))
        return cached

    def note_damage(self, reason: str) -> None:
        """The file cannot be used."""
        if not self.damage:
            self.damage = reason
            _log.warning("a Bloom filter cannot be used and is rebuilt, look-ups are slower until then: %s", reason)

    def reopen(self) -> None:
        """Go on with the file that has taken the place of the damaged one."""
        self.close()
        with self._lock:
            self._index = None
            self.damage = ""

    def check(self) -> None:
        """Read all there is; `CorruptionError` where anything is damaged."""
        for number in range(len(self._open().sizes)):
            self.read_chunk(number)

    def close(self) -> None:
        """Release the chunks in the cache and close the file."""
        self._cache.forget(self._owner)
        self._handles.forget(self.path)

    def read_chunk(self, number: int) -> bytes:
        """One chunk from the file. `CorruptionError` names file, chunk and offset where it is damaged."""
        index = self._open()
        offset, size = index.offsets[number], index.sizes[number]
        data = self._handles.read_at(self.path, offset, size)
        if len(data) < size or zlib.crc32(data) != index.crcs[number]:
            raise CorruptionError("the checksum is wrong", self.path, f"chunk {number} at offset {offset}")
        return data

    def _open(self) -> _Index:
        if self._index is None:
            with self._lock:
                if self._index is None:
                    self._index = self._read_index()
        return self._index

    def _read_index(self) -> _Index:
        fields = unpack(read_footer(self._handles, self.path, MAGIC))
        check_identity(fields.get("file", ""), self.path, "footer")
        if fields["rows"] != self._rows or fields["chunk_rows"] != ROW_GROUP_ROWS:
            raise CorruptionError(f"is about {fields['rows']} rows, {self._rows} expected", self.path, "footer")
        sizes = [blocks * _BLOCK_BYTES for blocks in fields["blocks"]]
        offsets = (HEADER.size + np.cumsum([0, *sizes])).tolist()
        return _Index(offsets, sizes, fields["crcs"])
