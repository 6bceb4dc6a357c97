"""TLS without I/O: encrypted bytes in, plain bytes out, and the reverse.

`ssl.MemoryBIO` keeps the socket out of OpenSSL's hands, so that one thread may wait in `recv` while another one
writes, and a write never blocks. OpenSSL's object itself is for one thread at a time: callers hold a lock.
"""

from __future__ import annotations

import ssl
from typing import Any, Final

_READ_BYTES: Final = 256 << 10


class TlsFilter:
    """One end of a TLS connection.

    Parameters
    ----------
    context : ssl.SSLContext
    host : str, optional
        The server's name, for a client; None for a server.
    """

    __slots__ = ("_incoming", "_object", "_outgoing", "is_ready")

    def __init__(self, context: ssl.SSLContext, host: str | None = None):
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._object = context.wrap_bio(
            self._incoming, self._outgoing, server_side=host is None, server_hostname=host or None
        )
        self.is_ready = False
        """True once the handshake is done."""

    def handshake(self, data: bytes | memoryview = b"") -> bool:
        """Continues the handshake with received bytes; True once it is done. `outgoing` is to be sent after each call,
        also after an `ssl.SSLError`."""
        self._incoming.write(data)
        try:
            self._object.do_handshake()
        except ssl.SSLWantReadError:
            return False
        self.is_ready = True
        return True

    def outgoing(self) -> bytes:
        """Returns encrypted bytes that are to be sent."""
        return self._outgoing.read() if self._outgoing.pending else b""

    def decrypted(self, data: bytes | memoryview = b"") -> bytes:
        """Returns the plain bytes in these encrypted ones and earlier ones. Raises `ssl.SSLError`; an `EOFError` if the
        other side has ended the stream."""
        self._incoming.write(data)
        parts: list[bytes] = []
        try:
            while part := self._object.read(_READ_BYTES):
                parts.append(part)
        except ssl.SSLWantReadError:
            return parts[0] if len(parts) == 1 else b"".join(parts)
        except ssl.SSLZeroReturnError:
            pass
        if parts:
            return b"".join(parts)
        raise EOFError

    def encrypted(self, data: bytes) -> bytes:
        """Returns the bytes to send for these plain ones."""
        view = memoryview(data)
        while view:
            view = view[self._object.write(view) :]
        return self._outgoing.read()

    def certificate(self) -> dict[str, Any]:
        """Returns the other side's certificate, as the `ssl` module describes it."""
        return self._object.getpeercert() or {}


def first_name(certificate: dict[str, Any]) -> str:
    """Returns a certificate's first alternative name if it is of the kind "DNS"; else "".

    >>> first_name({"subjectAltName": (("DNS", "nyala-client"), ("DNS", "a.example.com"))})
    'nyala-client'
    """
    names = certificate.get("subjectAltName", ())
    return str(names[0][1]) if names and names[0][0] == "DNS" else ""
