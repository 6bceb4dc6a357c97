"""Batches as Arrow record batches without decoding them, and back.

Each vector becomes one Arrow array of its physical form; its field's metadata says how to make the vector again:

    form     array                      further metadata
    flat     the physical values        low, high
    narrow   the codes                  base, top
    dict     codes into a dictionary    ordered
    null     as many nulls
    list     lists of encoded items
    plain    `Vector.to_arrow()`        (texts, wide decimals, intervals, constants)

A batch that was cut out of a larger one shares the larger one's dictionary; one of more entries than rows is cut down.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from ...sql.expressions import Column
from ...storage.types import DataType, Kind
from ...storage.vector import Array, Batch, Const, Dict, Flat, Narrow, Vector, vector_from_arrow
from .lists import Lists

_FORM = b"form"


def to_record_batch(batch: Batch) -> pa.RecordBatch:
    """The batch, every column read, as a record batch with columns "0", "1", ..."""
    fields, arrays = [], []
    for place, vector in enumerate(batch.columns()):
        array, told = _encoded(vector)
        fields.append(pa.field(str(place), array.type, metadata=told))
        arrays.append(array)
    if not arrays:
        return pa.record_batch([pa.nulls(batch.length)], names=["rows"])
    return pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields))


def from_record_batch(rows: pa.RecordBatch, types: Sequence[DataType]) -> Batch:
    """The batch that `to_record_batch` was given, whose columns had these types."""
    vectors = [_decoded(type_, rows.column(i), rows.schema.field(i).metadata) for i, type_ in enumerate(types)]
    return Batch(vectors, rows.num_rows)


def types_of(columns: Sequence[Column]) -> list[DataType]:
    """The types of a stream's columns."""
    return [column.type for column in columns]


def _encoded(vector: Vector) -> tuple[pa.Array, dict[bytes, bytes]]:
    if isinstance(vector, Narrow):
        told = {_FORM: b"narrow", b"base": b"%d" % vector.base}
        if vector.top is not None:
            told[b"top"] = b"%d" % vector.top
        return _array(vector.codes, vector.validity), told
    if isinstance(vector, Dict):
        vector = _cut_down(vector)
        codes = _array(vector.codes, vector.validity)
        array = pa.DictionaryArray.from_arrays(codes, vector.dictionary, ordered=vector.ordered, safe=False)
        return array, {_FORM: b"dict", b"ordered": b"%d" % vector.ordered}
    if isinstance(vector, Const) and vector.value is None:
        return pa.nulls(len(vector)), {_FORM: b"null"}
    if isinstance(vector, Lists):
        items, inner = _encoded(vector.items)
        listed = pa.large_list(pa.field("item", items.type, metadata=inner))
        return pa.LargeListArray.from_arrays(pa.array(vector.offsets), items, type=listed), {_FORM: b"list"}
    if isinstance(vector, Flat) and vector.type.kind is not Kind.INTERVAL and vector.values().dtype != object:
        told = {_FORM: b"flat"}
        if vector.low is not None and vector.high is not None:
            told |= {b"low": b"%d" % vector.low, b"high": b"%d" % vector.high}
        return _array(vector.values(), vector.validity), told
    return vector.to_arrow(), {_FORM: b"plain"}


def _array(values: Array, validity: Array | None) -> pa.Array:
    return pa.array(values, mask=None if validity is None else ~validity)


def _cut_down(vector: Dict) -> Dict:
    """The same values over the entries that occur, where there are few of them."""
    if len(vector.dictionary) <= len(vector.codes) or not len(vector.codes):
        return vector
    used, codes = np.unique(vector.codes, return_inverse=True)
    return Dict(
        vector.type, codes.astype(np.uint32), vector.dictionary.take(pa.array(used)), vector.validity, vector.ordered
    )


def _decoded(type_: DataType, array: pa.Array, told: dict[bytes, bytes]) -> Vector:
    form = told[_FORM]
    if form == b"plain":
        return vector_from_arrow(type_, array)
    if form == b"null":
        return Const(type_, None, len(array))
    if form == b"list":
        offsets: Array = array.offsets.to_numpy()
        items = array.values.slice(offsets[0], offsets[-1] - offsets[0])
        return Lists(_decoded(type_, items, array.type.value_field.metadata), offsets - offsets[0])
    validity = None if not array.null_count else array.is_valid().to_numpy(zero_copy_only=False)
    if form == b"dict":
        codes = _values(array.indices, validity)
        return Dict(type_, codes, array.dictionary, validity, ordered=told[b"ordered"] == b"1")
    values = _values(array, validity)
    if form == b"narrow":
        top = told.get(b"top")
        return Narrow(type_, values, int(told[b"base"]), validity, None if top is None else int(top))
    if b"low" in told:
        return Flat(type_, values, validity, int(told[b"low"]), int(told[b"high"]))
    return Flat(type_, values, validity)


def _values(array: pa.Array, validity: Array | None) -> Array:
    """The values, those under NULLs zero."""
    if validity is not None:
        array = array.fill_null(False if pa.types.is_boolean(array.type) else 0)
    values: Array = array.to_numpy(zero_copy_only=False)
    return values
