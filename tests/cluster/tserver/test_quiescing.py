"""A tablet server that quiesces: its leaderships go to others, and so do new scans; running ones end."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from nyala.cluster.wire.messages.maintenance_methods import QuiesceServer, QuiesceStatus
from nyala.errors import InterfaceError, ReplicaUnavailable
from nyala.model.store import ScanSpec
from tserver_support import Servers, rows, tablet, tuples, wait_for

ROWS = 300_000
"""More than the buffers of a stream that is not read hold."""


@pytest.fixture
def three(tmp_path: Path) -> Iterator[Servers]:
    with Servers(tmp_path, 3) as servers:
        yield servers


def quiesce(servers: Servers, number: int, action: str = "begin") -> QuiesceStatus:
    reply: QuiesceStatus = servers.call(number, QuiesceServer(action=action))
    return reply


@pytest.mark.slow
def test_leaderships_and_new_scans_go_to_others_and_running_scans_end(three: Servers) -> None:
    id = three.create()
    three.write(id, rows(range(ROWS), "a text that takes space "))
    first = three.leader(id)
    running = three.stream(first, id, ScanSpec(("k", "v")))
    found = [next(running)]
    assert quiesce(three, first, "status") == QuiesceStatus(is_quiescing=False, leaders=1, scans=1)
    assert quiesce(three, first).is_quiescing
    wait_for(lambda: quiesce(three, first, "status").leaders == 0)
    with pytest.raises(ReplicaUnavailable, match="is quiescing, and accepts no new scans"):
        three.keys(first, id)
    second = three.leader(id)
    assert second != first
    three.write(id, rows([-1]))
    assert three.keys(second, id) == [-1, *range(ROWS)]
    assert quiesce(three, first, "status").scans == 1
    found += running
    assert sorted(row[0] for row in tuples(found)) == list(range(ROWS)), "a running scan ends as it would have"
    wait_for(lambda: quiesce(three, first, "status").scans == 0)
    # the others fail over between each other, not to the one that quiesces
    three.stop(second)
    third = wait_for(lambda: three.leader(id))
    assert third not in (first, second)
    assert not quiesce(three, first, "end").is_quiescing
    assert three.keys(first, id) == [-1, *range(ROWS)]


def test_a_tablet_without_another_replica_is_served_as_before(tmp_path: Path) -> None:
    with Servers(tmp_path, 1) as servers:
        id = servers.create()
        servers.write(id, rows(range(10)))
        assert quiesce(servers, 0) == QuiesceStatus(is_quiescing=True, leaders=0, scans=0, alone=1)
        servers.write(id, rows([10]))
        assert servers.keys(0, id) == list(range(11))
        other = servers.create(tablet("t1-p1"))
        servers.write(other, rows([5]))
        assert servers.keys(0, other) == [5], "also one that is created later"
        servers.restart(0)
        assert not wait_for(lambda: [quiesce(servers, 0, "status")])[0].is_quiescing


def test_unknown_actions_are_refused(tmp_path: Path) -> None:
    with Servers(tmp_path, 1) as servers, pytest.raises(InterfaceError, match=r'"begin" or "end".* not "stop"'):
        quiesce(servers, 0, "stop")
