"""Messages that would cost much memory: many values in few bytes, deep nesting, false lengths, messages that gRPC holds
incompletely, and replies of servers that are broken or hostile."""

from __future__ import annotations

import resource
import socket
import sys
import threading
from collections.abc import Iterator
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pytest
from nyala import errors
from nyala.cluster.wire.calls.rpc import Channels
from nyala.cluster.wire.calls.server_connection import ServerConnection
from nyala.cluster.wire.messages import value_count
from nyala.cluster.wire.messages.envelope import (
    MAX_REPLY_BYTES,
    RequestEnvelope,
    Welcome,
    pack,
    reply_decoder,
    request_decoder,
    ticket_decoder,
    unpack,
)
from nyala.cluster.wire.messages.methods import CatalogReply, CreateTable, Done, KeepAlive
from nyala.cluster.wire.messages.value_count import check_value_count
from nyala.cluster.wire.rows.batches import BatchDecoder, PartHead, decode_batch, encode_batch, type_to_plain
from nyala.cluster.wire.rows.scan_streams import _head_decoder
from nyala.cluster.wire.rows.small_batches import Arrow, SmallBatch, batch_of
from nyala.cluster.wire.server import RpcServer
from nyala.cluster.wire.server_limits import Limits
from nyala.model.clock import HybridClock
from nyala.model.types import BIGINT
from nyala.model.vectors.vector import Batch, Flat
from nyala.net.frames import PREAMBLE, REPLY, WELCOME, frame, frame_head
from pyarrow import flight

HEAD = pack(KeepAlive(scanner=""))[:6]
MIB = 1 << 20


def peak_mib() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10


# ---- what is decoded -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("body", [b"\x80", b"\x90", b"\xa0", b"\x01", b"\x81\x01\x80"])
def test_many_values_in_few_bytes_are_refused_before_they_are_made(body: bytes) -> None:
    count = 15 * MIB // len(body)
    bomb = HEAD + b"\xdd" + count.to_bytes(4, "big") + body * count
    before = peak_mib()
    for decoder in (request_decoder(), ticket_decoder(), reply_decoder(CatalogReply)):
        with pytest.raises(errors.ProtocolError, match=r"claims to hold [0-9,]+ values or more; at most 2,000,000"):
            unpack(bomb, decoder, "message")
    assert peak_mib() - before < 64


@pytest.mark.parametrize("first", [b"\xdd", b"\xdf", b"\xc6", b"\xdb", b"\xc9"])
@pytest.mark.parametrize("inside", [b"", b"\x81\xa1a", b"\x91"])
def test_lengths_that_are_not_true_cost_nothing(first: bytes, inside: bytes) -> None:
    before = peak_mib()
    for filling in (0, 100_000):
        body = HEAD + inside + first + b"\xff\xff\xff\xff" + b"\xc0" * filling
        for decoder in (request_decoder(), ticket_decoder(), reply_decoder(Done)):
            with pytest.raises(errors.ProtocolError):
                unpack(body, decoder, "message")
        for plain in (_head_decoder, request_decoder()):
            with pytest.raises((msgspec.DecodeError, ValueError)):
                plain.decode(body[6:])
    assert peak_mib() - before < 64


@pytest.mark.parametrize("level", [b"\x91", b"\x81\xa1a"])
def test_deep_nesting_is_refused(level: bytes) -> None:
    create = pack(RequestEnvelope(1, 1.0, None, CreateTable(definition={"a": 0}, replicas=3, call=None)))  # type: ignore[arg-type]
    deep = create.replace(b"\x81\xa1a\x00", b"\x81\xa1a" + level * 50_000 + b"\x00")
    assert deep != create
    with pytest.raises(errors.ProtocolError, match=r"nested too deeply|malformed"):
        unpack(deep, request_decoder(), "request")


def test_what_nyala_sends_is_counted_right() -> None:
    message: Any = {
        "a": [
            1,
            -1,
            1.5,
            None,
            True,
            "x" * 40,
            "y" * 300,
            "z" * 70_000,
            b"b" * 70_000,
            2**40,
            -(2**40),
            2**63,
            -(2**14),
        ],
        "m": {str(number): [number] for number in range(70)},
        "t": msgspec.msgpack.Ext(5, b"e" * 20),
        "l": list(range(70_000)),
    }
    data = memoryview(msgspec.msgpack.encode(message))
    count = 1 + 4 + 1 + 13 + 1 + 70 * 3 + 1 + 1 + 70_000
    check_value_count(data, "message", count)
    with pytest.raises(errors.ProtocolError, match="values or more; at most"):
        check_value_count(data, "message", count - 1)
    assert len(data) > value_count.SMALL_BYTES


# ---- replies ---------------------------------------------------------------------------------------------------------


def compressed(rows: int) -> tuple[pa.Schema, bytes]:
    batch = pa.record_batch({"0": pa.array(np.zeros(rows, np.int64))})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema, options=pa.ipc.IpcWriteOptions(compression="zstd")) as writer:
        writer.write_batch(batch)
    messages = list(pa.ipc.MessageReader.open_stream(sink.getvalue()))
    return batch.schema, messages[1].serialize().to_pybytes()


def test_a_client_takes_no_compressed_rows() -> None:
    schema, data = compressed(4_000_000)
    assert len(data) < 100_000
    plain = schema.serialize().to_pybytes()
    before = pa.default_memory_pool().max_memory()
    head = PartHead(4_000_000, True, (type_to_plain(BIGINT),), plain, ({b"form": b"flat"},), {})
    with pytest.raises(errors.ProtocolError, match="rows of a scan are compressed"):
        BatchDecoder().decode(head, pa.py_buffer(data))
    column = Arrow(type_to_plain(BIGINT), plain, data, {b"form": b"flat"})
    with pytest.raises(errors.ProtocolError, match="rows of a scan are compressed"):
        batch_of(SmallBatch(4_000_000, (column,)))
    assert pa.default_memory_pool().max_memory() == before
    sent = Batch([Flat(BIGINT, np.arange(5))], 5)
    assert [batch.length for batch in decode_batch(encode_batch(sent))] == [5]


def test_a_client_takes_no_rows_without_bytes() -> None:
    for rows in (1 << 40, -1):
        with pytest.raises(errors.ProtocolError, match="a batch claims to have"):
            BatchDecoder().decode(PartHead(rows, True, (), None, (), {}), pa.py_buffer(b""))
        with pytest.raises(errors.ProtocolError, match="a batch claims to have"):
            batch_of(SmallBatch(rows, ()))


def test_a_client_takes_no_reply_of_any_size() -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:

        def serve() -> None:
            accepted, _ = other.accept()
            with accepted:
                accepted.recv(1000)
                accepted.sendall(PREAMBLE + frame(WELCOME, 0, pack(Welcome())))
                accepted.recv(1000)
                accepted.sendall(frame_head(REPLY, 1, MAX_REPLY_BYTES + 1))
                accepted.recv(1000)

        threading.Thread(target=serve, daemon=True).start()
        channels = Channels(HybridClock())
        with pytest.raises(errors.ProtocolError, match="too large"):
            channels.get(f"127.0.0.1:{other.getsockname()[1]}").call(KeepAlive(scanner="s"), timeout=20.0)
        channels.close()


# ---- what gRPC holds -------------------------------------------------------------------------------------------------


@pytest.fixture
def guarded() -> Iterator[RpcServer]:
    limits = Limits(connection_bytes=24 * MIB, all_bytes=48 * MIB)
    handlers = {KeepAlive: lambda request, context: Done()}
    server = RpcServer("127.0.0.1:0", HybridClock(), handlers=handlers, limits=limits)
    server.start()
    yield server
    server.stop()


@pytest.mark.skipif(sys.platform != "linux", reason="other systems do not tell what a connection has received")
def test_a_connection_that_sends_too_much_of_one_message_is_cut(
    guarded: RpcServer, caplog: pytest.LogCaptureFixture
) -> None:
    connection = ServerConnection(guarded.address)
    client = flight.connect(f"grpc+tcp://127.0.0.1:{connection.welcome(20.0).flight_port}")
    connection.close()
    with pytest.raises((flight.FlightUnavailableError, flight.FlightInternalError, pa.ArrowException)):
        client.do_get(flight.Ticket(bytes(400 * MIB)), flight.FlightCallOptions(timeout=60)).read_all()
    client.close()
    assert "a connection is cut: it has sent more than is allowed" in caplog.text
    channels = Channels(HybridClock())
    assert channels.get(guarded.address).call(KeepAlive(scanner="s")) == Done()
    channels.close()


def test_no_server_has_another_limit() -> None:
    """Should Flight's servers take options of gRPC one day, set `max_receive_message_length`."""
    with pytest.raises(TypeError):
        flight.FlightServerBase("grpc+tcp://127.0.0.1:0", generic_options=[("grpc.max_receive_message_length", 1)])
