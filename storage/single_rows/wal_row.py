"""The body of a ROW entry of the log: one row that was written by itself.

    0       1      op code: 1 INSERT (whole row), 4 UPDATE (key and new values), 5 DELETE (key)
    1       1      zero
    2       2      number of columns, u16 little-endian; 0: all columns of the segment's schema
    4       2 n    places of the columns in the segment's schema, u16 each
            ...    msgpack array of physical values: integers, floats, booleans, texts, nil for NULL;
                   of decimals of more than 18 digits, 16 bytes: two's complement, little-endian

An Arrow record batch of one row takes some fifty times as long to make and several times the space. Replay reads many
of these entries as one record batch, column by column.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import field
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from ...model.arrow_arrays import arrow_array
from ...model.codec.packing import pack, unpack
from ...model.codec.values import decimal_to_bytes
from ...model.lazy_dataclass import dataclass
from ...model.store import Op
from ...model.types import type_from_arrow
from ...model.vectors.vector import Array, physical_to_arrow

_HEAD = struct.Struct("<BxH")


def row_front(op: Op, places: Sequence[int]) -> bytes:
    """Bytes before the values: the same for all rows with these columns."""
    return _HEAD.pack(op, len(places)) + struct.pack(f"<{len(places)}H", *places)


def encode_row(front: bytes, values: Sequence[Any]) -> bytes:
    """The body of a ROW entry; `values` of wide decimals went through `decimal_to_bytes`."""
    return front + pack(values)


@dataclass(frozen=True, eq=False)
class RowPart:
    """A ROW entry as it is read: like a `wal_format.WritePart` of one row, whose record batch is made at its first use.

    Parameters
    ----------
    op : Op
        INSERT, UPDATE or DELETE.
    places : tuple of int
        Positions of the columns in the segment's schema.
    values : tuple
        In their logged form.
    schema : pa.Schema
        Of the segment.
    """

    op: Op
    places: tuple[int, ...]
    values: tuple[Any, ...]
    schema: pa.Schema
    isset: dict[int, Array] = field(default_factory=dict)

    @property
    def row_count(self) -> int:
        """One."""
        return 1

    @cached_property
    def rows(self) -> pa.RecordBatch:
        """The row."""
        return joined_rows([self])


def decode_row(body: memoryview | bytes, schema: pa.Schema) -> RowPart:
    """The row of an entry; `schema` is that of the segment. `ValueError` where the bytes cannot be."""
    code, count = _HEAD.unpack_from(body)
    end = _HEAD.size + 2 * count
    places = struct.unpack_from(f"<{count}H", body, _HEAD.size) if count else tuple(range(len(schema)))
    values = tuple(unpack(body[end:]))
    if len(values) != len(places) or max(places) >= len(schema):
        raise ValueError(f"{len(values)} values for {len(places)} of {len(schema)} columns")
    return RowPart(Op(code), places, values, schema)


def joined_rows(parts: Sequence[RowPart]) -> pa.RecordBatch:
    """Rows of one segment with the same columns as one record batch."""
    fields = [parts[0].schema.field(place) for place in parts[0].places]
    columns = zip(*(part.values for part in parts), strict=True)
    arrays = [_array(f.type, list(values)) for f, values in zip(fields, columns, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields))


def _array(arrow: pa.DataType, values: list[Any]) -> pa.Array:
    type_ = type_from_arrow(arrow)
    if type_.is_text:
        return arrow_array(values, arrow)
    validity = None
    if None in values:
        validity = np.array([value is not None for value in values])
        nothing: Any = decimal_to_bytes(0) if type_.is_wide else 0
        values = [nothing if value is None else value for value in values]
    if not type_.is_wide:
        return physical_to_arrow(type_, np.array(values, type_.dtype), validity)
    mask = None if validity is None else arrow_array(validity).buffers()[1]
    return pa.Array.from_buffers(arrow, len(values), [mask, pa.py_buffer(b"".join(values))])
