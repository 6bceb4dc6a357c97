"""The account of a client, and a served directory whose store has users: it is for the account of its server."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import nyala
import pytest
from nyala.cluster.wire.security import local_owner, users
from nyala.errors import LoginNeeded

pytestmark = [
    pytest.mark.skipif(not Path("/proc/net/tcp").exists(), reason="needs /proc/net/tcp"),
    pytest.mark.embedded_only("serves its own directory"),
]
NOBODY = 65534


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_the_account_of_a_connection(host: str) -> None:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family) as listener:
        try:
            listener.bind((host, 0))
        except OSError as error:
            pytest.skip(f"no {host}: {error}")
        listener.listen()
        port = listener.getsockname()[1]
        with socket.create_connection((host, port)) as client, listener.accept()[0]:
            address = f"[{host}]:{client.getsockname()[1]}" if ":" in host else f"{host}:{client.getsockname()[1]}"
            assert local_owner.account_of(address, [port]) == os.geteuid()
            assert local_owner.is_local_owner(address, [port])
            assert local_owner.account_of(address, [port + 1]) is None
    for unknown in ("127.0.0.1:1", "10.0.0.1:5", "nowhere", "", "host:port"):
        assert local_owner.account_of(unknown, [port]) is None


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to be another account")
def test_another_account_is_no_owner() -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        port = listener.getsockname()[1]
        listener.settimeout(60)
        program = (
            "import os, socket; 'localhost'.encode('idna'); "  # loads the codec, which the other account may not read
            f"os.setuid({NOBODY}); socket.create_connection(('127.0.0.1', {port})).recv(1)"
        )
        with subprocess.Popen([sys.executable, "-I", "-S", "-c", program]) as process:
            connection, (host, client) = listener.accept()
            with connection:
                assert local_owner.account_of(f"{host}:{client}", [port]) == NOBODY
            process.wait()


@pytest.mark.slow
def test_a_served_directory_with_users_is_for_its_account_and_for_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with nyala.connect(tmp_path / "store") as owner:
        owner.execute("CREATE TABLE t (k INT PRIMARY KEY); INSERT INTO t VALUES (1)")
        url = owner.serve()
        with nyala.connect(url) as client:
            client.execute("CREATE USER ann PASSWORD 'x'; GRANT SELECT ON t TO ann")
            assert client.execute("SELECT count(*) FROM t").fetchone() == (1,)
            client.execute("INSERT INTO t VALUES (2)")
        monkeypatch.setattr(users, "is_local_owner", lambda client, ports: False)
        with pytest.raises(LoginNeeded, match="this client, which runs under another account, named none"):
            nyala.connect(url)
        with nyala.connect(url, user="ann", password="x") as client:
            assert client.execute("SELECT k FROM t WHERE k = 2").fetchone() == (2,)
            assert client.execute("SELECT sum(k) FROM t").fetchone() == (3,)
        owner.execute("REVOKE ALL ON t FROM ann; DROP USER ann FORCE")
        with nyala.connect(url) as client:
            assert client.execute("SELECT count(*) FROM t").fetchone() == (2,)
