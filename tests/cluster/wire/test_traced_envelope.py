"""The envelope with a traceparent: sides that do not know it, and senders without one."""

from __future__ import annotations

from typing import Any

import msgspec
from nyala.cluster.wire.calls.rpc import Channel
from nyala.cluster.wire.messages.envelope import Caller, RequestEnvelope, TracedEnvelope, pack, request_decoder, unpack
from nyala.cluster.wire.messages.methods import KeepAlive, Request
from nyala.model.clock import HybridClock

TRACEPARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
METHOD = KeepAlive(scanner="s")


class EarlierEnvelope(msgspec.Struct, frozen=True, array_like=True):
    """The request as earlier servers decode it."""

    clock: int
    remaining: float
    caller: Caller
    method: KeepAlive
    token: bytes = b""


def test_an_earlier_server_ignores_the_traceparent() -> None:
    body = pack(TracedEnvelope(7, 1.5, Caller("client"), METHOD, b"token", TRACEPARENT))
    found = unpack(body, msgspec.msgpack.Decoder(EarlierEnvelope), "request")
    assert found == EarlierEnvelope(7, 1.5, Caller("client"), METHOD, b"token")


def test_the_message_of_an_earlier_client_has_none() -> None:
    body = pack(RequestEnvelope(7, 1.5, Caller("client"), METHOD, b"token"))
    found: Any = unpack(body, request_decoder(), "request")
    assert (found.method, found.token, found.traceparent) == (METHOD, b"token", "")


def test_the_traceparent_arrives() -> None:
    body = pack(TracedEnvelope(7, 1.5, Caller("client"), METHOD, b"", TRACEPARENT))
    assert unpack(body, request_decoder(), "request").traceparent == TRACEPARENT


def test_messages_without_an_exporter_are_as_before() -> None:
    channel = Channel("127.0.0.1:1", HybridClock(), Caller("client"))
    try:
        request: Request = METHOD
        sent = msgspec.msgpack.decode(channel.packed(request, 2.0)[6:])
    finally:
        channel.close()
    assert sent[1:] == [2.0, ["client", ""], {"type": "keep_alive", "scanner": "s"}, b""]
