"""Options of the HTTP server: where it listens, who may read, what it offers.

| address | without a password | with a password |
|---|---|---|
| loopback | any user of the machine may read | Basic authentication; TLS if there is a certificate |
| any other | refused | Basic authentication and TLS, both required |
"""

from __future__ import annotations

import ssl
from pathlib import Path

from ...errors import InterfaceError
from ...model.lazy_dataclass import dataclass
from ..postgres.server.options import is_loopback


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
    """

    address: str = "127.0.0.1:0"
    password: str | None = None
    tls_cert: str | None = None
    tls_key: str | None = None
    profiler: bool = False
    connections: int = 32

    def __repr__(self) -> str:
        return f"HttpOptions({self.address})"

    def endpoint(self) -> tuple[str, int]:
        """Host and port. Raises `InterfaceError` if the address is not "host:port", or is refused (see the page)."""
        host, mark, port = self.address.rpartition(":")
        if not mark or not port.isdigit() or int(port) > 65535 or not host:
            raise InterfaceError(f"{self.address}: HOST:PORT is needed, such as 127.0.0.1:8050")
        if self.password is not None and not self.password:
            raise InterfaceError("the password is empty")
        if bool(self.tls_cert) != bool(self.tls_key):
            raise InterfaceError("TLS needs a certificate and its key; one of the two is missing")
        missing = [what for what, given in (("a password", self.password), ("TLS", self.tls_cert)) if given is None]
        if missing and not is_loopback(host):
            raise InterfaceError(
                f"{self.address} can be reached from other machines, so pages and metrics need a password and TLS, and "
                f"{' and '.join(missing)} {'is' if len(missing) == 1 else 'are'} missing: give "
                "--http-password-file, --http-tls-cert and --http-tls-key, or listen at 127.0.0.1"
            )
        return host.strip("[]"), int(port)

    def tls(self) -> ssl.SSLContext | None:
        """The server's TLS context; None without a certificate."""
        if self.tls_cert is None or self.tls_key is None:
            return None
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.set_alpn_protocols(["http/1.1"])
        try:
            context.load_cert_chain(Path(self.tls_cert), Path(self.tls_key), password="")
        except (OSError, ssl.SSLError) as error:
            raise InterfaceError(f"{self.tls_cert}, {self.tls_key}: no certificate and its key: {error}") from None
        return context
