"""Small batches inside a reply keep values and encodings in transit."""

from __future__ import annotations

import contextlib

import msgspec
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from nyala.cluster.wire.rows.small_batches import SmallBatch, Texts, batch_of, sent_bytes, small_batch
from nyala.errors import ProtocolError
from nyala.model.types import BINARY, DECIMAL, INTERVAL, STRING, Interval
from nyala.model.vectors.vector import Batch, Dict, Text, Vector, vector_from_arrow
from wire_support import row_batches, same_vector

_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(SmallBatch)


def sent(batch: Batch) -> Batch:
    return batch_of(_decoder.decode(_encoder.encode(small_batch(batch))))


@given(row_batches(), st.data())
def test_a_small_batch_comes_out_as_it_went_in(batch: Batch, data: st.DataObject) -> None:
    start = data.draw(st.integers(0, batch.length))
    stop = data.draw(st.integers(start, batch.length))
    for given_batch in (batch, batch.slice(start, stop)):
        came = sent(given_batch)
        assert (came.length, came.width) == (given_batch.length, given_batch.width)
        assert all(map(same_vector, came.columns(), given_batch.columns()))


@pytest.mark.parametrize(
    ("type_", "values"),
    [
        (INTERVAL, [Interval(1, -2, 3), None]),
        (DECIMAL(38, 3), [None, 10**20, -1]),
        (STRING, ["a", None, ""]),
        (BINARY, []),
    ],
)
def test_what_is_no_plain_array_goes_by_arrow(type_, values) -> None:
    array = pa.array([None if v is None else type_.to_python(v) for v in values], type_.arrow)
    vector: Vector = vector_from_arrow(type_, array)
    (came,) = sent(Batch([vector], len(values))).columns()
    assert type(came) is type(vector)
    assert came.to_arrow().equals(vector.to_arrow())


def test_few_rows_do_not_bring_a_large_dictionary() -> None:
    entries = pa.array([f"entry {i}" for i in range(50_000)])
    batch = Batch([Dict(STRING, np.array([7, 49_999], np.uint16), entries)], 2)
    assert sent_bytes(batch) < 100
    assert len(_encoder.encode(small_batch(batch))) < 200
    assert sent(batch).column(0).to_arrow().to_pylist() == ["entry 7", "entry 49999"]


def test_a_slice_of_texts_brings_only_its_own() -> None:
    texts = Text(STRING, pa.array(["x" * 10_000, "yy", "zzz", "x" * 10_000]).slice(1, 2))
    assert len(_encoder.encode(small_batch(Batch([texts], 2)))) < 100
    assert sent(Batch([texts], 2)).column(0).to_arrow().to_pylist() == ["yy", "zzz"]


def test_batches_that_are_none() -> None:
    texts = Texts(("STRING", None, None, None), np.array([0, 9], np.int32).tobytes(), b"abc")
    for broken in (texts, msgspec.structs.replace(texts, offsets=b""), msgspec.structs.replace(texts, offsets=b"abc")):
        with pytest.raises(ProtocolError, match="a malformed batch was received"):
            batch_of(SmallBatch(1, (broken,)))


@given(row_batches(), st.data())
def test_damaged_batches_are_refused_or_read(batch: Batch, data: st.DataObject) -> None:
    encoded = bytearray(_encoder.encode(small_batch(batch)))
    for _ in range(data.draw(st.integers(1, 3))):
        encoded[data.draw(st.integers(0, len(encoded) - 1))] = data.draw(st.integers(0, 255))
    with contextlib.suppress(msgspec.DecodeError, UnicodeDecodeError, ProtocolError):
        came = batch_of(_decoder.decode(bytes(encoded)))
        assert all(len(column) == came.length for column in came.columns())
