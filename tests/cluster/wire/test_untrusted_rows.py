"""Small messages that would take much memory: refused before it is allocated. All messages of nyala are accepted."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from nyala.cluster.wire.rows import untrusted_rows
from nyala.cluster.wire.rows.write_rows import rows_from_bytes, rows_to_bytes
from nyala.errors import ProtocolError


def stream(rows: pa.RecordBatch, compression: str | None = None) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema, options=pa.ipc.IpcWriteOptions(compression=compression)) as writer:
        writer.write_batch(rows)
    data: bytes = sink.getvalue().to_pybytes()
    return data


def zeros(count: int) -> pa.RecordBatch:
    return pa.record_batch({"k": pa.array(np.zeros(count, np.int64))})


@pytest.mark.parametrize("compression", ["zstd", "lz4"])
def test_a_compressed_batch_costs_no_memory(compression: str) -> None:
    sent = stream(zeros(40_000_000), compression)
    assert len(sent) < 2_000_000
    before = pa.default_memory_pool().max_memory()
    with pytest.raises(ProtocolError, match="are compressed; servers accept only Arrow IPC without compression"):
        rows_from_bytes(sent)
    assert pa.default_memory_pool().max_memory() == before


@pytest.mark.parametrize("compression", ["zstd", "lz4"])
def test_a_compressed_dictionary_is_refused_too(compression: str) -> None:
    words = pa.array(["x" * 1_000_000]).dictionary_encode()
    with pytest.raises(ProtocolError, match="are compressed"):
        rows_from_bytes(stream(pa.record_batch({"k": words}), compression))


def test_rows_without_bytes_are_refused() -> None:
    ends = pa.array([2**31 - 1], pa.int32())
    for column in (pa.nulls(1 << 20), pa.RunEndEncodedArray.from_arrays(ends, pa.array([1]))):
        with pytest.raises(ProtocolError, match="claims to have"):
            rows_from_bytes(stream(pa.record_batch({"k": column})))


def test_a_dictionary_stands_for_no_more_than_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    codes = pa.array(np.zeros(5_000_000, np.int8))
    words = pa.DictionaryArray.from_arrays(codes, pa.array(["x" * 1_000_000]))
    with pytest.raises(ProtocolError, match=r"column 'k' makes a write of 5,000,000,000,000 bytes; at most"):
        rows_from_bytes(stream(pa.record_batch({"k": words})))
    nested = pa.DictionaryArray.from_arrays(pa.array([0]), pa.array([[1]]))
    with pytest.raises(ProtocolError, match="is a dictionary of list"):
        rows_from_bytes(stream(pa.record_batch({"k": nested})))


def test_what_nyala_sends_is_taken() -> None:
    words = pa.array(["one", None, "two", "one"]).dictionary_encode()
    numbers = pa.array([1, None, 3, 4], pa.decimal128(10, 2))
    rows = pa.record_batch({"k": pa.array([1, 2, 3, 4]), "w": words, "n": numbers, "none": pa.nulls(4)})
    assert rows_from_bytes(rows_to_bytes(rows)).equals(rows)
    empty = zeros(0)
    assert rows_from_bytes(rows_to_bytes(empty)).equals(empty)


def test_metadata_that_point_outside_are_refused() -> None:
    sent = rows_to_bytes(zeros(3))
    refused = 0
    for place in range(len(sent)):
        for byte in (0, 255):
            damaged = bytearray(sent)
            damaged[place] = byte
            try:
                rows_from_bytes(bytes(damaged))
            except ProtocolError:
                refused += 1
    assert refused > 50
    assert untrusted_rows.MAX_DECODED_BYTES < 1 << 30
