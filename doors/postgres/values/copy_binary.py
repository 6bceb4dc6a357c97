"""COPY in the binary format: data to columns.

    PGCOPY\\n\\377\\r\\n\\0   flags (4)   length of the extension (4)   extension
    fields (2)   length (4)   value   length (4)   value   ...      a row
    -1 (2)                                                          the end

Where a row begins follows from the lengths of all rows before it. Rather than to walk from field to field, all places
are found that look like the begin of a row: the number of fields. The end of a row is computed for all of them at
once, and those are kept that are reached from the first one.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from typing import Any, BinaryIO, Final

import numpy as np
import pyarrow as pa

from ....errors import DataError
from ....model.arrow_arrays import arrow_array
from ....model.types import DataType, Kind
from .columns import POSTGRES_EPOCH_DAYS, POSTGRES_EPOCH_MICROSECONDS
from .numerics import numeric_from_bytes
from .parameters import from_binary

SIGNATURE: Final = b"PGCOPY\n\xff\r\n\0"
HEADER: Final = SIGNATURE + bytes(8)
TRAILER: Final = b"\xff\xff"
BLOCK_BYTES: Final = 8 << 20
_MOST_ROW_BYTES: Final = 1 << 28
_DTYPES: Final = {
    Kind.BOOLEAN: ">i1", Kind.TINYINT: ">i2", Kind.SMALLINT: ">i2", Kind.INT: ">i4", Kind.BIGINT: ">i8",
    Kind.FLOAT: ">f4", Kind.DOUBLE: ">f8", Kind.DATE: ">i4", Kind.TIMESTAMP: ">i8",
}  # fmt: skip


def read_binary(data: BinaryIO, names: Sequence[str], types: Sequence[DataType]) -> Iterator[pa.RecordBatch]:
    """Yields the rows of data in the binary format. Raises `DataError` if it is malformed."""
    _read_header(data)
    rest, row, at_end = b"", 1, False
    while not at_end:
        piece = data.read(BLOCK_BYTES)
        block = rest + piece
        starts, lengths, end = _rows(block, len(types))
        trailer = block[end : end + 2]
        at_end = trailer == TRAILER
        if not at_end and len(trailer) == 2 and trailer != len(types).to_bytes(2, "big"):
            found = int.from_bytes(trailer, "big", signed=True)
            raise DataError(f"COPY data, row {row + starts.shape[1]}: {len(types)} fields expected, {found} found")
        if not piece and not at_end:
            raise DataError(f"COPY data ends in the middle of row {row + starts.shape[1]}")
        if starts.shape[1]:
            whole = np.frombuffer(block, np.uint8)
            arrays = [_column(whole, starts[i], lengths[i], type_, names[i]) for i, type_ in enumerate(types)]
            yield pa.RecordBatch.from_arrays(arrays, names=list(names))
            row += starts.shape[1]
        rest = block[end:]
        if len(rest) > _MOST_ROW_BYTES:
            raise DataError(f"COPY data, row {row}: the row is too long")


def _read_header(data: BinaryIO) -> None:
    head = data.read(len(HEADER))
    if len(head) != len(HEADER) or not head.startswith(SIGNATURE):
        raise DataError("COPY file signature not recognized: this is no data in the binary format")
    flags, extension = struct.unpack("!ii", head[len(SIGNATURE) :])
    if flags or not 0 <= extension < 1 << 16:
        raise DataError("the header of the COPY data has flags that are not supported")
    data.read(extension)


def _rows(block: bytes, columns: int) -> tuple[Any, Any, int]:
    """Begin and length of each field of the whole rows of a block (columns by rows), and where the last row ends."""
    data = np.frombuffer(block, np.uint8)
    size = len(data)
    if size < 2:
        return np.zeros((columns, 0), np.int64), np.zeros((columns, 0), np.int32), 0
    high, low = columns >> 8, columns & 0xFF
    candidates = np.flatnonzero((data[:-1] == high) & (data[1:] == low))
    starts = np.zeros((columns, len(candidates)), np.int64)
    lengths = np.zeros((columns, len(candidates)), np.int32)
    place = candidates + 2
    is_whole = np.ones(len(candidates), np.bool_)
    for column in range(columns):
        is_whole &= place + 4 <= size
        at = np.where(is_whole, place, 0)
        found = _big_endian(data, at, 4).view(">i4")[:, 0] if size >= 4 else np.full(len(at), -2)
        lengths[column], starts[column] = found, at + 4
        is_whole &= found >= -1
        place = at + 4 + np.where(is_whole, np.maximum(found, 0), 0).astype(np.int64)
        is_whole &= place <= size
    chosen = _reached(candidates, np.where(is_whole, place, -1))
    end = int(place[chosen[-1]]) if len(chosen) else 0
    return starts[:, chosen], lengths[:, chosen], end


def _reached(candidates: Any, following: Any) -> Any:
    """Positions of the rows among the candidates: those that are reached from place 0, each from the one before."""
    count = len(candidates)
    if not count or candidates[0] != 0 or following[0] < 0:
        return np.zeros(0, np.int64)
    if count > 1 and (following[:-1] == candidates[1:]).all():
        return np.arange(count if following[-1] >= 0 else count - 1)
    # The position behind a candidate; `count` if there is none.
    behind = np.searchsorted(candidates, following)
    known = behind < count
    known[known] = candidates[behind[known]] == following[known]
    jump = np.append(np.where(known & (following >= 0), behind, count), count)
    reached = np.zeros(count + 1, np.bool_)
    reached[0] = True
    for _ in range(max(1, count.bit_length())):
        reached[jump[np.flatnonzero(reached)]] = True
        jump = jump[jump]
    return np.flatnonzero(reached[:count] & (following >= 0))


def _big_endian(data: Any, starts: Any, width: int) -> Any:
    """The bytes of values of one width, as a table."""
    return np.ascontiguousarray(data[starts[:, None] + np.arange(width)])


def _column(data: Any, starts: Any, lengths: Any, type_: DataType, name: str) -> pa.Array:
    nulls = lengths < 0
    if type_.is_text:
        return _texts(data, starts, np.maximum(lengths, 0), nulls, type_, name)
    if type_.kind in _DTYPES:
        return _numbers(data, starts, lengths, nulls, type_, name)
    if type_.is_decimal:
        found = _decimals(data, starts, lengths, nulls, type_)
        if found is not None:
            return found
    read = numeric_from_bytes if type_.is_decimal else lambda value: from_binary(value, type_)
    whole = data.tobytes()
    values = [
        None if length < 0 else read(whole[start : start + length])
        for start, length in zip(starts.tolist(), lengths.tolist())
    ]
    try:
        return arrow_array([None if v is None else type_.to_python(type_.to_physical(v)) for v in values], type_.arrow)
    except DataError as error:
        raise type(error)(f"COPY data, column {name}: {error}") from None


def _numbers(data: Any, starts: Any, lengths: Any, nulls: Any, type_: DataType, name: str) -> pa.Array:
    dtype = np.dtype(_DTYPES[type_.kind])
    if not ((lengths == dtype.itemsize) | nulls).all():
        raise DataError(f"COPY data, column {name}: {dtype.itemsize} bytes expected for {type_}")
    has_nulls = bool(nulls.any())
    table = _big_endian(data, np.where(nulls, 0, starts) if has_nulls else starts, dtype.itemsize)
    values = table.view(dtype)[:, 0]
    mask = nulls if has_nulls else None
    if type_.kind is Kind.DATE:
        return pa.array((values + POSTGRES_EPOCH_DAYS).astype(np.int32), mask=mask).view(pa.date32())
    if type_.kind is Kind.TIMESTAMP:
        shifted = (values + POSTGRES_EPOCH_MICROSECONDS).astype(np.int64)
        return pa.array(shifted, mask=mask).view(pa.timestamp("us"))
    if type_.kind is Kind.TINYINT and ((values < -128) | (values > 127))[~nulls].any():
        raise DataError(f"COPY data, column {name}: a value is out of range for TINYINT")
    return pa.array(values.astype(type_.dtype), type_.arrow, mask=mask)


def _texts(data: Any, starts: Any, lengths: Any, nulls: Any, type_: DataType, name: str) -> pa.Array:
    offsets = np.zeros(len(starts) + 1, np.int32)
    np.cumsum(lengths, out=offsets[1:])
    places = np.repeat(starts - offsets[:-1], lengths) + np.arange(offsets[-1])
    valid = None
    if nulls.any():
        valid = pa.py_buffer(np.packbits(~nulls, bitorder="little"))
    buffers = [valid, pa.py_buffer(offsets), pa.py_buffer(data[places])]
    found = pa.Array.from_buffers(pa.binary(), len(starts), buffers)
    if type_.kind is Kind.BINARY:
        return found
    try:
        return found.cast(pa.string())
    except pa.ArrowInvalid:
        raise DataError(f"COPY data, column {name}: a text is not UTF-8") from None


def _decimals(data: Any, starts: Any, lengths: Any, nulls: Any, type_: DataType) -> pa.Array | None:
    """DECIMALs of up to 18 digits, if all values are plain; else None."""
    scale = type_.scale or 0
    at = np.where(nulls, 0, starts)
    if type_.is_wide or ((lengths < 8) & ~nulls).any() or len(data) < 8:
        return None
    head = _big_endian(data, at, 8).view(">i2")
    counts = np.where(nulls, 0, head[:, 0]).astype(np.int64)
    weights = head[:, 1].astype(np.int64)
    signs = head[:, 2].astype(np.int64) & 0xFFFF
    most = int(counts.max(initial=0))
    if ((counts < 0) | ((lengths != 8 + 2 * counts) & ~nulls) | ((signs != 0) & (signs != 0x4000) & ~nulls)).any():
        return None
    if most and int(np.where(counts > 0, weights, -1).max()) * 4 + 4 + scale > 18 + 3:
        return None
    total = np.zeros(len(starts), np.int64)
    for number in range(most):
        has = counts > number
        digit = np.where(has, _big_endian(data, np.where(has, at + 8 + 2 * number, 0), 2).view(">i2")[:, 0], 0)
        exponent = 4 * (weights - number) + scale
        if ((digit < 0) | (digit > 9999)).any() or (has & (exponent < -3) & (digit != 0)).any():
            return None
        down = np.where(exponent < 0, 10 ** np.clip(-exponent, 0, 3), 1)
        if (digit % down != 0).any():
            return None  # digits behind those of the column, which are rounded
        limit = np.where(has & (digit != 0), exponent, 0)
        if int(limit.max(initial=0)) > 18 or (digit * 10.0 ** np.clip(limit, 0, 18) >= 9e18).any():
            return None
        total += digit // down * 10 ** np.clip(exponent, 0, 18)
    assert type_.precision is not None
    if (total >= 10**type_.precision).any():
        return None  # the error shows the value
    total = np.where(signs == 0x4000, -total, total)
    words = np.empty((len(total), 2), np.int64)
    words[:, 0], words[:, 1] = total, total >> 63
    valid = pa.py_buffer(np.packbits(~nulls, bitorder="little")) if nulls.any() else None
    return pa.Array.from_buffers(type_.arrow, len(total), [valid, pa.py_buffer(words)])
