"""Batches and rows to write keep values and encodings in transit."""

from __future__ import annotations

import contextlib
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pytest
from examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from nyala.cluster.wire.messages.methods import Call, Write
from nyala.cluster.wire.rows import batches as wire_batches
from nyala.cluster.wire.rows.batches import BatchDecoder, BatchEncoder, DictionaryHead, decode_batch, encode_batch
from nyala.cluster.wire.rows.write_rows import write_from_request, write_to_request
from nyala.errors import Error, ProtocolError
from nyala.model.store import Op, WriteBatch
from nyala.model.types import BIGINT, INT, STRING
from nyala.model.vectors.vector import Batch, Dict, Flat, Narrow, Text
from wire_support import row_batches, same_vector, validities, vectors


def sent(batch: Batch) -> list[Batch]:
    """Returns the result of a stream of one batch."""
    return decode_batch(encode_batch(batch))


@given(row_batches())
def test_a_batch_comes_out_as_it_went_in(batch: Batch) -> None:
    (came,) = sent(batch)
    assert came.length == batch.length
    assert came.width == batch.width
    assert all(map(same_vector, came.columns(), batch.columns()))


@given(st.lists(row_batches(), max_size=5))
def test_a_stream_of_batches_of_different_shapes(stream: list[Batch]) -> None:
    encoder, decoder = BatchEncoder(), BatchDecoder()
    for batch in stream:
        came = [part for head, data in encoder.encode(batch) if (part := decoder.decode(head, data)) is not None]
        assert len(came) == 1
        assert all(map(same_vector, came[0].columns(), batch.columns()))


def test_a_dictionary_is_sent_once_and_shared() -> None:
    entries = pa.array(["a", "b", "c"])
    encoder, decoder = BatchEncoder(), BatchDecoder()
    came = []
    sent_dictionaries = 0
    for codes in ([0, 1, 2], [2], [1, 1, 1, 1]):
        for head, data in encoder.encode(Batch([Dict(STRING, np.array(codes, np.uint8), entries)], len(codes))):
            sent_dictionaries += isinstance(head, DictionaryHead)
            came.append(decoder.decode(head, data))
    columns = [batch.column(0) for batch in came if batch is not None]
    assert sent_dictionaries == 1
    assert len({id(column.dictionary) for column in columns if isinstance(column, Dict)}) == 1
    assert [column.to_arrow().to_pylist() for column in columns] == [["a", "b", "c"], ["c"], ["b"] * 4]


def test_few_rows_do_not_bring_a_large_dictionary() -> None:
    entries = pa.array([f"entry {i}" for i in range(50_000)])
    data = encode_batch(Batch([Dict(STRING, np.array([7, 49_999], np.uint16), entries)], 2))
    assert len(data) < 2_000
    assert decode_batch(data)[0].column(0).to_arrow().to_pylist() == ["entry 7", "entry 49999"]


def test_a_large_batch_goes_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wire_batches, "PART_BYTES", 1000)
    numbers = np.arange(1000)
    batch = Batch([Flat(BIGINT, numbers, numbers % 7 > 0), Text(STRING, pa.array([str(i) for i in numbers]))], 1000)
    parts = sent(batch)
    assert len(parts) > 5
    for column in range(2):
        came = pa.concat_arrays([part.column(column).to_arrow() for part in parts])
        assert came.equals(batch.column(column).to_arrow())


def test_values_are_views_of_what_came() -> None:
    (came,) = sent(Batch([Flat(BIGINT, np.arange(9)), Narrow(INT, np.arange(9).astype(np.uint32), 5)], 9))
    flat, narrow = came.columns()
    assert isinstance(narrow, Narrow)
    assert not flat.values().flags.owndata and not narrow.codes.flags.owndata


@given(row_batches(), st.data())
def test_damaged_bytes_are_an_error_or_a_batch(batch: Batch, data: st.DataObject) -> None:
    good = encode_batch(batch)
    place = data.draw(st.integers(0, len(good) - 1))
    damaged = bytearray(good)
    damaged[place] ^= data.draw(st.integers(1, 255))
    cut = data.draw(st.booleans())
    try:
        decode_batch(bytes(damaged[:place] if cut else damaged))
    except Error as error:
        assert isinstance(error, ProtocolError)


# ---- rows to write --------------------------------------------------------------------------------------------------


def as_received(request: Write) -> Write:
    return msgspec.msgpack.decode(msgspec.msgpack.encode(request), type=Write)


@st.composite
def writes(draw: st.DrawFn) -> WriteBatch:
    rows = draw(st.integers(0, 20))
    arrays = [draw(vectors(rows)).to_arrow() for _ in range(draw(st.integers(1, 4)))]
    names = [f"c {place}" for place in range(len(arrays))]
    ops: Any = draw(st.sampled_from(Op))
    if draw(st.booleans()):
        ops = np.array(draw(st.lists(st.sampled_from(Op), min_size=rows, max_size=rows)), np.uint8)
    isset = {name: given for name in names if (given := validities(draw, rows)) is not None}
    return WriteBatch(pa.RecordBatch.from_arrays(arrays, names=names), ops, draw(st.booleans()), isset)


@given(writes(), st.none() | st.builds(Call, st.text(max_size=3), st.integers(1, 99), st.integers(1, 99)))
def test_rows_to_write(batch: WriteBatch, call: Call | None) -> None:
    request = as_received(write_to_request(batch, tablet_id="t", schema_version=3, call=call, check_only=True))
    came = write_from_request(request)
    assert (request.tablet_id, request.schema_version, request.check_only) == ("t", 3, True)
    assert came.rows.schema == batch.rows.schema
    assert came.rows.equals(batch.rows)
    assert came.all_or_none == batch.all_or_none
    assert type(came.ops) is type(batch.ops) and np.array_equal(came.ops, batch.ops)
    assert {name: given.tolist() for name, given in came.isset.items()} == {
        name: given.tolist() for name, given in batch.isset.items()
    }


def test_rows_that_do_not_fit_together() -> None:
    batch = WriteBatch(pa.record_batch({"k": [1, 2, 3]}), Op.INSERT)
    good = write_to_request(batch, tablet_id="t", schema_version=0, call=None)
    two = pa.BufferOutputStream()
    with pa.ipc.new_stream(two, batch.rows.schema) as writer:
        writer.write_batch(batch.rows)
        writer.write_batch(batch.rows)
    for change, told in (
        ({"ops": b"\1"}, "a write of 3 rows has 1 ops"),
        ({"ops": 77}, "there is no op 77"),
        ({"isset": {"k": b""}}, "isset of column 'k': 0 bytes do not hold 3 bits"),
        ({"rows": b""}, "malformed"),
        ({"rows": good.rows[:-30]}, "malformed|0 record batches"),
        ({"rows": b"\xff" * 100}, "malformed"),
        ({"rows": two.getvalue().to_pybytes()}, "2 record batches instead of one"),
    ):
        with pytest.raises(ProtocolError, match=told):
            write_from_request(msgspec.structs.replace(good, **change))


@settings(max_examples=examples(200))
@given(st.integers(0, 2**32), st.integers(1, 255))
def test_rows_with_a_damaged_byte_cannot_reach_memory_that_is_not_theirs(place: int, change: int) -> None:
    rows = pa.record_batch({"k": ["a", "bb", None, "dddd"], "v": [b"1", b"22", b"", None]})
    good = write_to_request(WriteBatch(rows), tablet_id="t", schema_version=0, call=None)
    damaged = bytearray(good.rows)
    damaged[place % len(damaged)] ^= change
    try:
        came = write_from_request(msgspec.structs.replace(good, rows=bytes(damaged)))
    except ProtocolError:
        return
    with contextlib.suppress(UnicodeDecodeError):
        assert len(came.rows.to_pylist()) == came.rows.num_rows
