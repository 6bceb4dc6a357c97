"""Options of the server: where it listens, how much clients may use, and when they need a password and TLS.

| address | without users and password | with users, or a password |
|---|---|---|
| loopback | anyone on this machine may connect | Basic authentication; TLS if the server has a certificate |
| any other | refused | Basic authentication and TLS, both required |
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from ....errors import InterfaceError
from ....model.lazy_dataclass import dataclass
from ...audit import AuditLog
from ...endpoints import endpoint
from ..session.client_session import SessionLimits

DEFAULT_PORT: Final = 50051
MESSAGE_BYTES: Final = 256 << 20
"""Bytes of incomplete messages of one connection above which it is cut."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FlightSqlOptions:
    """Options of a server.

    Parameters
    ----------
    address : str
        "host:port" to listen at; port 0 takes any free one.
    password : str, optional
        Of all clients of a store without users; with users that of `nyala`, unless it has one of its own.
    tls_cert, tls_key : str, optional
        PEM files of the server's certificate (with its chain) and its key.
    sessions : int
        Sessions at the same time.
    statements : int
        Calls that run statements, or stream results, at the same time; further ones are refused.
    incomplete_bytes : int
        Bytes of incomplete messages of all clients together, above which the largest connection is cut.
    limits : SessionLimits
        Of each session.
    ticket_key : bytes, optional
        Signs the tickets of queries that several readers share; by default a random one. Servers that answer each
        other's tickets have the same.
    locations : tuple of str
        URLs of all servers with this key, for the endpoints of such queries; empty: this one alone.
    audit : AuditLog, optional
        Log of sessions and statements; it stays open.
    drain_seconds : float
        Seconds for which running statements go on when the server stops.
    """

    address: str = "127.0.0.1:0"
    password: str | None = None
    tls_cert: str | None = None
    tls_key: str | None = None
    sessions: int = 500
    statements: int = 200
    incomplete_bytes: int = 1 << 30
    limits: SessionLimits = SessionLimits()
    ticket_key: bytes | None = None
    locations: tuple[str, ...] = ()
    audit: AuditLog | None = None
    drain_seconds: float = 5.0

    def __repr__(self) -> str:
        return f"FlightSqlOptions({self.address})"

    def endpoint(self, has_users: bool | None = False) -> tuple[str, int]:
        """Host and port, see `doors.endpoints.endpoint`; `InterfaceError` also for locations that are not usable."""
        if self.locations and self.ticket_key is None:
            raise InterfaceError(
                "the servers at the locations cannot check the tickets of this one: give all of them one key "
                "(--flight-sql-ticket-key-file)"
            )
        for location in self.locations:
            if not location.startswith(("grpc://", "grpc+tcp://", "grpc+tls://")):
                raise InterfaceError(f"{location}: the URL of a server of Flight SQL is needed, grpc://HOST:PORT")
        return endpoint(self, "flight-sql", DEFAULT_PORT, has_users)

    def tls(self) -> dict[str, Any]:
        """The arguments of Flight's server for TLS; none without a certificate."""
        if self.tls_cert is None or self.tls_key is None:
            return {}
        try:
            pair = Path(self.tls_cert).read_bytes(), Path(self.tls_key).read_bytes()
        except OSError as error:
            raise InterfaceError(f"{self.tls_cert}, {self.tls_key}: no certificate and its key: {error}") from None
        return {"tls_certificates": [pair]}
