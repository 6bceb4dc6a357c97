"""COPY in the binary format: data to columns.

    PGCOPY\\n\\377\\r\\n\\0   flags (4)   length of the extension (4)   extension
    fields (2)   length (4)   value   length (4)   value   ...      a row
    -1 (2)                                                          the end

The data is read in blocks. `copy_rows` finds the fields of the whole rows of a block, `copy_columns` makes a column of
the fields of all of them at once. What a block has of a row that is not whole stays in front of the next block.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from typing import BinaryIO, Final

import pyarrow as pa

from ....errors import DataError
from ....model.types import DataType
from .copy_columns import column, width_of
from .copy_rows import RowFinder, Stop

SIGNATURE: Final = b"PGCOPY\n\xff\r\n\0"
HEADER: Final = SIGNATURE + bytes(8)
TRAILER: Final = b"\xff\xff"
BLOCK_BYTES: Final = 4 << 20
"""Bytes that are read at a time: the block and the places of its fields stay in the processor's cache."""
_MOST_ROW_BYTES: Final = 1 << 28


def read_binary(data: BinaryIO, names: Sequence[str], types: Sequence[DataType]) -> Iterator[pa.RecordBatch]:
    """Yields the rows of data in the binary format.

    Parameters
    ----------
    data : file
    names : sequence of str
        Of the columns.
    types : sequence of DataType
        Of the columns.

    Raises `DataError` with the number of the row, counted from 1, if the data is malformed.
    """
    _read_header(data)
    finder = RowFinder([width_of(type_) for type_ in types])
    block, filled, row = bytearray(BLOCK_BYTES), 0, 1
    while True:
        size = data.readinto(memoryview(block)[filled:])  # type: ignore[attr-defined]  # all files have it
        filled += size
        place, stop = 0, Stop.FULL
        while stop is Stop.FULL:
            whole = memoryview(block)[:filled]
            found = finder.find(whole, place)
            place, stop = found.end, found.stop
            if found.rows:
                arrays = [
                    column(whole, found.starts[i], found.lengths[i], type_, names[i], row)
                    for i, type_ in enumerate(types)
                ]
                yield pa.RecordBatch.from_arrays(arrays, names=list(names))
                row += found.rows
        if stop is Stop.TRAILER:
            return
        if stop is Stop.OTHER_COUNT:
            count = int.from_bytes(block[place : place + 2], "big", signed=True)
            raise DataError(f"COPY data, row {row}: {len(types)} fields expected, {count} found")
        if stop is Stop.OTHER_LENGTH:
            raise DataError(f"COPY data, row {row}: a field has a length that its column's type does not have")
        if not size:
            if place == filled:
                return  # the end of the data in place of a trailer, as ADBC's driver has it and PostgreSQL accepts
            raise DataError(f"COPY data ends in the middle of row {row}")
        filled -= place
        block[:filled] = block[place : place + filled]
        if 2 * filled > len(block):
            block = block + bytes(len(block))
        if filled > _MOST_ROW_BYTES:
            raise DataError(f"COPY data, row {row}: the row is too long")


def _read_header(data: BinaryIO) -> None:
    head = data.read(len(HEADER))
    if len(head) != len(HEADER) or not head.startswith(SIGNATURE):
        raise DataError("COPY file signature not recognized: this is no data in the binary format")
    flags, extension = struct.unpack("!ii", head[len(SIGNATURE) :])
    if flags or not 0 <= extension < 1 << 16:
        raise DataError("the header of the COPY data has flags that are not supported")
    data.read(extension)
