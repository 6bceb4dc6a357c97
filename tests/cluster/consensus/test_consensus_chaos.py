"""Concurrent writers while servers lose power, are stopped and partitioned: acknowledged entries exist once, in the
same order everywhere."""

from __future__ import annotations

import random
import threading
import time

import pytest
from cluster_consensus_support import Group, Server, eventually
from examples import cases
from nyala.errors import OperationalError
from nyala.storage.files.memory_filesystem import FaultyFileSystem


class Writer:
    """Writes numbered bodies to the leader; records the acknowledged ones."""

    def __init__(self, group: Group, name: str):
        self.acknowledged: list[bytes] = []
        self._group = group
        self._name = name
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"nyala-test-writer-{name}", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        number = 0
        while not self._stop.is_set():
            leader = next((s for s in self._group.running if s.consensus.is_serving), None)
            if leader is None:
                time.sleep(0.01)
                continue
            number += 1
            body = f"{self._name}-{number}".encode()
            try:
                leader.replica.write(body, time.monotonic() + 0.5)
            except OperationalError:
                continue  # its outcome is unknown
            self.acknowledged.append(body)

    def stop(self) -> None:
        self._stop.set()
        self._thread.join()


@pytest.mark.parametrize("seed", range(cases(2)))
def test_chaos(seed: int, rounds: int = 6) -> None:
    rng = random.Random(seed)
    with Group() as group:
        for server in list(group.running):
            group.stop(server)
            server.fs = FaultyFileSystem(server.fs)
            group.start(server)
        group.leader()
        writers = [Writer(group, f"w{number}") for number in range(4)]
        for _ in range(rounds):
            _disturb(group, rng)
        for writer in writers:
            writer.stop()
        group.write(b"end")
        eventually(lambda: all(server.replica.bodies[-1:] == [b"end"] for server in group.running))
        bodies = group.leader().replica.bodies
        assert len(set(bodies)) == len(bodies)
        group.agree(bodies)
        for writer in writers:
            acknowledged = set(writer.acknowledged)
            assert writer.acknowledged == [body for body in bodies if body in acknowledged]
        assert sum(len(writer.acknowledged) for writer in writers) > 10
        assert [server.replica.error for server in group.running] == [None] * 3


def _disturb(group: Group, rng: random.Random) -> None:
    before = sum(len(server.replica.memory) for server in group.running)
    server = rng.choice([*group.running, group.leader()])
    what = rng.choice(["cut", "crash", "stop", "loss", "full", "full"])
    if what == "cut":
        group.network.cut.add(server.peer.id)
        time.sleep(rng.random() * 1.6)
        group.network.cut.clear()
    elif what == "full":
        # Of one server, of a majority, or of all: a full disk is a passing state.
        disks = [s.fs for s in rng.sample(group.running, rng.randint(1, len(group.running)))]
        for disk in disks:
            for operation in ("write", "create"):
                disk.fail(operation)  # type: ignore[attr-defined]
        time.sleep(rng.random() * 1.5)
        for disk in disks:
            disk.heal()  # type: ignore[attr-defined]
    elif what == "loss":
        group.network.lost = 0.3
        time.sleep(rng.random() * 1.0)
        group.network.lost = 0.0
    else:
        group.running.remove(server)
        _end(server, what, rng)
        time.sleep(rng.random() * 1.0)
        group.start(server)
    eventually(lambda: sum(len(s.replica.memory) for s in group.running) > before, "writes go on")


def _end(server: Server, what: str, rng: random.Random) -> None:
    if what == "crash":
        server.fs = server.fs._inner  # type: ignore[attr-defined]
        server.crash(rng)
        server.fs = FaultyFileSystem(server.fs)
    else:
        server.stop()
