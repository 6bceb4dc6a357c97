"""The server over sockets: limits, cancel, timeouts, passwords, TLS, slow readers, shutdown."""

from __future__ import annotations

import hashlib
import hmac
import logging
import secrets
import socket
import ssl
import struct
import threading
from base64 import b64decode, b64encode
from pathlib import Path
from typing import Any

import nyala
import pytest
from nyala.doors.authentication import read_secret
from nyala.doors.postgres.protocol import frontend
from nyala.doors.postgres.server import client as client_module
from nyala.doors.postgres.server.options import PostgresOptions
from nyala.doors.postgres.server.server import PostgresServer
from nyala.doors.postgres.session.backend import Backend
from nyala.doors.postgres.session.client_settings import ClientSettings
from nyala.errors import InterfaceError
from postgres_support import (
    PATIENCE,
    SYNC,
    Wire,
    bind,
    execute,
    message,
    parse,
    query,
    replies,
    served,
    startup,
    text,
    texts,
    until,
)
from tls_support import HOST, Pki

SLOW = "SELECT count(*) FROM generate_series(1, 100000) AS a(n), generate_series(1, 100000) AS b(m) WHERE n * m % 7 = 3"


@pytest.fixture(scope="module")
def tls_files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    files = Pki(tmp_path_factory.mktemp("pki")).files(HOST)
    return {"ca": str(files.ca), "cert": str(files.certificate), "key": str(files.key)}


def fields(body: bytes) -> dict[str, str]:
    return {part[0]: part[1:] for part in texts(body)}


def test_a_client_gets_its_key_and_the_settings() -> None:
    with served() as server:
        for minor, key_bytes in ((0, 4), (2, 32)):
            with Wire(server, startup(minor, application_name="test")) as wire:
                found = wire.until("Z")
                statuses = dict(tuple(texts(body)) for kind, body in found if kind == "S" and len(texts(body)) == 2)
                assert statuses["application_name"] == "test"
                assert statuses["server_version"].startswith("15.0")
                assert statuses["client_encoding"] == "UTF8"
                (key,) = [body for kind, body in found if kind == "K"]
                assert len(key) == 4 + key_bytes


def test_a_statement_is_cancelled_by_another_connection() -> None:
    with served() as server, Wire(server, startup()) as wire:
        (key,) = [body for kind, body in wire.until("Z") if kind == "K"]
        wire.send(query(SLOW))
        (running,) = server._known()
        until(lambda: running._backend is not None and running._backend._halt is not None)
        for wrong in (key[:4] + b"\0\0\0\0", struct.pack("!I", 999) + key[4:]):
            with Wire(server, struct.pack("!ii", 16, 80877102) + wrong) as other:
                assert other.message() == ("", b"")
        assert running.is_working
        with Wire(server, struct.pack("!ii", 16, 80877102) + key) as other:
            assert other.message() == ("", b"")
        found = wire.until("Z")
        assert fields(found[-2][1])["C"] == "57014"


def test_statement_timeout() -> None:
    with served() as server, Wire(server, startup(options="-c statement_timeout=50")) as wire:
        wire.until("Z")
        wire.send(query(SLOW))
        found = fields(wire.until("Z")[-2][1])
        assert (found["C"], found["M"]) == ("57014", "canceling statement due to statement timeout")
        wire.send(query("SET statement_timeout = 0"))
        wire.until("Z")
        wire.send(query("SELECT 1"))
        assert [kind for kind, _ in wire.until("Z")] == ["T", "D", "C", "Z"]


def test_idle_in_transaction_session_timeout() -> None:
    with served() as server, Wire(server, startup(options="-c idle_in_transaction_session_timeout=10")) as wire:
        wire.until("Z")
        wire.send(query("BEGIN"))
        wire.until("Z")
        kind, body = wire.message()
        assert (kind, fields(body)["C"]) == ("E", "25P03")
        assert wire.message() == ("", b"")


def test_a_lost_client_leaves_nothing_behind() -> None:
    with nyala.connect(":memory:") as connection:
        connection.execute("CREATE TABLE t (k INT PRIMARY KEY)")
        with served(connection) as server:
            with Wire(server, startup()) as wire:
                wire.until("Z")
                wire.send(query("BEGIN; INSERT INTO t VALUES (1)"))
                wire.until("Z")
                wire.send(query(SLOW))
                (running,) = server._known()
                until(lambda: running._backend is not None and running._backend._halt is not None)
            until(lambda: server.client_count == 0 and running._backend is None)
            assert connection.execute("SELECT count(*) FROM t").fetchall() == [(0,)]
            connection.execute("INSERT INTO t VALUES (1)")


def test_a_slow_reader_holds_no_thread_and_little_memory() -> None:
    """A result of hundreds of megabytes: the statement stops after some batches, and goes on when they are read."""
    rows = 3_000_000
    with served(threads=1) as server, Wire(server, startup()) as slow:
        slow.until("Z")
        slow.send(query(f"SELECT n, repeat('x', 100) AS x FROM generate_series(1, {rows}) AS g(n)"))
        (reader,) = server._known()
        until(lambda: reader._state is client_module.State.PARKED)
        assert reader.connection.unsent < 16 << 20
        with Wire(server, startup()) as other:  # the only thread is free
            other.until("Z")
            other.send(query("SELECT 1"))
            assert [kind for kind, _ in other.until("Z")] == ["T", "D", "C", "Z"]
        assert slow.message()[0] == "T"
        for _ in range(100_000):
            kind, body = slow.message()
            assert kind == "D" and len(body) > 100


def test_a_client_that_sends_without_end_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_module, "QUEUE_BYTES", 1 << 16)
    with served() as server, Wire(server, startup()) as wire:
        wire.until("Z")
        (running,) = server._known()
        statements = query(SLOW) + query("SELECT '" + "x" * 1000 + "'") * 1000
        sender = threading.Thread(target=lambda: wire.send(statements))
        sender.start()
        until(lambda: running._is_paused)
        assert running._queued < 1 << 20
        running.cancel()
        sender.join(PATIENCE)
        for _ in range(1001):
            assert wire.until("Z")[-1][0] == "Z"
        assert not running._is_paused


@pytest.mark.parametrize("start", [b"", b"\0\0", startup()[:-1]])
def test_a_slow_start_ends(start: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_module, "START_SECONDS", 0.1)
    with served() as server, Wire(server, start) as wire:
        assert wire.message() == ("", b"")


def test_a_slow_message_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    with served() as server, Wire(server, startup()) as wire:
        wire.until("Z")
        monkeypatch.setattr(client_module, "MESSAGE_SECONDS", 0.1)
        wire.send(query("SELECT 1")[:-3])
        assert wire.message() == ("", b"")


def test_bytes_that_are_no_message_end_the_connection() -> None:
    with served() as server:
        for start, data in (
            (b"", b"GET / HTTP/1.0\r\n\r\n"),
            (startup(), b"\x01garbage"),
            (startup(), message("S", b"x")),
        ):
            with Wire(server, start) as wire:
                if start:
                    wire.until("Z")
                wire.send(data)
                kind, body = wire.message()
                assert (kind, fields(body)["S"], fields(body)["C"]) == ("E", "FATAL", "08P01")
                assert wire.message() == ("", b"")


def test_too_many_clients() -> None:
    with served(connections=2) as server:
        wires = [Wire(server, startup()) for _ in range(2)]
        for wire in wires:
            wire.until("Z")
        with Wire(server, startup()) as third:
            assert fields(third.until("E")[-1][1])["C"] == "53300"
        wires[0].close()
        until(lambda: server.client_count == 1)
        with Wire(server, startup()) as fourth:
            assert fourth.until("Z")[-1][0] == "Z"
        wires[1].close()


def test_too_many_bytes_of_messages_end_the_largest() -> None:
    with served(incomplete_bytes=4 << 20) as server, Wire(server, startup()) as small, Wire(server, startup()) as large:
        small.until("Z")
        large.until("Z")
        large.send(b"Q" + struct.pack("!i", 8 << 20) + b"x" * (5 << 20))
        assert large.message() == ("", b"")
        small.send(query("SELECT 1"))
        assert small.until("Z")[-1][0] == "Z"


def test_shutdown_lets_statements_end() -> None:
    with nyala.connect(":memory:") as connection:
        server = PostgresServer(connection, PostgresOptions(drain_seconds=PATIENCE))
        server.start()
        with Wire(server, startup()) as idle, Wire(server, startup()) as busy:
            idle.until("Z")
            busy.until("Z")
            busy.send(query("SELECT count(*) FROM generate_series(1, 3000000) AS g(n) WHERE n % 3 = 1"))
            until(lambda: any(client.is_working for client in server._known()))
            closing = threading.Thread(target=server.close)
            closing.start()
            assert fields(idle.until("E")[-1][1])["C"] == "57P01"
            assert [kind for kind, _ in busy.until("Z")] == ["T", "D", "C", "Z"]
            closing.join(PATIENCE)
            assert not closing.is_alive()
        with pytest.raises(OSError):
            socket.create_connection(("127.0.0.1", server.port), timeout=5)


def test_shutdown_cancels_what_does_not_end() -> None:
    with nyala.connect(":memory:") as connection:
        server = PostgresServer(connection, PostgresOptions(drain_seconds=0.05))
        server.start()
        with Wire(server, startup()) as busy:
            busy.until("Z")
            busy.send(query(SLOW))
            until(lambda: any(client.is_working for client in server._known()))
            server.close()
            assert busy.until("Z")[-1][0] in ("Z", "")


# ---- passwords and TLS -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"address": "0.0.0.0:0"}, "a password and TLS are missing"),
        ({"address": "0.0.0.0:0", "password": "x"}, "TLS is missing"),
        ({"address": "[::]:0", "tls_cert": "a", "tls_key": "b"}, "a password is missing"),
        ({"address": "localhost"}, "HOST:PORT is needed"),
        ({"address": "127.0.0.1:99999"}, "HOST:PORT is needed"),
        ({"tls_cert": "a"}, "one of the two is missing"),
    ],
)
def test_unsafe_options_are_refused(options: dict[str, Any], why: str) -> None:
    with pytest.raises(InterfaceError, match=why):
        PostgresOptions(**options).endpoint()


def test_a_password_file(tmp_path: Path) -> None:
    path = tmp_path / "password"
    path.write_text("secret\n")
    path.chmod(0o644)
    with pytest.raises(InterfaceError, match="chmod 600"):
        read_secret(path)
    path.chmod(0o600)
    assert read_secret(path) == "secret"
    with pytest.raises(InterfaceError, match="cannot be read"):
        read_secret(tmp_path / "none")


def sasl(wire: Wire, password: str) -> tuple[str, bytes]:
    """SCRAM-SHA-256 as RFC 7677 has it, by hand; the last message of the server."""
    kind, body = wire.message()
    assert (kind, body) == ("R", struct.pack("!i", 10) + b"SCRAM-SHA-256\0\0")
    nonce = secrets.token_urlsafe(18)
    bare = f"n=,r={nonce}"
    first = ("n,," + bare).encode()
    wire.send(message("p", text("SCRAM-SHA-256") + struct.pack("!i", len(first)) + first))
    kind, body = wire.message()
    assert (kind, body[:4]) == ("R", struct.pack("!i", 11))
    server_first = body[4:].decode()
    parts = dict(part.split("=", 1) for part in server_first.split(","))
    assert parts["r"].startswith(nonce)
    salted = hashlib.pbkdf2_hmac("sha256", password.encode(), b64decode(parts["s"]), int(parts["i"]))
    client_key = hmac.digest(salted, b"Client Key", "sha256")
    without_proof = f"c=biws,r={parts['r']}"
    signed = f"{bare},{server_first},{without_proof}".encode()
    signature = hmac.digest(hashlib.sha256(client_key).digest(), signed, "sha256")
    proof = bytes(a ^ b for a, b in zip(client_key, signature, strict=True))
    wire.send(message("p", f"{without_proof},p={b64encode(proof).decode()}".encode()))
    kind, body = wire.message()
    if kind == "R":
        expected = hmac.digest(hmac.digest(salted, b"Server Key", "sha256"), signed, "sha256")
        assert body[4:] == b"v=" + b64encode(expected)
        return wire.message()
    return kind, body


def test_passwords(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    with served(password="quite secret") as server:
        with Wire(server, startup()) as wire:
            assert sasl(wire, "quite secret") == ("R", struct.pack("!i", 0))
            wire.until("Z")
            wire.send(query("SELECT 1"))
            assert wire.until("Z")[-1][0] == "Z"
        with Wire(server, startup()) as wire:
            kind, body = sasl(wire, "quite wrong")
            assert (kind, fields(body)["C"]) == ("E", "28P01")
        for wrong in (query("SELECT 1"), message("p", b"SCRAM-SHA-1\0\0\0\0\0"), message("p", b"")):
            with Wire(server, startup()) as wire:
                wire.message()
                wire.send(wrong)
                assert wire.until("E")[-1][0] == "E"
                assert wire.message() == ("", b"")
    assert "secret" not in caplog.text and "quite" not in caplog.text
    assert "secret" not in repr(server.options) + repr(server.authenticator)


def test_tls(tls_files: dict[str, str]) -> None:
    context = ssl.create_default_context(cafile=tls_files["ca"])
    context.check_hostname = False
    with served(tls_cert=tls_files["cert"], tls_key=tls_files["key"], password="x") as server:
        raw = socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE)
        raw.sendall(struct.pack("!ii", 8, 80877103))
        assert raw.recv(1) == b"S"
        with Wire(server) as wire:
            wire.socket.close()
            wire.socket = context.wrap_socket(raw)
            wire.send(startup())
            assert sasl(wire, "x")[0] == "R"
            wire.until("Z")
            wire.send(query("SELECT n FROM generate_series(1, 200000) AS g(n)"))
            assert len(wire.until("Z")) == 200_003
        # TLS from the first byte, as PostgreSQL 17 has it.
        context.set_alpn_protocols(["postgresql"])
        with Wire(server) as wire:
            wire.socket = context.wrap_socket(wire.socket)
            wire.send(startup())
            assert sasl(wire, "x")[0] == "R"
        # Not encrypted what follows the request.
        with Wire(server, struct.pack("!ii", 8, 80877103) + startup()) as wire:
            assert wire.until("E")[-1][0] in ("E", "")


def test_no_tls_is_offered_without_a_certificate() -> None:
    with served() as server, Wire(server) as wire:
        wire.send(struct.pack("!ii", 8, 80877103) + b"")
        assert wire.socket.recv(1) == b"N"
        wire.send(struct.pack("!ii", 8, 80877104))
        assert wire.socket.recv(1) == b"N"
        wire.send(startup())
        assert wire.until("Z")[-1][0] == "Z"


def test_pipelined_messages_are_answered_in_order() -> None:
    with served() as server, Wire(server, startup()) as wire:
        wire.until("Z")
        wire.send(b"".join(parse(f"SELECT {n} AS n") + bind() + execute() + SYNC for n in range(200)))
        for n in range(200):
            found = wire.until("Z")
            assert [kind for kind, _ in found] == ["1", "2", "D", "C", "Z"]
            assert found[2][1].endswith(str(n).encode())


def test_the_time_of_a_timeout_ends_with_its_statement() -> None:
    armed: list[tuple[float, Any]] = []
    with nyala.connect(":memory:") as connection:
        settings = ClientSettings("me", {"statement_timeout": "1min"})
        backend = Backend(connection.duplicate(), settings, arm=lambda seconds, halt: armed.append((seconds, halt)))
        for _ in range(2):
            pieces = []
            for piece in backend.handle(frontend.Query(b"SELECT n FROM generate_series(1, 3) AS g(n)")):
                pieces.append(piece)
                for _, before in armed[:-1]:
                    backend.time_out(before)  # of the statement before
            assert [kind for kind, _ in replies(b"".join(pieces))] == ["T", "D", "D", "D", "C", "Z"]
        assert [seconds for seconds, _ in armed] == [60, 60]
        backend.close()


def test_a_connection_serves_until_it_is_closed() -> None:
    with nyala.connect(":memory:") as connection:
        url = connection.serve(postgres="127.0.0.1:0", connections=3)
        port = int(url.rstrip("/").rpartition(":")[2])
        with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE) as found:
            found.sendall(startup())
            assert found.recv(1) == b"R"
        with pytest.raises(InterfaceError, match="nothing_of_that_name"):
            connection.serve(postgres="127.0.0.1:0", nothing_of_that_name=1)
        with pytest.raises(InterfaceError, match="none is named"):
            connection.serve(password="x")
    with pytest.raises(OSError):
        socket.create_connection(("127.0.0.1", port), timeout=5)
