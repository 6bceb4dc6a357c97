"""Reads one column file: footer once, pages through the cache, every byte under a checksum before it is used."""

from __future__ import annotations

import threading
import zlib
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from ...errors import CorruptionError
from ...model.schema import Encoding
from ...model.store import ScanCounters
from ...model.types import DataType
from ...model.vectors.cells import cell, cell_getter, cells
from ...model.vectors.vector import Array, Text, Vector, concat
from ..files.file_handles import FileHandles
from ..files.page_cache import PageCache, new_owner
from .column_file import (
    ROW_GROUP_ROWS,
    Footer,
    decode_footer,
    read_footer,
)
from .compression import decompress
from .encodings import decode_page, decode_texts, vector_bytes

_FOOTER_GUESS = 16 << 10
"""Read from the end of a file at first: most footers fit, so that one read gets tail and footer."""


class ColumnReader:
    """One column of one DiskRowSet, as vectors. Safe for several threads; touches the file at first use only.

    Invariants: a page is handed out only after its checksum was right; all `Dict` vectors of one reader share one
    dictionary object.

    Parameters
    ----------
    handles : FileHandles
    path : str
    column : int
        Permanent id that the file must hold, likewise its `type` and its number of `rows`.
    """

    def __init__(self, handles: FileHandles, path: str, column: int, type: DataType, rows: int, cache: PageCache):
        self.path = path
        self.type = type
        self._handles = handles
        self._column = column
        self._rows = rows
        self._cache = cache
        self._owner = new_owner()
        self._cached = cache.pages(self._owner)
        self._lock = threading.Lock()
        self._footer: Footer | None = None
        self._page_rows = 1
        """The footer's; until it was read no page is in the cache, so that any number will do."""
        self._dictionary: pa.Array | None = None

    @property
    def footer(self) -> Footer:
        """The footer, read and checked at first use. `CorruptionError`, `UnsupportedFormat`."""
        if self._footer is None:
            with self._lock:
                if self._footer is None:
                    with self._cache.naming_damage():
                        self._footer = self._read_footer()
                    self._page_rows = self._footer.page_rows
        return self._footer

    @property
    def dictionary(self) -> pa.Array:
        """The ascending dictionary of a DICT column, read at first use."""
        footer = self.footer
        if self._dictionary is None:
            with self._lock:
                if self._dictionary is None:
                    assert footer.dictionary is not None
                    page = self._read_page(footer.dictionary[0], "dictionary")
                    dictionary = decode_texts(page, footer.entries, self.type)
                    self._cache.hold(self._owner, dictionary.nbytes)
                    self._dictionary = dictionary
        return self._dictionary

    @cached_property
    def distinct_count(self) -> float:
        """About how many distinct values the file holds; an estimate takes 0.1 ms, so it is made once."""
        return self.footer.sketch.distinct_count()

    @property
    def pages_per_group(self) -> int:
        """Number of pages of a row group of 131,072 rows."""
        return ROW_GROUP_ROWS // self.footer.page_rows

    def page_range(self, start: int, stop: int) -> tuple[int, int]:
        """First page, and the page behind the last, of the rows `start` to `stop` (exclusive, not empty)."""
        size = self.footer.page_rows
        return start // size, (stop - 1) // size + 1

    def page(self, number: int, counters: ScanCounters | None = None) -> Vector:
        """One page, decoded. `CorruptionError` names file, page and offset where its bytes are damaged."""
        vector: Vector | None = self._cache.get(self._owner, number)
        if counters is not None:
            counters.pages_read += 1
        if vector is None:
            vector = self._decode(number)
            self._cache.put(self._owner, number, vector, vector_bytes(vector))
            if counters is not None:
                counters.bytes_read += int(self.footer.pages[number]["stored"])
        return vector

    def cell(self, row: int, counters: ScanCounters | None = None) -> Any:
        """One value as a Python value, None for NULL. Raises as `page`."""
        number, place = divmod(row, self.footer.page_rows)
        return cell(self.page(number, counters), place)

    def read(self, start: int, stop: int, rows: Array | None, counters: ScanCounters | None = None) -> Vector:
        """The rows `start` to `stop` (exclusive, not empty), or those of them at `rows`.

        Parameters
        ----------
        rows : ndarray of intp, optional
            Relative to `start`, in any order, repetitions allowed. Pages that none of them is in are not read.
        """
        first, last = self.page_range(start, stop)
        size = self.footer.page_rows
        if last - first == 1:
            vector = self.page(first, counters)
            if rows is not None:
                return vector.take(rows + (start - first * size) if start != first * size else rows)
            return _part(vector, start - first * size, stop - first * size)
        if rows is None:
            parts = [
                _part(self.page(p, counters), max(start - p * size, 0), min(stop - p * size, size))
                for p in range(first, last)
            ]
            return concat(parts)
        return self._gather(rows + start, first, last, counters)

    def values(self, start: int, stop: int, counters: ScanCounters | None = None) -> list[Any]:
        """The rows `start` to `stop` (exclusive, not empty) as Python values, None for NULL: `read` for few rows."""
        size = self.footer.page_rows
        number = start // size
        if stop <= (number + 1) * size:
            return cells(self.page(number, counters), start - number * size, stop - number * size)
        decoded: list[Any] = self.read(start, stop, None, counters).to_arrow().to_pylist()
        return decoded

    def warm(self) -> bool:
        """Bring the pages into the cache, as far as there is room; is everything in it now? Raises as `page`."""
        for number, record in enumerate(self.footer.pages):
            if number in self._cached:
                continue
            if self._cache.room < int(record["raw"]):
                return False
            self.page(number)
        return True

    def close(self) -> None:
        """Release the pages in the cache and close the file."""
        self._cache.forget(self._owner)
        self._handles.forget(self.path)

    def _gather(self, rows: Array, first: int, last: int, counters: ScanCounters | None) -> Vector:
        """The rows at `rows` (absolute) of several pages."""
        size = self.footer.page_rows
        is_ascending = len(rows) < 2 or bool((rows[1:] >= rows[:-1]).all())
        if not is_ascending and 2 * len(rows) >= (last - first) * size:
            # All rows in another order, as groups gather them: sorting their numbers takes longer than all pages.
            return concat([self.page(page, counters) for page in range(first, last)]).take(rows - first * size)
        order = None if is_ascending else np.argsort(rows, kind="stable")
        ascending = rows if order is None else rows[order]
        ends = np.searchsorted(ascending, np.arange(first, last + 1) * size)
        parts = []
        for page in range(first, last):
            inside = ascending[ends[page - first] : ends[page - first + 1]]
            if len(inside):
                parts.append(self.page(page, counters).take(inside - page * size))
            elif counters is not None:
                counters.pages_skipped += 1
        if not parts:
            return self.page(first).take(np.empty(0, np.intp))
        joined = concat(parts)
        if order is None:
            return joined
        inverse = np.empty_like(order)
        inverse[order] = np.arange(len(order))
        return joined.take(inverse)

    def _read_footer(self) -> Footer:
        data = read_footer(self._handles, self.path, guess=_FOOTER_GUESS)
        footer = decode_footer(data, self.type, self.path)
        if footer.column != self._column or footer.rows != self._rows:
            raise CorruptionError(
                f"holds {footer.rows} rows of column id {footer.column}, {self._rows} of {self._column} expected",
                self.path,
                "footer",
            )
        return footer

    def _decode(self, number: int) -> Vector:
        footer = self.footer
        record = footer.pages[number]
        dictionary = self.dictionary if footer.encoding is Encoding.DICT else None
        page = self._read_page(record, f"page {number}")
        try:
            return decode_page(page, footer.page_length(number), self.type, footer.encoding, record, dictionary)
        except ValueError as error:
            place = f"page {number} at offset {int(record['offset'])}"
            raise self._cache.named(CorruptionError(f"does not decode: {error}", self.path, place)) from error

    def _read_page(self, record: Any, name: str) -> pa.Buffer:
        with self._cache.naming_damage():
            return self._checked_page(record, name)

    def _checked_page(self, record: Any, name: str) -> pa.Buffer:
        offset, stored = int(record["offset"]), int(record["stored"])
        data = self._handles.read_at(self.path, offset, stored)
        place = f"{name} at offset {offset}"
        if len(data) < stored:
            raise CorruptionError(f"{len(data)} bytes instead of {stored}", self.path, place)
        if (crc := zlib.crc32(data)) != record["crc"]:
            raise CorruptionError(f"checksum {crc:08x} instead of {int(record['crc']):08x}", self.path, place)
        try:
            return decompress(data, int(record["raw"]), int(record["compression"]))
        except (ValueError, OSError) as error:
            raise CorruptionError(f"does not unpack: {error}", self.path, place) from error


CellSource: TypeAlias = tuple[int, ColumnReader | None, Any]
"""Source of a column's values of one row: its id, its file, or the constant value of all rows."""


def row_cells(
    sources: Sequence[CellSource], row: int, found: Mapping[int, Any], counters: ScanCounters | None = None
) -> tuple[Any, ...]:
    """The values of one row as Python values, None for NULL: those that are in `found` by their column's id, others
    from the columns' files. Raises as `ColumnReader.page`.

    A look-up's largest part: hence one loop over the columns, which calls something only for what is unusual.
    """
    values = []
    for column, reader, initial in sources:
        if found and column in found:
            values.append(found[column])
        elif reader is None:
            values.append(initial)
        else:
            number = row // reader._page_rows
            cached = reader._cached.get(number)
            if cached is None or counters is not None:
                values.append(reader.cell(row, counters))
                continue
            cached.used = True
            place = row - number * reader._page_rows
            known = cached.cells
            if known is None:
                # Offsets and bytes of a page of strings without NULL (`TextCells.strings`), or a function of the place.
                strings = cached.value.cells.strings if isinstance(cached.value, Text) else None
                known = cached.cells = strings or cell_getter(cached.value)
            if type(known) is tuple:
                offsets, data = known
                values.append(str(data[offsets[place] : offsets[place + 1]], "utf-8"))
            else:
                values.append(known(place))
    return tuple(values)


def _part(vector: Vector, start: int, stop: int) -> Vector:
    return vector if start == 0 and stop >= len(vector) else vector.slice(start, min(stop, len(vector)))
