"""Rows of writes in transit: a `WriteBatch` as the fields of a `Write`, and back.

`rows` is one record batch as an Arrow IPC stream, whose reader makes views of the bytes; `ops` one code or a byte per
row; `isset` a bitmap per column, eight rows to a byte, the first row in the highest bit.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from .... import errors
from ....model.store import Op, Timestamp, WriteBatch
from ....model.vectors.vector import Array
from ..messages.methods import Call, Write
from .untrusted_rows import read_rows


def write_to_request(
    batch: WriteBatch,
    *,
    tablet_id: str,
    schema_version: int,
    call: Call | None,
    check_only: bool = False,
    is_transaction: bool = False,
) -> Write:
    """Returns the batch as a request to a tablet."""
    return Write(
        tablet_id=tablet_id,
        schema_version=schema_version,
        rows=rows_to_bytes(batch.rows),
        ops=int(batch.ops) if isinstance(batch.ops, Op) else np.asarray(batch.ops, np.uint8).tobytes(),
        call=call,
        isset={name: np.packbits(np.asarray(given, np.bool_)).tobytes() for name, given in batch.isset.items()},
        all_or_none=batch.all_or_none,
        check_only=check_only,
        unchanged_since=batch.unchanged_since,
        is_transaction=is_transaction,
    )


def write_from_request(request: Write) -> WriteBatch:
    """Returns the batch of a request; raises `ProtocolError` if its parts do not match. Invalid ops, unknown columns
    and wrong types are detected when the rows are written."""
    rows = rows_from_bytes(request.rows)
    ops: Op | Array
    if isinstance(request.ops, bytes):
        ops = np.frombuffer(request.ops, np.uint8)
        if len(ops) != rows.num_rows:
            raise errors.ProtocolError(f"a write of {rows.num_rows} rows has {len(ops)} ops")
    else:
        try:
            ops = Op(request.ops)
        except ValueError:
            raise errors.ProtocolError(f"there is no op {request.ops}") from None
    isset = {name: _bits(name, bits, rows.num_rows) for name, bits in request.isset.items()}
    if request.unchanged_since is not None and not request.all_or_none:
        raise errors.ProtocolError("a write with unchanged_since must be all or none")
    since = None if request.unchanged_since is None else Timestamp(request.unchanged_since)
    return WriteBatch(rows, ops, request.all_or_none, isset, since)


def rows_to_bytes(rows: pa.RecordBatch) -> bytes:
    """Returns one record batch as an Arrow IPC stream."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as writer:
        writer.write_batch(rows)
    data: bytes = sink.getvalue().to_pybytes()
    return data


def rows_from_bytes(data: bytes) -> pa.RecordBatch:
    """Returns the record batch of a stream; raises `ProtocolError` if it is malformed."""
    try:
        return read_rows(data)
    except (pa.ArrowException, OSError, ValueError, KeyError) as error:
        raise errors.ProtocolError(f"the rows of a write are malformed: {error}") from None


def _bits(name: str, data: bytes, count: int) -> Array:
    if len(data) != (count + 7) // 8:
        raise errors.ProtocolError(f"isset of column {name!r}: {len(data)} bytes do not hold {count} bits")
    bits: Array = np.unpackbits(np.frombuffer(data, np.uint8), count=count).view(np.bool_)
    return bits
