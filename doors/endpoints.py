"""Addresses of doors: where a server listens, and when its clients need a password and TLS.

| address | without users and password | with users, or a password |
|---|---|---|
| loopback | anyone on this machine may connect | a password; TLS if the server has a certificate |
| any other | refused | a password and TLS, both required |
"""

from __future__ import annotations

import socket
import ssl
from pathlib import Path
from typing import Protocol

from ..errors import InterfaceError
from ..net.addresses import is_loopback


class Listening(Protocol):
    """The options that all doors have."""

    @property
    def address(self) -> str: ...

    @property
    def password(self) -> str | None: ...

    @property
    def tls_cert(self) -> str | None: ...

    @property
    def tls_key(self) -> str | None: ...


def endpoint(
    options: Listening, door: str, port: int, has_users: bool | None = False, takes_users: bool = True
) -> tuple[str, int]:
    """Host and port of an address. Raises `InterfaceError` if it is not "host:port", or is refused (see the page).

    Parameters
    ----------
    options : Listening
    door : str
        Prefix of the options on the command line, such as "postgres" of --postgres-tls-cert.
    port : int
        The usual one, for the message.
    has_users : bool, optional
        True if the store has users, which then need no password of the server; None if that is not known yet.
    takes_users : bool
        False: it listens before the store is open, and so needs a password of its own in any case.
    """
    host, mark, given = options.address.rpartition(":")
    if not mark or not given.isdigit() or int(given) > 65535 or not host:
        raise InterfaceError(f"{options.address}: HOST:PORT is needed, such as 127.0.0.1:{port}")
    if options.password == "":
        raise InterfaceError("the password is empty")
    if bool(options.tls_cert) != bool(options.tls_key):
        raise InterfaceError("TLS needs a certificate and its key; one of the two is missing")
    has_tls = options.tls_cert is not None
    has_password = options.password is not None or (has_tls if has_users is None else has_users)
    missing = [what for what, is_there in (("a password", has_password), ("TLS", has_tls)) if not is_there]
    if missing and not resolves_to_loopback(host):
        raise InterfaceError(
            f"{options.address} can be reached from other machines, so clients need a password and TLS, and "
            f"{' and '.join(missing)} {'is' if len(missing) == 1 else 'are'} missing: give --{door}-password-file"
            f"{' (or CREATE USER in the store)' if takes_users else ''}, --{door}-tls-cert and --{door}-tls-key, or "
            "listen at 127.0.0.1"
        )
    return host.strip("[]"), int(given)


def server_context(options: Listening, protocol: str) -> ssl.SSLContext | None:
    """The TLS context of a server that speaks a protocol, by its name in ALPN; None without a certificate. Raises
    `InterfaceError` if the files are no certificate and its key."""
    if options.tls_cert is None or options.tls_key is None:
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols([protocol])
    try:
        context.load_cert_chain(Path(options.tls_cert), Path(options.tls_key), password="")
    except (OSError, ssl.SSLError) as error:
        pair = f"{options.tls_cert}, {options.tls_key}"
        raise InterfaceError(f"{pair}: no certificate and its key: {error}") from None
    return context


def resolves_to_loopback(host: str) -> bool:
    """True if only processes of this machine can connect to a host: all of its addresses are loopback.

    >>> resolves_to_loopback("127.0.0.1"), resolves_to_loopback("[::1]"), resolves_to_loopback("0.0.0.0")
    (True, True, False)
    """
    try:
        found = {str(item[4][0]) for item in socket.getaddrinfo(host.strip("[]"), None, type=socket.SOCK_STREAM)}
    except OSError:
        return False
    return bool(found) and all(is_loopback(address) for address in found)
