"""A limit to what a server's connections send without it making a message.

gRPC gives a server a message when all of it has come, and Arrow Flight lets no limit be set for that (pyarrow's
`FlightServerBase` takes no options of gRPC, and sets "unlimited" itself). So a message of 1 GB is 1 GB of memory, some
times over, before anything here sees it. What can be seen is how much the kernel has received on each connection:

    TCP_INFO.bytes_received ─ bytes of the messages that came out (`note`) = what gRPC holds of parts of messages

Where that is too much, of one connection or of all together, the connection is cut: gRPC drops what it has of it. What
frames, headers and acknowledgements add is allowed for by a share of each message and some bytes per second.

On Linux alone; elsewhere there is no limit. What comes between two looks is not seen in time: at 1 GB/s, 50 MB.
"""

from __future__ import annotations

import contextlib
import logging
import os
import socket
import stat
import struct
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from typing import Any, Final

from ..process.server_threads import Failed, server_thread

LOOK_SECONDS: Final = 0.05
FIND_SECONDS: Final = 0.25
"""So often new connections are looked for."""
CONNECTION_BYTES: Final = 96 << 20
"""The largest message is a scan's ticket of 64 MiB; eight writes of 8 MiB may be on their way at once."""
ALL_BYTES: Final = 384 << 20
_MESSAGE_OVERHEAD: Final = 512
_SHARE: Final = 1.125
_BYTES_PER_SECOND: Final = 1 << 20
"""A reader of 1 GB/s acknowledges its windows with about half of this."""
_RECEIVED: Final = struct.Struct("=128xQ")
"""`tcpi_bytes_received` of Linux's `tcp_info` (since 4.1)."""

_log = logging.getLogger("nyala.cluster.wire")


class _Connection:
    __slots__ = ("excess", "received")

    def __init__(self, received: int):
        self.received = received
        self.excess = 0.0
        """Bytes that came and that no message accounts for."""


class ReceiveGuard:
    """Watches the connections that come in at a port, from `start` to `close`. Safe for several threads."""

    def __init__(
        self,
        port: int,
        connection_bytes: int = CONNECTION_BYTES,
        all_bytes: int = ALL_BYTES,
        failed: Failed | None = None,
    ):
        self._port = port
        self._connection_bytes = connection_bytes
        self._all_bytes = all_bytes
        self._lock = threading.Lock()
        self._messages: defaultdict[str, int] = defaultdict(int)
        """Bytes of messages since the last look, by the address of their sender. Guarded by the lock."""
        self._known: dict[tuple[int, str], _Connection] = {}
        """By descriptor and address."""
        self._strange: set[str] = set()
        """Senders of messages whose connections were not found last time."""
        self._stopped = threading.Event()
        self._is_possible = sys.platform == "linux"
        self._thread = server_thread("nyala-receive-guard", self._run, failed)

    def start(self) -> None:
        """Watch from now on."""
        if self._is_possible:
            self._thread.start()

    def close(self) -> None:
        """Watch no more."""
        self._stopped.set()
        if self._thread.is_alive() and self._thread is not threading.current_thread():
            self._thread.join()

    def note(self, address: str, size: int) -> None:
        """A message of so many bytes has come from "host:port"."""
        if not self._is_possible:
            return
        with self._lock:
            self._messages[address] += int(size * _SHARE) + _MESSAGE_OVERHEAD

    def _run(self) -> None:
        looked = found = time.monotonic()
        self._find()
        while not self._stopped.wait(LOOK_SECONDS):
            now = time.monotonic()
            if now - found > FIND_SECONDS:
                self._find()
                found = now
            self._look(now - looked)
            looked = now

    def _find(self) -> None:
        """Take note of connections that have come, and forget those that are gone."""
        there: dict[tuple[int, str], _Connection] = {}
        try:
            names = os.listdir("/proc/self/fd")  # noqa: PTH208 - names, not files
        except OSError:
            return  # no descriptor is free for it just now
        for name in names:
            with contextlib.suppress(OSError):
                number = int(name)
                if stat.S_ISSOCK(os.fstat(number).st_mode) and (address := self._sender(number)):
                    key = number, address
                    there[key] = self._known.get(key) or _Connection(0)
        self._known = there
        addresses = {address for _, address in there}
        with self._lock:
            strange = self._messages.keys() - addresses
            for address in strange & self._strange:
                del self._messages[address]
        self._strange = strange

    def _sender(self, number: int) -> str:
        """Who sends at a descriptor; "" where it is no connection to the port."""
        with _borrowed(number) as found:
            if found.family not in (socket.AF_INET, socket.AF_INET6) or found.getsockname()[1] != self._port:
                return ""
            return _address(found)

    def _look(self, seconds: float) -> None:
        with self._lock:
            messages = {address: self._messages.pop(address, 0) for _, address in self._known}
        for (number, address), connection in list(self._known.items()):
            try:
                with _borrowed(number) as found:
                    (received,) = _RECEIVED.unpack(
                        found.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _RECEIVED.size)
                    )
            except (OSError, struct.error):
                self._known.pop((number, address), None)
                continue
            came, connection.received = received - connection.received, received
            allowed = messages[address] + _BYTES_PER_SECOND * seconds
            connection.excess = max(0.0, connection.excess + came - allowed)
        self._cut_excess()

    def _cut_excess(self) -> None:
        total = sum(connection.excess for connection in self._known.values())
        for key, connection in sorted(self._known.items(), key=lambda item: -item[1].excess):
            if connection.excess <= self._connection_bytes and total <= self._all_bytes:
                return
            total -= connection.excess
            del self._known[key]
            _log.error(
                "a connection is cut: it has sent more than is taken, and no whole message",
                extra={"fields": {"from": key[1], "bytes": int(connection.excess), "limit": self._connection_bytes}},
            )
            with contextlib.suppress(OSError), _borrowed(key[0]) as found:
                if _address(found) == key[1]:
                    found.shutdown(socket.SHUT_RDWR)


def _address(connection: socket.socket) -> str:
    """The other side, as gRPC writes it."""
    host, port = connection.getpeername()[:2]
    host = host.removeprefix("::ffff:")
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


class CountedReader:
    """The reader of an exchange, each of whose messages is noted."""

    def __init__(self, reader: Any, address: str, guard: ReceiveGuard):
        self._reader = reader
        self._address = address
        self._guard = guard

    def read_chunk(self) -> Any:
        """As Flight's; raises what that does."""
        chunk = self._reader.read_chunk()
        data = chunk.app_metadata
        self._guard.note(self._address, 0 if data is None else data.size)
        return chunk

    def __getattr__(self, name: str) -> Any:
        return getattr(self._reader, name)


@contextlib.contextmanager
def _borrowed(number: int) -> Iterator[socket.socket]:
    """gRPC's own descriptor as a socket. A copy would keep a connection open that gRPC closes meanwhile."""
    found = socket.socket(fileno=number)
    try:
        yield found
    finally:
        found.detach()
