"""Options of the server: where it listens, how much clients may use, and when they need a password and TLS.

| address | without users and password | with users, or a password |
|---|---|---|
| loopback | anyone on this machine may connect | SCRAM-SHA-256; TLS if the client requests it |
| any other | refused | SCRAM-SHA-256 and TLS, both required |
"""

from __future__ import annotations

import os
import ssl
from typing import Final

from ....model.lazy_dataclass import dataclass
from ...audit import AuditLog
from ...endpoints import endpoint, server_context
from ..protocol.reader import MESSAGE_BYTES

DEFAULT_PORT: Final = 5432
ALPN: Final = "postgresql"


@dataclass(frozen=True, slots=True, kw_only=True)
class PostgresOptions:
    """Options of a server.

    Parameters
    ----------
    address : str
        "host:port" to listen at; port 0 takes any free one.
    password : str, optional
        Of all clients of a store without users; with users that of `nyala`, unless it has one of its own.
    tls_cert, tls_key : str, optional
        PEM files of the server's certificate (with its chain) and its key.
    connections : int
        Clients at the same time.
    threads : int
        Statements that run at the same time; others are queued.
    message_bytes : int
        Longest message of a client.
    incomplete_bytes : int
        Bytes of incomplete and waiting messages of all clients together, above which the largest is disconnected.
    audit : AuditLog, optional
        Log of logins and statements; it stays open.
    drain_seconds : float
        Seconds for which running statements go on when the server stops.
    """

    address: str = "127.0.0.1:0"
    password: str | None = None
    tls_cert: str | None = None
    tls_key: str | None = None
    connections: int = 500
    threads: int = max(8, 4 * (os.cpu_count() or 1))
    message_bytes: int = MESSAGE_BYTES
    incomplete_bytes: int = 1 << 30
    audit: AuditLog | None = None
    drain_seconds: float = 5.0

    def __repr__(self) -> str:
        return f"PostgresOptions({self.address})"

    def endpoint(self, has_users: bool | None = False) -> tuple[str, int]:
        """Host and port, see `doors.endpoints.endpoint`."""
        return endpoint(self, "postgres", DEFAULT_PORT, has_users)

    def tls(self) -> ssl.SSLContext | None:
        """The server's TLS context; None without a certificate."""
        return server_context(self, ALPN)
