"""Rebalancing: whatever the cluster, the moves end, keep replicas apart and leave servers even."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st
from nyala.cluster.admin.rebalance import Placed, plan_moves

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


@given(clusters())
def test_a_balanced_cluster_is_left_alone(cluster: tuple[list[Placed], list[str], list[str]]) -> None:
    tablets, servers, leaving = cluster
    at = apply(tablets, servers, leaving)
    after = [Placed(t.tablet, t.table, frozenset(at[t.tablet])) for t in tablets]
    assert plan_moves(after, servers, leaving) == []
