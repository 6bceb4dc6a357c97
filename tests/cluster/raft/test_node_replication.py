"""Replication of entries from a leader to its peers, and their commit. Sections are those of Ongaro's thesis."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from nyala.cluster.raft.events import Persisted, Propose, RaftRole, Ready, Received, Renew, Send, Tick
from nyala.cluster.raft.messages import AppendRequest, AppendResponse, Configuration, Entry, VoteResponse
from nyala.cluster.raft.node import RaftNode, RaftOptions
from nyala.errors import NotTheLeader
from nyala.storage.log.wal_format import EntryKind
from raft_node_support import (
    OPTIONS,
    WRITE,
    Group,
    MemoryLog,
    log_of,
    make_node,
    messages,
    missing,
    peers,
)


def entries(*terms: int, first: int = 1) -> tuple[Entry, ...]:
    return tuple(Entry(term, first + n, n, WRITE, b"") for n, term in enumerate(terms))


def append(
    previous_term: int, previous_index: int, *terms: int, term: int = 5, commit: int = 0, round: int = 1
) -> Received:
    sent = entries(*terms, first=previous_index + 1)
    return Received(AppendRequest("B", term, round, previous_term, previous_index, commit, sent))


# ---- followers ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("own", "previous", "sent", "left", "cut"),
    [
        ([], (0, 0), [1, 1], [1, 1], None),
        ([1, 1], (1, 2), [2], [1, 1, 2], None),
        ([1, 1], (1, 1), [1, 2], [1, 1, 2], None),  # the first is there already
        ([1, 1, 2], (1, 1), [1], [1, 1, 2], None),  # overtaken by later ones: no conflict
        ([1, 1, 2, 2], (1, 2), [3], [1, 1, 3], 2),
        ([1, 1, 2, 2], (0, 0), [1, 1, 4], [1, 1, 4], 2),
        ([1, 2], (0, 0), [3], [3], 0),
        ([1, 1], (1, 3), [2], None, None),  # a gap
        ([1, 1], (2, 2), [3], None, None),  # another entry there
    ],
)
def test_entries_are_taken_where_the_one_before_agrees(
    own: list[int], previous: tuple[int, int], sent: list[int], left: list[int] | None, cut: int | None
) -> None:  # 3.5
    log = log_of(own)
    node = make_node(log=log, term=5)
    ready = node.step(append(*previous, *sent), 0.0)
    assert [entry.term for entry in log.stored] == (own if left is None else left)
    assert ready.truncated_to == cut
    refusals = [answer for answer in messages(ready, AppendResponse) if not answer.accepted]  # type: ignore[union-attr]
    assert len(refusals) == (left is None)


def test_a_refusal_names_the_committed_index() -> None:
    node = make_node(log=log_of([1, 1, 2, 2]), term=5)
    node.step(append(1, 2, commit=2), 0.0)
    assert messages(node.step(append(5, 9, round=7), 0.0)) == [AppendResponse("A", 5, 7, False, 2)]


def test_entries_are_acknowledged_when_they_are_durable() -> None:  # 10.2.1
    node = make_node(term=5)
    assert not node.step(append(0, 0, 5, 5, round=3), 0.0).messages
    assert messages(node.step(append(5, 2, round=4), 0.0)) == [AppendResponse("A", 5, 4, True, 0)], "a heartbeat"
    assert messages(node.step(Persisted(1, 5), 0.0)) == [AppendResponse("A", 5, 4, True, 1)]
    assert messages(node.step(Persisted(2, 5), 0.0)) == [AppendResponse("A", 5, 4, True, 2)]
    assert not node.step(Persisted(2, 5), 0.0).messages
    assert messages(node.step(append(0, 0, 5, 5, round=5), 0.0)) == [AppendResponse("A", 5, 5, True, 2)], "again"


def test_only_what_agrees_with_this_leader_is_acknowledged() -> None:
    node = make_node(log=log_of([1, 1, 2, 2]), term=5)
    assert messages(node.step(append(1, 2), 0.0)) == [AppendResponse("A", 5, 1, True, 2)], "3 and 4 may differ"


def test_news_of_a_sync_from_before_a_cut_is_no_news() -> None:
    node = make_node(log=log_of([1, 1]), term=5)
    node.step(append(1, 1, 5, 5, 5), 0.0)
    assert node.durable_index == 1
    assert not node.step(Persisted(2, 1), 0.0).messages
    assert not node.step(Persisted(9, 5), 0.0).messages
    assert node.durable_index == 1


def test_a_follower_commits_what_agrees_and_no_more() -> None:
    node = make_node(log=log_of([1, 1, 2, 2]), term=5)
    assert node.step(append(1, 2, commit=4), 0.0).commit_index == 2
    assert node.step(append(1, 2, 5, commit=4), 0.0).commit_index == 3
    assert node.step(append(1, 1, commit=1), 0.0).commit_index is None, "it never goes back"


def test_committed_entries_are_never_cut_off() -> None:
    log = log_of([1, 1, 1])
    node = make_node(log=log, term=5)
    node.step(append(1, 3, commit=3), 0.0)
    for wrong in (append(1, 1, 4, 4), append(2, 2, 4), append(4, 3), append(4, 3, 4)):  # no leader could send this
        ready = node.step(wrong, 0.0)
        assert "committed here" in ready.ignored
        assert not ready.messages
    assert [entry.term for entry in log.stored] == [1, 1, 1]


def test_a_follower_agrees_below_the_base_of_its_log() -> None:
    log = log_of([3, 3], base_index=10, base_term=2)
    node = make_node(log=log, term=5)
    assert node.commit_index == 10
    node.step(append(1, 8, 2, 2, 3, 5), 0.0)
    assert [entry.term for entry in log.stored] == [3, 5]


@pytest.mark.parametrize(
    "request_",
    [
        AppendRequest("B", 5, 1, 0, -1, 0),
        AppendRequest("B", 5, 1, 6, 0, 0),
        AppendRequest("B", 5, 1, 0, 0, 0, entries(1, first=2)),
        AppendRequest("B", 5, 1, 0, 0, 0, (*entries(1), *entries(1, first=3))),
        AppendRequest("B", 5, 1, 0, 0, 0, entries(2, 1)),
        AppendRequest("B", 5, 1, 0, 0, 0, entries(6)),
        AppendRequest("B", 5, 1, 0, 0, 0, (Entry(5, 1, 0, int(EntryKind.CONFIGURATION), b"?"),)),
        AppendRequest("A", 5, 1, 0, 0, 0),
        AppendRequest("B", -1, 1, 0, 0, 0),
    ],
)
def test_nonsense_is_ignored_and_named(request_: AppendRequest) -> None:
    log = MemoryLog()
    node = make_node(log=log, term=5)
    ready = node.step(Received(request_), 0.0)
    assert ready.ignored
    assert not ready.messages
    assert not log.stored


def test_two_leaders_in_one_term_cannot_be() -> None:
    node = make_node(term=5)
    node.step(append(0, 0), 0.0)
    assert node.step(Received(AppendRequest("C", 5, 1, 0, 0, 0)), 0.0).ignored
    assert node.leader == "B"


# ---- leaders ------------------------------------------------------------------------------------------------------


def test_a_term_begins_with_an_entry_that_makes_the_leader_serve() -> None:  # 6.4, step 1
    group = Group()
    group.slow |= {"A", "B", "C"}
    leader = group.elect()
    (first,) = group.logs["A"].stored
    assert (first.kind, first.term) == (EntryKind.NO_OP, 1)
    assert (leader.is_serving, leader.commit_index) == (False, 0)
    group.slow.clear()
    group.settle()
    assert (leader.is_serving, leader.commit_index) == (True, 1)
    assert any(ready.is_leader_changed and ready.commit_index == 1 for ready in group.readies["A"])


def test_a_majority_of_others_is_enough_and_the_leader_alone_is_not() -> None:  # 10.2.1
    group = Group()
    leader = group.elect()
    group.slow = {"A"}
    group.propose("A", b"x")
    group.settle()
    assert (leader.commit_index, leader.durable_index) == (2, 1)
    group.slow = {"B", "C"}
    group.propose("A", b"y")
    group.settle()
    assert (leader.commit_index, leader.durable_index) == (2, 3)
    group.slow = {"C"}
    group.settle()
    assert leader.commit_index == 3


def test_entries_of_earlier_terms_are_committed_by_one_of_this_term_only() -> None:  # 3.6.2, figure 3.7
    node = make_node(log=log_of([1, 2]), term=3)
    node.step(Tick(), node.deadline)
    node.step(Received(VoteResponse("B", 4, True, pre=True)), 3.0)
    node.step(Received(VoteResponse("B", 4, True)), 3.0)
    assert node.role is RaftRole.LEADER
    assert node.step(Received(AppendResponse("B", 4, 1, True, 2)), 3.0).commit_index is None
    node.step(Persisted(3, 4), 3.0)
    assert node.step(Received(AppendResponse("C", 4, 1, True, 3)), 3.0).commit_index == 3


def bodies_sent(group: Group, to: str) -> list[list[bytes]]:
    """Returns the bodies by message with entries that the leader A has sent a peer."""
    sent = [message for ready in group.readies["A"] for peer, message in ready.messages if peer.id == to]
    found = [[entry.body for entry in message.entries] for message in sent if isinstance(message, AppendRequest)]
    return [bodies for bodies in found if bodies]


def test_small_proposals_wait_for_an_answer_and_go_together() -> None:
    group = Group()
    group.elect()
    group.readies["A"].clear()
    for n in range(5):
        group.propose("A", b"%d" % n)
    assert bodies_sent(group, "B") == [[b"0"]], "at once, where nothing is on its way"
    group.settle()
    assert bodies_sent(group, "B") == [[b"0"], [b"1", b"2", b"3", b"4"]]
    assert group.bodies("A") == [b"0", b"1", b"2", b"3", b"4"]
    assert group.logs["B"].last_index == 6


def sent_entries(ready: Ready) -> list[int]:
    """Returns the number of entries of each message."""
    return [len(message.entries) for message in messages(ready, AppendRequest)]  # type: ignore[union-attr]


def test_proposals_wait_for_those_whose_entries_were_committed_just_now() -> None:
    group = Group(options=replace(OPTIONS, gathers=True))
    group.elect()
    assert sent_entries(group.propose("A", b"1")) == [1, 1], "nobody else is awaited"
    for body in (b"2", b"3"):
        assert sent_entries(group.propose("A", body)) == [], "the first is on its way"
    group.settle()
    assert group.bodies("A") == [b"1"]
    assert sent_entries(group.propose("A", b"4")) == [3, 3], "who proposed the first has come again"
    group.settle()
    held = group.propose("A", b"5")
    assert (sent_entries(held), held.is_held) == ([], True), "two more are awaited"
    again = group.step("A", Send())
    assert (sent_entries(again), again.is_held) == ([], True), "there is reason still"
    assert group.propose("A", b"6").is_held
    whole = group.propose("A", b"7")
    assert (sent_entries(whole), whole.is_held) == ([3, 3], False)
    group.settle()
    assert group.propose("A", b"8").is_held
    group.now += 0.01
    late = group.step("A", Send())
    assert (sent_entries(late), late.is_held) == ([1, 1], False), "a moment has passed"
    group.settle()
    assert sent_entries(group.propose("A", b"9")) == [1, 1], "who did not come is awaited no more"
    group.settle()
    assert group.bodies("A") == [b"%d" % number for number in range(1, 10)]


def test_whole_batches_are_sent_without_waiting_up_to_the_window() -> None:
    group = Group(options=RaftOptions(window=3, max_batch_bytes=4))
    group.elect()
    group.readies["A"].clear()
    for n in range(9):
        group.propose("A", b"%03d" % n)
    assert bodies_sent(group, "B") == [[b"000"], [b"001"], [b"002"]]
    group.settle()
    assert len(group.bodies("A")) == 9
    assert group.logs["B"].last_index == 10


def test_messages_are_cut_by_bytes() -> None:
    group = Group(options=RaftOptions(max_batch_bytes=10))
    group.elect()
    group.readies["A"].clear()
    group.propose("A", *[b"12345"] * 5, b"x" * 100)
    assert [len(bodies) for bodies in bodies_sent(group, "B")] == [2, 2, 1], "the last one is no whole batch yet"
    group.settle()
    assert [len(bodies) for bodies in bodies_sent(group, "B")] == [2, 2, 1, 1]


def test_peers_that_are_equally_far_get_the_same_message() -> None:
    group = Group()
    group.elect()
    first, second = messages(group.propose("A", b"x"))
    assert first is second


@pytest.mark.parametrize("lost", [1, 2, 4])
def test_a_lost_message_is_noticed_at_the_next(lost: int) -> None:
    group = Group(options=RaftOptions(max_batch_bytes=1))
    group.elect()
    for n in range(5):
        group.propose("A", b"%d" % n * 2)
        if n + 1 == lost:
            group.wire = [(id, message) for id, message in group.wire if id != "B"]
    group.settle()
    assert group.logs["B"].last_index == 6
    assert group.nodes["A"].peer_progress()["B"].match_index == 6


def test_a_lost_message_is_noticed_by_the_heartbeat_if_there_is_no_next() -> None:
    group = Group()
    group.elect()
    group.propose("A", b"x")
    group.wire.clear()
    group.settle()
    assert group.logs["B"].last_index == 1
    group.run(OPTIONS.heartbeat)
    assert group.bodies("A") == [b"x"]
    group.run(OPTIONS.heartbeat)
    assert group.bodies("B") == group.bodies("C") == [b"x"]


def test_one_loss_sends_the_rest_once_more_only() -> None:
    group = Group(options=RaftOptions(max_batch_bytes=1))
    group.elect()
    group.propose("A", *[b"%d" % n for n in range(9)])  # the last is held back
    lost = group.wire.index(next((id, message) for id, message in group.wire if id == "B"))
    del group.wire[lost]
    group.settle()
    sent = [m for ready in group.readies["A"] for peer, m in ready.messages if peer.id == "B"]
    bodies = [entry.body for message in sent if isinstance(message, AppendRequest) for entry in message.entries]
    assert bodies.count(b"7") == 2, "seven refusals of one loss"


def test_a_peer_whose_log_differs_is_brought_in_line_from_its_committed_index() -> None:  # figure 3.6
    for terms in ([1, 1, 1, 4, 4, 5, 5, 6, 6], [1, 1, 1, 4], [1, 1, 1, 4, 4, 4, 4], [1, 1, 1, 2, 2, 2, 3, 3, 3, 3, 3]):
        group = Group("ABC")
        for id, own in {"A": [1, 1, 1, 4, 4, 5, 5, 6, 6, 6], "B": terms, "C": terms}.items():
            group.logs[id].append(log_of(own).stored)
            group.start(id, Configuration(peers("ABC")), is_new=True)
            group.nodes[id] = RaftNode(
                id,
                group.logs[id],
                group.nodes[id].hard_state.__class__(7, ""),
                Configuration(peers("ABC")),
                OPTIONS,
                now=group.now,
                random=random.Random(id),
                hybrid=group.hybrid,
                is_new=True,
            )
        group.elect()
        assert [entry.term for entry in group.logs["B"].stored] == [1, 1, 1, 4, 4, 5, 5, 6, 6, 6, 8], terms


def test_a_dead_peer_is_sent_a_window_and_then_heartbeats_only() -> None:
    group = Group(options=RaftOptions(window=2))
    group.elect()
    group.cut.add("C")
    for _ in range(10):
        group.propose("A", b"x")
        group.settle()
    group.run(5)
    progress = group.nodes["A"].peer_progress()["C"]
    assert (len(progress.in_flight), progress.match_index) == (2, 1)
    late = [m for r in group.readies["A"][-5:] for p, m in r.messages if p.id == "C" and isinstance(m, AppendRequest)]
    assert late
    assert not any(message.entries for message in late)
    group.cut.clear()
    group.run(1)
    assert len(group.bodies("C")) == 10


def test_who_does_not_lead_takes_no_proposals() -> None:
    group = Group()
    group.elect()
    with pytest.raises(NotTheLeader) as caught:
        group.propose("B", b"x")
    assert (caught.value.leader, caught.value.term) == ("A:1", 1)


@pytest.mark.parametrize(
    "response",
    [AppendResponse("B", 1, 1, True, 99), AppendResponse("B", 1, 99, True, 1), AppendResponse("Z", 1, 1, True, 1)],
)
def test_nonsense_in_answers_changes_nothing(response: AppendResponse) -> None:
    group = Group()
    leader = group.elect()
    group.propose("A", b"x")
    group.step("A", Received(response))
    assert (leader.commit_index, leader.peer_progress()["B"].match_index, leader.role) == (1, 1, RaftRole.LEADER)


def test_the_same_events_give_the_same_results() -> None:
    def play() -> list[object]:
        group = Group("ABCDE")
        group.run(4)
        for leader in group.leaders:
            group.propose(leader, b"x", b"y")
        group.cut.add(group.leaders[0])
        group.run(8)
        return [ready for id in group.nodes for ready in group.readies[id]]

    assert play() == play()


# ---- peers that the log cannot serve ------------------------------------------------------------------------------


def behind_the_log() -> Group:
    """A leads with entries 1 to 7, the first five removed from its log; C has only the first, and was partitioned."""
    group = Group()
    group.elect()
    group.cut.add("C")
    group.propose("A", *[b"x"] * 6)
    group.settle()
    group.logs["A"].remove_through(5)
    group.cut.clear()
    return group


def bootstraps(group: Group) -> list[str]:
    return [peer.id for ready in group.readies["A"] for peer in ready.bootstraps]


def test_a_peer_behind_the_log_is_to_copy_the_data() -> None:
    group = behind_the_log()
    group.run(OPTIONS.heartbeat)
    assert bootstraps(group) == ["C"]
    group.run(10 * OPTIONS.election_timeout)
    assert 5 <= len(bootstraps(group)) <= 11, "again, but not more often than once per election timeout"
    assert group.logs["C"].last_index == 1
    assert (group.leaders, group.nodes["C"].leader) == (["A"], "A"), "heartbeats go on"


def test_a_peer_that_has_its_copy_goes_on_from_there() -> None:
    group = behind_the_log()
    group.run(OPTIONS.heartbeat)
    group.logs["C"] = log_of([], base_index=6, base_term=1)
    group.start("C", Configuration(peers("ABC")))
    group.propose("A", b"y")
    group.run(2 * OPTIONS.heartbeat)
    assert group.logs["C"].last_index == 8
    assert group.nodes["C"].commit_index == 8
    group.readies["A"].clear()
    group.run(5)
    assert not bootstraps(group)


def test_a_dead_peer_is_not_asked_to_copy() -> None:
    group = Group()
    group.elect()
    group.cut.add("C")
    group.propose("A", *[b"x"] * 6)
    group.settle()
    group.logs["A"].remove_through(5)
    group.run(10)
    assert not bootstraps(group)


def test_a_peer_that_has_the_entries_but_forgot_the_commit_need_not_copy() -> None:
    group = Group()
    group.elect()
    group.propose("A", *[b"x"] * 6)
    group.run(1)
    group.logs["A"].remove_through(5)
    group.start("C", Configuration(peers("ABC")))
    group.cut = {"C"}
    group.propose("A", b"y")
    group.settle()
    group.cut = set()
    group.nodes["A"].peer_progress()["C"].match_index = 0  # as with a new leader
    group.run(2)
    assert not bootstraps(group)
    assert group.nodes["C"].commit_index == 8


def test_a_server_without_data_is_to_copy_it() -> None:
    group = Group()
    leader = group.elect()
    group.propose("A", b"x")
    group.settle()
    ready = group.step("A", missing("C", 1, 1))
    assert [peer.id for peer in ready.bootstraps] == ["C"]
    assert leader.peer_progress()["C"].match_index == 0, "what it said it had is gone"
    assert not group.step("A", missing("C", 1, 1)).bootstraps
    group.propose("A", b"y")
    assert not [m for id, m in group.wire if id == "C" and isinstance(m, AppendRequest) and m.entries]
    group.wire.clear()
    group.step("A", Renew())
    (heartbeat,) = [message for id, message in group.wire if id == "C"]
    assert isinstance(heartbeat, AppendRequest)
    assert heartbeat.previous_index == 0


def test_propose_is_refused_while_it_is_not_for_this_term() -> None:
    node = make_node("A", "A", clock_limit=5000)
    node.step(Tick(), 0.0)
    assert node.timestamp_floor == 5000
    with pytest.raises(NotTheLeader, match="before the leadership"):
        node.step(Propose(((5000, WRITE, b""),)), 0.0)
    node.step(Propose(((5001, WRITE, b""),)), 0.0)
