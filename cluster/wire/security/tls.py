"""Mutual TLS: each side shows a certificate that the other side's CA has signed; otherwise the connection fails.

    TlsFiles ── read_credentials ──► Credentials ──► RpcServer, Channels, PeerTransport
    (paths)     complete, matching,     (bytes, read once: new files are read by a new process)
                signed by the CA,
                valid today, with a role

Faults of this side's own files are reported when they are read: the certificate is checked by a handshake with itself,
in memory. Faults of the other side show when a connection fails, with OpenSSL's reason.
"""

from __future__ import annotations

import contextlib
import datetime
import ipaddress
import logging
import ssl
import time
from collections.abc import Mapping
from dataclasses import field
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

from ....errors import AuthenticationFailed, InterfaceError
from ....model.lazy_dataclass import dataclass
from ....net.addresses import host_of
from ....net.dialing import ClientTls
from .access import Role, role_name, role_of
from .tls_files import OPTIONS, TlsFiles

_logger = logging.getLogger("nyala.cluster.wire")


@dataclass(frozen=True, slots=True)
class Credentials:
    """The content of the files, checked. `identity` is the certificate's first alternative name, `names` are all of
    them, including addresses; `expires` is in seconds since 1970."""

    files: TlsFiles
    ca: bytes = field(repr=False)
    certificate: bytes = field(repr=False)
    key: bytes = field(repr=False)
    identity: str
    names: tuple[str, ...]
    expires: float
    accepting: ssl.SSLContext = field(repr=False, compare=False)
    calling: ssl.SSLContext = field(repr=False, compare=False)

    def of_server(self) -> dict[str, Any]:
        """Arguments for Flight's server: TLS only, and certificates required."""
        return {
            "tls_certificates": [(self.certificate, self.key)],
            "verify_client": True,
            "root_certificates": self.ca,
        }

    def of_client(self) -> dict[str, Any]:
        """Arguments for Flight's client."""
        return {"tls_root_certs": self.ca, "cert_chain": self.certificate, "private_key": self.key}

    def for_calls(self, address: str) -> ClientTls:
        """Returns the client's side of connections to "host:port", with the reasons for their failures."""
        return ClientTls(self.calling, partial(_mistrust, address, self))

    def check_address(self, address: str) -> None:
        """Raises `InterfaceError` if callers of this server at "host:port" would not accept its certificate for that
        name."""
        host = host_of(address)
        if not any(_names(name, host) for name in self.names):
            others = ", ".join(name for name in self.names if role_of(name) is None) or "none"
            raise InterfaceError(
                f"the certificate {self.files.certificate} is not for {host}, the host of this server's address, but "
                "for: "
                f"{others}; set --advertise to the address by which others reach it"
            )


def expiry(tls: Credentials | None) -> dict[str, Any]:
    """For a server's status: when its certificate expires."""
    return {} if tls is None else {"certificate": tls.files.certificate, "certificate_expires": tls.expires}


def _names(name: str, host: str) -> bool:
    """True if a certificate's name matches the host."""
    try:
        return ipaddress.ip_address(name) == ipaddress.ip_address(host)
    except ValueError:
        pass
    name, host = name.lower().rstrip("."), host.lower().rstrip(".")
    if name.startswith("*."):
        return bool(host.partition(".")[0]) and host.partition(".")[2] == name[2:]
    return name == host


# ---- this side's files -----------------------------------------------------------------------------------------------


def read_credentials(files: TlsFiles, needed: Role = Role.CLIENT) -> Credentials:
    """Reads and checks the files of a side that needs a role; `InterfaceError` names the file at fault."""
    ca = _read(files.ca, "CA's certificate")
    certificate, key = _read(files.certificate, "certificate"), _read(files.key, "key")
    told = _shown(files, is_server=needed is Role.SERVER)
    alternatives = told.get("subjectAltName", ())
    names = tuple(value for _, value in alternatives)
    # Nothing else gives a role: no common name, e-mail address or URI.
    identity = names[0] if alternatives and alternatives[0][0] == "DNS" else ""
    _check_own_role(files, identity, needed)
    expires = ssl.cert_time_to_seconds(told["notAfter"])
    return Credentials(files, ca, certificate, key, identity, names, expires, *contexts(files))


def contexts(files: TlsFiles) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """Returns those of accepted connections, and of connections to others, whose names are checked."""
    accepting, calling = _context(files, ssl.PROTOCOL_TLS_SERVER), _context(files, ssl.PROTOCOL_TLS_CLIENT)
    calling.check_hostname = True
    return accepting, calling


def server_credentials(files: TlsFiles | None) -> Credentials | None:
    """Returns a server's credentials, and logs them; None without TLS."""
    if files is None:
        return None
    found = read_credentials(files, Role.SERVER)
    until = datetime.datetime.fromtimestamp(found.expires, datetime.UTC).isoformat()
    _logger.info("TLS", extra={"fields": {"certificate": files.certificate, "names": found.names, "expires": until}})
    return found


def _read(path: str, what: str) -> bytes:
    try:
        data = Path(path).read_bytes()
    except OSError as error:
        raise InterfaceError(f"the {what} {path} cannot be read: {error.strerror or error}") from None
    if b"-----BEGIN " not in data:
        raise InterfaceError(f"the {what} {path} is not a PEM file")
    return data


def _check_own_role(files: TlsFiles, identity: str, needed: Role) -> None:
    role = role_of(identity)
    if role is None or role < needed:
        is_of = "gives no role" if role is None else f"is a {role_name(role)}'s"
        raise InterfaceError(
            f"the certificate {files.certificate} {is_of}: its first alternative name is {identity!r}, and should be "
            f"{needed.dns_name}"
        )


def _context(files: TlsFiles, protocol: int) -> ssl.SSLContext:
    """Returns a context with the files; its error names the invalid one."""
    context = ssl.SSLContext(protocol)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_REQUIRED
    try:
        context.load_verify_locations(files.ca)
    except (ssl.SSLError, OSError) as error:
        raise InterfaceError(f"the CA's certificate {files.ca} is invalid: {_reason(error)}") from None
    try:
        context.load_cert_chain(files.certificate, files.key, lambda: _no_password(files))
    except (ssl.SSLError, OSError) as error:
        if getattr(error, "reason", None) == "KEY_VALUES_MISMATCH":
            raise InterfaceError(f"the key {files.key} is not that of the certificate {files.certificate}") from None
        raise InterfaceError(
            f"the certificate {files.certificate} with the key {files.key} cannot be used: {_reason(error)}"
        ) from None
    return context


def _no_password(files: TlsFiles) -> NoReturn:
    raise InterfaceError(f"the key {files.key} is encrypted; a key without a password is needed")


def _reason(error: BaseException) -> str:
    found = getattr(error, "verify_message", None) or getattr(error, "reason", None) or str(error)
    return str(found).replace("_", " ").lower() if str(found).isupper() else str(found)


def _shown(files: TlsFiles, is_server: bool) -> Mapping[str, Any]:
    """Returns the certificate as Python describes it, after a handshake with itself. Raises `InterfaceError` if the CA
    has not signed it, or it is not valid now, or not for this use."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    accepting, calling = _context(files, ssl.PROTOCOL_TLS_SERVER), _context(files, ssl.PROTOCOL_TLS_CLIENT)
    if not is_server:
        calling.verify_mode = ssl.CERT_NONE  # it must be valid for a client, not for a server
    server = accepting.wrap_bio(to_server, to_client, server_side=True)
    client = calling.wrap_bio(to_client, to_server)
    try:
        for side in (client, server) * 3:
            with contextlib.suppress(ssl.SSLWantReadError):
                side.do_handshake()
    except ssl.SSLError as error:
        _refuse_own(files, error)
    told = server.getpeercert()
    if not told:
        raise InterfaceError(f"the certificate {files.certificate} cannot be checked")
    return told


def _refuse_own(files: TlsFiles, error: ssl.SSLError) -> NoReturn:
    reason = _reason(error)
    if "expired" in reason:
        raise InterfaceError(f"the certificate {files.certificate} has expired, or its CA's, {files.ca}") from None
    if "not yet valid" in reason:
        raise InterfaceError(f"the certificate {files.certificate} is not yet valid, by this machine's clock") from None
    if "issuer" in reason or "self" in reason or "signature" in reason:
        raise InterfaceError(f"the certificate {files.certificate} is not signed by the CA {files.ca}") from None
    if "purpose" in reason:
        raise InterfaceError(
            f"the certificate {files.certificate} is not for this use: a server's extended key usage is serverAuth and "
            "clientAuth, all others' is clientAuth"
        ) from None
    raise InterfaceError(f"the certificate {files.certificate} is not good: {reason}") from None


# ---- the other side --------------------------------------------------------------------------------------------------


def accepts_only_tls(address: str) -> AuthenticationFailed:
    """Returns the error of a side without TLS about one that requires it."""
    return AuthenticationFailed(
        f"{address} accepts only TLS, and this side does not use it: give {', '.join(OPTIONS)} (--tls-ca and so on, or "
        "NYALA_TLS_CA and so on in the environment)"
    )


def _mistrust(address: str, own: Credentials, error: ssl.SSLError | None) -> AuthenticationFailed | None:
    """Returns the reason for which TLS failed: one side mistrusts the other, or only one uses TLS. None for another
    cause, such as a server that is stopping (without an `error`)."""
    if own.expires <= time.time():
        day = datetime.datetime.fromtimestamp(own.expires, datetime.UTC).date()
        return AuthenticationFailed(
            f"the certificate {own.files.certificate}, which this process was started with, expired on {day}"
        )
    if error is None:
        return None
    if isinstance(error, ssl.SSLCertVerificationError):
        return AuthenticationFailed(_server_at_fault(address, own, error))
    reason = error.reason or ""
    if "ALERT" in reason:
        return AuthenticationFailed(_refused_by(address, own, f" ({_reason(error)})"))
    if reason in ("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE", "HTTP_REQUEST", "UNKNOWN_PROTOCOL"):
        return AuthenticationFailed(
            f"{address} does not use TLS, and this side does: connect without {', '.join(OPTIONS)} (if the "
            "environment sets them, with /?tls=off after the servers), or start the server with --tls-ca, "
            "--tls-cert and --tls-key"
        )
    return None


def _refused_by(address: str, own: Credentials, more: str) -> str:
    return (
        f"{address} refuses the certificate {own.files.certificate}{more}: it is not signed by a CA that the server "
        "trusts (its --tls-ca), or has expired by the server's clock"
    )


def _server_at_fault(address: str, own: Credentials, error: ssl.SSLCertVerificationError) -> str:
    reason = error.verify_message
    if "mismatch" in reason.lower():
        return f"the certificate of the server at {address} is not for {host_of(address)}: {reason.rstrip('.')}"
    if "expired" in reason:
        return f"the certificate of the server at {address} has expired"
    if "issuer" in reason or "self" in reason or "signature" in reason:
        return f"the certificate of the server at {address} is not signed by the CA {own.files.ca} ({reason})"
    return f"the certificate of the server at {address} is not good: {reason}"
