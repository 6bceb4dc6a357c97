"""Accepts connections at a port: limits their number, and closes those that stall.

With as many connections as are allowed, a new one replaces the one that has been silent for longest, if that is more
than a moment; otherwise it is refused. So clients that connect and remain silent do not exclude others.
"""

from __future__ import annotations

import contextlib
import errno
import logging
import socket
import ssl
import time
from collections.abc import Callable
from typing import Final

from ..errors import ServerUnavailable
from ..model.forks import stay_with_process
from .addresses import address_of
from .connection import STALL_SECONDS, Connection, Protocol
from .reactor import READ, Reactor
from .tls import TlsFilter

_logger = logging.getLogger("nyala.net")

MOST_CONNECTIONS: Final = 4096
CHECK_SECONDS: Final = 1.0
EXPENDABLE_SECONDS: Final = 10.0
"""Seconds of silence after which a connection may be replaced by a new one."""
_BACKLOG: Final = 512
_AT_ONCE: Final = 64
"""Connections accepted in one round."""
_PAUSE: Final = 0.2
"""Seconds without accepting after the process has run out of descriptors."""
_FINISH_SECONDS: Final = 0.005
_NO_DESCRIPTORS: Final = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)


class Listener:
    """A listening socket. It listens from its construction; connections wait there until `start`.

    Parameters
    ----------
    reactor : Reactor
    host : str
    port : int
        0: a free one.
    make_protocol : callable
        Makes the protocol of each connection.
    tls : ssl.SSLContext, optional
        Of a server; None: no encryption.
    most : int
        Accepted connections at the same time.
    stall_seconds : float
        See `Connection`.
    evicts : bool
        True: with `most` connections, a new one replaces a silent one. False: it is refused.

    Raises `ServerUnavailable` if the address cannot be used.
    """

    def __init__(
        self,
        reactor: Reactor,
        host: str,
        port: int,
        make_protocol: Callable[[], Protocol],
        *,
        tls: ssl.SSLContext | None = None,
        most: int = MOST_CONNECTIONS,
        stall_seconds: float = STALL_SECONDS,
        evicts: bool = True,
    ):
        self._reactor = reactor
        self._evicts = evicts
        self._make_protocol = make_protocol
        self._tls = tls
        self._most = most
        self._stall_seconds = stall_seconds
        self._connections: dict[Connection, None] = {}
        self._is_closed = False
        self._socket = _bound(host, port)
        self.port: int = self._socket.getsockname()[1]
        stay_with_process(self)

    def start(self) -> None:
        """Begins to accept; from any thread."""
        self._reactor.call_soon(self._begin)

    def _begin(self) -> None:
        if not self._is_closed:
            self._reactor.watch(self._socket, READ, self._accept)
            self._reactor.call_later(CHECK_SECONDS, self._check)

    @property
    def count(self) -> int:
        """Number of connections."""
        return len(self._connections)

    def close(self) -> None:
        """Stops listening and closes all connections; in the loop's thread, or after its end."""
        self._is_closed = True
        self._reactor.unwatch(self._socket)
        self._socket.close()
        for connection in list(self._connections):
            connection.lose("")

    def stop_accepting(self) -> None:
        """Stops listening; connections stay. In the loop's thread."""
        self._is_closed = True
        self._reactor.unwatch(self._socket)
        self._socket.close()

    def finish(self, deadline: float) -> bool:
        """Waits until all sent bytes have left this process; False at `deadline` (monotonic). From any thread."""
        while any(connection.unsent for connection in list(self._connections)):
            if time.monotonic() >= deadline:
                return False
            time.sleep(_FINISH_SECONDS)
        return True

    def _accept(self, events: int) -> None:
        for _ in range(_AT_ONCE):
            try:
                accepted, address = self._socket.accept()
            except (BlockingIOError, InterruptedError):
                return
            except OSError as error:
                if error.errno in _NO_DESCRIPTORS:
                    self._pause()
                    return
                continue  # this one connection has failed already
            self._adopt(accepted, address)

    def _pause(self) -> None:
        """Leaves connections in the kernel's queue for a moment: the loop would find them again at once."""
        self._reactor.unwatch(self._socket)
        self._reactor.call_later(_PAUSE, self._resume)

    def _resume(self) -> None:
        if not self._is_closed:
            self._reactor.watch(self._socket, READ, self._accept)

    def _adopt(self, accepted: socket.socket, address: tuple[str, int]) -> None:
        if len(self._connections) >= self._most and not (self._evicts and self._evict()):
            accepted.close()
            return
        host, port = address[:2]
        tls = None if self._tls is None else TlsFilter(self._tls)
        connection = Connection(
            self._reactor, accepted, address_of(host, port), self._make_protocol(), tls, self._stall_seconds
        )
        self._connections[connection] = None
        connection.on_closed = lambda closed: self._connections.pop(closed, None)
        connection.attach()

    def _evict(self) -> bool:
        """Closes the connection that has been silent for longest; False if none has been for long enough."""
        oldest = min(self._connections, key=lambda connection: connection.active)
        if time.monotonic() - oldest.active < EXPENDABLE_SECONDS:
            return False
        oldest.lose("the server has too many connections, and this one is silent")
        return True

    def _check(self) -> None:
        if self._is_closed and not self._connections:
            return
        now = time.monotonic()
        for connection in list(self._connections):
            connection.check(now)
        self._reactor.call_later(CHECK_SECONDS, self._check)

    def _abandon(self) -> None:
        """In a forked child: closes its copy of the descriptor."""
        self._socket.close()


def _bound(host: str, port: int) -> socket.socket:
    """Returns a listening socket that does not block."""
    found: socket.socket | None = None
    try:
        family, kind, number, _, address = socket.getaddrinfo(
            host.strip("[]") or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        found = socket.socket(family, kind, number)
        found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            with contextlib.suppress(OSError):  # "::" accepts IPv4, too
                found.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        found.bind(address)
        found.listen(_BACKLOG)
    except (OSError, OverflowError) as error:
        if found is not None:
            found.close()
        raise ServerUnavailable(f"cannot listen at {host}:{port}: {getattr(error, 'strerror', '') or error}") from None
    found.setblocking(False)
    return found
