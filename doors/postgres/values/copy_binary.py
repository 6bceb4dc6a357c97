"""COPY in the binary format: data to columns.

    PGCOPY\\n\\377\\r\\n\\0   flags (4)   length of the extension (4)   extension
    fields (2)   length (4)   value   length (4)   value   ...      a row
    -1 (2)                                                          the end

The data comes in pieces of any size and is converted in blocks, while the client still sends. `copy_rows` finds the
fields of the whole rows of a block, `copy_columns` makes a column of the fields of all of them at once. The part of a
block that belongs to a row that is not whole stays in front of the next block.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from typing import Final

import pyarrow as pa

from ....errors import DataError
from ....model.types import DataType
from .copy_columns import column, width_of
from .copy_rows import FoundRows, RowFinder, Stop

SIGNATURE: Final = b"PGCOPY\n\xff\r\n\0"
HEADER: Final = SIGNATURE + bytes(8)
TRAILER: Final = b"\xff\xff"
BLOCK_BYTES: Final = 4 << 20
"""Bytes that are converted at a time: the block and the places of its fields stay in the processor's cache."""
_MOST_ROW_BYTES: Final = 1 << 28


class BinaryRows:
    """Data in the binary format, as it arrives.

    Parameters
    ----------
    names : sequence of str
        Of the columns.
    types : sequence of DataType
        Of the columns.
    """

    def __init__(self, names: Sequence[str], types: Sequence[DataType]):
        self._names = list(names)
        self._types = types
        self._finder = RowFinder([width_of(type_) for type_ in types])
        self._pieces: list[bytes] = []
        self._size = 0
        self._wanted = BLOCK_BYTES
        self._row = 1
        """Number of the next row."""
        self._has_header = False
        self._is_over = False
        """True after the trailer; data behind it is ignored."""

    def feed(self, data: bytes) -> Iterator[pa.RecordBatch]:
        """Adds data; yields the whole rows, once there is a block of them.

        Raises `DataError` with the number of the row, counted from 1, if the data is malformed.
        """
        if self._is_over:
            return
        self._pieces.append(data)
        self._size += len(data)
        if self._size >= self._wanted:
            yield from self._convert()

    def finish(self) -> Iterator[pa.RecordBatch]:
        """Yields the last rows. Raises `DataError` as `feed` does, and if the data ends in the middle of a row."""
        yield from self._convert()
        if not self._has_header:
            raise _no_signature()
        # The end of the data may stand in place of a trailer: ADBC's driver has it so, and PostgreSQL accepts it.
        if self._size and not self._is_over:
            raise DataError(f"COPY data ends in the middle of row {self._row}")

    def _convert(self) -> Iterator[pa.RecordBatch]:
        block = memoryview(b"".join(self._pieces))
        place = 0 if self._has_header else self._header_size(block)
        while self._has_header and not self._is_over:
            found = self._finder.find(block, place)
            place = found.end
            if found.rows:
                yield self._batch(block, found)
                self._row += found.rows
            self._check(block[place:], found.stop)
            if found.stop is not Stop.FULL:
                break
        rest = bytes(block[place:])
        self._pieces, self._size = [rest], len(rest)
        # A long row is not looked at again with each piece of it.
        self._wanted = max(BLOCK_BYTES, 2 * len(rest))
        if len(rest) > _MOST_ROW_BYTES and not self._is_over:
            raise DataError(f"COPY data, row {self._row}: the row is too long")

    def _batch(self, block: memoryview, found: FoundRows) -> pa.RecordBatch:
        arrays = [
            column(block, found.starts[i], found.lengths[i], type_, self._names[i], self._row)
            for i, type_ in enumerate(self._types)
        ]
        return pa.RecordBatch.from_arrays(arrays, names=self._names)

    def _check(self, rest: memoryview, stop: Stop) -> None:
        """Notes the trailer, and raises `DataError` if the next row is none."""
        self._is_over = stop is Stop.TRAILER
        if stop is Stop.OTHER_COUNT:
            count = int.from_bytes(rest[:2], "big", signed=True)
            raise DataError(f"COPY data, row {self._row}: {len(self._types)} fields expected, {count} found")
        if stop is Stop.OTHER_LENGTH:
            raise DataError(f"COPY data, row {self._row}: a field has a length that its column's type does not have")

    def _header_size(self, data: memoryview) -> int:
        """Bytes of the header with its extension; 0 if they are not complete."""
        if len(data) < len(HEADER):
            return 0
        if bytes(data[: len(SIGNATURE)]) != SIGNATURE:
            raise _no_signature()
        flags, extension = struct.unpack_from("!ii", data, len(SIGNATURE))
        if flags or not 0 <= extension < 1 << 16:
            raise DataError("the header of the COPY data has flags that are not supported")
        size = len(HEADER) + int(extension)
        self._has_header = len(data) >= size
        return size if self._has_header else 0


def _no_signature() -> DataError:
    return DataError("COPY file signature not recognized: this is no data in the binary format")
