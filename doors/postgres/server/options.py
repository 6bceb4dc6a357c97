"""Options of the server: where it listens, how much clients may use, and when they need a password and TLS.

| address | without users and password | with users, or a password |
|---|---|---|
| loopback | anyone on this machine may connect | SCRAM-SHA-256; TLS if the client requests it |
| any other | refused | SCRAM-SHA-256 and TLS, both required |
"""

from __future__ import annotations

import ipaddress
import os
import socket
import ssl
from pathlib import Path
from typing import Final

from ....errors import InterfaceError
from ....model.lazy_dataclass import dataclass
from ...audit import AuditLog
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
        """Host and port. Raises `InterfaceError` if the address is not "host:port", or is refused (see the page).

        `has_users` is True if the store has users, which then need no password of the server; None if that is not known
        yet.
        """
        host, mark, port = self.address.rpartition(":")
        if not mark or not port.isdigit() or int(port) > 65535 or not host:
            raise InterfaceError(f"{self.address}: HOST:PORT is needed, such as 127.0.0.1:{DEFAULT_PORT}")
        if bool(self.tls_cert) != bool(self.tls_key):
            raise InterfaceError("TLS needs a certificate and its key; one of the two is missing")
        if not is_loopback(host):
            has_tls = self.tls_cert is not None
            has_password = self.password is not None or (has_tls if has_users is None else has_users)
            missing = [what for what, given in (("a password", has_password), ("TLS", has_tls)) if not given]
            if missing:
                raise InterfaceError(
                    f"{self.address} can be reached from other machines, so clients need a password and TLS, and "
                    f"{' and '.join(missing)} {'is' if len(missing) == 1 else 'are'} missing: give "
                    "--postgres-password-file (or CREATE USER in the store), --postgres-tls-cert and "
                    "--postgres-tls-key, or listen at 127.0.0.1"
                )
        return host.strip("[]"), int(port)

    def tls(self) -> ssl.SSLContext | None:
        """The server's TLS context; None without a certificate."""
        if self.tls_cert is None or self.tls_key is None:
            return None
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.set_alpn_protocols([ALPN])
        try:
            context.load_cert_chain(Path(self.tls_cert), Path(self.tls_key), password="")
        except (OSError, ssl.SSLError) as error:
            raise InterfaceError(f"{self.tls_cert}, {self.tls_key}: no certificate and its key: {error}") from None
        return context


def is_loopback(host: str) -> bool:
    """True if only processes of this machine can connect to a host: all of its addresses are loopback.

    >>> is_loopback("127.0.0.1"), is_loopback("[::1]"), is_loopback("0.0.0.0")
    (True, True, False)
    """
    try:
        found = {item[4][0] for item in socket.getaddrinfo(host.strip("[]"), None, type=socket.SOCK_STREAM)}
    except OSError:
        return False
    return bool(found) and all(ipaddress.ip_address(str(address).partition("%")[0]).is_loopback for address in found)
