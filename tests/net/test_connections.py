"""Clients and a server over real sockets: calls of many threads, hostile bytes, slow readers, ends."""

from __future__ import annotations

import contextlib
import random
import socket
import struct
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from net_support import MOST, PATIENCE, FramedServer, until
from nyala import errors
from nyala.net import client_connection, connection, frame_server, listener
from nyala.net.client_connection import sending_together
from nyala.net.dialing import dial
from nyala.net.frame_server import FramedClient
from nyala.net.frames import CALL, HELLO, PREAMBLE, REFUSED, REPLY, WELCOME, FrameReader, frame, frame_head


@pytest.fixture
def server() -> Iterator[FramedServer]:
    one = FramedServer()
    yield one
    one.close()


def read_to_end(sock: socket.socket) -> bytes:
    parts = []
    try:
        while part := sock.recv(65536):
            parts.append(part)
    except ConnectionResetError:
        pass
    return b"".join(parts)


# ---- calls -----------------------------------------------------------------------------------------------------------


def test_a_call_is_answered(server: FramedServer) -> None:
    client = server.connect()
    assert client.welcome == b"welcome me"
    assert client.begin(b"one").answer(PATIENCE) == b"one"
    assert client.begin(b"").answer(PATIENCE) == b""
    client.close()
    with pytest.raises(errors.ServerUnavailable):
        client.begin(b"two")


def test_replies_go_to_their_calls_in_any_order(server: FramedServer) -> None:
    waiting: list[tuple[FramedClient, int, bytes]] = []

    def take(client: FramedClient, number: int, body: bytes) -> None:
        waiting.append((client, number, body))
        if len(waiting) == 50:
            random.shuffle(waiting)
            for one, its_number, its_body in waiting:
                one.reply(its_number, its_body)

    server.take = take
    client = server.connect()
    with sending_together():
        calls = [client.begin(b"%d" % number) for number in range(50)]
    for number, call in enumerate(calls):
        assert call.answer(PATIENCE) == b"%d" % number
    client.close()


def test_many_threads_share_a_connection(server: FramedServer) -> None:
    later = ThreadPoolExecutor(4)

    def take(client: FramedClient, number: int, body: bytes) -> None:
        if number % 3:
            client.reply(number, body)
        else:
            later.submit(client.reply, number, body)

    server.take = take
    client = server.connect()

    def calls(thread: int) -> None:
        for number in range(200):
            body = b"%d %d" % (thread, number) * (1 + number % 5 * 1000)
            assert client.begin(body).answer(PATIENCE, (lambda: None) if number % 2 else None) == body

    with ThreadPoolExecutor(16) as threads:
        for done in [threads.submit(calls, thread) for thread in range(16)]:
            done.result()
    client.close()
    later.shutdown()


def test_large_bodies_go_both_ways(server: FramedServer) -> None:
    client = server.connect()
    bodies = [bytes([number]) * MOST for number in range(8)]
    calls = [client.begin(body) for body in bodies[:1]]
    assert [call.answer(PATIENCE) for call in calls] == bodies[:1]
    with ThreadPoolExecutor(8) as threads:
        assert list(threads.map(lambda body: client.begin(body).answer(PATIENCE), bodies)) == bodies
    client.close()


def test_a_call_that_is_not_answered_in_time_is_cancelled(server: FramedServer) -> None:
    taken: list[tuple[FramedClient, int]] = []

    def take(client: FramedClient, number: int, body: bytes) -> None:
        if body == b"slow":
            taken.append((client, number))
        else:
            client.reply(number, body)

    server.take = take
    client = server.connect()
    slow = client.begin(b"slow")
    assert client.begin(b"fast").answer(PATIENCE) == b"fast"
    with pytest.raises(errors.DeadlineExceeded):
        slow.answer(0.05)
    assert client.begin(b"fast").answer(PATIENCE) == b"fast"
    until(lambda: taken[0][0].is_cancelled(taken[0][1]))
    taken[0][0].reply(taken[0][1], b"too late")
    assert client.begin(b"fast").answer(PATIENCE) == b"fast"
    client.close()


def test_a_server_that_does_not_respond_at_all_loses_the_connection(server: FramedServer) -> None:
    server.take = lambda client, number, body: None
    client = server.connect()
    call, other = client.begin(b"a"), client.begin(b"b")
    with pytest.raises(errors.DeadlineExceeded):
        call.answer(0.05)
    assert client.is_over
    with pytest.raises(errors.ServerUnavailable, match="does not respond"):
        other.answer(PATIENCE)


def test_look_ends_a_wait_of_the_thread_that_reads_and_of_the_others(server: FramedServer) -> None:
    server.take = lambda client, number, body: client.reply(number, body) if body == b"fast" else None
    client = server.connect()
    looked = threading.Barrier(3, timeout=PATIENCE)

    def look() -> None:
        looked.wait()
        raise errors.Cancelled("it was cancelled")

    def call() -> None:
        with pytest.raises(errors.Cancelled):
            client.begin(b"slow").answer(PATIENCE, look)

    with ThreadPoolExecutor(3) as threads:
        for done in [threads.submit(call) for _ in range(3)]:
            done.result()
    assert client.begin(b"fast").answer(PATIENCE) == b"fast"
    client.close()


def test_an_interrupted_reader_harms_no_later_call(server: FramedServer) -> None:
    server.take = lambda client, number, body: client.reply(number, body) if body == b"fast" else None
    client = server.connect()

    def look() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        client.begin(b"slow").answer(PATIENCE, look)
    assert client.begin(b"fast").answer(PATIENCE) == b"fast"
    client.close()


def test_the_end_of_the_server_ends_all_calls() -> None:
    server = FramedServer()
    server.take = lambda client, number, body: None
    client = server.connect()
    idle = server.connect()
    calls = [client.begin(b"a") for _ in range(3)]
    assert not idle.has_ended()
    with ThreadPoolExecutor(3) as threads:
        waiting = [threads.submit(call.answer, PATIENCE) for call in calls]
        server.close()
        for one in waiting:
            with pytest.raises(errors.ServerUnavailable):
                one.result()
    until(idle.has_ended)
    with pytest.raises(errors.ConnectionRefused):
        dial(server.address, b"", MOST, PATIENCE)


def test_calls_go_on_when_their_client_has_gone(server: FramedServer) -> None:
    taken: list[tuple[FramedClient, int]] = []
    server.take = lambda client, number, body: taken.append((client, number))
    client = server.connect()
    client.begin(b"a")
    until(lambda: taken)
    assert not taken[0][0].is_cancelled(taken[0][1])
    client.close()
    until(lambda: taken[0][0].is_cancelled(taken[0][1]))
    taken[0][0].reply(taken[0][1], b"a")


# ---- hostile and slow clients ----------------------------------------------------------------------------------------


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(
        st.one_of(
            st.binary(max_size=60),
            st.just(PREAMBLE),
            st.builds(frame, st.integers(0, 9), st.integers(0, 2**32 - 1), st.binary(max_size=30)),
        ),
        max_size=6,
    )
)
def test_no_bytes_harm_other_clients(server: FramedServer, pieces: list[bytes]) -> None:
    with server.raw() as foe:
        try:
            for piece in pieces:
                foe.sendall(piece)
            foe.shutdown(socket.SHUT_WR)
            read_to_end(foe)
        except OSError:
            pass
    client = server.connect()
    assert client.begin(b"fine").answer(PATIENCE) == b"fine"
    client.close()
    assert not server.failures


@pytest.mark.parametrize(
    ("sent", "says"),
    [
        (b"GET / HTTP/1.1\r\n\r\n", "no connection of nyala"),
        (PREAMBLE[:-1] + b"\x07", "speaks version 7"),
        (PREAMBLE + frame(CALL, 1, b"x"), "first frame is no HELLO"),
        (PREAMBLE + frame_head(HELLO, 0, MOST + 1), "too large"),
    ],
)
def test_a_wrong_beginning_is_refused_with_its_reason(server: FramedServer, sent: bytes, says: str) -> None:
    with server.raw() as foe:
        foe.sendall(sent)
        told = read_to_end(foe)
    ((kind, _, body),) = FrameReader({REFUSED: MOST}).feed(told)
    assert kind == REFUSED
    assert says in body.decode()


def test_a_second_hello_is_refused(server: FramedServer) -> None:
    with server.raw() as foe:
        foe.sendall(PREAMBLE + frame(HELLO, 0, b"") * 2)
        frames = FrameReader({WELCOME: MOST, REFUSED: MOST}).feed(read_to_end(foe))
    assert [kind for kind, _, _ in frames] == [WELCOME, REFUSED]


def test_another_version_is_refused_by_the_client(server: FramedServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nyala.net.dialing.PREAMBLE", PREAMBLE[:-1] + b"\x09")
    with pytest.raises(errors.ProtocolError, match=r"refuses the connection: .* version 9 .* version 2"):
        server.connect()


def test_a_server_of_another_program_is_refused() -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:

        def serve() -> None:
            accepted, _ = other.accept()
            with accepted:
                accepted.recv(100)
                accepted.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")

        threading.Thread(target=serve, daemon=True).start()
        address = f"127.0.0.1:{other.getsockname()[1]}"
        with pytest.raises(errors.ProtocolError, match="no connection of nyala"):
            dial(address, b"", MOST, PATIENCE)


def test_a_silent_server_costs_no_more_than_the_time_given() -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        address = f"127.0.0.1:{other.getsockname()[1]}"
        with pytest.raises(errors.DeadlineExceeded):
            dial(address, b"", MOST, 0.05)


def test_a_slow_client_loses_its_connection(server: FramedServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frame_server, "HELLO_SECONDS", 0.01)
    monkeypatch.setattr(frame_server, "FRAME_SECONDS", 0.01)
    with server.raw() as silent, server.raw() as slow:
        slow.sendall(PREAMBLE + frame(HELLO) + frame_head(CALL, 1, 100))
        assert read_to_end(silent) == b""
        assert read_to_end(slow) == PREAMBLE + frame(WELCOME, 0, b"welcome ")


def test_incomplete_frames_of_all_clients_together_have_a_limit() -> None:
    server = FramedServer(all_bytes=3 << 20)
    foes = [server.raw() for _ in range(8)]
    for foe in foes:
        foe.sendall(PREAMBLE + frame(HELLO))
        assert foe.recv(100)
    for foe in foes:
        with contextlib.suppress(OSError):
            foe.sendall(frame_head(CALL, 1, MOST) + b"x" * (MOST - 1))
    until(lambda: server.listener.count <= 3)
    client = server.connect()
    assert client.begin(b"fine").answer(PATIENCE) == b"fine"
    client.close()
    for foe in foes:
        foe.close()
    server.close()


def test_a_client_that_does_not_read_harms_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "PAUSE_BYTES", 2 << 20)
    server = FramedServer(stall_seconds=0.5)
    server.take = lambda client, number, body: client.reply(number, body * 100)
    with server.raw() as foe:
        foe.settimeout(0.2)
        foe.sendall(PREAMBLE + frame(HELLO))
        with pytest.raises(OSError):  # nothing more is read from it, and at last the connection is closed
            for number in range(2000):
                foe.sendall(frame(CALL, number, b"x" * 10_000))
        (client,) = server.clients
        assert client.room == 0 or client.is_cancelled(0) or client.connection.unsent > 2 << 20
        other = server.connect()
        assert other.begin(b"fine").answer(PATIENCE) == b"fine" * 100
        other.close()
        until(lambda: client.is_cancelled(0))
    server.close()


def test_a_new_client_replaces_a_silent_one_when_there_are_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    server = FramedServer(most=2)
    first, second = server.connect(), server.connect()
    with pytest.raises(errors.ClusterError):
        server.connect()
    monkeypatch.setattr(listener, "EXPENDABLE_SECONDS", 0.0)
    assert second.begin(b"a").answer(PATIENCE) == b"a"
    third = server.connect()
    assert third.begin(b"a").answer(PATIENCE) == b"a"
    until(first.has_ended)
    assert second.begin(b"a").answer(PATIENCE) == b"a"
    second.close()
    third.close()
    server.close()


def test_an_error_in_a_handler_closes_that_connection_alone(server: FramedServer) -> None:
    def take(client: FramedClient, number: int, body: bytes) -> None:
        if body == b"bug":
            raise ZeroDivisionError
        client.reply(number, body)

    server.take = take
    bad, good = server.connect(), server.connect()
    with pytest.raises(errors.ServerUnavailable):
        bad.begin(b"bug").answer(PATIENCE)
    assert good.begin(b"fine").answer(PATIENCE) == b"fine"
    good.close()


def test_the_client_refuses_a_hostile_server() -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:

        def serve() -> None:
            hostile = struct.pack(">IBI", 1 << 31, REPLY, 1), frame(77, 1, b""), frame(HELLO, 1, b""), b"\xff" * 40
            for piece in hostile:
                accepted, _ = other.accept()
                with accepted:
                    accepted.recv(1000)
                    accepted.sendall(PREAMBLE + frame(WELCOME, 0, b""))
                    accepted.recv(1000)
                    accepted.sendall(piece)
                    accepted.recv(1000)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        address = f"127.0.0.1:{other.getsockname()[1]}"
        for _ in range(4):
            client = client_connection.ClientConnection(dial(address, b"", MOST, PATIENCE), address)
            with pytest.raises(errors.ProtocolError):
                client.begin(b"a").answer(PATIENCE)
        thread.join(PATIENCE)


# ---- the reactor -----------------------------------------------------------------------------------------------------


def test_jobs_and_timers_run_in_the_loop_whatever_the_others_do(server: FramedServer) -> None:
    ran: list[str] = []

    def fail() -> None:
        raise ZeroDivisionError

    reactor = server.reactor
    reactor.call_soon(fail)
    reactor.call_soon(lambda: ran.append("soon"))
    reactor.call_soon(lambda: reactor.call_later(0.02, lambda: ran.append("later")))
    reactor.call_soon(lambda: reactor.call_later(0.01, lambda: ran.append("earlier")))
    until(lambda: len(ran) == 3)
    assert ran == ["soon", "earlier", "later"]


def test_jobs_from_many_threads_all_run(server: FramedServer) -> None:
    counted: list[int] = []

    def submit() -> None:
        for number in range(500):
            server.reactor.call_soon(lambda number=number: counted.append(number))
            if not number % 50:
                time.sleep(0.001)

    with ThreadPoolExecutor(8) as threads:
        for _ in range(8):
            threads.submit(submit)
    until(lambda: len(counted) == 4000)
