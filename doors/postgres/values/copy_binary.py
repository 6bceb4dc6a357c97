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
    widths = [np.dtype(_DTYPES[type_.kind]).itemsize if type_.kind in _DTYPES else 0 for type_ in types]
    while not at_end:
        piece = data.read(BLOCK_BYTES)
        block = rest + piece
        starts, lengths, end = _rows(block, widths)
        trailer = block[end : end + 2]
        at_end = trailer == TRAILER
        if not at_end and len(trailer) == 2 and trailer != len(types).to_bytes(2, "big"):
            found = int.from_bytes(trailer, "big", signed=True)
            raise DataError(f"COPY data, row {row + starts.shape[1]}: {len(types)} fields expected, {found} found")
        if not at_end and not starts.shape[1] and _has_row(block, len(types)):
            raise DataError(f"COPY data, row {row}: a field has a length that its column's type does not have")
        if not piece and not at_end and not trailer:
            return  # the end of the data in place of a trailer, as ADBC's driver has it and PostgreSQL accepts
        if not piece and not at_end:
            raise DataError(f"COPY data ends in the middle of row {row + starts.shape[1]}")
        if starts.shape[1]:
            arrays = [_column(block, starts[i], lengths[i], type_, names[i]) for i, type_ in enumerate(types)]
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


def _rows(block: bytes, widths: Sequence[int]) -> tuple[Any, Any, int]:
    """Begin and length of each field of the whole rows of a block (columns by rows), and where the last row ends.

    A place where a field has a length that its column cannot have (`widths`; 0: any) begins no row.
    """
    data = np.frombuffer(block, np.uint8)
    size = len(data)
    high, low = len(widths) >> 8, len(widths) & 0xFF
    candidates = np.flatnonzero((data[:-1] == high) & (data[1:] == low))
    rows = candidates
    starts: list[Any] = []
    lengths: list[Any] = []
    place = rows + 2
    for width in widths:
        kept = place + 4 <= size
        found = _numbers_at(block, np.where(kept, place, 0), ">i4")
        kept &= (found == -1) | ((found == width) if width else (found >= 0))
        following = place + 4 + np.maximum(found, 0)
        kept &= following <= size
        if not kept.all():
            rows, place, found, following = rows[kept], place[kept], found[kept], following[kept]
            starts, lengths = [begin[kept] for begin in starts], [length[kept] for length in lengths]
        starts.append(place + 4)
        lengths.append(found)
        place = following
    chosen = _reached(rows, place)
    end = int(place[chosen[-1]]) if len(chosen) else 0
    return np.stack(starts)[:, chosen], np.stack(lengths)[:, chosen], end


def _has_row(block: bytes, columns: int) -> bool:
    """True if a block begins with a whole row, of fields of any length."""
    place = 2
    for _ in range(columns):
        if place + 4 > len(block):
            return False
        place += 4 + max(0, int.from_bytes(block[place : place + 4], "big", signed=True))
    return place <= len(block)


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


def _numbers_at(block: Any, starts: Any, dtype: str) -> Any:
    """Numbers at any places of a block, aligned or not; of NULLs, in a block shorter than a number, zeros."""
    width = np.dtype(dtype).itemsize
    if len(block) < width:
        return np.zeros(len(starts), dtype[1:])
    windows: Any = np.ndarray((len(block) - width + 1,), dtype, block, strides=(1,))
    return windows[starts].astype(dtype[1:])


def _column(block: bytes, starts: Any, lengths: Any, type_: DataType, name: str) -> pa.Array:
    nulls = lengths < 0
    if type_.is_text:
        return _texts(np.frombuffer(block, np.uint8), starts, np.maximum(lengths, 0), nulls, type_, name)
    if type_.kind in _DTYPES:
        return _numbers(block, starts, nulls, type_, name)
    if type_.is_decimal:
        found = _decimals(block, starts, lengths, nulls, type_)
        if found is not None:
            return found
    read = numeric_from_bytes if type_.is_decimal else lambda value: from_binary(value, type_)
    values = [
        None if length < 0 else read(block[start : start + length])
        for start, length in zip(starts.tolist(), lengths.tolist())
    ]
    try:
        return arrow_array([None if v is None else type_.to_python(type_.to_physical(v)) for v in values], type_.arrow)
    except DataError as error:
        raise type(error)(f"COPY data, column {name}: {error}") from None


def _numbers(block: bytes, starts: Any, nulls: Any, type_: DataType, name: str) -> pa.Array:
    mask = nulls if nulls.any() else None
    values = _numbers_at(block, starts if mask is None else np.where(nulls, 0, starts), _DTYPES[type_.kind])
    if type_.kind is Kind.DATE:
        return pa.array((values + POSTGRES_EPOCH_DAYS).astype(np.int32), mask=mask).view(pa.date32())
    if type_.kind is Kind.TIMESTAMP:
        return pa.array(values + POSTGRES_EPOCH_MICROSECONDS, mask=mask).view(pa.timestamp("us"))
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


def _decimals(block: bytes, starts: Any, lengths: Any, nulls: Any, type_: DataType) -> pa.Array | None:
    """DECIMALs of up to 18 digits, if all values are plain; else None."""
    scale = type_.scale or 0
    at = np.where(nulls, 0, starts)
    if type_.is_wide or ((lengths < 8) & ~nulls).any() or len(block) < 8:
        return None
    head = _numbers_at(block, at, ">i8")
    counts = np.where(nulls, 0, head >> 48)
    weights = head << 16 >> 48
    signs = head >> 16 & 0xFFFF
    most = int(counts.max(initial=0))
    if ((counts < 0) | ((lengths != 8 + 2 * counts) & ~nulls) | ((signs != 0) & (signs != 0x4000) & ~nulls)).any():
        return None
    if most and int(np.where(counts > 0, weights, -1).max()) * 4 + 4 + scale > 18 + 3:
        return None
    total = np.zeros(len(starts), np.int64)
    for number in range(most):
        has = counts > number
        digit = np.where(has, _numbers_at(block, np.where(has, at + 8 + 2 * number, 0), ">i2").astype(np.int64), 0)
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
