"""Rebalancing of any cluster: the moves end, keep replicas apart and leave servers even, including leaders."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st
from nyala.cluster.admin.rebalance import Led, Placed, plan_leaders, plan_moves
from nyala.cluster.locations import most_per_location, worse

SERVERS = ["a", "b", "c", "d", "e"]


@st.composite
def clusters(draw: st.DrawFn) -> tuple[list[Placed], list[str], list[str]]:
    servers = SERVERS[: draw(st.integers(1, 5))]
    replicas = draw(st.integers(1, min(3, len(servers))))
    tablets = [
        Placed(f"p{number}", draw(st.sampled_from("xyz")), frozenset(draw(st.permutations(servers))[:replicas]))
        for number in range(draw(st.integers(0, 14)))
    ]
    spare = len(servers) - replicas
    return tablets, servers, servers[: draw(st.integers(0, spare))]


def apply(tablets: list[Placed], servers: list[str], leaving: list[str]) -> dict[str, set[str]]:
    at = {tablet.tablet: set(tablet.servers) for tablet in tablets}
    for move in plan_moves(tablets, servers, leaving):
        assert move.source in at[move.tablet], "there is something to move"
        assert move.target not in at[move.tablet], "two replicas on one server"
        assert move.target not in leaving
        at[move.tablet].remove(move.source)
        at[move.tablet].add(move.target)
    return at


@given(clusters())
def test_moves_leave_servers_even_and_leaving_ones_empty(cluster: tuple[list[Placed], list[str], list[str]]) -> None:
    tablets, servers, leaving = cluster
    at = apply(tablets, servers, leaving)
    kept = [server for server in servers if server not in leaving]
    assert not any(server in where for where in at.values() for server in leaving)
    for table in "xyz":
        mine = [at[tablet.tablet] for tablet in tablets if tablet.table == table]
        counts = Counter(server for where in mine for server in where)
        assert max(counts[s] for s in kept) - min(counts[s] for s in kept) <= 2
    counts = Counter(server for where in at.values() for server in where)
    assert max(counts[s] for s in kept) - min(counts[s] for s in kept) <= 2


@given(clusters(), st.lists(st.sampled_from(["/dc/1", "/dc/2", "/dc/3"]), min_size=5, max_size=5))
def test_moves_spread_tablets_over_locations_and_end(
    cluster: tuple[list[Placed], list[str], list[str]], places: list[str]
) -> None:
    tablets, servers, leaving = cluster
    locations = dict(zip(servers, places))
    at = {tablet.tablet: set(tablet.servers) for tablet in tablets}
    for move in plan_moves(tablets, servers, leaving, locations):
        where = at[move.tablet]
        before = worse(where, len(where), locations)
        assert move.source in where and move.target not in where and move.target not in leaving
        where ^= {move.source, move.target}
        assert move.source in leaving or worse(where, len(where), locations) <= before
    kept = [server for server in servers if server not in leaving]
    sizes = Counter(locations[server] for server in kept)
    for where in at.values():
        can_be = sum(min(size, most_per_location(len(where))) for size in sizes.values()) >= len(where)
        assert not can_be or worse(where, len(where), locations) == 0
    after = [Placed(t.tablet, t.table, frozenset(at[t.tablet])) for t in tablets]
    assert plan_moves(after, servers, leaving, locations) == []


@given(clusters())
def test_a_balanced_cluster_is_left_alone(cluster: tuple[list[Placed], list[str], list[str]]) -> None:
    tablets, servers, leaving = cluster
    at = apply(tablets, servers, leaving)
    after = [Placed(t.tablet, t.table, frozenset(at[t.tablet])) for t in tablets]
    assert plan_moves(after, servers, leaving) == []


def hand_over(tablets: list[Led], servers: list[str]) -> dict[str, str]:
    leaders = {tablet.tablet: tablet.leader for tablet in tablets}
    can_lead = {tablet.tablet: tablet.servers for tablet in tablets}
    for move in plan_leaders(tablets, servers):
        assert leaders[move.tablet] == move.source != move.target
        assert move.target in can_lead[move.tablet] and move.target in servers
        leaders[move.tablet] = move.target
    return leaders


@given(clusters(), st.randoms(use_true_random=False))
def test_leaders_are_even_where_all_servers_have_replicas(
    cluster: tuple[list[Placed], list[str], list[str]], rng: random.Random
) -> None:
    placed, servers, _ = cluster
    everywhere = [Led(t.tablet, t.table, rng.choice(servers), frozenset(servers)) for t in placed]
    leaders = hand_over(everywhere, servers)
    for mine in ([t for t in everywhere if t.table in tables] for tables in ("x", "y", "z", "xyz")):
        counts = Counter(leaders[t.tablet] for t in mine)
        assert max(counts[s] for s in servers) - min(counts[s] for s in servers) <= 1


@given(clusters(), st.randoms(use_true_random=False))
def test_leaders_are_handed_over_once_wherever_replicas_are(
    cluster: tuple[list[Placed], list[str], list[str]], rng: random.Random
) -> None:
    placed, servers, leaving = cluster
    led = [Led(t.tablet, t.table, rng.choice(sorted(t.servers)), t.servers) for t in placed]
    kept = [server for server in servers if server not in leaving]
    leaders = hand_over(led, kept)
    assert plan_leaders([replace(t, leader=leaders[t.tablet]) for t in led], kept) == []


def test_leaders_go_by_way_of_another_where_no_replica_is_at_both() -> None:
    led = [
        Led("p0", "t", "a", frozenset("ab")),
        Led("p1", "t", "a", frozenset("ab")),
        Led("p2", "t", "b", frozenset("bc")),
    ]
    assert sorted(hand_over(led, ["a", "b", "c"]).values()) == ["a", "b", "c"]
