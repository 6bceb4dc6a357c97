"""The format of delta files: deltas to bytes and back. `delta_file` draws it.

Blocks are made of *parts* that are stored and read on their own: a head (rows, timestamps, kinds) and one part per
column, so that a scan of one column reads no values of another, and a question about existence no values at all.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from ...errors import CorruptionError
from ...model.arrow_arrays import arrow_array, numpy_array
from ...model.codec.packing import pack, unpack
from ...model.lazy_dataclass import dataclass
from ...model.schema import Schema
from ...model.types import DataType, Kind, type_from_arrow
from ...model.vectors.vector import Array, physical_to_arrow, vector_from_arrow
from ..columns.column_file import ROW_GROUP_ROWS
from ..columns.encodings import narrowest
from ..columns.page_layouts import offsets_of, pack_bits, unpack_bits
from ..files.file_identity import check_identity
from .deltas import DeltaColumn, DeltaKind, Deltas

MAGIC = b"NYALADLT"
BLOCK_DELTAS = 65_536
"""No block holds more deltas."""
_NUMBERS = struct.Struct("<QQB")
_COUNT = struct.Struct("<I")
_SAMPLE = 256
"""Size of a sample of numbers that is first tested for a common unit."""


class Part(NamedTuple):
    """Location of a part of a block: its record in the footer."""

    offset: int
    stored: int
    raw: int
    crc: int
    compression: int


@dataclass(frozen=True, slots=True)
class BlockRecord:
    """Footer record of a block. `columns` has the number of values and the part of each column, by id."""

    first_row: int
    last_row: int
    oldest: int
    newest: int
    count: int
    deletes: int
    reinserts: int
    head: Part
    columns: Mapping[int, tuple[int, Part]]


@dataclass(frozen=True, slots=True)
class DeltaFooter:
    """The footer of a delta file: the type of each column by id, and the blocks in order."""

    types: Mapping[int, DataType]
    blocks: tuple[BlockRecord, ...]
    file: str = ""


# ---- footer ------------------------------------------------------------------------------------------------------


def encode_footer(footer: DeltaFooter) -> bytes:
    """The footer's msgpack map."""
    fields: dict[str, object] = {
        "types": [[column, t.kind.value, t.precision, t.scale] for column, t in footer.types.items()],
        "blocks": [
            [
                *(b.first_row, b.last_row, b.oldest, b.newest, b.count, b.deletes, b.reinserts),
                list(b.head),
                [[column, values, *part] for column, (values, part) in b.columns.items()],
            ]
            for b in footer.blocks
        ],
    }
    if footer.file:
        fields["file"] = footer.file
    return pack(fields)


def decode_footer(data: bytes, path: str) -> DeltaFooter:
    """The inverse of `encode_footer`, of bytes whose checksum is right."""
    try:
        fields = unpack(data)
        types = {c: DataType(Kind(kind), precision, scale) for c, kind, precision, scale in fields["types"]}
        blocks = tuple(_block_record(*fields_of_block) for fields_of_block in fields["blocks"])
    except (ValueError, TypeError, KeyError) as error:
        raise CorruptionError(f"does not decode: {error}", path, "footer") from error
    check_identity(fields.get("file", ""), path, "footer")
    return DeltaFooter(types, blocks, fields.get("file", ""))


def _block_record(
    first_row: int,
    last_row: int,
    oldest: int,
    newest: int,
    count: int,
    deletes: int,
    reinserts: int,
    head: list[int],
    columns: list[list[int]],
) -> BlockRecord:
    parts = {column: (values, Part(*part)) for column, values, *part in columns}
    return BlockRecord(first_row, last_row, oldest, newest, count, deletes, reinserts, Part(*head), parts)


def column_types(schema: Schema, deltas: Deltas) -> dict[int, DataType]:
    """The types of the columns that deltas give values; types of dropped columns are derived from Arrow's."""
    known = {
        column.id: DataType(column.type.kind, column.type.precision, column.type.scale) for column in schema.columns
    }
    return {
        column: known.get(column) or type_from_arrow(given.values.type)
        for column, given in sorted(deltas.columns.items())
    }


# ---- blocks ------------------------------------------------------------------------------------------------------


def cut(deltas: Deltas) -> Iterator[Deltas]:
    """The deltas of each block: of one row group, not more than `BLOCK_DELTAS`."""
    groups = np.searchsorted(deltas.rows, np.arange(0, int(deltas.rows[-1]) + ROW_GROUP_ROWS + 1, ROW_GROUP_ROWS))
    for start, stop in zip(groups[:-1].tolist(), groups[1:].tolist()):
        for low in range(start, stop, BLOCK_DELTAS):
            yield _slice(deltas, low, min(low + BLOCK_DELTAS, stop))


def _slice(deltas: Deltas, low: int, high: int) -> Deltas:
    columns = {}
    for column, given in deltas.columns.items():
        first, last = (int(i) for i in np.searchsorted(given.places, (low, high)))
        if first < last:
            columns[column] = DeltaColumn(given.places[first:last] - low, given.values[first:last])
    return Deltas(deltas.rows[low:high], deltas.timestamps[low:high], deltas.kinds[low:high], columns)


def encode_head(deltas: Deltas) -> bytes:
    """Rows, timestamps and kinds of a block."""
    if deltas.oldest == deltas.newest:  # of one write, as a rule
        stamps, codes = deltas.timestamps[:1], np.zeros(len(deltas), np.int64)
    else:
        stamps = np.unique(deltas.timestamps)  # few: with `return_inverse` numpy would sort the whole block
        codes = stamps.searchsorted(deltas.timestamps)
    return b"".join(
        [
            _COUNT.pack(len(stamps)),
            _encode_numbers(np.diff(deltas.rows).view(np.uint64)),
            _encode_numbers(np.diff(stamps)),
            _encode_numbers(codes.astype(np.uint64)),
            _encode_numbers(deltas.kinds.astype(np.uint64)),
        ]
    )


def decode_head(part: pa.Buffer, record: BlockRecord) -> Deltas:
    """The deltas of a block without values. `ValueError` if the bytes do not match the record."""
    reader = _Reader(part)
    (distinct,) = _COUNT.unpack(reader.take(_COUNT.size))
    rows = _summed(record.first_row, reader.numbers(record.count - 1)).view(np.int64)
    stamps = _summed(record.oldest, reader.numbers(distinct - 1))
    codes = reader.numbers(record.count)
    kinds = reader.numbers(record.count).astype(np.uint8)
    reader.finish()
    if int(codes.max()) >= distinct:
        raise ValueError(f"timestamp {int(codes.max())} of {distinct}")
    return Deltas(rows, stamps.take(codes.view(np.int64)), kinds)


def encode_column(type_: DataType, given: DeltaColumn) -> bytes:
    """Places and values of one column in a block."""
    values = given.values
    nulls = values.null_count
    parts = [_encode_numbers(np.diff(given.places, prepend=-1).view(np.uint64)), _COUNT.pack(nulls)]
    if nulls:
        validity = numpy_array(values.is_valid())
        parts.append(np.packbits(validity, bitorder="little").tobytes())
        values = values.drop_null()
    return b"".join([*parts, _encode_values(type_, values)])


def decode_places(part: pa.Buffer, count: int) -> Array:
    """Which deltas of the block give the column its `count` values: ndarray of int64, ascending."""
    return _places(_Reader(part), count)


def decode_column(part: pa.Buffer, type_: DataType, count: int) -> DeltaColumn:
    """The inverse of `encode_column`. `ValueError` if the bytes do not match the record."""
    reader = _Reader(part)
    places = _places(reader, count)
    (nulls,) = _COUNT.unpack(reader.take(_COUNT.size))
    if not nulls:
        return DeltaColumn(places, _decode_values(reader, type_, count))
    bits = np.frombuffer(reader.take(-(-count // 8)), np.uint8)
    validity = np.unpackbits(bits, count=count, bitorder="little").view(np.bool_)
    present = _decode_values(reader, type_, count - nulls)
    spread = arrow_array(np.cumsum(validity) - 1, mask=~validity)
    return DeltaColumn(places, present.take(spread))


def _places(reader: _Reader, count: int) -> Array:
    return np.asarray((np.cumsum(reader.numbers(count)) - np.uint64(1)).view(np.int64))


def _summed(first: int, gaps: Array) -> Array:
    """The numbers that begin with `first` and are `gaps` apart: ndarray of uint64."""
    numbers = np.empty(len(gaps) + 1, np.uint64)
    numbers[0] = first
    numbers[1:] = gaps
    return np.cumsum(numbers, out=numbers)


# ---- values ------------------------------------------------------------------------------------------------------


def _encode_values(type_: DataType, values: pa.Array) -> bytes:
    """Values without NULLs."""
    if type_.is_text:
        lengths, data = _text_parts(values)
        return _encode_numbers(lengths.astype(np.uint64)) + data.tobytes()
    if type_.is_wide:
        return np.frombuffer(values.buffers()[1], "<u8")[2 * values.offset :][: 2 * len(values)].tobytes()
    physical = vector_from_arrow(type_, values).values()
    if type_.is_code_like:
        signed = physical.astype(np.int64)
        low = int(signed.min(initial=0)) if len(signed) else 0
        return _encode_numbers(signed.view(np.uint64), low % (1 << 64))
    return physical.astype(type_.dtype.newbyteorder("<"), copy=False).tobytes()


def _text_parts(values: pa.Array) -> tuple[Array, Array]:
    """(lengths, bytes) of texts."""
    if not len(values):
        return np.empty(0, np.int32), np.empty(0, np.uint8)
    _, offsets, data = values.buffers()
    ends = np.frombuffer(offsets, np.int32)[values.offset : values.offset + len(values) + 1]
    held = np.empty(0, np.uint8) if data is None else np.frombuffer(data, np.uint8)
    return np.diff(ends), held[int(ends[0]) : int(ends[-1])]


def _decode_values(reader: _Reader, type_: DataType, count: int) -> pa.Array:
    """`count` values, the last thing in a part."""
    if type_.is_text:
        offsets = offsets_of(reader.numbers(count))
        data = reader.rest(int(offsets[-1]))
        return pa.Array.from_buffers(type_.arrow, count, [None, pa.py_buffer(offsets), data])
    if type_.is_wide:
        return pa.Array.from_buffers(type_.arrow, count, [None, reader.rest(16 * count)])
    if type_.is_code_like:
        numbers = reader.numbers(count).view(np.int64)
        reader.finish()
        return physical_to_arrow(type_, numbers)
    dtype = type_.dtype.newbyteorder("<")
    return physical_to_arrow(type_, np.frombuffer(reader.rest(count * dtype.itemsize), dtype))


# ---- numbers -----------------------------------------------------------------------------------------------------


def _encode_numbers(numbers: Array, base: int | None = None) -> bytes:
    """Numbers (ndarray of uint64) as codes over a base; `base` is the smallest, unless given for signed ones."""
    if not len(numbers):
        return _NUMBERS.pack(0, 1, 0)
    base = int(numbers.min()) if base is None else base
    codes = numbers - np.uint64(base)
    unit = _unit(codes)
    if unit > 1:
        codes //= np.uint64(unit)
    top = int(codes.max())
    bits = top.bit_length()
    return _NUMBERS.pack(base, unit, bits) + pack_bits(codes.astype(narrowest(top)), bits)


def _unit(codes: Array) -> int:
    """Greatest common divisor of all codes; hybrid timestamps of distant writes are multiples of 4,096."""
    if np.gcd.reduce(codes[:_SAMPLE]) == 1:
        return 1
    return int(np.gcd.reduce(codes)) or 1


class _Reader:
    """Takes a part apart from its beginning."""

    def __init__(self, part: pa.Buffer):
        self._part = part
        self._place = 0

    def take(self, size: int) -> pa.Buffer:
        """The next `size` bytes."""
        if size > self._part.size - self._place:
            raise ValueError(f"{self._part.size} bytes are too few")
        self._place += size
        return self._part.slice(self._place - size, size)

    def numbers(self, count: int) -> Array:
        """Numbers as `_encode_numbers` wrote them: a new ndarray of uint64, shape (count,)."""
        base, unit, bits = _NUMBERS.unpack(self.take(_NUMBERS.size))
        planes = np.frombuffer(self.take(bits * -(-count // 8)), np.uint8)
        codes = unpack_bits(planes, count, bits, narrowest((1 << bits) - 1)).astype(np.uint64)
        if unit > 1:
            codes *= np.uint64(unit)
        codes += np.uint64(base)
        return codes

    def rest(self, size: int) -> pa.Buffer:
        """The last `size` bytes."""
        taken = self.take(size)
        self.finish()
        return taken

    def finish(self) -> None:
        """Raise `ValueError` unless everything was taken."""
        if self._place != self._part.size:
            raise ValueError(f"{self._part.size - self._place} bytes are over")


def delta_counts(deltas: Deltas) -> tuple[int, int]:
    """Numbers of DELETEs and REINSERTs."""
    return (
        int(np.count_nonzero(deltas.kinds == DeltaKind.DELETE)),
        int(np.count_nonzero(deltas.kinds == DeltaKind.REINSERT)),
    )
