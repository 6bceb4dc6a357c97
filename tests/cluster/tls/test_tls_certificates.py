"""`nyala cluster certificates`: the files that it makes, the files that it leaves alone, and their permissions."""

from __future__ import annotations

import stat
import sys
from pathlib import Path

import pytest
from nyala.__main__ import main
from nyala.cluster.admin.certificates import check_host, files_of, make_certificates
from nyala.cluster.admin.local_cluster import LocalCluster
from nyala.cluster.admin.ports import HOST
from nyala.cluster.wire.security.access import Role
from nyala.cluster.wire.security.tls import read_credentials
from nyala.errors import InterfaceError, OperationalError


def certificates(directory: Path, *words: str) -> int:
    return main(["cluster", "certificates", str(directory), *words])


def contents(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in directory.iterdir()}


def test_what_is_made_is_good_for_what_it_is_for(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    home = tmp_path / "certs"
    assert certificates(home, "--host", "10.0.0.1,m1.example.com", "--host", "::1") == 0
    assert "a new CA" in capsys.readouterr().out
    names = ("10.0.0.1", "__1", "admin", "ca", "client")
    assert sorted(contents(home)) == sorted(f"{name}.{kind}" for name in names for kind in ("crt", "key"))
    for path in home.iterdir():
        assert stat.S_IMODE(path.stat().st_mode) == (0o600 if path.suffix == ".key" else 0o644), path.name
    server = read_credentials(files_of(home, "10.0.0.1"), Role.SERVER)
    assert server.names == ("nyala-server", "10.0.0.1", "m1.example.com")
    read_credentials(files_of(home, "::1"), Role.SERVER).check_address("[::1]:7051")
    assert read_credentials(files_of(home, "admin"), Role.ADMIN).identity == "nyala-admin"
    assert read_credentials(files_of(home, "client")).identity == "nyala-client"


def test_what_is_there_stays(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    certificates(tmp_path, "--host", "a")
    before = contents(tmp_path)
    assert certificates(tmp_path, "--host", "a", "--host", "b") == 0
    after = contents(tmp_path)
    assert {name: after[name] for name in before} == before
    assert after.keys() - before.keys() == {"b.crt", "b.key"}
    assert "the CA that was there" in capsys.readouterr().out
    read_credentials(files_of(tmp_path, "b"), Role.SERVER)


def test_renewed_are_all_but_the_ca(tmp_path: Path) -> None:
    certificates(tmp_path, "--host", "a", "--days", "3")
    before = contents(tmp_path)
    soon = read_credentials(files_of(tmp_path, "a"), Role.SERVER).expires
    assert certificates(tmp_path, "--host", "a", "--renew") == 0
    after = contents(tmp_path)
    assert {name for name in before if after[name] == before[name]} == {"ca.crt", "ca.key"}
    assert read_credentials(files_of(tmp_path, "a"), Role.SERVER).expires > soon + 24 * 3600


@pytest.mark.parametrize("missing", ["ca.crt", "ca.key"])
def test_half_a_ca_is_not_made_whole(tmp_path: Path, capsys: pytest.CaptureFixture[str], missing: str) -> None:
    certificates(tmp_path)
    (tmp_path / missing).unlink()
    before = contents(tmp_path)
    assert certificates(tmp_path, "--host", "a", "--renew") == 1
    assert f"{missing} does not: nothing can be signed without both" in capsys.readouterr().err
    assert contents(tmp_path) == before


def test_a_ca_with_another_key_signs_nothing(tmp_path: Path) -> None:
    make_certificates(tmp_path / "one", [])
    make_certificates(tmp_path / "two", [])
    (tmp_path / "one" / "ca.key").write_bytes((tmp_path / "two" / "ca.key").read_bytes())
    with pytest.raises(InterfaceError, match="is not that of the CA"):
        make_certificates(tmp_path / "one", [["a"]])
    (tmp_path / "one" / "ca.key").write_text("no key")
    with pytest.raises(InterfaceError, match="cannot be used"):
        make_certificates(tmp_path / "one", [["a"]])


def test_hosts_are_names_or_addresses(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for good in ("a", "m1.example.com", "10.0.0.1", "::1", "xn--bcher-kva.example"):
        check_host(good)
    for bad in ("", "a:7051", "10.0.0.256", "a b", "../x", "-a", "client", "ca", "*.example.com", "a/b"):
        with pytest.raises(InterfaceError):
            check_host(bad)
    assert certificates(tmp_path / "none", "--host", "10.0.0.1:7051") == 1
    assert "'10.0.0.1:7051' is neither a host's name nor an address (without a port)" in capsys.readouterr().err
    assert certificates(tmp_path / "none", "--days", "0") == 1
    assert not (tmp_path / "none").exists()


def test_without_the_package_it_says_how_to_get_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] == "cryptography"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "cryptography", None)
    monkeypatch.delitem(sys.modules, "nyala.cluster.admin.authority", raising=False)
    with pytest.raises(OperationalError, match=r"pip install 'nyala\[tls\]'"):
        make_certificates(tmp_path / "none", [["a"]])
    assert not (tmp_path / "none").exists()


def test_a_local_cluster_with_tls_is_a_new_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plain, secure = LocalCluster.create(tmp_path / "plain", 1), LocalCluster.create(tmp_path / "s", 1, is_secure=True)
    assert main(["cluster", "start", "--dir", str(plain.directory), "--tls"]) == 1
    assert "and cannot be started with --tls; only --tservers" in capsys.readouterr().err
    assert plain.client_tls is None and "--tls-ca" not in plain.process("master-1").command
    again = LocalCluster.open(tmp_path / "s")
    assert again.is_secure and again.client_tls == secure.client_tls and secure.admin_tls is not None
    assert str(secure.certificates / f"{HOST}.key") in again.process("tserver-1").command
    read_credentials(secure.admin_tls, Role.ADMIN)
