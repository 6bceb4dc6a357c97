"""One socket of the reactor: reads and decrypts in the loop, encrypts and writes in any thread.

    read   socket ─► TLS ─► protocol.bytes_received                                            in the loop's thread
    send   any thread ─► TLS ─► socket, as far as that does not block ─► the rest by the loop when it is writable

The thread that sends writes itself, so that a reply wakes only its receiver. Bytes that the kernel does not
accept wait in memory; while more than `PAUSE_BYTES` wait, nothing is read from the connection. The sender decides how
much may wait (`unsent`).

    | state | event | next state |
    |---|---|---|
    | HANDSHAKE | the handshake is done | OPEN |
    | HANDSHAKE | this side ends it | ENDING |
    | HANDSHAKE | it breaks | CLOSED |
    | OPEN | this side ends it | ENDING |
    | OPEN | it breaks | CLOSED |
    | ENDING | the other side ends it | CLOSED |

ENDING: the rest is sent, then the end of the stream; what arrives is discarded for a moment. Closing at once would make
the kernel discard the last bytes, which say why.
"""

from __future__ import annotations

import contextlib
import logging
import socket
import ssl
import threading
import time
from collections import deque
from collections.abc import Callable
from enum import Enum
from typing import Final
from typing import Protocol as Interface

from .. import errors
from ..model.forks import stay_with_process
from ..model.state_table import StateTable
from .reactor import READ, WRITE, Reactor
from .tls import TlsFilter, first_name

_logger = logging.getLogger("nyala.net")

PAUSE_BYTES: Final = 32 << 20
"""Unsent bytes above which nothing more is read."""
HANDSHAKE_SECONDS: Final = 10.0
LINGER_SECONDS: Final = 2.0
_ALERT: Final = bytes.fromhex("15 03 01 00 02 02 46")
"""A fatal alert of TLS: protocol_version."""
STALL_SECONDS: Final = 120.0
"""Seconds without progress after which a reader with unsent bytes loses its connection."""


class State(Enum):
    """State of a connection; the table is on the module's page."""

    HANDSHAKE = "handshake"
    OPEN = "open"
    ENDING = "ending"
    CLOSED = "closed"


_S = State
STATES = StateTable(
    _S.HANDSHAKE,
    {
        (_S.HANDSHAKE, "the handshake is done"): _S.OPEN,
        (_S.HANDSHAKE, "this side ends it"): _S.ENDING,
        (_S.HANDSHAKE, "it breaks"): _S.CLOSED,
        (_S.OPEN, "this side ends it"): _S.ENDING,
        (_S.OPEN, "it breaks"): _S.CLOSED,
        (_S.ENDING, "the other side ends it"): _S.CLOSED,
    },
)


_HANDSHAKE, _OPEN, _ENDING, _CLOSED = State
"""An attribute of an Enum costs as much as five comparisons."""
_OVER: Final = (_ENDING, _CLOSED)


class Protocol(Interface):
    """The protocol of a connection: a state machine that receives bytes and sends bytes, and does no I/O itself. The
    loop's thread calls all of its methods, so they must not block. An exception closes the connection."""

    def connection_made(self, connection: Connection) -> None:
        """Called once, after the TLS handshake, if there is one."""

    def bytes_received(self, data: memoryview) -> None:
        """Called with plain bytes; the memory is reused after the call."""

    def drained(self) -> None:
        """Called when all sent bytes have been passed to the kernel after some had to wait."""

    def check(self, now: float) -> str:
        """Returns the reason for which the connection must be closed; "" for none. Called about once a second, with
        `time.monotonic()`."""

    def connection_lost(self, reason: str) -> None:
        """Called once, also without `connection_made`; no other call follows. "": closed as expected."""


class Connection:
    """A connection; made and attached in the loop's thread.

    Parameters
    ----------
    reactor : Reactor
    sock : socket
        Connected.
    address : str
        Of the other side.
    protocol : Protocol
    tls : TlsFilter, optional
    stall_seconds : float
        Seconds without progress of unsent bytes after which it is closed.
    """

    def __init__(
        self,
        reactor: Reactor,
        sock: socket.socket,
        address: str,
        protocol: Protocol,
        tls: TlsFilter | None = None,
        stall_seconds: float = STALL_SECONDS,
    ):
        self.address = address
        self.identity = ""
        """First alternative name of the other side's certificate; "" without TLS."""
        self.active = time.monotonic()
        """When bytes last arrived."""
        self._reactor = reactor
        self._socket = sock
        self._protocol = protocol
        self._tls = tls
        self._stall_seconds = stall_seconds
        self._began = self.active
        self._state = STATES.first
        # Guards all below, the TLS object, and writes on the socket.
        self._lock = threading.Lock()
        self._unsent: deque[memoryview] = deque()
        self._unsent_bytes = 0
        self._progress = self.active
        """When the last of the unsent bytes were accepted by the kernel."""
        self._awaits_room = False
        """True if the loop watches, or will watch, for room."""
        self._is_paused = False
        self._events = READ
        self._ends = 0.0
        self.on_closed: Callable[[Connection], object] = lambda connection: None
        stay_with_process(self)

    def attach(self, received: bytes = b"") -> None:
        """Begins to read. `received`: bytes, as they came from the socket, that precede those still to be read."""
        sock = self._socket
        sock.setblocking(False)
        with contextlib.suppress(OSError):
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        self._reactor.watch(sock, READ, self._ready)
        if self._tls is None or self._tls.is_ready:
            self._made()
        if received:
            self._deliver(memoryview(received))

    @property
    def is_closed(self) -> bool:
        """True if nothing can be sent any more."""
        return self._state in _OVER

    @property
    def unsent(self) -> int:
        """Bytes that wait for the kernel."""
        return self._unsent_bytes

    def start_tls(self, tls: TlsFilter, received: bytes = b"") -> None:
        """Begins TLS on a connection that was opened without it: from now on all bytes are encrypted.

        In the loop's thread; nothing may be sent before the other side's handshake. `received` are its first encrypted
        bytes, if they are there.
        """
        assert self._tls is None
        self._tls = tls
        if received:
            self._deliver(memoryview(received))

    @property
    def is_encrypted(self) -> bool:
        """True if it has TLS."""
        return self._tls is not None

    def pause_reading(self, paused: bool) -> None:
        """Stops reading from the socket, or goes on; from any thread. The kernel's buffers then stop the other side."""
        self._is_paused = paused
        self._reactor.call_soon(self._update_events)

    # ---- sending, from any thread ----------------------------------------------------------------------------------

    def send(self, data: bytes) -> None:
        """Sends bytes, or keeps them until the socket accepts them; never blocks. No-op on a closed connection."""
        with self._lock:
            if self._state in _OVER:
                return
            if self._tls is not None:
                data = self._tls.encrypted(data)
            self._write(data)

    def _write(self, data: bytes) -> None:
        """Needs the lock."""
        if not data:
            return
        sent = 0
        if not self._unsent:
            try:
                sent = self._socket.send(data)
            except (BlockingIOError, InterruptedError):
                pass
            except OSError as error:
                self.abort(f"it broke: {error.strerror or error}")
                return
            if sent == len(data):
                return
            self._progress = time.monotonic()
        self._unsent.append(memoryview(data)[sent:])
        self._unsent_bytes += len(data) - sent
        if not self._awaits_room:
            self._awaits_room = True
            self._reactor.call_soon(self._update_events)

    def end(self, data: bytes = b"") -> None:
        """Sends these bytes, then ends the connection. From any thread."""
        self.send(data)
        self._reactor.call_soon(self._end)

    def abort(self, reason: str = "") -> None:
        """Closes the connection at once. From any thread."""
        self._reactor.call_soon(lambda: self.lose(reason))

    # ---- in the loop's thread --------------------------------------------------------------------------------------

    def _ready(self, events: int) -> None:
        if events & WRITE:
            self._write_unsent()
        if events & READ and self._state is not _CLOSED:
            self._read()

    def _read(self) -> None:
        buffer = self._reactor.buffer
        try:
            size = self._socket.recv_into(buffer)
        except (BlockingIOError, InterruptedError):
            return
        except OSError as error:
            self.lose(f"it broke: {error.strerror or error}")
            return
        if not size:
            self.lose("the other side has closed it" if self._state is not _ENDING else "")
        elif self._state is not _ENDING:
            self._deliver(buffer[:size])

    def _deliver(self, data: memoryview) -> None:
        """Passes received bytes to TLS and the protocol."""
        self.active = time.monotonic()
        try:
            if self._tls is not None:
                with self._lock:
                    data = memoryview(self._decrypted(self._tls, data))
            if self._state is _HANDSHAKE:
                if self._tls is None or not self._tls.is_ready:
                    return
                self._made()
            if data and self._state is _OPEN:
                self._protocol.bytes_received(data)
        except EOFError:
            self.lose("the other side has closed it")
        except ssl.SSLError as error:
            _refusals.note(self.address, error)
            assert self._tls is not None
            with self._lock:
                # OpenSSL sends no alert to a client that does not use TLS.
                self._write(self._tls.outgoing() or (b"" if self._tls.is_ready else _ALERT))
            self._end()
        except errors.Error as error:
            self.lose(str(error))
        except Exception as error:
            _logger.exception("the connection from %s is closed", self.address)
            self.lose(f"{type(error).__name__}: {error}")
        if self._unsent_bytes:
            self._update_events()

    def _decrypted(self, tls: TlsFilter, data: memoryview) -> bytes:
        """Needs the lock."""
        try:
            if not tls.is_ready:
                if not tls.handshake(data):
                    return b""
                data = memoryview(b"")
            return tls.decrypted(data)
        finally:
            self._write(tls.outgoing())

    def _made(self) -> None:
        if self._tls is not None:
            self.identity = first_name(self._tls.certificate())
        self._to(_OPEN)
        self._protocol.connection_made(self)

    def _to(self, state: State) -> None:
        self._state = STATES.checked(self._state, state)

    def _write_unsent(self) -> None:
        reason = ""
        with self._lock:
            try:
                while self._unsent:
                    part = self._unsent[0]
                    sent = self._socket.send(part)
                    self._progress = time.monotonic()
                    self._unsent_bytes -= sent
                    if sent < len(part):
                        self._unsent[0] = part[sent:]
                    else:
                        self._unsent.popleft()
            except (BlockingIOError, InterruptedError):
                pass
            except OSError as error:
                reason = f"it broke: {error.strerror or error}"
            is_drained = not self._unsent
        if reason:
            self.lose(reason)
            return
        self._update_events()
        if is_drained and self._state is _ENDING:
            self._shut_down()
        elif is_drained and self._state is _OPEN:
            self._protocol.drained()

    def _update_events(self) -> None:
        if self._state is _CLOSED:
            return
        with self._lock:
            unsent = self._unsent_bytes
            self._awaits_room = unsent > 0
        is_reading = self._state is _ENDING or (unsent <= PAUSE_BYTES and not self._is_paused)
        events = (WRITE if unsent else 0) | (READ if is_reading else 0)
        before, self._events = self._events, events
        if before == events:
            return
        if not events:
            self._reactor.unwatch(self._socket)
        elif not before:
            self._reactor.watch(self._socket, events, self._ready)
        else:
            self._reactor.rewatch(self._socket, events, self._ready)

    def check(self, now: float) -> None:
        """Closes it if it has stalled; called about once a second."""
        if self._state is _ENDING:
            if now > self._ends:
                self.lose("")
            return
        reason = ""
        if self._state is _HANDSHAKE:
            reason = "the handshake has taken too long" if now - self._began > HANDSHAKE_SECONDS else ""
        elif self._state is _OPEN:
            reason = self._protocol.check(now)
            if not reason and self._unsent_bytes and now - self._progress > self._stall_seconds:
                reason = "the other side does not read"
        if reason:
            self.lose(reason)

    def _end(self) -> None:
        if self._state in _OVER:
            return
        self._to(_ENDING)
        self._ends = time.monotonic() + LINGER_SECONDS
        self._update_events()
        if not self._unsent_bytes:
            self._shut_down()
        self._protocol.connection_lost("")

    def _shut_down(self) -> None:
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_WR)

    def lose(self, reason: str) -> None:
        """Closes the socket; in the loop's thread. No-op on a closed connection."""
        if self._state is _CLOSED:
            return
        was_open = self._state is not _ENDING
        with self._lock:
            self._to(_CLOSED)
            self._unsent.clear()
            self._unsent_bytes = 0
        self._reactor.unwatch(self._socket)
        self._socket.close()
        if was_open:
            self._protocol.connection_lost(reason)
        self.on_closed(self)

    def _abandon(self) -> None:
        """In a forked child: closes its copy of the descriptor."""
        self._socket.close()


class _Refusals:
    """Logs connections that fail in their TLS handshake, at most one per second: anyone can make them."""

    def __init__(self) -> None:
        self._next = 0.0
        self._skipped = 0

    def note(self, address: str, error: Exception) -> None:
        now = time.monotonic()
        if now < self._next:
            self._skipped += 1
            return
        fields = {"from": address, "error": str(error), "unlogged": self._skipped}
        self._next, self._skipped = now + 1.0, 0
        _logger.warning("a TLS connection was refused", extra={"fields": fields})


_refusals = _Refusals()
