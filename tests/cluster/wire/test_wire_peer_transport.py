"""Messages between servers arrive, whatever happens to the servers in between."""

from __future__ import annotations

import contextlib
import itertools
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from nyala.cluster.raft.messages import AppendRequest, AppendResponse, Entry, Message, Peer
from nyala.cluster.wire import peer_transport
from nyala.cluster.wire.faults import FAULTS
from nyala.cluster.wire.messages.methods import SetFaults
from nyala.cluster.wire.peer_transport import PeerTransport
from nyala.cluster.wire.peers import PeerBatch
from nyala.cluster.wire.server import RpcServer
from nyala.model.clock import HybridClock
from nyala.model.store import Timestamp
from nyala.net.connection import Connection
from nyala.net.dialing import dial
from nyala.net.frames import MESSAGE, frame

PATIENCE = 90.0


def until(condition: Callable[[], Any]) -> None:
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end, "it never came about"
        time.sleep(0.002)


class Node:
    """A server that keeps the received messages, and may answer them."""

    def __init__(self, id: str, bind: str = "127.0.0.1:0", answers: bool = False):
        self.got: list[tuple[str, Message]] = []
        self.batches = 0
        self.answers = answers
        self.clock = HybridClock()
        self.rpc = RpcServer(bind, self.clock, id=id)
        self.peer = Peer(id, self.rpc.address)
        self.transport = PeerTransport(lambda: self.peer, self.clock, self.receive, self.rpc.reactor)
        self.rpc.message = self.transport.receive
        self.rpc.start()

    def receive(self, batch: PeerBatch) -> None:
        self.batches += 1
        self.got.extend(batch.messages)
        if self.answers:
            for tablet_id, message in batch.messages:
                self.transport.send(
                    batch.sender, tablet_id, AppendResponse(self.peer.id, 1, round_of(message), True, 0)
                )

    def say(self, other: Node | Peer, number: int, size: int = 0) -> None:
        entries = (Entry(1, 1, 1, 1, b"x" * size),) if size else ()
        peer = other.peer if isinstance(other, Node) else other
        self.transport.send(peer, "tablet", AppendRequest(self.peer.id, 1, number, 0, 0, 0, entries))

    @property
    def rounds(self) -> list[int]:
        return [round_of(message) for _, message in self.got]

    def close(self) -> bool:
        self.transport.close()
        return self.rpc.stop()


def round_of(message: Message) -> int:
    assert isinstance(message, AppendRequest | AppendResponse)
    return message.round


@pytest.fixture
def nodes() -> Iterator[Callable[..., Node]]:
    made: list[Node] = []

    def make(*args: Any, **options: Any) -> Node:
        made.append(Node(*args, **options))
        return made[-1]

    yield make
    FAULTS.clear()
    closed = [node.close() for node in made]
    assert all(closed)
    until(lambda: not [thread for thread in threading.enumerate() if thread.name.startswith("nyala-peer")])


def test_messages_arrive_in_order_and_answers_come_back(nodes: Callable[..., Node]) -> None:
    a, b = nodes("a"), nodes("b", answers=True)
    for number in range(1000):
        a.say(b, number)
    until(lambda: len(a.got) == 1000)
    assert a.rounds == b.rounds == list(range(1000))
    assert b.batches < 1000, "messages that wait together travel together"
    assert a.rpc.under_way["connections"] == b.rpc.under_way["connections"] == 1


def test_clocks_travel_along(nodes: Callable[..., Node]) -> None:
    a, b = nodes("a"), nodes("b")
    a.clock.update(Timestamp(a.clock.now() + (9 * 10**6 << 12)))
    ahead = a.clock.now()
    a.say(b, 1)
    until(lambda: b.got)
    assert b.clock.now() > ahead


def test_a_peer_whose_clock_is_too_far_ahead_is_not_heard(
    nodes: Callable[..., Node], caplog: pytest.LogCaptureFixture
) -> None:
    a, b, c = nodes("a"), nodes("b"), nodes("c")
    a.clock.update(Timestamp(a.clock.now() + (3600 * 10**6 << 12)))
    for number in range(3):
        a.say(b, number)
    until(lambda: "messages are dropped" in caplog.text)
    c.say(b, 7)
    until(lambda: b.got)
    assert b.rounds == [7]
    assert b.clock.now() < b.clock.limit() < a.clock.latest
    assert caplog.text.count("3600 s ahead of this machine's") == 1, "logged once, not for each message"


def test_both_talk_at_once(nodes: Callable[..., Node]) -> None:
    a, b = nodes("a"), nodes("b")
    start = threading.Barrier(2)

    def talk(me: Node, other: Node) -> None:
        start.wait()
        for number in range(200):
            me.say(other, number)

    talkers = [threading.Thread(target=talk, args=pair) for pair in ((a, b), (b, a))]
    for talker in talkers:
        talker.start()
    for talker in talkers:
        talker.join()
    until(lambda: len(a.got) == len(b.got) == 200)
    assert a.rounds == b.rounds == list(range(200))


def test_a_restarted_peer_is_found_again(nodes: Callable[..., Node]) -> None:
    a, b = nodes("a"), nodes("b")
    a.say(b, 1)
    until(lambda: b.got)
    assert b.close()
    a.say(b, 2)
    again = nodes("b", b.peer.address)

    def heard() -> bool:
        a.say(b, 3)
        return bool(again.got)

    until(heard)


def test_a_peer_with_a_new_address_is_followed(nodes: Callable[..., Node]) -> None:
    a, b, moved = nodes("a"), nodes("b"), nodes("b")
    a.say(b, 1)
    until(lambda: b.got)
    a.say(moved, 2)
    until(lambda: moved.got)
    assert moved.rounds == [2]


def test_large_messages_and_many_bytes(nodes: Callable[..., Node], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peer_transport, "BATCH_BYTES", 100_000)
    a, b = nodes("a"), nodes("b")
    for number in range(60):
        a.say(b, number, size=1_000_000 if number % 10 == 0 else 30_000)
    until(lambda: len(b.got) == 60)
    assert b.rounds == list(range(60))
    assert b.batches >= 6


def test_an_outbox_that_is_full_is_thrown_away(nodes: Callable[..., Node], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peer_transport, "OUTBOX_BYTES", 100_000)
    a, b = nodes("a"), nodes("b")
    address, held = b.peer.address, threading.Event()
    b.transport._receive = lambda batch: held.wait(PATIENCE) and b.receive(batch)
    # While the receiver hangs, the exchange accepts what fits into its buffers, and the outbox a little more.
    for number in range(3000):
        a.say(Peer("b", address), number, size=50_000)
    held.set()

    def heard() -> bool:
        a.say(b, 5000)
        return 5000 in b.rounds

    until(heard)
    assert len(b.got) < 3000
    assert b.rounds == sorted(b.rounds)


def test_who_is_cut_off_hears_nothing(nodes: Callable[..., Node]) -> None:
    a, b = nodes("a"), nodes("b")
    a.say(b, 1)
    until(lambda: b.got)
    FAULTS.set(SetFaults(cut=("b",)))
    for number in range(2, 100):
        a.say(b, number)
    b.say(a, 1)
    FAULTS.set(SetFaults(cut=("nobody",)))

    def heard() -> bool:
        a.say(b, 1000)
        return 1000 in b.rounds

    until(heard)
    assert 2 not in b.rounds


_SILENT_PEER = """
import sys, time
from nyala.cluster.raft.messages import Peer
from nyala.cluster.wire.peer_transport import PeerTransport
from nyala.cluster.wire.server import RpcServer
from nyala.model.clock import HybridClock
clock = HybridClock()
rpc = RpcServer("127.0.0.1:0", clock, id="hung")
peer = Peer("hung", rpc.address)
transport = PeerTransport(lambda: peer, clock, lambda batch: [
    transport.send(batch.sender, tablet, message) for tablet, message in batch.messages], rpc.reactor)
rpc.message = transport.receive
rpc.start()
print(rpc.address, flush=True)
sys.stdin.read()
"""


@contextlib.contextmanager
def silent_peer() -> Iterator[tuple[Peer, subprocess.Popen[str]]]:
    """A peer with a process of its own, which is killed at the end."""
    command = [sys.executable, "-c", _SILENT_PEER]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield Peer("hung", process.stdout.readline().strip()), process
        finally:
            process.kill()


def stop(process: subprocess.Popen[str]) -> None:
    """Suspends the process; returns when it is."""
    process.send_signal(signal.SIGSTOP)
    os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WNOWAIT)


def test_a_peer_that_hangs_holds_up_nobody(nodes: Callable[..., Node], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peer_transport, "SILENCE", 0.5)
    a, b = nodes("a"), nodes("b")
    with silent_peer() as (hung, process):
        a.say(hung, 1)
        until(lambda: a.rounds == [1])
        stop(process)
        for number in range(2, 200):
            a.say(hung, number, size=1_000_000)
            a.say(b, number)
        until(lambda: len(b.got) == 198)
        os.kill(process.pid, signal.SIGCONT)

        def answered() -> bool:
            a.say(hung, 1000)
            return 1000 in a.rounds

        until(answered)


class Writes:
    """Records which threads write how many bytes on connections of peers."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch):
        self.bytes: dict[str, int] = {}
        send = Connection.send

        def counted(connection: Connection, data: bytes) -> None:
            name = threading.current_thread().name
            self.bytes[name] = self.bytes.get(name, 0) + len(data)
            send(connection, data)

        monkeypatch.setattr(Connection, "send", counted)


def test_who_holds_messages_back_writes_them_itself_together(
    nodes: Callable[..., Node], monkeypatch: pytest.MonkeyPatch
) -> None:
    a, b = nodes("a"), nodes("b", answers=True)
    a.say(b, 0)
    until(lambda: len(a.got) == 1)
    writes, batches, me = Writes(monkeypatch), b.batches, threading.current_thread().name
    for turn in range(300):
        with a.transport.holding():
            with a.transport.holding():
                a.say(b, 3 * turn + 1, size=200)
            a.say(b, 3 * turn + 2)
            a.say(b, 3 * turn + 3)
            assert len(b.got) <= 3 * turn + 1
        until(lambda turn=turn: len(a.got) == 3 * turn + 4)
    assert a.rounds == b.rounds == list(range(901))
    assert b.batches == batches + 300
    assert writes.bytes[me] > 300 * 200


def test_a_thread_that_writes_to_a_peer_that_does_not_read_is_not_blocked(nodes: Callable[..., Node]) -> None:
    a = nodes("a")
    with silent_peer() as (hung, process):
        a.say(hung, 0)
        until(lambda: a.rounds == [0])
        stop(process)
        for number in range(1, 501):
            with a.transport.holding():
                a.say(hung, number, size=20_000)
        os.kill(process.pid, signal.SIGCONT)
        until(lambda: len(a.got) == 501)
        assert a.rounds == list(range(501))


def test_messages_of_threads_that_hold_back_and_of_others_all_arrive(nodes: Callable[..., Node]) -> None:
    a, b = nodes("a"), nodes("b", answers=True)
    a.say(b, 0)
    until(lambda: b.got)

    def talk(first: int, holds: bool) -> None:
        for number in range(first, first + 500):
            if holds:
                with a.transport.holding():
                    a.say(b, number, size=5000 if number % 50 == 0 else 10)
            else:
                a.say(b, number)

    talkers = [threading.Thread(target=talk, args=(1000 * n, n % 2 == 0)) for n in range(1, 5)]
    for talker in talkers:
        talker.start()
    for talker in talkers:
        talker.join()
    until(lambda: len(b.got) == 2001)
    for n in range(1, 5):
        assert [number for number in b.rounds if number // 1000 == n] == list(range(1000 * n, 1000 * n + 500))


def test_a_connection_that_breaks_while_a_thread_holds_back_is_opened_again(nodes: Callable[..., Node]) -> None:
    a, b = nodes("a"), nodes("b")
    a.say(b, 1)
    until(lambda: b.got)
    assert b.close()
    with a.transport.holding():
        a.say(b, 2)
    again = nodes("b", b.peer.address)

    def heard() -> bool:
        with a.transport.holding():
            a.say(b, 3)
        return bool(again.got)

    until(heard)


def test_what_is_no_message_ends_the_connection(nodes: Callable[..., Node]) -> None:
    b = nodes("b")
    for nonsense in (b"nonsense", b"nyla\1\0\xff\xff", b"nyla\2\0" + bytes(20)):
        foe = dial(b.peer.address, b"", 1000, PATIENCE)
        with foe.socket:
            foe.socket.sendall(frame(MESSAGE, 0, nonsense))
            foe.socket.settimeout(PATIENCE)
            assert b"message of a peer" in foe.socket.recv(10_000)
    a = nodes("a")
    a.say(b, 1)
    until(lambda: b.got)


def test_a_peer_that_is_away_costs_one_thread_at_most(nodes: Callable[..., Node]) -> None:
    a = nodes("a")
    away = Peer("b", "127.0.0.1:9")
    dialed: list[float] = []
    dial_once = a.transport.dial

    def counted(peer: Peer) -> Any:
        dialed.append(time.monotonic())
        assert sum(thread.name.startswith("nyala-peer-dial") for thread in threading.enumerate()) == 1
        return dial_once(peer)

    a.transport.dial = counted  # type: ignore[method-assign]

    def four_were_made() -> bool:
        a.say(away, 1)
        return len(dialed) >= 4

    until(four_were_made)
    pauses = [later - earlier for earlier, later in itertools.pairwise(dialed)]
    assert pauses[0] >= 0.05
    assert pauses[2] >= 0.2
