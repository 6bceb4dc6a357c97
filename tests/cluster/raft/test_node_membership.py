"""Changes of the configuration, and transfers of leadership. Sections are those of Ongaro's thesis."""

from __future__ import annotations

import pytest
from nyala.cluster.raft.events import ChangePeers, RaftRole, Ready, Received, Transfer
from nyala.cluster.raft.membership import CONFIGURATION, decode_configuration, encode_configuration
from nyala.cluster.raft.messages import (
    AppendRequest,
    Configuration,
    Entry,
    Peer,
    PeerRole,
    TransferRequest,
)
from nyala.errors import ConfigurationRefused, NotTheLeader
from raft_node_support import OPTIONS, WRITE, Group, log_of, make_node, peers


def change(group: Group, names: str, expected_index: int | None = None) -> Ready:
    return group.step("A", ChangePeers(peers(names), expected_index))


def names(configuration: Configuration) -> str:
    return "".join(peer.id if peer.role is PeerRole.VOTER else peer.id.lower() for peer in configuration.peers)


# ---- one peer at a time -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("to", ["ABCd", "ABCD", "AB", "AC"])
def test_one_peer_is_added_or_removed(to: str) -> None:  # 4.1
    group = Group()
    leader = group.elect()
    ready = change(group, to)
    assert ready.configuration == leader.configuration == Configuration(peers(to), 2)
    assert leader.committed_configuration == Configuration(peers("ABC"))
    group.settle()
    assert leader.committed_configuration == Configuration(peers(to), 2)
    group.run(1)
    assert names(group.nodes["A" if "B" not in to else "B"].committed_configuration) == to


@pytest.mark.parametrize(
    ("to", "why"),
    [
        ("ABC", "0 would change"),
        ("ABCde", "2 would change"),
        ("AB" + "d", "2 would change"),
        ("BC", "cannot remove itself"),
        ("AbC", "is a VOTER"),
        ("aBC", "is a VOTER"),
        ("ABCC", "twice"),
    ],
)
def test_no_other_change_is_made(to: str, why: str) -> None:
    group = Group()
    leader = group.elect()
    with pytest.raises(ConfigurationRefused, match=why):
        change(group, to)
    assert (leader.configuration.index, group.logs["A"].last_index) == (0, 1)


def test_a_peer_may_move_to_another_address() -> None:
    group = Group()
    leader = group.elect()
    moved = (*peers("AB"), Peer("C", "elsewhere:2"))
    group.step("A", ChangePeers(moved))
    group.settle()
    assert leader.committed_configuration.peers == moved
    assert leader.peer_progress()["C"].peer.address == "elsewhere:2"
    assert leader.peer_progress()["C"].match_index == 2


def test_one_change_at_a_time_and_the_first_after_an_entry_of_the_term() -> None:
    group = Group()
    group.slow |= {"B", "C"}
    group.elect()
    with pytest.raises(ConfigurationRefused, match="beginning of term 1"):
        change(group, "ABCD")
    group.slow.clear()
    group.settle()
    change(group, "ABCD")
    with pytest.raises(ConfigurationRefused, match="entry 2"):
        change(group, "ABCDE")
    group.settle()
    change(group, "ABCDE")


def test_a_change_may_name_what_it_replaces() -> None:
    group = Group()
    group.elect()
    change(group, "ABCD", 0)
    group.settle()
    with pytest.raises(ConfigurationRefused, match="log index 2, not 0"):
        change(group, "ABCDE", 0)
    change(group, "ABCDE", 2)


def test_only_a_leader_changes_peers() -> None:
    group = Group()
    group.elect()
    with pytest.raises(NotTheLeader):
        group.step("B", ChangePeers(peers("ABCD")))


def test_the_configuration_in_force_decides_at_once() -> None:
    group = Group()
    leader = group.elect()
    change(group, "ABCD")
    group.cut.add("C")
    group.settle()
    assert leader.commit_index == 1, "two of four are no majority"
    group.start("D", Configuration(peers("ABC")), is_new=True)
    group.run(1)
    assert leader.commit_index == 2


def test_a_configuration_that_is_cut_off_is_not_in_force_any_more() -> None:
    node = make_node()
    body = encode_configuration(Configuration(peers("BC")))
    added = (Entry(1, 1, 1, WRITE, b""), Entry(1, 2, 2, CONFIGURATION, body))
    ready = node.step(Received(AppendRequest("B", 1, 1, 0, 0, 1, added)), 0.0)
    assert (ready.configuration, node.role) == (Configuration(peers("BC"), 2), RaftRole.LEARNER)
    assert node.deadline == float("inf")
    ready = node.step(Received(AppendRequest("C", 2, 1, 1, 1, 1, (Entry(2, 2, 3, WRITE, b""),))), 0.0)
    assert (ready.truncated_to, ready.configuration) == (1, Configuration(peers("ABC"), 0))
    assert (node.role, node.configuration.index) == (RaftRole.FOLLOWER, 0)
    assert node.deadline < float("inf")


def test_after_a_restart_the_history_is_what_the_driver_knows() -> None:
    history = [Configuration(peers("ABC"))]
    node = make_node("A", "ABCD", 2, log=log_of([1, 1]), term=1, history=history)
    assert (names(node.configuration), names(node.committed_configuration)) == ("ABCD", "ABC")
    node.step(Received(AppendRequest("B", 2, 1, 1, 1, 0, (Entry(2, 2, 3, WRITE, b""),))), 0.0)
    assert names(node.configuration) == "ABC"
    node = make_node("A", "ABCD", 2, log=log_of([1, 1]), term=1, history=history, commit_index=2)
    assert names(node.committed_configuration) == "ABCD"


def test_configurations_travel_as_bytes() -> None:
    configuration = Configuration(peers("ABcD"), 17)
    assert decode_configuration(encode_configuration(configuration), 17) == configuration
    assert decode_configuration(encode_configuration(configuration), 18).index == 18


# ---- learners -----------------------------------------------------------------------------------------------------


def test_a_pre_voter_that_has_caught_up_is_promoted() -> None:  # 4.2.1
    group = Group()
    leader = group.elect()
    group.propose("A", *[b"x"] * 10)
    group.settle()
    change(group, "ABCd")
    group.settle()
    group.start("D", Configuration(peers("ABC")), is_new=True)
    assert group.nodes["D"].role is RaftRole.LEARNER
    group.run(2)
    assert names(leader.committed_configuration) == "ABCD"
    assert (group.nodes["D"].role, names(group.nodes["D"].configuration)) == (RaftRole.FOLLOWER, "ABCD")
    assert group.bodies("D") == group.bodies("A")


def test_one_that_is_not_there_or_far_behind_is_not() -> None:
    group = Group()
    leader = group.elect()
    change(group, "ABCd")
    group.run(20)
    assert names(leader.committed_configuration) == "ABCd"
    group.start("D", Configuration(peers("ABC")), is_new=True)
    group.slow.add("D")
    group.run(5)
    assert names(leader.configuration) == "ABCd", "nothing is durable there"
    group.slow.clear()
    group.run(5)
    assert names(leader.configuration) == "ABCD"


def test_a_pre_voter_counts_in_no_majority() -> None:
    group = Group("ABcde")
    group.cut.add("B")
    group.run(20)
    assert group.leaders == []
    group.cut.clear()
    group.run(20)
    (leader,) = group.leaders
    assert names(group.nodes[leader].committed_configuration) == "ABCDE", "promoted one by one"


def test_silent_voters_are_told_once_per_silence() -> None:
    group = Group("ABCd")
    group.elect()

    def silent() -> list[str]:
        return [peer.id for ready in group.readies["A"] for peer in ready.silent]

    group.cut.add("C")
    group.run(OPTIONS.eviction_timeout - 1)
    assert silent() == []
    group.run(OPTIONS.eviction_timeout)
    assert silent() == ["C"]
    group.cut.clear()
    group.run(5)
    group.cut.add("C")
    group.run(OPTIONS.eviction_timeout + 1)
    assert silent() == ["C", "C"]


# ---- transfer -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("target", ["C", None])
def test_leadership_is_handed_over_at_once(target: str | None) -> None:  # 3.10
    group = Group()
    leader = group.elect()
    group.propose("A", b"x")
    group.step("A", Transfer(target))
    assert not leader.has_lease(group.now)
    group.settle()
    (successor,) = group.leaders
    assert successor == (target or successor) != "A"
    assert (leader.role, leader.leader, leader.term) == (RaftRole.FOLLOWER, successor, 2)
    assert group.bodies(successor) == [b"x"]


def test_the_target_is_told_when_it_has_everything() -> None:
    group = Group()
    leader = group.elect()
    group.slow.add("C")
    group.propose("A", b"x")
    group.settle()
    ready = group.step("A", Transfer("C"))
    assert not ready.messages
    group.slow.clear()
    group.settle()
    assert group.leaders == ["C"]
    assert leader.role is RaftRole.FOLLOWER


def test_meanwhile_nothing_is_proposed() -> None:
    group = Group()
    leader = group.elect()
    group.step("A", Transfer("B"))
    assert leader.is_transferring
    with pytest.raises(NotTheLeader, match="transferred to B") as caught:
        group.propose("A", b"x")
    assert caught.value.leader == "B:1"
    with pytest.raises(NotTheLeader):
        change(group, "AB")


def test_a_leader_whose_transfer_comes_to_nothing_steps_down_without_ever_a_lease_again() -> None:
    group = Group()
    leader = group.elect()
    group.cut.add("C")
    group.step("A", Transfer("C"))
    for _ in range(14):
        group.run(0.1)
        assert not leader.has_lease(group.now)
        assert leader.role is RaftRole.LEADER
    group.run(0.2)
    assert leader.role is RaftRole.FOLLOWER
    group.run(5)
    assert group.leaders


def test_a_transfer_request_that_is_lost_is_sent_again() -> None:
    group = Group()
    group.elect()
    group.step("A", Transfer("C"))
    assert [type(message) for _, message in group.wire] == [TransferRequest]
    group.wire.clear()
    group.run(OPTIONS.heartbeat)
    assert group.leaders == ["C"]


@pytest.mark.parametrize("target", ["A", "D", "Z"])
def test_leadership_goes_to_another_voter_only(target: str) -> None:
    group = Group("ABCd")
    group.cut.add("D")
    leader = group.elect()
    with pytest.raises(ConfigurationRefused, match="only to another voter"):
        group.step("A", Transfer(target))
    assert leader.has_lease(group.now)
    alone = Group("A")
    alone.run(1)
    with pytest.raises(ConfigurationRefused, match="there is none"):
        alone.step("A", Transfer())


def test_a_request_to_campaign_counts_in_its_term_and_from_its_leader_only() -> None:
    group = Group()
    group.elect()
    for message in (TransferRequest("A", 0), TransferRequest("A", 2), TransferRequest("B", 1)):
        assert not group.step("C", Received(message)).messages
    assert group.nodes["C"].term == 1
