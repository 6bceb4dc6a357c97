"""Checks of a client's rows, before anything is allocated for them: a small message must not cost much memory.

nyala sends rows as Arrow IPC streams with plain buffers, so the received rows are views of the message. Arrow's format
can also describe much in few bytes:

    compressed buffers      30 kB are 900 MB when they are read; nyala never sends any
    columns without bytes   columns of type null, and run-end encoded ones, have any number of rows
    dictionaries            a row's code of one byte represents a text of any length
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc

from ....errors import ProtocolError

MAX_DECODED_BYTES = 256 << 20
"""Most bytes of the values that the dictionaries of one message represent."""

MAX_PART_ROWS = 1 << 26
"""Of a message of a scan; those of nyala have some 100,000."""

_DICTIONARY, _RECORD_BATCH = 2, 3
"""`MessageHeader` in Arrow's Message.fbs."""
_HEADER_TYPE, _HEADER = 1, 2
"""Fields of `Message`."""
_DATA = 1
"""Field of `DictionaryBatch`: a `RecordBatch`."""
_COMPRESSION = 3
"""Field of `RecordBatch`."""


def read_rows(data: bytes) -> pa.RecordBatch:
    """Returns the only record batch of a stream, whose values are views of it. Raises `ProtocolError`, before
    allocation, if it would take much more memory than it has bytes; Arrow's errors if it is malformed."""
    buffer = pa.py_buffer(data)
    for metadata in _metadata(buffer):
        if _is_compressed(metadata):
            raise ProtocolError(
                "the rows of a write are compressed; servers accept only Arrow IPC without compression, so that a "
                "small "
                "message does not become a large one"
            )
    with pa.ipc.open_stream(buffer) as reader:
        batches = list(reader)
    if len(batches) != 1:
        raise ProtocolError(f"a write has {len(batches)} record batches instead of one")
    if batches[0].num_rows > 8 * len(data):  # a row has a bit at least, since every table has a key
        raise ProtocolError(f"a write of {len(data)} bytes claims to have {batches[0].num_rows} rows")
    batches[0].validate(full=True)
    _check_dictionaries(batches[0])
    return batches[0]


def read_batch(data: pa.Buffer, schema: pa.Schema) -> pa.RecordBatch:
    """Returns the record batch of one message without its schema, as in scans. Raises `ProtocolError` if it is
    compressed: a server that sends one is broken, or of another program."""
    message = pa.ipc.read_message(data)
    if _is_compressed(memoryview(message.metadata)):
        raise ProtocolError("the rows of a scan are compressed; nyala never sends compressed rows")
    return pa.ipc.read_record_batch(message, schema)


def check_rows(count: int) -> None:
    """Raises `ProtocolError` if a part of a batch claims more rows than nyala ever sends: constant columns have any
    number of rows in no bytes."""
    if not 0 <= count <= MAX_PART_ROWS:
        raise ProtocolError(f"a batch claims to have {count:,} rows; at most {MAX_PART_ROWS:,} are accepted")


def _metadata(stream: pa.Buffer) -> Iterator[memoryview]:
    for message in pa.ipc.MessageReader.open_stream(stream):
        yield memoryview(message.metadata)


def _is_compressed(message: memoryview) -> bool:
    """True if a message is a batch whose buffers are compressed."""
    try:
        root = _Table(message, struct.unpack_from("<I", message, 0)[0])
        kind, batch = root.byte(_HEADER_TYPE), root.table(_HEADER)
        if kind == _DICTIONARY and batch is not None:
            batch = batch.table(_DATA)
        return kind in (_DICTIONARY, _RECORD_BATCH) and batch is not None and bool(batch.offset(_COMPRESSION))
    except (struct.error, IndexError):
        raise ProtocolError("the rows are malformed: the metadata of a message are cut short") from None


class _Table:
    """A table of a flatbuffer, as far as it is read here."""

    def __init__(self, data: memoryview, position: int):
        self._data = data
        self._position = position
        self._fields = position - struct.unpack_from("<i", data, position)[0]
        (self._fields_bytes,) = struct.unpack_from("<H", data, self._fields)

    def offset(self, field: int) -> int:
        """Returns a field's position, relative to the table; 0 if it has its default."""
        place = 4 + 2 * field
        return 0 if place >= self._fields_bytes else int(struct.unpack_from("<H", self._data, self._fields + place)[0])

    def byte(self, field: int) -> int:
        """Returns a field of one byte."""
        offset = self.offset(field)
        return int(self._data[self._position + offset]) if offset else 0

    def table(self, field: int) -> _Table | None:
        """Returns a field that is a table."""
        offset = self.offset(field)
        if not offset:
            return None
        place = self._position + offset
        return _Table(self._data, place + struct.unpack_from("<I", self._data, place)[0])


def _check_dictionaries(rows: pa.RecordBatch) -> None:
    total = 0
    for field, column in zip(rows.schema, rows.columns, strict=True):
        if not pa.types.is_dictionary(field.type):
            continue
        values = column.dictionary
        if pa.types.is_nested(values.type) or pa.types.is_dictionary(values.type):
            raise ProtocolError(f"column {field.name!r} of a write is a dictionary of {values.type}")
        if not (pa.types.is_binary(values.type) or pa.types.is_string(values.type) or _is_large(values.type)):
            continue
        total += pc.sum(pc.binary_length(values).take(column.indices)).as_py() or 0
        if total > MAX_DECODED_BYTES:
            raise ProtocolError(
                f"the dictionary of column {field.name!r} makes a write of {total:,} bytes; at most "
                f"{MAX_DECODED_BYTES:,} are accepted: send fewer rows at a time"
            )


def _is_large(type_: pa.DataType) -> bool:
    return bool(pa.types.is_large_string(type_) or pa.types.is_large_binary(type_))
