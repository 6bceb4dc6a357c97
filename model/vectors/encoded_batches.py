"""Batches as Arrow record batches without decoding them, and back.

Each vector becomes one Arrow array of its physical form; its field's metadata describes the vector:

    form     array                      further metadata
    flat     the physical values        low, high
    narrow   the codes                  base, top
    dict     codes into a dictionary    ordered
    null     as many nulls
    plain    `Vector.to_arrow()`        (texts, wide decimals, intervals, constants)

Rooms above that have vectors of their own pass their own `encode` and `decode`, which fall back on these.

A batch that was cut out of a larger one shares the larger one's dictionary; one of more entries than rows is cut down.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from ..arrow_arrays import arrow_array, dtype_of, fill_nulls, numpy_array
from ..types import DataType, Kind
from .vector import Array, Batch, Const, Dict, Flat, Narrow, Vector, vector_from_arrow

FORM = b"form"
"""The key of the metadata that every field has."""

Encoded: TypeAlias = tuple[pa.Array, dict[bytes, bytes]]
"""An array, and its field's metadata."""


def to_record_batch(batch: Batch, encode: Callable[[Vector], Encoded] | None = None) -> pa.RecordBatch:
    """The batch, every column read, as a record batch with columns "0", "1", ..."""
    encode = encode or encoded
    fields, arrays = [], []
    for place, vector in enumerate(batch.columns()):
        array, told = encode(vector)
        fields.append(pa.field(str(place), array.type, metadata=told))
        arrays.append(array)
    if not arrays:
        return pa.record_batch([pa.nulls(batch.length)], names=["rows"])
    return pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields))


def from_record_batch(
    rows: pa.RecordBatch,
    types: Sequence[DataType],
    decode: Callable[[DataType, pa.Array, dict[bytes, bytes]], Vector] | None = None,
) -> Batch:
    """The batch that was passed to `to_record_batch`, with columns of these types."""
    decode = decode or decoded
    vectors = [decode(type_, rows.column(i), rows.schema.field(i).metadata) for i, type_ in enumerate(types)]
    return Batch(vectors, rows.num_rows)


def encoded(vector: Vector) -> Encoded:
    """The vector as an array, with the metadata to restore it."""
    if isinstance(vector, Narrow):
        told = {FORM: b"narrow", b"base": b"%d" % vector.base}
        if vector.top is not None:
            told[b"top"] = b"%d" % vector.top
        return array_of(vector.codes, vector.validity), told
    if isinstance(vector, Dict):
        vector = cut_down(vector)
        codes = array_of(vector.codes, vector.validity)
        array = pa.DictionaryArray.from_arrays(codes, vector.dictionary, ordered=vector.ordered, safe=False)
        return array, {FORM: b"dict", b"ordered": b"%d" % vector.ordered}
    if isinstance(vector, Const) and vector.value is None:
        return pa.nulls(len(vector)), {FORM: b"null"}
    if isinstance(vector, Flat) and vector.type.kind is not Kind.INTERVAL and vector.values().dtype != object:
        told = {FORM: b"flat"}
        if vector.low is not None and vector.high is not None:
            told |= {b"low": b"%d" % vector.low, b"high": b"%d" % vector.high}
        return array_of(vector.values(), vector.validity), told
    return vector.to_arrow(), {FORM: b"plain"}


def array_of(values: Array, validity: Array | None) -> pa.Array:
    """Values with NULLs where `validity` is not True, as a view of the values where their type allows."""
    if validity is None:
        return arrow_array(values)
    # A twentieth of the time that Arrow takes for a mask.
    present = pa.py_buffer(np.packbits(validity, bitorder="little"))
    held = np.packbits(values, bitorder="little") if values.dtype == np.bool_ else np.ascontiguousarray(values)
    return pa.Array.from_buffers(pa.from_numpy_dtype(values.dtype), len(values), [present, pa.py_buffer(held)])


def cut_down(vector: Dict) -> Dict:
    """The same values over the entries that occur, if there are few of them."""
    if len(vector.dictionary) <= len(vector.codes) or not len(vector.codes):
        return vector
    used, codes = np.unique(vector.codes, return_inverse=True)
    return Dict(
        vector.type, codes.astype(np.uint32), vector.dictionary.take(arrow_array(used)), vector.validity, vector.ordered
    )


def decoded(type_: DataType, array: pa.Array, told: dict[bytes, bytes]) -> Vector:
    """The vector that was passed to `encoded`."""
    form = told[FORM]
    if form == b"plain":
        return vector_from_arrow(type_, array)
    if form == b"null":
        return Const(type_, None, len(array))
    validity = validity_of(array)
    if form == b"dict":
        codes = values_of(array.indices)
        return Dict(type_, codes, array.dictionary, validity, ordered=told[b"ordered"] == b"1")
    values = values_of(array)
    if form == b"narrow":
        top = told.get(b"top")
        return Narrow(type_, values, int(told[b"base"]), validity, None if top is None else int(top))
    if b"low" in told:
        return Flat(type_, values, validity, int(told[b"low"]), int(told[b"high"]))
    return Flat(type_, values, validity)


def validity_of(array: pa.Array) -> Array | None:
    """Mask of the present values, as bool; None if all are present."""
    if not array.null_count:
        return None
    bits = array.buffers()[0]
    if bits is None:  # of an array of NULLs alone
        return np.zeros(len(array), np.bool_)
    stop = array.offset + len(array)
    # A tenth of the time that Arrow takes for it.
    unpacked: Array = np.unpackbits(np.frombuffer(bits, np.uint8), count=stop, bitorder="little")
    return unpacked[array.offset :].view(np.bool_)


def values_of(array: pa.Array) -> Array:
    """The values of an array of `array_of`, those under NULLs as they were: a view, but of bools."""
    if pa.types.is_boolean(array.type):
        if array.null_count:
            array = fill_nulls(array, False)
        bools: Array = numpy_array(array)
        return bools
    values = np.frombuffer(array.buffers()[1], dtype_of(array.type))[array.offset : array.offset + len(array)]
    return values if values.flags.aligned else values.copy()
