"""Access control by the role in the certificate, on each of the ways to a server."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from cryptography import x509
from net_support import until
from nyala.cluster.raft.messages import AppendResponse, Peer
from nyala.cluster.wire.calls.rpc import Channel
from nyala.cluster.wire.messages.envelope import methods as all_methods
from nyala.cluster.wire.messages.envelope import pack
from nyala.cluster.wire.messages.methods import (
    Call,
    Done,
    DropTable,
    EndBootstrap,
    KeepAlive,
    ScanEnd,
    ScanTablet,
    StepDown,
    WorkOnTablet,
)
from nyala.cluster.wire.peer_transport import PeerTransport
from nyala.cluster.wire.peers import PeerBatch
from nyala.cluster.wire.security.access import NEEDED, Role, check_method, check_request, role_of
from nyala.cluster.wire.security.tls import Credentials, read_credentials
from nyala.cluster.wire.server import RpcServer
from nyala.errors import AccessDenied, InterfaceError, UnknownTable
from nyala.model.clock import HybridClock
from nyala.net.dialing import dial
from nyala.net.frames import MESSAGE, frame
from tls_support import Pki, unchecked

CALLS = {
    Role.CLIENT: KeepAlive(scanner="s"),
    Role.ADMIN: StepDown(tablet_id="t"),
    Role.SERVER: EndBootstrap(session="s"),
}
TICKET = ScanTablet(tablet_id="t", schema_version=0, spec={}, scanner="s")


class Served:
    """A server that does all it may, and counts the accepted requests."""

    def __init__(self, pki: Pki):
        self.done: list[str] = []
        self.batches: list[PeerBatch] = []
        self.clock = HybridClock()
        self.server = RpcServer(
            "127.0.0.1:0",
            self.clock,
            handlers={type(call): self.do for call in CALLS.values()},
            scan=lambda request, context: iter([ScanEnd(batches=0)]),
            tls=pki.server,
        )
        self.peer = Peer("server", self.server.address)
        self.transport = PeerTransport(
            lambda: self.peer, self.clock, self.batches.append, self.server.reactor, pki.server
        )
        self.server.message = self.transport.receive
        self.server.start()

    def do(self, request: Any, context: Any) -> Done:
        self.done.append(type(request).__name__)
        return Done()

    def close(self) -> None:
        self.transport.close()
        assert self.server.stop()


@pytest.fixture
def served(pki: Pki) -> Iterator[Served]:
    one = Served(pki)
    yield one
    one.close()


@pytest.fixture(params=["client", "admin", "127.0.0.1"])
def caller(request: pytest.FixtureRequest, pki: Pki) -> Credentials:
    return pki.credentials(request.param)


def test_servers_alone_take_part() -> None:
    mine = {method.__name__ for method in all_methods() if method.__module__.startswith("nyala.")}
    servers = mine - {method.__name__ for method in NEEDED}
    assert servers == {
        "CreateTablet", "DeleteTablet", "AlterTablet", "StartBootstrap", "BeginBootstrap", "ReadFile", "EndBootstrap",
        "Heartbeat", "SetRights",
    }, "a new method is for servers alone, until `access` says otherwise"  # fmt: skip


def test_a_role_is_a_name_or_the_beginning_of_one() -> None:
    assert role_of("nyala-client") is Role.CLIENT
    assert role_of("nyala-admin.anna") is Role.ADMIN
    assert role_of("nyala-client.monthly_reports") is Role.CLIENT
    assert role_of("Nyala-Server") is Role.SERVER
    strangers = (
        "", "localhost", "nyala", "nyala-", "nyala-root", "xnyala-server", "a.nyala-server", "127.0.0.1",
        "nyala-server.rack1", "nyala-server.corp.com", "nyala-server.smith@corp.com", "nyala-server@corp.com",
        "nyala-admin.corp.com", "nyala-client.smith@corp.com", "nyala-client.", "nyala-client.-", "nyala-server:x",
        "nyala-server://x", "nyala-client.a b", "nyala-server\n", "nyala-client.a\n",
    )  # fmt: skip
    for other in strangers:
        assert role_of(other) is None
        with pytest.raises(AccessDenied, match="gives no role"):
            check_method(other, KeepAlive)


@pytest.mark.parametrize("needed", list(Role), ids=lambda role: role.name)
@pytest.mark.parametrize("way", ["alone", "stream"])
def test_a_call_needs_its_role(served: Served, caller: Credentials, needed: Role, way: str) -> None:
    role, call = role_of(caller.identity), CALLS[needed]
    channel = Channel(served.server.address, HybridClock(), tls=caller)

    def called() -> Any:
        begun = channel.begin(call, 10.0) if way == "stream" else None
        assert way == "alone" or begun is not None
        return channel.call(call, 10.0) if begun is None else channel.finish(call, begun, 10.0)

    assert role is not None
    if role >= needed:
        assert called() == Done()
    else:
        with pytest.raises(AccessDenied, match=rf"{type(call).__name__} is not for a \w+'s certificate") as caught:
            called()
        assert not caught.value.retryable
    assert served.done == ([type(call).__name__] if role >= needed else [])
    channel.close()


def test_everybody_with_a_role_scans(served: Served, caller: Credentials) -> None:
    channel = Channel(served.server.address, HybridClock(), tls=caller)
    assert list(channel.scan(TICKET, 10.0)) == []
    channel.close()


def test_servers_alone_send_messages_to_peers(served: Served, caller: Credentials) -> None:
    batch = pack(
        PeerBatch(Peer("b", "127.0.0.1:9"), served.clock.now(), ((("t", AppendResponse("b", 1, 1, True, 1))),))
    )
    address = served.server.address
    dialed = dial(address, b"", 1000, 20.0, caller.for_calls(address))
    assert dialed.tls is not None
    with dialed.socket as opened:
        opened.sendall(dialed.tls.encrypted(frame(MESSAGE, 0, batch)))
        if role_of(caller.identity) is Role.SERVER:
            until(lambda: served.batches)
        else:
            opened.settimeout(20.0)
            assert b"a message of a peer is not for" in dialed.tls.decrypted(opened.recv(10_000))
            assert not served.batches


DNS, MAIL, URI = x509.DNSName, x509.RFC822Name, x509.UniformResourceIdentifier
FOREIGN = {
    "host": ("x", [DNS("nyala-server.corp.com")]),
    "host of a client": ("x", [DNS("nyala-client.corp.com"), DNS("nyala-server")]),
    "mail": ("x", [MAIL("nyala-server.smith@corp.com")]),
    "mail before": ("x", [MAIL("nyala-server@corp.com"), DNS("nyala-server")]),
    "uri": ("x", [URI("nyala-server://corp.com/")]),
    "common name with another": ("nyala-server", [DNS("somebody.corp.com")]),
    "common name of a host": ("nyala-server.corp.com", []),
    "common name of a person": ("nyala-admin.anna@corp.com", []),
}


@pytest.mark.parametrize("kind", FOREIGN)
def test_names_of_other_kinds_give_no_role(
    served: Served, pki: Pki, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    caller = pki.issue_named("foreign", *FOREIGN[kind])
    channel = Channel(served.server.address, HybridClock(), tls=caller)
    for call in CALLS.values():
        with pytest.raises(AccessDenied, match="gives no role"):
            channel.call(call, 10.0)
    channel.close()
    assert not served.done
    denied = [record for record in caplog.records if record.name == "nyala.cluster.audit"]
    assert len(denied) == len(CALLS)
    assert {record.fields["from"].partition(":")[0] for record in denied} == {"127.0.0.1"}  # type: ignore[attr-defined]
    with pytest.raises(InterfaceError, match="gives no role"):
        read_credentials(caller.files)


def test_a_common_name_is_no_role_for_its_own_holder(pki: Pki) -> None:
    for names in ([], [URI("nyala-client")], [MAIL("nyala-client@corp.com")]):
        caller = pki.issue_named("named", "nyala-client", names)
        with pytest.raises(InterfaceError, match="gives no role"):
            read_credentials(caller.files)


@pytest.mark.parametrize(
    ("work", "needed"), [("compact", Role.ADMIN), ("flush", Role.CLIENT), ("analyze", Role.CLIENT)]
)
def test_rewriting_files_is_for_administrators(work: str, needed: Role) -> None:
    for role in Role:
        request = WorkOnTablet(tablet_id="t", work=work)
        if role >= needed:
            check_request(role.dns_name, request)
        else:
            with pytest.raises(AccessDenied, match=f"to {work} a tablet is not for a client's"):
                check_request(role.dns_name, request)


def test_changes_are_logged_with_who_and_from_where(pki: Pki, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "nyala.cluster.audit")

    def drop(request: DropTable, context: Any) -> Done:
        if request.name == "gone":
            raise UnknownTable("table gone does not exist")
        return Done()

    server = RpcServer("127.0.0.1:0", HybridClock(), handlers={DropTable: drop}, tls=pki.server)
    server.start()
    channel = Channel(server.address, HybridClock(), tls=pki.credentials())
    channel.call(DropTable("sales", (), Call("c", 1, 1)), 10.0)
    with pytest.raises(UnknownTable):
        channel.call(DropTable("gone", (), Call("c", 2, 1)), 10.0)
    channel.close()
    server.stop()
    lines = [(record.getMessage(), record.fields) for record in caplog.records if record.name == "nyala.cluster.audit"]  # type: ignore[attr-defined]
    assert [(event, fields["what"], fields["who"], fields["name"]) for event, fields in lines] == [
        ("done", "DropTable", "nyala-client", "sales"),
        ("failed", "DropTable", "nyala-client", "gone"),
    ]
    assert all(fields["from"].startswith("127.0.0.1:") for _, fields in lines)


def test_a_certificate_without_a_role_may_nothing(served: Served, pki: Pki) -> None:
    class Roleless:
        dns_name = "somebody.example.com"
        name = "SOMEBODY"

    caller = unchecked(pki.issue("somebody", Roleless()))  # type: ignore[arg-type]
    channel = Channel(served.server.address, HybridClock(), tls=caller)
    for call in CALLS.values():
        with pytest.raises(AccessDenied, match=r"gives no role: its first alternative name is 'somebody.example.com'"):
            channel.call(call, 10.0)
    with pytest.raises(AccessDenied, match="gives no role"):
        list(channel.scan(TICKET, 10.0))
    assert not served.done
    channel.close()
