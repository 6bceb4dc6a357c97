"""Calls and scans: results, errors and their classes, and refusals of a server."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from nyala import errors
from nyala.cluster.wire import server
from nyala.cluster.wire.call_context import CallContext
from nyala.cluster.wire.calls.rpc import Channel, Channels
from nyala.cluster.wire.calls.server_connection import ServerConnection
from nyala.cluster.wire.client_clock import ClientClock
from nyala.cluster.wire.faults import FAULTS
from nyala.cluster.wire.messages import errors as wire_errors
from nyala.cluster.wire.messages import methods
from nyala.cluster.wire.messages.envelope import Caller, Welcome
from nyala.cluster.wire.messages.methods import (
    Done,
    GetStatus,
    KeepAlive,
    ScanEnd,
    ScanTablet,
    SetFaults,
    StepDown,
    WriteRow,
)
from nyala.cluster.wire.messages.transaction_methods import Resolve
from nyala.cluster.wire.server import RpcServer
from nyala.cluster.wire.server_limits import Limits
from nyala.model.clock import HybridClock
from nyala.model.store import Timestamp
from nyala.model.types import BIGINT
from nyala.model.vectors.vector import Batch, Flat

PATIENCE = 90.0


def until(condition: Callable[[], Any]) -> None:
    """Waits for a condition; fails at a timeout."""
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end, "it never came about"
        time.sleep(0.002)


def ticket(rows: int = 10, batches: int = 3) -> ScanTablet:
    return ScanTablet(tablet_id="t", schema_version=0, spec={"rows": rows, "batches": batches}, scanner="s")


def numbers(request: ScanTablet, context: CallContext) -> Iterator[Batch | ScanEnd]:
    rows = request.spec["rows"]
    for batch in range(request.resume_batch, request.spec["batches"]):
        yield Batch([Flat(BIGINT, np.arange(batch * rows, (batch + 1) * rows))], rows)
    yield ScanEnd(batches=request.spec["batches"], rows_returned=rows * request.spec["batches"])


class Served:
    """A server with a channel to it."""

    def __init__(self, **options: Any):
        self.clock, self.own_clock = HybridClock(), HybridClock()
        self.answer: Callable[[Any, CallContext], methods.Reply] = lambda request, context: Done()
        self.server = RpcServer(
            "127.0.0.1:0",
            self.clock,
            id="server-1",
            handlers={
                kind: lambda request, context: self.answer(request, context) for kind in (KeepAlive, StepDown, WriteRow)
            }
            | {SetFaults: FAULTS.set},
            **{"scan": numbers, **options},
        )
        self.server.start()
        self.channels = Channels(self.own_clock, Caller("client-1", "127.0.0.1:9"))
        self.channel: Channel = self.channels.get(self.server.address)

    def raising(self, error: BaseException) -> None:
        def answer(request: Any, context: CallContext) -> methods.Reply:
            raise error

        self.answer = answer

    def close(self) -> None:
        FAULTS.clear()
        self.channels.close()
        assert self.server.stop()


@pytest.fixture
def served() -> Iterator[Served]:
    one = Served()
    yield one
    one.close()


# ---- calls ----------------------------------------------------------------------------------------------------------


def test_clocks_travel_both_ways(served: Served) -> None:
    served.own_clock.update(Timestamp(served.own_clock.now() + (9 * 10**6 << 12)))
    sent = served.own_clock.now()
    served.channel.call(KeepAlive(scanner="s"))
    assert served.clock.now() > sent
    served.clock.update(Timestamp(served.clock.now() + (500_000 << 12)))
    ahead = served.clock.now()
    served.raising(errors.ReplicaUnavailable("not here"))
    with pytest.raises(errors.ReplicaUnavailable):
        served.channel.call(KeepAlive(scanner="s"))
    assert served.own_clock.now() > ahead
    assert served.channel.server_id == "server-1"


def test_a_client_that_is_too_far_ahead_is_refused_and_moves_no_clock(served: Served) -> None:
    served.own_clock.update(Timestamp(served.own_clock.now() + (7200 * 10**6 << 12)))
    with pytest.raises(errors.ClockTooFarAhead, match=r"(\d\d:){2}.* 7200 s ahead of this machine's, .*(\d\d:){2}"):
        served.channel.call(KeepAlive(scanner="s"))
    with pytest.raises(errors.ClockTooFarAhead):
        list(served.channel.scan(ticket()))
    assert served.clock.limit() < served.own_clock.latest
    assert not served.clock.is_beyond(served.clock.now())


def test_requests_that_are_each_a_little_ahead_do_not_add_up(served: Served) -> None:
    for _ in range(5):
        served.own_clock.update(Timestamp(served.clock.now() + (9 * 10**6 << 12)))
        with contextlib.suppress(errors.ClockTooFarAhead):
            served.channel.call(KeepAlive(scanner="s"))
    assert served.clock.now() < HybridClock().limit()


def test_a_server_that_is_too_far_ahead_counts_as_unavailable(served: Served) -> None:
    served.clock.update(Timestamp(served.clock.now() + (7200 * 10**6 << 12)))
    with pytest.raises(errors.ServerUnavailable, match=r"clock of server .* 7200 s ahead"):
        served.channel.call(KeepAlive(scanner="s"))
    assert served.own_clock.latest < HybridClock().limit()


def test_a_client_on_a_slow_machine_follows_the_first_server(served: Served) -> None:
    served.clock.update(Timestamp(served.clock.now() + (7200 * 10**6 << 12)))
    clock = ClientClock()
    channels = Channels(clock)
    try:
        channel = channels.get(served.server.address)
        channel.call(KeepAlive(scanner="s"))
        channel.call(KeepAlive(scanner="s"))
        assert clock.now() > served.clock.latest - (10**6 << 12)
        clock.heard("another:1", clock.latest, is_ahead=False)
        served.clock.update(Timestamp(served.clock.now() + (60 * 10**6 << 12)))
        with pytest.raises(errors.ServerUnavailable, match="7260 s ahead"):
            channel.call(KeepAlive(scanner="s"))
        clock.heard("another:1", served.clock.latest, is_ahead=True)
        channel.call(KeepAlive(scanner="s"))
    finally:
        channels.close()


def test_a_server_that_is_behind_most_others_counts_as_unavailable(served: Served) -> None:
    """As behind a restart: its peers continue from times ahead of their clocks, and it has heard of none yet."""
    clock = ClientClock()
    channels = Channels(clock)
    ahead = clock.wall() + 7200 * 10**6 << 12
    try:
        channel = channels.get(served.server.address)
        assert clock.heard("leader:1", ahead, is_ahead=False)
        clock.update(Timestamp(ahead))
        with pytest.raises(errors.ServerUnavailable, match=r"is behind the others: .* 7200 s ahead"):
            channel.call(KeepAlive(scanner="s"))
        clock.heard("another:1", clock.wall() << 12, is_ahead=False)
        with pytest.raises(errors.ClockTooFarAhead, match="7200 s ahead"):
            channel.call(KeepAlive(scanner="s"))
    finally:
        channels.close()


def test_the_handler_sees_caller_and_deadline(served: Served) -> None:
    seen: list[CallContext] = []

    def answer(request: Any, context: CallContext) -> Done:
        seen.append(context)
        assert 0 < context.remaining() <= 20
        assert not context.is_cancelled()
        return Done()

    served.answer = answer
    served.channel.call(KeepAlive(scanner="s"), timeout=20)
    assert seen[0].caller == Caller("client-1", "127.0.0.1:9")


ROUND_TRIPS: list[errors.Error] = [
    errors.NotTheLeader("another is", "127.0.0.1:77", 12),
    errors.CorruptionError("expected 7, found 8", "/data/x", "page 3 at offset 8192"),
    errors.UnknownColumn("column x does not exist", "SELECT x\nFROM t", 7, 1),
    errors.RowsRefused("2 rows", [errors.RefusedRow(3, {"k": 1, "d": None}, errors.AlreadyPresent("is there"))], 5),
    errors.MemoryLimitExceeded("full"),
    errors.DatabaseError(),
    errors.SqlSyntaxError("x" * 100_000),
]


@pytest.mark.parametrize("error", ROUND_TRIPS, ids=lambda error: type(error).__name__)
def test_errors_come_out_as_they_were_raised(served: Served, error: errors.Error) -> None:
    served.raising(error)
    with pytest.raises(errors.Error) as caught:
        served.channel.call(KeepAlive(scanner="s"))
    came = caught.value
    assert type(came) is type(error)
    assert (str(came), came.retryable) == (str(error), error.retryable)
    assert {name: str(value) for name, value in vars(came).items()} == {
        name: str(value) for name, value in vars(error).items()
    }


def test_every_class_of_error_can_travel() -> None:
    def classes(base: type[errors.Error]) -> Iterator[type[errors.Error]]:
        yield base
        for below in base.__subclasses__():
            yield from classes(below)

    for kind in classes(errors.Error):
        if kind.__module__ != errors.__name__:
            continue
        error = kind("told", "path", "place") if kind is errors.CorruptionError else kind("told")
        came = wire_errors.error_from_body(wire_errors.error_to_body(error))
        assert type(came) is kind and str(came) == str(error)


def test_an_error_of_a_newer_server_is_the_nearest_known() -> None:
    class LeaderAsleep(errors.NotTheLeader):
        pass

    came = wire_errors.error_from_body(wire_errors.error_to_body(LeaderAsleep("zzz", "127.0.0.1:5", 2)))
    assert type(came) is errors.NotTheLeader
    assert came.leader == "127.0.0.1:5"


def test_a_bug_of_the_server_is_told_in_a_line(served: Served, caplog: pytest.LogCaptureFixture) -> None:
    served.raising(KeyError("secret"))
    with pytest.raises(errors.InternalError, match="KeyError at the server: 'secret'") as caught:
        served.channel.call(KeepAlive(scanner="s"))
    assert "Traceback" not in str(caught.value)
    # Not the log as text: a Spark session in the same process puts its own formatter on every handler that it finds.
    assert any(record.exc_info for record in caplog.records)


def test_a_method_that_this_server_does_not_have(served: Served) -> None:
    with pytest.raises(errors.ProtocolError, match="no method GetStatus"):
        served.channel.call(GetStatus())


def test_no_server_there() -> None:
    one = Served()
    one.close()
    channels = Channels(HybridClock())
    channel = channels.get(one.server.address)
    for attempt in (lambda: channel.call(GetStatus()), lambda: channel.scan(ticket())):
        with pytest.raises(errors.ServerUnavailable, match="cannot be reached"):
            attempt()
    for address in ("nowhere", "nowhere.invalid:1", "127.0.0.1:99999999", ""):
        with pytest.raises(errors.ServerUnavailable):
            channels.get(address).call(GetStatus(), timeout=5)
    channels.close()
    with pytest.raises(errors.ServerUnavailable, match="closed"):
        channels.get(one.server.address)


def test_a_restarted_server_is_found_again(served: Served) -> None:
    served.channel.call(KeepAlive(scanner="s"))
    list(served.channel.scan(ticket()))
    assert served.server.stop()
    with pytest.raises(errors.ServerUnavailable):
        served.channel.call(KeepAlive(scanner="s"))
    served.server = RpcServer(
        served.server.address, served.clock, handlers={KeepAlive: lambda request, context: Done()}, scan=numbers
    )
    with pytest.raises(errors.ServerUnavailable, match="starting"):
        served.channel.call(KeepAlive(scanner="s"))
    served.server.start()
    served.channel.call(KeepAlive(scanner="s"))
    assert len(list(served.channel.scan(ticket()))) == 3


def test_scans_have_the_port_that_was_chosen_for_them() -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    served = Served(flight_port=port)
    assert len(list(served.channel.scan(ticket()))) == 3
    connection = ServerConnection(served.server.address)
    assert connection.welcome(PATIENCE) == Welcome("server-1", port)
    connection.close()
    served.close()


def test_a_server_without_scans_says_so() -> None:
    served = Served(flight_port=None)
    served.channel.call(KeepAlive(scanner="s"))
    with pytest.raises(errors.ProtocolError, match="has no tablets to scan"):
        served.channel.scan(ticket())
    served.close()


def test_no_answer_in_time(served: Served) -> None:
    waiting = threading.Event()

    def answer(request: Any, context: CallContext) -> Done:
        waiting.wait(PATIENCE)
        until(context.is_cancelled)
        with pytest.raises(errors.DeadlineExceeded):
            context.check()
        return Done()

    served.answer = answer
    with pytest.raises(errors.DeadlineExceeded, match="in time"):
        served.channel.call(KeepAlive(scanner="s"), timeout=0.05)
    waiting.set()
    with pytest.raises(errors.DeadlineExceeded, match="the deadline passed before"):
        served.channel.call(KeepAlive(scanner="s"), timeout=0)
    until(lambda: not served.server.under_way["calls"])


def test_two_servers_do_not_share_a_port(served: Served) -> None:
    with pytest.raises(errors.ServerUnavailable, match="cannot listen at"):
        RpcServer(served.server.address, HybridClock())


# ---- what is turned away --------------------------------------------------------------------------------------------


def test_more_calls_at_once_than_the_limit() -> None:
    served = Served(limits=Limits(calls=2))
    release, inside = threading.Event(), threading.Semaphore(0)

    def answer(request: Any, context: CallContext) -> Done:
        inside.release()
        release.wait(PATIENCE)
        return Done()

    served.answer = answer
    callers = [threading.Thread(target=served.channel.call, args=(KeepAlive(scanner="s"),)) for _ in range(2)]
    for caller in callers:
        caller.start()
    for _ in callers:
        assert inside.acquire(timeout=PATIENCE)
    with pytest.raises(errors.ServerOverloaded, match="2 calls at once"):
        served.channel.call(KeepAlive(scanner="s"))
    # What the running calls may wait for is accepted.
    served.server.handlers[Resolve] = lambda request, context: Done()
    assert served.channel.call(Resolve(tablet_id="t", transaction="x", timestamp=0)) == Done()
    assert served.server.under_way["calls"] == 2
    release.set()
    for caller in callers:
        caller.join()
    until(lambda: not served.server.under_way["calls"])
    served.channel.call(KeepAlive(scanner="s"))
    served.close()


def test_what_grows_memory_is_turned_away_where_there_is_none() -> None:
    reason = ["all 3 GB are in use"]
    served = Served(is_overloaded=lambda: reason[0])
    row = WriteRow(tablet_id="t", schema_version=0, op=1, row={}, call=None)
    with pytest.raises(errors.ServerOverloaded, match="all 3 GB are in use"):
        served.channel.call(row)
    served.channel.call(KeepAlive(scanner="s"))
    served.answer = lambda request, context: methods.WriteReply(applied=1, timestamp=5)
    reason[0] = ""
    served.channel.call(row)
    served.close()


def test_a_draining_server_ends_what_it_began(served: Served) -> None:
    release, inside = threading.Event(), threading.Event()
    answers: list[Any] = []

    def answer(request: Any, context: CallContext) -> Done:
        inside.set()
        release.wait(PATIENCE)
        return Done()

    served.answer = answer
    stream = served.channel.scan(ticket(batches=3))
    next(stream)
    caller = threading.Thread(target=lambda: answers.append(served.channel.call(KeepAlive(scanner="s"))))
    caller.start()
    assert inside.wait(PATIENCE)
    drained: list[bool] = []
    draining = threading.Thread(target=lambda: drained.append(served.server.drain(PATIENCE)))
    draining.start()

    def is_turned_away() -> bool:
        try:
            served.channel.call(StepDown(tablet_id="t"), timeout=0.2)
        except errors.ServerUnavailable:
            return True
        except errors.DeadlineExceeded:
            pass
        return False

    until(is_turned_away)
    release.set()
    caller.join()
    assert len(list(stream)) == 2 and answers == [Done()]
    draining.join()
    assert drained == [True]


# ---- scans ----------------------------------------------------------------------------------------------------------


def test_a_scan(served: Served) -> None:
    stream = served.channel.scan(ticket(rows=1000, batches=5))
    values = np.concatenate([batch.column(0).values() for batch in stream])
    assert np.array_equal(values, np.arange(5000))
    assert stream.end == ScanEnd(batches=5, rows_returned=5000)
    assert stream.batches == 5
    assert list(stream) == []


def test_a_scan_goes_on_where_it_stopped(served: Served) -> None:
    resumed = ScanTablet(tablet_id="t", schema_version=0, spec={"rows": 10, "batches": 3}, scanner="s", resume_batch=2)
    (batch,) = served.channel.scan(resumed)
    assert batch.column(0).values().tolist() == list(range(20, 30))


def test_a_scan_that_fails_midway_says_so() -> None:
    def failing(request: ScanTablet, context: CallContext) -> Iterator[Batch | ScanEnd]:
        yield Batch([], 7)
        raise errors.CorruptionError("bad", "/x", "page 1")

    def endless(request: ScanTablet, context: CallContext) -> Iterator[Batch | ScanEnd]:
        yield Batch([], 7)

    served = Served(scan=failing)
    stream = served.channel.scan(ticket())
    assert next(stream).length == 7
    with pytest.raises(errors.CorruptionError, match="page 1"):
        next(stream)
    served.server.scan = endless
    stream = served.channel.scan(ticket())
    next(stream)
    with pytest.raises(errors.InternalError, match="without a result"):
        next(stream)
    served.server.scan = None
    with pytest.raises(errors.ProtocolError, match="no tablets to scan"):
        next(served.channel.scan(ticket()))
    until(lambda: not served.server.under_way["scans"])
    served.close()


@pytest.mark.parametrize("how", ["close", "drop", "unread"])
def test_a_scan_that_is_left_ends_at_the_server(how: str) -> None:
    ended = threading.Event()

    def counting(request: ScanTablet, context: CallContext) -> Iterator[Batch | ScanEnd]:
        try:
            while True:
                yield Batch([Flat(BIGINT, np.arange(100_000))], 100_000)
        finally:
            ended.set()

    served = Served(scan=counting)
    stream = served.channel.scan(ticket())
    if how != "unread":
        next(stream)
    else:
        until(lambda: served.server.under_way["scans"])
    if how == "close":
        stream.close()
        with pytest.raises(errors.Cancelled):
            next(stream)
    else:
        del stream
    assert how == "unread" or ended.wait(PATIENCE)
    until(lambda: not served.server.under_way["scans"])
    served.close()


def test_more_scans_at_once_than_the_limit() -> None:
    served = Served(limits=Limits(scans=2))
    large = ticket(rows=1_000_000, batches=50)
    open_scans = [served.channel.scan(large) for _ in range(2)]
    with pytest.raises(errors.ServerOverloaded, match="2 scans at once"):
        served.channel.scan(ticket())
    open_scans[0].close()
    until(lambda: served.server.under_way["scans"] < 2)
    assert len(list(served.channel.scan(ticket()))) == 3
    open_scans[1].close()
    served.close()


def test_a_scan_that_nobody_reads_is_given_up() -> None:
    released = threading.Event()

    def large(request: ScanTablet, context: CallContext) -> Iterator[Batch | ScanEnd]:
        try:
            for _ in range(100):
                yield Batch([Flat(BIGINT, np.arange(1_000_000))], 1_000_000)
        finally:
            released.set()

    served = Served(scan=large, limits=Limits(idle_scan_seconds=0.2))
    stream = served.channel.scan(ticket(), timeout=120)
    assert next(stream).length > 0
    assert released.wait(PATIENCE)
    until(lambda: not served.server.under_way["scans"])
    with pytest.raises(errors.ScannerExpired):
        list(stream)
    served.close()


# ---- faults ---------------------------------------------------------------------------------------------------------


def test_who_is_cut_off(served: Served) -> None:
    served.channel.call(KeepAlive(scanner="s"))
    for name in ("*", "server-1", served.server.address, "client-1"):
        assert served.channel.call(SetFaults(cut=(name,))) == Done()
        with pytest.raises(errors.ServerUnavailable, match="cut off"):
            served.channel.call(KeepAlive(scanner="s"))
        with pytest.raises(errors.ServerUnavailable, match="cut off"):
            next(served.channel.scan(ticket()))
    served.channel.call(SetFaults(cut=("another",)))
    served.channel.call(KeepAlive(scanner="s"))


def test_the_limits_have_their_defaults() -> None:
    assert server.Limits().body_bytes == 16 << 20
