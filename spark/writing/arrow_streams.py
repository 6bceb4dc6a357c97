"""Encodes rows as compressed Arrow streams: for commit messages, the record of jobs, cells of staging tables."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa


def stream_of(batches: Sequence[pa.RecordBatch], compression: str = "lz4") -> bytes | None:
    """Batches of one schema as an Arrow stream; None if there are none."""
    if not batches:
        return None
    found: bytes = stream_buffer(batches, compression).to_pybytes()
    return found


def stream_buffer(batches: Sequence[pa.RecordBatch], compression: str) -> pa.Buffer:
    """Batches of one schema, at least one, as an Arrow stream."""
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression=compression)
    with pa.ipc.new_stream(sink, batches[0].schema, options=options) as writer:
        for batch in batches:
            writer.write_batch(batch)
    return sink.getvalue()


def batches_of(stream: bytes | pa.Buffer | None) -> list[pa.RecordBatch]:
    """The batches of an Arrow stream."""
    if stream is None:
        return []
    with pa.ipc.open_stream(pa.py_buffer(stream)) as reader:
        return list(reader)
