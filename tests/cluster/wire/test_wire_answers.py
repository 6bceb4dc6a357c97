"""Answers that wait: for clients that do not read, of several at once, and for what is never decided."""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pytest
from nyala import errors
from nyala.cluster.wire import call_service, call_streams, envelope, server
from nyala.cluster.wire.call_service import AnswerStream
from nyala.cluster.wire.envelope import Caller, RequestEnvelope
from nyala.cluster.wire.errors import error_from_body
from nyala.cluster.wire.late_answers import LateAnswers
from nyala.cluster.wire.methods import ReadRow, Reply, RowReply
from nyala.cluster.wire.rpc import Channels
from nyala.cluster.wire.server import Answer, CallContext, Limits, RpcServer
from nyala.storage.clock import HybridClock
from pyarrow import flight

PATIENCE = 30.0
LARGE = 300_000
"""Bytes of an answer that is larger than what it answers."""


def read(number: int) -> ReadRow:
    return ReadRow(tablet_id="t", schema_version=0, key=(number,), columns=())


def until(condition: Callable[[], Any]) -> None:
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end, "it never came about"
        time.sleep(0.002)


# ---- one stream ------------------------------------------------------------------------------------------------------


class SlowWriter:
    """A stream whose other end reads a frame for each `let`. Notes each frame with the thread that wrote it."""

    def __init__(self) -> None:
        self.let = threading.Semaphore(0)
        self.asked = threading.Semaphore(0)
        self.frames: list[tuple[str, list[int], int]] = []
        self.is_broken = False

    def write_metadata(self, data: bytes) -> None:
        self.asked.release()
        assert self.let.acquire(timeout=PATIENCE)
        if self.is_broken:
            raise OSError("it broke")
        frame = envelope.unpack(data, call_streams._answers, "frame of answers")
        numbers = [number for number, _ in frame.answers]
        self.frames.append((threading.current_thread().name, numbers, sum(len(body) for _, body in frame.answers)))

    @property
    def numbers(self) -> list[int]:
        return [number for _, numbers, _ in self.frames for number in numbers]


def test_many_answers_make_several_frames() -> None:
    """Whoever was answered first does not wait for all the others."""
    writer = SlowWriter()
    stream = AnswerStream(writer, "")
    sizes = [2 << 20, 2 << 20, 400_000, 400_000, 400_000, 10, 10, 3 << 20, 10]
    stream.answer(0, b"." * sizes[0])
    assert writer.asked.acquire(timeout=PATIENCE)
    for number in range(1, 9):
        stream.answer(number, b"." * sizes[number])
    assert stream._outbox_bytes == sum(sizes[1:])
    writer.let.release(2)
    until(lambda: len(writer.frames) == 2)
    assert writer.numbers == [0, 1]
    writer.let.release(100)
    until(lambda: len(writer.numbers) == 9)
    assert [numbers for _, numbers, _ in writer.frames] == [[0], [1], [2, 3], [4, 5, 6], [7], [8]]
    assert all(len(numbers) == 1 or size <= call_service.FRAME_BYTES for _, numbers, size in writer.frames)
    until(lambda: not stream._is_writing)
    assert stream._outbox_bytes == 0
    stream.end()


def test_a_thread_that_answers_little_does_not_write_what_others_answer_meanwhile() -> None:
    """It may be the one that reads the calls, or that of a consensus: only the stream's own waits for a client."""
    writer = SlowWriter()
    stream = AnswerStream(writer, "")
    small = threading.Thread(target=stream.answer, args=(1, b"small"), name="small")
    small.start()
    assert writer.asked.acquire(timeout=PATIENCE)
    stream.answer(2, b"." * LARGE)
    writer.let.release()
    small.join(PATIENCE)
    assert not small.is_alive(), "it waits for the client"
    writer.let.release()
    until(lambda: len(writer.frames) == 2)
    assert [(name, numbers) for name, numbers, _ in writer.frames] == [("small", [1]), ("nyala-answers", [2])]
    stream.end()


@pytest.mark.parametrize("is_broken", [False, True])
def test_a_stream_that_ends_with_its_outbox_full_lets_everybody_go(is_broken: bool) -> None:
    writer = SlowWriter()
    stream = AnswerStream(writer, "")
    stream.answer(0, b"." * LARGE)
    assert writer.asked.acquire(timeout=PATIENCE)
    for number in range(1, 20):
        stream.answer(number, b"." * (2 << 20))
    waiting = [threading.Thread(target=stream.wait_room), threading.Thread(target=stream.end)]
    for thread in waiting if not is_broken else waiting[:1]:
        thread.start()
    waiting[0].join(0.05)
    assert waiting[0].is_alive() is is_broken or not waiting[0].is_alive()
    writer.is_broken = is_broken
    writer.let.release()
    if is_broken:
        until(stream.is_cancelled)
        waiting[1].start()
    for thread in waiting:
        thread.join(PATIENCE)
        assert not thread.is_alive()
    stream.answer(20, b"late")
    assert 20 not in writer.numbers
    assert writer.frames == [] if is_broken else [numbers for _, numbers, _ in writer.frames] == [[0]]


# ---- several clients -------------------------------------------------------------------------------------------------


class Large:
    """A server that gives large answers to odd keys at once, and keeps those to others until it is told."""

    def __init__(self, **options: Any) -> None:
        self.kept: list[tuple[int, Answer]] = []
        self.asked: list[int] = []
        self.opened = threading.Event()
        self.server = RpcServer(
            "127.0.0.1:0", HybridClock(), id="large", handlers={ReadRow: self.wait}, later={ReadRow: self.later}, **options
        )
        self.server.start()
        self.channels = Channels(HybridClock(), Caller("client", ""))
        self.channel = self.channels.get(self.server.address)

    def later(self, request: ReadRow, context: CallContext, answer: Answer) -> bool:
        number = request.key[0]
        if number < 0:
            return False
        if number % 2:
            answer(RowReply(row=("x" * LARGE,), timestamp=number))
        else:
            self.kept.append((number, answer))
        return True

    def wait(self, request: ReadRow, context: CallContext) -> Reply:
        self.asked.append(request.key[0])
        assert self.opened.wait(PATIENCE)
        return RowReply(row=request.key, timestamp=1)

    def ask(self, number: int, timeout: float = PATIENCE) -> Any:
        return self.channel.call(read(number), timeout)

    @property
    def calls(self) -> int:
        return self.server.under_way["calls"]

    def close(self) -> None:
        self.opened.set()
        self.channels.close()
        assert self.server.stop()


@pytest.fixture
def large() -> Iterator[Large]:
    one = Large()
    yield one
    one.close()


class Reluctant:
    """A client that reads its answers when it is told to."""

    def __init__(self, address: str):
        self.client = flight.FlightClient(f"grpc+tcp://{address}")
        descriptor = flight.FlightDescriptor.for_command(call_streams.COMMAND)
        self.writer, self.reader = self.client.do_exchange(descriptor)

    def ask(self, numbers: range, timeout: float = PATIENCE) -> None:
        for number in numbers:
            asked = RequestEnvelope(HybridClock().now(), timeout, Caller("reluctant", ""), read(number))
            self.writer.write_metadata(envelope.pack(call_streams.CallFrame(0, ((number, envelope.pack(asked)),))))

    def answers(self, count: int) -> dict[int, Any]:
        """So many answers by the number of their call: replies, or errors."""
        found: dict[int, Any] = {}
        while len(found) < count:
            data = self.reader.read_chunk().app_metadata.to_pybytes()
            for number, body in envelope.unpack(data, call_streams._answers, "frame").answers:
                assert number not in found
                reply = envelope.unpack(body, envelope.reply_decoder(RowReply), "reply")
                found[number] = error_from_body(reply.error) if reply.error else reply.reply
        return found

    def close(self) -> None:
        self.reader.cancel()
        with contextlib.suppress(pa.ArrowException, OSError):
            self.writer.close()
        self.client.close()


def test_every_call_of_every_client_is_answered_though_none_reads(large: Large, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first answers are the rows, later ones may say that there is no room; none is missing, and a client that
    reads its answers knows nothing of the others."""
    monkeypatch.setattr(call_service, "OUTBOX_BYTES", 1 << 20)
    clients = [Reluctant(large.server.address) for _ in range(3)]
    for client in clients:
        client.ask(range(0, 4, 2))  # begun before there is no room
        client.ask(range(1, 81, 2))
    until(lambda: sum(not stream.room for stream in list(large.server._call_service._streams)) == 3)
    assert [large.ask(number).timestamp for number in (1, 3)] == [1, 3]
    until(lambda: len(large.kept) == 6)
    for number, answer in large.kept:
        answer(RowReply(row=("kept",), timestamp=number))
    for client in clients:
        found = client.answers(42)
        assert sorted(found) == sorted([0, 2, *range(1, 81, 2)])
        assert found[0].row == found[2].row == ("kept",)
        refused = [answer for answer in found.values() if isinstance(answer, errors.ServerOverloaded)]
        assert 0 < len(refused) < 40
        assert all(error.retryable and "does not read its answers" in str(error) for error in refused)
        assert sum(isinstance(answer, RowReply) for answer in found.values()) == 42 - len(refused)
        client.ask(range(101, 103, 2))
        assert client.answers(1)[101].timestamp == 101
        client.close()
    until(lambda: large.calls == 0)


def test_a_client_that_goes_away_leaves_no_call_behind(large: Large, monkeypatch: pytest.MonkeyPatch) -> None:
    """Some are undecided then, others answered and not read; one is answered after that, one at its deadline."""
    monkeypatch.setattr(call_service, "OUTBOX_BYTES", 1 << 20)
    client = Reluctant(large.server.address)
    client.ask(range(0, 2, 2))
    client.ask(range(2, 4, 2), timeout=0.5)
    client.ask(range(1, 41, 2))
    until(lambda: len(large.kept) == 2)
    client.close()
    until(lambda: not large.server._call_service._streams)
    assert large.calls >= 1
    large.kept[0][1](RowReply(row=(0,), timestamp=1))
    until(lambda: large.calls == 0)
    for _, answer in large.kept:
        answer(RowReply(row=(0,), timestamp=1))
    assert large.calls == 0
    assert large.ask(1).timestamp == 1


def test_what_a_client_counts_is_given_back_whatever_the_answer(large: Large, monkeypatch: pytest.MonkeyPatch) -> None:
    """Calls that were refused, that ran out of time, and that were answered: none uses up the stream's window."""
    assert large.ask(1).timestamp == 1
    stream = large.channel._stream
    assert stream is not None
    monkeypatch.setattr(AnswerStream, "room", 0)
    with pytest.raises(errors.ServerOverloaded):
        large.ask(3)
    monkeypatch.undo()
    begun = large.channel.begin(read(2), 0.1)
    assert large.ask(5).timestamp == 5  # so that the server is not silent
    with pytest.raises(errors.DeadlineExceeded, match="has not answered in time"):
        large.channel.finish(read(2), begun, 0.1)
    assert stream._unanswered > 0
    until(lambda: (stream._unanswered, stream._waiting) == (0, {}))
    assert large.channel._stream is stream
    large.kept[0][1](RowReply(row=(2,), timestamp=2))
    assert large.ask(7).timestamp == 7


# ---- late answers ----------------------------------------------------------------------------------------------------


def test_calls_wait_for_a_thread_no_longer_than_their_callers(monkeypatch: pytest.MonkeyPatch) -> None:
    """All threads wait for a tablet that does not go on. Others are answered at their deadline, and not begun when
    there is a thread again: their callers have asked elsewhere. A server that drains waits for what is begun."""
    monkeypatch.setattr(server, "CALL_THREADS", 1)
    large = Large(limits=Limits(calls=3))
    begun = [large.channel.begin(read(-1), 0.3)]
    until(lambda: large.asked == [-1])
    begun += [large.channel.begin(read(number), 0.3) for number in (-2, -3)]
    until(lambda: large.calls == 3)
    for number, one in zip((-1, -2, -3), begun):
        with pytest.raises(errors.DeadlineExceeded):
            large.channel.finish(read(number), one, PATIENCE)
    assert large.ask(1).timestamp == 1
    with pytest.raises(errors.ServerOverloaded, match="3 calls that wait"):
        large.ask(-4)
    assert not large.server.drain(0.05)
    large.opened.set()
    assert large.server.drain(PATIENCE)
    assert large.asked == [-1]
    large.close()


def test_an_answer_is_given_once_by_whoever_is_first() -> None:
    late, told = LateAnswers(), []
    answers = [late.expect(told.append, time.monotonic() + (number % 2 - 0.5) * 100) for number in range(400)]
    threads = [threading.Thread(target=late.sweep) for _ in range(2)]
    threads += [threading.Thread(target=lambda: [answer(RowReply(row=None)) for answer in answers]) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (len(told), late.count) == (400, 0)
    assert sum(isinstance(one, RowReply) for one in told) >= 200, "no time was up but that of every other one"
    late.sweep()
    assert len(told) == 400


def test_an_answer_that_fails_leaves_the_others_theirs(caplog: pytest.LogCaptureFixture) -> None:
    late, told = LateAnswers(sweep_seconds=0.01), []

    def fail(reply: Any) -> None:
        raise RuntimeError("no thread can be started")

    caplog.set_level(logging.CRITICAL, "nyala.cluster.wire")
    late.start()
    late.expect(fail, time.monotonic())
    late.expect(told.append, time.monotonic() + 0.05)
    until(lambda: told)
    assert isinstance(told[0], errors.DeadlineExceeded)
    late.close()
