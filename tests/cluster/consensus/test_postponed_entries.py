"""A follower delays committed entries for a moment, unless a caller waits for them. The moment lasts an hour here."""

from __future__ import annotations

import time

import pytest
from cluster_consensus_support import PATIENCE, Group, Server, eventually
from nyala.cluster.consensus import applier, peer_driver


@pytest.fixture(autouse=True)
def an_hour(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peer_driver, "POSTPONED", 3600.0)


def soon() -> float:
    return time.monotonic() + PATIENCE


def _lagging(group: Group, leader: Server, index: int) -> list[Server]:
    """Returns the followers that know the entry as committed, and have not applied it."""
    followers = group.others(leader)
    for server in followers:
        eventually(lambda server=server: server.consensus.status().commit_index >= index, "word of the commit")
        assert server.consensus.applied_index < index
    return followers


def _write(leader: Server, count: int) -> tuple[list[bytes], int]:
    bodies = [b"%d" % number for number in range(count)]
    index = 0
    for body in bodies:
        index = leader.replica.write(body).index
    return bodies, index


def test_who_waits_for_an_entry_does_not_wait_for_the_moment_to_pass() -> None:
    with Group() as group:
        leader = group.leader()
        bodies, index = _write(leader, 20)
        for server in _lagging(group, leader, index):
            server.consensus.wait_applied(index, soon())
            assert server.replica.bodies == bodies


def test_reads_at_a_timestamp_do_not_wait_for_the_moment_to_pass() -> None:
    with Group() as group:
        leader = group.leader()
        bodies, index = _write(leader, 20)
        now = leader.clock.now()
        for server in _lagging(group, leader, index):
            server.consensus.wait_safe(now, soon())
            assert server.replica.bodies == bodies


def test_no_more_than_some_entries_wait() -> None:
    with Group() as group:
        leader = group.leader()
        bodies, _ = _write(leader, applier.MOST_POSTPONED + 40)
        for server in group.others(leader):
            eventually(lambda server=server: server.consensus.applied_index >= applier.MOST_POSTPONED, "entries")
            assert server.replica.bodies == bodies[: len(server.replica.bodies)]


def test_a_new_leader_applies_what_was_postponed_before_it_serves() -> None:
    with Group() as group:
        leader = group.leader()
        bodies, index = _write(leader, 20)
        _lagging(group, leader, index)
        group.stop(leader)
        new = group.leader()
        assert new.replica.bodies == bodies
        new.replica.write(b"more")
        assert new.replica.bodies == [*bodies, b"more"]


def test_after_a_moment_they_are_applied(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peer_driver, "POSTPONED", 0.02)
    with Group() as group:
        leader = group.leader()
        for _ in range(3):
            leader.replica.write(b"one")
            group.agree(leader.replica.bodies)
