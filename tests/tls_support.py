"""Certificates of two CAs, good ones and bad ones, for tests of TLS."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import ExtendedKeyUsageOID
from nyala.cluster.admin.authority import _builder, _name, _write_key
from nyala.cluster.admin.certificates import authority_of, files_of, make_certificates
from nyala.cluster.wire.security.access import Role
from nyala.cluster.wire.security.tls import Credentials, contexts, read_credentials
from nyala.cluster.wire.security.tls_files import TlsFiles

HOST = "127.0.0.1"


class Pki:
    """A CA in a directory, with certificates for this machine's servers, an administrator and clients."""

    def __init__(self, directory: Path):
        self.directory = directory
        make_certificates(directory, [[HOST, "localhost"]])

    def files(self, name: str = "client") -> TlsFiles:
        """Of "client", "admin", or a server's host."""
        return files_of(self.directory, name)

    def credentials(self, name: str = "client") -> Credentials:
        return read_credentials(self.files(name))

    @property
    def server(self) -> Credentials:
        return read_credentials(self.files(HOST), Role.SERVER)

    def issue(self, name: str, role: Role = Role.CLIENT, hosts: Sequence[str] = (), days: float = 1) -> TlsFiles:
        """A further certificate; expired already where `days` is negative."""
        files = files_of(self.directory, name)
        authority_of(self.directory).issue(files, role, hosts, datetime.timedelta(days=days))
        return files

    def issue_named(self, name: str, common_name: str, alternatives: Sequence[x509.GeneralName]) -> Credentials:
        """A further client's certificate with exactly these names, not looked at."""
        files = files_of(self.directory, name)
        authority = authority_of(self.directory)
        key = ec.generate_private_key(ec.SECP256R1())
        builder = _builder(
            _name(common_name), authority._certificate.subject, key.public_key(), datetime.timedelta(days=1)
        )
        builder = builder.add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH]), critical=False)
        if alternatives:
            builder = builder.add_extension(x509.SubjectAlternativeName(alternatives), critical=False)
        _write_key(Path(files.key), key)
        signed = builder.sign(authority._key, SHA256())
        Path(files.certificate).write_bytes(signed.public_bytes(Encoding.PEM))
        return unchecked(files)


def unchecked(files: TlsFiles) -> Credentials:
    """Returns credentials without any check of the files."""
    certificate, key = Path(files.certificate).read_bytes(), Path(files.key).read_bytes()
    return Credentials(files, Path(files.ca).read_bytes(), certificate, key, "", (), float("inf"), *contexts(files))


def with_ca(files: TlsFiles, ca: str) -> TlsFiles:
    """The files with another CA to trust."""
    return TlsFiles(ca, files.certificate, files.key)
