"""A working CA, by the package `cryptography`: `certificates` decides what is made, and this module makes it."""

from __future__ import annotations

import datetime
import ipaddress
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from ...errors import InterfaceError
from ..wire.security.access import Role, role_name
from ..wire.security.tls_files import TlsFiles

VALID: Final = datetime.timedelta(days=3650)
"""Validity of a CA."""
EARLIER: Final = datetime.timedelta(hours=1)
"""Time before now at which certificates begin to be valid: clocks differ."""
_COMMON_NAME_LENGTH = 64


class Authority:
    """A CA that can sign: its certificate and its key."""

    def __init__(self, certificate: x509.Certificate, key: ec.EllipticCurvePrivateKey):
        self._certificate = certificate
        self._key = key

    @classmethod
    def in_directory(cls, path: Path, key_path: Path) -> Authority:
        """Returns the CA with these files, made if they do not exist; raises `InterfaceError` if they are invalid."""
        if path.exists() != key_path.exists():
            there, missing = (path, key_path) if path.exists() else (key_path, path)
            raise InterfaceError(f"{there} exists, but {missing} does not: nothing can be signed without both")
        if not path.exists():
            return cls._new(path, key_path)
        try:
            certificate = x509.load_pem_x509_certificate(path.read_bytes())
            key = load_pem_private_key(key_path.read_bytes(), None)
        except (OSError, ValueError, TypeError) as error:
            raise InterfaceError(f"the CA {path} with the key {key_path} cannot be used: {error}") from None
        if not isinstance(key, ec.EllipticCurvePrivateKey) or key.public_key() != certificate.public_key():
            raise InterfaceError(f"the key {key_path} is not that of the CA {path}")
        return cls(certificate, key)

    @classmethod
    def _new(cls, path: Path, key_path: Path) -> Authority:
        path.parent.mkdir(parents=True, exist_ok=True)
        key = ec.generate_private_key(ec.SECP256R1())
        name = _name("nyala CA")
        certificate = (
            _builder(name, name, key.public_key(), VALID)
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(_usage(is_authority=True), critical=True)
            .sign(key, SHA256())
        )
        _write_key(key_path, key)
        _write(path, certificate.public_bytes(Encoding.PEM), 0o644)
        return cls(certificate, key)

    def issue(self, files: TlsFiles, role: Role, hosts: Sequence[str], valid: datetime.timedelta) -> None:
        """Makes a key and a certificate of it. One whose `valid` is negative has expired already."""
        key = ec.generate_private_key(ec.SECP256R1())
        name = _name(" ".join(("nyala", role_name(role), *hosts[:1])))
        purposes = [ExtendedKeyUsageOID.CLIENT_AUTH]
        if role is Role.SERVER:
            purposes.append(ExtendedKeyUsageOID.SERVER_AUTH)
        names: list[x509.GeneralName] = [x509.DNSName(role.dns_name), *map(_general_name, hosts)]
        own_id = self._certificate.extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value
        issuer_id = x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(own_id)
        certificate = (
            _builder(name, self._certificate.subject, key.public_key(), valid)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_usage(is_authority=False), critical=True)
            .add_extension(x509.ExtendedKeyUsage(purposes), critical=False)
            .add_extension(x509.SubjectAlternativeName(names), critical=False)
            .add_extension(issuer_id, critical=False)
            .sign(self._key, SHA256())
        )
        _write_key(Path(files.key), key)
        _write(Path(files.certificate), certificate.public_bytes(Encoding.PEM), 0o644)


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text[:_COMMON_NAME_LENGTH])])


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, valid: datetime.timedelta
) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - EARLIER + min(valid, datetime.timedelta(0)))
        .not_valid_after(now + valid)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
    )


def _usage(is_authority: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not is_authority,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=is_authority,
        crl_sign=is_authority,
        encipher_only=False,
        decipher_only=False,
    )


def _general_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _write_key(path: Path, key: ec.EllipticCurvePrivateKey) -> None:
    _write(path, key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()), 0o600)


def _write(path: Path, data: bytes, mode: int) -> None:
    """Writes a file as a whole or not at all, never with wider permissions than `mode`."""
    temporary = path.with_name(f"{path.name}.tmp")
    temporary.unlink(missing_ok=True)
    with os.fdopen(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)
