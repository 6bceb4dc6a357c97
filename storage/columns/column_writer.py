"""Writes one column file: measures the values, chooses the encoding, lays down pages, dictionary and footer."""

from __future__ import annotations

import zlib
from typing import Any

import numpy as np
import pyarrow as pa

from ...model import arrow_functions as pc
from ...model.arrow_arrays import arrow_array, numpy_array
from ...model.schema import ColumnSchema, Compression, Encoding, check_encoding
from ...model.vectors.vector import Array, vector_from_arrow
from ..files.file_identity import identity_of
from ..files.filesystem import FileSystem, WritableFile
from ..files.io_limit import counted_file
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
from .compression import compress
from .encoding_choice import (
    Choice,
    choose_codes,
    choose_numbers,
    choose_texts,
    dictionary_encoded,
    text_page_rows,
    with_compression,
)
from .encodings import (
    EncodedPage,
    encode_dictionary_codes,
    encode_floats,
    encode_integers,
    encode_text_page,
    encode_texts,
    encode_wide_page,
)
from .sketch import SketchBuilder, hash_decimals, hash_floats, hash_integers, hash_texts

HASHED_ROWS = ROW_GROUP_ROWS
"""Rows whose texts are hashed at once, although pages of long texts have fewer rows: numpy releases the interpreter
lock in each of some twenty steps, and reacquires it late if other statements are busy."""


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
        A power of two, at most 131,072; by default that of `column.block_size`, or chosen by the writer.

    Returns
    -------
    int
        The size of the file in bytes.
    """
    check_encoding(column)
    file = counted_file(fs.create(path))
    try:
        writer = _ColumnWriter(file, column, len(values), identity_of(path))
        writer.write(values, page_rows)
        writer.finish(_firsts(column, values) if is_key else None)
        file.sync()
        return file.size
    finally:
        file.close()


def encoded_bytes(column: ColumnSchema, values: pa.Array) -> int:
    """Size in bytes that a file of these values would have; writes nothing."""
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
    sparse = values.take(arrow_array(np.arange(0, len(values), INDEX_ROWS)))
    firsts: list[Any] = vector_from_arrow(column.type, sparse).values().tolist()
    return firsts


class _ColumnWriter:
    """Appends pages to a file and collects the contents of the footer."""

    def __init__(self, file: WritableFile, column: ColumnSchema, rows: int, identity: str = ""):
        self._file = file
        self._identity = identity
        self._column = column
        self._rows = rows
        self._choice = Choice(Encoding.PLAIN, Compression.NONE)
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
        page_rows = page_rows or _block_rows(self._column, array)
        if type_.is_text:
            coded = dictionary_encoded(self._column, array)
            if coded is None:
                self._page_rows = page_rows or text_page_rows(array)
                self._choice = choose_texts(self._column, array, self._page_rows)
                self._write_arrow(array)
            else:
                self._page_rows = page_rows or ROW_GROUP_ROWS
                self._write_dictionary(*coded, array)
            return
        self._page_rows = page_rows or ROW_GROUP_ROWS
        declared = self._column.encoding
        settled = with_compression(self._column, Encoding.PLAIN if declared is Encoding.AUTO else declared)
        if type_.is_wide:
            self._choice = settled
            self._write_arrow(array)
            return
        vector = vector_from_arrow(type_, array)
        if type_.is_code_like:
            values = vector.values()
            self._choice = choose_numbers(self._column, values, vector.validity, self._page_rows)
            self._write_integers(values, vector.validity)
        else:
            self._choice = settled
            self._write_floats(vector.values(), vector.validity)

    def finish(self, firsts: list[Any] | None) -> None:
        """The footer; the file is complete after it."""
        footer = encode_footer(
            Footer(
                column=self._column.id,
                type=self._column.type,
                encoding=self._choice.encoding,
                rows=self._rows,
                page_rows=self._page_rows,
                pages=_records(self._records),
                dictionary=None if self._dictionary is None else _records([self._dictionary]),
                entries=self._entries,
                bounds=self._bounds,
                firsts=firsts,
                sketch=self._sketch.finish(),
                file=self._identity,
            )
        )
        self._file.write(footer)
        self._file.write(encode_tail(footer))

    def _write_integers(self, values: Array, validity: Array | None) -> None:
        for page, present in _pages(values, validity, self._page_rows):
            encoded = encode_integers(page, present, self._choice.encoding, self._column.type.dtype)
            self._append(encoded)
            low, high, nulls = encoded.low, encoded.high, encoded.nulls
            empty = nulls == len(page)
            self._sketch.add(None if empty else low, None if empty else high, nulls, len(page))
            assert encoded.codes is not None
            self._sketch.add_hashes(hash_integers(page[present]) if nulls else _hash_codes(encoded.codes, low, high))

    def _write_floats(self, values: Array, validity: Array | None) -> None:
        self._bounds = []
        for page, present in _pages(values, validity, self._page_rows):
            encoded = encode_floats(page, present, self._choice.encoding)
            self._append(encoded)
            present_values = page[present] if encoded.nulls else page
            self._add_bounds(_float_bounds(present_values), encoded.nulls, len(page))
            self._sketch.add_hashes(hash_floats(present_values))

    def _write_arrow(self, values: pa.Array) -> None:
        """Texts without a dictionary, and wide decimals."""
        self._bounds = []
        texts = self._column.type.is_text
        for start in range(0, len(values), self._page_rows):
            page = values.slice(start, self._page_rows)
            present_values = page.drop_null() if page.null_count else page
            choice = self._choice
            self._append(encode_text_page(page, choice.encoding, choice.share) if texts else encode_wide_page(page))
            bounds = _arrow_bounds(self._column, present_values)
            self._add_bounds(bounds, page.null_count, len(page), _text_bounds if texts else None)
        for start in range(0, len(values), HASHED_ROWS):
            part = values.slice(start, HASHED_ROWS)
            present_values = part.drop_null() if part.null_count else part
            self._sketch.add_hashes(hash_texts(present_values) if texts else hash_decimals(present_values))

    def _write_dictionary(self, codes: Array, dictionary: pa.Array, values: pa.Array) -> None:
        validity = numpy_array(values.is_valid()) if values.null_count else None
        self._choice = choose_codes(self._column, codes, validity, self._page_rows)
        for page, present in _pages(codes, validity, self._page_rows):
            self._append(encode_dictionary_codes(page, present, self._choice.bits))
        self._entries = len(dictionary)
        self._dictionary = self._store(EncodedPage(encode_texts(dictionary)))
        first, last = (dictionary[0].as_py(), dictionary[-1].as_py()) if len(dictionary) else (None, None)
        self._sketch.add(first, last, values.null_count, len(values))
        self._sketch.add_hashes(hash_texts(dictionary))

    def _add_bounds(self, bounds: tuple[Any, Any] | None, nulls: int, rows: int, shorten: Any = None) -> None:
        assert self._bounds is not None
        self._bounds.append(shorten(bounds) if shorten and bounds else bounds)
        low, high = bounds or (None, None)
        self._sketch.add(low, high, nulls, rows)

    def _append(self, page: EncodedPage) -> None:
        self._records.append(self._store(page))

    def _store(self, page: EncodedPage) -> tuple[int, ...]:
        """Write a page and give its record, in the order of `PAGE`."""
        offset = self._file.size
        stored, number = compress(page.body, self._choice.compression, self._choice.limit)
        self._file.write(stored)
        place = (offset, len(stored), len(page.body), zlib.crc32(stored))
        return *place, page.nulls, page.low, page.high, page.width, number, page.layout


def _block_rows(column: ColumnSchema, array: pa.Array) -> int | None:
    """The largest power of two whose rows take no more than the column's block size before encoding; None where it
    leaves the choice to the writer."""
    if not column.block_size:
        return None
    if column.type.is_text:
        width = max(array.nbytes / max(len(array), 1), 1.0)
    else:
        width = 16 if column.type.is_wide else column.type.dtype.itemsize
    rows = min(max(int(column.block_size / width), 1), ROW_GROUP_ROWS)
    return 1 << (rows.bit_length() - 1)


def _records(rows: list[Any]) -> Array:
    table = np.zeros(len(rows), PAGE)
    for name, column in zip(PAGE.names or (), zip(*rows)):
        table[name] = column
    return table


def _pages(values: Array, validity: Array | None, page_rows: int) -> Any:
    for start in range(0, len(values), page_rows):
        rows = slice(start, start + page_rows)
        yield values[rows], None if validity is None else validity[rows]


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
