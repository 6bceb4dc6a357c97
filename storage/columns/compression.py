"""Compression of pages. The numbers stand in page records; `column_file` draws them.

Codecs release the GIL. LZ4 and Zstandard are Arrow's, which unpack into aligned memory without a further copy; gzip
and bzip2 are Python's, since Arrow's gzip codec keeps state that threads must not share, and its bzip2 has no
one-shot form. Measured on pages of TPC-H comments, one core, plain bytes per second:

    codec                LZ4        ZSTD (level 1)   GZIP       BZ2        for comparison: Snappy
    unpacks              2.7 GB/s   1.0 GB/s         0.26 GB/s  0.02 GB/s  1.0 GB/s
    size                 50 %       35 %             25 %       25 %       47 %
"""

from __future__ import annotations

import bz2
import zlib
from typing import Any

import pyarrow as pa

from ...model.schema import Compression

UNCOMPRESSED, LZ4, ZSTD, GZIP, BZ2 = range(5)
WORTH_COMPRESSING = 0.9
"""AUTO keeps a compressed page only below this share of the plain one: a page that hardly shrinks would cost more to
unpack than it saves to read."""
_NUMBERS = {
    Compression.AUTO: LZ4,
    Compression.LZ4: LZ4,
    Compression.ZSTD: ZSTD,
    Compression.GZIP: GZIP,
    Compression.BZ2: BZ2,
}
_ARROW: dict[int, Any] = {LZ4: pa.Codec("lz4_raw"), ZSTD: pa.Codec("zstd", compression_level=1)}
"""Both are stateless: one object serves all threads."""
_GZIP_FORMAT = 31
"""zlib's `wbits` for a gzip member with the largest window."""


def compress(page: bytes, compression: Compression, limit: float | None = None) -> tuple[bytes, int]:
    """A page as it is stored, and the number of how: `UNCOMPRESSED` where it would not become smaller.

    Parameters
    ----------
    compression : Compression
        AUTO means LZ4.
    limit : float, optional
        A compressed page must stay below this share of the plain one; by default `WORTH_COMPRESSING` for AUTO, else 1.
    """
    if compression is Compression.NONE or not page:
        return page, UNCOMPRESSED
    number = _NUMBERS[compression]
    if limit is None:
        limit = WORTH_COMPRESSING if compression is Compression.AUTO else 1.0
    packed = _packed(page, number)
    return (packed, number) if len(packed) < limit * len(page) else (page, UNCOMPRESSED)


def decompress(stored: bytes, raw: int, number: int) -> pa.Buffer:
    """The inverse of `compress`: a buffer of `raw` bytes. `ValueError` or `OSError` where the bytes do not unpack.

    Arrow's LZ4 does not say when it fills less than `raw` bytes: `raw` must come from under a checksum.
    """
    if number == UNCOMPRESSED:
        buffer = pa.py_buffer(stored)
    elif number in _ARROW:
        buffer = _ARROW[number].decompress(stored, raw)
    elif number == GZIP:
        buffer = pa.py_buffer(_gunzipped(stored, raw))
    elif number == BZ2:
        buffer = pa.py_buffer(bz2.decompress(stored))
    else:
        raise ValueError(f"compression {number} is unknown")
    if buffer.size != raw:
        raise ValueError(f"{buffer.size} bytes instead of {raw}")
    return buffer


def _packed(page: bytes, number: int) -> bytes:
    if number in _ARROW:
        # A memoryview of a Buffer would have its size from before it was shrunk.
        return bytes(_ARROW[number].compress(page, asbytes=True))
    return zlib.compress(page, wbits=_GZIP_FORMAT) if number == GZIP else bz2.compress(page)


def _gunzipped(stored: bytes, raw: int) -> bytes:
    try:
        return zlib.decompress(stored, _GZIP_FORMAT, raw)
    except zlib.error as error:
        raise ValueError(str(error)) from error
