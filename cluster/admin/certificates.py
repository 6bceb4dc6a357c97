"""Certificates for a cluster: a CA of its own, and the certificates that it has signed, as PEM files in one directory.

    DIR/ca.crt                      trusted by all sides (--tls-ca)
        ca.key                      signs further certificates; no server or client needs it
        10.0.0.1.crt, 10.0.0.1.key  a server's, by the first of its hosts
        admin.crt, client.crt ...   those of administrators and of clients

Keys are on P-256, and readable by their owner alone. An existing CA is used and never replaced, and so are existing
certificates, unless they are to be renewed. The name that gives a certificate's role precedes its hosts:
`wire.security.access` reads it.
"""

from __future__ import annotations

import datetime
import ipaddress
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ...errors import InterfaceError, OperationalError
from ...model.lazy_dataclass import dataclass
from ..wire.security.access import Role, role_name
from ..wire.security.tls_files import TlsFiles

if TYPE_CHECKING:
    from .authority import Authority

DAYS: Final = 730
"""Default days of validity of certificates."""
_HOST = re.compile(r"(?!-)[A-Za-z0-9-]{1,63}(?<!-)(\.(?!-)[A-Za-z0-9-]{1,63}(?<!-))*\.?")


def authority_file(directory: Path) -> Path:
    """Returns the file of the CA's certificate."""
    return directory / "ca.crt"


def files_of(directory: Path, name: str) -> TlsFiles:
    """Returns the files of one certificate: "client", "admin", or a server's first host."""
    stem = _stem(name)
    return TlsFiles(str(authority_file(directory)), str(directory / f"{stem}.crt"), str(directory / f"{stem}.key"))


def _stem(name: str) -> str:
    return name.replace(":", "_")  # of an IPv6 address: some file systems allow no colon in a name


@dataclass(frozen=True, slots=True)
class Made:
    """A certificate in the directory. `is_new`: it was made now."""

    files: TlsFiles
    is_new: bool


def make_certificates(
    directory: Path, hosts: Sequence[Sequence[str]], *, days: int = DAYS, renew: bool = False
) -> list[Made]:
    """Makes a CA, a certificate for each server, and one each for clients and administrators.

    Parameters
    ----------
    directory : Path
        Created if it does not exist.
    hosts : sequence of sequences of str
        Per server the names and addresses by which others reach it; the first names its files.
    days : int
        Validity of new certificates.
    renew : bool
        Renew existing certificates; never the CA.

    Raises `InterfaceError` for an invalid host, or if the directory has half a CA; `OperationalError` if the package
    `cryptography` is missing.
    """
    if days < 1:
        raise InterfaceError(f"days={days}: at least one is needed")
    for named in hosts:
        for host in named:
            check_host(host)
    authority = authority_of(directory)
    requested: list[tuple[str, Role, Sequence[str]]] = [(named[0], Role.SERVER, named) for named in hosts]
    requested += [(role_name(role), role, ()) for role in (Role.ADMIN, Role.CLIENT)]
    made = []
    for name, role, named in requested:
        files = files_of(directory, name)
        is_new = renew or not Path(files.certificate).exists()
        if is_new:
            authority.issue(files, role, named, datetime.timedelta(days=days))
        made.append(Made(files, is_new))
    return made


def authority_of(directory: Path) -> Authority:
    """Returns the CA of a directory, made if there is none; raises as `make_certificates`."""
    try:
        from .authority import Authority
    except ImportError:
        raise OperationalError(
            "the Python package cryptography, which makes certificates, is missing; try: pip install 'nyala[tls]' "
            "(certificates of another CA need nothing)"
        ) from None
    return Authority.in_directory(authority_file(directory), directory / "ca.key")


def check_host(host: str) -> None:
    """Raises `InterfaceError` unless `host` is a host's name or an address."""
    try:
        ipaddress.ip_address(host)
    except ValueError:
        if not _HOST.fullmatch(host) or re.fullmatch(r"[\d.]+", host):
            raise InterfaceError(f"{host!r} is neither a host's name nor an address (without a port)") from None
    if _stem(host) in ("ca", *(role_name(role) for role in Role)):
        raise InterfaceError(f"a server's certificate cannot be called {host}; give another of its names first")
