"""Sides that do not trust each other: each gets an error with the reason, soon, and the server continues."""

from __future__ import annotations

import contextlib
import socket
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import nyala
import pytest
from nyala.cluster.admin.masters import ask_master
from nyala.cluster.client.retry import Attempts
from nyala.cluster.wire.calls.rpc import Channel, Channels
from nyala.cluster.wire.messages.methods import Done, GetStatus, KeepAlive, ListServers
from nyala.cluster.wire.security.access import Role
from nyala.cluster.wire.security.tls import Credentials
from nyala.cluster.wire.server import RpcServer
from nyala.errors import AuthenticationFailed, DeadlineExceeded, InterfaceError, ServerUnavailable
from nyala.model.clock import HybridClock
from tls_support import HOST, Pki, unchecked, with_ca

CALL = KeepAlive(scanner="s")
SECONDS = 90.0


@contextmanager
def server(tls: Credentials | None) -> Iterator[str]:
    one = RpcServer(f"{HOST}:0", HybridClock(), handlers={KeepAlive: lambda request, context: Done()}, tls=tls)
    one.start()
    yield one.address
    assert one.stop()


def call(address: str, tls: Credentials | None) -> object:
    channel = Channel(address, HybridClock(), tls=tls)
    try:
        return channel.call(CALL, SECONDS)
    finally:
        channel.close()


@pytest.fixture
def secure(pki: Pki) -> Iterator[str]:
    with server(pki.server) as address:
        yield address
        assert call(address, pki.credentials()) == Done(), "whatever came, the server serves"


@pytest.fixture
def plain() -> Iterator[str]:
    with server(None) as address:
        yield address
        assert call(address, None) == Done(), "whatever came, the server serves"


def test_a_client_without_tls(secure: str) -> None:
    with pytest.raises(
        AuthenticationFailed, match=f"{secure} accepts only TLS, and this side does not use it"
    ) as caught:
        call(secure, None)
    assert not caught.value.retryable


def test_a_client_with_tls_at_a_server_without(plain: str, pki: Pki) -> None:
    with pytest.raises(AuthenticationFailed, match=f"{plain} does not use TLS, and this side does"):
        call(plain, pki.credentials())


def test_a_server_of_another_ca(secure: str, foreign: Pki) -> None:
    with pytest.raises(AuthenticationFailed, match=f"the server at {secure} is not signed by the CA"):
        call(secure, foreign.credentials())


def test_a_client_of_another_ca(secure: str, pki: Pki, foreign: Pki) -> None:
    with pytest.raises(AuthenticationFailed, match=rf"{secure} refuses the certificate .*client.crt.* not signed"):
        call(secure, unchecked(with_ca(foreign.files(), pki.files().ca)))


def test_an_expired_client(secure: str, pki: Pki) -> None:
    with pytest.raises(AuthenticationFailed, match=rf"{secure} refuses the certificate .*late.crt.* expired"):
        call(secure, unchecked(pki.issue("late", days=-1)))


def test_a_client_that_expires_while_it_runs(secure: str, pki: Pki) -> None:
    files = pki.issue("short", days=-1)
    late = replace(unchecked(files), expires=1e9)
    with pytest.raises(AuthenticationFailed, match=r"short.crt, which this process was started with, expired on 2001"):
        call(secure, late)


def test_an_expired_server(pki: Pki) -> None:
    late = unchecked(pki.issue("late-server", Role.SERVER, [HOST], days=-1))
    with server(late) as address, pytest.raises(AuthenticationFailed, match=f"the server at {address} has expired"):
        call(address, pki.credentials())


def test_a_server_of_another_name(pki: Pki) -> None:
    other = unchecked(pki.issue("other", Role.SERVER, ["10.1.2.3"]))
    with server(other) as address, pytest.raises(AuthenticationFailed, match=f"{address} is not for {HOST}"):
        call(address, pki.credentials())


def test_a_client_that_poses_as_a_server(pki: Pki) -> None:
    posing = unchecked(pki.issue("posing", Role.CLIENT, [HOST]))
    with server(posing) as address, pytest.raises(AuthenticationFailed, match=f"{address} is not good: .*purpose"):
        call(address, pki.credentials())


def test_nobody_there_is_no_mistrust(pki: Pki) -> None:
    with server(pki.server) as address:
        pass
    for tls in (None, pki.credentials()):
        with pytest.raises(ServerUnavailable, match="cannot be reached"):
            call(address, tls)


def test_somebody_who_says_nothing_is_no_mistrust(pki: Pki) -> None:
    with socket.create_server((HOST, 0)) as silent:
        address = f"{HOST}:{silent.getsockname()[1]}"
        for tls in (None, pki.credentials()):
            with pytest.raises((ServerUnavailable, DeadlineExceeded)):
                call(address, tls)


def test_noise_and_hung_handshakes_leave_the_server_whole(secure: str, pki: Pki) -> None:
    host, port = secure.split(":")
    held = [socket.create_connection((host, int(port))) for _ in range(20)]
    for number, one in enumerate(held[:10]):
        one.sendall(bytes([22, 3, 1, number]) * 50 if number % 2 else b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
    anonymous = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    anonymous.load_verify_locations(pki.files().ca)
    with (
        contextlib.suppress(OSError),
        socket.create_connection((host, int(port))) as raw,
        anonymous.wrap_socket(raw, server_hostname=host) as nameless,
    ):
        assert not nameless.recv(1), "without a certificate of its own, nobody is heard"
    assert call(secure, pki.credentials()) == Done()
    for one in held:
        one.close()


# ---- above calls -----------------------------------------------------------------------------------------------------


def test_connect_says_it_at_once(secure: str, plain: str, pki: Pki, foreign: Pki) -> None:
    with pytest.raises(AuthenticationFailed, match="accepts only TLS"):
        nyala.connect(f"nyala://{secure}", connect_deadline=3600.0)
    with pytest.raises(AuthenticationFailed, match="does not use TLS"):
        nyala.connect(f"nyala://{plain}", connect_deadline=3600.0, **pki.files().options())
    with pytest.raises(AuthenticationFailed, match="is not signed by the CA"):
        nyala.connect(f"nyala://{secure},{secure}", connect_deadline=3600.0, **foreign.files().options())
    with pytest.raises(InterfaceError, match="has expired"):
        nyala.connect(f"nyala://{secure}", **pki.issue("late", days=-1).options())


def test_tools_say_it_at_once(secure: str, pki: Pki, foreign: Pki) -> None:
    channels = Channels(HybridClock(), tls=foreign.credentials())
    with pytest.raises(AuthenticationFailed, match="is not signed by the CA"):
        ask_master(channels, [secure], ListServers(), 3600.0)
    channels.close()


def test_one_server_that_is_not_trusted_is_no_end_of_others() -> None:
    attempts = Attempts("it", 3600.0)
    attempts.failed(AuthenticationFailed("one"))
    attempts.failed(ServerUnavailable("two"))
    attempts.failed(AuthenticationFailed("three"))
    attempts.pause()
    attempts.failed(AuthenticationFailed("one"))
    with pytest.raises(AuthenticationFailed):
        attempts.pause()


def test_a_status_needs_a_certificate_too(secure: str) -> None:
    with pytest.raises(AuthenticationFailed):
        Channel(secure, HybridClock()).call(GetStatus(), SECONDS)
