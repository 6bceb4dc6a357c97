"""A framed server on a reactor, for tests of net/."""

from __future__ import annotations

import socket
import ssl
import threading
import time
from collections.abc import Callable
from typing import Any

from nyala.net.client_connection import ClientConnection
from nyala.net.dialing import ClientTls, dial
from nyala.net.frame_server import FramedClient, FrameService, gathering
from nyala.net.listener import Listener
from nyala.net.reactor import Reactor

PATIENCE = 90.0
MOST = 1 << 20


def until(condition: Callable[[], Any]) -> None:
    """Waits for a condition; fails at a timeout."""
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end, "it never came about"
        time.sleep(0.002)


class FramedServer:
    """Answers each call with its own body, or as `take` says."""

    def __init__(self, tls: ssl.SSLContext | None = None, all_bytes: int = 64 << 20, **limits: Any):
        self.messages: list[bytes] = []
        self.identities: list[str] = []
        self.failures: list[BaseException] = []
        self.clients: list[FramedClient] = []
        self.take: Callable[[FramedClient, int, bytes], object] = lambda client, number, body: client.reply(
            number, body
        )
        self.reactor = Reactor(failed=lambda name, error: self.failures.append(error))
        self.reactor.around = gathering
        self.service = FrameService(
            self.greet,
            lambda client, number, body: self.take(client, number, body),
            lambda client, body: self.messages.append(body),
            call_bytes=MOST,
            message_bytes=MOST,
            all_bytes=all_bytes,
        )
        self.listener = Listener(self.reactor, "127.0.0.1", 0, self.service.protocol, tls=tls, **limits)
        self.reactor.start()
        self.listener.start()
        self.address = f"127.0.0.1:{self.listener.port}"

    def greet(self, hello: bytes, client: FramedClient) -> bytes:
        self.identities.append(client.identity)
        self.clients.append(client)
        return b"welcome " + hello

    def connect(self, tls: ClientTls | None = None) -> ClientConnection:
        return ClientConnection(dial(self.address, b"me", MOST, PATIENCE, tls), self.address)

    def raw(self) -> socket.socket:
        found = socket.create_connection(("127.0.0.1", self.listener.port), timeout=PATIENCE)
        found.settimeout(PATIENCE)
        return found

    def close(self) -> None:
        done = threading.Event()
        self.reactor.call_soon(lambda: (self.listener.close(), done.set()))
        assert done.wait(PATIENCE)
        assert self.reactor.close(PATIENCE)
        assert not self.failures
