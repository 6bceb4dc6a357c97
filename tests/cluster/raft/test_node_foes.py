"""A faulty peer, or one of another version, may send anything that can be decoded: no node stops or loses state by
it."""

from __future__ import annotations

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st
from nyala.cluster.raft.events import Campaign, Received, Renew, Tick
from nyala.cluster.raft.membership import CONFIGURATION, encode_configuration
from nyala.cluster.raft.messages import (
    AppendRequest,
    AppendResponse,
    Configuration,
    Entry,
    Message,
    TransferRequest,
    VoteRequest,
    VoteResponse,
)
from raft_node_support import OPTIONS, WRITE, Group, make_node, peers

SENDERS = st.sampled_from("ABCZ")
NUMBERS = st.one_of(st.integers(-1, 6), st.sampled_from([-(1 << 63), (1 << 63) - 1, 1 << 63]))
BODIES = st.sampled_from([b"", b"x", b"\xc1", encode_configuration(Configuration(())), b"\x92\x90\x00"])
ENTRIES = st.lists(
    st.builds(Entry, NUMBERS, NUMBERS, NUMBERS, st.sampled_from([WRITE, CONFIGURATION, 99]), BODIES), max_size=3
).map(tuple)
FLAGS = st.booleans()
MESSAGES = st.one_of(
    st.builds(VoteRequest, SENDERS, NUMBERS, NUMBERS, NUMBERS, FLAGS, FLAGS),
    st.builds(VoteResponse, SENDERS, NUMBERS, FLAGS, FLAGS, NUMBERS),
    st.builds(
        AppendRequest,
        SENDERS, NUMBERS, NUMBERS, NUMBERS, NUMBERS, NUMBERS, ENTRIES, NUMBERS, NUMBERS, NUMBERS,
    ),
    st.builds(AppendResponse, SENDERS, NUMBERS, NUMBERS, FLAGS, NUMBERS, FLAGS),
    st.builds(TransferRequest, SENDERS, NUMBERS),
)  # fmt: skip


@given(st.lists(MESSAGES, max_size=12), st.sampled_from(["follower", "leader", "candidate", "learner"]))
def test_no_message_stops_a_node(sent: list[Message], start: str) -> None:
    group = Group("ABCd" if start == "learner" else "ABC")
    if start == "candidate":
        group.step("A", Campaign())
    else:
        group.elect()
        group.propose("A", b"x", b"y")
        group.settle()
    id = {"follower": "B", "leader": "A", "candidate": "A", "learner": "D"}[start]
    node, log = group.nodes[id], group.logs[id]
    for message in sent:
        term, commit_index = node.term, node.commit_index
        committed = log.stored[:commit_index]
        for event in (Received(message), Tick(), Renew()):
            node.step(event, group.now)
            group.now += 0.3
        assert node.term >= term
        assert node.commit_index >= commit_index
        assert log.stored[:commit_index] == committed
        assert node.commit_index <= log.last_index


@pytest.mark.parametrize("term", [-1, 1 << 62, 1 << 80])
def test_terms_that_cannot_be_counted_on_from_are_nonsense(term: int) -> None:
    node = make_node()
    assert node.step(Received(VoteRequest("B", term, 0, 0)), 0.0).ignored
    assert node.term == 0


def test_an_answer_from_outside_the_configuration_ends_no_term() -> None:
    group = Group()
    leader = group.elect()
    group.step("A", Received(AppendResponse("Z", 9, 1, False, 0)))
    assert leader.term == 1


def test_a_configuration_without_voters_has_no_leader() -> None:
    node = make_node("A", "ABC")
    entry = Entry(1, 1, 1, CONFIGURATION, encode_configuration(Configuration(peers("abc"))))
    node.step(Received(AppendRequest("B", 1, 1, 0, 0, 0, (entry,))), 0.0)
    assert not node.step(Campaign(), 100.0).messages


def test_shorter_timeouts_need_no_lease_of_their_own() -> None:
    options = dataclasses.replace(OPTIONS, heartbeat=0.05, election_timeout=0.2, lease=0.0)
    assert options.lease == pytest.approx(0.18)
