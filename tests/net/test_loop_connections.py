"""Connections of an event loop: calls of many tasks, limits, cancelled tasks, ends, servers that misbehave."""

from __future__ import annotations

import asyncio
import random
import socket
import threading
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from net_support import MOST, PATIENCE, FramedServer, until
from nyala import errors
from nyala.net import loop_connection
from nyala.net.dialing import ClientTls, dial
from nyala.net.frame_server import FramedClient
from nyala.net.frames import MESSAGE, PREAMBLE, REFUSED, WELCOME, frame
from nyala.net.loop_connection import MOST_CALLS, LoopConnection
from tls_support import Pki


@pytest.fixture
def server() -> Iterator[FramedServer]:
    one = FramedServer()
    yield one
    one.close()


def on_loop(address: str, work: Callable[[LoopConnection], Awaitable[Any]], tls: ClientTls | None = None) -> Any:
    """Runs `work` with a connection on a new event loop."""

    async def main() -> Any:
        connection = LoopConnection(dial(address, b"me", MOST, PATIENCE, tls), address)
        await connection.attach()
        async with asyncio.timeout(PATIENCE):
            found = await work(connection)
        connection.close()
        await asyncio.sleep(0)
        assert connection.is_over
        return found

    return asyncio.run(main())


def test_tasks_share_a_connection_and_replies_come_in_any_order(server: FramedServer) -> None:
    waiting: list[tuple[FramedClient, int, bytes]] = []

    def take(client: FramedClient, number: int, body: bytes) -> None:
        waiting.append((client, number, body))
        if len(waiting) == 50:
            random.shuffle(waiting)
            for one, its_number, its_body in waiting:
                one.reply(its_number, its_body)
            waiting.clear()

    server.take = take

    async def work(connection: LoopConnection) -> None:
        assert connection.welcome == b"welcome me"
        for _ in range(3):
            bodies = [b"%d" % number * (1 + number * 700) for number in range(50)]
            assert await asyncio.gather(*(connection.call(body, PATIENCE) for body in bodies)) == bodies

    on_loop(server.address, work)


def test_large_bodies_go_both_ways(server: FramedServer) -> None:
    async def work(connection: LoopConnection) -> None:
        bodies = [bytes([number]) * MOST for number in range(16)]
        assert await asyncio.gather(*(connection.call(body, PATIENCE) for body in bodies)) == bodies

    on_loop(server.address, work)


def test_calls_beyond_the_limit_wait_in_their_order(server: FramedServer) -> None:
    most = 0

    def take(client: FramedClient, number: int, body: bytes) -> None:
        nonlocal most
        most = max(most, client.running)
        server.reactor.call_later(0.002, lambda: client.reply(number, body))

    server.take = take
    done: list[int] = []

    async def one(connection: LoopConnection, number: int) -> None:
        for _ in range(3):
            await connection.call(b"x", PATIENCE)
        done.append(number)

    async def work(connection: LoopConnection) -> None:
        await asyncio.gather(*(one(connection, number) for number in range(4 * MOST_CALLS)))

    on_loop(server.address, work)
    assert len(done) == 4 * MOST_CALLS
    assert most <= MOST_CALLS


def test_a_cancelled_task_cancels_its_call_alone(server: FramedServer) -> None:
    taken: list[tuple[FramedClient, int]] = []

    def take(client: FramedClient, number: int, body: bytes) -> None:
        if body == b"slow":
            taken.append((client, number))
        else:
            client.reply(number, body)

    server.take = take

    async def work(connection: LoopConnection) -> None:
        slow = [asyncio.create_task(connection.call(b"slow", PATIENCE)) for _ in range(3)]
        assert await connection.call(b"fast", PATIENCE) == b"fast"
        slow[1].cancel()
        with pytest.raises(asyncio.CancelledError):
            await slow[1]
        assert await connection.call(b"fast", PATIENCE) == b"fast"
        until(lambda: [client.is_cancelled(number) for client, number in taken] == [False, True, False])
        for client, number in taken:
            client.reply(number, b"late")
        assert [await slow[0], await slow[2]] == [b"late", b"late"]

    on_loop(server.address, work)


def test_a_call_that_is_not_answered_in_time_is_cancelled(server: FramedServer) -> None:
    taken: list[tuple[FramedClient, int]] = []
    server.take = lambda client, number, body: (
        client.reply(number, body) if body == b"fast" else taken.append((client, number))
    )

    async def work(connection: LoopConnection) -> None:
        slow = asyncio.create_task(connection.call(b"slow", 0.1))
        while not slow.done():
            assert await connection.call(b"fast", PATIENCE) == b"fast"
        with pytest.raises(errors.DeadlineExceeded):
            await slow
        assert await connection.call(b"fast", PATIENCE) == b"fast"
        until(lambda: taken[0][0].is_cancelled(taken[0][1]))

    on_loop(server.address, work)


def test_a_server_that_does_not_respond_at_all_loses_the_connection(server: FramedServer) -> None:
    server.take = lambda client, number, body: None

    async def work(connection: LoopConnection) -> None:
        other = asyncio.create_task(connection.call(b"b", PATIENCE))
        with pytest.raises(errors.DeadlineExceeded):
            await connection.call(b"a", 0.05)
        with pytest.raises(errors.ServerUnavailable, match="does not respond"):
            await other
        with pytest.raises(errors.ServerUnavailable, match="does not respond"):
            await connection.call(b"c", PATIENCE)

    on_loop(server.address, work)


def test_a_server_that_does_not_read_loses_the_connection(
    server: FramedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loop_connection, "SEND_SECONDS", 0.1)
    halted, goes_on = threading.Event(), threading.Event()

    async def work(connection: LoopConnection) -> None:
        server.reactor.call_soon(lambda: (halted.set(), goes_on.wait(PATIENCE)))
        await asyncio.to_thread(halted.wait, PATIENCE)
        calls = [asyncio.create_task(connection.call(bytes(MOST), PATIENCE)) for _ in range(20)]
        for call in calls:
            with pytest.raises(errors.ServerUnavailable, match="has not read"):
                await call
        goes_on.set()

    on_loop(server.address, work)


def test_the_end_of_the_server_or_of_the_connection_ends_all_calls() -> None:
    for by_server in (True, False):
        server = FramedServer()
        server.take = lambda client, number, body: None

        async def work(connection: LoopConnection, server: FramedServer = server, by_server: bool = by_server) -> None:
            calls = [asyncio.create_task(connection.call(b"a", PATIENCE)) for _ in range(3)]
            await asyncio.sleep(0)
            ending = asyncio.create_task(asyncio.to_thread(server.close if by_server else connection.close))
            for call in calls:
                # A server that closes with requests unread resets the connection.
                with pytest.raises(errors.ServerUnavailable, match=r"closed|reset by peer"):
                    await call
            await ending

        on_loop(server.address, work)
        if not by_server:
            server.close()


@pytest.mark.parametrize(
    ("sent", "says"),
    [
        (frame(REFUSED, 0, b"it is full"), "has ended the connection: it is full"),
        (frame(MESSAGE, 0, b""), "unexpected kind"),
        (b"\xff" * 40, "unexpected kind"),
    ],
)
def test_a_server_that_breaks_the_protocol_loses_the_connection(sent: bytes, says: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve() -> None:
            peer, _ = listening.accept()
            with peer:
                peer.recv(1000)
                peer.sendall(PREAMBLE + frame(WELCOME, 0, b""))
                peer.recv(1000)
                peer.sendall(sent)
                while peer.recv(1000):
                    pass

        thread = threading.Thread(target=serve)
        thread.start()

        async def work(connection: LoopConnection) -> None:
            with pytest.raises(errors.OperationalError, match=says):
                await connection.call(b"a", PATIENCE)
            assert connection.is_over

        on_loop(f"127.0.0.1:{listening.getsockname()[1]}", work)
        thread.join(PATIENCE)


def test_tls(tmp_path: Path) -> None:
    pki = Pki(tmp_path)
    server = FramedServer(tls=pki.server.accepting)

    async def work(connection: LoopConnection) -> None:
        bodies = [bytes([number]) * (number * 9000) for number in range(40)]
        assert await asyncio.gather(*(connection.call(body, PATIENCE) for body in bodies)) == bodies

    on_loop(server.address, work, pki.credentials().for_calls(server.address))
    assert server.identities == ["nyala-client"]
    server.close()
