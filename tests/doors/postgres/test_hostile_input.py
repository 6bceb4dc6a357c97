"""Bytes that no client would send: each ends in an error of the protocol, and none in an error of ours."""

from __future__ import annotations

import contextlib
import random
import struct
from typing import Any

import nyala
import pytest
from hypothesis import given
from hypothesis import strategies as st
from nyala.doors.postgres.protocol import frontend
from nyala.doors.postgres.protocol import startup as protocol
from nyala.doors.postgres.protocol.reader import FIRST_BYTES, MessageReader
from nyala.errors import ProtocolError
from postgres_support import SYNC, Talk, bind, describe, execute, message, parse, query, replies, startup, text

MESSAGES = [
    query("SELECT 1; SELECT k FROM t"), parse("SELECT k FROM t WHERE k = $1", "s", 23), bind(b"1", name="s"),
    describe("S", "s"), describe("P"), execute(1), execute(), SYNC, message("H"), message("C", b"S" + text("s")),
    query("COPY t FROM STDIN"), message("d", b"5\n"), message("c"), message("f", text("no")),
    query("BEGIN"), query("ROLLBACK"), message("F", b"1"),
    query("COPY t TO STDOUT (FORMAT binary)"), query("COPY t FROM STDIN (FORMAT binary)"), message("X"),
]  # fmt: skip


def all_messages(reader: MessageReader, data: bytes, step: int) -> list[Any]:
    found = []
    for start in range(0, len(data), step):
        reader.feed(data[start : start + step])
        while (one := reader.take()) is not None:
            found.append(one)
            reader.is_started = True
    return found


def test_messages_are_the_same_in_pieces_of_any_size() -> None:
    data = startup(application_name="x") + b"".join(MESSAGES)
    first = MessageReader()
    first.is_authenticated = True
    whole = all_messages(first, data, len(data))
    assert len(whole) == len(MESSAGES) + 1
    for step in (1, 2, 3, 7, 64):
        reader = MessageReader()
        reader.is_authenticated = True
        assert all_messages(reader, data, step) == whole
        assert reader.buffered == 0


@given(st.binary(max_size=64), st.booleans())
def test_random_bytes_are_messages_or_refused(data: bytes, is_started: bool) -> None:
    reader = MessageReader()
    reader.is_started = reader.is_authenticated = is_started
    reader.feed(data)
    try:
        while reader.take() is not None:
            pass
    except ProtocolError:
        pass


@given(st.sampled_from(MESSAGES), st.data())
def test_a_message_that_is_cut_is_refused(whole: bytes, data: st.DataObject) -> None:
    """The length is right, and the parts of the body need more bytes."""
    body = whole[5 : 5 + data.draw(st.integers(0, max(0, len(whole) - 6)))]
    reader = MessageReader()
    reader.is_started = reader.is_authenticated = True
    reader.feed(message(chr(whole[0]), body))
    with contextlib.suppress(ProtocolError):
        reader.take()
    assert reader.buffered == 0


@pytest.mark.parametrize(
    ("is_started", "is_authenticated", "data"),
    [
        (False, False, struct.pack("!i", FIRST_BYTES + 1)),
        (False, False, struct.pack("!i", -5)),
        (False, False, b"GET / HTTP/1.1\r\n"),
        (True, False, b"p" + struct.pack("!i", 1 << 20)),
        (True, True, b"S" + struct.pack("!i", 1 << 20)),
        (True, True, b"Q" + struct.pack("!i", 1 << 30)),
        (True, True, b"Q" + struct.pack("!i", 3)),
        (True, True, b"\0\0\0\0\4"),
    ],
)
def test_lengths_are_refused_before_anything_is_kept(is_started: bool, is_authenticated: bool, data: bytes) -> None:
    reader = MessageReader()
    reader.is_started, reader.is_authenticated = is_started, is_authenticated
    reader.feed(data)
    with pytest.raises(ProtocolError):
        reader.take()


@pytest.mark.parametrize("seed", range(30))
def test_any_order_of_messages_is_answered(seed: int) -> None:
    """Random messages, some with bytes changed: the backend answers, and is ready again after Sync."""
    rng = random.Random(seed)
    with nyala.connect(":memory:") as connection:
        connection.execute("CREATE TABLE t (k INT PRIMARY KEY); INSERT INTO t VALUES (1), (2)")
        talk = Talk(connection)
        try:
            for _ in range(40):
                chosen = bytearray(rng.choice(MESSAGES))
                if rng.random() < 0.3 and len(chosen) > 6:
                    chosen[rng.randrange(5, len(chosen))] = rng.randrange(256)
                try:
                    out = talk.send(bytes(chosen))
                except ProtocolError:
                    continue
                assert all(kind in "123nItTDCEZNSGHdcsK" for kind, _ in replies(out))
                assert b"a bug in nyala" not in out
            talk.send(message("f", text("end")) + SYNC)
            assert replies(talk.send(query("ROLLBACK") + query("SELECT 1")))[-1] == ("Z", b"I")
        finally:
            talk.close()


# ---- start-up --------------------------------------------------------------------------------------------------------


def events(machine: protocol.StartUp, *messages: Any, has_more: bool = False) -> list[str]:
    return [type(event).__name__ for one in messages for event in machine.take(one, has_more)]


def test_what_follows_a_request_of_tls_in_clear_is_refused() -> None:
    machine = protocol.StartUp(True, False, None)
    assert events(machine, frontend.SslRequest(), has_more=True) == ["End"]
    assert machine.is_over


def test_start_up() -> None:
    start = frontend.Startup(3, 0, {"user": "me"})
    assert events(protocol.StartUp(False, False, None), frontend.SslRequest(), start) == ["Send", "Send", "Enter"]
    assert events(protocol.StartUp(True, False, None), frontend.GssRequest(), frontend.SslRequest()) == [
        "Send",
        "Send",
        "StartTls",
    ]
    assert events(protocol.StartUp(True, False, None), frontend.SslRequest(), frontend.SslRequest()) == [
        "Send",
        "StartTls",
        "End",
    ]
    assert events(protocol.StartUp(True, True, None), start) == ["End"]
    assert events(protocol.StartUp(False, False, None), frontend.CancelRequest(1, b"xxxx")) == ["Cancel"]
    for wrong in (frontend.Startup(2, 0, {"user": "me"}), frontend.Startup(3, 0, {}), frontend.Query(b"")):
        assert events(protocol.StartUp(False, False, None), wrong) == ["End"]
    newer = frontend.Startup(3, 7, {"user": "me", "_pq_.new": "1"})
    found = list(protocol.StartUp(False, False, None).take(newer))
    assert [type(event).__name__ for event in found] == ["Send", "Send", "Enter"]
    assert found[0] == protocol.Send(message("v", struct.pack("!II", 3 << 16 | 2, 1) + b"_pq_.new\0"))
    assert isinstance(found[2], protocol.Enter)
    assert found[2].minor == 2


@given(st.binary(max_size=40))
def test_any_first_body_is_a_message_or_refused(body: bytes) -> None:
    with contextlib.suppress(ProtocolError):
        frontend.first_message(body)
