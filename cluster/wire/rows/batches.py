"""Batches as messages of a stream, still encoded, and back.

    dictionary    column number                 one Arrow batch of its entries
    part          rows, types, schema, forms    one Arrow batch, a column each
    ...
    end

The first part has column types and Arrow schema, and so does each part that changes them. A dictionary precedes the
first batch whose codes refer to it, and holds until the column has another one: the receiver's vectors share it as the
sender's do. Values, codes and texts are views of the bytes received. A batch of more than `PART_BYTES` is sent as
several parts, each of which becomes a batch.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec
import pyarrow as pa
from msgspec import Struct

from .... import errors
from ....model.codec.values import value_from_plain, value_to_plain
from ....model.types import DataType, Kind
from ....model.vectors import encoded_batches
from ....model.vectors.encoded_batches import FORM, Encoded
from ....model.vectors.vector import Batch, Const, Dict, Vector
from ...decoders import msgpack_decoder
from .untrusted_rows import check_rows, read_batch

PART_BYTES = 8 << 20
"""Of one message's body; far below every limit of gRPC's and Flight's."""

Message = tuple["Head", pa.Buffer]
"""The content of one message: its head, and bytes."""

TypePlain = tuple[str, int | None, int | None, int | None]


class DictionaryHead(Struct, frozen=True, array_like=True, tag=1):
    """The entries of a column's dictionary."""

    column: int
    value_type: TypePlain


class PartHead(Struct, frozen=True, array_like=True, tag=2):
    """Rows of a batch; `is_last`: the batch's last ones. None: as in the part before."""

    rows: int
    is_last: bool
    types: tuple[TypePlain, ...] | None
    schema: bytes | None
    forms: tuple[dict[bytes, bytes], ...]
    """Each column's form, of `model.vectors.encoded_batches`."""
    constants: dict[int, Any] = {}
    """The values of columns that are `Const`."""


Head = DictionaryHead | PartHead
_messages = msgpack_decoder(list[tuple[Head, bytes]])

_CONST = b"const"
_NO_BYTES = pa.py_buffer(b"")


def type_to_plain(type_: DataType) -> TypePlain:
    """Returns a column's type as plain data."""
    return (type_.kind.value, type_.precision, type_.scale, type_.length)


def type_from_plain(data: Sequence[Any]) -> DataType:
    """Returns the type of `type_to_plain`."""
    kind, precision, scale, length = data
    return DataType(Kind(kind), precision, scale, length)


class BatchEncoder:
    """Encodes one stream's batches as messages, in order."""

    def __init__(self) -> None:
        self._types: list[DataType] | None = None
        self._schema: pa.Schema | None = None
        self._dictionaries: dict[int, pa.Array] = {}

    def encode(self, batch: Batch) -> Iterator[Message]:
        """Returns the messages of one batch."""
        vectors = batch.columns()
        types = [vector.type for vector in vectors]
        arrays: list[pa.Array] = []
        forms: list[dict[bytes, bytes]] = []
        constants: dict[int, Any] = {}
        for column, vector in enumerate(vectors):
            if isinstance(vector, Dict):
                vector = self._shared(column, vector)
                if self._dictionaries.get(column) is not vector.dictionary:
                    self._dictionaries[column] = vector.dictionary
                    yield DictionaryHead(column, type_to_plain(vector.type)), _packed([vector.dictionary])
            elif isinstance(vector, Const):
                constants[column] = value_to_plain(vector.value)
            array, form = _encoded(vector)
            arrays.append(array)
            forms.append(form)
        yield from self._parts(arrays, forms, constants, types, batch.length)

    def _shared(self, column: int, vector: Dict) -> Dict:
        """Returns the vector unchanged if the receiver has its dictionary, or should get it; otherwise with a smaller
        one."""
        if self._dictionaries.get(column) is vector.dictionary:
            return vector
        return encoded_batches.cut_down(vector)

    def _parts(
        self,
        arrays: list[pa.Array],
        forms: list[dict[bytes, bytes]],
        constants: dict[int, Any],
        types: list[DataType],
        rows: int,
    ) -> Iterator[Message]:
        schema = pa.schema([pa.field(str(place), array.type) for place, array in enumerate(arrays)])
        count = max(1, min(rows, math.ceil(sum(array.nbytes for array in arrays) / PART_BYTES)))
        step = max(1, math.ceil(rows / count))
        for start in range(0, max(rows, 1), step):
            stop = min(start + step, rows)
            pieces = arrays if stop - start == rows else [array.slice(start, stop - start) for array in arrays]
            head = PartHead(
                rows=stop - start,
                is_last=stop == rows,
                types=None if self._types == types else tuple(map(type_to_plain, types)),
                schema=None if schema == self._schema else schema.serialize().to_pybytes(),
                forms=tuple(forms),
                constants=constants,
            )
            self._types, self._schema = types, schema
            yield head, _packed(pieces, schema)


class BatchDecoder:
    """Decodes one stream's messages to batches, in order."""

    def __init__(self) -> None:
        self._types: list[DataType] = []
        self._schema: pa.Schema = pa.schema([])
        self._dictionaries: dict[int, pa.Array] = {}

    def decode(self, head: Head, data: pa.Buffer) -> Batch | None:
        """Returns the batch of a part; None for another message. Raises `ProtocolError` if head and bytes do not
        match."""
        try:
            if isinstance(head, DictionaryHead):
                type_ = type_from_plain(head.value_type)
                schema = pa.schema([pa.field("0", type_.arrow)])
                self._dictionaries[head.column] = read_batch(data, schema).column(0)
                return None
            return self._part(head, data)
        except (errors.DataError, pa.ArrowException, OSError, ValueError, KeyError, IndexError, TypeError) as error:
            raise errors.ProtocolError(f"a malformed batch was received: {error}") from None

    def _part(self, head: PartHead, data: pa.Buffer) -> Batch:
        check_rows(head.rows)
        if head.types is not None:
            self._types = [type_from_plain(type_) for type_ in head.types]
        if head.schema is not None:
            self._schema = pa.ipc.read_schema(pa.py_buffer(head.schema))
        if not self._types:
            return Batch([], head.rows)
        rows = read_batch(data, self._schema)
        if rows.num_rows != head.rows or not len(self._types) == rows.num_columns == len(head.forms):
            raise ValueError(f"{rows.num_rows} rows of {rows.num_columns} columns, expected {head.rows}")
        vectors = [
            self._vector(column, type_, rows.column(column), form, head.constants)
            for column, (type_, form) in enumerate(zip(self._types, head.forms, strict=True))
        ]
        return Batch(vectors, head.rows)

    def _vector(
        self, column: int, type_: DataType, array: pa.Array, form: dict[bytes, bytes], constants: dict[int, Any]
    ) -> Vector:
        if form[FORM] == _CONST:
            return Const(type_, value_from_plain(constants[column]), len(array))
        if form[FORM] == b"dict":
            validity = encoded_batches.validity_of(array)
            codes = encoded_batches.values_of(array)
            return Dict(type_, codes, self._dictionaries[column], validity, ordered=form[b"ordered"] == b"1")
        return encoded_batches.decoded(type_, array, form)


def encode_batch(batch: Batch) -> bytes:
    """Returns one batch as bytes."""
    messages = [(head, data.to_pybytes()) for head, data in BatchEncoder().encode(batch)]
    return msgspec.msgpack.encode(messages)


def decode_batch(data: bytes) -> list[Batch]:
    """Returns the batch of `encode_batch`, in its parts; raises `ProtocolError` for malformed bytes."""
    decoder = BatchDecoder()
    try:
        messages = _messages.decode(data)
    except (msgspec.DecodeError, ValueError, RecursionError) as error:  # invalid UTF-8 is a ValueError
        raise errors.ProtocolError(f"a malformed batch was received: {error}") from None
    parts = [decoder.decode(head, pa.py_buffer(body)) for head, body in messages]
    return [part for part in parts if part is not None]


def _encoded(vector: Vector) -> Encoded:
    if isinstance(vector, Dict):
        form = {FORM: b"dict", b"ordered": b"%d" % vector.ordered}
        return encoded_batches.array_of(vector.codes, vector.validity), form
    if isinstance(vector, Const):
        return pa.nulls(len(vector)), {FORM: _CONST}
    return encoded_batches.encoded(vector)


def _packed(arrays: Sequence[pa.Array], schema: pa.Schema | None = None) -> pa.Buffer:
    if not arrays:
        return _NO_BYTES
    if schema is None:
        schema = pa.schema([pa.field(str(place), array.type) for place, array in enumerate(arrays)])
    return pa.RecordBatch.from_arrays(list(arrays), schema=schema).serialize()
