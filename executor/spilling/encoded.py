"""Conversion of batches to Arrow record batches without decoding, and back: `model.vectors.encoded_batches` with one
more form.

| form | array |
|---|---|
| list | lists of encoded items |
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from ...model.arrow_arrays import arrow_array, numpy_array
from ...model.types import DataType
from ...model.vectors import encoded_batches
from ...model.vectors.encoded_batches import FORM, Encoded, decoded, encoded
from ...model.vectors.vector import Array, Batch, Vector
from ...sql.expressions import Column
from .lists import Lists


def to_record_batch(batch: Batch) -> pa.RecordBatch:
    """Convert the batch, every column read, to a record batch with columns "0", "1", ..."""
    return encoded_batches.to_record_batch(batch, _encoded)


def from_record_batch(rows: pa.RecordBatch, types: Sequence[DataType]) -> Batch:
    """Convert the record batch of `to_record_batch` back; `types` are the types of its columns."""
    return encoded_batches.from_record_batch(rows, types, _decoded)


def types_of(columns: Sequence[Column]) -> list[DataType]:
    """Types of a stream's columns."""
    return [column.type for column in columns]


def _encoded(vector: Vector) -> Encoded:
    if isinstance(vector, Lists):
        items, inner = _encoded(vector.items)
        listed = pa.large_list(pa.field("item", items.type, metadata=inner))
        return pa.LargeListArray.from_arrays(arrow_array(vector.offsets), items, type=listed), {FORM: b"list"}
    return encoded(vector)


def _decoded(type_: DataType, array: pa.Array, told: dict[bytes, bytes]) -> Vector:
    if told[FORM] == b"list":
        offsets: Array = numpy_array(array.offsets)
        items = array.values.slice(offsets[0], offsets[-1] - offsets[0])
        return Lists(_decoded(type_, items, array.type.value_field.metadata), offsets - offsets[0])
    return decoded(type_, array, told)
