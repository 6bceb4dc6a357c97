"""Small batches inside a reply: columns in their memory layout, without Arrow's messages.

    vector            column     bytes sent
    Flat              Numbers    the values
    Narrow            Codes      the codes
    Dict              Entries    the codes, the entries' offsets and texts
    Text              Texts      offsets and texts
    Const             Constant
    all else          Arrow      one Arrow batch

Arrow takes some 40 microseconds to pack a column and as many to read it, whatever its size (`batches`, which is for
batches of any size). Here they are one or two; everything is copied twice.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
from msgspec import Struct

from .... import errors
from ....model.codec.values import value_from_plain, value_to_plain
from ....model.types import DataType, Kind
from ....model.vectors import encoded_batches
from ....model.vectors.sizes import text_bytes
from ....model.vectors.vector import Array, Batch, Const, Dict, Flat, Narrow, Text, Vector
from .batches import TypePlain, type_from_plain, type_to_plain
from .untrusted_rows import check_rows, read_batch


class Numbers(Struct, frozen=True, array_like=True, tag=1):
    """Values of a numpy dtype. `present`: a byte per row, empty if no value is NULL. `bounds`: low and high."""

    value_type: TypePlain
    dtype: str
    values: bytes
    present: bytes
    bounds: tuple[Any, Any]


class Codes(Struct, frozen=True, array_like=True, tag=2):
    """Codes over a base; `top` as in `Narrow`."""

    value_type: TypePlain
    dtype: str
    codes: bytes
    present: bytes
    base: Any
    top: Any


class Texts(Struct, frozen=True, array_like=True, tag=3):
    """Texts or binaries one after the other, none NULL; `offsets`: int32, one more than texts."""

    value_type: TypePlain
    offsets: bytes
    data: bytes


class Entries(Struct, frozen=True, array_like=True, tag=4):
    """Codes into a dictionary."""

    value_type: TypePlain
    dtype: str
    codes: bytes
    present: bytes
    entries: Texts
    ordered: bool


class Constant(Struct, frozen=True, array_like=True, tag=5):
    """One value for all rows."""

    value_type: TypePlain
    value: Any


class Arrow(Struct, frozen=True, array_like=True, tag=6):
    """An array of `model.vectors.encoded_batches`, and the data to restore its vector."""

    value_type: TypePlain
    schema: bytes
    data: bytes
    told: dict[bytes, bytes]


Column = Numbers | Codes | Texts | Entries | Constant | Arrow


class SmallBatch(Struct, frozen=True, array_like=True):
    """A batch whose columns have been read."""

    rows: int
    columns: tuple[Column, ...]


# ---- sending ---------------------------------------------------------------------------------------------------------


def small_batch(batch: Batch) -> SmallBatch:
    """Returns the batch for transport."""
    return SmallBatch(batch.length, tuple([_column(vector) for vector in batch.columns()]))


def sent_bytes(batch: Batch) -> int:
    """Returns the approximate number of bytes of `small_batch`."""
    return sum([_sent_bytes(vector) for vector in batch.columns()])


def _sent_bytes(vector: Vector) -> int:
    rows = len(vector)
    if isinstance(vector, Const):
        return 64
    if isinstance(vector, Narrow):
        return rows + int(vector.codes.nbytes)
    if isinstance(vector, Dict):
        # Of a dictionary with more entries than there are rows, only those that occur are sent.
        entries = max(1, len(vector.dictionary))
        return rows + int(vector.codes.nbytes) + text_bytes(vector.dictionary) * min(rows, entries) // entries
    if isinstance(vector, Flat):
        return rows + int(vector.values().nbytes)
    return text_bytes(vector.to_arrow())


def _column(vector: Vector) -> Column:
    type_ = type_to_plain(vector.type)
    if isinstance(vector, Narrow):
        codes, top = vector.codes, None if vector.top is None else value_to_plain(vector.top)
        return Codes(type_, codes.dtype.str, codes.tobytes(), _present(vector), value_to_plain(vector.base), top)
    if isinstance(vector, Flat) and vector.type.kind is not Kind.INTERVAL and vector.values().dtype.kind in "iufb":
        values, bounds = vector.values(), (value_to_plain(vector.low), value_to_plain(vector.high))
        return Numbers(type_, values.dtype.str, values.tobytes(), _present(vector), bounds)
    if isinstance(vector, Const):
        return Constant(type_, value_to_plain(vector.value))
    if isinstance(vector, Dict):
        vector = encoded_batches.cut_down(vector)
        if _is_plain(vector.dictionary):
            codes, entries = vector.codes, _texts(type_, vector.dictionary)
            return Entries(type_, codes.dtype.str, codes.tobytes(), _present(vector), entries, vector.ordered)
    if isinstance(vector, Text) and _is_plain(vector.array):
        return _texts(type_, vector.array)
    array, told = encoded_batches.encoded(vector)
    packed = pa.RecordBatch.from_arrays([array], names=["0"])
    return Arrow(type_, packed.schema.serialize().to_pybytes(), packed.serialize().to_pybytes(), told)


def _present(vector: Narrow | Flat | Dict) -> bytes:
    return b"" if vector.validity is None else vector.validity.tobytes()


def _is_plain(array: pa.Array) -> bool:
    return (pa.types.is_string(array.type) or pa.types.is_binary(array.type)) and not array.null_count


def _texts(type_: TypePlain, array: pa.Array) -> Texts:
    if not len(array):
        return Texts(type_, bytes(4), b"")
    _, offsets, data = array.buffers()
    places = np.frombuffer(offsets, np.int32, len(array) + 1, 4 * array.offset)
    first, last = int(places[0]), int(places[-1])
    texts = b"" if data is None else data.slice(first, last - first).to_pybytes()
    return Texts(type_, (places - np.int32(first)).tobytes(), texts)


# ---- receiving -------------------------------------------------------------------------------------------------------


def batch_of(small: SmallBatch) -> Batch:
    """Returns the batch of `small_batch`; raises `ProtocolError` if it is malformed."""
    check_rows(small.rows)
    try:
        vectors = [_READERS[type(column)](column, small.rows) for column in small.columns]
        for vector in vectors:
            if len(vector) != small.rows:
                raise ValueError(f"a column of {len(vector)} rows in a batch of {small.rows}")
    except (errors.DataError, pa.ArrowException, OSError, ValueError, KeyError, IndexError, TypeError) as error:
        raise errors.ProtocolError(f"a malformed batch was received: {error}") from None
    return Batch(vectors, small.rows)


@lru_cache(1024)
def _type(plain: TypePlain) -> DataType:
    return type_from_plain(plain)


def _array(data: bytes, dtype: str) -> Array:
    return np.frombuffer(data, dtype) if data else np.empty(0, dtype)


def _validity(present: bytes, rows: int) -> Array | None:
    if not present:
        return None
    if len(present) != rows:
        raise ValueError(f"{len(present)} presence bytes for {rows} rows")
    return np.frombuffer(present, np.bool_)


def _read_numbers(column: Numbers, rows: int) -> Flat:
    low, high = column.bounds
    values, validity = _array(column.values, column.dtype), _validity(column.present, rows)
    return Flat(_type(column.value_type), values, validity, value_from_plain(low), value_from_plain(high))


def _read_codes(column: Codes, rows: int) -> Narrow:
    codes, validity = _array(column.codes, column.dtype), _validity(column.present, rows)
    base, top = value_from_plain(column.base), value_from_plain(column.top)
    return Narrow(_type(column.value_type), codes, base, validity, top)


def _read_texts(column: Texts, rows: int) -> Text:
    return Text(_type(column.value_type), _text_array(column))


def _read_entries(column: Entries, rows: int) -> Dict:
    codes, entries = _array(column.codes, column.dtype), _text_array(column.entries)
    return Dict(_type(column.value_type), codes, entries, _validity(column.present, rows), column.ordered)


def _text_array(column: Texts) -> pa.Array:
    if not column.offsets or len(column.offsets) % 4:
        raise ValueError(f"offsets of {len(column.offsets)} bytes")
    buffers = [None, pa.py_buffer(column.offsets), pa.py_buffer(column.data)]
    array = pa.Array.from_buffers(_type(column.value_type).arrow, len(column.offsets) // 4 - 1, buffers)
    array.validate(full=True)
    return array


def _read_constant(column: Constant, rows: int) -> Const:
    return Const(_type(column.value_type), value_from_plain(column.value), rows)


def _read_arrow(column: Arrow, rows: int) -> Vector:
    schema = pa.ipc.read_schema(pa.py_buffer(column.schema))
    packed = read_batch(pa.py_buffer(column.data), schema)
    return encoded_batches.decoded(_type(column.value_type), packed.column(0), column.told)


_READERS: dict[type[Column], Callable[[Any, int], Vector]] = {
    Numbers: _read_numbers,
    Codes: _read_codes,
    Texts: _read_texts,
    Entries: _read_entries,
    Constant: _read_constant,
    Arrow: _read_arrow,
}
