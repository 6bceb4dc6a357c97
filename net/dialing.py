"""Opens a connection to a framed server, blocking: TCP, TLS, preamble, HELLO, WELCOME.

Failures are errors that name the side at fault: no server listens (`ConnectionRefused`), the two sides do not trust
each other (`AuthenticationFailed`), another program or version (`ProtocolError`).
"""

from __future__ import annotations

import contextlib
import socket
import ssl
import time
from collections.abc import Callable
from typing import Final, NamedTuple

from ..errors import (
    AuthenticationFailed,
    ConnectionRefused,
    DeadlineExceeded,
    Error,
    ProtocolError,
    ServerUnavailable,
)
from .addresses import host_of, port_of
from .frames import HELLO, PREAMBLE, REFUSED, REPLY, WELCOME, Frame, FrameReader, frame
from .tls import TlsFilter

_RECEIVE_BYTES: Final = 64 << 10
_ALERT: Final = b"\x15\x03"
"""First bytes of a record by which a TLS server refuses."""
_GREETING_BYTES: Final = 64 << 10
Mistrust = Callable[[ssl.SSLError | None], "AuthenticationFailed | None"]
"""Returns the reason for which TLS failed; None: another cause. Called with None if the server hung up."""


class ClientTls(NamedTuple):
    """TLS of a client: its context, and the explanation of failures."""

    context: ssl.SSLContext
    explain: Mistrust


class Dialed(NamedTuple):
    """An open connection. `rest`: decrypted frames that followed WELCOME."""

    socket: socket.socket
    tls: TlsFilter | None
    reader: FrameReader
    welcome: bytes
    rest: list[Frame]


class NotTls(AuthenticationFailed):
    """The server accepts only TLS."""


def dial(address: str, hello: bytes, most_bytes: int, timeout: float, tls: ClientTls | None = None) -> Dialed:
    """Returns a connection to "host:port" on which WELCOME has been received; its socket is blocking.

    Parameters
    ----------
    hello : bytes
        Body of HELLO.
    most_bytes : int
        Largest accepted body.
    timeout : float
        Seconds for all of it.
    tls : ClientTls, optional
        None: no encryption.
    """
    ends = time.monotonic() + timeout
    host = host_of(address)
    try:
        sock = socket.create_connection((host, port_of(address)), timeout=max(0.001, timeout))
    except (ConnectionRefusedError, socket.gaierror) as error:
        raise ConnectionRefused(f"{address} cannot be reached: {error.strerror or error}") from None
    except TimeoutError:
        raise DeadlineExceeded(f"{address} has not answered in time") from None
    except (OSError, ValueError, OverflowError) as error:
        raise ServerUnavailable(f"{address} cannot be reached: {getattr(error, 'strerror', '') or error}") from None
    try:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        return _greeted(sock, address, host, hello, most_bytes, ends, tls)
    except BaseException:
        sock.close()
        raise


def _greeted(
    sock: socket.socket, address: str, host: str, hello: bytes, most_bytes: int, ends: float, tls: ClientTls | None
) -> Dialed:
    """Does all that follows the connection by TCP."""
    filter_ = None if tls is None else TlsFilter(tls.context, host)
    reader = FrameReader({WELCOME: _GREETING_BYTES, REFUSED: _GREETING_BYTES, REPLY: most_bytes})
    try:
        if filter_ is not None:
            _shake_hands(sock, filter_, ends)
        opening = PREAMBLE + frame(HELLO, 0, hello)
        sock.sendall(opening if filter_ is None else filter_.encrypted(opening))
        frames: list[Frame] = []
        while not frames:
            data = _received(sock, ends)
            if filter_ is not None:
                data = filter_.decrypted(data)
                if out := filter_.outgoing():
                    sock.sendall(out)
            elif data.startswith(_ALERT):
                raise NotTls(f"{address} accepts only TLS")
            frames = reader.feed(data)
    except TimeoutError:
        raise DeadlineExceeded(f"{address} has not answered in time") from None
    except ssl.SSLError as error:
        raise (tls and tls.explain(error)) or _broken(address, error) from None
    except (EOFError, OSError) as error:
        explained = tls.explain(None) if tls is not None else None
        raise explained or _broken(address, error) from None
    except ProtocolError as error:
        raise ProtocolError(f"{address}: {error}") from None
    kind, _, body = frames[0]
    if kind == REFUSED:
        raise ProtocolError(f"{address} refuses the connection: {body.decode('utf-8', 'replace')}")
    if kind != WELCOME:
        raise ProtocolError(f"{address} does not answer as a server of nyala: no WELCOME")
    sock.settimeout(None)
    return Dialed(sock, filter_, reader, body, frames[1:])


def _shake_hands(sock: socket.socket, filter_: TlsFilter, ends: float) -> None:
    data = b""
    while True:
        try:
            is_done = filter_.handshake(data)
        finally:
            with contextlib.suppress(OSError):
                sock.sendall(filter_.outgoing())
        if is_done:
            return
        data = _received(sock, ends)


def _received(sock: socket.socket, ends: float) -> bytes:
    left = ends - time.monotonic()
    if left <= 0:
        raise TimeoutError
    sock.settimeout(left)
    data = sock.recv(_RECEIVE_BYTES)
    if not data:
        raise EOFError("the server has closed the connection")
    return data


def _broken(address: str, error: BaseException) -> Error:
    return ServerUnavailable(f"the connection to {address} broke: {getattr(error, 'strerror', '') or error}")
