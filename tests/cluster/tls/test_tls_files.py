"""Faults of a side's own files are reported when they are read, with the file's name."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization
from nyala.cluster.wire.security.access import Role
from nyala.cluster.wire.security.tls import read_credentials
from nyala.cluster.wire.security.tls_files import OPTIONS, TlsFiles, tls_files
from nyala.driver.stores.cluster_url import TLS_OPTIONS
from nyala.errors import InterfaceError
from tls_support import HOST, Pki, with_ca

FILES = TlsFiles("a", "b", "c")


def test_all_three_files_or_none() -> None:
    assert tls_files({}) is None
    assert tls_files({"tls_ca": None, "tls_cert": "", "deadline": 3}) is None
    assert tls_files(FILES.options()) == FILES
    for missing in ("tls_ca", "tls_cert", "tls_key"):
        half = {name: path for name, path in FILES.options().items() if name != missing}
        with pytest.raises(InterfaceError, match=f"without {missing}: TLS needs all three"):
            tls_files(half)
    with pytest.raises(InterfaceError, match="--tls-ca without --cert and --key"):
        tls_files({"tls_ca": "a"}, {"tls_ca": "--tls-ca", "tls_cert": "--cert", "tls_key": "--key"})


def test_good_files_say_who_they_are_for(pki: Pki) -> None:
    server = read_credentials(pki.files(HOST), Role.SERVER)
    assert server.identity == "nyala-server"
    assert server.names == ("nyala-server", HOST, "localhost")
    assert server.expires > time.time() + 700 * 24 * 3600
    assert b"PRIVATE KEY" in server.key and "PRIVATE" not in repr(server)
    assert read_credentials(pki.files("admin")).identity == "nyala-admin"
    assert read_credentials(pki.files()).identity == "nyala-client"


@pytest.mark.parametrize("place", [0, 1, 2])
def test_a_file_that_is_missing_or_no_pem(pki: Pki, tmp_path: Path, place: int) -> None:
    options = list(pki.files().options().items())
    nothing, text = tmp_path / "nothing", tmp_path / "text"
    text.write_text("no certificate\n")
    for path, told in (
        (nothing, "cannot be read: No such file"),
        (text, "is not a PEM file"),
        (tmp_path, "cannot be read"),
    ):
        options[place] = options[place][0], str(path)
        files = tls_files(dict(options))
        assert files is not None
        with pytest.raises(InterfaceError, match=f"{path} {told}"):
            read_credentials(files)


def test_a_pem_file_that_holds_something_else(pki: Pki) -> None:
    good = pki.files()
    with pytest.raises(InterfaceError, match=rf"CA's certificate {good.key} is invalid"):
        read_credentials(with_ca(good, good.key))
    with pytest.raises(InterfaceError, match=rf"the certificate {good.key} with the key {good.key} cannot be used"):
        read_credentials(TlsFiles(good.ca, good.key, good.key))


def test_a_key_of_another_certificate(pki: Pki) -> None:
    good, other = pki.files(), pki.files("admin")
    with pytest.raises(InterfaceError, match=rf"{other.key} is not that of the certificate {good.certificate}"):
        read_credentials(TlsFiles(good.ca, good.certificate, other.key))


def test_a_key_with_a_password(pki: Pki, tmp_path: Path) -> None:
    good = pki.files()
    key = serialization.load_pem_private_key(Path(good.key).read_bytes(), None)
    locked = tmp_path / "locked.key"
    locked.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.BestAvailableEncryption(b"secret"),
        )
    )
    with pytest.raises(InterfaceError, match=r"locked.key is encrypted"):
        read_credentials(TlsFiles(good.ca, good.certificate, str(locked)))


def test_a_certificate_of_another_ca(pki: Pki, foreign: Pki) -> None:
    with pytest.raises(InterfaceError, match="is not signed by the CA"):
        read_credentials(with_ca(foreign.files(), pki.files().ca))


def test_an_expired_certificate(pki: Pki) -> None:
    with pytest.raises(InterfaceError, match=r"late.crt has expired"):
        read_credentials(pki.issue("late", days=-1))


def test_a_bundle_of_cas_is_trusted_as_a_whole(pki: Pki, foreign: Pki, tmp_path: Path) -> None:
    bundle = tmp_path / "both.crt"
    bundle.write_bytes(Path(foreign.files().ca).read_bytes() + Path(pki.files().ca).read_bytes())
    for files in (pki.files(), foreign.files()):
        assert read_credentials(with_ca(files, str(bundle))).identity == "nyala-client"


def test_a_server_needs_a_servers_certificate(pki: Pki) -> None:
    with pytest.raises(InterfaceError, match=r"admin.crt is not for this use"):
        read_credentials(pki.files("admin"), Role.SERVER)


def test_a_server_needs_a_certificate_for_its_address(pki: Pki) -> None:
    server = pki.server
    for address in (f"{HOST}:7050", "localhost:1", "LOCALHOST.:1"):
        server.check_address(address)
    for address in ("10.0.0.1:7050", "[::1]:7050", "example.com:1"):
        with pytest.raises(InterfaceError, match=r"is not for .*, but for: 127.0.0.1, localhost"):
            server.check_address(address)


def test_names_with_an_asterisk_and_ipv6(pki: Pki) -> None:
    files = pki.issue("wide", Role.SERVER, ["*.example.com", "::1"])
    wide = read_credentials(files, Role.SERVER)
    wide.check_address("a.example.com:1")
    wide.check_address("[0:0::1]:1")
    for address in ("example.com:1", "a.b.example.com:1", ".example.com:1"):
        with pytest.raises(InterfaceError):
            wide.check_address(address)


def test_a_url_has_the_options_of_the_files() -> None:
    assert TLS_OPTIONS == OPTIONS
