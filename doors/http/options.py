"""Options of the HTTP server: where it listens, who may read, what it offers.

| address | without a password | with a password |
|---|---|---|
| loopback | any user of the machine may read | Basic authentication; TLS if there is a certificate |
| any other | refused | Basic authentication and TLS, both required |
"""

from __future__ import annotations

import ssl
from typing import Final

from ...model.lazy_dataclass import dataclass
from ..audit import AuditLog
from ..endpoints import endpoint, server_context

DEFAULT_PORT: Final = 8050


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpOptions:
    """Options of a server.

    Parameters
    ----------
    address : str
        "host:port" to listen at; port 0 takes any free one.
    password : str, optional
        Of all readers; user names are not checked.
    tls_cert, tls_key : str, optional
        PEM files of the server's certificate (with its chain) and its key.
    profiler : bool
        True: /profile samples the stacks of all threads, which costs a few per cent of a core while it does.
    connections : int
        Requests at the same time; others are refused.
    audit : AuditLog, optional
        Log of the console's statements, of cancelled ones and of wrong credentials; it stays open.
    """

    address: str = "127.0.0.1:0"
    password: str | None = None
    tls_cert: str | None = None
    tls_key: str | None = None
    profiler: bool = False
    connections: int = 32
    audit: AuditLog | None = None

    def __repr__(self) -> str:
        return f"HttpOptions({self.address})"

    def endpoint(self) -> tuple[str, int]:
        """Host and port, see `doors.endpoints.endpoint`."""
        return endpoint(self, "http", DEFAULT_PORT, takes_users=False)

    def tls(self) -> ssl.SSLContext | None:
        """The server's TLS context; None without a certificate."""
        return server_context(self, "http/1.1")
