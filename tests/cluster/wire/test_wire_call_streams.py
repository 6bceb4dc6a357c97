"""Small calls on one exchange: each gets its own reply, none waits for another's, and neither side for one that does
not read."""

from __future__ import annotations

import contextlib
import random
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pyarrow as pa
import pytest
from nyala import errors
from nyala.cluster.wire.calls import call_service, call_streams
from nyala.cluster.wire.calls.rpc import Channels
from nyala.cluster.wire.faults import FAULTS
from nyala.cluster.wire.messages import envelope
from nyala.cluster.wire.messages.envelope import Caller, RequestEnvelope
from nyala.cluster.wire.messages.methods import Done, ReadRow, Reply, RowReply, SetFaults
from nyala.cluster.wire.messages.transaction_methods import Resolve
from nyala.cluster.wire.server import CALL_THREADS, Answer, CallContext, Limits, RpcServer
from nyala.model.clock import HybridClock
from pyarrow import flight

PATIENCE = 30.0


def read(number: int, size: int = 0) -> ReadRow:
    return ReadRow(tablet_id="t", schema_version=0, key=(number, "x" * size), columns=())


def until(condition: Callable[[], Any]) -> None:
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end, "it never came about"
        time.sleep(0.002)


class Echo:
    """A server that replies to reads with their keys: even ones at once, multiples of three later, the rest by a
    thread."""

    def __init__(self, **options: Any):
        self.chance = random.Random(7)
        self.alone = 0
        self.opened = threading.Event()
        self.opened.set()
        self.server = RpcServer(
            "127.0.0.1:0",
            HybridClock(),
            id="echo",
            handlers={ReadRow: self.answer, SetFaults: FAULTS.set},
            later={ReadRow: self.later},
            **options,
        )
        self.server.start()
        self.channels = Channels(HybridClock(), Caller("client", ""))
        self.channel = self.channels.get(self.server.address)

    def answer(self, request: ReadRow, context: CallContext) -> Reply:
        self.alone += 1
        assert self.opened.wait(PATIENCE)
        if request.key[0] == -1:
            raise errors.UnknownTable("no such table")
        return RowReply(row=request.key, timestamp=1)

    def later(self, request: ReadRow, context: CallContext, answer: Answer) -> bool:
        number = request.key[0]
        if number < 0 or number % 6 in (1, 5):
            return False
        reply = RowReply(row=request.key, timestamp=1)
        if number % 2 == 0:
            answer(reply)
        else:
            threading.Timer(self.chance.random() / 100, answer, (reply,)).start()
        return True

    def ask(self, number: int, size: int = 0, timeout: float = PATIENCE) -> Any:
        return self.channel.call(read(number, size), timeout).row

    def close(self) -> None:
        FAULTS.clear()
        self.opened.set()
        self.channels.close()
        assert self.server.stop()


@pytest.fixture
def echo() -> Iterator[Echo]:
    one = Echo()
    yield one
    one.close()


def test_each_call_of_many_threads_gets_its_own_answer(echo: Echo) -> None:
    sizes = [0, 10, 1000, call_streams.WINDOW, 3 * call_streams.WINDOW]
    with ThreadPoolExecutor(16) as pool:
        found = list(pool.map(lambda n: echo.ask(n, sizes[n % 5]), range(600)))
    assert [(row[0], len(row[1])) for row in found] == [(n, sizes[n % 5]) for n in range(600)]
    assert echo.server.under_way["calls"] == 0


def test_what_does_not_fit_among_small_calls_is_begun_all_the_same(echo: Echo) -> None:
    """Several are in progress before the first reply is requested; replies of the handlers' threads, and errors, arrive
    like others."""
    echo.opened.clear()
    requests = [read(number, 3 * call_streams.WINDOW) for number in (1, 5, 7, -1)]
    begun = [echo.channel.begin(request, PATIENCE) for request in requests]
    assert all(isinstance(one, call_streams.SeparateCall) for one in begun)
    until(lambda: echo.alone == 4)
    with pytest.raises(errors.DeadlineExceeded, match=r"127\.0\.0\.1.* has not answered in time"):
        echo.channel.finish(requests[0], begun[0], 0.01)
    echo.opened.set()
    for number, request, one in list(zip((1, 5, 7), requests, begun))[1:]:
        assert echo.channel.finish(request, one, PATIENCE).row == (number, "x" * 3 * call_streams.WINDOW)
    with pytest.raises(errors.UnknownTable):
        echo.channel.finish(requests[3], begun[3], PATIENCE)


def test_a_call_that_waits_holds_up_no_other(echo: Echo) -> None:
    echo.opened.clear()
    with ThreadPoolExecutor(8) as pool:
        slow = [pool.submit(echo.ask, 1) for _ in range(4)]
        until(lambda: echo.alone == 4)
        assert [echo.ask(n)[0] for n in (0, 2, 3)] == [0, 2, 3]
        echo.opened.set()
        assert [call.result()[0] for call in slow] == [1] * 4


def test_calls_that_are_sent_together_make_one_frame(echo: Echo, monkeypatch: pytest.MonkeyPatch) -> None:
    frames = []
    unpacked = call_service.unpack

    def unpack(data: Any, decoder: Any, what: str) -> Any:
        found = unpacked(data, decoder, what)
        if isinstance(found, call_streams.CallFrame):
            frames.append(len(found.calls))
        return found

    monkeypatch.setattr(call_service, "unpack", unpack)
    with call_streams.sending_together():
        begun = [(number, echo.channel.begin(read(number), PATIENCE)) for number in range(12)]
        time.sleep(0.1)
        assert frames == []
    for number, call in begun:
        assert call is not None
        assert echo.channel.finish(read(number), call, PATIENCE).row[0] == number
    assert frames == [12]


def test_errors_come_out_as_they_were_raised(echo: Echo) -> None:
    with pytest.raises(errors.UnknownTable, match="no such table"):
        echo.ask(-1)
    assert echo.ask(0)[0] == 0


def test_time_that_is_up_is_told_and_late_answers_are_nobodys(echo: Echo) -> None:
    echo.opened.clear()
    with pytest.raises(errors.DeadlineExceeded):
        echo.ask(1, timeout=0.05)
    echo.opened.set()
    assert [echo.ask(n)[0] for n in range(6)] == list(range(6))


def test_all_who_wait_learn_that_the_server_is_gone() -> None:
    echo = Echo()
    echo.opened.clear()
    with ThreadPoolExecutor(4) as pool:
        waiting = [pool.submit(echo.ask, 1) for _ in range(4)]
        until(lambda: echo.alone == 4)
        echo.channel.close()
        for call in waiting:
            with pytest.raises(errors.ServerUnavailable):
                call.result()
        echo.opened.set()
    echo.close()


def test_a_server_that_stops_is_not_held_by_streams_and_they_begin_again_with_the_next() -> None:
    first = Echo()
    assert first.ask(0)[0] == 0
    assert first.server.stop()
    with pytest.raises(errors.Error):
        first.ask(2, timeout=2.0)
    first.channels.close()


def test_a_cut_is_felt_on_a_stream_that_stands(echo: Echo) -> None:
    assert echo.ask(0)[0] == 0
    FAULTS.set(SetFaults(cut=("client",)))
    with pytest.raises(errors.ServerUnavailable):
        echo.ask(0)
    FAULTS.clear()
    assert echo.ask(0)[0] == 0


def test_beyond_the_limit_of_streams_calls_go_by_themselves() -> None:
    echo = Echo(limits=Limits(call_streams=1))
    assert echo.ask(0)[0] == 0
    others = Channels(HybridClock(), Caller("other", ""))
    channel = others.get(echo.server.address)
    answers = []
    for number in (1, 2, 3):
        try:
            answers.append(channel.call(read(number)).row[0])
        except (errors.ServerOverloaded, errors.ServerUnavailable):  # reported once, whichever side detects it
            answers.append(channel.call(read(number)).row[0])
    assert answers == [1, 2, 3]
    others.close()
    echo.close()


# ---- foes ------------------------------------------------------------------------------------------------------------


class Stranger:
    """A client that follows no rules."""

    def __init__(self, address: str):
        self.client = flight.FlightClient(f"grpc+tcp://{address}")
        descriptor = flight.FlightDescriptor.for_command(call_streams.COMMAND)
        self.writer, self.reader = self.client.do_exchange(descriptor)

    def say(self, data: bytes) -> None:
        self.writer.write_metadata(data)

    def ask(self, numbers: range, size: int = 0) -> None:
        calls = [
            (n, envelope.pack(RequestEnvelope(HybridClock().now(), 20.0, Caller("foe", ""), read(2 * n, size))))
            for n in numbers
        ]
        self.say(envelope.pack(call_streams.CallFrame(0, tuple(calls))))

    def close(self) -> None:
        self.reader.cancel()
        with contextlib.suppress(pa.ArrowException, OSError):
            self.writer.close()
        self.client.close()


def test_who_does_not_read_holds_up_nobody_and_costs_little(echo: Echo, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(call_service, "OUTBOX_BYTES", 1 << 20)
    foe = Stranger(echo.server.address)
    for first in range(0, 100, 10):
        foe.ask(range(first, first + 10), size=100_000)
    assert [echo.ask(n)[0] for n in range(30)] == list(range(30))
    (stream,) = [s for s in echo.server._call_service._streams if s._unread > call_streams.WINDOW]
    assert stream._outbox_bytes < 2 << 20
    foe.close()
    until(lambda: echo.server.under_way["calls"] == 0)


class StuckWriter:
    """A stream whose other end does not read until it is allowed to."""

    def __init__(self) -> None:
        self.reads = threading.Event()
        self.numbers: list[int] = []

    def write_metadata(self, data: bytes) -> None:
        assert self.reads.wait(PATIENCE)
        frame = envelope.unpack(data, call_streams._answers, "frame of answers")
        self.numbers += [number for number, _ in frame.answers]


def test_no_answer_is_dropped_however_many_wait() -> None:
    writer = StuckWriter()
    stream = call_service.AnswerStream(writer, "")
    stream.answer(0, b"." * (2 << 20))
    until(lambda: not stream._outbox)
    for number in range(1, 20):
        stream.answer(number, b"." * (2 << 20))
    assert stream.room == 0
    waiting = threading.Thread(target=stream.wait_room)
    waiting.start()
    waiting.join(0.05)
    assert waiting.is_alive(), "who does not read is not read either"
    writer.reads.set()
    waiting.join(PATIENCE)
    stream.answer(20, b".")
    until(lambda: writer.numbers == list(range(21)))
    stream.end()
    assert stream.room
    assert stream._thread is not None
    stream._thread.join(PATIENCE)
    assert not stream._thread.is_alive()


def test_a_client_with_no_room_for_answers_is_told_so_and_goes_on_later(
    echo: Echo, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert echo.ask(0)[0] == 0
    (stream,) = echo.server._call_service._streams
    monkeypatch.setattr(type(stream), "room", 0)
    with pytest.raises(errors.ServerOverloaded, match="does not read its replies") as raised:
        echo.ask(2)
    assert raised.value.retryable
    monkeypatch.undo()
    assert echo.ask(4)[0] == 4


def test_calls_that_are_never_decided_do_not_keep_others_out() -> None:
    """The server has room for two calls, and both are never answered."""
    answers: list[Answer] = []

    def later(request: ReadRow, context: CallContext, answer: Answer) -> bool:
        if request.key[0] < 10:
            answers.append(answer)
            return True
        return False

    echo = Echo(limits=Limits(calls=2))
    echo.server.later[ReadRow] = later
    begun = [echo.channel.begin(read(number), 0.2) for number in range(2)]
    until(lambda: len(answers) == 2)
    with pytest.raises(errors.ServerOverloaded):
        echo.ask(21)
    until(lambda: echo.server.under_way["calls"] == 0)
    for number, one in enumerate(begun):
        with pytest.raises(errors.DeadlineExceeded):
            echo.channel.finish(read(number), one, PATIENCE)
    assert echo.ask(23)[0] == 23
    for number, answer in enumerate(answers):
        answer(RowReply(row=(number,), timestamp=1))
    assert echo.server.under_way["calls"] == 0, "a late answer leaves no place twice"
    assert echo.ask(25)[0] == 25
    echo.close()


@pytest.mark.parametrize(
    "data",
    [b"", b"nyla", b"nyla\x09\x00", b"nyla\x01\x00\x93", b"nyla\x01\x00\x92\x00\x91\x92\x01\xa1x", b"\x00" * 5000],
)
def test_what_are_no_calls_end_the_stream_with_an_error_and_nothing_else(echo: Echo, data: bytes) -> None:
    foe = Stranger(echo.server.address)
    foe.say(data or b"?")
    with pytest.raises((pa.ArrowException, OSError, StopIteration)):
        while True:
            foe.reader.read_chunk()
    assert echo.ask(0)[0] == 0
    foe.close()


def test_a_malformed_call_is_answered_and_the_stream_goes_on(echo: Echo) -> None:
    foe = Stranger(echo.server.address)
    foe.say(envelope.pack(call_streams.CallFrame(0, ((1, b"nonsense"),))))
    frame = envelope.unpack(foe.reader.read_chunk().app_metadata.to_pybytes(), call_streams._answers, "frame")
    assert b"ProtocolError" in frame.answers[0][1]
    foe.ask(range(1, 2))
    frame = envelope.unpack(foe.reader.read_chunk().app_metadata.to_pybytes(), call_streams._answers, "frame")
    assert frame.answers[0][0] == 1
    foe.close()


def test_the_end_of_a_transaction_does_not_wait_for_calls_that_wait_for_it() -> None:
    """All threads for calls are taken."""
    echo = Echo()
    ended = threading.Event()
    echo.opened = ended

    def end(request: Resolve, context: CallContext) -> Done:
        ended.set()
        return Done()

    echo.server.handlers[Resolve] = end
    begun = [(number, echo.channel.begin(read(6 * number + 1), PATIENCE)) for number in range(CALL_THREADS + 5)]
    until(lambda: echo.alone == CALL_THREADS)
    resolve = Resolve(tablet_id="t", transaction="x", timestamp=0)
    assert echo.channel.finish(resolve, echo.channel.begin(resolve, PATIENCE), PATIENCE) == Done()
    for number, one in begun:
        assert echo.channel.finish(read(6 * number + 1), one, PATIENCE).row[0] == 6 * number + 1
    echo.close()
