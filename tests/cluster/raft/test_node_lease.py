"""Leases, clock limits and safe times of a leader. Sections are those of Ongaro's thesis."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from nyala.cluster.raft.events import Campaign, Persisted, Propose, RaftRole, Received, Renew, Tick, Transfer
from nyala.cluster.raft.messages import (
    AppendRequest,
    AppendResponse,
    Configuration,
    Entry,
    VoteRequest,
    VoteResponse,
)
from nyala.cluster.raft.node import RaftNode, RaftOptions
from raft_node_support import OPTIONS, WRITE, Group, make_node, messages, peers

LEAD = OPTIONS.clock_lead


def elected(now: float = 10.0, names: str = "ABC", limits: tuple[int, int] = (0, 0), clock_limit: int = 0) -> RaftNode:
    """Returns A as leader of term 1 at `now`, by votes of B (and C), without a response to a round yet."""
    node = make_node("A", names, now=now, clock_limit=clock_limit)
    node.step(Campaign(), now)
    for is_pre in (True, False):
        for id, limit in zip("BC", limits):
            node.step(Received(VoteResponse(id, 1, True, pre=is_pre, clock_limit=limit)), now)
    assert node.role is RaftRole.LEADER
    return node


def answer(node: RaftNode, sender: str, round: int, now: float, accepted: bool = True) -> None:
    node.step(Received(AppendResponse(sender, 1, round, accepted, 0)), now)


# ---- leases -------------------------------------------------------------------------------------------------------


def test_a_lease_runs_from_the_beginning_of_the_round_that_a_majority_answered() -> None:  # 6.4.1
    node = elected(10.0)
    assert not node.has_lease(10.0)
    answer(node, "B", 1, 11.0)
    assert node.has_lease(10.0 + OPTIONS.lease - 0.01)
    assert not node.has_lease(10.0 + OPTIONS.lease)
    node.step(Renew(), 11.2)
    assert not node.has_lease(11.4)
    answer(node, "B", 2, 11.3)
    assert node.has_lease(11.4)


def test_a_refusal_of_entries_answers_the_round_all_the_same() -> None:
    node = elected(10.0)
    answer(node, "B", 1, 10.1, accepted=False)
    assert node.has_lease(10.2)


def test_it_takes_a_majority_and_learners_are_none() -> None:
    node = elected(10.0, "ABCDE")
    answer(node, "B", 1, 10.0)
    assert not node.has_lease(10.1)
    answer(node, "B", 1, 10.0)
    assert not node.has_lease(10.1)
    answer(node, "D", 1, 10.0)
    assert node.has_lease(10.1)
    node = elected(10.0, "ABCd")
    answer(node, "D", 1, 10.0)
    assert not node.has_lease(10.1)


def test_an_old_answer_does_not_renew() -> None:
    node = elected(10.0)
    for now in (10.5, 11.0):
        node.step(Tick(), now)
    answer(node, "B", 1, 11.2)
    assert not node.has_lease(11.36)


@given(now=st.floats(0, 1e9), heartbeat=st.floats(0.01, 0.9), slots=st.integers(2, 20))
def test_rounds_of_many_tablets_coincide(now: float, heartbeat: float, slots: int) -> None:
    slot = heartbeat / slots
    options = RaftOptions(heartbeat=heartbeat, slot=slot)
    due = options.next_heartbeat(now)
    assert now < due < now + heartbeat + 1e-6
    assert due > now + heartbeat - slot - 1e-6
    for beside in (0.1, 0.3):  # two that begin a round in the same slot go on together
        assert abs(options.next_heartbeat(due + beside * slot) - options.next_heartbeat(due + 0.6 * slot)) < 1e-6


def test_no_other_leader_is_elected_while_a_lease_holds() -> None:
    """In any order of later messages, a peer that has answered the first round votes for no other until the lease
    ends."""
    group = Group()
    leader = group.elect()
    began = group.now
    group.cut.add("A")
    for id in "BC":
        group.nodes[id].step(Campaign(), group.now)
    while leader.has_lease(group.now):
        assert group.leaders == ["A"]
        group.run(0.05)
    assert group.now - began >= OPTIONS.lease - 0.1


def test_the_only_voter_has_a_lease_by_itself() -> None:
    node = make_node("A", "Ab", now=5.0)
    node.step(Tick(), 5.0)
    assert node.has_lease(5.1)
    assert node.timestamp_limit == 1000 + LEAD


def test_a_leader_without_a_majority_steps_down() -> None:  # 6.2
    group = Group()
    leader = group.elect()
    group.cut |= {"B", "C"}
    group.run(OPTIONS.election_timeout - 0.1)
    assert leader.role is RaftRole.LEADER
    group.run(OPTIONS.heartbeat + 0.1)
    assert (leader.role, leader.leader, leader.term) == (RaftRole.FOLLOWER, "", 1)


def test_one_that_was_stopped_for_long_steps_down_also_when_asked_for_a_round() -> None:
    for event in (Tick(), Renew()):
        node = elected(10.0)
        answer(node, "B", 1, 10.0)
        assert not node.step(event, 20.0).messages
        assert node.role is RaftRole.FOLLOWER


# ---- limits of timestamps -----------------------------------------------------------------------------------------


def test_timestamps_up_to_what_a_majority_has_heard() -> None:
    node = elected()
    assert node.timestamp_limit == 0
    answer(node, "B", 1, 10.0)
    assert node.timestamp_limit == 1000 + LEAD
    assert node.clock_limit == 1000 + LEAD


def test_leads_do_not_add_up_from_leader_to_leader() -> None:
    """A server with many tablets had its hybrid clock moved 3 s further by each change of leader: after four of them
    others dropped its messages as those of a wrong clock."""
    clocks, floor = [1000], 0
    for _ in range(20):
        node = make_node("A", "A", hybrid=lambda: clocks[0], wall=lambda: 1000, clock_limit=floor)
        ready = node.step(Tick(), 0.0)
        clocks[0] = max(clocks[0], ready.clock_floor or 0)
        node.step(Renew(), 0.1)
        floor = node.clock_limit
    assert clocks[0] <= 1000 + LEAD + 40 * OPTIONS.clock_step
    clocks[0] += 3 * LEAD  # for whatever reason
    node.step(Renew(), 0.2)
    assert node.timestamp_limit == clocks[0] + OPTIONS.clock_step


def test_the_limit_follows_the_clock_and_never_falls() -> None:
    clock = [10_000]
    node = make_node("A", "A", hybrid=lambda: clock[0])
    node.step(Tick(), 0.0)
    for time, limit in [(9_000, 10_000), (20_000, 20_000), (5_000, 20_000)]:
        clock[0] = time
        node.step(Renew(), 0.1)
        assert node.timestamp_limit == limit + LEAD


def test_a_voter_tells_the_greatest_limit_it_has_heard() -> None:
    node = make_node(clock_limit=500)
    for limit, told in [(400, 500), (900, 900), (700, 900)]:
        node.step(Received(AppendRequest("B", 1, 1, 0, 0, 0, clock_limit=limit)), 0.0)
        (response,) = messages(node.step(Received(VoteRequest("C", 1, 0, 0)), 0.0))
        assert isinstance(response, VoteResponse)
        assert response.clock_limit == node.clock_limit == told
    ready = node.step(Received(AppendRequest("B", 1, 1, 1, 5, 0, clock_limit=2000)), 0.0)
    assert messages(ready) == [AppendResponse("A", 1, 1, False, 0)]
    assert node.clock_limit == 2000, "a refusal too says that the round was heard"


@pytest.mark.parametrize(("own", "limits", "floor"), [(0, (0, 0), 0), (7000, (0, 0), 7000), (7000, (9000, 0), 9000)])
def test_a_new_leader_starts_above_all_that_its_voters_let_pass(own: int, limits: tuple[int, int], floor: int) -> None:
    node = make_node("A", clock_limit=own)
    node.step(Campaign(), 0.0)
    node.step(Received(VoteResponse("B", 1, True, pre=True, clock_limit=0)), 0.0)
    ready = node.step(Received(VoteResponse("B", 1, True, clock_limit=limits[0])), 0.0)
    assert ready.clock_floor == node.timestamp_floor == floor
    (request, *_) = messages(ready, AppendRequest)
    assert isinstance(request, AppendRequest)
    (first,) = request.entries
    assert first.timestamp == max(1000, floor + 1)
    assert request.clock_limit == max(1000 + LEAD, first.timestamp + OPTIONS.clock_step)


def test_timestamps_go_up_over_leaders_whose_clocks_are_behind() -> None:
    group = Group()
    leader = group.elect()
    group.run(1)
    limit = leader.timestamp_limit
    group.hybrid_time = 5
    group.cut.add("A")
    group.run(6)
    (successor,) = group.leaders
    assert group.nodes[successor].timestamp_floor >= limit
    assert group.logs[successor].stored[-1].timestamp > limit


# ---- safe time ----------------------------------------------------------------------------------------------------


def test_a_safe_time_is_told_up_to_the_clock_limit() -> None:
    node = elected()
    node.announce_safe_time(1500, 1)

    def told() -> tuple[int, int]:
        (request, _) = messages(node.step(Renew(), 10.0), AppendRequest)
        assert isinstance(request, AppendRequest)
        return request.safe_time, request.safe_index

    assert told() == (0, 1)
    answer(node, "B", 1, 10.0)
    assert told() == (1500, 1)
    node.announce_safe_time(1400, 0)
    assert told() == (1500, 1), "it never falls"
    node.announce_safe_time(5000 + LEAD, 1)
    assert told() == (1000 + LEAD, 1)


def test_a_follower_may_use_a_safe_time_once_its_entries_are_committed() -> None:
    group = Group()
    leader = group.elect()
    group.run(1)
    follower = group.nodes["B"]
    group.slow |= {"B", "C"}
    group.propose("A", b"x")
    leader.announce_safe_time(group.hybrid(), 2)
    group.run(1)
    assert follower.safe_time == 0
    earlier = group.hybrid_time
    group.slow.clear()
    group.run(1)
    assert (follower.safe_index, follower.commit_index) == (2, 2)
    assert 0 < follower.safe_time <= earlier


def test_an_earlier_safe_time_stays_usable_while_a_later_one_waits() -> None:
    node = make_node()

    def hear(safe_time: int, safe_index: int) -> tuple[int, int]:
        request = AppendRequest("B", 1, 1, 0, 0, 0, safe_time=safe_time, safe_index=safe_index)
        node.step(Received(request), 0.0)
        return node.safe_time, node.safe_index

    assert hear(100, 0) == (100, 0)
    assert hear(200, 5) == (100, 0)
    assert hear(150, 0) == (100, 0), "overtaken"
    for n in range(50):
        assert hear(300 + n, 6 + n) == (100, 0)
    assert node.step(Persisted(9, 1), 0.0).messages == []


def step_down(group: Group, id: str = "A") -> RaftNode:
    """Lets a partitioned leader notice that."""
    group.cut |= group.nodes.keys() - {id}
    group.run(OPTIONS.election_timeout + OPTIONS.heartbeat)
    node = group.nodes[id]
    assert node.role is not RaftRole.LEADER
    return node


def test_who_led_serves_what_it_announced() -> None:
    group = Group()
    leader = group.elect()
    group.propose("A", b"x")
    group.run(1)
    announced = group.hybrid()
    leader.announce_safe_time(announced, 2)
    assert leader.safe_time == 0, "while it leads, its lease and limit say what it may serve"
    node = step_down(group)
    assert (node.safe_time, node.safe_index, node.commit_index) == (announced, 2, 2)


def test_who_led_serves_nothing_that_its_undecided_entries_may_change() -> None:
    group = Group()
    leader = group.elect()
    group.run(1)
    group.cut |= {"B", "C"}
    group.propose("A", b"one", b"two")
    one = group.logs["A"].stored[1].timestamp
    leader.announce_safe_time(group.hybrid(), 3)
    node = step_down(group)
    assert (node.safe_time, node.safe_index, node.commit_index) == (one - 1, 1, 1)
    group.cut.remove("B")
    group.run(30)
    assert group.bodies("A") == group.bodies("B") == [b"one", b"two"], "they were committed in the end"


def test_undecided_entries_are_looked_at_one_by_one() -> None:
    """Timestamps need not ascend within a log: a configuration's is assigned while a write is in progress."""
    group = Group(options=RaftOptions(max_batch_bytes=1))
    leader = group.elect()
    group.run(1)
    group.cut |= {"B", "C"}
    earlier, later = group.hybrid(), group.hybrid()
    for timestamp in (later, earlier, group.hybrid()):
        group.step("A", Propose(((timestamp, WRITE, b"xx"),)))
    leader.announce_safe_time(group.hybrid(), 4)
    assert step_down(group).safe_time == earlier - 1


def test_entries_behind_what_was_announced_take_nothing_away() -> None:
    group = Group()
    leader = group.elect()
    group.run(1)
    announced = group.hybrid()
    leader.announce_safe_time(announced, 1)
    group.cut |= {"B", "C"}
    group.propose("A", b"x")
    node = step_down(group)
    assert (node.safe_time, node.safe_index) == (announced, 1)


def test_who_led_serves_nothing_above_the_limit_of_a_majority() -> None:
    """A later leader starts above that, and may write below what was announced."""
    group = Group()
    leader = group.elect()
    group.run(1)
    group.cut |= {"B", "C"}
    group.hybrid_time += 10 * LEAD
    limit = leader.timestamp_limit
    group.run(OPTIONS.heartbeat)
    assert leader.clock_limit > leader.timestamp_limit == limit, "a round that nobody has heard"
    leader.announce_safe_time(group.hybrid(), 1)
    assert step_down(group).safe_time == limit


def test_who_led_without_serving_vouches_for_nothing() -> None:
    """It does not know what earlier leaders have committed."""
    node = elected(10.0)
    answer(node, "B", 1, 10.0)
    assert not node.is_serving
    node.announce_safe_time(1500, 1)
    node.step(Tick(), 20.0)
    assert (node.role, node.safe_time) == (RaftRole.FOLLOWER, 0)


def test_who_led_and_announced_nothing_serves_what_it_was_told_before() -> None:
    group = Group()
    group.elect("B").announce_safe_time(group.hybrid(), 1)
    group.run(1)
    told = group.nodes["A"].safe_time
    assert told > 0
    group.step("B", Transfer("A"))
    group.settle()
    assert group.leaders == ["A"]
    node = step_down(group)
    assert (node.safe_time, node.safe_index) == (told, 1)


def test_a_later_leader_that_replaces_undecided_entries_adds_nothing_to_the_safe_time() -> None:
    """Its message ends the leadership and changes the log in one step."""
    group = Group()
    leader = group.elect()
    group.run(1)
    group.cut |= {"B", "C"}
    group.propose("A", b"lost")
    lost = group.logs["A"].stored[1].timestamp
    leader.announce_safe_time(group.hybrid(), 2)
    other = Entry(2, 2, leader.timestamp_limit + 1, WRITE, b"other")
    group.step("A", Received(AppendRequest("B", 2, 1, 1, 1, 2, (other,))))
    assert (leader.commit_index, leader.safe_time, leader.safe_index) == (2, lost - 1, 1)
    later = leader.clock_limit + LEAD
    group.step("A", Received(AppendRequest("B", 2, 2, 2, 2, 2, safe_time=later, safe_index=2)))
    assert (leader.safe_time, leader.safe_index) == (later, 2)


def test_options_must_fit_each_other() -> None:
    for wrong in ({"lease": 1.5}, {"heartbeat": 1.4}, {"heartbeat": 0.0}, {"window": 0}):
        with pytest.raises(ValueError, match="must"):
            RaftOptions(**wrong)  # type: ignore[arg-type]


def test_the_address_of_a_leader_that_no_configuration_names_comes_from_the_driver() -> None:
    node = make_node("A", "ABC")
    stranger = peers("D")[0]
    ready = node.step(Received(AppendRequest("D", 1, 1, 0, 0, 0), stranger), 0.0)
    assert ready.messages[0][0] == stranger
    assert node.leader_peer == stranger
    assert node.configuration == Configuration(peers("ABC"))
