"""Framing: every division of the stream gives the same frames, and no bytes give anything but a `ProtocolError`."""

from __future__ import annotations

import itertools
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st
from nyala import errors
from nyala.net import frames
from nyala.net.frames import CALL, CANCEL, HELLO, MESSAGE, PREAMBLE, REPLY, FrameReader, frame, frame_head

MOST = 1000
ALL = dict.fromkeys((HELLO, CALL, REPLY, CANCEL, MESSAGE), MOST)
KIND = st.sampled_from(sorted(ALL))
FRAMES = st.lists(st.tuples(KIND, st.integers(0, 2**32 - 1), st.binary(max_size=60)), max_size=6)


def stream(of: list[tuple[int, int, bytes]]) -> bytes:
    return PREAMBLE + b"".join(frame(*one) for one in of)


def read(*pieces: bytes) -> list[tuple[int, int, bytes]]:
    reader = FrameReader(ALL)
    found = [one for piece in pieces for one in reader.feed(piece)]
    assert not reader.buffered
    return found


def test_the_bytes_are_these() -> None:
    assert PREAMBLE == b"nyala\x00\x00\x02"
    assert frame(CALL, 7, b"ab").hex(" ") == "00 00 00 07 04 00 00 00 07 61 62"
    assert frame(HELLO, 0, b"").hex(" ") == "00 00 00 05 01 00 00 00 00"
    assert frame_head(REPLY, 0xFFFFFFFF, 3).hex(" ") == "00 00 00 08 05 ff ff ff ff"
    assert [frames.NAMES[kind] for kind in range(1, 8)] == [
        "HELLO",
        "WELCOME",
        "REFUSED",
        "CALL",
        "REPLY",
        "CANCEL",
        "MESSAGE",
    ]


def test_a_stream_may_be_divided_anywhere() -> None:
    sent = [(HELLO, 0, b"me"), (CALL, 1, b""), (CALL, 2, b"x" * 300), (CANCEL, 1, b""), (MESSAGE, 0, b"yz")]
    whole = stream(sent)
    for place in range(len(whole) + 1):
        assert read(whole[:place], whole[place:]) == sent
    assert read(*[whole[place : place + 1] for place in range(len(whole))]) == sent


@given(FRAMES, st.lists(st.integers(0, 500)))
def test_any_division_gives_the_same_frames(sent: list[tuple[int, int, bytes]], places: list[int]) -> None:
    whole = stream(sent)
    cuts = sorted({min(place, len(whole)) for place in places} | {0, len(whole)})
    assert read(*[whole[start:end] for start, end in itertools.pairwise(cuts)]) == sent


@given(FRAMES, st.data())
def test_a_prefix_gives_the_first_frames(sent: list[tuple[int, int, bytes]], data: st.DataObject) -> None:
    whole = stream(sent)
    part = whole[: data.draw(st.integers(0, len(whole)))]
    reader = FrameReader(ALL)
    found = reader.feed(part)
    assert found == sent[: len(found)]
    assert reader.feed(whole[len(part) :]) == sent[len(found) :]


@given(FRAMES, st.data())
def test_a_changed_byte_gives_frames_or_an_error(sent: list[tuple[int, int, bytes]], data: st.DataObject) -> None:
    whole = bytearray(stream(sent))
    whole[data.draw(st.integers(0, len(whole) - 1))] ^= data.draw(st.integers(1, 255))
    try:
        for kind, _, body in FrameReader(ALL).feed(bytes(whole)):
            assert kind in ALL
            assert len(body) <= MOST
    except errors.ProtocolError:
        pass


@given(st.lists(st.binary(max_size=40)), st.booleans())
def test_random_bytes_give_a_protocol_error_at_worst(pieces: list[bytes], has_preamble: bool) -> None:
    reader = FrameReader(ALL)
    try:
        for piece in [PREAMBLE, *pieces] if has_preamble else pieces:
            reader.feed(piece)
            assert reader.buffered <= MOST + frames.HEAD_BYTES
    except errors.ProtocolError:
        pass


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"GET / HTTP/1.1\r\n", "no connection of nyala"),
        (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "no connection of nyala"),
        (b"\x16\x03\x01", "no connection of nyala"),
        (b"nyalb", "no connection of nyala"),
        (b"nyala\x00\x00\x01", "speaks version 1 of the protocol; this side speaks version 2"),
        (b"nyala\x00\x01\x02", "speaks version 258"),
        (PREAMBLE + struct.pack(">IBI", MOST + 6, CALL, 1), f"{MOST + 1} bytes is too large: .* {MOST}"),
        (PREAMBLE + b"\xff" * 9, "unexpected kind 255"),
        (PREAMBLE + struct.pack(">IBI", 4, CALL, 1), "malformed"),
        (PREAMBLE + struct.pack(">IBI", 0, CALL, 1), "malformed"),
        (PREAMBLE + frame(99, 0, b""), "unexpected kind 99"),
        (PREAMBLE + frame(frames.WELCOME, 0, b""), "unexpected kind WELCOME"),
    ],
)
def test_the_error_says_what_is_wrong(data: bytes, says: str) -> None:
    with pytest.raises(errors.ProtocolError, match=says):
        FrameReader(ALL).feed(data)


def test_a_long_frame_is_not_copied_for_each_piece() -> None:
    reader = FrameReader({CALL: 10 << 20})
    reader.feed(PREAMBLE + frame_head(CALL, 1, 8 << 20))
    pieces = [b"x" * (64 << 10)] * 127
    assert not any(reader.feed(piece) for piece in pieces)
    assert reader.feed(b"x" * (64 << 10)) == [(CALL, 1, b"x" * (8 << 20))]
