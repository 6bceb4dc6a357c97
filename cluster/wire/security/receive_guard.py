"""A limit on the bytes that connections to the port for scans send without completing a message.

gRPC passes a message to the server when it is complete, and Arrow Flight allows no limit on its size (pyarrow's
`FlightServerBase` takes no options of gRPC, and sets "unlimited" itself). So a message of 1 GB takes 1 GB of memory,
some times over, before any code here sees it. What can be measured is how much the kernel has received on each
connection:

TCP_INFO.bytes_received ─ bytes of the completed messages (`note`) = bytes that gRPC holds of incomplete messages

If that is too much, of one connection or of all together, the connection is cut: gRPC drops its part of the message. A
share of each message and some bytes per second allow for frames, headers and acknowledgements.

On Linux only; elsewhere there is no limit. Bytes that arrive between two checks are seen late: at 1 GB/s, 50 MB.
"""

from __future__ import annotations

import contextlib
import logging
import math
import os
import socket
import stat
import struct
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from typing import Final

from ....net.addresses import address_of
from ..process.server_threads import Failed, server_thread

LOOK_SECONDS: Final = 0.05
FIND_SECONDS: Final = 0.25
"""Seconds between two searches for new connections."""
FORGET_SECONDS: Final = 1.0
"""Seconds for which a descriptor that is no socket is left out of the searches, and for which none is made while the
number of descriptors stays the same. A server with hundreds of tablets has as many open files: to look at each in every
search took 0.8 % of a processor."""
_DESCRIPTORS: Final = "/proc/self/fd"
CONNECTION_BYTES: Final = 96 << 20
"""The largest message is a scan's ticket of 64 MiB; eight writes of 8 MiB may be in transit at once."""
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
        """Received bytes that belong to no completed message."""


class ReceiveGuard:
    """Watches the connections accepted at a port, from `start` to `close`. Thread-safe."""

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
        """Bytes of messages since the last check, by the address of their sender. Guarded by the lock."""
        self._known: dict[tuple[int, str], _Connection] = {}
        """By descriptor and address."""
        self._strange: set[str] = set()
        """Senders of messages whose connections were not found last time."""
        self._files: set[str] = set()
        """Descriptors that were no sockets; since `_forgot`, as their numbers may be used again."""
        self._others: set[tuple[int, int]] = set()
        """Sockets that are not connections to the port, by descriptor and inode."""
        self._count = 0
        """Number of descriptors at the last search; 0 if the system does not say."""
        self._forgot = -math.inf
        self._stopped = threading.Event()
        self._is_possible = sys.platform == "linux"
        self._thread = server_thread("nyala-receive-guard", self._run, failed)

    def start(self) -> None:
        """Starts watching."""
        if self._is_possible:
            self._thread.start()

    def close(self) -> None:
        """Stops watching."""
        self._stopped.set()
        if self._thread.is_alive() and self._thread is not threading.current_thread():
            self._thread.join()

    @property
    def senders(self) -> frozenset[str] | None:
        """Addresses of the open connections, as of some tenths of a second ago; None if they cannot be found."""
        return frozenset(address for _, address in list(self._known)) if self._is_possible else None

    def note(self, address: str, size: int) -> None:
        """Records a message of this number of bytes from "host:port"."""
        if not self._is_possible:
            return
        with self._lock:
            self._messages[address] += int(size * _SHARE) + _MESSAGE_OVERHEAD

    def _run(self) -> None:
        looked = found = time.monotonic()
        self._find()
        while not self._stopped.wait(LOOK_SECONDS if self._known else FIND_SECONDS):
            now = time.monotonic()
            if now - found >= FIND_SECONDS:
                if self._is_search_due(now):
                    self._find()
                found = now
            self._look(now - looked)
            looked = now

    def _is_search_due(self, now: float) -> bool:
        """False if nothing suggests a new connection since the last search."""
        return not self._count or self._count != _descriptors() or now - self._forgot >= FORGET_SECONDS

    def _find(self) -> None:
        """Records new connections, and drops closed ones."""
        there: dict[tuple[int, str], _Connection] = {}
        try:
            self._count = _descriptors()
            names = os.listdir(_DESCRIPTORS)  # noqa: PTH208 - names, not files
        except OSError:
            return  # no descriptor is free for it at the moment
        if time.monotonic() - self._forgot >= FORGET_SECONDS:
            self._files, self._forgot = set(), time.monotonic()
        files, others = self._files.intersection(names), set()
        for name in files.symmetric_difference(names):
            try:
                number = int(name)
                status = os.fstat(number)
                if not stat.S_ISSOCK(status.st_mode):
                    files.add(name)
                elif (found := (number, status.st_ino)) in self._others:
                    others.add(found)
                elif address := self._sender(number):
                    key = number, address
                    there[key] = self._known.get(key) or _Connection(0)
                else:
                    others.add(found)
            except OSError:  # closed meanwhile
                continue
        self._files, self._others = files, others
        self._known = there
        addresses = {address for _, address in there}
        with self._lock:
            strange = self._messages.keys() - addresses
            for address in strange & self._strange:
                del self._messages[address]
        self._strange = strange
        if strange:
            self._forgot = -math.inf  # their connections may have numbers that were those of files

    def _sender(self, number: int) -> str:
        """Returns the sender at a descriptor; "" if it is not a connection to the port."""
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
                "a connection is cut: it has sent more than is allowed without completing a message",
                extra={"fields": {"from": key[1], "bytes": int(connection.excess), "limit": self._connection_bytes}},
            )
            with contextlib.suppress(OSError), _borrowed(key[0]) as found:
                if _address(found) == key[1]:
                    found.shutdown(socket.SHUT_RDWR)


def _descriptors() -> int:
    """Returns the number of open descriptors; 0 if the kernel does not say (before Linux 6.2)."""
    return os.stat(_DESCRIPTORS).st_size  # noqa: PTH116 - no file


def _address(connection: socket.socket) -> str:
    """Returns the other side's address in gRPC's form."""
    host, port = connection.getpeername()[:2]
    return address_of(host.removeprefix("::ffff:"), port)


@contextlib.contextmanager
def _borrowed(number: int) -> Iterator[socket.socket]:
    """Returns gRPC's own descriptor as a socket. A copy would keep a connection open that gRPC closes meanwhile."""
    found = socket.socket(fileno=number)
    try:
        yield found
    finally:
        found.detach()
