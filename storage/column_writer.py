"""Writes one column file: measures the values, chooses the encoding, lays down pages, dictionary and footer."""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from .column_file import (
    BOUND_BYTES,
    INDEX_ROWS,
    PAGE,
    ROW_GROUP_ROWS,
    Footer,
    encode_footer,
    encode_header,
    encode_tail,
)
from .encodings import (
    check_encoding,
    compress,
    encode_texts,
    encode_validity,
    encode_wide,
    is_code_like,
    is_wide,
    narrowest,
    subtract_base,
)
from .filesystem import FileSystem, WritableFile
from .schema import ColumnSchema, Encoding
from .sketch import SketchBuilder, hash_decimals, hash_floats, hash_integers, hash_texts
from .vector import Array, vector_from_arrow

PAGE_BYTES = 512 << 10
"""Aimed at for pages of texts: a point read unpacks one page, a scan should not pay per page."""
MOST_TEXT_ROWS = 16_384
"""Per page, for the same reason."""
SAMPLE_ROWS = 65_536
SAMPLE_SHARE = 0.5
"""A column whose sample has more distinct values than this share of it is not worth building a dictionary for."""
DICTIONARY_SHARE = 0.25
"""A dictionary must have at most this many entries per row ..."""
SMALL_DICTIONARY = 256
"""... or so few that codes take one byte ..."""
DICTIONARY_BYTES = 4 << 20
"""... and must stay this small: it is read as a whole, even for one row."""


def write_column(
    fs: FileSystem,
    path: str,
    column: ColumnSchema,
    values: pa.Array,
    *,
    is_key: bool = False,
    page_rows: int | None = None,
) -> int:
    """Write all values of one column into a new file and make it durable (but not yet its name).

    Parameters
    ----------
    values : pa.Array
        Of `column.type.arrow`, one row per row of the rowset.
    is_key : bool
        Key columns also keep the sparse index of the rowset.
    page_rows : int, optional
        A power of two, at most 65,536; by default the writer chooses.

    Returns
    -------
    int
        The size of the file in bytes.
    """
    check_encoding(column)
    file = fs.create(path)
    try:
        writer = _ColumnWriter(file, column, len(values))
        writer.write(values, page_rows)
        writer.finish(_firsts(column, values) if is_key else None)
        file.sync()
        return file.size
    finally:
        file.close()


def encoded_bytes(column: ColumnSchema, values: pa.Array) -> int:
    """How many bytes a file of these values would take; writes nothing."""
    scale = _Scale()
    writer = _ColumnWriter(scale, column, len(values))
    writer.write(values, None)
    writer.finish(None)
    return scale.size


class _Scale:
    """A `WritableFile` that only weighs."""

    def __init__(self) -> None:
        self.size = 0

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.size += len(data)

    def sync(self) -> None:
        """Nothing to make durable."""

    def close(self) -> None:
        """Nothing to close."""


def _firsts(column: ColumnSchema, values: pa.Array) -> list[Any]:
    sparse = values.take(pa.array(np.arange(0, len(values), INDEX_ROWS)))
    found: list[Any] = vector_from_arrow(column.type, sparse).values().tolist()
    return found


@dataclass(slots=True)
class _Stored:
    """What the page record needs to know of values before they are compressed."""

    body: bytes
    nulls: int = 0
    low: int = 0
    high: int = 0
    width: int = 0


class _ColumnWriter:
    """Appends pages to a file and remembers what the footer tells of them."""

    def __init__(self, file: WritableFile, column: ColumnSchema, rows: int):
        self._file = file
        self._column = column
        self._rows = rows
        self._encoding = Encoding.PLAIN
        self._page_rows = ROW_GROUP_ROWS
        self._records: list[Any] = []
        self._dictionary: Any = None
        self._entries = 0
        self._bounds: list[tuple[Any, Any] | None] | None = None
        self._sketch = SketchBuilder()
        file.write(encode_header())

    def write(self, array: pa.Array, page_rows: int | None) -> None:
        """All pages of the column, in the encoding that it declares or that suits it."""
        type_ = self._column.type
        if type_.is_text:
            coded = _dictionary_encoded(self._column, array)
            if coded is None:
                self._page_rows = page_rows or _text_page_rows(array)
                self._write_arrow(array)
            else:
                self._page_rows = page_rows or ROW_GROUP_ROWS
                self._write_dictionary(*coded, array)
            return
        self._page_rows = page_rows or ROW_GROUP_ROWS
        if is_wide(type_):
            self._write_arrow(array)
            return
        vector = vector_from_arrow(type_, array)
        if is_code_like(type_):
            plain = self._column.encoding is Encoding.PLAIN
            self._encoding = Encoding.PLAIN if plain else Encoding.FRAME_OF_REFERENCE
            # Vectors of short decimals may be wider than the type; PLAIN pages are as wide as the type says.
            values = vector.values().astype(type_.dtype, copy=False) if plain else vector.values()
            self._write_integers(values, vector.validity, plain)
        else:
            self._write_floats(vector.values(), vector.validity)

    def finish(self, firsts: list[Any] | None) -> None:
        """The footer; the file is complete after it."""
        footer = encode_footer(
            Footer(
                column=self._column.id,
                type=self._column.type,
                encoding=self._encoding,
                rows=self._rows,
                page_rows=self._page_rows,
                pages=_records(self._records),
                dictionary=None if self._dictionary is None else _records([self._dictionary]),
                entries=self._entries,
                bounds=self._bounds,
                firsts=firsts,
                sketch=self._sketch.finish(),
            )
        )
        self._file.write(footer)
        self._file.write(encode_tail(footer))

    def _write_integers(self, values: Array, validity: Array | None, plain: bool) -> None:
        for page, present in _pages(values, validity, self._page_rows):
            page, nulls, found = _without_nulls(page, present)
            low, high = (int(found.min()), int(found.max())) if len(found) else (0, 0)
            if nulls:
                page = np.where(present, page, page.dtype.type(low))
            numbers = page.view(np.uint8) if page.dtype == np.bool_ else page
            codes = subtract_base(numbers, low, narrowest(high - low))
            body = encode_validity(present if nulls else None) + (page if plain else codes).tobytes()
            width = page.itemsize if plain else codes.itemsize
            self._append(_Stored(body, nulls, low, high, width))
            low_value, high_value = (low, high) if len(found) else (None, None)
            self._sketch.add(low_value, high_value, nulls, len(page))
            self._sketch.add_hashes(_hash_codes(codes, low, high) if not nulls else hash_integers(found))

    def _write_floats(self, values: Array, validity: Array | None) -> None:
        self._bounds = []
        for page, present in _pages(values, validity, self._page_rows):
            page, nulls, found = _without_nulls(page, present)
            if nulls:
                page = np.where(present, page, page.dtype.type(0))
            body = encode_validity(present if nulls else None) + page.tobytes()
            self._append(_Stored(body, nulls, width=page.itemsize))
            self._add_bounds(_float_bounds(found), nulls, len(page))
            self._sketch.add_hashes(hash_floats(found))

    def _write_arrow(self, values: pa.Array) -> None:
        """PLAIN texts and wide decimals."""
        self._bounds = []
        texts = self._column.type.is_text
        for start in range(0, len(values), self._page_rows):
            page = values.slice(start, self._page_rows)
            nulls = page.null_count
            validity = page.is_valid().to_numpy(zero_copy_only=False) if nulls else None
            found = page.drop_null() if nulls else page
            body = encode_texts(_empty_nulls(page)) if texts else encode_wide(page)
            self._append(_Stored(encode_validity(validity) + body, nulls, width=0 if texts else 16))
            bounds = _arrow_bounds(self._column, found)
            self._add_bounds(bounds, nulls, len(page), _text_bounds if texts else None)
            self._sketch.add_hashes(hash_texts(found) if texts else hash_decimals(found))

    def _write_dictionary(self, codes: Array, dictionary: pa.Array, values: pa.Array) -> None:
        self._encoding = Encoding.DICT
        validity = values.is_valid().to_numpy(zero_copy_only=False) if values.null_count else None
        for page, present in _pages(codes, validity, self._page_rows):
            page, nulls, found = _without_nulls(page, present)
            low, high = (int(found.min()), int(found.max())) if len(found) else (0, 0)
            body = encode_validity(present if nulls else None) + page.tobytes()
            self._append(_Stored(body, nulls, low, high, page.itemsize))
        self._entries = len(dictionary)
        self._dictionary = self._store(_Stored(encode_texts(dictionary)))
        first, last = (dictionary[0].as_py(), dictionary[-1].as_py()) if len(dictionary) else (None, None)
        self._sketch.add(first, last, values.null_count, len(values))
        self._sketch.add_hashes(hash_texts(dictionary))

    def _add_bounds(self, bounds: tuple[Any, Any] | None, nulls: int, rows: int, shorten: Any = None) -> None:
        assert self._bounds is not None
        self._bounds.append(shorten(bounds) if shorten and bounds else bounds)
        low, high = bounds or (None, None)
        self._sketch.add(low, high, nulls, rows)

    def _append(self, page: _Stored) -> None:
        self._records.append(self._store(page))

    def _store(self, page: _Stored) -> tuple[int, ...]:
        """Write a page and give its record."""
        offset = self._file.size
        stored, compression = compress(page.body, self._column.compression)
        self._file.write(stored)
        crc = zlib.crc32(stored)
        return offset, len(stored), len(page.body), crc, page.nulls, page.low, page.high, page.width, compression


def _records(rows: list[Any]) -> Array:
    table = np.zeros(len(rows), PAGE)
    for name, column in zip(PAGE.names or (), zip(*rows)):
        table[name] = column
    return table


def _pages(values: Array, validity: Array | None, page_rows: int) -> Any:
    for start in range(0, len(values), page_rows):
        rows = slice(start, start + page_rows)
        yield values[rows], None if validity is None else validity[rows]


def _without_nulls(page: Array, present: Array | None) -> tuple[Array, int, Array]:
    """The page, its number of NULLs and its present values."""
    if present is None:
        return page, 0, page
    nulls = len(page) - int(np.count_nonzero(present))
    return page, nulls, page[present] if nulls else page


def _hash_codes(codes: Array, low: int, high: int) -> Array:
    """Hashes of the distinct values of a page; of narrow codes each is hashed once."""
    if codes.itemsize <= 2:
        seen = np.zeros(high - low + 1, np.bool_)
        seen[codes] = True
        return hash_integers(np.flatnonzero(seen) + low)
    return hash_integers(codes.astype(np.uint64).view(np.int64) + np.int64(low))


def _float_bounds(found: Array) -> tuple[float, float] | None:
    if not len(found):
        return None
    low, high = float(np.fmin.reduce(found)), float(found.max())  # a NaN is above all: max gives it, fmin does not
    return low, high


def _arrow_bounds(column: ColumnSchema, found: pa.Array) -> tuple[Any, Any] | None:
    if not len(found):
        return None
    ends = pc.min_max(found)
    low, high = ends["min"].as_py(), ends["max"].as_py()
    if column.type.is_decimal:
        return column.type.to_physical(low), column.type.to_physical(high)
    return low, high


def _text_bounds(bounds: tuple[Any, Any]) -> tuple[bytes, bytes] | None:
    """Bytes of bounded length that enclose two texts; None where there is no such upper bound."""
    low, high = (b.encode() if isinstance(b, str) else b for b in bounds)
    if len(high) > BOUND_BYTES:
        kept = high[:BOUND_BYTES].rstrip(b"\xff")
        if not kept:
            return None
        high = kept[:-1] + bytes([kept[-1] + 1])
    return low[:BOUND_BYTES], high


def _empty_nulls(page: pa.Array) -> pa.Array:
    """The page with an empty text under each NULL, so that equal columns give equal bytes."""
    return page.fill_null("" if pa.types.is_string(page.type) else b"") if page.null_count else page


def _text_page_rows(values: pa.Array) -> int:
    """The largest power of two whose texts take about `PAGE_BYTES`."""
    average = values.nbytes / max(len(values), 1)
    rows = int(min(max(PAGE_BYTES / max(average, 1.0), 1.0), MOST_TEXT_ROWS))
    return 1 << (rows.bit_length() - 1)


def _dictionary_encoded(column: ColumnSchema, values: pa.Array) -> tuple[Array, pa.Array] | None:
    """(codes, ascending dictionary), or None where texts should lie as they are."""
    if column.encoding is Encoding.PLAIN:
        return None
    automatic = column.encoding is Encoding.AUTO
    if automatic and len(values) > 2 * SAMPLE_ROWS:
        sample = values.take(pa.array(np.linspace(0, len(values) - 1, SAMPLE_ROWS).astype(np.int64)))
        if pc.count_distinct(sample).as_py() > SAMPLE_SHARE * SAMPLE_ROWS:
            return None
    encoded = values.dictionary_encode()
    dictionary = encoded.dictionary
    few = len(dictionary) <= max(SMALL_DICTIONARY, DICTIONARY_SHARE * len(values))
    if automatic and not (few and dictionary.nbytes <= DICTIONARY_BYTES):
        return None
    order = pc.sort_indices(dictionary).to_numpy()
    dtype = narrowest(max(len(dictionary) - 1, 0))
    rank = np.zeros(max(len(dictionary), 1), dtype)  # one entry at least, for the codes under NULLs
    rank[order] = np.arange(len(dictionary), dtype=dtype)
    codes = encoded.indices.fill_null(0).to_numpy()
    return rank.take(codes), dictionary.take(pa.array(order))
