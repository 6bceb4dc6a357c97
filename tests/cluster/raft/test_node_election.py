"""Elections and votes. Sections are those of Ongaro's thesis."""

from __future__ import annotations

import pytest
from nyala.cluster.raft.events import Campaign, RaftRole, Received, Tick
from nyala.cluster.raft.messages import (
    AppendRequest,
    AppendResponse,
    Configuration,
    HardState,
    TransferRequest,
    VoteRequest,
    VoteResponse,
)
from raft_node_support import OPTIONS, Group, log_of, make_node, messages, peers

TIMEOUT = OPTIONS.election_timeout


def heartbeat(term: int = 1, sender: str = "B", round: int = 1) -> Received:
    return Received(AppendRequest(sender, term, round, 0, 0, 0))


def test_a_follower_that_hears_nobody_asks_first_and_then_campaigns() -> None:  # 9.6
    node = make_node(term=4)
    assert TIMEOUT <= node.deadline <= 2 * TIMEOUT
    ready = node.step(Tick(), node.deadline)
    assert messages(ready) == [VoteRequest("A", 5, 0, 0, pre=True)] * 2
    assert (node.role, node.term, ready.hard_state) == (RaftRole.CANDIDATE, 4, None)
    ready = node.step(Received(VoteResponse("B", 5, True, pre=True)), 3.0)
    assert messages(ready) == [VoteRequest("A", 5, 0, 0)] * 2
    assert ready.hard_state == HardState(5, "A")
    ready = node.step(Received(VoteResponse("C", 5, True)), 3.0)
    assert (node.role, node.leader, ready.is_leader_changed) == (RaftRole.LEADER, "A", True)


def test_a_tick_too_early_does_nothing() -> None:
    node = make_node()
    assert not node.step(Tick(), node.deadline - 0.001).messages


@pytest.mark.parametrize(
    ("response", "why"),
    [
        (VoteResponse("B", 1, True), "a vote in place of a pre-vote"),
        (VoteResponse("B", 0, False, pre=True), "a refusal"),
        (VoteResponse("D", 1, True, pre=True), "a server that is no voter"),
        (VoteResponse("B", 2, True, pre=True), "an answer of another term"),
    ],
)
def test_what_does_not_count_as_a_pre_vote(response: VoteResponse, why: str) -> None:
    node = make_node()
    node.step(Tick(), node.deadline)
    assert not node.step(Received(response), 3.0).messages, why
    assert node.term == 0


def test_one_voter_does_not_count_twice() -> None:
    node = make_node("A", "ABCDE")
    node.step(Tick(), node.deadline)
    for _ in range(3):
        node.step(Received(VoteResponse("B", 1, True, pre=True)), 3.0)
    assert node.term == 0


def test_the_only_voter_is_leader_at_its_first_tick() -> None:
    node = make_node("A", "A", is_new=False, now=5.0)
    assert node.deadline == 5.0
    ready = node.step(Tick(), 5.0)
    assert (node.role, node.term, ready.hard_state) == (RaftRole.LEADER, 1, HardState(1, "A"))


@pytest.mark.parametrize(("id", "names"), [("A", "aBC"), ("D", "ABC")])
def test_learners_never_campaign(id: str, names: str) -> None:
    node = make_node(id, names)
    assert (node.role, node.deadline) == (RaftRole.LEARNER, float("inf"))
    assert not node.step(Campaign(), 10.0).messages
    assert not node.step(Tick(), 1000.0).messages
    node.step(heartbeat(), 1000.0)
    assert not node.step(Received(TransferRequest("B", 1)), 1000.0).messages


def test_waits_grow_after_lost_elections_and_a_leader_ends_that() -> None:
    node = make_node()
    waits = []
    for _ in range(7):
        before = node.deadline
        node.step(Tick(), before)
        waits.append(node.deadline - before)
    for n, wait in enumerate(waits):
        assert TIMEOUT / 2 * 2 ** min(n, 3) <= wait <= TIMEOUT * 2 ** min(n, 3)
    node.step(heartbeat(), 100.0)
    assert node.deadline - 100.0 <= 2 * TIMEOUT
    before = node.deadline
    node.step(Tick(), before)
    assert node.deadline - before <= TIMEOUT


def test_peers_wait_differently() -> None:
    group = Group("ABCDE")
    assert len({node.deadline for node in group.nodes.values()}) == 5


@pytest.mark.parametrize(
    ("last_term", "last_index", "granted"),
    [(3, 4, True), (3, 5, True), (4, 1, True), (3, 3, False), (2, 9, False), (0, 0, False)],
)
@pytest.mark.parametrize("pre", [True, False])
def test_a_vote_is_for_a_log_no_shorter(last_term: int, last_index: int, granted: bool, pre: bool) -> None:  # 3.6.1
    node = make_node(log=log_of([1, 1, 2, 3]), term=4)
    ready = node.step(Received(VoteRequest("B", 5, last_term, last_index, pre=pre)), 0.0)
    (answer,) = messages(ready, VoteResponse)
    assert isinstance(answer, VoteResponse)
    assert (answer.granted, answer.pre) == (granted, pre)
    if pre:
        assert ready.hard_state is None
        assert node.term == 4
    else:
        assert ready.hard_state == HardState(5, "B" if granted else "")


def test_one_vote_in_a_term_also_after_a_restart() -> None:
    node = make_node(term=5, vote="B")
    for sender, term, granted in [("C", 5, False), ("B", 5, True), ("C", 6, True), ("B", 6, False), ("C", 4, False)]:
        (answer,) = messages(node.step(Received(VoteRequest(sender, term, 0, 0)), 0.0))
        assert isinstance(answer, VoteResponse)
        assert answer.granted is granted, (sender, term)


def test_a_pre_vote_in_the_voters_own_term_respects_its_vote() -> None:
    node = make_node(term=5, vote="B")
    (answer,) = messages(node.step(Received(VoteRequest("C", 5, 0, 0, pre=True)), 0.0))
    assert isinstance(answer, VoteResponse)
    assert not answer.granted


@pytest.mark.parametrize("pre", [True, False])
def test_who_hears_a_leader_votes_for_nobody_else(pre: bool) -> None:  # 4.2.3
    node = make_node()
    node.step(heartbeat(), 10.0)
    request = Received(VoteRequest("C", 2, 9, 9, pre=pre))
    (answer,) = messages(node.step(request, 10.0 + TIMEOUT - 0.01))
    assert answer == VoteResponse("A", 1, False, pre=pre)
    assert node.term == 1
    (answer,) = messages(node.step(request, 10.0 + TIMEOUT))
    assert answer == VoteResponse("A", 2, True, pre=pre)


def test_a_transfer_holds_against_the_promise() -> None:  # 3.10
    node = make_node()
    node.step(heartbeat(), 10.0)
    (answer,) = messages(node.step(Received(VoteRequest("C", 2, 0, 0, transfer=True)), 10.1))
    assert answer == VoteResponse("A", 2, True)


@pytest.mark.parametrize(("is_new", "granted"), [(True, True), (False, False)])
def test_who_has_just_started_has_forgotten_its_promises(is_new: bool, granted: bool) -> None:
    node = make_node(is_new=is_new, now=10.0)
    for pre in (True, False):
        (answer,) = messages(node.step(Received(VoteRequest("B", 1, 0, 0, pre=pre)), 11.0))
        assert isinstance(answer, VoteResponse)
        assert answer.granted is granted
    assert bool(make_node(is_new=is_new, now=10.0).step(Campaign(), 10.5).messages) is granted
    later = make_node(is_new=is_new, now=10.0).step(Received(VoteRequest("B", 1, 0, 0)), 10.0 + TIMEOUT)
    (answer,) = messages(later)
    assert isinstance(answer, VoteResponse)
    assert answer.granted


def test_campaigning_against_a_promise_waits_for_its_end() -> None:
    node = make_node()
    node.step(heartbeat(), 10.0)
    assert not node.step(Campaign(), 10.5).messages
    assert node.leader == "B"
    assert node.step(Tick(), node.deadline).messages


def test_a_candidate_gives_way_to_the_leader_of_its_term_and_to_later_terms() -> None:
    for message in (AppendRequest("B", 1, 1, 0, 0, 0), AppendRequest("B", 7, 1, 0, 0, 0)):
        node = make_node()
        node.step(Tick(), node.deadline)
        node.step(Received(VoteResponse("B", 1, True, pre=True)), 3.0)
        node.step(Received(message), 3.0)
        assert (node.role, node.leader, node.term) == (RaftRole.FOLLOWER, "B", message.term)


def test_a_refusal_from_a_later_term_ends_the_candidacy() -> None:
    node = make_node()
    node.step(Tick(), node.deadline)
    ready = node.step(Received(VoteResponse("B", 8, False, pre=True)), 3.0)
    assert (node.role, node.term, ready.hard_state) == (RaftRole.FOLLOWER, 8, HardState(8, ""))


def test_a_server_that_was_cut_off_does_not_disturb_when_it_is_back() -> None:  # 9.6
    group = Group()
    group.elect()
    group.cut.add("C")
    group.run(20)
    assert (group.nodes["C"].role, group.nodes["C"].term) == (RaftRole.CANDIDATE, 1)
    group.cut.clear()
    group.run(5)
    assert (group.leaders, group.nodes["A"].term, group.nodes["C"].leader) == (["A"], 1, "A")


def test_a_removed_server_does_not_disturb() -> None:  # 4.2.3
    group = Group()
    group.elect()
    group.start("D", Configuration(peers("ABCD")), is_new=True)  # its configuration has four peers
    group.run(20)
    assert (group.leaders, group.nodes["A"].term) == (["A"], 1)


def test_after_a_leader_is_gone_another_is_there_soon() -> None:
    group = Group()
    group.elect()
    group.cut.add("A")
    group.run(5)
    assert group.nodes["A"].role is not RaftRole.LEADER, "it has no majority"
    (leader,) = group.leaders
    assert leader in "BC"
    assert group.nodes[leader].is_serving


def test_a_refused_append_tells_an_old_leader_of_the_new_term() -> None:
    node = make_node(term=5)
    ready = node.step(Received(AppendRequest("B", 4, 3, 0, 0, 0)), 0.0)
    assert messages(ready) == [AppendResponse("A", 5, 3, False, 0)]
    group = Group()
    leader = group.elect()
    group.step("A", Received(AppendResponse("B", 5, 1, False, 0)))
    assert (leader.role, leader.term, leader.hard_state) == (RaftRole.FOLLOWER, 5, HardState(5, ""))
