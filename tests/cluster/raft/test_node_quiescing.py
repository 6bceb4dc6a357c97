"""A quiescing peer leaves leadership to others, and leads only where no other can."""

from __future__ import annotations

import pytest
from nyala.cluster.raft.core import QUIET_FACTOR
from nyala.cluster.raft.events import Campaign, Quiesce, RaftRole, Received, Transfer
from nyala.cluster.raft.messages import AppendRequest, TransferRequest, VoteResponse
from nyala.errors import ConfigurationRefused
from raft_node_support import OPTIONS, Group, make_node, messages

TIMEOUT = OPTIONS.election_timeout


def heartbeat(sender: str = "B") -> Received:
    return Received(AppendRequest(sender, 1, 1, 0, 0, 0))


def test_a_leader_transfers_leadership_to_a_voter_that_has_caught_up() -> None:
    group = Group()
    group.elect("A")
    group.propose("A", b"x")
    group.settle()
    group.step("A", Quiesce(True))
    group.settle()
    (leader,) = group.leaders
    assert leader in "BC"
    group.propose(leader, b"y")
    group.settle()
    group.run(2 * OPTIONS.heartbeat)
    assert [group.bodies(id) for id in "ABC"] == [[b"x", b"y"]] * 3


def test_a_leader_keeps_a_tablet_that_no_other_voter_can_lead_yet() -> None:
    group = Group()
    group.elect("A")
    group.slow.add("C")
    group.propose("A", b"x")
    group.settle()
    group.cut.add("B")
    group.run(TIMEOUT)
    group.step("A", Quiesce(True))
    group.run(2 * TIMEOUT)
    assert group.leaders == ["A"], "C lacks a committed entry on its disk"
    group.slow.clear()
    group.run(2 * OPTIONS.heartbeat)
    assert group.leaders == ["C"]


def test_a_group_whose_other_voters_are_dead_or_quiescing_keeps_its_leader() -> None:
    group = Group()
    group.elect("A")
    group.step("B", Quiesce(True))
    group.cut.add("C")
    group.run(2 * TIMEOUT)
    group.step("A", Quiesce(True))
    group.run(4 * TIMEOUT)
    assert group.leaders == ["A"]
    group.propose("A", b"x")
    group.settle()
    assert group.bodies("A") == [b"x"]
    group.step("B", Quiesce(False))
    group.run(2 * OPTIONS.heartbeat)
    assert group.leaders == ["B"]


def test_the_only_voter_leads_and_campaigns() -> None:
    group = Group("A")
    group.step("A", Quiesce(True))
    group.run(TIMEOUT)
    assert group.leaders == ["A"]
    group.run(4 * TIMEOUT)
    assert group.leaders == ["A"]


def test_a_follower_waits_longer_and_again_as_usual_afterwards() -> None:
    node = make_node()
    node.step(heartbeat(), 10.0)
    usual = node.deadline - 10.0
    node.step(Quiesce(True), 10.0)
    assert node.deadline - 10.0 == pytest.approx(QUIET_FACTOR * usual)
    node.step(heartbeat(), 11.0)
    assert node.deadline - 11.0 == pytest.approx(QUIET_FACTOR * usual)
    node.step(Quiesce(False), 12.0)
    assert node.deadline - 12.0 == pytest.approx(usual)


def test_others_are_elected_in_place_of_a_quiescing_peer() -> None:
    group = Group()
    for id in "AB":
        group.step(id, Quiesce(True))
    group.run(4 * TIMEOUT)
    assert group.leaders == ["C"]


def test_a_group_of_quiescing_peers_has_a_leader_in_the_end() -> None:
    group = Group()
    for id in "ABC":
        group.step(id, Quiesce(True))
    group.run(2 * TIMEOUT)
    assert group.leaders == []
    group.run(2 * QUIET_FACTOR * TIMEOUT)
    (leader,) = group.leaders
    group.run(4 * TIMEOUT)
    assert group.leaders == [leader], "it stays, as all others are quiescing, too"


def test_a_candidate_gives_up_and_a_new_tablet_is_left_to_others() -> None:
    node = make_node()
    node.step(Campaign(), 1.0)
    node.step(Quiesce(True), 1.0)
    assert node.role is RaftRole.FOLLOWER
    for voter in "BC":
        node.step(Received(VoteResponse(voter, 1, True, pre=True)), 1.0)
    assert node.role is RaftRole.FOLLOWER
    assert not messages(node.step(Campaign(), 1.0))


def test_leadership_is_not_transferred_to_a_quiescing_peer() -> None:
    group = Group()
    group.elect("A")
    group.step("B", Quiesce(True))
    group.run(2 * OPTIONS.heartbeat)
    with pytest.raises(ConfigurationRefused, match="B is quiescing"):
        group.step("A", Transfer("B"))
    group.step("A", Transfer(None))
    group.settle()
    assert group.leaders == ["C"]


def test_a_request_of_a_leader_that_does_not_know_is_obeyed() -> None:
    node = make_node()
    node.step(heartbeat(), 10.0)
    node.step(Quiesce(True), 10.0)
    assert messages(node.step(Received(TransferRequest("B", 1)), 10.0)), (
        "an election, rather than no leader for a while"
    )


def test_a_leader_whose_successor_dies_campaigns_as_others_do() -> None:
    group = Group()
    node = group.elect("A")
    group.slow.add("C")
    group.propose("A", b"x")
    group.settle()
    group.cut.add("B")  # which has just responded, and has every entry
    group.step("A", Quiesce(True))
    group.run(TIMEOUT)
    assert group.leaders == []
    assert node.deadline <= group.now + 2 * TIMEOUT
    group.run(3 * TIMEOUT)
    assert group.leaders == ["A"]
