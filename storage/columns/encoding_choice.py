"""AUTO: which encoding and compression a column gets, by encoding a sample of it in every form that may pay.

    integers   FRAME_OF_REFERENCE, whose pages are read as they lie; if clearly smaller, RLE where runs are long, and
               BIT_SHUFFLE where codes of one byte would be compressed anyway
    floats     PLAIN
    texts      DICT where few values differ, its codes as bits on the same terms; else PLAIN, or PREFIX where lengths,
               or shared bytes, make it smaller
    pages      LZ4 where it saves a tenth; of texts ZSTD, where it is clearly smaller still

Measured on TPC-H's lineitem, checksums included, one core: bytes and nanoseconds to read, both per row

    column            FRAME_OF_REFERENCE     BIT_SHUFFLE
    l_linenumber      0.50   1.2  (LZ4)      0.38   0.8
    l_discount        0.81   1.0  (LZ4)      0.50   1.0
    l_shipdate        2.01   0.7             1.51   3.0
    l_extendedprice   4.01   1.5             3.01   6.4

so that wide codes are never shuffled unasked. Who values space more can say so.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np
import pyarrow as pa

from ...model import arrow_functions as pc
from ...model.arrow_arrays import arrow_array, fill_nulls, numpy_array
from ...model.lazy_dataclass import dataclass
from ...model.schema import ColumnSchema, Compression, Encoding
from ...model.vectors.vector import Array
from .compression import WORTH_COMPRESSING, compress
from .encodings import EncodedPage, encode_dictionary_codes, encode_integers, encode_text_page, narrowest

PAGE_BYTES = 512 << 10
"""Aimed at for pages of texts: a point read unpacks one page, a scan should not pay per page."""
MOST_TEXT_ROWS = 16_384
"""Per page, for the same reason."""
SAMPLE_ROWS = 65_536
SAMPLE_SHARE = 0.5
"""A column whose sample has more distinct values than this share of it is not worth building a dictionary for."""
GLANCE_ROWS = 4_096
GLANCE_REPEATS = 0.02
"""Before that a few rows anywhere are looked at: 41,000 values or fewer, which is what a dictionary may have, would
repeat in 5 % of them."""
DICTIONARY_SHARE = 0.25
"""A dictionary must have at most this many entries per row ..."""
SMALL_DICTIONARY = 256
"""... or so few that codes take one byte ..."""
DICTIONARY_BYTES = 4 << 20
"""... and must stay this small: it is read as a whole, even for one row."""
SAMPLE_PAGES = 3
"""First, middle and last page are encoded on trial."""
TRIAL_ROWS = 4_096
"""Of a page of texts, which is tried in six forms: small flushes should not take several times as long."""
MUCH_LESS = 0.66
"""ZSTD pages must be below this share of the size of pages that LZ4 does not compress: a plain page costs nothing to
unpack, and the remaining gain is a narrow alphabet (base64 is reduced to 0.77, hexadecimal digits to 0.55)."""
LONG_RUN = 8
"""Rows per run from which RLE is tried: it decodes as fast as LZ4 from there on."""
CLEARLY_SMALLER = 0.8
"""RLE and bits must be below this share of plain codes, ZSTD of LZ4: ZSTD unpacks texts at 1 GB/s, as Snappy does,
where LZ4 makes 2.7 GB/s."""
SOMEWHAT_SMALLER = 0.95
"""Lengths instead of offsets cost 2 ns per row."""
MUCH_SMALLER = 0.6
"""Shared bytes are put back at 2 to 3 ns per byte, several times what LZ4 takes."""


@dataclass(frozen=True, slots=True)
class Choice:
    """Storage of pages. `compression` is never AUTO; a compressed page must be smaller than `limit` times the plain
    one. `share` False keeps the texts of PREFIX pages whole; `bits` True stores the codes of DICT pages as bit
    planes."""

    encoding: Encoding
    compression: Compression
    limit: float = 1.0
    share: bool = True
    bits: bool = False


def choose_numbers(column: ColumnSchema, values: Array, validity: Array | None, page_rows: int) -> Choice:
    """For integers, in the form that `encode_integers` takes them."""
    encoding = column.encoding
    if encoding is Encoding.AUTO:
        encoding = _integer_encoding(column, values, validity, page_rows)
    return with_compression(column, encoding)


def with_compression(column: ColumnSchema, encoding: Encoding) -> Choice:
    """An encoding that is settled, with the column's compression: LZ4 where it pays, if that is AUTO."""
    if column.compression is Compression.AUTO:
        return Choice(encoding, Compression.LZ4, WORTH_COMPRESSING)
    return Choice(encoding, column.compression)


def choose_texts(column: ColumnSchema, values: pa.Array, page_rows: int) -> Choice:
    """Choice for texts without a dictionary: the smallest of the possible forms, weighted by the cost of reading."""
    forms = {
        Encoding.PLAIN: ((Encoding.PLAIN, True, 1.0),),
        Encoding.PREFIX: ((Encoding.PREFIX, True, 1.0),),
    }.get(
        column.encoding,
        (
            (Encoding.PLAIN, False, 1.0),
            (Encoding.PREFIX, False, 1 / SOMEWHAT_SMALLER),
            (Encoding.PREFIX, True, 1 / MUCH_SMALLER),
        ),
    )
    settled = column.compression is not Compression.AUTO
    if settled and len(forms) == 1:
        return Choice(forms[0][0], column.compression)
    pages = [values.slice(start, min(page_rows, TRIAL_ROWS)) for start in _sample(len(values), page_rows)]
    trials = []
    for encoding, share, weight in forms:
        bodies = [encode_text_page(page, encoding, share).body for page in pages]
        choice, size = _compressed(column, encoding, bodies, share)
        trials.append((size * weight, choice))
    return min(trials, key=lambda trial: trial[0])[1]


def _compressed(column: ColumnSchema, encoding: Encoding, bodies: list[bytes], share: bool) -> tuple[Choice, int]:
    """The compression of pages of text, and how many bytes these take with it."""
    if column.compression is not Compression.AUTO:
        choice = Choice(encoding, column.compression, share=share)
        return choice, _size(bodies, choice)
    fast = Choice(encoding, Compression.LZ4, WORTH_COMPRESSING, share)
    small = Choice(encoding, Compression.ZSTD, WORTH_COMPRESSING, share)
    fast_size, small_size = _size(bodies, fast), _size(bodies, small)
    if fast_size == sum(map(len, bodies)):
        fast, clearly = Choice(encoding, Compression.NONE, share=share), MUCH_LESS
    else:
        clearly = CLEARLY_SMALLER
    return (small, small_size) if small_size < clearly * fast_size else (fast, fast_size)


def choose_codes(column: ColumnSchema, codes: Array, validity: Array | None, page_rows: int) -> Choice:
    """Choice for texts with a dictionary: layout of the codes."""
    choice = with_compression(column, Encoding.DICT)
    pages = _sampled(codes, validity, page_rows)
    plain = [encode_dictionary_codes(page, present) for page, present in pages]
    size = _size((page.body for page in plain), choice)
    if not _unpacked_anyway(plain, size):
        return choice
    shuffled = _size((encode_dictionary_codes(page, present, bits=True).body for page, present in pages), choice)
    return replace(choice, bits=shuffled < CLEARLY_SMALLER * size)


def _integer_encoding(column: ColumnSchema, values: Array, validity: Array | None, page_rows: int) -> Encoding:
    def encoded(encoding: Encoding) -> list[EncodedPage]:
        return [encode_integers(page, present, encoding, column.type.dtype) for page, present in pages]

    def size(encoded_pages: list[EncodedPage]) -> int:
        return _size((page.body for page in encoded_pages), with_compression(column, Encoding.FRAME_OF_REFERENCE))

    pages = _sampled(values, validity, page_rows)
    runs = int(np.count_nonzero(values[1:] != values[:-1])) + 1
    plain = encoded(Encoding.FRAME_OF_REFERENCE)
    plain_size = size(plain)
    tried = [Encoding.RLE] if len(values) >= LONG_RUN * runs else []
    if _unpacked_anyway(plain, plain_size):
        tried.append(Encoding.BIT_SHUFFLE)
    sizes = {encoding: size(encoded(encoding)) for encoding in tried}
    best = min(sizes, key=lambda encoding: sizes[encoding], default=Encoding.FRAME_OF_REFERENCE)
    return best if sizes.get(best, plain_size) < CLEARLY_SMALLER * plain_size else Encoding.FRAME_OF_REFERENCE


def _unpacked_anyway(pages: list[EncodedPage], size: int) -> bool:
    """True for codes of one byte whose pages would be compressed to `size` bytes in total. Then bits have no extra
    cost."""
    return all(page.width == 1 for page in pages) and size < sum(len(page.body) for page in pages)


def _sampled(values: Array, validity: Array | None, page_rows: int) -> list[tuple[Array, Array | None]]:
    rows = [slice(start, start + page_rows) for start in _sample(len(values), page_rows)]
    return [(values[part], None if validity is None else validity[part]) for part in rows]


def _size(bodies: Iterable[bytes], choice: Choice) -> int:
    return sum(len(compress(body, choice.compression, choice.limit)[0]) for body in bodies)


def _sample(rows: int, page_rows: int) -> list[int]:
    """First rows of the sample's pages."""
    pages = -(-rows // page_rows)
    picked = np.unique(np.linspace(0, max(pages - 1, 0), SAMPLE_PAGES).astype(np.int64))
    return [int(page) * page_rows for page in picked]


def text_page_rows(values: pa.Array) -> int:
    """The largest power of two whose texts take about `PAGE_BYTES`."""
    average = values.nbytes / max(len(values), 1)
    rows = int(min(max(PAGE_BYTES / max(average, 1.0), 1.0), MOST_TEXT_ROWS))
    return 1 << (rows.bit_length() - 1)


def dictionary_encoded(column: ColumnSchema, values: pa.Array) -> tuple[Array, pa.Array] | None:
    """(codes, ascending dictionary), or None if texts should have another form."""
    automatic = column.encoding is Encoding.AUTO
    if not automatic and column.encoding is not Encoding.DICT:
        return None
    if automatic and len(values) > 8 * GLANCE_ROWS and not _has_repeats(values):
        return None
    if automatic and len(values) > 2 * SAMPLE_ROWS:
        sample = values.take(arrow_array(np.linspace(0, len(values) - 1, SAMPLE_ROWS).astype(np.int64)))
        if pc.count_distinct(sample).as_py() > SAMPLE_SHARE * SAMPLE_ROWS:
            return None
    encoded = values.dictionary_encode()
    dictionary = encoded.dictionary
    few = len(dictionary) <= max(SMALL_DICTIONARY, DICTIONARY_SHARE * len(values))
    if automatic and not (few and dictionary.nbytes <= DICTIONARY_BYTES):
        return None
    order = numpy_array(pc.sort_indices(dictionary))
    dtype = narrowest(max(len(dictionary) - 1, 0))
    rank = np.zeros(max(len(dictionary), 1), dtype)  # one entry at least, for the codes under NULLs
    rank[order] = np.arange(len(dictionary), dtype=dtype)
    codes = numpy_array(fill_nulls(encoded.indices, 0))
    return rank.take(codes), dictionary.take(arrow_array(order))


def _has_repeats(values: pa.Array) -> bool:
    """True if a small sample has repeated values. The sampled rows are random, not every n-th: the latter would miss
    runs."""
    rows = np.unique(np.random.default_rng(0).integers(len(values), size=GLANCE_ROWS))
    return bool(pc.count_distinct(values.take(arrow_array(rows))).as_py() <= (1 - GLANCE_REPEATS) * len(rows))
