import random
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st
from nyala.cluster.locations import most_per_location, worse
from nyala.cluster.master.balance.placement import Loads, Takers, place_tablets, replication_factor
from nyala.errors import ClusterError


@pytest.mark.parametrize(
    ("requested", "live", "factor"), [(None, 1, 1), (None, 2, 1), (None, 3, 3), (None, 7, 3), (1, 5, 1), (5, 5, 5)]
)
def test_replication_factor(requested: int | None, live: int, factor: int) -> None:
    assert replication_factor(requested, Takers(live), 3) == factor


def test_a_default_does_not_shrink_with_the_servers_that_are_down() -> None:
    assert replication_factor(None, Takers(3, ("d:1",)), 3) == 3
    assert replication_factor(1, Takers(1, ("b:1", "c:1")), 3) == 1
    with pytest.raises(ClusterError) as told:
        replication_factor(None, Takers(1, ("b:1", "c:1")), 3)
    assert str(told.value) == (
        "3 replicas need at least 3 tablet servers: 1 is alive and b:1, c:1 are dead or not heard from yet. Start "
        "them, "
        "or request fewer, which the table then keeps: REPLICAS 1"
    )


@pytest.mark.parametrize(
    ("requested", "live", "silent", "words"),
    [
        (3, 1, (), "^3 replicas need at least 3 tablet servers: 1 is alive$"),
        (5, 4, ("e:1",), "^5 replicas need .*: 4 are alive and e:1 is dead or not heard from yet$"),
        (None, 0, (), "no tablet server"),
        (None, 0, ("a:1",), "^1 replica needs at least 1 tablet server: 0 are alive and a:1 is dead [^.]*$"),
    ],
)
def test_too_few_servers(requested: int | None, live: int, silent: tuple[str, ...], words: str) -> None:
    with pytest.raises(ClusterError, match=words):
        replication_factor(requested, Takers(live, silent), 3)


@given(
    servers=st.integers(1, 9),
    tablets=st.integers(0, 40),
    replicas=st.sampled_from([1, 3, 5]),
    before=st.lists(st.integers(0, 8), max_size=40),
    seed=st.integers(0, 1000),
)
def test_a_table_is_spread_evenly(servers: int, tablets: int, replicas: int, before: list[int], seed: int) -> None:
    replicas = min(replicas, servers)
    loads = Loads()
    for server in before:
        loads.add("other", f"s{server}")
    addresses = {f"s{i}": f"host:{i}" for i in range(servers)}
    placed = place_tablets("t", tablets, replicas, addresses, loads, random.Random(seed))

    assert len(placed) == tablets
    for configuration in placed:
        assert len({peer.id for peer in configuration.peers}) == replicas
        assert all(peer.address == addresses[peer.id] for peer in configuration.peers)
    counts = Counter(peer.id for c in placed for peer in c.peers)
    assert max(counts.values(), default=0) - min((counts[s] for s in addresses), default=0) <= 1
    leaders = Counter(c.peers[0].id for c in placed)
    assert max(leaders.values(), default=0) - min((leaders[s] for s in addresses), default=0) <= 2


def test_a_server_that_has_joined_is_filled_but_not_flooded() -> None:
    """Tables of one tablet: most go to the empty server, as often as it is drawn."""
    loads = Loads()
    for i in range(9):
        loads.replicas[f"s{i}"] = 100
    addresses = {f"s{i}": "host:1" for i in range(10)}
    rng = random.Random(1)
    for i in range(50):
        place_tablets(f"t{i}", 1, 1, addresses, loads, rng)
    new = loads.replicas["s9"]
    assert 5 <= new <= 25


@given(
    sizes=st.lists(st.integers(1, 4), min_size=1, max_size=5),
    tablets=st.integers(1, 20),
    replicas=st.sampled_from([1, 3, 5, 7]),
    before=st.lists(st.integers(0, 19), max_size=40),
    seed=st.integers(0, 1000),
)
def test_no_location_has_a_majority_where_that_can_be_avoided(
    sizes: list[int], tablets: int, replicas: int, before: list[int], seed: int
) -> None:
    locations = {f"s{place}.{n}": f"/dc/{place}" for place, size in enumerate(sizes) for n in range(size)}
    replicas = max(n for n in (1, 3, 5, 7) if n <= min(replicas, len(locations)))
    loads = Loads()
    for number in before:
        loads.add("t", sorted(locations)[number % len(locations)])
    addresses = dict.fromkeys(locations, "host:1")
    placed = place_tablets("t", tablets, replicas, addresses, loads, random.Random(seed), locations)
    can_be = sum(min(size, most_per_location(replicas)) for size in sizes) >= replicas
    for configuration in placed:
        servers = [peer.id for peer in configuration.peers]
        assert len(set(servers)) == replicas
        counts = Counter(locations[server] for server in servers)
        if can_be:
            assert worse(servers, replicas, locations) == 0
        elif all(size >= replicas for size in sizes):
            assert max(counts.values()) <= -(-replicas // len(sizes)) + 1
