"""Robustness of a server: malformed messages, floods, readers that do not read, callers that die; then it replies as
before."""

from __future__ import annotations

import contextlib
import gc
import random
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pytest
from examples import examples
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from nyala import errors
from nyala.cluster.wire.call_context import CallContext
from nyala.cluster.wire.calls.rpc import Channel
from nyala.cluster.wire.calls.server_connection import ServerConnection
from nyala.cluster.wire.messages.envelope import Caller, ReplyEnvelope, RequestEnvelope, methods, pack
from nyala.cluster.wire.messages.errors import error_from_body, raised_by_flight
from nyala.cluster.wire.messages.methods import CloseScanner, Done, KeepAlive, ScanEnd, ScanTablet, Write
from nyala.cluster.wire.server import RpcServer
from nyala.cluster.wire.server_limits import Limits
from nyala.model.clock import HybridClock
from nyala.model.types import BIGINT
from nyala.model.vectors.vector import Batch, Flat
from pyarrow import flight

PATIENCE = 60.0
BATCH_ROWS = 100_000


def until(condition: Callable[[], Any]) -> None:
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end, "it never came about"
        time.sleep(0.01)


def many_batches(ticket: ScanTablet, context: CallContext) -> Iterator[Batch | ScanEnd]:
    numbers = np.arange(BATCH_ROWS)
    for _ in range(ticket.spec["batches"]):
        yield Batch([Flat(BIGINT, numbers)], BATCH_ROWS)
    yield ScanEnd(batches=ticket.spec["batches"])


def ticket(batches: int) -> ScanTablet:
    return ScanTablet(tablet_id="t", schema_version=0, spec={"batches": batches}, scanner="s")


class Besieged:
    """A server, a well-behaved channel, and a way to send arbitrary bytes."""

    def __init__(self) -> None:
        self.server = RpcServer(
            "127.0.0.1:0",
            HybridClock(),
            handlers={KeepAlive: lambda request, context: Done()},
            scan=many_batches,
            limits=Limits(body_bytes=1 << 20, calls=16, scans=8),
        )
        self.server.start()
        self.channel = Channel(self.server.address, HybridClock())
        self.connection = ServerConnection(self.server.address)
        self.flight_address = f"127.0.0.1:{self.connection.welcome(PATIENCE).flight_port}"
        self.client = flight.connect(f"grpc://{self.flight_address}")

    def send(self, body: bytes) -> bytes:
        """Returns the reply to a body."""
        return self.connection.get(PATIENCE).begin(body).answer(PATIENCE)

    def is_well(self) -> bool:
        return bool(self.channel.call(KeepAlive(scanner="s"), timeout=PATIENCE) == Done())


@pytest.fixture(scope="module")
def besieged() -> Iterator[Besieged]:
    one = Besieged()
    yield one
    assert one.is_well()
    one.connection.close()
    one.channel.close()
    until(lambda: not any(one.server.under_way.values()))
    one.client.close()
    assert one.server.stop()


def body(method: Any = None, **changes: Any) -> bytes:
    fields = {"clock": 1, "remaining": 5.0, "caller": Caller("c"), "method": method or KeepAlive(scanner="s")}
    return pack(RequestEnvelope(**{**fields, **changes}))


def headed(payload: bytes, magic: bytes = b"nyla", version: int = 2) -> bytes:
    return struct.pack("<4sH", magic, version) + payload


# ---- malformed messages ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sent", "told"),
    [
        (b"", "cut short"),
        (b"nyla\1", "cut short"),
        (b"GET / HTTP/1.1\r\n\r\n", "no request of nyala"),
        (headed(b"", version=1), "version 1 of the protocol came; this side speaks version 2"),
        (headed(b""), "truncated"),
        (headed(b"\x91" * 100_000), "nested too deeply|malformed|claims to hold"),
        (headed(b"\xdd\xff\xff\xff\xff"), r"malformed|truncated"),
        (headed(b"\xc6\xff\xff\xff\xff"), r"malformed"),
        (body()[:-3], "truncated"),
        (body() + b"\x00", "trailing"),
        (body({"type": "make_coffee"}), r"'make_coffee' - at `\$\[3\]\.type`"),
        (body({"type": "keep_alive"}), r"required field `scanner`"),
        (body({"type": "keep_alive", "scanner": 7}), r"Expected `str`, got `int` - at `\$\[3\]\.scanner`"),
        (body({"type": "start_scan", "ticket": {"tablet_id": 7}}), r"Expected `str`, got `int` .*ticket.tablet_id"),
        (body({"type": "start_scan", "ticket": "s"}), r"Expected `object`, got `str` - at `\$\[3\]\.ticket`"),
        (body({"scanner": "s"}), "type"),
        (body(clock="noon"), r"Expected `int`, got `str` - at `\$\[0\]`"),
    ],
)
def test_malformed_requests_are_told_what_is_wrong(besieged: Besieged, sent: bytes, told: str) -> None:
    with pytest.raises(errors.ProtocolError, match=told):
        reply = msgspec.msgpack.decode(besieged.send(sent)[6:], type=ReplyEnvelope[Done])
        assert reply.error is not None
        raise error_from_body(reply.error)
    assert besieged.is_well()


@pytest.mark.parametrize("remaining", [float("nan"), float("-inf"), -1.0, float("inf"), 1e300])
def test_absurd_deadlines(besieged: Besieged, remaining: float) -> None:
    reply = msgspec.msgpack.decode(besieged.send(body(remaining=remaining))[6:], type=ReplyEnvelope[Done])
    if remaining > 0:
        assert reply.reply == Done()
    else:
        assert reply.error is not None and reply.error.classes[0] == "DeadlineExceeded"


def test_deep_nesting_where_anything_may_stand(besieged: Besieged) -> None:
    marker = b"0123456789"
    whole = body({"type": "create_table", "definition": {"a": marker}, "replicas": None, "call": ["c", 1, 1]})
    at = whole.index(b"\xc4\x0a" + marker)
    nested = whole[:at] + b"\x91" * 50_000 + b"\xc0" + whole[at + 12 :]
    huge = whole[:at] + b"\xdd\xff\xff\xff\xf0" + whole[at + 12 :]
    for sent, told in ((nested, "nested too deeply"), (huge, "malformed")):
        reply = msgspec.msgpack.decode(besieged.send(sent)[6:], type=ReplyEnvelope[Done])
        assert reply.error is not None
        with pytest.raises(errors.ProtocolError, match=told):
            raise error_from_body(reply.error)


def test_a_request_that_is_too_large_ends_its_connection(besieged: Besieged) -> None:
    with pytest.raises(errors.ServerUnavailable, match=r"too large: .* 1048576"):
        besieged.send(body(Write(tablet_id="t", schema_version=0, rows=bytes(2 << 20), ops=1, call=None)))
    with pytest.raises(errors.ProtocolError, match="too large"):
        besieged.channel.call(Write(tablet_id="t", schema_version=0, rows=bytes(17 << 20), ops=1, call=None))
    assert besieged.is_well()


def test_other_actions_and_tickets(besieged: Besieged) -> None:
    with pytest.raises(pa.ArrowException):
        list(besieged.client.do_action(("nyala.call", b"")))
    for sent in (b"", b"\xff" * 100, headed(b"\xc0"), body(), bytes(2 << 20)):
        with pytest.raises(flight.FlightServerError) as caught:
            besieged.client.do_get(flight.Ticket(sent))
        assert isinstance(raised_by_flight(caught.value, ""), errors.ProtocolError)
    for attempt in (
        lambda: list(besieged.client.list_flights()),
        lambda: besieged.client.get_flight_info(flight.FlightDescriptor.for_path("x")),
        lambda: besieged.client.get_schema(flight.FlightDescriptor.for_command(b"")),
    ):
        with pytest.raises(pa.ArrowException):
            attempt()
    assert besieged.is_well()


@settings(max_examples=examples(150), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(payload=st.binary(max_size=60), is_headed=st.booleans())
def test_random_bytes(besieged: Besieged, payload: bytes, is_headed: bool) -> None:
    sent = headed(payload) if is_headed else payload
    reply = msgspec.msgpack.decode(besieged.send(sent)[6:], type=ReplyEnvelope[Done])
    assert reply.error is not None
    assert reply.error.classes[0] == "ProtocolError"


@settings(max_examples=examples(150), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_damaged_requests(besieged: Besieged, data: st.DataObject) -> None:
    """Every method, with a byte changed or the end truncated: an error of the protocol, or a reply."""
    good = data.draw(st.sampled_from(SAMPLES))
    damaged = bytearray(good)
    place = data.draw(st.integers(0, len(good) - 1))
    damaged[place] ^= data.draw(st.integers(1, 255))
    answer = besieged.send(bytes(damaged[:place]) if data.draw(st.booleans()) else bytes(damaged))
    msgspec.msgpack.decode(answer[6:], type=ReplyEnvelope[Done])


def _samples() -> list[bytes]:
    """Returns a message of each method that can be made of texts and numbers only, and some others."""
    made = [body(KeepAlive(scanner="s")), body(CloseScanner(scanner="t"))]
    for method in methods():
        guesses = {
            field.name: {str: "text", int: 7, bool: True, float: 0.5, bytes: b"123"}.get(field.type)
            for field in msgspec.structs.fields(method)
        }
        made.append(body(method(**guesses)))
    return made


SAMPLES = _samples()


# ---- floods ---------------------------------------------------------------------------------------------------------


def test_hundreds_of_connections_at_once(besieged: Besieged) -> None:
    host, _, port = besieged.server.address.rpartition(":")
    rng = random.Random(1)
    with contextlib.ExitStack() as opened:
        for number in range(300):
            one = opened.enter_context(socket.create_connection((host, int(port))))
            with contextlib.suppress(OSError):
                if number % 3 == 0:
                    one.sendall(rng.randbytes(200))
                elif number % 3 == 1:
                    one.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
        assert besieged.is_well()
    assert besieged.is_well()


def test_many_clients_call_at_once(besieged: Besieged) -> None:
    """Some are refused, all are answered."""
    outcomes: list[str] = []

    def call() -> None:
        channel = Channel(besieged.server.address, HybridClock())
        try:
            channel.call(KeepAlive(scanner="s"), timeout=PATIENCE)
            outcomes.append("done")
        except errors.ServerOverloaded:
            outcomes.append("overloaded")
        finally:
            channel.close()

    callers = [threading.Thread(target=call) for _ in range(150)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join(PATIENCE)
    assert len(outcomes) == 150 and "done" in outcomes


# ---- readers and callers --------------------------------------------------------------------------------------------


def test_a_slow_reader_holds_up_no_other(besieged: Besieged) -> None:
    slow = [besieged.channel.scan(ticket(10_000), timeout=PATIENCE) for _ in range(4)]
    for stream in slow:
        next(stream)
    assert sum(batch.length for batch in besieged.channel.scan(ticket(50), timeout=PATIENCE)) == 50 * BATCH_ROWS
    assert besieged.is_well()
    for stream in slow:
        assert next(stream).length == BATCH_ROWS
        stream.close()
    until(lambda: not besieged.server.under_way["scans"])


_READER = """
import sys
from nyala.cluster.wire.messages.methods import ScanTablet
from nyala.cluster.wire.calls.rpc import Channel
from nyala.model.clock import HybridClock
stream = Channel(sys.argv[1], HybridClock()).scan(
    ScanTablet(tablet_id="t", schema_version=0, spec={"batches": 100_000}, scanner="s"), timeout=600)
next(stream)
print("reads", flush=True)
sys.stdin.read()
"""


def _threads() -> int:
    return len(list(Path("/proc/self/task").iterdir()))


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="counts threads by /proc")
def test_callers_that_die_in_the_middle_of_a_scan_leave_nothing(besieged: Besieged) -> None:
    def begun_and_killed() -> None:
        with subprocess.Popen(
            [sys.executable, "-c", _READER, besieged.server.address],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        ) as reader:
            assert reader.stdout is not None and reader.stdout.readline() == "reads\n"
            assert besieged.server.under_way["scans"]
            reader.send_signal(signal.SIGKILL)
        until(lambda: not besieged.server.under_way["scans"])
        assert besieged.is_well()

    begun_and_killed()
    gc.collect()
    before, memory = _threads(), pa.total_allocated_bytes()
    for _ in range(3):
        begun_and_killed()
    until(lambda: pa.total_allocated_bytes() <= memory + (1 << 20))
    # gRPC keeps a few threads ready for further calls.
    until(lambda: _threads() <= before + 4)
