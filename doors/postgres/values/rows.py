"""Batches as rows of the protocol: all messages of a batch at once, in one piece of memory.

    kind (1)   length (4)   fields (2)   length (4)   value   length (4)   value   ...

DataRow and the row of COPY in the binary format differ in `kind` alone. A compiled kernel joins the fields of all
columns row by row. Without it, everything of one width is written as a table of bytes, column by column, with strides;
such tables and the values of varying width are then joined by Arrow. Numbers that are never NULL need no join then: the
table is the message.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ....model.types import DataType
from . import kernels
from .columns import Fields, Varying, binary_array, fields

DATA_ROW: Final = b"D"
COPY_DATA: Final = b"d"
PIECE_BYTES: Final = 1 << 20
"""Size of a piece of a batch, in its own bytes, that is encoded at once."""
PIECE_ROWS: Final = 1 << 15
_HEAD: Final = 7
_NULL: Final = np.frombuffer(b"\xff\xff\xff\xff", np.uint8)


def pieces(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Cuts a batch into pieces of some rows, fewer if their texts are long."""
    rows = batch.num_rows
    size = batch.nbytes
    step = PIECE_ROWS if size <= PIECE_BYTES else max(1, min(PIECE_ROWS, rows * PIECE_BYTES // size))
    for start in range(0, rows, step):
        yield batch.slice(start, step)


def encode_rows(
    batch: pa.RecordBatch, types: Sequence[DataType], formats: Sequence[int], kind: bytes = DATA_ROW
) -> bytes:
    """The messages of all rows of a batch.

    Parameters
    ----------
    batch : pa.RecordBatch
    types : sequence of DataType
        Of its columns, as reported to the client.
    formats : sequence of int
        `types.TEXT` or `types.BINARY_FORMAT`, one for each column.
    kind : bytes
        `DATA_ROW` or `COPY_DATA`.
    """
    if not batch.num_rows:
        return b""
    return joined(_fields(batch, types, formats), batch.num_rows, kind)


class EncodedRows:
    """The rest of a batch at which a portal was suspended, as DataRow messages.

    A piece of the batch is encoded at once, since clients fetch few rows at a time (Spark by JDBC 1,000): to encode so
    few costs as much for each column as for each hundred rows.

    Parameters
    ----------
    batch : pa.RecordBatch
    types, formats : sequence
        As for `encode_rows`.
    """

    def __init__(self, batch: pa.RecordBatch, types: Sequence[DataType], formats: Sequence[int]):
        self.count = batch.num_rows
        """Number of rows that have not been taken."""
        self._pieces = pieces(batch)
        self._types = types
        self._formats = formats
        self._data = b""
        self._ends = np.zeros(1, np.int64)
        """Of the rows of the piece in `_data`, with the beginning of the first one."""
        self._place = 0

    def take(self, most: int) -> tuple[bytes, int]:
        """The messages of the next rows, at least one and `most` at most, and their number."""
        if self._place == len(self._ends) - 1:
            self._encode(next(self._pieces))
        last = min(self._place + most, len(self._ends) - 1)
        taken = self._data[int(self._ends[self._place]) : int(self._ends[last])]
        count, self._place = last - self._place, last
        self.count -= count
        return taken, count

    def _encode(self, piece: pa.RecordBatch) -> None:
        columns = _fields(piece, self._types, self._formats)
        self._data = joined(columns, piece.num_rows, DATA_ROW)
        self._ends = np.zeros(piece.num_rows + 1, np.int64)
        np.cumsum(np.broadcast_to(_lengths(columns) + _HEAD, piece.num_rows), out=self._ends[1:])
        self._place = 0


def _fields(batch: pa.RecordBatch, types: Sequence[DataType], formats: Sequence[int]) -> list[Fields]:
    return [fields(type_, array, format_) for type_, array, format_ in zip(types, batch.columns, formats, strict=True)]


def joined(columns: Sequence[Fields], rows: int, kind: bytes) -> bytes:
    """The messages of rows whose fields these are."""
    if kernels.compiled is None:
        return _joined_by_arrow(columns, rows, kind)
    found: bytes = kernels.compiled.join_fields(kind[0], rows, tuple(map(_buffers, columns)))
    return found


def _buffers(column: Fields) -> tuple[Any, int, Any, Any]:
    """Data, width, offsets and nulls of a column, for the compiled kernel."""
    if isinstance(column, Varying):
        _, offsets, data = column.array.buffers()
        return b"" if data is None else data, 0, np.frombuffer(offsets, np.int32), column.nulls
    return np.ascontiguousarray(column.data), column.width, None, column.nulls


def _joined_by_arrow(columns: Sequence[Fields], rows: int, kind: bytes) -> bytes:
    segments = _segments(columns)
    total = _lengths(columns)
    head = np.empty((rows, _HEAD), np.uint8)
    head[:, 0] = kind[0]
    head[:, 1:5] = _big_endian(total + 6, rows)
    head[:, 5:7] = np.frombuffer(len(columns).to_bytes(2, "big"), np.uint8)
    tables: list[Any] = [head]
    parts: list[pa.Array] = []
    for table, varying in segments:
        tables += table
        if varying is not None:
            parts += _as_array(tables, rows), varying
            tables = []
    if not parts:
        return bytes(_merged(tables, rows).data)
    if tables:
        parts.append(_as_array(tables, rows))
    whole = pc.binary_join_element_wise(*parts, b"")
    return bytes(memoryview(whole.buffers()[2])[: int(_end(whole))])


def _end(array: pa.Array) -> Any:
    return np.frombuffer(array.buffers()[1], np.int32)[len(array)]


def _segments(columns: Sequence[Fields]) -> Iterator[tuple[list[Any], pa.Array | None]]:
    """For each column: tables that precede its values of varying width, and these."""
    for column in columns:
        if isinstance(column, Varying):
            yield [_field_lengths(column.lengths, column.nulls)], column.array
        elif column.nulls is None:
            yield [np.broadcast_to(_big_endian(column.width, 1), (len(column.data), 4)), column.data], None
        else:
            lengths = np.where(column.nulls, 0, column.width).astype(np.int32)
            values = binary_array(lengths, np.ascontiguousarray(column.data[~column.nulls]).reshape(-1))
            yield [_field_lengths(lengths, column.nulls)], values


def _field_lengths(lengths: Any, nulls: Any) -> Any:
    table = _big_endian(lengths, len(lengths))
    if nulls is not None:
        table[nulls] = _NULL
    return table


def _lengths(columns: Sequence[Fields]) -> Any:
    """Bytes of all fields of each row, their own lengths included; a number if it is the same for all."""
    total: Any = 4 * len(columns)
    for column in columns:
        if isinstance(column, Varying):
            total = total + column.lengths
        elif column.nulls is None:
            total = total + column.width
        else:
            total = total + np.where(column.nulls, 0, column.width)
    return total


def _big_endian(values: Any, rows: int) -> Any:
    """Numbers as a table of 4 bytes each."""
    found = np.empty(rows, ">i4")
    found[:] = values
    return found.view(np.uint8).reshape(rows, 4)


def _merged(tables: Sequence[Any], rows: int) -> Any:
    """Tables side by side."""
    whole = np.empty((rows, sum(table.shape[1] for table in tables)), np.uint8)
    place = 0
    for table in tables:
        whole[:, place : place + table.shape[1]] = table
        place += table.shape[1]
    return whole


def _as_array(tables: Sequence[Any], rows: int) -> pa.Array:
    merged = _merged(tables, rows) if len(tables) > 1 else np.ascontiguousarray(tables[0])
    width = merged.shape[1]
    offsets = np.arange(rows + 1, dtype=np.int32) * np.int32(width)
    return pa.Array.from_buffers(pa.binary(), rows, [None, pa.py_buffer(offsets), pa.py_buffer(merged.reshape(-1))])
