"""`nyala serve --postgres` and `nyala gateway`."""

from __future__ import annotations

import stat
import subprocess
import sys
from pathlib import Path

import nyala
import pytest
from gateway_support import users_of_a_gateway
from nyala.__main__ import main
from nyala.cli.doors import DoorOptions, Doors
from nyala.doors.postgres.server.options import PostgresOptions

psycopg = pytest.importorskip("psycopg")


def test_a_gateway_is_in_front_of_a_served_directory(tmp_path: Path) -> None:
    with nyala.connect(tmp_path / "store") as owner:
        owner.execute("CREATE TABLE t (k INT PRIMARY KEY, v STRING)")
        gateway = Doors(nyala.connect(owner.serve()), DoorOptions(PostgresOptions(), None))
        gateway.start()
        try:
            with psycopg.connect(f"postgresql://me@{gateway.address}/") as client:
                client.execute("INSERT INTO t VALUES (%s, %s)", (1, "one"))
                with client.cursor().copy("COPY t FROM STDIN") as copy:
                    copy.write(b"2\ttwo\n")
                client.commit()
                assert client.execute("SELECT v FROM t WHERE k = %s", (1,)).fetchall() == [("one",)]
            with psycopg.connect(f"postgresql://me@{gateway.address}/", autocommit=True) as client:
                # Tables are changed outside of transactions there, so the statements are run one by one.
                client.execute("CREATE TABLE u (a INT PRIMARY KEY); INSERT INTO u VALUES (1)")
                assert client.execute("SELECT count(*) FROM u").fetchone() == (1,)
        finally:
            gateway.drain()
            gateway.stop()
        assert owner.execute("SELECT v FROM t ORDER BY k").fetchall() == [("one",), ("two",)]


def test_users_of_a_gateway_are_those_of_the_store_behind_it(tmp_path: Path) -> None:
    with nyala.connect(tmp_path / "store") as owner:
        users_of_a_gateway(owner, owner.serve())


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["--postgres", "0.0.0.0:0"], "a password and TLS are missing"),
        (["--postgres-tls-key", "x"], "needs --postgres HOST:PORT"),
        (["--postgres", "127.0.0.1:0", "--postgres-connections", "0"], "a number from 1 is needed"),
        (["--postgres", "5433"], "HOST:PORT is needed"),
    ],
)
@pytest.mark.parametrize("command", ["serve", "gateway"])
def test_unsafe_options_are_refused(
    command: str, arguments: list[str], why: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([command, str(tmp_path / "store"), *arguments]) == 1
    assert why in capsys.readouterr().err
    assert not (tmp_path / "store").exists()


def test_a_gateway_needs_an_address(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["gateway", "nyala://127.0.0.1:1"]) == 1
    assert "--postgres HOST:PORT" in capsys.readouterr().err


def test_a_directory_that_is_served_needs_a_gateway(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with nyala.connect(tmp_path / "store") as owner:
        url = owner.serve()
        assert main(["serve", str(tmp_path / "store"), "--postgres", "127.0.0.1:0"]) == 1
        assert f"nyala gateway {url} --postgres 127.0.0.1:0" in capsys.readouterr().err


@pytest.mark.slow
def test_serve_serves_both_protocols_until_it_is_idle(tmp_path: Path) -> None:
    secret = tmp_path / "password"
    secret.write_text("secret\n")
    secret.chmod(stat.S_IRUSR)
    command = [sys.executable, "-m", "nyala", "serve", str(tmp_path / "store"), "--postgres", "127.0.0.1:0"]
    command += ["--postgres-password-file", str(secret), "--idle-exit", "4"]  # the first client must come before
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None and server.stderr is not None
        url, postgres = server.stdout.readline().strip(), server.stdout.readline().strip()
        address = postgres.removeprefix("postgresql://").removesuffix("/")
        with psycopg.connect(f"postgresql://me:secret@{address}/", autocommit=True) as client:
            client.execute("CREATE TABLE t (k INT PRIMARY KEY); INSERT INTO t VALUES (1)")
            with nyala.connect(url) as other:
                assert other.execute("SELECT k FROM t").fetchall() == [(1,)]
            assert client.execute("SELECT k FROM t").fetchall() == [(1,)]
        log = server.stderr.read()
        assert server.wait(60) == 0
    assert "secret" not in log
